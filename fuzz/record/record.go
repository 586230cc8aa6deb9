package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"allocfuzz/corpus/trace"
)

// Options say what to record and where.
type Options struct {
	Command []string // and its arguments
	Folder  string   // where the compiled recorder is kept
	Records int      // how many there is room for; a resize takes two
	// The streams of the command.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// A Recording is what was recorded. Close removes it.
type Recording struct {
	Head  trace.RecordHead
	Ended string // how the command ended; "" for exit status 0
	file  *os.File
}

// Reader reads the recording from its beginning.
func (r *Recording) Reader() (io.Reader, error) {
	_, err := r.file.Seek(0, io.SeekStart)
	return r.file, err
}

// Close removes the recording.
func (r *Recording) Close() {
	r.file.Close()
	os.Remove(r.file.Name())
}

// Run runs a command and records it. The recording is there however the command ended; the error is
// about one that could not be started, or not be recorded. When ctx ends, the command is asked to
// end by a signal, and killed when it has not after some seconds.
func Run(ctx context.Context, o Options) (*Recording, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("recording works on Linux only" + elsewhere)
	}
	shim, err := Shim(ctx, o.Folder)
	if err != nil {
		return nil, err
	}
	path, err := find(o.Command[0], shim)
	if err != nil {
		return nil, err
	}
	r, err := newRecording(o.Records)
	if err != nil {
		return nil, err
	}
	if err := r.run(ctx, path, shim, o); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// newRecording makes the file. All of it is there before the command starts: to write where the
// disk has no room would end the command.
func newRecording(records int) (*Recording, error) {
	f, err := os.CreateTemp("", "allocfuzz-record-*")
	if err != nil {
		return nil, fmt.Errorf("file for the records: %w", err)
	}
	size := trace.RecordHeadSize + int64(records)*trace.RecordSize
	if _, err = f.Write(trace.NewRecording(records)); err == nil {
		err = reserve(f, size)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, fmt.Errorf("%s: no room for the records, %d bytes: %w; set a smaller limit, "+
			"or $TMPDIR to another folder", filepath.Dir(f.Name()), size, err)
	}
	return &Recording{file: f}, nil
}

// grace is how long a command may take to end that was asked to.
const grace = 5 * time.Second

func (r *Recording) run(ctx context.Context, path, shim string, o Options) error {
	cmd := exec.CommandContext(ctx, path, o.Command[1:]...)
	cmd.Args[0] = o.Command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload(shim), "ALLOCFUZZ_RECORD="+r.file.Name())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: cannot be run: %w", path, err)
	}
	r.Ended = ending(cmd.Wait(), cmd)
	head := make([]byte, trace.RecordHeadSize)
	if _, err := r.file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	var err error
	if r.Head, err = trace.ParseRecordHead(head); err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	if r.Head.PID == 0 {
		return fmt.Errorf("%s: the recorder was not loaded into it%s: a program with file "+
			"capabilities, or of another C library than the compiler's (set $CC)%s", o.Command[0],
			because(r.Ended), elsewhere)
	}
	return nil
}

// preload is the shim in front of what is in front already.
func preload(shim string) string {
	return strings.TrimSuffix(shim+":"+os.Getenv("LD_PRELOAD"), ":")
}

// ending says how a command ended, in words.
func ending(err error, cmd *exec.Cmd) string {
	s := cmd.ProcessState
	switch {
	case s == nil:
		return err.Error()
	case s.Success():
		return ""
	case s.Exited():
		return fmt.Sprintf("ended with status %d", s.ExitCode())
	}
	return "ended by " + s.String()
}

func because(ended string) string {
	if ended == "" {
		return ""
	}
	return " (it " + ended + ")"
}
