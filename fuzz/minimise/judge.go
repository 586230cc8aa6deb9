package minimise

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A judge runs programs and says what they show.
type judge interface {
	// run gives what q shows, with the schedule that was really taken as its only block; nil for
	// nothing, or for something else than is wanted. q is its own.
	run(q *prog.Program, wanted func(*oracle.Finding) bool) (*shown, error)
	// report runs a finished program as a replay does and explains what it shows.
	report(q *prog.Program) (*oracle.Report, error)
	close()
}

// shown is a program with what it shows.
type shown struct {
	prog    *prog.Program
	finding *oracle.Finding
	failing *prog.Line // the line that fails; nil at the end of the program
}

func newShown(c *oracle.Compiled, f *oracle.Finding) *shown {
	s := &shown{prog: c.Prog, finding: f}
	if n := f.Fault.Where.Line; n >= 0 && n < len(c.Lines) {
		s.failing = c.Lines[n].Src
	}
	return s
}

// newJudge makes the judge that the bug needs.
func (m *minimiser) newJudge() judge {
	switch {
	case m.opt.Probe != nil:
		return &probing{ctx: m.ctx, probe: m.opt.Probe}
	case m.pair():
		return newPaired(m.bug, m.opt.Run)
	case m.bug.Reference != nil:
		return &compared{bug: m.bug, opt: m.opt.Run, runner: oracle.NewRunner()}
	}
	return &alone{v: m.bug.Subject, opt: m.opt.Run, runner: oracle.NewRunner()}
}

// wanted says whether a finding is the one to keep.
func (m *minimiser) wanted(f *oracle.Finding) bool {
	if m.bug.Identity == "" {
		return true
	}
	return f.Identity() == m.bug.Identity && (m.expect == "" || f.Matches(m.expect))
}

// A key stands for the text of a program.
type key [sha256.Size]byte

// note says that the text of p was run, and whether it had been before.
func (m *minimiser) note(p *prog.Program) (before bool) {
	k := key(sha256.Sum256(prog.Format(p)))
	before = m.seen[k]
	m.seen[k] = true
	return before
}

// try runs a candidate and keeps it when it shows the bug. Nil is none.
func (m *minimiser) try(q *prog.Program) bool {
	if q == nil || m.over() {
		return false
	}
	if m.note(q) {
		m.out.Cached++
		return false
	}
	m.out.Tries++
	size := SizeOf(q)
	s := m.shows(q)
	if s == nil || SizeOf(s.prog).Departures > size.Departures {
		return false
	}
	m.note(s.prog)
	m.best = s
	return true
}

// over says whether nothing more can be tried.
func (m *minimiser) over() bool { return m.err != nil || m.ctx.Err() != nil }

// shows runs a program. One that meets a fault of this project is refused and counted.
func (m *minimiser) shows(q *prog.Program) (s *shown) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		text := fmt.Sprint(v)
		if !strings.HasPrefix(text, "allocfuzz:") {
			text += "\n\n" + string(debug.Stack())
		}
		if m.out.Faulty++; m.out.Fault == "" {
			m.out.Fault = text
		}
		m.abandon()
		s = nil
	}()
	s, err := m.run(q)
	if err != nil {
		m.err = err
	}
	return s
}

// run runs a program, for at most the time that is given to one.
func (m *minimiser) run(q *prog.Program) (*shown, error) {
	if m.opt.Limit <= 0 || m.opt.Probe != nil {
		return m.judge.run(q, m.wanted)
	}
	type result struct {
		s        *shown
		err      error
		panicked any
	}
	done, by := make(chan result, 1), m.judge
	go func() {
		var r result
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.s, r.err = by.run(q, m.wanted)
	}()
	limit := time.NewTimer(m.opt.Limit)
	defer limit.Stop()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.s, r.err
	case <-limit.C:
		m.out.Hung++
	case <-m.ctx.Done():
	}
	m.judge = m.newJudge() // the other one is left behind with what hangs
	return nil, nil
}

