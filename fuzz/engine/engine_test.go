package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// write puts a file into a folder and returns its name.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestFindRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "src/go.mod", "// sources\nmodule allocfuzz // here\n\ngo 1.26\n")
	write(t, dir, "src/fuzz/example/go.mod", "module example.com/mine\n")
	write(t, dir, "other/go.mod", "module allocfuzzer\n")
	for from, want := range map[string]string{"src": "src", "src/fuzz": "src",
		"src/fuzz/example": "src", "other": ""} {
		got, err := FindRoot(filepath.Join(dir, from))
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "module allocfuzz") {
				t.Errorf("from %s: got %q, error %v; want one that names it", from, got, err)
			}
			continue
		}
		if err != nil || got != filepath.Join(dir, want) {
			t.Errorf("from %s: got %q, error %v; want %s", from, got, err, want)
		}
	}
}

func TestNoToolchain(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b := Build{Root: ".", Dir: t.TempDir(), Log: t.Logf}
	if _, _, err := b.Run(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "no go command in PATH") {
		t.Errorf("got error %v", err)
	}
}

func TestTargets(t *testing.T) {
	root, err := FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Targets(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := SelectTargets(all, []string{"interrupts", "FuzzSequential", "FuzzInterrupts"})
	want := []string{"FuzzInterrupts", "FuzzSequential"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, targets (-want +got):\n%s", err, diff)
	}
	if _, err := SelectTargets(all, []string{"Fuzz"}); err == nil {
		t.Error("a target without a name was found")
	}
	if _, err := Targets(t.TempDir()); err == nil {
		t.Error("targets were found in an empty folder")
	}
}

func TestLines(t *testing.T) {
	var got []string
	w := &lines{each: func(l string) { got = append(got, l) }}
	for _, part := range []string{"on", "e\ntw", "o\r\n", "\n", "three"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d, error %v", n, len(part), err)
		}
	}
	w.end()
	w.end()
	if diff := cmp.Diff([]string{"one", "two", "", "three"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestTail(t *testing.T) {
	var tl tail
	long := strings.Repeat("x", tailMax/4)
	for range 10 {
		tl.add(long)
	}
	tl.add("last")
	if n := len(tl.lines); n != 4 || tl.lines[n-1] != "last" || tl.bytes > tailMax {
		t.Errorf("%d lines of %d bytes", n, tl.bytes)
	}
}

func TestReadInput(t *testing.T) {
	dir := t.TempDir()
	good := write(t, dir, "good", "go test fuzz v1\n[]byte(\"a\\x00\\\"\\n\")\n")
	if got, err := readInput(good); string(got) != "a\x00\"\n" || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
	for _, text := range []string{"", "go test fuzz v1\n", "go test fuzz v1\nint(3)\n",
		"go test fuzz v2\n[]byte(\"a\")\n", "go test fuzz v1\n[]byte(\"a)\n"} {
		if got, err := readInput(write(t, dir, "bad", text)); err == nil {
			t.Errorf("%q is the input %q", text, got)
		}
	}
}

func TestReadStats(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "A-1", "inputs 5\npoints 70\ncompared 1\nleftout 2\nsubject a 1 20 3 4 5\n"+
		"subject b 1 1 1 1 1\n")
	write(t, dir, "A-2", "inputs 6\npoints 80\nsubject a 2 30 4 5 6\nwhatever\nsubject\n")
	write(t, dir, ".A-3.tmp", "inputs 600\n")
	got := readStats(dir)
	want := Tally{"a": {Programs: 3, Operations: 50, Unsupported: 7, Skipped: 9, Refused: 11},
		"b": {Programs: 1, Operations: 1, Unsupported: 1, Skipped: 1, Refused: 1}}
	if diff := cmp.Diff(want, got.tally); diff != "" || got.inputs != 11 || got.points != 150 {
		t.Errorf("inputs %d, points %d, subjects (-want +got):\n%s", got.inputs, got.points, diff)
	}
	if s := want["a"].Share(); s != 0.14 {
		t.Errorf("share %v, want 0.14", s)
	}
}

// TestStatsForm reads what a fuzz target really writes, and the finding that it
// really saves.
func TestStatsForm(t *testing.T) {
	out, counts := t.TempDir(), t.TempDir()
	t.Setenv(fuzz.EnvSubjects, "slab-2001-threelists,slub-2008-seq")
	t.Setenv(fuzz.EnvStats, counts)
	t.Setenv(fuzz.EnvFindings, out)
	fuzz.FuzzSequential.Run(t, make([]byte, 200))
	s := readStats(counts)
	if s.inputs != 1 || s.points == 0 || s.tally["slub-2008-seq"].Programs != 1 {
		t.Errorf("inputs %d, points %d, subjects %v", s.inputs, s.points, s.tally)
	}
}

// unsound is the regression that the plain exchange is found by.
func unsound(t *testing.T) (*prog.Program, []*impls.Variant) {
	t.Helper()
	const name = "../../corpus/regress/slub-2008-cmpxchg-aba.prog"
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := prog.Parse(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return p, Owners(p)
}

// TestGather saves real findings and reads them back: the smallest program of each
// identity stays, what was there before is not looked at.
func TestGather(t *testing.T) {
	p, owners := unsound(t)
	if len(owners) != 1 || owners[0].Name != "slub-2008-cmpxchg" {
		t.Fatalf("owners %v", owners)
	}
	r := NewReplayer(oracle.Options{})
	defer r.Close()
	list, err := r.Program(t.Context(), p, owners)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	save := func(p *prog.Program) string {
		rep := *list[0].Report
		rep.Program = p
		file, err := (&fuzz.Failure{Report: &rep, Variant: owners[0]}).Save(dir)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	small := *list[0].Report.Program
	large := small
	large.Doc = append([]string{"# A larger one."}, small.Doc...)
	old := save(&large)
	before := reports(dir)
	large.Doc = append([]string{"# Another."}, large.Doc...)
	gone, kept := save(&large), save(&small)

	var b Buckets
	got, err := b.Gather(dir, before)
	if err != nil || len(got) != 1 {
		t.Fatalf("gathered %v, error %v; want one", got, err)
	}
	want := list[0].Findings[0]
	want.File, want.Report, want.Place, want.Known = kept, strings.TrimSuffix(kept, "prog")+"txt",
		"", false
	want.Command = "allocfuzz replay --subject slub-2008-cmpxchg " + kept
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("finding (-want +got):\n%s", diff)
	}
	for name, there := range map[string]bool{old: true, gone: false, kept: true} {
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("%s: there %v, want %v", name, err == nil, there)
		}
	}
}

// TestEnding: what a start left behind says how it ended.
func TestEnding(t *testing.T) {
	failed := errors.New("exit status 1")
	input := []string{write(t, t.TempDir(), "in", "go test fuzz v1\n[]byte(\"\")\n")}
	const dead = "fuzzing process hung or terminated unexpectedly: "
	for _, c := range []struct {
		name   string
		inputs []string
		fresh  []Finding
		e      ended
		want   Ending
		fault  string // part of the error
		found  string // title of a finding that was made
	}{
		{"clean", nil, nil, ended{}, Clean, "", ""},
		{"found", nil, []Finding{{Title: "pages leaked"}}, ended{}, Clean, "", ""},
		{"flake", nil, nil,
			ended{failure: failed, output: []string{"x: context deadline exceeded"}},
			Flake, "", ""},
		{"fault", input, nil, ended{failure: failed, output: []string{"t.go:1: allocfuzz: a"}},
			Broken, "a fault of allocfuzz", ""},
		{"harness without input", nil, nil,
			ended{failure: failed, output: []string{"panic: allocfuzz: no"}},
			Broken, "a fault of allocfuzz", ""},
		{"fault while hung", input, nil,
			ended{failure: failed, output: []string{"panic: allocfuzz: no", dead}},
			Broken, "a fault of allocfuzz", ""},
		{"unsaved", nil, nil,
			ended{failure: failed, output: []string{"(" + fuzz.NotSaved + ": full)"}},
			Broken, "could not be saved", ""},
		{"hang", input, nil, ended{failure: failed, output: []string{dead + "exit status 2"},
			run: &sliceRun{ended: string(fault.Hung)}}, Hang, "", ""},
		{"blow-up", input, nil, ended{failure: failed, output: []string{dead + "exit status 2"},
			run: &sliceRun{ended: string(fault.MemoryBlowUp)}}, OutOfMemory, "", ""},
		{"runtime out of memory", input, nil, ended{failure: failed,
			output: []string{"fatal error: runtime: out of memory", dead + "exit status 2"}},
			OutOfMemory, "", "memory blow-up"},
		{"killed from outside", nil, nil, ended{failure: failed, output: []string{"fuzzing " +
			"process terminated by unexpected signal; no crash will be recorded: signal: killed"}},
			OutOfMemory, "", ""},
		{"exit", input, nil, ended{failure: failed, output: []string{dead + "exit status 3"}},
			WorkerDeath, "", "exited"},
		{"signal", input, nil,
			ended{failure: failed, output: []string{dead + "signal: segmentation fault"}},
			WorkerDeath, "", "killed by a signal"},
		{"other failure", input, nil, ended{failure: failed}, Broken, "without a finding", ""},
		{"interrupted", nil, nil, ended{failure: failed, interrupted: true}, Interrupted, "", ""},
		{"overrun", nil, nil, ended{failure: failed, overrun: true},
			Broken, "did not end in time", ""},
		{"broken", nil, nil, ended{failure: failed}, Broken, "exit status 1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &Job{Out: t.TempDir(), Log: t.Logf, Buckets: &Buckets{}}
			e := &c.e
			if e.run == nil {
				e.run = &sliceRun{}
			}
			e.run.job, e.run.slice = j, Slice{Target: "FuzzSequential"}
			e.res = &SliceResult{Inputs: c.inputs, Fresh: c.fresh}
			got, err := e.judge()
			if got != c.want || (err == nil) != (c.fault == "") ||
				err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("ending %q, error %v; want %q and %q", got, err, c.want, c.fault)
			}
			made := e.res.Fresh[len(c.fresh):]
			if len(made) > 1 || (len(made) == 1) != (c.found != "") {
				t.Fatalf("made %v, want %q", made, c.found)
			}
			if c.found == "" {
				return
			}
			if made[0].Title != c.found || made[0].Identity != "FuzzSequential: "+c.found {
				t.Errorf("made %+v, want %q", made[0], c.found)
			}
			if text, err := os.ReadFile(made[0].File); err != nil ||
				!bytes.HasPrefix(text, []byte("allocfuzz 1\n")) {
				t.Errorf("its program is %q, error %v", text, err)
			}
		})
	}
}

