package main

import (
	"os"
	"testing"
)

func TestDeliverTwiceLeavesOneMessage(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if _, err := deliver(dir, "run-1", Email{To: "Ada <ada@example.com>", Subject: "Hi"}); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
	if _, err := deliver(dir, "run-2", Email{To: "nobody"}); err == nil {
		t.Error("bad address delivered")
	}
}
