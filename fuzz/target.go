package fuzz

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/pairs"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
)

// Environment variables of the fuzz targets. A fuzz worker is a process of its own
// and inherits them.
const (
	// EnvSubjects names the subjects, joined by commas; the sound ones otherwise.
	EnvSubjects = "ALLOCFUZZ_SUBJECTS"
	// EnvDebug and EnvRules are boot parameters for the machines of inputs without any.
	EnvDebug = "ALLOCFUZZ_DEBUG"
	EnvRules = "ALLOCFUZZ_RULES"
	// EnvKnown is a file of bugs that are known beside those that the committed programs
	// expect, as ReadKnown reads it.
	EnvKnown = "ALLOCFUZZ_KNOWN"
	// EnvGoOn, when it is not empty, has a target write what it finds to EnvFindings and go on,
	// once for each bug. Without it a target fails at the first bug that is not known.
	EnvGoOn = "ALLOCFUZZ_GO_ON"
	// EnvFindings is a directory for findings: NAME.prog and NAME.txt each.
	EnvFindings = "ALLOCFUZZ_FINDINGS"
	// EnvStats is a directory for counts: one file a process, written now and then.
	EnvStats = "ALLOCFUZZ_STATS"
)

// A TB is what a target needs of testing.TB.
type TB interface {
	Helper()                           // marks the caller as a helper
	Fatalf(format string, args ...any) // ends the test as failed
}

// A Target is one fuzz target: a plain function of bytes, for go test -fuzz, for
// replay and for other engines alike.
type Target struct {
	Name  string // of the Go fuzz function
	About string
	pick  func([]*impls.Variant) []*impls.Variant // subjects of those selected; nil is all
	run   func(*Session, []byte) (*Failure, error)
	means func([]byte) input.DecodeOptions
	mu    sync.Mutex
	s     *Session
	last  int // inputs when the counts were last written
}

// FuzzSequential runs one task and compares the subjects.
var FuzzSequential = &Target{Name: "FuzzSequential",
	About: "programs of one task, every subject against the model and each other",
	run:   (*Session).Sequential, means: sequential}

// FuzzInterrupts runs tasks and handlers under a schedule that is part of the
// input.
var FuzzInterrupts = &Target{Name: "FuzzInterrupts",
	About: "programs of tasks and handlers, with the schedule in the input",
	run:   (*Session).Interrupts, means: interrupts}

// FuzzSMP runs tasks and handlers on small machines of several CPUs: few objects a slab, few
// pages, and a schedule full of switches, moves, interrupts and failures.
var FuzzSMP = &Target{Name: "FuzzSMP",
	About: "tasks and handlers of several CPUs under page pressure, with the schedule in the input",
	pick:  simulated, run: (*Session).SMP, means: smp}

// FuzzDebug runs programs with debug flags and misuse on the subjects that can be
// debugged.
var FuzzDebug = &Target{Name: "FuzzDebug",
	About: "debug flags and misuse: every report predicted, none missed and none false",
	pick:  debuggable, run: (*Session).Debugged, means: debugged}

// FuzzPairs holds the subjects against each other that are equal by design.
var FuzzPairs = &Target{Name: "FuzzPairs",
	About: "pairs that are equal by design: addresses, lists and pages, not outcomes alone",
	pick:  pairs.Subjects, run: (*Session).Pairs, means: paired}

// Targets are the targets of this package.
func Targets() []*Target {
	return []*Target{FuzzSequential, FuzzInterrupts, FuzzSMP, FuzzDebug, FuzzPairs}
}

