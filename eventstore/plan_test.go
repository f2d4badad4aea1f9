package eventstore

import (
	"encoding/json"
	"strings"
	"testing"
)

// plan is a statement's plan as it was carried out.
type plan struct {
	text  string
	nodes []planNode
}

type planNode struct {
	Type      string     `json:"Node Type"`
	Relation  string     `json:"Relation Name"`
	Index     string     `json:"Index Name"`
	Rows      float64    `json:"Actual Rows"`
	Loops     float64    `json:"Actual Loops"`
	ByFilter  float64    `json:"Rows Removed by Filter"`
	ByRecheck float64    `json:"Rows Removed by Index Recheck"`
	Plans     []planNode `json:"Plans"`
}

// explain carries the statement out as the application does, with literals for
// its parameters: by a plan that was made without them.
func (w *world) explain(t *testing.T, sql string, args []string) plan {
	t.Helper()
	conn, err := w.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "PREPARE explained AS "+sql); err != nil {
		t.Fatal(err)
	}
	var text string
	err = conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE explained("+strings.Join(args, ", ")+")").Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "DEALLOCATE explained"); err != nil {
		t.Fatal(err)
	}
	var out []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	p := plan{text: text}
	p.add(out[0].Plan)
	return p
}

func (p *plan) add(n planNode) {
	p.nodes = append(p.nodes, n)
	for _, below := range n.Plans {
		p.add(below)
	}
}

// rowsOf is how many rows of the table were looked at.
func (p *plan) rowsOf(table string) (n int) {
	for _, node := range p.nodes {
		if node.Relation == table {
			n += int(node.Loops * (node.Rows + node.ByFilter + node.ByRecheck))
		}
	}
	return n
}

func (p *plan) uses(index string) bool {
	for _, node := range p.nodes {
		if node.Index == index {
			return true
		}
	}
	return false
}

func (p *plan) scansAll() bool {
	for _, node := range p.nodes {
		if node.Type == "Seq Scan" && strings.HasPrefix(node.Relation, "events") {
			return true
		}
	}
	return false
}
