package nightly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"allocfuzz/fuzz"
)

// play is a Steps without any fuzzer: what arms find is written in a script, and each moment at
// which something changes on disk is counted, so that a test can end the process at any of them.
type play struct {
	dir    string // where reports and regressions go
	moment int
	killAt int // moment at which the process is killed, 0 for none
	failAt int // moment at which the disk is full, 0 for none
	calls  []string
}

// found is what the script says of slices: which slices of which arm meet which bugs. The same bug
// is met by two arms, and two reports of it may come in one slice.
var found = map[string][]string{
	"a 1": {"s: lost"}, "a 2": {"s: lost", "s: lost again"}, "b 1": {"r: twice"},
	"b 3": {"s: lost"}, "c 2": {"r: flaky"}, "c 4": {"q: hung"}, "a 5": {"q: wild", "r: wild"},
}

// at is a moment.
func (p *play) at() error {
	p.moment++
	if p.moment == p.failAt {
		return fmt.Errorf("write: %w", errDiskFull)
	}
	if p.moment == p.killAt {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(syscall.SIGKILL)
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
	return nil
}

func (p *play) Prepare(_ context.Context, s *State) error {
	s.Spend(Building, time.Second)
	if err := fuzz.RemoveHalf(filepath.Join(p.dir, "regress"), nil); err != nil { // as New does
		return err
	}
	return p.at()
}

func (p *play) Slice(_ context.Context, s *State, a *Arm, d time.Duration) (*SliceReport, error) {
	p.calls = append(p.calls, a.Name)
	for i, bug := range found[fmt.Sprintf("%s %d", a.Name, a.Slices+1)] {
		if err := p.at(); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s-%d-%d", a.Name, a.Slices+1, i)
		if err := fuzz.WriteBytes(filepath.Join(p.dir, name+".txt"), []byte(bug)); err != nil {
			return nil, err
		}
	}
	s.Spend(Fuzzing, d)
	r := &SliceReport{Execs: 100, Seconds: d.Seconds(), Known: map[string]int{"s\told": 2}}
	if a.Name == "b" {
		r.New = 7
	}
	return r, p.at()
}

func (p *play) Pending() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(p.dir, "*.txt"))
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names, err
}

func (p *play) File(_ context.Context, s *State, report string) (*Filed, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, report))
	if err != nil {
		return nil, err
	}
	subject, title, _ := strings.Cut(strings.TrimSuffix(string(text), " again"), ": ")
	f := &Filed{Identity: subject + ": " + title, Subject: subject, Title: title, Fate: Regression}
	if _, ok := s.Bugs().Find(subject, title); ok {
		f.Fate = Same
		return f, nil
	}
	s.Spend(Minimising, time.Second)
	if err := p.at(); err != nil {
		return nil, err
	}
	switch title {
	case "flaky":
		f.Fate, f.Why = Flaky, "it showed once"
		return f, nil
	case "hung":
		f.Fate, f.Why = Kept, "it hangs"
		return f, nil
	}
	f.File = filepath.Join(p.dir, "regress", subject+"-"+title+".prog")
	if err := os.MkdirAll(filepath.Dir(f.File), 0o777); err != nil {
		return nil, err
	}
	if err := fuzz.WriteBytes(f.File, text[:len(subject)+len(title)+2]); err != nil {
		return nil, err
	}
	return f, p.at()
}

func (p *play) Finish(_ context.Context, s *State) error {
	s.Spend(Thinning, time.Second)
	return p.at()
}

// fresh is the state of a night of three arms in which each has several slices.
func fresh(budget float64) *State {
	return &State{Key: "k", Started: "2026-12-01T00:00:00Z", Budget: budget,
		Arms: []*Arm{{Name: "a", Target: "a"}, {Name: "b", Target: "b"}, {Name: "c", Target: "c"}}}
}

