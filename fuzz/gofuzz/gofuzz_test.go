package gofuzz

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	for _, data := range [][]byte{{}, {0}, []byte("a\n\"`\\"), {0xff, 0xfe, 'x'},
		[]byte("größer\u2028"), bytes.Repeat([]byte{7}, 5000)} {
		text := Encode(data)
		got, err := Decode(text)
		if err != nil || !bytes.Equal(got, data) || !Is(text) {
			t.Errorf("%q became %q, error %v", data, got, err)
		}
		crlf, err := Decode(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
		if err != nil || !bytes.Equal(crlf, data) {
			t.Errorf("%q with carriage returns became %q, error %v", data, crlf, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", `1: expected "go test fuzz v1"`},
		{"go test fuzz v2\n[]byte(\"\")\n", `1: expected "go test fuzz v1"`},
		{"go test fuzz v1\n", "2: expected one value"},
		{"go test fuzz v1\nstring(\"a\")\n", "2: expected one value"},
		{"go test fuzz v1\n[]byte(\"a\")\nint(1)\n", "2: the []byte is no Go string"},
		{"go test fuzz v1\n[]byte(\"a)\n", "2: the []byte is no Go string"},
	} {
		_, err := Decode([]byte(tt.text))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %s", tt.text, err, tt.want)
		}
	}
}

// TestGoCommand: the go command reads a file of ours as the input that it holds, and a file that it
// writes is one that we would write, with the name that we would give it.
func TestGoCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	write("m_test.go", `package m

import "testing"

func FuzzRead(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { t.Logf("have %q", data) })
}

func FuzzWrite(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2 {
			t.Fatal("long")
		}
	})
}
`)
	text := Encode([]byte("a\"\x00\xff`\n"))
	write(filepath.Join("testdata", "fuzz", "FuzzRead", Name(text)), string(text))
	run := func(args ...string) string {
		cmd := exec.Command("go", append([]string{"test"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		out, _ := cmd.CombinedOutput() // FuzzWrite fails
		return string(out)
	}
	if out := run("-v", "-run", "FuzzRead"); !strings.Contains(out, `have "a\"\x00\xff`+"`"+`\n"`) {
		t.Errorf("the go command read\n%s", out)
	}
	out := run("-run", "^$", "-fuzz", "FuzzWrite", "-fuzztime", "100000x", "-args",
		"-test.fuzzcachedir="+t.TempDir())
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "fuzz", "FuzzWrite", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the go command wrote %v, error %v\n%s", files, err, out)
	}
	theirs, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data, err := Decode(theirs)
	if err != nil || !bytes.Equal(Encode(data), theirs) || Name(theirs) != filepath.Base(files[0]) {
		t.Errorf("%s: %q is %q to us, error %v", files[0], theirs, data, err)
	}
}
