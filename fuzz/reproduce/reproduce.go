// Package reproduce turns a program that shows a bug into something to hand on: a Go test that
// fails while the bug is there, and an input of go test -fuzz.
package reproduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"strconv"
	"strings"
	"unicode"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/gofuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// A TB is what Replay needs of testing.TB.
type TB interface {
	Helper()                           // marks the caller as a helper
	Context() context.Context          // ends with the test
	Fatalf(format string, args ...any) // ends the test as failed
}

// Replay replays the text of a program on subjects, named and joined by commas, and fails the test
// with the report of what it shows. The tests that GoTest makes call it.
func Replay(tb TB, subjects, text string) {
	tb.Helper()
	list, err := fuzz.Select(subjects)
	if err != nil {
		tb.Fatalf("allocfuzz: %v", err)
	}
	p, err := prog.Parse("program", strings.NewReader(text))
	if err != nil {
		tb.Fatalf("allocfuzz: %v", err)
	}
	replays, err := shows(tb.Context(), p, list)
	if err != nil {
		tb.Fatalf("allocfuzz: %v", err)
	}
	for i := range replays {
		if rep := replays[i].Report; rep != nil {
			out := &strings.Builder{}
			_ = rep.Text(out) // it writes to memory
			tb.Fatalf("%s\n%s", rep.Finding.Identity(), out)
		}
	}
}

// shows replays a program. A place in it that a subject does not have is an error.
func shows(ctx context.Context, p *prog.Program, subjects []*impls.Variant) ([]engine.Replay,
	error) {
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	list, err := r.Program(ctx, p, subjects)
	for i := range list {
		err = errors.Join(err, list[i].Err)
	}
	return list, err
}

// GoTest is the text of a Go test of a package that fails while subjects (a reference before the
// one that differs from it) show the finding of an identity, and passes when they do not.
func GoTest(pkg string, subjects []*impls.Variant, identity string, p *prog.Program) ([]byte,
	error) {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "package %s\n\nimport (\n\t\"testing\"\n\n\t\"allocfuzz/fuzz/reproduce\"\n)\n\n",
		pkg)
	name := testName(identity)
	fmt.Fprintf(b, "// %s fails while there is\n//\n//\t%s\nfunc %s(t *testing.T) {\n", name,
		strings.Join(strings.Fields(identity), " "), name)
	fmt.Fprintf(b, "\treproduce.Replay(t, %q, %s)\n}\n", strings.Join(fuzz.Names(subjects), ","),
		quoted(string(prog.Format(p))))
	return format.Source(b.Bytes())
}

// testName makes the name of a test of an identity.
func testName(identity string) string {
	name := "Test"
	for _, word := range strings.FieldsFunc(identity, func(c rune) bool {
		return c >= 0x80 || !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// quoted spells a text in Go, over several lines where it can.
func quoted(text string) string {
	if strconv.CanBackquote(strings.NewReplacer("\n", "", "\t", "").Replace(text)) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

// ErrNoInput says that no fuzz target shows the finding on any bytes that mean the program.
var ErrNoInput = errors.New("no fuzz target has an input that means this program and shows the " +
	"same: hand on the program or the Go test")

// Input is the file of go test -fuzz that means a program, and the target that shows the finding of
// an identity on it. The name is that which the go command would give it, below
// fuzz/testdata/fuzz/TARGET.
func Input(subjects []*impls.Variant, identity string, p *prog.Program) (target, name string,
	text []byte, err error) {
	data, err := input.Encode(p)
	if err != nil {
		return "", "", nil, fmt.Errorf("%w (%w)", ErrNoInput, err)
	}
	for _, t := range fuzz.Targets() {
		f, err := t.Try(subjects, data)
		if err == nil && f != nil && f.Report.Finding.Identity() == identity {
			text = gofuzz.Encode(data)
			return t.Name, gofuzz.Name(text), text, nil
		}
	}
	return "", "", nil, ErrNoInput
}
