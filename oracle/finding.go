package oracle

import (
	"sort"
	"strings"

	"allocfuzz/impls/fault"
)

// A Finding is a bug in a subject: what one run of one program showed, under the
// title of its worst fault.
type Finding struct {
	Title   fault.Title   // the consequence when one occurred, else the wrong step
	Also    []fault.Title // the other titles of the run, in order of discovery
	Class   string        // the rule that raised the title
	Subject string
	Verb    string      // kind of operation at which the title was raised
	Fault   fault.Fault // the evidence
	Faults  []fault.Fault
	Line    string // the operation in text
	Place   string // file:line of the operation
}

// Identity names the bug: subject, title and kind of operation. Numbers,
// addresses and function names move with the schedule and are no part of it.
func (f *Finding) Identity() string {
	return f.Subject + ": " + string(f.Title) + " in " + f.Verb
}

// Matches says whether title is the finding's title or among its others.
func (f *Finding) Matches(title string) bool {
	if string(f.Title) == title {
		return true
	}
	for _, t := range f.Also {
		if string(t) == title {
			return true
		}
	}
	return false
}

// severity orders the rules by how far what they show is from the cause: the
// title of a finding is that of the furthest.
var severity = [...]int{
	fault.Process: 0, fault.Ownership: 1, fault.Contents: 2, fault.Reports: 3, fault.History: 4,
	fault.Structure: 5, fault.Difference: 6, fault.Step: 7,
}

// Finding sums up what a run found; nil when it found nothing.
func (r *Result) Finding() *Finding {
	if len(r.Faults) == 0 {
		return nil
	}
	best := 0
	for i := range r.Faults {
		if rank(r.Faults[i].Title) < rank(r.Faults[best].Title) {
			best = i
		}
	}
	ft := r.Faults[best]
	e, _ := fault.Lookup(ft.Title)
	f := &Finding{Title: ft.Title, Class: e.Rule.String(), Subject: r.Subject.Name, Fault: ft,
		Faults: append([]fault.Fault(nil), r.Faults...), Verb: "end of the program"}
	seen := map[fault.Title]bool{ft.Title: true}
	for i := range r.Faults {
		if t := r.Faults[i].Title; !seen[t] {
			seen[t] = true
			f.Also = append(f.Also, t)
		}
	}
	if n := ft.Where.Line; n >= 0 && n < len(r.Program.Lines) {
		src := r.Program.Lines[n].Src
		f.Verb = src.Verb.String()
		f.Line = lineText(src)
		f.Place = r.Program.Prog.File + ":" + itoa(src.Pos.Line)
	}
	return f
}

func rank(t fault.Title) int {
	e, ok := fault.Lookup(t)
	if !ok {
		panic("allocfuzz: title without an entry: " + string(t))
	}
	return severity[e.Rule]
}

// Expect holds the outcomes that the program states against those of the run and
// adds what differs to its faults.
func (r *Result) Expect() {
	for i := range r.Events {
		ev := &r.Events[i]
		if ev.Op < 0 || int(ev.Op) >= len(r.Program.Lines) {
			continue
		}
		src := r.Program.Lines[ev.Op].Src
		for k := range src.Expect {
			x := &src.Expect[k]
			if x.Subject != "" && x.Subject != r.Subject.Name && x.Subject != r.Subject.Alias {
				continue
			}
			r.Counts.Checked[fault.Difference]++
			if x.Outcome.String() != ev.Outcome.String() {
				r.Faults = append(r.Faults, fault.Fault{Title: fault.OutcomesDiffer,
					Detail: "line " + itoa(src.Pos.Line) + " states " + x.Outcome.String() + " and got " +
						ev.Outcome.String(),
					Where: fault.Where{Line: int(ev.Op), CPU: int(ev.CPU)}})
			}
		}
	}
}

// SortFindings orders findings by identity, the first of each kept.
func SortFindings(fs []*Finding) []*Finding {
	sort.SliceStable(fs, func(i, j int) bool { return fs[i].Identity() < fs[j].Identity() })
	var out []*Finding
	for _, f := range fs {
		if len(out) == 0 || out[len(out)-1].Identity() != f.Identity() {
			out = append(out, f)
		}
	}
	return out
}

// titlesOf joins titles for a line of text.
func titlesOf(ts []fault.Title) string {
	var s []string
	for _, t := range ts {
		s = append(s, string(t))
	}
	return strings.Join(s, "; ")
}
