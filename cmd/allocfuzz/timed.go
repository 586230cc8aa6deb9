package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
)

// This file writes down what the contexts of a program did in real time (--history).

// timedMax bounds the operations that porcupine is asked about and pictures show.
const timedMax = 2500

// A timedRun is the history of one run, and where it was written.
type timedRun struct {
	Line       int    `json:"line"` // in the file, of its schedule; 0 for line order
	Operations int    `json:"operations"`
	Verdict    string `json:"verdict"` // of porcupine: linearizable, not linearizable, unknown
	History    string `json:"history"`
	Picture    string `json:"picture"` // "" when it would be too large
}

// timeFile writes the histories of every run of a file.
func (a *app) timeFile(ctx context.Context, p *prog.Program, b *batch, f *file) error {
	c, err := oracle.Compile(p)
	if err != nil {
		return err
	}
	if c.Sequential() {
		a.sayf("%s: --history: one context does everything, so there is nothing to see", p.File)
		return nil
	}
	for i, v := range b.subjects {
		if f.Subjects[i].Outcome == leftOut {
			continue
		}
		for _, s := range walks(p, v) {
			t, err := a.timeRun(ctx, &walked{c, v, s}, b)
			if err != nil {
				return err
			}
			if t != nil {
				f.Subjects[i].Timed = append(f.Subjects[i].Timed, *t)
			}
		}
	}
	return nil
}

// timeRun makes one run and writes its history; nil when the rule is off.
func (a *app) timeRun(ctx context.Context, w *walked, b *batch) (*timedRun, error) {
	var t *timedRun
	var err error
	opt := b.replayer.Options
	ended := b.replayer.Until(ctx, func(run *oracle.Runner) {
		var res *oracle.Result
		if res, err = run.Points(w.program, w.subject, w.sched, opt); err == nil {
			t, err = w.timed(res, b.history)
		}
	})
	if !ended {
		return nil, ctx.Err()
	}
	if t != nil && !a.json {
		fmt.Fprintf(a.out, "%s: %d operations, %s: %s\n", w.subject.Name, t.Operations, t.Verdict,
			t.History)
	}
	return t, err
}

// timed writes the history of a run into a folder.
func (w *walked) timed(res *oracle.Result, dir string) (*timedRun, error) {
	h := res.History
	if h == nil {
		return nil, nil
	}
	name := strings.TrimSuffix(filepath.Base(w.program.Prog.File), ".prog")
	if w.program.Prog.File == engine.Stdin {
		name = "stdin"
	}
	base := filepath.Join(dir, name+"-"+w.subject.Name)
	t := &timedRun{Operations: len(h.Ops), Verdict: linear.Unknown.String(),
		History: base + ".json"}
	if w.sched != nil {
		t.Line = w.sched.Pos.Line
		base = fmt.Sprintf("%s-line%d", base, t.Line)
		t.History = base + ".json"
	}
	err := fuzz.WriteFile(t.History, func(out io.Writer) error { return linear.WriteJSON(out, h) })
	if err != nil || len(h.Ops) > timedMax {
		return t, err
	}
	t.Picture = base + ".html"
	return t, fuzz.WriteFile(t.Picture, func(out io.Writer) error {
		verdict, err := linear.Picture(out, h, searchLimit)
		t.Verdict = verdict.String()
		agrees(verdict, h)
		return err
	})
}

// agrees demands that porcupine and the check per address say the same.
func agrees(verdict linear.Verdict, h *history.History) {
	v := new(history.Checker).Check(h)
	if verdict != linear.Unknown && (v != nil) != (verdict == linear.NotLinearizable) {
		panic(fmt.Sprintf("allocfuzz: two checks of a history of %d operations disagree: %v and %v",
			len(h.Ops), v, verdict))
	}
}
