package fuzz

import (
	"fmt"
	"sync/atomic"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/pairs"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A Session runs inputs on a list of subjects. It keeps machines, decoder and
// storage between inputs; one goroutine uses it at a time.
type Session struct {
	Subjects []*impls.Variant
	Boot     Boot // of the machines of inputs that give no such parameters
	// Known are bugs that do not stop the session: they are counted in Stats, and what else an
	// input shows is looked for.
	Known   *Known
	runner  *oracle.Runner
	decoder input.Decoder
	replay  *sched.Replay
	compare oracle.Comparison
	pairs   []*pairs.Pair                 // of Subjects, made when they are first wanted
	twice   bool                          // the next program's runs are made twice
	points  []sched.Points                // that each subject has, for lenient schedules
	before  [][]played                    // that the process of each remote subject has played
	at      atomic.Pointer[impls.Variant] // subject that runs, for whoever watches
	Stats   Stats
}

// Stats count what a session did, by number of subject.
type Stats struct {
	Inputs   int
	Programs []int           // programs run
	Counts   []oracle.Counts // of them
	Points   uint64
	Compared int // operations compared between subjects
	LeftOut  int // and left out of the comparison
	// Known counts the findings of bugs that are known, by subject and title with a tab between.
	Known map[string]int
}

// NewSession makes a session for subjects.
func NewSession(subjects []*impls.Variant) *Session {
	s := &Session{Subjects: subjects, runner: oracle.NewRunner(), replay: sched.NewReplay(0, nil),
		Stats: Stats{Programs: make([]int, len(subjects)),
			Counts: make([]oracle.Counts, len(subjects)), Known: map[string]int{}}}
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
		return // the tests of the corpus and corpus verify name it
	}
	c, err := oracle.Compile(p)
	if err != nil {
		panic("allocfuzz: committed program: " + err.Error())
	}
	for i, v := range s.Subjects {
		if ok, _ := oracle.Applies(c, v); !ok || !v.Simulated() {
			continue // an allocator from outside has no points of its own
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
func sequential([]byte) input.DecodeOptions {
	return input.DecodeOptions{Sequential: true, Budget: budget}
}

func interrupts([]byte) input.DecodeOptions {
	return input.DecodeOptions{Budget: budget, StoreBuffers: true}
}

// debugged: three inputs of four are programs of one task, whose every report is
// predicted. The first byte of an input, which is half of them, and its length say which.
func debugged(data []byte) input.DecodeOptions {
	several := len(data) > 0 && data[0]&1 != 0 && len(data)/input.RecordSize&1 != 0
	return input.DecodeOptions{Sequential: !several, Budget: budget, Debug: true, Misuse: true}
}

// smp: where the first byte, which is the number of CPUs, has its high bit set the caches may
// have debug flags, and nothing is misused: a report of a debug check is false then.
func smp(data []byte) input.DecodeOptions {
	debug := len(data) > 0 && data[0]&smpDebug != 0
	return input.DecodeOptions{SMP: true, Budget: budget, Debug: debug, StoreBuffers: true}
}

// smpDebug is the bit of the first byte that lets debug flags through.
const smpDebug = 0x80

// Close ends the session's machines.
func (s *Session) Close() { s.runner.Close() }

// A Failure is what an input showed: the finding, the program and the schedule.
type Failure struct {
	Report    *oracle.Report
	Variant   *impls.Variant
	Reference *impls.Variant // whose outcomes differ, nil when Variant is wrong by itself
}

// subjects are those that show the failure again, as --subject takes them.
func (f *Failure) subjects() string {
	if f.Reference != nil {
		return f.Reference.Name + "," + f.Variant.Name
	}
	return f.Variant.Name
}

// Sequential decodes an input into a program of one task, runs it on every
// subject and compares their outcomes. It returns the first failure, nil when
// there is none.
func (s *Session) Sequential(data []byte) (*Failure, error) {
	return s.input(data, sequential, s.Program)
}

// Interrupts decodes an input into a program of tasks and handlers with a
// schedule and runs it, under the schedule, on every subject that its machine
// allows.
func (s *Session) Interrupts(data []byte) (*Failure, error) {
	return s.input(data, interrupts, s.Program)
}

// SMP decodes an input into a program of tasks, some of which move, and handlers on two or
// three CPUs with few pages, and runs it under its schedule as Interrupts does.
func (s *Session) SMP(data []byte) (*Failure, error) { return s.input(data, smp, s.Program) }

// Debugged decodes an input into a program with debug flags and misuse, whose reports
// are held against the rules.
func (s *Session) Debugged(data []byte) (*Failure, error) {
	return s.input(data, debugged, s.Program)
}

// input runs what an input means.
func (s *Session) input(data []byte, means func([]byte) input.DecodeOptions,
	run func(*prog.Program) (*Failure, error)) (*Failure, error) {
	opt := means(data)
	defer s.watch(func() []byte {
		p := input.Decode(data, opt)
		s.Boot.Apply(p)
		return prog.Format(p)
	})()
	s.twice = every(data)
	p := s.decoder.Decode(data, opt)
	s.Boot.Apply(p)
	return run(p)
}

// every says whether the runs of an input are made twice and compared: one input
// in 64, chosen by its bytes, so that it is the same in every process.
func every(data []byte) bool {
	h := uint32(2166136261)
	for _, b := range data {
		h = (h ^ uint32(b)) * 16777619
	}
	return h%64 == 0
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
	opt := oracle.Options{Twice: s.twice}
	s.twice = false
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

// reference is the subject that the others are compared with: the first that ran.
func (s *Session) reference(c *oracle.Compiled) *impls.Variant {
	for _, v := range s.Subjects {
		if ok, _ := oracle.Applies(c, v); ok {
			return v
		}
	}
	return nil
}

func (s *Session) run(c *oracle.Compiled, i int, v *impls.Variant, opt oracle.Options) (
	*Failure, error) {
	if ok, _ := oracle.Applies(c, v); !ok {
		return nil, nil
	}
	if v.New == nil {
		opt = oracle.Options{Warm: true} // it has no points to depart at
	}
	if opt.Chooser != nil {
		s.replay.Loosen(s.points[i])
	}
	s.at.Store(v)
	defer s.at.Store(nil)
	res := s.runner.Run(c, v, opt)
	if res.Err != nil {
		return nil, res.Err
	}
	s.Stats.Programs[i]++
	s.Stats.Counts[i].Add(&res.Counts)
	s.Stats.Points += res.Steps
	f := res.Finding()
	if v.New == nil {
		s.note(c, i, f != nil)
	}
	if f != nil {
		if s.known(f.Subject, f.Title, f.Also...) {
			return nil, nil
		}
		if v.New == nil {
			return s.confirm(c, i, f)
		}
		return s.explain(c, v, opt, f)
	}
	s.compare.Add(v, res.Events, res.Apart())
	return nil, nil
}

func (s *Session) differences(c *oracle.Compiled) (*Failure, error) {
	ds := s.compare.Differences()
	s.Stats.Compared += s.compare.Compared
	s.Stats.LeftOut += s.compare.LeftOut
	for i := range ds {
		d := &ds[i]
		if s.known(d.Subject.Name, d.Fault.Title) {
			continue
		}
		rep, err := s.runner.Explain(c, d.Subject, nil, oracle.Options{Extra: &d.Fault})
		if err != nil {
			return nil, err
		}
		return &Failure{Report: rep, Variant: d.Subject, Reference: s.reference(c)}, nil
	}
	return nil, nil
}

// known counts a finding when its bug is known.
func (s *Session) known(subject string, title fault.Title, also ...fault.Title) bool {
	first, ok := s.Known.Find(subject, string(title), plain(also)...)
	if ok {
		s.Stats.Known[subject+"\t"+first]++
	}
	return ok
}

// explain runs the input again, recording what really happened: the report's
// schedule is exact where the input's was lenient.
func (s *Session) explain(c *oracle.Compiled, v *impls.Variant, opt oracle.Options,
	first *oracle.Finding) (*Failure, error) {
	var block *prog.Sched
	if opt.Chooser != nil {
		opt.Record = true
		s.runner.Run(c, v, opt)
		b := c.Schedule(v.Name, s.runner.Recorded())
		block = &b
	}
	rep, err := s.runner.Explain(c, v, block, oracle.Options{First: first, Twice: opt.Twice})
	if err != nil {
		return nil, err
	}
	return &Failure{Report: rep, Variant: v}, nil
}
