package subject

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// Replay runs programs on the allocator that newAllocator makes, each as a subtest: path is a file,
// or a folder whose *.prog files are run in the order of their names. A program fails when the
// model has something against what the allocator did, when an outcome is not the one that its line
// states, or when it differs from the reference's. A program for several contexts is skipped, and
// so is a finding that the file expects of this allocator (sched subject=NAME => bug "TITLE"); the
// absence of one fails.
func Replay(t *testing.T, newAllocator func() any, path string) {
	t.Helper()
	files, err := programs(path)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, newAllocator)
	r := oracle.NewRunner()
	defer r.Close()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Helper()
			h.replay(t, r, file)
		})
	}
}

// programs lists the file or the files of a folder.
func programs(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: create it and save a program there, or name another", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".prog" {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no *.prog file: expected at least one program", path)
	}
	return files, nil
}

func load(file string) (*oracle.Compiled, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := prog.Parse(file, f)
	if err != nil {
		return nil, err
	}
	return oracle.Compile(p)
}

// replay runs one file.
func (h *harness) replay(t *testing.T, r *oracle.Runner, file string) {
	t.Helper()
	defer fuzz.Watch(func() []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			return []byte(err.Error())
		}
		return text
	})()
	v, err := h.judge(r, file)
	switch {
	case err != nil:
		t.Fatal(err)
	case v.report != nil:
		v.report.Command = h.command(t.Name(), nil)
		t.Fatal(told(v.report))
	case v.skip != "":
		t.Skip(v.skip)
	}
}

// verdict is what a file shows: a report, or why it says nothing, or neither.
type verdict struct {
	report *oracle.Report
	skip   string
}

// judge runs one file on the allocator and the reference.
func (h *harness) judge(r *oracle.Runner, file string) (verdict, error) {
	c, err := load(file)
	if err != nil {
		return verdict{}, err
	}
	got, err := r.Judge(c, h.v, oracle.Options{})
	switch {
	case err != nil:
		return verdict{}, err
	case got.Left != "":
		return verdict{skip: h.v.Name + " is left out: " + got.Left}, nil
	case got.Missing():
		return verdict{}, fmt.Errorf("%s: expects %q of %s, which was not found: remove the "+
			"expectation when it was repaired", file, got.Expected, h.v.Name)
	case got.Known():
		return verdict{skip: "known: " + got.Finding.Identity()}, nil
	case got.Finding != nil:
		opt := oracle.Options{}
		if got.Finding.Title == fault.OutcomesDiffer {
			opt.Extra = &got.Finding.Fault
		}
		rep, err := r.Explain(c, h.v, got.Sched, opt)
		return verdict{report: rep}, err
	}
	return h.compare(r, c, got)
}

// compare holds the outcomes against the reference's.
func (h *harness) compare(r *oracle.Runner, c *oracle.Compiled, got *oracle.Verdict) (verdict,
	error) {
	ref := h.s.Subjects[0]
	if fits, _ := oracle.Applies(c, ref); !fits || !c.Sequential() || len(c.Prog.Scheds) > 0 {
		return verdict{}, nil
	}
	var k oracle.Comparison
	res := r.Run(c, ref, oracle.Options{})
	k.Add(ref, res.Events, res.Apart())
	k.Add(h.v, got.Events, got.Apart)
	ds := k.Differences()
	if len(ds) == 0 {
		return verdict{}, nil
	}
	rep, err := r.Explain(c, h.v, nil, oracle.Options{Extra: &ds[0].Fault})
	return verdict{report: rep}, err
}
