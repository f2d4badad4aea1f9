package crontab

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// line is one line without its ending.
type line struct {
	number  int // from 1
	text    string
	long    bool // text is only the beginning
	crlf    bool
	unended bool // the end of the file came first
}

// lineReader reads lines in bounded memory, however long they are.
type lineReader struct {
	r      *bufio.Reader
	number int
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 16<<10)}
}

func (lr *lineReader) next() (line, error) {
	lr.number++
	l := line{number: lr.number}
	var text strings.Builder
	for {
		chunk, err := lr.r.ReadSlice('\n')
		if room := MaxLine + len("\r\n") - text.Len(); len(chunk) > room {
			l.long = true
			chunk = chunk[:room]
		}
		text.Write(chunk)
		switch {
		case err == nil:
			l.finish(text.String())
			return l, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF:
			if text.Len() == 0 {
				return line{}, io.EOF
			}
			l.unended = true
			l.finish(text.String())
			return l, nil
		default:
			return line{}, err
		}
	}
}

func (l *line) finish(text string) {
	text = strings.TrimSuffix(text, "\n")
	l.text = strings.TrimSuffix(text, "\r")
	l.crlf = len(l.text) < len(text)
	l.long = l.long || len(l.text) > MaxLine
}
