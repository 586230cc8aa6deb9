package engine

import (
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup makes a command the root of a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// interruptGroup ends a started command and its children: there is no way to ask.
func interruptGroup(cmd *exec.Cmd) error {
	killGroup(cmd)
	return nil
}

// killGroup ends a started command and its children. One that is gone is no matter.
func killGroup(cmd *exec.Cmd) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}
