// Package regress makes and checks regression files: programs that show a bug of a subject, with
// a head that says what it is and a block that expects it. They are text, so that they outlive
// every change of what bytes mean.
package regress

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/all"
)

// Folder is where the regressions of a checkout are, from its root.
const Folder = "corpus/regress"

// Meta is what a regression's head says beside the finding.
type Meta struct {
	Found string // how it was found, in a line
	Date  string // when: 2006-01-02
}

// Make returns the regression of a finding that p shows: p in line order, or under the block of the
// finding's subject. p is not changed.
func Make(p *prog.Program, f *engine.Finding, m Meta) (*prog.Program, error) {
	out := *p
	out.File = ""
	out.Head = prog.Head{Title: f.Title, Also: strings.Join(also(f), "; "), Class: f.Class,
		Found: m.Found, Date: m.Date}
	block := prog.Sched{Subject: f.Subject}
	for i := range p.Scheds {
		if p.Scheds[i].Subject == f.Subject {
			block = p.Scheds[i]
		}
	}
	block.Bug, block.Blank = f.Title, true
	out.Scheds = []prog.Sched{block}
	if err := prog.Validate(&out); err != nil {
		return nil, fmt.Errorf("as a regression: %w", err)
	}
	return &out, nil
}

// also are the other titles by which the bug of a finding is known from now on: those that it
// showed, but for what any fault may lead to, and what its subject declares to be the same bug.
func also(f *engine.Finding) (titles []string) {
	list := slices.Clone(f.Also)
	if v, ok := all.Lookup(f.Subject); ok {
		declared := []string{v.Finds.Step, v.Finds.Consequence}
		if slices.Contains(declared, f.Title) {
			list = append(list, declared...)
		}
	}
	for _, t := range list {
		if t != "" && t != f.Title && !fuzz.Generic(t) && !slices.Contains(titles, t) {
			titles = append(titles, t)
		}
	}
	return titles
}

// Write writes a regression to a folder, under a name made of its subject and title that no file
// there has. A file of the same text is not written again: its name is returned.
func Write(dir string, p *prog.Program, f *engine.Finding) (file string, err error) {
	text := prog.Format(p)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		file = filepath.Join(dir, FileName(f, n))
		have, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err := fuzz.WriteNew(file, text)
			if errors.Is(err, fs.ErrExist) { // somebody else was faster
				n--
				continue
			}
			return file, err
		case err != nil:
			return file, err
		case bytes.Equal(have, text):
			return file, nil
		}
	}
}

// FileName is the n-th name for a finding, from 1: its subject and title in small letters.
func FileName(f *engine.Finding, n int) string {
	subject := f.Subject
	if subject == "" {
		subject = f.Target
	}
	words := strings.FieldsFunc(strings.ToLower(subject+" "+f.Title), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	name := strings.Join(words, "-")
	if n > 1 {
		name += fmt.Sprintf("-%d", n)
	}
	return name + ".prog"
}

// Committed lists the committed programs of the sources at root, in order: those of the named
// folders of the corpus, or of all. A folder may be empty, or not be there.
func Committed(root string, folders ...string) ([]string, error) {
	if len(folders) == 0 {
		folders = corpus.Folders()
	}
	var out []string
	for _, folder := range folders {
		names, err := programs(filepath.Join(root, "corpus", folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return out, nil
}

// programs lists the programs in a folder and below it.
func programs(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(name) == ".prog" {
			out = append(out, name)
		}
		return err
	})
	return out, err
}

// Files lists the programs of files and folders, in order, each once. A folder stands for the
// programs in it and below it.
func Files(paths []string) ([]string, error) {
	var out []string
	for _, at := range paths {
		info, err := os.Stat(at)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, at)
			continue
		}
		names, err := programs(at)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: no programs: expected files that end in .prog", at)
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Read reads programs by name.
func Read(names []string) ([]corpus.File, error) {
	out := make([]corpus.File, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, corpus.File{Name: filepath.ToSlash(name), Text: text})
	}
	return out, nil
}
