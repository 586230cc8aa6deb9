package oracle

import (
	"cmp"
	"fmt"
	"slices"
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
	if len(r.p.Ctxs) > 1 {
		s.batch.Threads = len(r.p.Ctxs)
	}
	for i := range r.p.Ctxs {
		s.flatten(r, r.p.Ctxs[i].Code, uint8(i))
	}
	if !r.opt.NoEnd {
		s.ending(r)
	}
	for i := range r.p.Caches {
		r.res.opened = append(r.res.opened, opens(r.v, &r.p.Caches[i]))
	}
	t, size, err := r.dial(&s.batch)
	if err != nil {
		r.res.Err = fmt.Errorf("%s: %w", r.v.Name, err)
		return
	}
	r.judgeTranscript(t, &s)
	if w := r.warm[r.v]; w != nil {
		w.most = max(w.most, r.judge.most)
		r.judge.most = w.most
	}
	r.judge.where = fault.Where{Line: -1, CPU: -1}
	if most := r.judge.most; size > footprintFree+footprintTimes*most && t.Death == "" {
		r.judge.fault(fault.Footprint, "%d KiB resident, at most %d were live", size>>10, most>>10)
	}
	r.judged()
}

// A process may have so many bytes and so many times those that were live at once.
const (
	footprintFree  = 256 << 20
	footprintTimes = 4
)

// A sent is a program as a batch: what each operation of it was in the program.
type sent struct {
	batch  impls.Batch
	places []int32 // lines, by operation of the batch; -1 for the end
}

// opens is the outcome of a declared cache as far as the capabilities decide it.
func opens(v *impls.Variant, s *impls.CacheSpec) impls.Outcome {
	if !v.Caps.Has(impls.CapObjects) || !v.Caps.Takes(s, v.Profile.MinAlign) {
		return impls.Unsupported
	}
	return impls.OK
}

// A warmed process is one that is kept for more programs.
type warmed struct {
	impls.Player
	most uint64 // the most bytes that were live in it at once
}

// dial plays one batch on a process of the subject: one started for it, or with Options.Warm
// the one that is kept. It also says how much memory that has then, 0 when nobody knows.
func (r *Runner) dial(b *impls.Batch) (t *impls.Transcript, size uint64, err error) {
	w := r.warm[r.v]
	if !r.opt.Warm || w == nil {
		w = &warmed{}
		if w.Player, err = r.v.Dial(); err != nil {
			return nil, 0, err
		}
	}
	delete(r.warm, r.v)
	t, err = w.Play(b)
	alive := err == nil && t.Death == ""
	if f, ok := w.Player.(impls.Footprinter); ok && alive {
		size = f.Footprint()
	}
	if alive && r.opt.Warm {
		if r.warm == nil {
			r.warm = map[*impls.Variant]*warmed{}
		}
		r.warm[r.v] = w
		return t, size, nil
	}
	if e := w.Close(); alive {
		err = e
	}
	return t, size, err
}

// Cool ends the process of a remote subject that is kept, if one is: the next run begins with a
// fresh one.
func (r *Runner) Cool(v *impls.Variant) {
	if player := r.warm[v]; player != nil {
		delete(r.warm, v)
		_ = player.Close() // of no more use anyway
	}
}

// hangUp ends every process that is kept.
func (r *Runner) hangUp() {
	//tidy:maporder every one is ended, in any order
	for _, player := range r.warm {
		_ = player.Close()
	}
	clear(r.warm)
}

// flatten unrolls repeats: a batch has none.
func (s *sent) flatten(r *Runner, code []node, thread uint8) {
	for i := range code {
		n := &code[i]
		if n.count > 0 {
			for range n.count {
				s.flatten(r, n.body, thread)
			}
			continue
		}
		op := r.lines[n.line].Op
		op.Thread = thread
		s.add(r, op, int32(n.line))
	}
}

func (s *sent) add(r *Runner, op impls.Op, place int32) {
	r.pattern = r.pattern.Next()
	op.Pattern = r.pattern
	r.patterns(&op)
	s.batch.Ops = append(s.batch.Ops, op)
	s.places = append(s.places, place)
}

