package oracle

import (
	"sort"
	"strconv"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/play"
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
// addresses and function names move with the schedule and are no part of it. A process that died
// without a word leaves no kind of operation.
func (f *Finding) Identity() string {
	s := f.Subject + ": " + string(f.Title)
	if f.Verb != "" {
		s += " in " + f.Verb
	}
	return s
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
	if src := r.line(ft.Where.Line); src != nil {
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
// adds what differs to its faults. What the subject does not support is left out
// and counted, unless the program states just that; so is what was skipped for
// want of something unsupported.
func (r *Result) Expect() {
	if r.Subject.New == nil && !r.Program.Sequential() {
		return // real threads have no order of lines
	}
	st := newStated(r)
	for i := 0; i < len(r.Events); {
		ev, n := &r.Events[i], 1
		if ev.Op >= 0 && int(ev.Op) < len(r.Program.Lines) {
			l := &r.Program.Lines[ev.Op]
			if ev.Part > 0 {
				n = min(len(l.Op.Slots), len(r.Events)-i) // a dead subject may lack some
				st.bulk(r, l, r.Events[i:i+n])
			} else {
				st.event(r, l, ev)
			}
		}
		i += n
	}
}

// stated holds outcomes against what a program states, in the order of the run.
// It knows the names that are void because the subject could not do what binds
// them.
type stated struct {
	slots, stores []bool
}

func newStated(r *Result) *stated {
	st := &stated{}
	for i, o := range r.opened {
		mark(&st.stores, int32(i), o == impls.Unsupported)
	}
	return st
}

// mark sets entry i of a list that grows.
func mark(list *[]bool, i int32, v bool) {
	for i >= 0 && int(i) >= len(*list) {
		*list = append(*list, false)
	}
	if i >= 0 {
		(*list)[i] = v
	}
}

func marked(list []bool, i int32) bool { return i >= 0 && int(i) < len(list) && list[i] }

// bulk is event for the events of a bulk operation, whose line states one outcome.
func (st *stated) bulk(r *Result, l *Line, list []impls.Event) {
	ev := bulkAnswer(list)
	lacks := ev.Outcome == impls.Unsupported
	if ev.Outcome == impls.Skipped {
		lacks = marked(st.stores, l.Op.Cache)
		for _, i := range l.Op.Slots {
			lacks = lacks || l.Op.Code == impls.OpFreeBulk && marked(st.slots, i)
		}
	}
	if x := stating(l.Src, r.Subject); x != nil {
		r.state(l.Src, x, ev, lacks)
	}
	for _, i := range l.Op.Slots {
		mark(&st.slots, i, lacks && l.Op.Code == impls.OpAllocBulk)
	}
}

func (st *stated) event(r *Result, l *Line, ev *impls.Event) {
	op := &l.Op
	lacks := ev.Outcome == impls.Unsupported || ev.Outcome == impls.Skipped &&
		(marked(st.slots, op.Slot) || marked(st.stores, op.Cache))
	if x := stating(l.Src, r.Subject); x != nil {
		r.state(l.Src, x, ev, lacks)
	}
	if play.Frees(op.Code) {
		mark(&st.slots, op.Slot, false)
	}
	if op.Code == impls.OpCreate {
		mark(&st.stores, op.Result, lacks)
	} else {
		mark(&st.slots, op.Result, lacks)
	}
}

// state holds one outcome against one that is stated.
func (r *Result) state(l *prog.Line, x *prog.Expect, ev *impls.Event, lacks bool) {
	if !r.checks.On(fault.Difference) {
		return
	}
	if lacks && x.Outcome != prog.Unsupported &&
		(x.Outcome != prog.Skipped || ev.Outcome == impls.Unsupported) {
		r.Counts.LeftOut++
		return
	}
	r.Counts.Checked[fault.Difference]++
	states := x.Outcome.String()
	if x.Outcome == prog.Report {
		states += " " + strconv.Quote(x.Report)
	}
	if got := answer(ev); states != got && len(r.Faults) < faultsMax {
		r.Faults = append(r.Faults, fault.Fault{Title: fault.OutcomesDiffer,
			Detail: "line " + itoa(l.Pos.Line) + " states " + states + " and got " + got,
			Where:  fault.Where{Line: int(ev.Op), CPU: int(ev.CPU)}})
	}
}

// answer is the outcome of an operation as programs state it: the title of the first
// report where there was one.
func answer(ev *impls.Event) string {
	if len(ev.Reports) > 0 {
		return "report " + strconv.Quote(ev.Reports[0].Title)
	}
	return ev.Outcome.String()
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

func itoa(n int) string { return strconv.Itoa(n) }

// ours are the packages whose own panics are faults of this project, also where the
// words do not say so.
var ours = []string{"allocfuzz/oracle.", "allocfuzz/oracle/", "allocfuzz/impls/machine.",
	"allocfuzz/impls/play."}

// blame says whether a panic came from code of this project that a subject only
// runs on: the frame that panicked is the first behind the runtime's.
func blame(stack []byte) bool {
	text := string(stack)
	if i := strings.LastIndex(text, "\npanic("); i >= 0 {
		text = text[i+1:]
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "panic(") ||
			strings.HasPrefix(line, "runtime.") {
			continue
		}
		for _, pkg := range ours {
			if strings.HasPrefix(line, pkg) {
				return true
			}
		}
		return false
	}
	return false
}
