package oracle

import (
	"runtime/debug"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// runNative carries out a program of one task on a native machine: no points, no
// checks of steps, the same transcript.
func (r *Runner) runNative() {
	if !r.p.Sequential() {
		panic("allocfuzz: a native run of a program with several contexts")
	}
	c := r.m.NativeCtx(r.p.Ctxs[0].CPU, r.p.Ctxs[0].Name)
	defer c.Release()
	defer func() {
		if p := recover(); p != nil && !machine.Stopped(p) {
			r.panicked(&machine.Panic{Value: p, Stack: debug.Stack()})
		} else if p != nil {
			r.res.Aborted = true
		}
	}()
	r.ctx(0).body(c)
}

// playRemote sends the program to a remote subject and judges its transcript.
func (r *Runner) playRemote() {
	b := impls.Batch{Caches: r.p.Caches, Slots: len(r.p.Slots)}
	places := []int32{}
	if len(r.p.Ctxs) > 0 {
		flatten(r, r.p.Ctxs[0].Code, &b, &places)
	}
	player, err := r.v.Dial()
	if err != nil {
		panic("allocfuzz: " + r.v.Name + ": " + err.Error())
	}
	defer player.Close()
	t, err := player.Play(&b)
	if err != nil {
		panic("allocfuzz: " + r.v.Name + ": " + err.Error())
	}
	r.judgeTranscript(t, places)
}

// flatten unrolls repeats: a batch has none.
func flatten(r *Runner, code []node, b *impls.Batch, places *[]int32) {
	for i := range code {
		n := &code[i]
		for range n.count {
			flatten(r, n.body, b, places)
		}
		if n.count > 0 || r.lines[n.line].Foreign {
			continue
		}
		op := r.lines[n.line].Op
		r.pattern++
		op.Pattern = r.pattern
		b.Ops = append(b.Ops, op)
		*places = append(*places, int32(n.line))
	}
}

// judgeTranscript holds what a remote side wrote down against the model.
func (r *Runner) judgeTranscript(t *impls.Transcript, places []int32) {
	r.keep = true
	r.judge.reset(anywhere{}, r.v.Profile.MinAlign, 0, r.opt.Checks)
	sizes := map[impls.Addr]uint64{}
	for i := range t.Events {
		ev := t.Events[i]
		if ev.Op >= 0 && int(ev.Op) < len(places) {
			ev.Op = places[ev.Op]
		}
		r.judge.where = fault.Where{Line: int(ev.Op), CPU: -1}
		if ev.Code == impls.OpRealloc && ev.Outcome == impls.OK {
			r.judge.vacate(ev.Old, sizes[ev.Old])
			delete(sizes, ev.Old)
		}
		r.judge.event(&ev)
		if ev.Outcome == impls.OK && !play.Frees(ev.Code) && ev.Addr != 0 {
			sizes[ev.Addr] = ev.Size
		}
		r.res.Counts.Operations++
		r.note(&ev)
	}
	if t.Death != "" {
		r.judge.where = fault.Where{Line: -1, CPU: -1}
		if t.Last >= 0 && int(t.Last) < len(places) {
			r.judge.where.Line = int(places[t.Last])
		}
		r.judge.fault(deathTitle(t.Death), "%s", t.Death)
		r.res.Aborted = true
	}
	r.res.Faults = append(r.res.Faults, r.judge.faults...)
	r.res.Counts.Checked[fault.Ownership] += int(r.judge.judged[0])
	r.res.Counts.Checked[fault.Contents] += int(r.judge.judged[1])
}

// deathTitle maps how a remote side died to its title.
func deathTitle(how string) fault.Title {
	switch {
	case strings.HasPrefix(how, "hung"):
		return fault.Hung
	case strings.HasPrefix(how, "killed"):
		return fault.Killed
	case strings.HasPrefix(how, "aborted"):
		return fault.Aborted
	case strings.HasPrefix(how, "memory"):
		return fault.MemoryBlowUp
	}
	return fault.Exited
}

// anywhere is the memory of a remote subject: not ours to look at.
type anywhere struct{}

func (anywhere) Fill(impls.Addr, uint64, impls.Pattern)         {}
func (anywhere) Verify(impls.Addr, uint64, impls.Pattern) int64 { return -1 }
func (anywhere) Read(impls.Addr, []byte) int                    { return 0 }
func (anywhere) Flip(impls.Addr, byte)                          {}
func (anywhere) Contains(impls.Addr, uint64) bool               { return true }
