package fuzz

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// Known is a set of bugs that nobody wants to hear of again: for each subject the titles that it
// is known to show. Titles that were met together are one bug, and count under the title that
// was known first. The zero Known is empty and can be used; so can nil, but for Add.
type Known struct {
	bugs map[knownTitle]string
	// Loose has titles join bugs that any fault may lead to, such as "outcomes differ". It is
	// right for what was met together in one run, and wrong for what is known for good: a bug
	// that is expected to have such a consequence would hide every other one that has it.
	Loose bool
}

// joins says whether a title that comes besides says which bug it is.
func (k *Known) joins(title string) bool {
	return k.Loose || !Generic(title)
}

// Generic says whether any fault may lead to what a title says.
func Generic(title string) bool {
	e, ok := fault.Lookup(fault.Title(title))
	return ok && (e.Rule == fault.Difference || e.Rule == fault.History)
}

// A knownTitle is a title of a subject.
type knownTitle struct{ subject, title string }

// Add notes a bug of a subject: the title by which it is counted, and others that it shows. When
// one of them is known already, all are that bug.
func (k *Known) Add(subject, title string, also ...string) {
	if k.bugs == nil {
		k.bugs = map[knownTitle]string{}
	}
	if first, ok := k.Find(subject, title, also...); ok {
		also, title = append(also, title), first
	}
	for _, t := range append(slices.Clone(also), title) {
		if t != title && !k.joins(t) {
			continue
		}
		if _, ok := k.bugs[knownTitle{subject, t}]; !ok {
			k.bugs[knownTitle{subject, t}] = title
		}
	}
}

// Join adds what another set knows.
func (k *Known) Join(other *Known) {
	for _, key := range other.sorted() { // in an order that is always the same
		k.Add(key.subject, other.bugs[key], key.title)
	}
}

// Learn notes a finding.
func (k *Known) Learn(f *oracle.Finding) {
	k.Add(f.Subject, string(f.Title), plain(f.Also)...)
}

// Find says by which title a bug is known.
func (k *Known) Find(subject, title string, also ...string) (string, bool) {
	if k == nil {
		return "", false
	}
	if first, ok := k.bugs[knownTitle{subject, title}]; ok {
		return first, true
	}
	for _, t := range also {
		if first, ok := k.bugs[knownTitle{subject, t}]; ok && k.joins(t) {
			return first, true
		}
	}
	return "", false
}

// Finding is Find for a finding.
func (k *Known) Finding(f *oracle.Finding) (string, bool) {
	return k.Find(f.Subject, string(f.Title), plain(f.Also)...)
}

func plain(titles []fault.Title) []string {
	out := make([]string, len(titles))
	for i, t := range titles {
		out[i] = string(t)
	}
	return out
}

// Text is the set in lines, in order: a subject, a tab, the title that counts, a tab and a title
// of the same bug.
func (k *Known) Text() []byte {
	var out []byte
	for _, key := range k.sorted() {
		out = fmt.Appendf(out, "%s\t%s\t%s\n", key.subject, k.bugs[key], key.title)
	}
	return out
}

// sorted are the titles in order: by subject, and those of one bug together.
func (k *Known) sorted() []knownTitle {
	return slices.SortedFunc(maps.Keys(k.bugs), func(a, b knownTitle) int {
		return cmp.Or(cmp.Compare(a.subject, b.subject), cmp.Compare(k.bugs[a], k.bugs[b]),
			cmp.Compare(a.title, b.title))
	})
}

// ReadKnown reads what Text wrote. An error names the line.
func ReadKnown(name string) (*Known, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	k, in := &Known{}, bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		part := strings.Split(in.Text(), "\t")
		if len(part) != 3 {
			return nil, fmt.Errorf("%s:%d: expected a subject, a title and another title of the "+
				"same bug, with tabs between", name, n)
		}
		k.Add(part[0], part[1], part[2])
	}
	return k, in.Err()
}

// Expected returns the bugs that the programs of a corpus expect. A nil corpus is the one that was
// built in. Programs that cannot be read are the error; the bugs of the others come with it.
func Expected(fsys fs.FS) (*Known, error) {
	if fsys == nil {
		fsys = corpus.Embedded()
	}
	k := &Known{}
	var bad error
	for _, folder := range corpus.Folders() {
		names, err := fs.Glob(fsys, folder+"/*.prog")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			bad = errors.Join(bad, k.expect(fsys, name))
		}
	}
	return k, bad
}

// expect adds what one program expects.
func (k *Known) expect(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil || !bytes.Contains(text, []byte("\nsched ")) {
		return err // traces are long, and expect nothing as a rule
	}
	p, err := prog.Parse(path.Join("corpus", name), bytes.NewReader(text))
	if err != nil {
		return err
	}
	for i := range p.Scheds {
		s := &p.Scheds[i]
		if s.Bug == "" {
			continue
		}
		subject := s.Subject
		if v, ok := all.Lookup(subject); ok {
			subject = v.Name // it may be an alias
		}
		var also []string
		if p.Head.Also != "" && s.Bug == p.Head.Title {
			also = strings.Split(p.Head.Also, "; ")
		}
		k.Add(subject, s.Bug, also...)
	}
	return nil
}