// night runs a night in a folder until it ends or is killed.
func night(dir string, p *play, logf func(string, ...any)) (*State, error) {
	lock, err := Take(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	n := &Night{Dir: dir, Steps: p, Log: logf}
	if _, err := n.Begin(fresh(1000), false); err != nil {
		return nil, err
	}
	return n.State, n.Run(context.Background())
}

// outcome is what a night leaves behind that must not depend on how often it was killed.
func outcome(t *testing.T, dir string, s *State) string {
	t.Helper()
	var lines []string
	for _, f := range s.Filed {
		if f.New() {
			lines = append(lines, fmt.Sprintf("filed %s %s", f.Identity, f.Fate))
		}
	}
	slices.Sort(lines) // two reports of a killed slice may come in one go
	names, err := filepath.Glob(filepath.Join(dir, "regress", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, filepath.Base(name)+": "+string(text))
	}
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(hidden) > 0 {
		t.Errorf("left behind: %v, error %v", hidden, err)
	}
	return strings.Join(lines, "\n")
}

// unbroken is the outcome of a night that nobody kills.
func unbroken(t *testing.T) (string, *play) {
	t.Helper()
	dir := t.TempDir()
	p := &play{dir: dir}
	s, err := night(dir, p, t.Logf)
	if err != nil || !s.Ended {
		t.Fatalf("ended %v, error %v", s.Ended, err)
	}
	return outcome(t, dir, s), p
}

// TestNight: each bug that is met becomes one thing, however often it is met.
func TestNight(t *testing.T) {
	got, p := unbroken(t)
	const want = `filed q: hung kept
filed q: wild regression
filed r: flaky flaky
filed r: twice regression
filed r: wild regression
filed s: lost regression
q-wild.prog: q: wild
r-twice.prog: r: twice
r-wild.prog: r: wild
s-lost.prog: s: lost`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if p.moment < 20 {
		t.Errorf("%d moments: the kill test has nothing to choose from", p.moment)
	}
}

// Environment of a night that is killed.
const (
	envDir  = "ALLOCFUZZ_TEST_NIGHT"
	envKill = "ALLOCFUZZ_TEST_KILL"
)

// TestMain lets the test binary be a night.
func TestMain(m *testing.M) {
	dir := os.Getenv(envDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	kill, _ := strconv.Atoi(os.Getenv(envKill))
	p := &play{dir: dir, killAt: kill}
	s, err := night(dir, p, func(string, ...any) {})
	if err != nil || !s.Ended {
		fmt.Println(err)
		os.Exit(3)
	}
	os.Exit(0)
}

// killed runs a night in a process of its own that is killed at a moment; it says whether it was.
func killed(t *testing.T, dir string, moment int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+dir, envKill+"="+strconv.Itoa(moment))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.ExitCode() == -1: // by a signal
		return true
	}
	t.Fatalf("%v\n%s", err, out)
	return false
}

// TestKilled: a night that is killed at any moment, and again and again, ends with what an unbroken
// one ends with: every bug once, nothing lost, nothing half written left.
func TestKilled(t *testing.T) {
	want, whole := unbroken(t)
	compare := func(dir, how string) {
		t.Helper()
		s, err := Load(dir)
		if err != nil || s == nil || !s.Ended {
			t.Fatalf("%s: state %+v, error %v", how, s, err)
		}
		if got := outcome(t, dir, s); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", how, got, want)
		}
	}
	for moment := 1; moment <= whole.moment; moment++ {
		dir := t.TempDir()
		if !killed(t, dir, moment) {
			t.Fatalf("not killed at moment %d of %d", moment, whole.moment)
		}
		if killed(t, dir, 0) {
			t.Fatal("killed without being asked")
		}
		compare(dir, fmt.Sprintf("killed at moment %d", moment))
	}
	// And again and again, in a night that hardly gets on.
	dir, times := t.TempDir(), 0
	for killed(t, dir, 3+times%4) {
		if times++; times > 500 {
			t.Fatal("it does not get on")
		}
	}
	compare(dir, fmt.Sprintf("killed %d times", times))
}

