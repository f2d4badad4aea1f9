package crontab

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"
)

const (
	maxSlug    = 40
	slugWords  = 5
	hashLength = 10 // hexadecimal digits
)

// namer gives names that are unique in a file and stable from one reading to the next.
type namer struct {
	file string
	seen map[[sha256.Size]byte]int // lines with the same user and command so far
	used map[string]bool
}

func newNamer(file string) namer {
	return namer{file: file, seen: map[[sha256.Size]byte]int{}, used: map[string]bool{}}
}

// name derives the name of the next line with this user and text. The slug is for people; the hash tells apart.
func (n namer) name(user, text, command string) string {
	text = strings.TrimRight(text, " \t")
	key := digest(n.file, user, text)
	prefix := slug(command)
	for i := n.seen[key]; ; i++ {
		sum := digest(n.file, user, text, number(i))
		name := prefix + "-" + hex.EncodeToString(sum[:])[:hashLength]
		if !n.used[name] {
			n.used[name], n.seen[key] = true, i+1
			return name
		}
	}
}

func number(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }

// digest hashes the parts with their lengths, so that no two lists of parts are the same text.
func digest(parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		writePart(h, p)
	}
	h.Sum(sum[:0])
	return sum
}

func writePart(h hash.Hash, p string) {
	h.Write(binary.AppendUvarint(nil, uint64(len(p))))
	h.Write([]byte(p))
}

// slug makes the first telling words of a command fit a job name: lower case, of paths the last element, without the
// variables that may stand before a command.
func slug(command string) string {
	var b strings.Builder
	words := 0
	for f := range strings.FieldsSeq(command) {
		if words == 0 && strings.ContainsRune(f, '=') {
			continue
		}
		if words > 0 && (f == "|" || strings.ContainsAny(f, "<>")) {
			break
		}
		f = f[strings.LastIndexByte(strings.TrimRight(f, "/"), '/')+1:]
		if f = letters(f); f == "" {
			continue
		}
		if b.Len() > 0 {
			f = "-" + f
		}
		if b.Len()+len(f) > maxSlug {
			if b.Len() == 0 {
				b.WriteString(strings.TrimRight(f[:maxSlug], "-_"))
			}
			break
		}
		b.WriteString(f)
		if words++; words == slugWords {
			break
		}
	}
	if b.Len() == 0 {
		return "cron"
	}
	return b.String()
}

// letters keeps what a job name may hold, with single dashes for all else between.
func letters(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimRight(b.String(), "-")
}
