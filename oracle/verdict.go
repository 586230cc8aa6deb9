package oracle

import (
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/oracle/sched"
)

// A Verdict is what a program showed on one subject: in line order, and under its
// written schedules.
type Verdict struct {
	Subject  *impls.Variant
	Left     string // why the subject was left out, "" when it ran
	Finding  *Finding
	Expected string // title that the subject's own schedule block expects
	Runs     int
	Repaired int // departures that did not apply, of a block made for others
	Counts   Counts
	Steps    uint64
	Hash     uint64        // of the run that found something, else of the last
	Sched    *prog.Sched   // of that run; nil in line order
	Events   []impls.Event // outcomes of the run in line order, when it was made
	Apart    bool          // it could not make every declared cache, see Comparison
}

// Missing says that a bug was expected and not found.
func (v *Verdict) Missing() bool {
	return v.Left == "" && v.Expected != "" && (v.Finding == nil || !v.Finding.Matches(v.Expected))
}

// Known says that what was found is what the file expects.
func (v *Verdict) Known() bool {
	return v.Finding != nil && v.Expected != "" && v.Finding.Matches(v.Expected)
}

// Judge runs p on v. A subject with a block of its own runs that block, strictly:
// an anchor that never occurs is an error with its place in the file. Any other
// runs in line order and then the first block, leaving out what does not apply. A
// remote subject that cannot be played is an error, too.
func (r *Runner) Judge(p *Compiled, v *impls.Variant, opt Options) (*Verdict, error) {
	out := &Verdict{Subject: v}
	if ok, why := Applies(p, v); !ok {
		out.Left = why
		return out, nil
	}
	own := p.block(v)
	if own != nil {
		out.Expected = own.Bug
		return out, r.scheduled(p, v, opt, own, out)
	}
	opt.Chooser = nil
	res := r.Run(p, v, opt)
	if res.Err != nil {
		return out, res.Err
	}
	res.Expect()
	out.Events, out.Apart = append(out.Events, res.Events...), res.Apart()
	out.add(res, nil)
	if len(p.Prog.Scheds) > 0 && v.New != nil {
		return out, r.scheduled(p, v, opt, &p.Prog.Scheds[0], out)
	}
	return out, nil
}

// block is the schedule block of a subject.
func (p *Compiled) block(v *impls.Variant) *prog.Sched {
	for i := range p.Prog.Scheds {
		s := &p.Prog.Scheds[i]
		if s.Subject != "" && (s.Subject == v.Name || s.Subject == v.Alias) {
			return s
		}
	}
	return nil
}

func (r *Runner) scheduled(p *Compiled, v *impls.Variant, opt Options, s *prog.Sched,
	out *Verdict) error {
	anchors, err := p.Anchors(s)
	if err != nil {
		return err
	}
	mode := sched.Repair
	if s.Subject != "" && (s.Subject == v.Name || s.Subject == v.Alias) {
		mode = sched.Strict
	}
	replay := sched.NewReplay(mode, anchors)
	opt.Chooser = replay
	res := r.Run(p, v, opt)
	if mode == sched.Strict {
		res.Expect()
	}
	unused := replay.Unused()
	if mode == sched.Repair {
		out.Repaired += len(unused)
	}
	if mode == sched.Strict && len(unused) > 0 && !res.Aborted {
		return p.neverReached(s, anchors, unused[0])
	}
	out.add(res, s)
	return nil
}

func (p *Compiled) neverReached(s *prog.Sched, anchors []sched.Anchor, a *sched.Anchor) error {
	for i := range anchors {
		if &anchors[i] == a || anchors[i].Pos == a.Pos && anchors[i].Kind == a.Kind &&
			anchors[i].Field == a.Field && anchors[i].N == a.N && anchors[i].Iter == a.Iter {
			return &prog.Error{File: p.Prog.File, Pos: s.Departures[i].Pos,
				Msg: "this point never occurs on " + s.Subject +
					", or the action is not possible there",
				Hint: "see the points of the line with allocfuzz replay -v"}
		}
	}
	panic("allocfuzz: an anchor without a departure")
}

// add takes one run into the verdict; its first finding stays.
func (v *Verdict) add(res *Result, s *prog.Sched) {
	v.Runs++
	v.Counts.Add(&res.Counts)
	v.Steps += res.Steps
	f := res.Finding()
	if v.Finding == nil {
		v.Hash = res.Hash
		if f != nil {
			v.Finding, v.Sched = f, s
		}
	}
}
