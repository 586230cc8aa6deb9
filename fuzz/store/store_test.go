package store

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/fuzz/gofuzz"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, name string, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestStore: inputs are kept once, by the hash of their contents, and come back as they were.
func TestStore(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ein Ordner ü", "corpus"))
	for i, data := range []string{"b", "a", "b", ""} {
		added, err := s.Add("FuzzSMP", []byte(data))
		if err != nil || added != (i != 2) {
			t.Errorf("%q: added %v, error %v", data, added, err)
		}
	}
	if _, err := s.Add("FuzzDebug", []byte("a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "smp", "../FuzzSMP", "FuzzSMP/x", "Fuzz SMP"} {
		if _, err := s.Add(name, nil); err == nil {
			t.Errorf("%q is the name of a target", name)
		}
	}
	targets, err := s.Targets()
	if err != nil || !slices.Equal(targets, []string{"FuzzDebug", "FuzzSMP"}) {
		t.Errorf("targets %v, error %v", targets, err)
	}
	list, bad, err := s.Inputs("FuzzSMP")
	if err != nil || len(bad) > 0 || len(list) != 3 {
		t.Fatalf("inputs %v, bad %v, error %v", list, bad, err)
	}
	if !slices.IsSortedFunc(list, func(a, b Input) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("not in order: %v", list)
	}
	if list, _, err := s.Inputs("FuzzNone"); err != nil || len(list) > 0 {
		t.Errorf("a target without a folder has %v, error %v", list, err)
	}
	if err := s.Remove("FuzzSMP", []string{Name([]byte("a")), Name([]byte("gone"))}); err != nil {
		t.Error(err)
	}
	if list, _, _ := s.Inputs("FuzzSMP"); len(list) != 2 {
		t.Errorf("after one was removed: %v", list)
	}
	if list, _, _ := s.Inputs("FuzzDebug"); len(list) != 1 {
		t.Errorf("another target lost its own: %v", list)
	}
}

// TestForeign: what is no input is named with the reason, and stays whatever is done.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.Add("FuzzSMP", []byte("good")); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "FuzzSMP")
	cut := Name([]byte("what was here before it was cut"))
	put(t, filepath.Join(at, cut), "what was")
	put(t, filepath.Join(at, "notes on größe.txt"), "mine")
	put(t, filepath.Join(at, "0123456789abcdef"), string(gofuzz.Encode([]byte("x"))))
	put(t, filepath.Join(at, "folder", "x"), "x")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(at, "link")); err != nil {
		t.Skip(err)
	}
	list, bad, err := s.Inputs("FuzzSMP")
	if err != nil || len(list) != 1 {
		t.Errorf("inputs %v, error %v", list, err)
	}
	why := map[string]string{cut: "it was cut or changed", "notes on größe.txt": "another kind",
		"0123456789abcdef": "another kind", "folder": "is no file", "link": "is no file"}
	for _, p := range bad {
		name := filepath.Base(p.File)
		if want, ok := why[name]; !ok || !strings.Contains(p.Why, want) {
			t.Errorf("%s: %s, want %q", name, p.Why, want)
		}
		delete(why, name)
	}
	if len(why) > 0 {
		t.Errorf("not named: %v", why)
	}
	if err := s.Remove("FuzzSMP", []string{cut}); err == nil {
		t.Error("a file that is no input was removed")
	}
	fresh, err := s.Add("FuzzSMP", []byte("what was here before it was cut"))
	if !fresh || err != nil {
		t.Errorf("one that was cut is not written again: %v, error %v", fresh, err)
	}
	if list, _, _ := s.Inputs("FuzzSMP"); len(list) != 2 {
		t.Errorf("after it was mended: %v", list)
	}
}

// TestHalf: what a process that was killed left is no input, and goes.
func TestHalf(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.Add("FuzzSMP", []byte("good")); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "FuzzSMP")
	busy := filepath.Join(at, fmt.Sprintf(".%s.%d-0.tmp", Name([]byte("a")), os.Getpid()))
	dead := filepath.Join(at, fmt.Sprintf(".%s.%d-1.tmp", Name([]byte("b")), deadProcess(t)))
	mine := filepath.Join(at, ".mine.tmp")
	for _, name := range []string{busy, dead, mine} {
		put(t, name, "ha")
	}
	s = open(t, dir)
	for name, there := range map[string]bool{busy: true, dead: false, mine: true} {
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("%s: there %v, want %v", name, err == nil, there)
		}
	}
	list, bad, err := s.Inputs("FuzzSMP")
	if err != nil || len(list) != 1 || len(bad) != 1 {
		t.Errorf("inputs %v, bad %v, error %v", list, bad, err)
	}
}

// deadProcess is the number of a process that has ended.
func deadProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestGo: inputs go to a folder of the go command and come back, and raw ones come too.
func TestGo(t *testing.T) {
	s := open(t, t.TempDir())
	all := []string{"", "a", "\x00\xff\n\"", strings.Repeat("x", 9000)}
	for _, data := range all {
		if _, err := s.Add("FuzzSMP", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "cache", "FuzzSMP")
	for _, want := range []int{len(all), 0} {
		n, bad, err := s.ToGo("FuzzSMP", dir)
		if err != nil || n != want || len(bad) > 0 {
			t.Errorf("wrote %d, bad %v, error %v; want %d", n, bad, err, want)
		}
	}
	put(t, filepath.Join(dir, "raw"), "raw bytes")
	put(t, filepath.Join(dir, "two"), "go test fuzz v1\n[]byte(\"a\")\nint(3)\n")
	put(t, filepath.Join(dir, ".hidden"), "x")
	back := open(t, t.TempDir())
	n, bad, err := back.Take("FuzzSMP", dir, nil)
	if err != nil || n != len(all)+1 || len(bad) != 1 || filepath.Base(bad[0].File) != "two" {
		t.Errorf("took %d, bad %v, error %v", n, bad, err)
	}
	if n, _, _ := back.Take("FuzzSMP", dir, nil); n != 0 {
		t.Errorf("took %d twice", n)
	}
	taken, third := map[string]bool{}, open(t, t.TempDir())
	for _, want := range []int{len(all) + 1, 0, 1} {
		n, bad, err := third.Take("FuzzSMP", dir, taken)
		if err != nil || n != want || (len(bad) > 0) != (want > 1) {
			t.Errorf("took %d, bad %v, error %v; want %d and what is wrong once", n, bad, err, want)
		}
		if want == 0 {
			put(t, filepath.Join(dir, "later"), "later")
		}
	}
	list, _, _ := back.Inputs("FuzzSMP")
	for _, data := range append(all, "raw bytes") {
		if !slices.ContainsFunc(list, func(in Input) bool { return string(in.Data) == data }) {
			t.Errorf("%.20q did not come back", data)
		}
	}
}

// TestReadOnly: a folder that cannot be written is an error, and what is there stays.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := s.Add("FuzzSMP", []byte("a")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	put(t, file, "")
	if _, err := Open(file); err == nil {
		t.Error("a file is opened as a store")
	}
	put(t, filepath.Join(dir, "FuzzDebug"), "in the way") // where even root cannot write
	if _, err := s.Add("FuzzDebug", []byte("a")); err == nil {
		t.Error("an input was added below a file")
	}
	if list, _, err := s.Inputs("FuzzSMP"); err != nil || len(list) != 1 {
		t.Errorf("inputs %v, error %v", list, err)
	}
}