// TestKilledAnywhere kills a night from outside, at moments that nobody chose.
func TestKilledAnywhere(t *testing.T) {
	want, _ := unbroken(t)
	dir := t.TempDir()
	for i := 0; ; i++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envDir+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A few times sooner or later, and then it may end.
		if i < 12 {
			time.AfterFunc(time.Duration(3+4*i)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		if cmd.Wait() == nil {
			break
		}
		if i >= 12 {
			t.Fatal("it failed without being killed")
		}
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, dir, s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestFullDisk: a disk that is full at any moment ends the night with that error, and the next goes
// on from there.
func TestFullDisk(t *testing.T) {
	want, whole := unbroken(t)
	for moment := 2; moment <= whole.moment; moment++ {
		dir := t.TempDir()
		_, err := night(dir, &play{dir: dir, failAt: moment}, t.Logf)
		if !errors.Is(err, errDiskFull) {
			t.Fatalf("moment %d: error %v", moment, err)
		}
		s, err := night(dir, &play{dir: dir}, t.Logf)
		if err != nil {
			t.Fatalf("moment %d: %v", moment, err)
		}
		if got := outcome(t, dir, s); got != want {
			t.Errorf("moment %d: got\n%s\nwant\n%s", moment, got, want)
		}
	}
}

// TestBegin: what a folder's state says decides whether a night is taken up.
func TestBegin(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(s *State)
		anew    bool
		resumed bool
	}{
		{"cut short", func(*State) {}, false, true},
		{"over", func(s *State) { s.Ended = true }, false, false},
		{"asked to begin anew", func(*State) {}, true, false},
		{"another job", func(s *State) { s.Key = "other" }, false, false},
	} {
		dir := t.TempDir()
		old := fresh(10)
		old.Schema, old.Filed = schema, []Filed{{Report: "x"}}
		tt.change(old)
		if err := old.Save(dir); err != nil {
			t.Fatal(err)
		}
		n := &Night{Dir: dir, Log: t.Logf}
		resumed, err := n.Begin(fresh(10), tt.anew)
		if err != nil || resumed != tt.resumed || (len(n.State.Filed) == 1) != tt.resumed {
			t.Errorf("%s: resumed %v, filed %v, error %v", tt.name, resumed, n.State.Filed, err)
		}
	}
}

// TestBadState: a state that is cut at any byte, or of another version, is moved aside whole, and a
// new night begins.
func TestBadState(t *testing.T) {
	dir := t.TempDir()
	s := fresh(10)
	s.Schema = schema
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	bad := [][]byte{[]byte(`{"schema": 99}`), []byte("hello")}
	for n := range len(whole) - 2 { // a newline and the last brace
		bad = append(bad, whole[:n])
	}
	for i, text := range bad {
		if err := os.WriteFile(filepath.Join(dir, stateFile), text, 0o666); err != nil {
			t.Fatal(err)
		}
		said := ""
		n := &Night{Dir: dir, Log: func(f string, args ...any) { said += fmt.Sprintf(f, args...) }}
		resumed, err := n.Begin(fresh(10), false)
		aside := fmt.Sprintf("%s.bad-%d", filepath.Join(dir, stateFile), i+1)
		if err != nil || resumed || !strings.Contains(said, aside) {
			t.Fatalf("%q: resumed %v, error %v, said %q", text, resumed, err, said)
		}
		if kept, err := os.ReadFile(aside); err != nil || string(kept) != string(text) {
			t.Fatalf("%s holds %q, error %v; want %q", aside, kept, err, text)
		}
	}
}

// TestLock: a folder has one night at a time, and a night that died holds nothing.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	first, err := Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(dir); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("two nights at once: %v", err)
	}
	first.Release()
	if !killed(t, dir, 2) {
		t.Fatal("not killed")
	}
	second, err := Take(dir)
	if err != nil {
		t.Fatalf("after a night that was killed: %v", err)
	}
	second.Release()
}

// TestFaults: a fault of one arm ends that arm and not the night, and is told.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	n := &Night{Dir: dir, Log: t.Logf, Steps: &faulty{play{dir: dir}}}
	if _, err := n.Begin(fresh(100), false); err != nil {
		t.Fatal(err)
	}
	err := n.Run(t.Context())
	if err != nil || !n.State.Ended || len(n.Faults) != 1 || n.State.Arms[0].Left == "" {
		t.Errorf("error %v, faults %v, arm %+v", err, n.Faults, n.State.Arms[0])
	}
	if a := n.State.Arms[0]; a.Slices != 0 || n.State.Arms[1].Slices < 5 {
		t.Errorf("slices %d and %d", a.Slices, n.State.Arms[1].Slices)
	}
}

// faulty is a play in which arm a does not run.
type faulty struct{ play }

func (f *faulty) Slice(ctx context.Context, s *State, a *Arm, d time.Duration) (*SliceReport,
	error) {
	if a.Name == "a" {
		return nil, errors.New("the binary does not start")
	}
	return f.play.Slice(ctx, s, a, d)
}
