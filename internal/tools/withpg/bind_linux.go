package main

import (
	"os/exec"
	"syscall"
)

// bindToParent ends the command when withpg is killed: its database is gone then.
func bindToParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
