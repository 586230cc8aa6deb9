package fuzz

import (
	"fmt"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A Session runs inputs on a list of subjects. It keeps machines, decoder and
// storage between inputs; one goroutine uses it at a time.
type Session struct {
	Subjects []*impls.Variant
	runner   *oracle.Runner
	decoder  input.Decoder
	replay   *sched.Replay
	compare  oracle.Comparison
	points   []sched.Points // that each subject has, for lenient schedules
	Stats    Stats
}

// Stats count what a session did, by number of subject.
type Stats struct {
	Inputs   int
	Programs []int           // programs run
	Counts   []oracle.Counts // of them
	Points   uint64
	Compared int // operations compared between subjects
	LeftOut  int // and left out of the comparison
}

// NewSession makes a session for subjects.
func NewSession(subjects []*impls.Variant) *Session {
	s := &Session{Subjects: subjects, runner: oracle.NewRunner(), replay: sched.NewReplay(0, nil),
		Stats: Stats{Programs: make([]int, len(subjects)),
			Counts: make([]oracle.Counts, len(subjects))}}
	s.points = make([]sched.Points, len(subjects))
	for i := range s.points {
		s.points[i] = sched.Points{}
	}
	for f := range corpus.Seeds() {
		s.learn(f)
	}
	return s
}

// learn notes the points of every subject in one committed program. What a session
// knows of a subject depends on the corpus alone, so an input means the same in
// every process.
func (s *Session) learn(f corpus.File) {
	p, err := f.Program()
	if err != nil {
		panic("allocfuzz: committed program: " + err.Error())
	}
	c, err := oracle.Compile(p)
	if err != nil {
		panic("allocfuzz: committed program: " + err.Error())
	}
	for i, v := range s.Subjects {
		if ok, _ := oracle.Applies(c, v); !ok || v.New == nil {
			continue
		}
		res := s.runner.Run(c, v, oracle.Options{Trace: true, Shallow: true})
		for k := range res.Trace {
			e := &res.Trace[k]
			s.points[i][sched.PointName{Kind: e.Kind, Field: e.Field.Name()}] = true
		}
	}
}

// budget bounds the operations of one run: a wrap of 8 bits and what leads to it
// fits, and an input stays below a millisecond or two.
const budget = 1024

// What inputs mean to the targets.
var (
	sequential = input.DecodeOptions{Sequential: true, Budget: budget}
	interrupts = input.DecodeOptions{Budget: budget}
)

// Close ends the session's machines.
func (s *Session) Close() { s.runner.Close() }

// A Failure is what an input showed: the finding, the program and the schedule.
type Failure struct {
	Report  *oracle.Report
	Variant *impls.Variant
}

// Sequential decodes an input into a program of one task, runs it on every
// subject and compares their outcomes. It returns the first failure, nil when
// there is none.
func (s *Session) Sequential(data []byte) (*Failure, error) {
	return s.Program(s.decoder.Decode(data, sequential))
}

// Interrupts decodes an input into a program of tasks and handlers with a
// schedule and runs it, under the schedule, on every subject that its machine
// allows.
func (s *Session) Interrupts(data []byte) (*Failure, error) {
	return s.Program(s.decoder.Decode(data, interrupts))
}

// Program runs a program under its first schedule block, of whatever subject, on
// every subject. A departure whose point a subject does not have is taken at the
// end of its line.
func (s *Session) Program(p *prog.Program) (*Failure, error) {
	c, err := oracle.Compile(p)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	s.Stats.Inputs++
	opt := oracle.Options{}
	if len(p.Scheds) > 0 && len(p.Scheds[0].Departures) > 0 {
		anchors, err := c.Anchors(&p.Scheds[0])
		if err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
		s.replay.Set(sched.Lenient, anchors)
		opt.Chooser = s.replay
	}
	s.compare.Reset()
	for i, v := range s.Subjects {
		if f, err := s.run(c, i, v, opt); f != nil || err != nil {
			return f, err
		}
	}
	if !c.Sequential() || opt.Chooser != nil {
		return nil, nil
	}
	return s.differences(c)
}

func (s *Session) run(c *oracle.Compiled, i int, v *impls.Variant, opt oracle.Options) (
	*Failure, error) {
	if ok, _ := oracle.Applies(c, v); !ok {
		return nil, nil
	}
	if opt.Chooser != nil {
		s.replay.Loosen(s.points[i])
	}
	res := s.runner.Run(c, v, opt)
	s.Stats.Programs[i]++
	s.Stats.Counts[i].Add(&res.Counts)
	s.Stats.Points += res.Steps
	if len(res.Faults) > 0 {
		return s.explain(c, v, opt)
	}
	s.compare.Add(v, res.Events)
	return nil, nil
}

func (s *Session) differences(c *oracle.Compiled) (*Failure, error) {
	ds := s.compare.Differences()
	s.Stats.Compared += s.compare.Compared
	s.Stats.LeftOut += s.compare.LeftOut
	if len(ds) == 0 {
		return nil, nil
	}
	rep, err := s.runner.Explain(c, ds[0].Subject, nil, oracle.Options{Extra: &ds[0].Fault})
	if err != nil {
		return nil, err
	}
	return &Failure{Report: rep, Variant: ds[0].Subject}, nil
}

// explain runs the input again, recording what really happened: the report's
// schedule is exact where the input's was lenient.
func (s *Session) explain(c *oracle.Compiled, v *impls.Variant, opt oracle.Options) (
	*Failure, error) {
	var block *prog.Sched
	if opt.Chooser != nil {
		opt.Record = true
		res := s.runner.Run(c, v, opt)
		if len(res.Faults) == 0 {
			return nil, fmt.Errorf("%s: %s", v.Name, fault.NonDeterministic)
		}
		b := c.Schedule(v.Name, s.runner.Recorded())
		block = &b
	}
	rep, err := s.runner.Explain(c, v, block, oracle.Options{})
	if err != nil {
		return nil, err
	}
	return &Failure{Report: rep, Variant: v}, nil
}