// TargetNamed finds a target; nil when none has the name, as of those whose inputs are no programs.
func TargetNamed(name string) *Target {
	for _, t := range Targets() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Program is the program that an input means to the target, with the boot parameters
// of the environment.
func (t *Target) Program(data []byte) *prog.Program {
	p := input.Decode(data, t.means(data))
	if boot, err := envBoot(); err == nil {
		boot.Apply(p)
	}
	return p
}

func envBoot() (Boot, error) { return ParseBoot(os.Getenv(EnvDebug), os.Getenv(EnvRules)) }

// Sound returns the subjects that must stay silent.
func Sound() []*impls.Variant {
	var out []*impls.Variant
	for _, v := range all.Variants() {
		if v.Sound {
			out = append(out, v)
		}
	}
	return out
}

// Names are the names of subjects, in their order.
func Names(subjects []*impls.Variant) []string {
	var out []string
	for _, v := range subjects {
		out = append(out, v.Name)
	}
	return out
}

// Select finds subjects by name or alias, joined by commas; "" is the sound ones.
func Select(names string) ([]*impls.Variant, error) {
	if names == "" {
		return Sound(), nil
	}
	var out []*impls.Variant
	for _, n := range strings.Split(names, ",") {
		v, err := all.Find(n)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// simulated leaves out the subjects that have no points, since they come from outside; all are
// kept when none has.
func simulated(subjects []*impls.Variant) []*impls.Variant {
	return keep(subjects, (*impls.Variant).Simulated)
}

// debuggable leaves out the subjects that cannot be debugged; all are kept when none can.
func debuggable(subjects []*impls.Variant) []*impls.Variant {
	return keep(subjects, func(v *impls.Variant) bool { return v.Caps.Has(impls.CapDebug) })
}

// keep returns the subjects that suit, all of them when none does.
func keep(subjects []*impls.Variant, suits func(*impls.Variant) bool) []*impls.Variant {
	var out []*impls.Variant
	for _, v := range subjects {
		if suits(v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return subjects
	}
	return out
}

// Run runs one input and fails tb with the program, its history and the command
// that repeats it when a subject misbehaves in a way that is not known. With EnvGoOn
// it is written down, and known from then on.
func (t *Target) Run(tb TB, data []byte) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s == nil {
		if err := t.begin(); err != nil {
			tb.Fatalf("allocfuzz: %v", err)
		}
	}
	for {
		f, err := t.run(t.s, data)
		if err != nil {
			tb.Fatalf("allocfuzz: %v", err)
		}
		t.count(f != nil)
		if f == nil {
			return
		}
		if text, saved := t.tell(f); !saved || os.Getenv(EnvGoOn) == "" {
			tb.Fatalf("%s", text)
		}
		t.s.Known.Learn(f.Report.Finding) // what else the input shows comes next
	}
}

// Try runs one input on subjects in a session of its own and returns what it shows, nil for
// nothing, whatever is known.
func (t *Target) Try(subjects []*impls.Variant, data []byte) (*Failure, error) {
	if t.pick != nil {
		subjects = t.pick(subjects)
	}
	s := NewSession(subjects)
	defer s.Close()
	return t.run(s, data)
}

// begin makes the session that the environment asks for.
func (t *Target) begin() error {
	subjects, err := Select(os.Getenv(EnvSubjects))
	if err != nil {
		return fmt.Errorf("%s: %w", EnvSubjects, err)
	}
	boot, err := envBoot()
	if err != nil {
		return err
	}
	known, err := Expected(nil)
	if err != nil {
		return err
	}
	if name := os.Getenv(EnvKnown); name != "" {
		more, err := ReadKnown(name)
		if err != nil {
			return fmt.Errorf("%s: %w", EnvKnown, err)
		}
		known.Join(more)
	}
	if t.pick != nil {
		subjects = t.pick(subjects)
	}
	t.s = NewSession(subjects)
	t.s.Boot, t.s.Known = boot, known
	return nil
}

// tell writes a failure down where EnvFindings says, and returns its text.
func (t *Target) tell(f *Failure) (text string, saved bool) {
	dir := os.Getenv(EnvFindings)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "allocfuzz-findings")
	}
	_, err := f.Save(dir)
	out := &strings.Builder{}
	f.Report.Text(out)
	if err != nil {
		fmt.Fprintf(out, "\n(%s: %v)\n", NotSaved, err)
	}
	return "\n" + out.String(), err == nil
}

// NotSaved is what a target says of a finding that could not be saved.
const NotSaved = "the finding could not be written to a file"

// Save writes a failure to a folder, which is made if need be, as NAME.txt and
// NAME.prog: the name tells subject, title and a hash of the program. It sets the
// report's command and returns the name of the program's file.
func (f *Failure) Save(dir string) (file string, err error) {
	text := prog.Format(f.Report.Program)
	name := findingFile(dir, f.Report.Finding.Subject+" "+string(f.Report.Finding.Title), text)
	file = name + ".prog"
	f.Report.Command = "allocfuzz replay --subject " + f.subjects() + " " + Argument(file)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return file, err
	}
	if err := WriteFile(name+".txt", f.Report.Text); err != nil {
		return file, err
	}
	return file, WriteBytes(file, text)
}

// findingFile is the name, without its ending, of the files of a finding in a folder: what it is
// and a hash of its program.
func findingFile(dir, what string, text []byte) string {
	h := fnv.New64a()
	h.Write(text)
	return filepath.Join(dir, fmt.Sprintf("%s-%08x", slug(what), uint32(h.Sum64())))
}

// slug turns a title into a file name.
func slug(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
}

// countEvery is the number of inputs between two writes of the counts.
const countEvery = 512

// count writes the session's counts where EnvStats says.
func (t *Target) count(now bool) {
	dir := os.Getenv(EnvStats)
	if dir == "" || !now && t.s.Stats.Inputs-t.last < countEvery && t.last > 0 {
		return
	}
	t.last = t.s.Stats.Inputs
	writeFile(filepath.Join(dir, t.Name+"-"+strconv.Itoa(os.Getpid())), false,
		whole(t.s.Stats.encode(t.s.Subjects)))
}

// encode writes counts as lines: inputs, points, then a line a subject.
func (s *Stats) encode(subjects []*impls.Variant) []byte {
	b := fmt.Appendf(nil, "inputs %d\npoints %d\ncompared %d\nleftout %d\n", s.Inputs, s.Points,
		s.Compared, s.LeftOut)
	for i, v := range subjects {
		c := &s.Counts[i]
		b = fmt.Appendf(b, "subject %s %d %d %d %d %d\n", v.Name, s.Programs[i], c.Operations,
			c.Unsupported, c.Skipped, c.Refused)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Known)) {
		b = fmt.Appendf(b, "known %d %s\n", s.Known[key], key)
	}
	return b
}