// TestReplayStated: an outcome that the program states and that does not come is a
// finding with its history.
func TestReplayStated(t *testing.T) {
	p, err := prog.ParseString("allocfuzz 1\ncpu0 p = malloc 10 => ok\ncpu0 free p => skipped\n")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReplayer(oracle.Options{})
	defer r.Close()
	list, err := r.Program(t.Context(), p, fuzz.Sound()[:2])
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		f := list[i].Findings
		if len(f) != 1 || f[0].Title != "outcomes differ" || list[i].Report == nil ||
			len(list[i].Report.History) != 2 {
			t.Errorf("%s: %v", list[i].Verdict.Subject.Name, f)
		}
	}
}

// TestReplayDifference: a subject whose events differ from the first one's is found,
// with the difference as evidence.
func TestReplayDifference(t *testing.T) {
	p, err := prog.ParseString("allocfuzz 1\ncpu0 p = malloc 10\ncpu0 free p\n")
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReplayer(oracle.Options{})
	defer r.Close()
	list := make([]Replay, 3)
	for i, v := range fuzz.Sound()[:3] {
		if list[i].Verdict, err = r.runner.Judge(c, v, r.Options); err != nil {
			t.Fatal(err)
		}
	}
	list[2].Verdict.Events[1].Op = 0
	r.compare(c, list)
	for i := range list {
		r.tell(c, &list[i])
		if found := len(list[i].Findings); found != i/2 {
			t.Errorf("%s: %d findings, want %d", list[i].Verdict.Subject.Name, found, i/2)
		}
	}
	if f := list[2].Report.Finding; !strings.Contains(f.Fault.Detail, "ran line 0") {
		t.Errorf("evidence: %v", f.Fault)
	}
}

