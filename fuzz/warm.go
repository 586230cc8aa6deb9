package fuzz

import (
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/oracle"
)

// This file is about remote subjects, whose processes play many programs, since to start one
// takes longer than to play one. Each program leaves nothing behind, but a heap that was used
// is not a new one: what shows on it is looked for again on a new one, by the program alone and
// then behind all that the process had played.

// playedMost is how many programs a process plays.
const playedMost = 64

// A played program is one that a process has played, as text, since decoders use their
// programs again.
type played struct {
	text       []byte
	sequential bool
}

// note notes that the process of subject i has played a program. When it has played enough, the
// next program begins on a new one.
func (s *Session) note(c *oracle.Compiled, i int, found bool) {
	if s.before == nil {
		s.before = make([][]played, len(s.Subjects))
	}
	s.before[i] = append(s.before[i], played{prog.Format(c.Prog), c.Sequential()})
	if len(s.before[i]) == playedMost && !found {
		s.cool(i)
	}
}

// cool lets the next program of subject i begin on a new process.
func (s *Session) cool(i int) {
	s.runner.Cool(s.Subjects[i])
	s.before[i] = s.before[i][:0]
}

// confirm looks for a finding of a remote subject again on new processes.
func (s *Session) confirm(c *oracle.Compiled, i int, first *oracle.Finding) (*Failure, error) {
	v, all := s.Subjects[i], s.before[i]
	defer s.cool(i)
	res := s.runner.Run(c, v, oracle.Options{})
	if res.Err != nil {
		return nil, res.Err
	}
	if res.Finding() == nil && len(all) > 1 {
		if joined, err := join(all); err == nil {
			c = joined
		}
	}
	return s.explain(c, v, oracle.Options{}, first)
}

// join is one program of several: each has its own names, and what it leaves live is freed.
func join(list []played) (*oracle.Compiled, error) {
	out := &prog.Program{}
	for n := range list {
		if !list[n].sequential {
			return nil, fmt.Errorf("program %d of %d has several contexts", n+1, len(list))
		}
		p, err := prog.ParseString(string(list[n].text))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			out.Machine = p.Machine
		}
		part := part{suffix: fmt.Sprintf("_%d", n+1), live: map[string]prog.Line{}}
		for i := range p.Caches {
			p.Caches[i].Name += part.suffix
		}
		out.Caches = append(out.Caches, p.Caches...)
		part.lines(p.Lines)
		out.Lines = append(append(out.Lines, p.Lines...), part.frees()...)
	}
	// What is made of parts is parsed as a whole: the parser is what knows the rules.
	whole, err := prog.ParseString(string(prog.Format(out)))
	if err != nil {
		return nil, err
	}
	return oracle.Compile(whole)
}

// A part is one of the programs that are joined.
type part struct {
	suffix string
	live   map[string]prog.Line // that frees each name, by name
	order  []string
}

// lines gives the names of lines the suffix and notes what they bind.
func (p *part) lines(list []prog.Line) {
	for i := range list {
		l := &list[i]
		l.Label, l.Expect = "", nil
		if l.Verb == prog.Repeat {
			p.lines(l.Body)
			continue
		}
		if l.Cache != "" {
			l.Cache += p.suffix
		}
		p.names(l.Results)
		p.names(l.Slots)
		p.binds(l)
	}
}

func (p *part) names(list []string) {
	for k := range list {
		if list[k] != prog.Nil {
			list[k] += p.suffix
		}
	}
}

// binds notes how what a line binds is freed.
func (p *part) binds(l *prog.Line) {
	free := prog.Line{Ctx: l.Ctx, Verb: prog.Free}
	switch l.Verb {
	case prog.Alloc, prog.AllocBulk:
		free.Cache = l.Cache
	case prog.Malloc, prog.Calloc, prog.Realloc, prog.Memalign:
	default:
		return
	}
	for _, name := range l.Results {
		if _, again := p.live[name]; !again {
			p.order = append(p.order, name)
		}
		free.Slots = []string{name}
		p.live[name] = free
	}
}

// frees are the lines that free what is live.
func (p *part) frees() []prog.Line {
	var out []prog.Line
	for _, name := range p.order {
		out = append(out, p.live[name])
	}
	return out
}
