package shadow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// alter is a lie that changes one report.
func alter(f func(r *debugcheck.Report)) func([]*debugcheck.Report) []*debugcheck.Report {
	return func(list []*debugcheck.Report) []*debugcheck.Report {
		r := *list[0]
		f(&r)
		return append([]*debugcheck.Report{&r}, list[1:]...)
	}
}

// twice makes one report once more.
func twice(list []*debugcheck.Report) []*debugcheck.Report {
	return slices.Insert(list, 0, list[0])
}

// leaveOut leaves one report out.
func leaveOut(list []*debugcheck.Report) []*debugcheck.Report { return list[1:] }

// other is a title that no program here is about.
const other = debugcheck.TitleBulkCount

// reportLies are lies about one report, and the rule that each breaks. A report is
// about bytes or is not.
var reportLies = []struct {
	name    string
	bytes   bool // can be told of reports about bytes only
	object  bool // … about an object only
	track   bool // … that show who allocated it only
	want    []fault.Title
	grows   bool   // there are more reports than there were
	title   string // of the finding; that of the report when it is ""
	reports func([]*debugcheck.Report) []*debugcheck.Report
}{
	{name: "left out", want: []fault.Title{fault.MissedMisuse},
		reports: leaveOut},
	{name: "made twice", grows: true, want: []fault.Title{fault.FalseReport},
		reports: twice},
	{name: "another in front", grows: true, want: []fault.Title{fault.FalseReport}, title: other,
		reports: func(l []*debugcheck.Report) []*debugcheck.Report {
			r := *l[0]
			r.Title = other
			return append([]*debugcheck.Report{&r}, l...)
		}},
	{name: "another title", want: []fault.Title{fault.FalseReport}, title: other,
		reports: alter(func(r *debugcheck.Report) { r.Title = other })},
	{name: "another cache", want: []fault.Title{fault.WrongReport},
		reports: alter(func(r *debugcheck.Report) { r.Cache += "x" })},
	{name: "another object", want: []fault.Title{fault.WrongReport}, object: true,
		reports: alter(func(r *debugcheck.Report) { r.Object += 8 })},
	{name: "first byte", want: []fault.Title{fault.WrongReport}, bytes: true,
		reports: alter(func(r *debugcheck.Report) { r.From-- })},
	{name: "last byte", want: []fault.Title{fault.WrongReport}, bytes: true,
		reports: alter(func(r *debugcheck.Report) { r.To++ })},
	{name: "byte found", want: []fault.Title{fault.WrongReport}, bytes: true,
		reports: alter(func(r *debugcheck.Report) { r.Got ^= 1 })},
	{name: "byte wanted", want: []fault.Title{fault.WrongReport}, bytes: true,
		reports: alter(func(r *debugcheck.Report) { r.Want ^= 1 })},
	{name: "another operation allocated it", want: []fault.Title{fault.WrongReport}, track: true,
		reports: alter(func(r *debugcheck.Report) { r.Alloc.Line++ })},
	{name: "on another CPU", want: []fault.Title{fault.WrongReport}, track: true,
		reports: alter(func(r *debugcheck.Report) { r.Alloc.CPU++ })},
	{name: "nobody allocated it", want: []fault.Title{fault.WrongReport}, track: true,
		reports: alter(func(r *debugcheck.Report) { r.Alloc = debugcheck.Track{} })},
	{name: "it was freed by another", want: []fault.Title{fault.WrongReport}, track: true,
		reports: alter(func(r *debugcheck.Report) {
			r.Free.Line, r.Free.Set = r.Free.Line+1, true
		})},
	{name: "another slab", want: []fault.Title{fault.WrongReport},
		reports: alter(func(r *debugcheck.Report) {
			if r.Slab != 0 {
				r.Slab += 8
			} else {
				r.Cache += "x"
			}
		})},
}

// everyReport runs a program on a subject honestly, and then once for every report and
// lie.
func everyReport(t *testing.T, name string, programs []program,
	f func(t *testing.T, v *impls.Variant, c *oracle.Compiled, list []seen, i int)) {
	v := subject(t, name)
	for _, p := range programs {
		c := compile(t, p.text)
		var list []seen
		runner.Run(c, lying(v, &lie{}, &list), oracle.Options{})
		for i := range list {
			t.Run(fmt.Sprintf("%s/%s/%d", name, p.name, i), func(t *testing.T) {
				f(t, v, c, list, i)
			})
		}
	}
}

// families are a subject of each, with its programs.
var families = []struct {
	name     string
	programs []program
}{
	{"slub-2022-debug-locked", slubPrograms}, {"slub-2008-seq", sizePrograms},
	{"slab-2001-threelists", slabPrograms}, {"slab-2001-onelist", slabSizes},
	{"go-modernc-memory-guarded", guardPrograms}, {slub, slubMay}, {slub, sizesMay},
	{"slab-2001-threelists", slabMay}, {"slab-2001-onelist", oneList},
}

