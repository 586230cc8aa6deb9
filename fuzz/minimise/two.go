package minimise

import (
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/pairs"
	"allocfuzz/impls"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// compared judges a subject whose outcomes differ from a reference's, in line order.
type compared struct {
	bug    Bug
	opt    oracle.Options
	runner *oracle.Runner
}

func (k *compared) close() { k.runner.Close() }

func (k *compared) run(q *prog.Program, wanted func(*oracle.Finding) bool) (*shown, error) {
	c, err := oracle.Compile(q)
	if err != nil || !c.Sequential() || len(q.Scheds) > 0 {
		return nil, nil
	}
	f, err := k.differs(c)
	if err != nil || f == nil || !wanted(f) {
		return nil, err
	}
	return newShown(c, f), nil
}

// differs compares the two on a program: both must show nothing by themselves.
func (k *compared) differs(c *oracle.Compiled) (*oracle.Finding, error) {
	var both oracle.Comparison
	for _, v := range []*impls.Variant{k.bug.Reference, k.bug.Subject} {
		got, err := k.runner.Judge(c, v, k.opt)
		if err != nil || got.Left != "" || got.Finding != nil {
			return nil, err
		}
		both.Add(v, got.Events, got.Apart)
	}
	ds := both.Differences()
	if len(ds) == 0 {
		return nil, nil
	}
	opt := k.opt
	opt.Extra = &ds[0].Fault
	return k.runner.Run(c, k.bug.Subject, opt).Finding(), nil
}

func (k *compared) report(q *prog.Program) (*oracle.Report, error) {
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, err
	}
	f, err := k.differs(c)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, ErrSilent
	}
	opt := k.opt
	opt.First, opt.Extra = f, &f.Fault
	return k.runner.Explain(c, k.bug.Subject, nil, opt)
}

// paired judges two subjects that are equal by design.
type paired struct {
	bug    Bug
	opt    oracle.Options
	runner *oracle.Runner
	pair   *pairs.Pair // nil when they are none
}

func newPaired(bug Bug, opt oracle.Options) *paired {
	k := &paired{bug: bug, opt: opt, runner: oracle.NewRunner()}
	for _, p := range pairs.Of([]*impls.Variant{bug.Reference, bug.Subject}) {
		if p.Row.A == bug.Reference.Name && p.Row.B == bug.Subject.Name {
			k.pair = p
		}
	}
	return k
}

func (k *paired) close() { k.runner.Close() }

func (k *paired) run(q *prog.Program, wanted func(*oracle.Finding) bool) (*shown, error) {
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, nil
	}
	if k.pair == nil {
		return nil, fmt.Errorf("%s and %s are no pair that is equal by design",
			k.bug.Reference.Name, k.bug.Subject.Name)
	}
	anchors, err := anchorsOf(c)
	if err != nil {
		return nil, nil
	}
	out, err := k.pair.Run(k.runner, c, sched.Repair, anchors)
	if err != nil || out.Fault == nil {
		return nil, err
	}
	if block := k.pair.Recorded(k.runner, c, sched.Repair, anchors); block != nil {
		q.Scheds = nil
		if len(block.Departures) > 0 {
			q.Scheds = []prog.Sched{*block}
		}
	}
	rep, err := k.strictly(c)
	if err != nil || rep == nil || !wanted(rep.Finding) {
		return nil, err
	}
	return newShown(c, rep.Finding), nil
}

// strictly runs a program as a replay of both does: each must be silent by itself.
func (k *paired) strictly(c *oracle.Compiled) (*oracle.Report, error) {
	for _, v := range []*impls.Variant{k.bug.Reference, k.bug.Subject} {
		got, err := k.runner.Judge(c, v, k.opt)
		if err != nil || got.Finding != nil {
			return nil, nil
		}
	}
	block := pairs.Block(c.Prog)
	var anchors []sched.Anchor
	if block != nil {
		var err error
		if anchors, err = c.Anchors(block); err != nil {
			return nil, nil
		}
	}
	out, err := k.pair.Run(k.runner, c, sched.Strict, anchors)
	if err != nil || out.Fault == nil {
		return nil, err
	}
	return k.pair.Explain(k.runner, c, block, out.Fault)
}

func (k *paired) report(q *prog.Program) (*oracle.Report, error) {
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, err
	}
	rep, err := k.strictly(c)
	if err == nil && rep == nil {
		err = ErrSilent
	}
	return rep, err
}
