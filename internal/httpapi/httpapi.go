// Package httpapi serves health, metrics and the worker protocol over HTTP.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/daybookhq/daybook/worker/protocol"
)

// Worker answers calls of the worker protocol.
type Worker interface {
	Handle(ctx context.Context, op, actor string, body []byte) []byte
}

// Config says what is served.
type Config struct {
	Work   Worker                          // nil: no worker protocol
	Ready  func(ctx context.Context) error // why the process is not ready; nil if it is
	Gather prometheus.Gatherer
	Logger *slog.Logger
}

// maxBody is more than a full request of the protocol, which is bounded by
// items; results and outputs have bounds of their own.
const maxBody = 8 << 20

// Handler is the HTTP surface. It has a mux of its own: libraries register
// debugging handlers on the default one.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := c.Ready(ctx); err != nil {
			problem(w, http.StatusServiceUnavailable, "not-ready", err.Error())
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Gather, promhttp.HandlerOpts{}))
	if c.Work != nil {
		mux.HandleFunc("POST "+protocol.HTTPPath("{op}"), func(w http.ResponseWriter, r *http.Request) {
			body, ok := readBody(w, r)
			if !ok {
				return
			}
			reply(w, c.Work.Handle(r.Context(), r.PathValue("op"), "", body))
		})
		mux.HandleFunc("POST /v1/jobs/{name}/runs", func(w http.ResponseWriter, r *http.Request) { enqueue(c.Work, w, r) })
	}
	return mux
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "too-large", "the body exceeds 8 MiB: send fewer items")
	case err != nil:
		problem(w, http.StatusBadRequest, "bad-request", "the body cannot be read: "+err.Error())
	}
	return body, err == nil
}

// enqueue makes one run; the body is an EnqueueItem without the job.
func enqueue(work Worker, w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var item protocol.EnqueueItem
	if len(body) > 0 {
		if err := json.Unmarshal(body, &item); err != nil {
			problem(w, http.StatusBadRequest, "bad-request", "the body cannot be read: "+err.Error())
			return
		}
	}
	item.Job = r.PathValue("name")
	request, err := json.Marshal(protocol.EnqueueRequest{Items: []protocol.EnqueueItem{item}})
	if err != nil {
		problem(w, http.StatusBadRequest, "bad-request", err.Error())
		return
	}
	var got protocol.Reply[protocol.EnqueueResult]
	if err := json.Unmarshal(work.Handle(r.Context(), protocol.OpEnqueue, "", request), &got); err != nil || got.Error == nil && len(got.Results) != 1 {
		problem(w, http.StatusInternalServerError, "internal", "the reply cannot be read")
		return
	}
	fault := got.Error
	if fault == nil {
		fault = got.Results[0].Error
	}
	if fault != nil {
		problem(w, statusOf(fault.Code), strings.ReplaceAll(string(fault.Code), "_", "-"), fault.Message)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if got.Results[0].Created {
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(got.Results[0])
}

// reply sends the protocol's own answer, with a status that proxies and people
// understand.
func reply(w http.ResponseWriter, body []byte) {
	var head struct {
		Error *protocol.Error `json:"error"`
	}
	w.Header().Set("Content-Type", "application/json")
	if json.Unmarshal(body, &head) == nil && head.Error != nil {
		w.WriteHeader(statusOf(head.Error.Code))
	}
	_, _ = w.Write(body)
}

func statusOf(code protocol.ErrorCode) int {
	switch code {
	case protocol.CodeInvalid:
		return http.StatusBadRequest
	case protocol.CodeUnauthorized:
		return http.StatusUnauthorized
	case protocol.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case protocol.CodeUnknownOp, protocol.CodeNotFound:
		return http.StatusNotFound
	case protocol.CodeConflict:
		return http.StatusConflict
	case protocol.CodeUnavailable:
		return http.StatusServiceUnavailable
	case protocol.CodeInternal:
	}
	return http.StatusInternalServerError
}

// problem answers with RFC 9457 problem details.
func problem(w http.ResponseWriter, status int, kind, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "/problems/" + kind, "title": http.StatusText(status), "status": status, "detail": detail})
}

// Serve serves until ctx ends, then lets requests finish for a few seconds.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err := s.Shutdown(grace)
		if err != nil {
			err = s.Close()
		}
		stopped <- err
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
