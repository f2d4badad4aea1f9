package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Hint says that a run was claimed for a lane. It carries no arguments and grants nothing: start decides.
type Hint struct {
	RunID      uuid.UUID `json:"run_id"`
	ClaimID    uuid.UUID `json:"claim_id"`
	LeaseUntil Time      `json:"lease_until"` // end of the dispatch lease in database time; not for a worker's clock
}

// MaxHints is the most hints a dispatch message may carry.
const MaxHints = 1000

// AppendHints appends the body of a dispatch message: a JSON array of hints.
func AppendHints(dst []byte, hints []Hint) []byte {
	dst = append(dst, '[')
	for i, h := range hints {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendClaim(dst, h.RunID, h.ClaimID)
		dst = append(dst, `,"lease_until":"`...)
		dst = h.LeaseUntil.UTC().AppendFormat(dst, timeLayout)
		dst = append(dst, `"}`...)
	}
	return append(dst, ']')
}

// DecodeHints reads the body of a dispatch message. A message that it refuses can never be worked on: terminate it,
// with the error as the reason.
func DecodeHints(body []byte) ([]Hint, error) {
	hints, ok := decodeList[Hint](bytes.TrimSpace(body))
	if !ok {
		hints = nil
		if err := json.Unmarshal(body, &hints); err != nil {
			return nil, fmt.Errorf("dispatch message: want a JSON array of hints: %w", err)
		}
	}
	switch {
	case len(hints) == 0:
		return nil, errors.New("dispatch message: no hints in it")
	case len(hints) > MaxHints:
		return nil, fmt.Errorf("dispatch message: %d hints, at most %d are allowed", len(hints), MaxHints)
	}
	for i, h := range hints {
		if h.RunID == uuid.Nil || h.ClaimID == uuid.Nil {
			return nil, fmt.Errorf("dispatch message: hint %d lacks run_id or claim_id", i)
		}
	}
	return hints, nil
}
