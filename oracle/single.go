package oracle

import (
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/oracle/sched"
)

// An Exploration is what trying one departure at every point gave.
type Exploration struct {
	Subject   *impls.Variant
	Schedules int
	Points    uint64
	Counts    Counts
	Finding   *Finding    // the first
	Sched     *prog.Sched // that shows it; without departures when line order does
	Found     int         // schedules that found something
}

// Singles runs p on v in line order and then once for every departure that is
// possible at any point of that run: an interrupt, a switch, a migration, a
// failing page request, one at a time (bound 1). It goes on after a finding.
func (r *Runner) Singles(p *Compiled, v *impls.Variant, opt Options) *Exploration {
	x := &Exploration{Subject: v}
	survey := &sched.Survey{}
	opt.Chooser, opt.Record = survey, true
	x.add(r, r.Run(p, v, opt))
	single := &sched.Single{}
	opt.Chooser = single
	for point, n := range survey.Allowed {
		for which := range n {
			single.Point, single.Which = point, which
			x.add(r, r.Run(p, v, opt))
		}
	}
	return x
}

func (x *Exploration) add(r *Runner, res *Result) {
	x.Schedules++
	x.Points += res.Steps
	x.Counts.Add(&res.Counts)
	if len(res.Faults) == 0 {
		return
	}
	x.Found++
	if x.Finding == nil {
		x.Finding = res.Finding()
		s := res.Program.Schedule(res.Subject.Name, r.Recorded())
		s.Bug = string(x.Finding.Title)
		x.Sched = &s
	}
}