// TestArgument: file names in commands are spelled as a shell takes them.
func TestArgument(t *testing.T) {
	for file, want := range map[string]string{
		"corpus/seeds/a-b_c.prog": "corpus/seeds/a-b_c.prog",
		"<stdin>":                 "-",
		"-x.prog":                 "./-x.prog",
		"a b.prog":                "'a b.prog'",
		"it's.prog":               `'it'\''s.prog'`,
		"$HOME;x":                 "'$HOME;x'",
		"é.prog":                  "'é.prog'",
		"new\nline's":             `$'new\nline\'s'`,
		"\xff":                    `$'\xff'`,
		"":                        "''",
	} {
		if got := fuzz.Argument(file); got != want {
			t.Errorf("Argument(%q) = %s, want %s", file, got, want)
		}
	}
}

// TestUntil: what does not end before the context does is left behind with its
// runner, and a panic comes back with its stack.
func TestUntil(t *testing.T) {
	r := NewReplayer(oracle.Options{})
	defer r.Close()
	ran := false
	if !r.Until(t.Context(), func(run *oracle.Runner) { ran = run == r.runner }) || !ran {
		t.Error("a function that ends was left behind, or had another runner")
	}
	ctx, cancel := context.WithCancel(t.Context())
	old, release := r.runner, make(chan struct{})
	defer close(release)
	if r.Until(ctx, func(*oracle.Runner) {
		cancel()
		<-release
	}) {
		t.Error("a function that does not end was not left behind")
	}
	if r.runner == old {
		t.Error("the runner of what was left behind is used on")
	}
	defer func() {
		text := fmt.Sprint(recover())
		if !strings.HasPrefix(text, "allocfuzz: lost") || !strings.Contains(text, "TestUntil") {
			t.Errorf("panic %q, want the message and the stack", text)
		}
	}()
	r.Until(t.Context(), func(*oracle.Runner) { panic("allocfuzz: lost") })
}

