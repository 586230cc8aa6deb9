package minimise

import (
	"bytes"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// Others gives a result the schedules of the given program p that expect bugs of other subjects,
// and returns those that it cannot keep, those that expect nothing among them. A schedule is kept
// when the one that the result has, or line order, shows the same title there.
func Others(p *prog.Program, res *Result, opt oracle.Options) (lost []*prog.Sched) {
	if res.Flaky || len(res.Program.Scheds) == 0 {
		return nil
	}
	r := oracle.NewRunner()
	defer r.Close()
	own := res.Program.Scheds[0]
	for i := range p.Scheds {
		s := &p.Scheds[i]
		v, ok := all.Lookup(s.Subject)
		if s.Subject == own.Subject || ok && v.Name == own.Subject {
			continue
		}
		if s.Subject == "" && s.Bug != "" && res.Report.Finding.Matches(s.Bug) {
			continue // for any subject, and so for this one
		}
		if s.Bug == "" { // what it is for, nobody says
			if len(s.Departures) > 0 {
				lost = append(lost, s)
			}
			continue
		}
		if !ok || !other(r, res.Program, v, s, opt) {
			lost = append(lost, s)
		}
	}
	return lost
}

// other adds a block for a subject to a program, if it shows there what s expects.
func other(r *oracle.Runner, p *prog.Program, v *impls.Variant, s *prog.Sched,
	opt oracle.Options) bool {
	c, err := oracle.Compile(p)
	if err != nil {
		return false
	}
	if ok, _ := oracle.Applies(c, v); !ok {
		return false
	}
	anchors, err := anchorsOf(c)
	if err != nil {
		return false
	}
	opt.Chooser, opt.Record = sched.NewReplay(sched.Repair, anchors), true
	r.Run(c, v, opt)
	block := c.Schedule(s.Subject, r.Recorded())
	block.Bug, block.Blank = s.Bug, true
	q := *p
	q.Scheds = append(p.Scheds[:len(p.Scheds):len(p.Scheds)], block)
	text := prog.Format(&q)
	whole, err := prog.Parse(p.File, bytes.NewReader(text))
	if err != nil {
		return false
	}
	if c, err = oracle.Compile(whole); err != nil {
		return false
	}
	opt.Chooser, opt.Record = nil, false
	got, err := r.Judge(c, v, opt)
	if err != nil || !got.Known() {
		return false
	}
	*p = *whole
	return true
}
