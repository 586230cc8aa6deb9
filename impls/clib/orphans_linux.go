//go:build linux

package clib

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// nursery holds the children that live, and what is needed once to find what they leave: a
// process that a library forked and that left the child's group becomes this process's own when
// the child ends.
var nursery struct {
	sync.Mutex
	reaper bool
	pids   map[int]bool
}

func born(pid int) {
	nursery.Lock()
	defer nursery.Unlock()
	if !nursery.reaper {
		nursery.reaper = true
		nursery.pids = map[int]bool{}
	}
	nursery.pids[pid] = true
}

// adopt lets this process have the orphans of its children. It is called before a child starts.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// buried ends what a child left behind.
func buried(pid int) {
	nursery.Lock()
	defer nursery.Unlock()
	delete(nursery.pids, pid)
	for _, orphan := range children() {
		if nursery.pids[orphan] || !wasChild(orphan) {
			continue
		}
		_ = unix.Kill(orphan, unix.SIGKILL)
		_, _ = unix.Wait4(orphan, nil, 0, nil)
	}
}

// children are the processes whose parent this one is.
func children() []int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	var out []int
	for _, t := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// wasChild says whether a process began as a fork of a child.
func wasChild(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(env, []byte(envLibrary+"="))
}