// TestReportLies: each report of each program, altered in each way, is found under the
// title of the rule that it breaks.
func TestReportLies(t *testing.T) {
	for _, f := range families {
		everyReport(t, f.name, f.programs, lieAboutReport)
	}
}

func lieAboutReport(t *testing.T, v *impls.Variant, c *oracle.Compiled, list []seen, i int) {
	r := &list[i]
	for _, l := range reportLies {
		if l.track && !tracks(c, r) {
			continue
		}
		if l.bytes && r.From == r.To || l.object && r.Object == 0 ||
			l.bytes && !begins(r) || r.Kind == debugcheck.Fatal && l.grows {
			continue
		}
		var told []seen
		res := runner.Run(c, lying(v, &lie{at: i, reports: l.reports}, &told), oracle.Options{})
		var want []fault.Title
		for _, head := range l.want {
			want = append(want, head+": "+fault.Title(cmpOr(l.title, r.Title)))
		}
		got := titles(res)
		if n := ofReports(got); n > 1 {
			t.Errorf("%s, %s: found %q, of which one follows from the other", r.Title, l.name, got)
		}
		if again(list, i) && len(got) > 0 && heads(got[0], fault.WrongReport) {
			continue
		}
		if r.Kind == debugcheck.Fatal { // the last words may be all that there is to go by
			want = append(want, fault.Aborted, fault.FalseReport+": "+fault.Title(r.Title))
		}
		if !slices.ContainsFunc(got, func(t fault.Title) bool { return slices.Contains(want, t) }) {
			t.Errorf("%s, %s: found %q, want one of %q", r.Title, l.name, got, want)
		}
	}
}

// tracks says whether a report shows by which line its object was allocated: not where a
// misuse made that any other.
func tracks(c *oracle.Compiled, r *seen) bool {
	return r.Layout != nil && r.Alloc.Set && r.Alloc.Line >= 0 && r.Alloc.Line < len(c.Lines)
}

// heads says whether t is about a report and begins so.
func heads(t, head fault.Title) bool { return strings.HasPrefix(string(t), string(head)+": ") }

// ofReports is the number of titles about reports.
func ofReports(list []fault.Title) (n int) {
	for _, t := range list {
		if heads(t, fault.MissedMisuse) || heads(t, fault.FalseReport) ||
			heads(t, fault.WrongReport) || heads(t, fault.WrongRepair) {
			n++
		}
	}
	return n
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// begins says whether a report is not about the inside of an object, around which the
// bytes may be anything: such a report shows no layout.
func begins(r *seen) bool { return r.Object == 0 || r.Layout != nil }

// again says whether the operation that made report i made another of that title.
func again(list []seen, i int) bool {
	for j := range list {
		if j != i && list[j].line == list[i].line && list[j].Title == list[i].Title {
			return true
		}
	}
	return false
}

// TestRepairLies: what a report said it repaired is as bad as before, or half of it.
func TestRepairLies(t *testing.T) {
	for _, f := range families {
		everyReport(t, f.name, f.programs, lieAboutRepair)
	}
}

func lieAboutRepair(t *testing.T, v *impls.Variant, c *oracle.Compiled, list []seen, i int) {
	undone := ""
	l := &lie{at: i, after: func(t *liar, c *machine.Ctx, r *debugcheck.Report) {
		undone = undo(t, c, r)
	}}
	var told []seen
	res := runner.Run(c, lying(v, l, &told), oracle.Options{})
	if undone == "" {
		return
	}
	got := titles(res)
	if ofReports(got) != 1 || !slices.ContainsFunc(got, func(t fault.Title) bool {
		return heads(t, fault.WrongRepair)
	}) {
		t.Errorf("%s, %s: found %q", list[i].Title, undone, got)
	}
}

// undo undoes a repair and says what it was; "" when there was none, or it does not
// matter any more.
func undo(t *liar, c *machine.Ctx, r *debugcheck.Report) string {
	k := t.owner(max(r.Slab, r.Object))
	if k == nil || r.Rules.SLAB() {
		return ""
	}
	if r.From < r.To {
		var b [1]byte
		if t.Memory().Read(r.To-1, b[:]); b[0] == r.Want {
			t.Memory().Flip(r.To-1, 1)
			return "the last byte"
		}
		return ""
	}
	was, ok := t.before(r.Slab)
	now, _ := k.Slab(r.Slab)
	switch {
	case !ok:
	case was.Inuse != now.Inuse && r.Title == count:
		k.Damage(c, debugcheck.SlabInuse, r.Slab, uint64((was.Inuse^now.Inuse)&0xffff))
		return "the count"
	case was.Objects != now.Objects:
		k.Damage(c, debugcheck.SlabObjects, r.Slab, uint64(was.Objects^now.Objects))
		return "the number of objects"
	case was.Freelist != now.Freelist && now.Freelist == k.Layout().End:
		k.Damage(c, debugcheck.SlabFreelist, r.Slab, was.Freelist^now.Freelist)
		return "the head"
	case r.Title == chain || r.Title == pointer && r.Object != 0:
		t.Memory().Flip(r.Object+k.Layout().Link, 2)
		return "the link"
	}
	return ""
}
