// Package thin makes corpora smaller without losing coverage. Each input is run in a process that
// was built with coverage counters in the allocators; the smallest inputs that cover together what
// all cover are kept.
package thin

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/libfuzzer"
	"allocfuzz/fuzz/overlay"
	"allocfuzz/fuzz/store"
)

// ours are those whose code counts, beside the allocators, in our own tracer only. Under libFuzzer
// they would not cover the same each time: what the compiler put into them of the standard library
// counts there too. The tracer's own package is there because without it there are no counters.
var ours = []string{"allocfuzz/impls/guard", "allocfuzz/corpus/prog", "allocfuzz/cmd/covtrace"}

// Build builds the tracer from the sources at root into a folder, and returns its name.
func Build(ctx context.Context, root, dir string) (string, error) {
	bin := filepath.Join(dir, "covtrace")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	return bin, overlay.Build(ctx, root, bin, nil, "build", "-cover", "-covermode=atomic",
		"-coverpkg="+strings.Join(slices.Concat(libfuzzer.Allocators, ours), ","), "./cmd/covtrace")
}

// A Tracer runs inputs of one target and says what they cover.
type Tracer struct {
	Binary   string
	Target   string
	Parallel int           // processes, at least 1
	Work     string        // folder for what they leave behind
	Limit    time.Duration // of one input; 0 for the usual
}

// limitUsual is how long one input may take: longer than it takes the process to give up by itself.
const limitUsual = 15 * time.Second

// ErrDied is the error of an input that ended its process or did not return.
var ErrDied = errors.New("ended the process that ran it, or did not return")

// Covers runs inputs and says what each covers, in their order. Those that end their process are
// left out and named with the reason. An error is that the tracer does not run, or that ctx ended.
func (t *Tracer) Covers(ctx context.Context, inputs []store.Input) (list []Cover,
	bad map[string]error, err error) {
	got := make([]*Cover, len(inputs))
	bad = map[string]error{}
	var mu sync.Mutex
	next := 0
	var wg sync.WaitGroup
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if next == len(inputs) || err != nil || ctx.Err() != nil {
			return -1
		}
		next++
		return next - 1
	}
	for range max(1, t.Parallel) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := &worker{t: t, ctx: ctx}
			defer w.stop()
			for i := take(); i >= 0; i = take() {
				c, e := w.cover(&inputs[i])
				mu.Lock()
				switch {
				case errors.Is(e, ErrDied):
					bad[inputs[i].Name] = e
				case e != nil && err == nil:
					err = e
				default:
					got[i] = c
				}
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	for _, c := range got {
		if c != nil {
			list = append(list, *c)
		}
	}
	return list, bad, err
}

// A worker is one process of a tracer; it is started when it is first needed and after it died.
type worker struct {
	t   *Tracer
	ctx context.Context
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (w *worker) start() error {
	w.cmd = exec.CommandContext(w.ctx, w.t.Binary, w.t.Target)
	w.cmd.Env = append(os.Environ(), fuzz.EnvFindings+"="+w.t.Work, fuzz.EnvStats+"=",
		"GOCOVERDIR="+w.t.Work)
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.in, w.out = in, bufio.NewReader(out)
	return w.cmd.Start()
}

// stop ends the process.
func (w *worker) stop() {
	if w.cmd == nil || w.cmd.Process == nil {
		return
	}
	w.in.Close()
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	w.cmd = nil
}

// cover has an input run.
func (w *worker) cover(in *store.Input) (*Cover, error) {
	if w.cmd == nil {
		if err := w.start(); err != nil {
			return nil, fmt.Errorf("start the tracer: %w", err)
		}
	}
	limit := w.t.Limit
	if limit == 0 {
		limit = limitUsual
	}
	clock := time.AfterFunc(limit, func() { _ = w.cmd.Process.Kill() })
	list, err := w.ask(in.Data)
	clock.Stop()
	if err == nil {
		return &Cover{Name: in.Name, Size: len(in.Data), Features: list}, nil
	}
	state := w.died()
	if w.ctx.Err() != nil {
		return nil, w.ctx.Err()
	}
	if state == wrongUse {
		return nil, fmt.Errorf("the tracer of %s does not run (exit status %d)", w.t.Target, state)
	}
	return nil, fmt.Errorf("%w (%v)", ErrDied, err)
}

// wrongUse is the exit status of a tracer that cannot do what it is asked, not of one that died.
const wrongUse = 3

// died waits for a process that ended and returns its exit status.
func (w *worker) died() int {
	w.in.Close()
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	state := w.cmd.ProcessState.ExitCode()
	w.cmd = nil
	return state
}

func (w *worker) ask(data []byte) ([]Feature, error) {
	frame := append(binary.AppendUvarint(nil, uint64(len(data))), data...)
	if _, err := w.in.Write(frame); err != nil {
		return nil, err
	}
	n, err := binary.ReadUvarint(w.out)
	if err != nil {
		return nil, err
	}
	if n > inputMax/8 {
		return nil, fmt.Errorf("%d features", n)
	}
	buf := make([]byte, 8*n)
	if _, err := io.ReadFull(w.out, buf); err != nil {
		return nil, err
	}
	out := make([]Feature, n)
	for i := range out {
		out[i] = Feature(binary.LittleEndian.Uint64(buf[8*i:]))
	}
	return out, nil
}
