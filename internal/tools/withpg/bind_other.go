//go:build !linux

package main

import "os/exec"

// bindToParent does nothing: only Linux tells a child of its parent's end.
func bindToParent(*exec.Cmd) {}
