package oracle

import (
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/oracle/sched"
)

// Points runs p on v once, under block s or in line order when s is nil, and keeps
// every point: the result's Trace. Departures that do not apply are left out. Like
// any result it is valid until the next run. A departure that names no line of p is
// an error with its place in the file.
func (r *Runner) Points(p *Compiled, v *impls.Variant, s *prog.Sched, opt Options) (
	*Result, error) {
	opt.Chooser, opt.Trace = nil, true
	if s != nil && len(s.Departures) > 0 {
		anchors, err := p.Anchors(s)
		if err != nil {
			return nil, err
		}
		opt.Chooser = sched.NewReplay(sched.Repair, anchors)
	}
	return r.Run(p, v, opt), nil
}
