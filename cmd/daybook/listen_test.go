package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestListenWaitsForAPortThatIsBeingFreed(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(portPatience/10, func() { _ = held.Close() })
	l, err := listen(t.Context(), held.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestListenSaysThatAPortIsTaken(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, err = listen(t.Context(), held.Addr().String())
	if err == nil || !strings.Contains(err.Error(), held.Addr().String()+" is in use") {
		t.Errorf("got %v", err)
	}
}