// abandon takes another judge: the machines of this one are in any state, and may not even close.
func (m *minimiser) abandon() {
	if m.opt.Probe != nil {
		return // it has none
	}
	defer func() {
		_ = recover()
		m.judge = m.newJudge()
	}()
	m.judge.close()
}

// alone judges one subject in this process.
type alone struct {
	v      *impls.Variant
	opt    oracle.Options
	runner *oracle.Runner
}

func (a *alone) close() { a.runner.Close() }

func (a *alone) run(q *prog.Program, wanted func(*oracle.Finding) bool) (*shown, error) {
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, nil
	}
	if ok, _ := oracle.Applies(c, a.v); !ok {
		return nil, nil
	}
	anchors, err := anchorsOf(c)
	if err != nil {
		return nil, nil
	}
	f, res, _ := a.once(c, anchors, sched.Repair)
	if res.Err != nil {
		return nil, res.Err
	}
	if f == nil || !wanted(f) {
		return nil, nil
	}
	if len(anchors) > 0 {
		hash := res.Hash
		anchors = a.runner.Recorded()
		q.Scheds = blocks(c, a.v.Name, anchors)
		again, res, unused := a.once(c, anchors, sched.Strict)
		if again == nil || res.Hash != hash || !wanted(again) || unused && !res.Aborted {
			return nil, nil
		}
	}
	return newShown(c, f), nil
}

// once makes one run under departures, and says whether some of them did not apply.
func (a *alone) once(c *oracle.Compiled, anchors []sched.Anchor, mode sched.Mode) (
	f *oracle.Finding, res *oracle.Result, unused bool) {
	opt := a.opt
	var replay *sched.Replay
	if len(anchors) > 0 {
		replay = sched.NewReplay(mode, anchors)
		opt.Chooser, opt.Record = replay, true
	}
	res = a.runner.Run(c, a.v, opt)
	if res.Err != nil {
		return nil, res, false
	}
	res.Expect()
	return res.Finding(), res, replay != nil && len(replay.Unused()) > 0
}

// anchorsOf are the departures of the first block of a program.
func anchorsOf(c *oracle.Compiled) ([]sched.Anchor, error) {
	if len(c.Prog.Scheds) == 0 {
		return nil, nil
	}
	return c.Anchors(&c.Prog.Scheds[0])
}

// blocks writes anchors down as the only schedule of a program.
func blocks(c *oracle.Compiled, subject string, anchors []sched.Anchor) []prog.Sched {
	if len(anchors) == 0 {
		return nil
	}
	return []prog.Sched{c.Schedule(subject, anchors)}
}

func (a *alone) report(q *prog.Program) (*oracle.Report, error) {
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, err
	}
	v, err := a.runner.Judge(c, a.v, a.opt)
	if err != nil {
		return nil, err
	}
	if v.Finding == nil || v.Missing() {
		return nil, ErrSilent
	}
	opt := a.opt
	opt.First = v.Finding
	rep, err := a.runner.Explain(c, a.v, v.Sched, opt)
	if err == nil {
		rep.Finding = v.Finding
	}
	return rep, err
}

// probing judges by somebody else's runs.
type probing struct {
	ctx   context.Context
	probe func(context.Context, *prog.Program) (*oracle.Finding, error)
	last  *oracle.Finding
}

func (p *probing) close() {}

func (p *probing) run(q *prog.Program, wanted func(*oracle.Finding) bool) (*shown, error) {
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, nil
	}
	f, err := p.probe(p.ctx, q)
	if err != nil || f == nil || !wanted(f) {
		return nil, err
	}
	p.last = f
	return newShown(c, f), nil
}

func (p *probing) report(q *prog.Program) (*oracle.Report, error) {
	if p.last == nil {
		return nil, errors.New("nothing was shown")
	}
	return &oracle.Report{Finding: p.last, Program: q}, nil
}
