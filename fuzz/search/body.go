package search

import (
	"context"
	"fmt"
	"runtime/debug"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// A body is a program on a subject, to be run under one chooser after the other.
type body struct {
	runner *oracle.Runner
	p      *oracle.Compiled
	v      *impls.Variant
	opt    oracle.Options
	res    *oracle.Result
	replay *sched.Replay
	runs   int
}

func newBody(p *oracle.Compiled, v *impls.Variant, opt oracle.Options) *body {
	opt.Record, opt.Trace, opt.Twice = true, false, false
	return &body{runner: oracle.NewRunner(), p: p, v: v, opt: opt,
		replay: sched.NewReplay(sched.Strict, nil)}
}

func (b *body) close() { b.runner.Close() }

// Run makes one run.
func (b *body) Run(ch machine.Chooser) explore.Run {
	b.opt.Chooser = ch
	b.res = b.runner.Run(b.p, b.v, b.opt)
	return explore.Run{Bad: len(b.res.Faults) > 0, State: b.state(), Hash: b.res.Hash,
		Points: b.res.Steps, Err: b.res.Err}
}

// state is a number of what all operations came to, in whatever order they did.
func (b *body) state() uint64 {
	sum := uint64(len(b.res.Events))
	for i := range b.res.Events {
		ev := &b.res.Events[i]
		h := uint64(ev.Op)<<16 | uint64(ev.Part)<<8 | uint64(ev.Outcome)
		h = (h ^ ev.Addr<<20 ^ ev.Addr>>44) * 0x9e3779b97f4a7c15
		sum += h ^ h>>29
	}
	return sum
}

// checkEvery is the number of runs of which one is made again.
const checkEvery = 64

// again makes the last run again, now and then, by the departures that it took, and demands the
// same trace. The result is that of the second run, which is the same.
func (b *body) again(r *explore.Run) error {
	if b.runs++; b.runs%checkEvery != 1 || b.res.Aborted {
		return nil
	}
	b.replay.Set(sched.Strict, b.runner.Recorded())
	if second := b.Run(b.replay); second.Hash != r.Hash {
		return explore.ErrNotDeterministic
	}
	return nil
}

// guarded calls f and turns a panic into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v\n\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// stopped says whether ctx ended.
func stopped(ctx context.Context) bool { return ctx.Err() != nil }
