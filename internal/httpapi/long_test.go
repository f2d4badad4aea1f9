package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// reader does something when it is told that the operation has ended.
type reader struct {
	*httptest.ResponseRecorder
	ended func()
}

func (r reader) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"done":true`)) {
		r.ended()
	}
	return r.ResponseRecorder.Write(b)
}

func TestOneLongOperationOfAKindAtATime(t *testing.T) {
	a := &api{}
	begin := func(do func()) (*huma.StreamResponse, error) {
		return a.longs.begin("audit verify", func(context.Context, func(any)) (any, error) { do(); return nil, nil }, a)
	}
	during, after := error(nil), error(nil)
	stream, err := begin(func() { _, during = begin(func() {}) })
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/audit/verify", http.NoBody)
	w := reader{httptest.NewRecorder(), func() { _, after = begin(func() {}) }}
	stream.Body(humago.NewContext(&huma.Operation{}, r, w))
	if during == nil {
		t.Error("a second one began beside the first")
	}
	if after != nil {
		t.Errorf("who has read how it ended may not begin the next: %v", after)
	}
	if _, err := begin(func() {}); err == nil {
		t.Error("the end of the first let a third begin beside the second")
	}
}
