package engine

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"sync"
	"time"
)

// graceful is how long a child may take to end once it was asked to.
const graceful = 3 * time.Second

// running holds the children that run now.
var running struct {
	sync.Mutex
	commands map[*exec.Cmd]bool
}

// KillAll ends every child at once, with its own children. It is for a user who
// does not want to wait.
func KillAll() {
	running.Lock()
	defer running.Unlock()
	for cmd := range running.commands {
		killGroup(cmd)
	}
}

// A child is one run of a command in a process group of its own.
type child struct {
	dir  string
	env  []string     // nil is the own one
	line func(string) // gets every line of output; nil when nobody asks
	tail tail
}

// run carries out a command and waits for it and its children. When ctx ends they
// are asked to end and, if they do not, killed.
func (c *child) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out := &lines{each: c.each}
	cmd.Stdout, cmd.Stderr = out, out
	ownGroup(cmd)
	cmd.Cancel = func() error { return interruptGroup(cmd) }
	cmd.WaitDelay = graceful
	if err := cmd.Start(); err != nil {
		return err
	}
	running.Lock()
	if running.commands == nil {
		running.commands = map[*exec.Cmd]bool{}
	}
	running.commands[cmd] = true
	running.Unlock()

	err := cmd.Wait()
	killGroup(cmd)
	running.Lock()
	delete(running.commands, cmd)
	running.Unlock()
	out.end()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended, and a child of its own held the pipe
	}
	return err
}

func (c *child) each(line string) {
	c.tail.add(line)
	if c.line != nil {
		c.line(line)
	}
}

// tail keeps the last lines of an output.
type tail struct {
	lines []string
	bytes int
}

// tailMax bounds the bytes that a tail keeps.
const tailMax = 64 << 10

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	t.bytes += len(line) + 1
	for t.bytes > tailMax && len(t.lines) > 1 {
		t.bytes -= len(t.lines[0]) + 1
		t.lines = t.lines[1:]
	}
}

// lines is a writer that hands on whole lines.
type lines struct {
	each func(string)
	part []byte
}

// Write takes a piece of output.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		l.part = append(l.part, p[:i]...)
		l.each(string(bytes.TrimRight(l.part, "\r")))
		l.part, p = l.part[:0], p[i+1:]
	}
	l.part = append(l.part, p...)
	return n, nil
}

// end hands on a last line without its end.
func (l *lines) end() {
	if len(l.part) > 0 {
		l.each(string(l.part))
		l.part = nil
	}
}
