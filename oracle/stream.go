package oracle

import (
	"errors"
	"fmt"
	"io"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// Stream runs a program of one task on v while it is read, line by line, and judges
// it as it goes: outcomes are held against the model and against what the lines
// state. Memory is needed for what is live, whatever the length: lines that ran are
// forgotten but for those at which something was found, names that hold nothing
// any more as well (not where caches are debugged: misuse needs them), and no
// transcript is kept. The structure is looked at where the
// program says check, at the end, and in between the more seldom the longer it runs.
//
// Errors are those of the reader, and a second context, a schedule (with file and
// line) or a subject that cannot run it. What ran before the error is not judged
// further. Options.Chooser, Record, Trace and Twice have no meaning here.
func (r *Runner) Stream(in *prog.Reader, v *impls.Variant, opt Options) (*Result, error) {
	if opt.Checks == 0 {
		opt.Checks = AllChecks
	}
	s := &stream{r: r, k: newCompiler(in.Program()), in: in}
	if err := s.accept(v); err != nil {
		return nil, err
	}
	opt.Chooser, opt.Record, opt.Trace, opt.Twice = nil, false, false, false
	r.start(s.k.p, v, opt)
	r.deep, r.keep, r.rest = false, false, 0
	r.setUp()
	r.stated, r.res.kept = newStated(&r.res), map[int]*prog.Line{}
	s.run(opt.Native)
	r.finish()
	r.stated = nil
	s.keepOf(r.res.Faults)
	if s.err != nil {
		return nil, s.err
	}
	return &r.res, nil
}

// A stream is a program that runs while it is read.
type stream struct {
	r    *Runner
	k    *compiler
	in   *prog.Reader
	line prog.Line // in hand
	next prog.Line // behind it
	more bool      // there is a next
	err  error
	told int // faults whose lines were kept
}

// accept reads the first line and says whether v can run the program.
func (s *stream) accept(v *impls.Variant) error {
	if err := s.k.machine(); err != nil {
		return err
	}
	if v.New == nil {
		return fmt.Errorf("%s: a remote subject: expected one in process, or a whole program",
			v.Name)
	}
	if p := s.k.p.Config.Preempt; !v.For(p) {
		return fmt.Errorf("%s: made for other machines than preempt=%s", v.Name, p)
	}
	s.advance()
	return s.err
}

// advance reads the line behind the one in hand, and at the end demands that no
// schedule follows.
func (s *stream) advance() {
	s.line = s.next
	s.next, s.err = s.in.NextLine()
	s.more = s.err == nil
	if !errors.Is(s.err, io.EOF) {
		return
	}
	s.err = nil
	if list := s.in.Program().Scheds; len(list) > 0 {
		s.err = s.fault(list[0].Pos, "a schedule: expected a program without one in a stream")
	}
}

func (s *stream) fault(at prog.Pos, msg string) error {
	return &prog.Error{File: s.in.Program().File, Pos: at, Msg: msg,
		Hint: "parse it as a whole: only one task in line order runs while it is read"}
}

// run lets the task run to its end, on its own CPU.
func (s *stream) run(native bool) {
	for s.more && s.err == nil && s.next.Verb == prog.Check {
		s.advance()
		s.item(nil)
	}
	r := s.r
	if s.more && s.err == nil {
		s.k.context(s.next.Ctx, 0)
		if k := &s.k.p.Ctxs[0]; native {
			r.runNative(k, s.body)
		} else {
			r.m.AddTask(k.Name, k.CPU, 0, k.Ctx.Kind == pinnedKind, s.body)
		}
	}
	if !native {
		r.simulate()
	}
}

// body is the task: it reads, compiles and runs one line after the other.
func (s *stream) body(c *machine.Ctx) {
	for s.more && s.err == nil {
		s.advance()
		if s.err == nil {
			s.item(c)
		}
	}
}

// item runs the line in hand, a repeat with its body.
func (s *stream) item(c *machine.Ctx) {
	r, k := s.r, s.k
	k.base += len(k.p.Lines)
	k.p.Lines, k.p.Checks = k.p.Lines[:0], k.p.Checks[:0]
	k.line(&s.line, []int{k.base}, -1)
	if len(k.p.Ctxs) > 1 {
		s.err = s.fault(s.line.Pos, "context "+s.line.Ctx.String()+": expected "+k.p.Ctxs[0].Name+
			", the only one of a stream")
		return
	}
	r.lines, r.base = k.p.Lines, k.base
	r.exec.Grow(room(len(k.p.Slots), r.exec.Slots()), len(k.p.Stores))
	if s.line.Verb == prog.Check {
		if c != nil {
			c.EndReading()
		}
		r.structure(nil)
		s.keep()
		return
	}
	after := machine.After
	if s.more {
		after = k.base + len(k.p.Lines)
	}
	x := &k.p.Ctxs[0]
	r.ctx(0).run(c, x.Code, round{after: after})
	x.Code = x.Code[:0]
	s.keep()
	for i := range k.p.Lines {
		s.drop(&k.p.Lines[i])
	}
}

// room is how many slots there should be when n are needed: twice as many each
// time they run out.
func room(n, have int) int {
	if n <= have {
		return have
	}
	return max(n, 2*have, 64)
}

// keep keeps the lines at which faults were raised since the last call.
func (s *stream) keep() {
	r := s.r
	faults := len(r.judge.faults) + len(r.m.Faults()) + len(r.res.Faults)
	if faults == s.told {
		return
	}
	s.told = faults
	s.keepOf(r.judge.faults)
	s.keepOf(r.m.Faults())
	s.keepOf(r.res.Faults)
}

// keepOf keeps the lines of those faults that were raised at a line in hand.
func (s *stream) keepOf(list []fault.Fault) {
	for i := range list {
		n := list[i].Where.Line
		if at := n - s.k.base; at >= 0 && at < len(s.k.p.Lines) && s.r.res.kept[n] == nil {
			l := *s.k.p.Lines[at].Src
			s.r.res.kept[n] = &l
		}
	}
}

// drop forgets the names of a line that hold nothing any more.
func (s *stream) drop(l *Line) {
	for _, name := range l.Src.Slots {
		s.dropSlot(name)
	}
	for _, name := range l.Src.Results {
		if l.Src.Verb == prog.Create {
			s.dropStore(name)
		} else {
			s.dropSlot(name)
		}
	}
	if l.Src.Cache != "" {
		s.dropStore(l.Src.Cache)
	}
}

// dropSlot keeps a name that is void for want of support, too: what hangs on it is
// not held against what is stated. Where misuse can be, it may be done to what was
// given back.
func (s *stream) dropSlot(name string) {
	i, ok := s.k.slots.at[name]
	if !ok || marked(s.r.stated.slots, i) {
		return
	}
	slot := s.r.exec.Slot(int(i))
	if slot.State != play.Live && !(s.r.shadowed && slot.Given()) {
		s.k.slots.drop(name)
	}
}

func (s *stream) dropStore(name string) {
	i, ok := s.k.store.at[name]
	if ok && s.r.exec.Cache(int(i)) == nil && !marked(s.r.stated.stores, i) {
		s.k.store.drop(name)
	}
}
