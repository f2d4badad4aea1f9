package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
	keyLife           = 24 * time.Hour
	maxKeyBytes       = 255
)

// keyedRequest is a request with an Idempotency-Key.
//
// Its answer is kept, but that alone would not do: the process may die between
// the commit and the answer. So what the request makes bears its key in the very
// transaction that makes it: a run in run_keys, a definition in the event that
// brought it, an instant made up for in run_slots. Carried out again, it finds
// that and makes nothing more.
type keyedRequest struct {
	principal, key string
	hash           []byte
	busyUntil      time.Time // the fence of whoever carries it out
}

// digest names the request among all of all callers.
func (k *keyedRequest) digest() []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(k.principal), []byte(k.key), k.hash} {
		_, _ = fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)[:16]
}

// runKey is the key of the run that the request makes; n tells several apart.
func (k *keyedRequest) runKey(n int) string {
	return fmt.Sprintf("idempotency:%s:%d", hex.EncodeToString(k.digest()), n)
}

// cause is the request as the cause of the events that it brings about.
func (k *keyedRequest) cause() uuid.UUID {
	id := uuid.UUID(k.digest())
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: of our own making
	return id
}

// keptAnswer is an answer as it was sent.
type keptAnswer struct {
	status int
	header http.Header
	body   []byte
}

// keptHeaders are those that belong to the answer and not to its sending.
var keptHeaders = []string{"Content-Type", "Location", "ETag"}

// serveKeyed carries a request out unless it has an answer.
func (a *api) serveKeyed(w http.ResponseWriter, r *http.Request, known *route) {
	key := r.Header.Get(idempotencyHeader)
	if len(r.Header.Values(idempotencyHeader)) > 1 || len(key) > maxKeyBytes || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		a.refuse(w, r, newProblem(kindMalformed, fmt.Sprintf("%s: want one value of up to %d visible ASCII characters", idempotencyHeader, maxKeyBytes)))
		return
	}
	body, p := readAll(r, known.limit)
	if p != nil {
		a.refuse(w, r, p)
		return
	}
	c := callOf(r.Context())
	sum := sha256.Sum256([]byte(r.Method + "\n" + r.URL.RequestURI() + "\n" + string(body)))
	k := &keyedRequest{principal: c.who.actor, key: key, hash: sum[:]}
	kept, err := a.keys.claim(r.Context(), k)
	switch {
	case err != nil:
		a.refuse(w, r, problemOf(err))
		return
	case kept != nil:
		w.Header().Set(replayedHeader, "true")
		kept.send(w)
		return
	}
	c.keyed = k
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{header: w.Header(), status: http.StatusOK}
	a.mux.ServeHTTP(rec, r)
	answer := &keptAnswer{status: rec.status, header: w.Header(), body: rec.body.Bytes()}
	// The caller may be gone; its next try finds the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	if err := a.keys.settle(ctx, k, answer); err != nil {
		a.Logger.WarnContext(ctx, "answer to an Idempotency-Key could not be kept; the request can be carried out again", "request_id", c.id, "error", err)
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body)
}

func (k *keptAnswer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), k.header)
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body)
}

// recorder keeps an answer back.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header               { return r.header }
func (r *recorder) Write(b []byte) (int, error)       { return r.body.Write(b) }
func (r *recorder) WriteHeader(code int)              { r.status = code }
func (r *recorder) SetReadDeadline(_ time.Time) error { return nil } // the body is here already

// idempotencyKeys is the table of that name.
type idempotencyKeys struct {
	pool *pgxpool.Pool
	busy time.Duration // longer than a request may take
}

// Index: idempotency_keys_expiry. A few at a time, by those who add others.
const sweepKeys = `
DELETE FROM idempotency_keys WHERE (principal, key) IN (
  SELECT principal, key FROM idempotency_keys WHERE expires_at <= now() ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED)`

// Index: idempotency_keys_pkey.
const claimKey = `
INSERT INTO idempotency_keys AS k (principal, key, request, busy_until, expires_at)
VALUES ($1, $2, $3, now() + $4::interval, now() + $5::interval)
ON CONFLICT (principal, key) DO UPDATE
   SET request = excluded.request, busy_until = excluded.busy_until, expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
 WHERE k.expires_at <= now() OR k.status IS NULL AND k.busy_until <= now() AND k.request = excluded.request
RETURNING busy_until`

const selectKey = `SELECT request, status, headers, body FROM idempotency_keys WHERE principal = $1 AND key = $2`

// claim takes the key for the request, or gives the answer that it has. The
// error is a *Problem if the key is another's or in use.
func (t *idempotencyKeys) claim(ctx context.Context, k *keyedRequest) (*keptAnswer, error) {
	const tries = 3
	for range tries {
		b := &pgx.Batch{}
		b.Queue(sweepKeys)
		taken := false
		b.Queue(claimKey, k.principal, k.key, k.hash, t.busy, keyLife).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&k.busyUntil)
			taken = err == nil
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		if err := t.pool.SendBatch(ctx, b).Close(); err != nil {
			return nil, fmt.Errorf("claim idempotency key: %w", err)
		}
		if taken {
			return nil, nil
		}
		var request, headers []byte
		var status *int16
		kept := &keptAnswer{}
		err := t.pool.QueryRow(ctx, selectKey, k.principal, k.key).Scan(&request, &status, &headers, &kept.body)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // given back meanwhile
			continue
		case err != nil:
			return nil, fmt.Errorf("read idempotency key: %w", err)
		case !bytes.Equal(request, k.hash):
			return nil, newProblem(kindKeyReused, "the key was used for a request with another method, path or body: use a new key for a new request")
		case status == nil:
			return nil, keyInUse()
		}
		kept.status = int(*status)
		return kept, json.Unmarshal(headers, &kept.header)
	}
	return nil, keyInUse()
}

func keyInUse() *Problem {
	return newProblem(kindKeyBusy, "the first request with this key is being carried out").header("Retry-After", "1")
}

const (
	keepAnswer = `UPDATE idempotency_keys SET status = $5, headers = $6, body = $7
 WHERE principal = $1 AND key = $2 AND request = $3 AND busy_until = $4 AND status IS NULL`
	dropKey = `DELETE FROM idempotency_keys WHERE principal = $1 AND key = $2 AND request = $3 AND busy_until = $4 AND status IS NULL`
	freeKey = `UPDATE idempotency_keys SET busy_until = now() WHERE principal = $1 AND key = $2 AND request = $3 AND busy_until = $4 AND status IS NULL`
)

// settle keeps the answer of a request that was carried out. One that was refused
// gives its key back. After a failure that may have happened nonetheless the key
// stays the request's, for it to be repeated at once.
func (t *idempotencyKeys) settle(ctx context.Context, k *keyedRequest, answer *keptAnswer) (err error) {
	args := []any{k.principal, k.key, k.hash, k.busyUntil}
	switch {
	case answer.status >= 500:
		_, err = t.pool.Exec(ctx, freeKey, args...)
	case answer.status >= 400:
		_, err = t.pool.Exec(ctx, dropKey, args...)
	default:
		header := http.Header{}
		for _, name := range keptHeaders {
			if v := answer.header.Values(name); len(v) > 0 {
				header[http.CanonicalHeaderKey(name)] = v
			}
		}
		var headers []byte
		if headers, err = json.Marshal(header); err == nil {
			_, err = t.pool.Exec(ctx, keepAnswer, append(args, answer.status, headers, answer.body)...)
		}
	}
	return err
}