// TestProgramCut: when the context ends, what the subjects before showed stays.
func TestProgramCut(t *testing.T) {
	p, err := prog.ParseString("allocfuzz 1\ncpu0 p = malloc 10 => enomem\n")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := NewReplayer(oracle.Options{})
	defer r.Close()
	list := slices.Clone(fuzz.Sound()[:2])
	stop := *list[1]
	release := make(chan struct{})
	defer close(release)
	stop.New = func(m *machine.Machine) impls.Instance {
		cancel()
		<-release
		return list[0].New(m)
	}
	list[1] = &stop
	got, err := r.Program(ctx, p, list)
	if !errors.Is(err, context.Canceled) || len(got) != 1 || len(got[0].Findings) != 1 {
		t.Errorf("%v, %v; want the first subject's finding and that the context ended", got, err)
	}
}

// TestFuzzTime: the fuzz engine does not take a time of 0.
func TestFuzzTime(t *testing.T) {
	for d, want := range map[time.Duration]string{1: "1ms", 1500 * time.Microsecond: "2ms",
		3 * time.Second: "3s"} {
		if got := fuzzTime(d); got != want {
			t.Errorf("fuzzTime(%v) = %s, want %s", d, got, want)
		}
	}
}

// TestPaired: what differs between subjects that are equal by design is found of the second,
// against the first, in line order and under a schedule. A subject that was found to be
// wrong by itself is held against nobody.
func TestPaired(t *testing.T) {
	const text = "allocfuzz 1\ncache c objects=2 size=64\n\ncpu0 a = alloc c\n" +
		"cpu0 b = alloc c\ncpu0 d = alloc c\ncpu0 free c d\ncpu0 free c a\ncpu0 free c b\n" +
		"irq0 e = alloc c\n"
	const sched = "\nsched\nat free(b) end - 1: irq0\n"
	known := strings.Replace(sched, "sched",
		"sched subject=slab-2001-threelists-opt => bug \"pair differs\"", 1)
	first, _ := all.Lookup("slab-2001-threelists")
	second, _ := all.Lookup("slab-2001-threelists-opt")
	one, _ := all.Lookup("slab-2001-onelist")
	wrong := *second
	wrong.New, wrong.Caps = one.New, one.Caps
	promises := wrong
	promises.Caps = second.Caps
	r := NewReplayer(oracle.Options{})
	defer r.Close()
	for _, tt := range []struct {
		text  string
		v     *impls.Variant
		title string
	}{
		{text, second, ""}, {text, &wrong, "pair differs"}, {text + sched, &wrong, "pair differs"},
		{text + sched, second, ""},
		{text + known, &wrong, "pair differs"}, {text + known, second, Missing},
		{strings.ReplaceAll(text, "irq0", "cpu0"), &promises, "reuse order broken"},
	} {
		p, err := prog.ParseString(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Program(t.Context(), p, []*impls.Variant{first, tt.v})
		if err != nil || len(list[0].Findings) > 0 {
			t.Fatal(err, list[0].Findings)
		}
		got := list[1].Findings
		if tt.title == "" {
			if len(got) > 0 {
				t.Errorf("found %v", got)
			}
			continue
		}
		if len(got) != 1 || got[0].Title != tt.title ||
			(list[1].Report == nil) != (tt.title == Missing) ||
			got[0].Known != strings.Contains(tt.text, "=> bug") && tt.title != Missing {
			t.Errorf("found %v, want %s", got, tt.title)
			continue
		}
		both := strings.Contains(got[0].Command, first.Name+","+second.Name)
		if both != (tt.title == "pair differs") {
			t.Errorf("%s: command %q", tt.title, got[0].Command)
		}
	}
}

// TestExpected: what a committed program expects of a subject is known wherever it is met, be
// it another title of the run, and of that subject only.
func TestExpected(t *testing.T) {
	twice, lost := string(fault.TwiceOut), string(fault.FreeLost)
	known, err := Expected("")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    Finding
		want bool
	}{
		{Finding{Subject: "slub-2008-cmpxchg", Title: twice}, true},
		{Finding{Subject: "slub-2008-cmpxchg", Title: "odd", Also: []string{twice}}, true},
		{Finding{Subject: "slub-2008-cmpxchg", Title: "odd"}, false},
		{Finding{Subject: "slub-2008-seq-slowpath", Title: lost}, true},
		{Finding{Subject: "slub-2008-seq", Title: twice}, false},
		{Finding{Subject: "slub-2008-seq", Title: Missing, Known: true}, true},
		{Finding{Subject: "slub-2008-cmpxchg", Title: Missing}, false},
	} {
		f := tt.f
		Mark(known, &f)
		if f.Known != tt.want {
			t.Errorf("%+v: known %v, want %v", tt.f, f.Known, tt.want)
		}
	}
}
