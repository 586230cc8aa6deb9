package oracle

import (
	"fmt"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/play"
)

// playRemote sends the program to a remote subject and judges its transcript. A
// subject that dies is a finding; one that cannot be started, that refuses the
// batch or that answers with something else than a transcript is an error, which
// says nothing of the allocator.
func (r *Runner) playRemote() {
	if r.opt.Chooser != nil {
		panic("allocfuzz: a schedule for a remote subject")
	}
	s := sent{batch: impls.Batch{Caches: r.p.Caches, Slots: len(r.p.Slots),
		Debug: r.p.Config.Debug, Rules: r.p.Config.Rules, Merge: r.p.Config.Merge}}
	if len(r.p.Ctxs) > 0 {
		s.flatten(r, r.p.Ctxs[0].Code)
	}
	for i := range r.p.Caches {
		r.res.opened = append(r.res.opened, opens(r.v, &r.p.Caches[i]))
	}
	t, err := dial(r.v, &s.batch)
	if err != nil {
		r.res.Err = fmt.Errorf("%s: %w", r.v.Name, err)
		return
	}
	r.judgeTranscript(t, &s)
}

// A sent is a program as a batch: what each operation of it was in the program.
type sent struct {
	batch  impls.Batch
	places []int32 // lines, by operation of the batch
}

// opens is the outcome of a declared cache as far as the capabilities decide it.
func opens(v *impls.Variant, s *impls.CacheSpec) impls.Outcome {
	if !v.Caps.Has(impls.CapObjects) || !v.Caps.Takes(s, v.Profile.MinAlign) {
		return impls.Unsupported
	}
	return impls.OK
}

// dial plays one batch on a subject started for it.
func dial(v *impls.Variant, b *impls.Batch) (*impls.Transcript, error) {
	player, err := v.Dial()
	if err != nil {
		return nil, err
	}
	t, err := player.Play(b)
	if e := player.Close(); err == nil && t.Death == "" {
		err = e
	}
	return t, err
}

// flatten unrolls repeats: a batch has none.
func (s *sent) flatten(r *Runner, code []node) {
	for i := range code {
		n := &code[i]
		if n.count > 0 {
			for range n.count {
				s.flatten(r, n.body)
			}
			continue
		}
		op := r.lines[n.line].Op
		r.pattern = r.pattern.Next()
		op.Pattern = r.pattern
		r.patterns(&op)
		s.batch.Ops = append(s.batch.Ops, op)
		s.places = append(s.places, int32(n.line))
	}
}

// line is the line of an operation of the batch, -1 when there is none such.
func (s *sent) line(op int32) int {
	if op < 0 || int(op) >= len(s.places) {
		return -1
	}
	return int(s.places[op])
}

// judgeTranscript holds what a remote side wrote down against the model.
func (r *Runner) judgeTranscript(t *impls.Transcript, s *sent) {
	r.keep = !r.opt.Discard
	r.judge.reset(anywhere{}, r.v.Profile.MinAlign, 0, r.opt.Checks)
	r.judge.first = nil
	var told readersTold
	told.begin(r.p.Caches)
	r.judge.relics.sections, r.judge.relics.stable = told.sections, told.which
	r.judge.merge.on = r.p.Config.Merge
	sizes, misused := map[impls.Addr]uint64{}, false
	for i := range t.Events {
		ev := t.Events[i]
		told.event(&ev, s.batch.Ops)
		ev.Op = int32(s.line(ev.Op))
		r.judge.where = fault.Where{Line: int(ev.Op), CPU: -1}
		if ev.Code == impls.OpRealloc && ev.Outcome == impls.OK {
			r.judge.vacate(ev.Old, sizes[ev.Old])
			delete(sizes, ev.Old)
		}
		r.judge.begins(&ev)
		r.judge.event(&ev)
		if ev.Outcome == impls.OK && !play.Frees(ev.Code) && ev.Addr != 0 {
			sizes[ev.Addr] = ev.Size
		}
		r.res.Counts.Operations++
		misused = misused || ev.Code.Misuses() && ev.Outcome == impls.OK
		if !misused { // what a misuse leads to is the remote side's own
			r.checked(&ev)
		}
		r.answered(r.note(&ev), &ev)
	}
	if t.Death != "" {
		r.judge.where = fault.Where{Line: s.line(t.Last), CPU: -1}
		r.judge.fault(deathTitle(t.Death), "%s", t.Death)
		r.res.Aborted = true
	}
	r.judged()
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