// endMost bounds the programs that are followed by more, and the bytes asked for there.
const (
	endMost     = 1 << 12
	endSizeMost = 1 << 20
)

// ending frees what the program took by size, takes it all once more, and frees it: what a heap
// made of the blocks that it got back shows only then.
func (s *sent) ending(r *Runner) {
	if len(s.batch.Ops) > endMost || s.batch.Threads > 1 || !r.v.Caps.Has(impls.CapSizes) {
		return
	}
	sizes := map[int32]uint64{}
	var slots []int32
	for i := range s.batch.Ops {
		op := &s.batch.Ops[i]
		switch op.Code {
		case impls.OpMalloc, impls.OpCalloc, impls.OpMemalign, impls.OpRealloc:
			if _, again := sizes[op.Result]; !again && op.Result >= 0 {
				slots = append(slots, op.Result)
			}
			sizes[op.Result] = min(op.Size, endSizeMost)
		}
	}
	free := func(slot int32) impls.Op {
		return impls.Op{Code: impls.OpFree, Cache: -1, Slot: slot, Result: -1}
	}
	for _, slot := range slots {
		s.add(r, free(slot), -1)
	}
	for _, slot := range slots {
		s.add(r, impls.Op{Code: impls.OpMalloc, Size: sizes[slot], Cache: -1, Slot: -1,
			Result: slot}, -1)
	}
	for _, slot := range slots {
		s.add(r, free(slot), -1)
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
	r.judge.weak, r.judge.small = r.v.Profile.SizeAlign, r.v.Profile
	var told readersTold
	told.begin(r.p.Caches)
	r.judge.relics.sections, r.judge.relics.stable = told.sections, told.which
	r.judge.merge.on = r.p.Config.Merge
	misused, moves := false, leavings{j: &r.judge, sizes: map[impls.Addr]uint64{}}
	moves.find(t.Events, s.batch.Threads)
	for i := range t.Events {
		ev := t.Events[i]
		told.event(&ev, s.batch.Ops)
		ev.Op = int32(s.line(ev.Op))
		if ev.Op < 0 && len(r.judge.faults) > 0 {
			break // what is wrong already shows again at the end
		}
		r.judge.where = fault.Where{Line: int(ev.Op), CPU: -1}
		moves.before(&ev)
		r.judge.begins(&ev)
		r.judge.event(&ev)
		if ev.Outcome == impls.OK && !play.Frees(ev.Code) && ev.Addr != 0 {
			moves.sizes[ev.Addr] = ev.Size
		}
		if s.batch.Threads > 1 {
			r.stated = nil // what a line states of its outcome holds in the order of the lines
		}
		if ev.Op < 0 {
			continue // what is done at the end is no part of the program
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
}

// leavings are the reallocs of a transcript: their old memory is the allocator's from the call
// on, which among threads is before their event.
type leavings struct {
	j     *judge
	sizes map[impls.Addr]uint64 // of what is live, by address
	moved []*impls.Event        // of several threads, by Began
}

// find notes the reallocs of several threads.
func (l *leavings) find(events []impls.Event, threads int) {
	if threads < 2 {
		return
	}
	for i := range events {
		if ev := &events[i]; ev.Code == impls.OpRealloc && ev.Outcome == impls.OK {
			l.moved = append(l.moved, ev)
		}
	}
	slices.SortStableFunc(l.moved, func(a, b *impls.Event) int {
		return cmp.Compare(a.Began, b.Began)
	})
}

// before ends the life of what reallocs gave back before an event.
func (l *leavings) before(ev *impls.Event) {
	if l.moved == nil && ev.Code == impls.OpRealloc && ev.Outcome == impls.OK {
		l.leave(ev.Old)
	}
	for len(l.moved) > 0 && l.moved[0].Began < ev.Seq {
		l.leave(l.moved[0].Old)
		l.moved = l.moved[1:]
	}
}

func (l *leavings) leave(a impls.Addr) {
	l.j.vacate(a, l.sizes[a])
	delete(l.sizes, a)
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
