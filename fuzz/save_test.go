package fuzz

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// only demands that a folder holds these files and nothing else.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range list {
		got[e.Name()] = true
	}
	for _, name := range want {
		if !got[name] {
			t.Errorf("%s is not there", name)
		}
		delete(got, name)
	}
	for name := range got { //tidy:maporder each one is an error of its own
		t.Errorf("%s is there", name)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.prog")
	if err := WriteFile(name, whole([]byte("one"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	// A file that is there is replaced, not written over: nobody meets half of it.
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(name, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(name); err != nil || os.SameFile(before, after) {
		t.Errorf("it is the same file, error %v", err)
	}
	// A write that fails half way leaves the old file, and nothing beside it.
	half := errors.New("half way")
	err = WriteFile(name, func(w io.Writer) error {
		if _, err := w.Write([]byte("tw")); err != nil {
			return err
		}
		return half
	})
	if text, _ := os.ReadFile(name); !errors.Is(err, half) || string(text) != "one" {
		t.Errorf("error %v, text %q", err, text)
	}
	only(t, dir, "a.prog")
	// One that works replaces it, permissions kept, through a link too.
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a.prog", link); err != nil {
		t.Skip("no symbolic links here")
	}
	if err := WriteFile(link, whole([]byte("three"))); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(name)
	if text, _ := os.ReadFile(name); err != nil || string(text) != "three" {
		t.Errorf("error %v, text %q", err, text)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode())
	}
	only(t, dir, "a.prog", "link")
	if err := WriteFile(filepath.Join(dir, "nosuch", "b"), whole(nil)); err == nil {
		t.Error("a file was written into a folder that is not there")
	}
}

// TestWriteDevice: what is no regular file is written to, not replaced.
func TestWriteDevice(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("no " + full + " here")
	}
	if err := WriteFile(full, whole([]byte("x"))); err == nil {
		t.Error("a full device took a byte")
	}
	if info, err := os.Stat(full); err != nil || info.Mode().IsRegular() {
		t.Errorf("the device was replaced: %v, %v", info, err)
	}
}

// TestSaveCommand: the command that is saved with a finding names every subject that
// it takes to see it again: for outcomes that differ also the one they differ from.
func TestSaveCommand(t *testing.T) {
	a, b := &impls.Variant{Name: "a"}, &impls.Variant{Name: "b"}
	for _, c := range []struct {
		reference *impls.Variant
		want      string
	}{{nil, "--subject b "}, {a, "--subject a,b "}} {
		rep := &oracle.Report{Finding: &oracle.Finding{Title: fault.OutcomesDiffer, Subject: "b"},
			Program: &prog.Program{Machine: prog.DefaultMachine()}}
		f := &Failure{Report: rep, Variant: b, Reference: c.reference}
		file, err := f.Save(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(file, "prog") + "txt")
		if err != nil || !strings.Contains(string(text), c.want+file) {
			t.Errorf("error %v, no %q in the report:\n%s", err, c.want+file, text)
		}
	}
}

// TestWriteNew: a file that is there stays as it is, and of many who write one at once one has it.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.prog")
	const writers = 8
	won := make(chan error, writers)
	for i := range writers {
		go func() { won <- WriteNew(name, []byte{byte('0' + i)}) }()
	}
	first := 0
	for range writers {
		switch err := <-won; {
		case err == nil:
			first++
		case !errors.Is(err, fs.ErrExist):
			t.Error(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil || first != 1 || len(text) != 1 {
		t.Errorf("%d have it, it is %q, error %v", first, text, err)
	}
	only(t, dir, "a.prog")
}

// TestWriteLong: a name may be as long as the file system takes it, and a file keeps its
// permissions whatever the umask.
func TestWriteLong(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("x", 250))
	for _, text := range []string{"one", "two"} {
		if err := WriteBytes(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, error %v", info.Mode(), err)
	}
}
