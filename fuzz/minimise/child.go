package minimise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// A Child runs programs in a process of its own, one each: for subjects that may end the process
// that they run in, or never return. The command reads a program from standard input, runs it on
// the subject and, when it got to its end, prints a JSON document with a "schema"; whatever that
// document says, the child did not die.
type Child struct {
	Path    string   // of the executable
	Args    []string // the whole command line, its name first
	Env     []string // nil for that of this process
	Subject string   // for the findings
	Limit   time.Duration
	Memory  int64 // bytes that it may have in memory, 0 for no bound; seen on Linux only
}

// Probe runs a program and says how the child died, nil when it did not. It is an error when the
// child cannot be started, or when ctx ended.
func (c *Child) Probe(ctx context.Context, p *prog.Program) (*oracle.Finding, error) {
	limited, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, c.Path)
	var out, errs bytes.Buffer
	cmd.Args, cmd.Env = c.Args, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(prog.Format(p)), &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run a program in a process of its own: %w", err)
	}
	large := make(chan bool, 1)
	go func() { large <- c.watch(limited, cancel, cmd.Process.Pid) }()
	err := cmd.Wait()
	over := limited.Err() // before the watch is ended
	cancel()
	grew := <-large
	switch {
	case grew:
		return c.died(fault.MemoryBlowUp, fmt.Sprintf("more than %d bytes", c.Memory)), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(over, context.DeadlineExceeded):
		return c.died(fault.Hung, fmt.Sprintf("no end within %v", c.Limit)), nil
	case ended(out.Bytes()):
		return nil, nil
	}
	return c.died(death(err, errs.String())), nil
}

// ended says whether an output is the document of a command that got to its end.
func ended(out []byte) bool {
	var doc struct{ Schema int }
	return json.Unmarshal(out, &doc) == nil && doc.Schema > 0
}

// death is how a child died that nobody killed.
func death(err error, said string) (fault.Title, string) {
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "panic: ") {
			return fault.Aborted, line
		}
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() < 0 && strings.Contains(how, "abort"):
		return fault.Aborted, how
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return fault.Killed, how
	}
	return fault.Exited, how
}

// died is the finding of a death.
func (c *Child) died(title fault.Title, detail string) *oracle.Finding {
	e, _ := fault.Lookup(title)
	ft := fault.Fault{Title: title, Detail: detail, Where: fault.Where{Line: -1, CPU: -1}}
	return &oracle.Finding{Title: title, Class: e.Rule.String(), Subject: c.Subject, Fault: ft,
		Faults: []fault.Fault{ft}}
}

// watchEvery is how often the memory of a child is looked at.
const watchEvery = 20 * time.Millisecond

// watch ends a child that has too much memory, and says so. It ends with ctx.
func (c *Child) watch(ctx context.Context, end func(), pid int) bool {
	if c.Memory <= 0 {
		return false
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return false
		}
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		if n*int64(os.Getpagesize()) > c.Memory {
			end()
			return true
		}
	}
}
