package engine

import (
	"testing"
	"time"
)

// The keys in use or young fill the first page: the engine goes on behind it.
func TestEngineRemovesIdleKeysPageByPage(t *testing.T) {
	c := newCluster(t)
	if _, err := c.admin.Exec(t.Context(), `INSERT INTO limit_keys (key, made_at)
		SELECT 'limit:' || lpad(i::text, 5, '0'), CASE WHEN i < $1 THEN now() ELSE '2020-01-01' END FROM generate_series(0, $1 + 99) i`, sweepPage); err != nil {
		t.Fatal(err)
	}
	c.startEngine("engine-1")
	c.await(sweepPage, 30*time.Second, "SELECT count(*) FROM limit_keys")
}
