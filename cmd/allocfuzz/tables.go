package main

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// end tells what the run did: the tables, or the document, and what is wrong with
// the run itself.
func (s *session) end(cut bool) {
	a := s.app
	for _, v := range s.subjects {
		c := s.tally[v.Name]
		a.doc.Subjects = append(a.doc.Subjects, describe(v, c))
		if c.Programs == 0 && !cut {
			a.fail(fmt.Errorf("%s ran no program: nothing was tested there; look at its "+
				"capabilities and machines with allocfuzz subjects", v.Name))
		}
	}
	faultless := a.status != statusWrong
	for i := range a.doc.Targets {
		if t := &a.doc.Targets[i]; t.Execs == 0 && !cut && faultless {
			a.fail(fmt.Errorf("%s ran no input: nothing was fuzzed there; give --for more time",
				t.Name))
		}
	}
	a.doc.Out = s.flags.out
	s.remember()
	if !a.json {
		s.targetTable()
		s.subjectTable()
		s.findingTable()
	}
	if cut {
		a.sayf("interrupted: what was found so far is complete on disk")
		a.interrupted()
	}
}

// targetTable prints what fuzzing gave.
func (s *session) targetTable() {
	if len(s.app.doc.Targets) == 0 {
		return
	}
	names := []string{"time", "execs", "execs/s", "points/s", "new", "corpus", "starts"}
	t := s.app.newTable("target", "time", "execs", "execs/s", "points/s", "new", "corpus", "starts")
	t.SetColumnConfigs(numbers(names...))
	for _, r := range s.app.doc.Targets {
		took := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
		points := ""
		if r.Points > 0 {
			points = rate(r.PointsPerS)
		}
		t.AppendRow(table.Row{r.Name, took, r.Execs, fmt.Sprintf("%.0f", r.ExecsPerS), points,
			r.Interesting, r.Corpus, r.Starts})
	}
	t.Render()
	fmt.Fprintln(s.app.out)
}

// subjectTable prints what every subject did.
func (s *session) subjectTable() { s.app.summary(s.subjects, s.tally) }

// findingTable prints what was found, and how to see it again.
func (s *session) findingTable() {
	a := s.app
	fmt.Fprintln(a.out)
	known := 0
	for i := range a.doc.Findings {
		f := &a.doc.Findings[i]
		if f.Known {
			known++
			continue
		}
		fmt.Fprintf(a.out, "FOUND %s\n  file   %s\n", f.Identity, f.File)
		if f.Command != "" {
			fmt.Fprintf(a.out, "  replay %s\n", f.Command)
		}
	}
	fmt.Fprintf(a.out, "%d found, %d known and expected\n", len(a.doc.Findings)-known, known)
}
