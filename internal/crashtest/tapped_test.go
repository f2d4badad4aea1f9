//go:build linux

package crashtest

import (
	"fmt"
	"testing"
)

func TestFramesAreCutWhereverTheyArrive(t *testing.T) {
	const stream = "INFO {}\r\nPING\r\nPUB a.b reply 5\r\nhello\r\nHPUB c 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG s 7 r 0\r\n\r\nHMSG s 7 $JS.ACK.x 28 29\r\nNATS/1.0\r\nNats-Msg-Id: 9\r\n\r\n!\r\nPONG\r\n"
	const want = "[PUB a.b reply hello  HPUB c  hi  MSG s r   HMSG s $JS.ACK.x ! 9]"
	for size := 1; size <= len(stream); size++ {
		var got []string
		f := frames{take: func(f frame) {
			got = append(got, fmt.Sprintf("%s %s %s %s %s", f.verb, f.subject, f.reply, f.body, f.header("Nats-Msg-Id")))
		}}
		for at := 0; at < len(stream); at += size {
			f.feed([]byte(stream[at:min(at+size, len(stream))]))
		}
		if s := fmt.Sprint(got); s != want {
			t.Fatalf("in pieces of %d: %q", size, s)
		}
	}
}
