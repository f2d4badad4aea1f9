package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Paging is how much of a list, and from where on.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"At most so many"`
	Cursor string `query:"cursor" maxLength:"1024" doc:"Goes on where a page ended: its next. Repeat the filters"`
}

// nextLink is the value of Link for the page after this one.
func nextLink(u *url.URL, cursor string) string {
	if cursor == "" {
		return ""
	}
	q := u.Query()
	q.Set("cursor", cursor)
	return "<" + u.EscapedPath() + "?" + q.Encode() + `>; rel="next"`
}

// cursor says where a list goes on, and which list that is.
type cursor struct {
	Format int    `json:"v"`
	List   string `json:"list"` // with its filters
	After  string `json:"after"`
}

func (c cursor) encode() string {
	c.Format = 1
	b, _ := json.Marshal(c) // of text and a number
	return base64.RawURLEncoding.EncodeToString(b)
}

// resume gives the place after which the list goes on; empty is its beginning.
func resume(text, list string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.Format != 1 || c.After == "" {
		return "", newProblem(kindCursor, "the cursor is none that this list returned")
	}
	if c.List != list {
		return "", newProblem(kindCursor, "the cursor belongs to another list or to other filters: repeat the filters of the first page, or leave the cursor out")
	}
	return c.After, nil
}

// etag is the tag of a stream's version.
func etag(version int) string { return `"` + strconv.Itoa(version) + `"` }

// matches reports whether If-None-Match names the version.
func noneMatch(header string, version int) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag(version) {
			return true
		}
	}
	return false
}

var errAnyVersion = errors.New("any version")

// precondition is the version that If-Match wants; errAnyVersion if the header
// is there but wants no particular one.
func precondition(header string) (version int, err error) {
	header = strings.TrimSpace(header)
	switch header {
	case "":
		return 0, nil
	case "*":
		return 0, errAnyVersion
	}
	text, ok := strings.CutPrefix(header, `"`)
	if ok {
		text, ok = strings.CutSuffix(text, `"`)
	}
	if ok {
		version, err = strconv.Atoi(text)
	}
	if !ok || err != nil || version < 1 {
		return 0, newProblem(kindMalformed, fmt.Sprintf(`If-Match: %s: want one ETag as it was received, such as "7"`, shown(header)))
	}
	return version, nil
}
