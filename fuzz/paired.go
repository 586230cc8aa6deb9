package fuzz

import (
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/pairs"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// paired: one input of two is a program of one task, and one of two has misuse, to which
// not every pair applies. The first byte of an input and its length say which.
func paired(data []byte) input.DecodeOptions {
	several := len(data) > 0 && data[0]&1 != 0
	return input.DecodeOptions{Sequential: !several, Budget: budget, Debug: true,
		Misuse: len(data)/input.RecordSize&1 != 0}
}

// Pairs decodes an input into a program and runs it on every pair of the session's
// subjects that is equal by design.
func (s *Session) Pairs(data []byte) (*Failure, error) { return s.input(data, paired, s.Paired) }

// Paired runs a program on every pair of the session's subjects that applies, under its
// first schedule block that departs from line order. A departure that is none for a pair
// is taken at the end of its line.
func (s *Session) Paired(p *prog.Program) (*Failure, error) {
	c, err := oracle.Compile(p)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	s.Stats.Inputs++
	s.twice = false
	var anchors []sched.Anchor
	if block := pairs.Block(p); block != nil {
		if anchors, err = c.Anchors(block); err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
	}
	if s.pairs == nil {
		s.pairs = pairs.Of(s.Subjects)
	}
	for _, pair := range s.pairs {
		if f, err := s.pair(c, pair, anchors); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

// pair runs a program on one pair.
func (s *Session) pair(c *oracle.Compiled, pair *pairs.Pair, anchors []sched.Anchor) (*Failure,
	error) {
	sides := [2]int{s.number(pair.Row.A), s.number(pair.Row.B)}
	if len(anchors) > 0 {
		anchors = pairs.Departures(anchors,
			[2]sched.Points{s.points[sides[0]], s.points[sides[1]]})
	}
	out, err := pair.Run(s.runner, c, sched.Lenient, anchors)
	if err != nil || out.Left != "" {
		return nil, err
	}
	for i, n := range sides {
		s.Stats.Programs[n]++
		s.Stats.Counts[n].Add(&out.Counts[i])
		s.Stats.Points += out.Points[i]
	}
	s.Stats.Compared += out.Counts[1].Operations
	if out.Fault == nil || s.known(pair.Row.B, out.Fault.Title) {
		return nil, nil
	}
	rep, err := pair.Explain(s.runner, c, pair.Recorded(s.runner, c, sched.Lenient, anchors),
		out.Fault)
	if err != nil {
		return nil, err
	}
	return &Failure{Report: rep, Variant: s.Subjects[sides[1]],
		Reference: s.Subjects[sides[0]]}, nil
}

// number is that of a subject of the session.
func (s *Session) number(name string) int {
	for i, v := range s.Subjects {
		if v.Name == name {
			return i
		}
	}
	panic("allocfuzz: a pair with a subject that is not the session's: " + name)
}
