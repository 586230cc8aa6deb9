package rows_test

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/bugs"
	"allocfuzz/debugcheck"
	"allocfuzz/fuzz/rows"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
)

// demanded are the rows that must exist, whatever the table says.
var demanded = []string{"S1a", "S1b", "S1b′", "S1c", "S1d", "S1e", "S1f", "S1g", "S1h", "S1i",
	"S2a", "S2b", "S2c", "S2d", "S2e", "S2f", "S2g", "S3a", "S3b", "S3c",
	"S4a", "S4a′", "S4b", "S4c", "S4d", "S5a", "S5b", "S5c"}

// checksAlone are rows that are a check or an actor and no allocator.
var checksAlone = []string{"S1e", "S1i", "S4d"}

// TestRows: each row is there once, in order, with a point to see, a check that holds it to
// that, a scenario that shows it, and a subject but where it is none.
func TestRows(t *testing.T) {
	var ids []string
	for i := range rows.Table {
		r := &rows.Table[i]
		ids = append(ids, r.ID)
		if r.System == "" || r.Point == "" {
			t.Errorf("%s: nothing is said about it", r.ID)
		}
		if len(r.Scenarios) == 0 {
			t.Errorf("%s: no scenario", r.ID)
		}
		if len(r.Checks) == 0 {
			t.Errorf("%s: no check", r.ID)
		}
		if alone := slices.Contains(checksAlone, r.ID); alone != (len(r.Subjects) == 0) {
			t.Errorf("%s: subjects %q", r.ID, r.Subjects)
		}
		if !slices.ContainsFunc(rows.Patches, func(p rows.Patch) bool { return p.Year == r.Year }) {
			t.Errorf("%s: no patch of %d", r.ID, r.Year)
		}
	}
	if !slices.Equal(ids, demanded) {
		t.Errorf("rows %q, want %q", ids, demanded)
	}
}

// TestNames: whatever a row names exists, and a scenario has something to say on top.
func TestNames(t *testing.T) {
	programs := map[string]string{}
	for f := range corpus.All() {
		name := f.Name[strings.LastIndex(f.Name, "/")+1:]
		programs[strings.TrimSuffix(name, ".prog")] = string(f.Text)
	}
	patches, err := bugs.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows.Table {
		for _, name := range r.Scenarios {
			if text := programs[name]; !strings.Contains(text, "\n# ") {
				t.Errorf("%s: no scenario %s, or without a word about it", r.ID, name)
			}
		}
		for _, title := range r.Checks {
			if !known(title) {
				t.Errorf("%s: no finding or report has the title %q", r.ID, title)
			}
		}
		for _, name := range r.Bugs {
			if _, err := bugs.Find(patches, name); err != nil {
				t.Errorf("%s: %v", r.ID, err)
			}
		}
	}
}

func known(title string) bool {
	_, finding := fault.Lookup(fault.Title(title))
	return finding || slices.ContainsFunc(debugcheck.Titles(),
		func(e debugcheck.TitleEntry) bool { return e.Title == title })
}

// TestSubjects: a row names the variants that are made of it, and those are the variants
// that name the row. Every unsound one has a committed program among the scenarios of its
// rows in which it is found.
func TestSubjects(t *testing.T) {
	found := map[string]string{} // file by subject
	for f := range corpus.Regress() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Scheds {
			if p.Scheds[i].Bug != "" {
				name := f.Name[strings.LastIndex(f.Name, "/")+1:]
				found[p.Scheds[i].Subject+" "+strings.TrimSuffix(name, ".prog")] = p.Scheds[i].Bug
			}
		}
	}
	for _, v := range all.Variants() {
		if v.Row == "" {
			continue
		}
		shown := false
		for _, id := range strings.Split(v.Row, ", ") {
			r := rows.Find(id)
			if r == nil {
				t.Errorf("%s: there is no row %q", v.Name, id)
				continue
			}
			if !slices.Contains(r.Subjects, v.Name) {
				t.Errorf("%s: row %s does not name it", v.Name, id)
			}
			for _, name := range r.Scenarios {
				shown = shown || found[v.Name+" "+name] != ""
			}
		}
		if !v.Sound && !shown {
			t.Errorf("%s: no scenario of %s finds it", v.Name, v.Row)
		}
	}
	for _, r := range rows.Table {
		for _, name := range r.Subjects {
			v, ok := all.Lookup(name)
			if !ok {
				t.Errorf("%s: no subject %s", r.ID, name)
			} else if !slices.Contains(strings.Split(v.Row, ", "), r.ID) {
				t.Errorf("%s: %s is of row %q", r.ID, name, v.Row)
			}
		}
	}
}
