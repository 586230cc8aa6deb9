package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/clib"
)

// TestMain lets the test binary stand in for the command, for a go command that
// builds nothing, and for the fuzz binary that it did not build.
func TestMain(m *testing.M) {
	clib.TakeOver()
	switch filepath.Base(os.Args[0]) {
	case "go":
		fakeGo()
	case "fuzz.test":
		fakeFuzz()
	}
	testscript.Main(m, map[string]func(){"allocfuzz": func() {
		toy()
		main()
	}})
}

func TestScripts(t *testing.T) {
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status,
			"json":   jsonHas,
			"chop":   chop,
			"await":  await,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", root)
			e.Setenv("CORPUS", filepath.Join(root, "corpus"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			return fakeToolchain(e)
		},
	})
}

// fakeToolchain puts a go command that builds nothing into $FAKEBIN, and the command itself.
func fakeToolchain(e *testscript.Env) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Join(e.WorkDir, "fakebin")
	e.Setenv("FAKEBIN", bin)
	if err := os.Mkdir(bin, 0o777); err != nil {
		return err
	}
	return errors.Join(os.Symlink(self, filepath.Join(bin, "go")),
		os.Symlink(self, filepath.Join(bin, "allocfuzz")))
}

// status runs a command and demands an exit status: status 2 allocfuzz replay.
func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// jsonHas looks into the document on standard output: json findings.0.title TEXT.
// A path that ends in "len" is the length of a list. Without a value the path must
// exist; with "!" it must not.
func jsonHas(ts *testscript.TestScript, neg bool, args []string) {
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	at, ok := doc, true
	for _, key := range strings.Split(args[0], ".") {
		if at, ok = into(at, key); !ok {
			break
		}
	}
	if ok == neg {
		ts.Fatalf("%s: there %v, want %v", args[0], ok, !neg)
	}
	if len(args) > 1 && fmt.Sprint(at) != args[1] {
		ts.Fatalf("%s is %v, want %s", args[0], at, args[1])
	}
}

// into takes one step into a document. A list is entered by number or by the name
// of an element.
func into(at any, key string) (any, bool) {
	switch at := at.(type) {
	case map[string]any:
		v, ok := at[key]
		return v, ok
	case []any:
		if key == "len" {
			return len(at), true
		}
		if n, err := strconv.Atoi(key); err == nil && n < len(at) {
			return at[n], true
		}
		for _, e := range at {
			if m, ok := e.(map[string]any); ok && m["name"] == key {
				return m, true
			}
		}
	}
	return nil, false
}

// await waits for a file that a command in the background makes.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for range 3000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s never came", args[0])
}

// chop takes the last byte off a file.
func chop(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text[:len(text)-1], 0o666))
}

// TestRunReal is the main job on the real sources with the real toolchain: nothing
// may be found, and every sound subject must have run.
func TestRunReal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds fuzz binaries")
	}
	dir := t.TempDir()
	var out, errs bytes.Buffer
	run := func(budget string) (status int) {
		out.Reset()
		errs.Reset()
		return start([]string{"run", "--for", budget, "--json", "--out", filepath.Join(dir, "out"),
			"--cache", filepath.Join(dir, "cache")}, strings.NewReader(""), &out, &errs)
	}
	status := run("6s")
	if strings.Contains(errs.String(), "ran no input") { // the machine has other work to do
		status = run("90s")
	}
	if status != statusClean {
		t.Fatalf("exit status %d, want %d\n%s\n%s", status, statusClean, errs.String(),
			out.String())
	}
	var doc document
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != schema || doc.Command != "run" || !doc.Complete || doc.BuildSeconds <= 0 {
		t.Errorf("schema %d, command %q, complete %v, built in %v s", doc.Schema, doc.Command,
			doc.Complete, doc.BuildSeconds)
	}
	ran := map[string]engine.TargetResult{}
	for _, r := range doc.Targets {
		ran[r.Name] = r
	}
	for _, name := range []string{"FuzzSequential", "FuzzInterrupts", "FuzzProg"} {
		if r := ran[name]; r.Execs == 0 || r.Starts == 0 {
			t.Errorf("%s: %d execs in %d starts", name, r.Execs, r.Starts)
		}
	}
	if ran["FuzzSequential"].Points == 0 {
		t.Error("FuzzSequential counted no points")
	}
	for _, s := range doc.Subjects {
		if s.Programs == 0 || s.Operations == 0 {
			t.Errorf("%s ran %d programs, %d operations", s.Name, s.Programs, s.Operations)
		}
	}
	for _, f := range doc.Findings {
		if !f.Known {
			t.Errorf("found %s", f.Identity)
		}
	}
}

