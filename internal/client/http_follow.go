package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/daybookhq/daybook/projections"
)

// silence is how long a line may take to come: the engine says something every
// few seconds.
const silence = time.Minute

var errSilent = errors.New("the engine has fallen silent")

// line is one of a long operation's answer: how far it is, or how it ended.
type line struct {
	Progress *projections.Progress `json:"progress"`
	Done     bool                  `json:"done"`
	Result   json.RawMessage       `json:"result"`
	Problem  *problem              `json:"problem"`
}

// follow sends the request for a long operation and reads how far it is, line by
// line, until its result. Leaving it ends the operation. It is not repeated: it
// would begin anew.
func (h *HTTP) follow(ctx context.Context, q request, out any, progress func(projections.Progress)) error {
	began := time.Now()
	err := h.lines(ctx, q, out, progress)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	return (&trying{began: began, n: 1}).failed(h.base, q, false, err)
}

func (h *HTTP) lines(ctx context.Context, q request, out any, progress func(projections.Progress)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	req, err := h.newRequest(ctx, q, nil, "")
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/jsonl, application/json")
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body := &answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode != http.StatusOK || body.media() != "application/jsonl" {
		if body.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
			return err
		}
		return h.problem(q, body.status, body.header, body.media(), body.body)
	}
	in := bufio.NewReader(io.LimitReader(resp.Body, maxAnswer))
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			} else if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		quiet.Reset(silence)
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		switch {
		case l.Problem != nil:
			return h.refused(q, *l.Problem)
		case l.Done:
			if out == nil || l.Result == nil {
				return nil
			}
			return json.Unmarshal(l.Result, out)
		case l.Progress != nil && progress != nil:
			progress(*l.Progress)
		}
	}
}