// TestIdleSubject: a subject that ran nothing is an error, unless the run was cut
// short.
func TestIdleSubject(t *testing.T) {
	for _, c := range []struct {
		cut  bool
		want int
	}{{false, statusWrong}, {true, statusInterrupted}} {
		var errs bytes.Buffer
		a := &app{out: bufio.NewWriter(io.Discard), err: &errs}
		s := &session{app: a, flags: &runFlags{cache: t.TempDir()}, subjects: fuzz.Sound()[:2]}
		s.tally = engine.NewTally(s.subjects)
		s.tally.Add(s.subjects[0].Name, engine.Counts{Programs: 1})
		s.end(c.cut)
		said := strings.Contains(errs.String(), s.subjects[1].Name+" ran no program")
		wrong := strings.Contains(errs.String(), s.subjects[0].Name)
		if a.status != c.want || said == c.cut || wrong {
			t.Errorf("cut %v: exit status %d, want %d, and it said %q", c.cut, a.status, c.want,
				errs.String())
		}
	}
}

// TestIdleTarget: a target that ran no input is an error, unless the run was cut
// short.
func TestIdleTarget(t *testing.T) {
	for _, c := range []struct {
		cut  bool
		want int
	}{{false, statusWrong}, {true, statusInterrupted}} {
		var errs bytes.Buffer
		a := &app{out: bufio.NewWriter(io.Discard), err: &errs}
		a.doc.Targets = []engine.TargetResult{{Name: "FuzzA", Execs: 1}, {Name: "FuzzB"}}
		flags := &runFlags{cache: t.TempDir()}
		(&session{app: a, flags: flags, tally: engine.NewTally(nil)}).end(c.cut)
		said := errs.String()
		if a.status != c.want || strings.Contains(said, "FuzzB ran no input") == c.cut ||
			strings.Contains(said, "FuzzA") {
			t.Errorf("cut %v: exit status %d, want %d, and it said %q", c.cut, a.status, c.want,
				said)
		}
	}
}

// TestFault: a panic is told in one line and ends with status 2.
func TestFault(t *testing.T) {
	for value, want := range map[any]string{
		"allocfuzz: the model is lost": "please report it: the model is lost",
		errors.New("allocfuzz: gone"):  "please report it: gone",
		"index out of range":           "please report it: index out of range",
	} {
		if got := faultText(value); !strings.HasSuffix(got, want) {
			t.Errorf("faultText(%v) = %q, want it to end in %q", value, got, want)
		}
	}
	var errs bytes.Buffer
	status := start([]string{"replay", "-"}, panicking{}, &bytes.Buffer{}, &errs)
	if status != statusWrong || !strings.HasPrefix(errs.String(), "allocfuzz: a fault of") ||
		!strings.Contains(errs.String(), "main_test.go") {
		t.Errorf("exit status %d, want %d, and a message with a stack:\n%s", status, statusWrong,
			errs.String())
	}
}

// TestFaultJSON: with --json a panic is told in the document too.
func TestFaultJSON(t *testing.T) {
	var out, errs bytes.Buffer
	status := start([]string{"replay", "--json", "-"}, panicking{}, &out, &errs)
	var doc document
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if status != statusWrong || doc.Complete || len(doc.Errors) != 1 ||
		!strings.HasSuffix(doc.Errors[0].Message, "on purpose") {
		t.Errorf("exit status %d, complete %v, errors %v", status, doc.Complete, doc.Errors)
	}
}

// TestInterruptedInput: Ctrl-C ends a command that waits for its input, and nothing
// is left behind.
func TestInterruptedInput(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"import", "--json", "--format", "mtrace", "-o", filepath.Join(dir, "x.prog"), "-"},
		{"replay", "--json", "-"},
	} {
		in := interrupting{make(chan struct{})}
		defer close(in.release)
		var out, errs bytes.Buffer
		status := start(args, in, &out, &errs)
		var doc document
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		if status != statusInterrupted || doc.Complete || len(doc.Errors) > 0 {
			t.Errorf("%s: exit status %d, complete %v, errors %v", args[0], status, doc.Complete,
				doc.Errors)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// interrupting is an input at which the user gives up waiting.
type interrupting struct{ release chan struct{} }

func (i interrupting) Read([]byte) (int, error) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	if err != nil {
		return 0, err
	}
	<-i.release
	return 0, io.EOF
}

// TestUntilDone: a stoppable reader gives what the input gives, and reads nothing
// before it is asked.
func TestUntilDone(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000)
	in := strings.NewReader(text)
	r := untilDone(t.Context(), in)
	if in.Len() != len(text) {
		t.Error("it read before it was asked")
	}
	if err := iotest.TestReader(r, []byte(text)); err != nil {
		t.Error(err)
	}
	broken := errors.New("disk on fire")
	if _, err := io.ReadAll(untilDone(t.Context(), iotest.ErrReader(broken))); err != broken {
		t.Errorf("%v, want the input's error", err)
	}
}

// panicking is an input that fails as a fault of this project does.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("allocfuzz: on purpose") }
