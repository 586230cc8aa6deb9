package oracle_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// TestComparison: the first operation with another outcome is the difference, while
// two subjects are in step also a skipped one; once they are apart, what one side
// could not do, skipped or refused is left out and counted.
func TestComparison(t *testing.T) {
	const ok, no, un, sk, re = impls.OK, impls.NoMem, impls.Unsupported, impls.Skipped,
		impls.Refused
	const died = impls.Died
	type list = []impls.Outcome
	for _, row := range []struct {
		name     string
		ref, got []impls.Outcome
		apart    bool
		line     int // of the difference, -1 none
		compared int
		leftOut  int
	}{
		{"equal", list{ok, no, sk, re}, list{ok, no, sk, re}, false, -1, 4, 0},
		{"left out", list{ok, no, un, ok, sk, ok, re}, list{un, ok, ok, sk, ok, re, ok}, false, -1,
			0, 7},
		{"differs", list{ok, ok, ok}, list{ok, died, ok}, false, 1, 2, 0},
		{"behind what is left out", list{no, un, died}, list{ok, ok, ok}, false, 2, 1, 2},
		{"cut short", list{ok, ok, ok}, list{ok}, false, -1, 1, 0},
		{"skipped in step", list{ok, sk, ok}, list{ok, ok, ok}, false, 1, 2, 0},
		{"skipped behind another refusal", list{no, sk, ok}, list{ok, ok, ok}, false, -1, 1, 2},
		{"apart from the start", list{ok, sk, ok}, list{ok, ok, ok}, true, -1, 2, 1},
		{"unsupported on both sides", list{un, sk}, list{un, ok}, false, 1, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, b := &impls.Variant{Name: "a"}, &impls.Variant{Name: "b"}
			var c oracle.Comparison
			for range 2 { // a comparison can be used again
				c.Reset()
				c.Add(a, outcomes(row.ref), row.apart)
				c.Add(b, outcomes(row.got), false)
				ds := c.Differences()
				if row.line < 0 && len(ds) > 0 || row.line >= 0 && (len(ds) != 1 ||
					ds[0].Subject != b ||
					ds[0].Fault.Title != fault.OutcomesDiffer ||
					ds[0].Fault.Where.Line != row.line) {
					t.Errorf("differences %+v, want line %d", ds, row.line)
				}
				if c.Compared != row.compared || c.LeftOut != row.leftOut {
					t.Errorf("%d compared and %d left out, want %d and %d", c.Compared, c.LeftOut,
						row.compared, row.leftOut)
				}
			}
		})
	}
}

func outcomes(list []impls.Outcome) []impls.Event {
	var out []impls.Event
	for i, o := range list {
		out = append(out, impls.Event{Op: int32(i), Outcome: o})
	}
	return out
}

// TestComparisonApart: which operations let two subjects go apart when only one does
// them: then a skipped one behind it is no difference.
func TestComparisonApart(t *testing.T) {
	for _, row := range []struct {
		code  impls.Code
		size  uint64
		a, b  impls.Outcome
		apart bool
	}{
		{impls.OpAlloc, 8, impls.NoMem, impls.OK, true},
		{impls.OpMemalign, 8, impls.OK, impls.Unsupported, true},
		{impls.OpCreate, 0, impls.Refused, impls.OK, true},
		{impls.OpRealloc, 8, impls.NoMem, impls.OK, true},
		{impls.OpRealloc, 0, impls.OK, impls.NoMem, true},
		{impls.OpShrink, 0, impls.Unsupported, impls.OK, false},
		{impls.OpUsable, 0, impls.OK, impls.Unsupported, false},
		{impls.OpDrain, 0, impls.OK, impls.Unsupported, false},
		{impls.OpFree, 8, impls.OK, impls.OK, false},
	} {
		var c oracle.Comparison
		for i, o := range []impls.Outcome{row.a, row.b} {
			skipped := impls.Event{Op: 1, Outcome: impls.OK}
			if i == 1 {
				skipped.Outcome = impls.Skipped
			}
			c.Add(&impls.Variant{Name: "v"}, []impls.Event{{Code: row.code, Size: row.size,
				Outcome: o}, skipped}, false)
		}
		if ds := c.Differences(); (len(ds) == 0) != row.apart {
			t.Errorf("%s %s and %s: %+v, want apart %v", row.code, row.a, row.b, ds, row.apart)
		}
	}
}

// TestComparisonValidate: who has no debug flags refuses to validate, and that is no
// difference; that it failed is one.
func TestComparisonValidate(t *testing.T) {
	for out, want := range map[impls.Outcome]int{impls.Refused: 0, impls.OK: 0, impls.Died: 1} {
		var c oracle.Comparison
		for _, o := range []impls.Outcome{impls.OK, out} {
			c.Add(&impls.Variant{Name: "v"}, []impls.Event{{Code: impls.OpValidate, Outcome: o},
				{Op: 1}}, false)
		}
		if ds := c.Differences(); len(ds) != want {
			t.Errorf("ok and %s: %+v", out, ds)
		}
	}
}

// TestComparisonOrder: a run that executed other lines is a difference; of several
// subjects each is compared with the first.
func TestComparisonOrder(t *testing.T) {
	var c oracle.Comparison
	vs := []*impls.Variant{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	c.Add(vs[0], []impls.Event{{Op: 0}, {Op: 1}}, false)
	c.Add(vs[1], []impls.Event{{Op: 0}, {Op: 2}}, false)
	c.Add(vs[2], []impls.Event{{Op: 0}, {Op: 1}}, false)
	c.Add(vs[3], []impls.Event{{Op: 0}, {Op: 1, Outcome: impls.Died}}, false)
	ds := c.Differences()
	if len(ds) != 2 || ds[0].Subject != vs[1] || ds[1].Subject != vs[3] {
		t.Fatalf("differences %+v", ds)
	}
	want := "ran line 2 where a ran line 1"
	if got := ds[0].Fault.Detail; got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// TestExpect: stated outcomes against those of a run.
func TestExpect(t *testing.T) {
	few := toySubject(toyBug{})
	few.Caps &^= impls.CapAlign | impls.CapShrink
	few.Name = "few"
	for _, row := range []struct {
		name  string
		text  string
		title bool // it differs
		left  int  // outcomes left out
		made  int  // outcomes compared
	}{
		{"as stated", "cpu0 a = malloc 8 => ok\ncpu0 free a => ok\ncpu0 free a => skipped\n", false,
			0, 3},
		{"another", "cpu0 a = malloc 8 => enomem\n", true, 0, 1},
		{"skipped is not ok", "cpu0 a = malloc 8\ncpu0 free a\ncpu0 free a => ok\n", true, 0, 1},
		{"of another subject", "cpu0 a = malloc 8 => enomem @slab-locked\n", false, 0, 0},
		{"of this subject", "cpu0 a = malloc 8 => enomem @few\n", true, 0, 1},
		{"under its alias", "cpu0 a = malloc 8 => enomem @plaything\n", true, 0, 1},
		{"unsupported", "cache c size=8\ncpu0 shrink c => ok\n", false, 1, 0},
		{"unsupported as stated", "cache c size=8\ncpu0 shrink c => unsupported\n", false, 0, 1},
		{"unsupported where skipped is stated", "cache c size=8\ncpu0 shrink c => skipped\n", false,
			1, 0},
		{"supported though stated otherwise", "cpu0 a = malloc 8 => unsupported\n", true, 0, 1},
		{"what hangs on the unsupported", "cpu0 a = memalign 64 8 => ok\ncpu0 verify a => ok\n" +
			"cpu0 free a => ok\n", false, 3, 0},
		{"two at a time", "cpu0 a = memalign 64 8\ncpu0 b = memalign 64 8\ncpu0 free a => ok\n" +
			"cpu0 free b => ok\n", false, 2, 0},
		{"but not for ever", "cpu0 a = memalign 64 8 => ok\ncpu0 free a => ok\n" +
			"cpu0 a = malloc 8 => ok\ncpu0 free a\ncpu0 free a => ok\n", true, 2, 2},
		{"nor twice", "cpu0 a = memalign 64 8\ncpu0 free a\ncpu0 free a => ok\n", true, 0, 1},
		{"through a second name", "cpu0 a = memalign 64 8\ncpu0 b = realloc a 9 => ok\n" +
			"cpu0 free b => ok\n", false, 2, 0},
		{"an unsupported cache", "cache c align=64 size=64\ncpu0 a = alloc c => ok\n" +
			"cpu0 free c a => ok\n", false, 2, 0},
		{"an unsupported cache made later", "cpu0 c = create align=64 size=64 => ok\n" +
			"cpu0 a = alloc c => ok\ncpu0 free c a => ok\n", false, 3, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := oracle.NewRunner()
			t.Cleanup(r.Close)
			p := compile(t, "allocfuzz 1\n"+row.text)
			for _, v := range []*impls.Variant{few, remoteOf(few, "")} {
				v.Alias = "plaything"
				out, err := r.Judge(p, v, oracle.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if differs := out.Finding != nil; differs != row.title ||
					differs && out.Finding.Title != fault.OutcomesDiffer {
					t.Errorf("finding %+v, want one: %v", out.Finding, row.title)
				}
				if out.Counts.LeftOut != row.left ||
					out.Counts.Checked[fault.Difference] != row.made {
					t.Errorf("%d left out and %d compared, want %d and %d", out.Counts.LeftOut,
						out.Counts.Checked[fault.Difference], row.left, row.made)
				}
				if v.New != nil {
					res, err := streamed(r, []byte("allocfuzz 1\n"+row.text), v, oracle.Options{})
					if err != nil || (len(res.Faults) > 0) != row.title ||
						res.Counts.LeftOut != row.left {
						t.Errorf("as a stream: %v, %q, %d left out", err, res.Faults,
							res.Counts.LeftOut)
					}
				}
				off := oracle.Options{Checks: oracle.AllChecks.Without(fault.Difference)}
				if out, _ := r.Judge(p, v, off); out.Finding != nil {
					t.Errorf("without the check: %+v", out.Finding)
				}
			}
		})
	}
}

// TestTwice: a subject whose second run is another one is not deterministic: by its
// points, by its outcomes, by its addresses where those are the machine's.
func TestTwice(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 b = malloc 8\n")
	runs := 0
	odd := func() bool { return runs%2 == 1 }
	count := func(f func(*toy)) func(*toy) {
		return func(t *toy) {
			runs++
			if f != nil {
				f(t)
			}
		}
	}
	elsewhere := func(_ *toy, a impls.Addr, _ uint64) impls.Addr {
		if odd() {
			return a + 4096
		}
		return a
	}
	for _, row := range []struct {
		name string
		bug  toyBug
		want bool
	}{
		{"sound", toyBug{setUp: count(nil)}, false},
		{"points", toyBug{setUp: count(nil), call: func(_ *toy, c *machine.Ctx) {
			if odd() {
				c.Barrier()
			}
		}}, true},
		{"outcomes", toyBug{setUp: count(func(t *toy) {
			t.bug.refuse = "malloc"
			if odd() {
				t.bug.refuse = ""
			}
		})}, true},
		{"addresses of the machine", toyBug{setUp: count(withPages(0, 0)), give: elsewhere}, true},
		{"addresses of its own", toyBug{setUp: count(nil), give: elsewhere}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := toySubject(row.bug)
			runs = 0
			res := r.Run(p, v, oracle.Options{Twice: true})
			got := titles(res)
			if runs != 2 || (len(got) == 1 && got[0] == fault.NonDeterministic) != row.want ||
				len(got) > 1 {
				t.Errorf("%d runs, %q", runs, res.Faults)
			}
			if res.Counts.Checked[fault.Difference] != 1 {
				t.Error("the check was not counted")
			}
			if res := r.Run(p, v, oracle.Options{}); len(res.Faults) > 0 {
				t.Errorf("once: %q", res.Faults)
			}
			off := oracle.Options{Twice: true, Checks: oracle.AllChecks.Without(fault.Difference)}
			if res := r.Run(p, v, off); len(res.Faults) > 0 {
				t.Errorf("without the check: %q", res.Faults)
			}
		})
	}
	random := oracle.Options{Twice: true, Chooser: &sched.Random{Seed: 7, Every: 3}}
	two := compile(t, "allocfuzz 1\nmachine cpus=2 preempt=full\ncache c size=64\n"+
		"cpu0 a = alloc c\ncpu1 b = alloc c\nirq0 d = alloc c\ncpu0 free c a\ncpu1 free c b\n")
	for _, name := range []string{"slub-2008-seq", "slab-locked"} {
		if res := r.Run(two, subject(t, name), random); len(res.Faults) > 0 || res.Switches < 4 {
			t.Errorf("%s under a random schedule: %q, %d switches", name, res.Faults, res.Switches)
		}
	}
}

// TestSortFindings: by identity, each once.
func TestSortFindings(t *testing.T) {
	f := func(subject, title, verb string, step uint64) *oracle.Finding {
		return &oracle.Finding{Subject: subject, Title: fault.Title(title), Verb: verb,
			Fault: fault.Fault{Where: fault.Where{Step: step}}}
	}
	got := oracle.SortFindings([]*oracle.Finding{f("b", "t", "free", 1), f("a", "u", "free", 2),
		f("b", "t", "free", 3), f("a", "t", "free", 4), f("a", "t", "alloc", 5)})
	s := ""
	for _, x := range got {
		s += fmt.Sprintf("%s/%d ", x.Identity(), x.Fault.Where.Step)
	}
	want := "a: t in alloc/5 a: t in free/4 a: u in free/2 b: t in free/1 "
	if s != want {
		t.Error(cmp.Diff(want, s))
	}
}

// TestComparisonWays: operations that bind and free nothing do not part subjects;
// a realloc to nothing always does.
func TestComparisonWays(t *testing.T) {
	for _, row := range []struct {
		name   string
		first  impls.Event // of the one side; the other does it
		differ bool        // a skipped operation behind it is a difference
	}{
		{"usable", impls.Event{Code: impls.OpUsable, Outcome: impls.Unsupported}, true},
		{"shrink", impls.Event{Code: impls.OpShrink, Outcome: impls.Unsupported}, true},
		{"realloc", impls.Event{Code: impls.OpRealloc, Size: 8}, true},
		{"realloc to nothing", impls.Event{Code: impls.OpRealloc}, false},
		{"create", impls.Event{Code: impls.OpCreate, Outcome: impls.Refused}, false},
		{"malloc", impls.Event{Code: impls.OpMalloc, Outcome: impls.NoMem}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			done := row.first
			done.Outcome = impls.OK
			var c oracle.Comparison
			c.Add(&impls.Variant{Name: "a"}, []impls.Event{row.first, {Op: 1}}, false)
			c.Add(&impls.Variant{Name: "b"}, []impls.Event{done,
				{Op: 1, Outcome: impls.Skipped}}, false)
			if ds := c.Differences(); len(ds) > 0 != row.differ {
				t.Errorf("differences %+v, want one: %v", ds, row.differ)
			}
		})
	}
}

// TestComparisonReports: two sides may find different things, each by its rules; that both
// find the same operation wrong, and call it two things that cannot both be, is a difference.
// After a report they are apart: a skipped operation behind it is none.
func TestComparisonReports(t *testing.T) {
	const s61, s612, s24, s26 = debugcheck.SLUB61, debugcheck.SLUB612, debugcheck.SLAB24,
		debugcheck.SLAB26
	said := func(code impls.Code, r debugcheck.Rules, title string) impls.Event {
		ev := impls.Event{Code: code, Size: 8}
		if title != "" {
			l := &debugcheck.Layout{Spec: debugcheck.Spec{Rules: r}, Link: 72, Stride: 96}
			ev.Reports = []*debugcheck.Report{{Rules: r, Title: title, Layout: l}}
		}
		return ev
	}
	elsewhere := said(impls.OpFree, s61, debugcheck.TitleRightRedzone)
	elsewhere.Reports[0].Layout.Link = 0
	const again, wrong, free = impls.OpFreeAgain, impls.OpFreeWrong, impls.OpFree
	for _, row := range []struct {
		name   string
		a, b   impls.Event
		differ bool
	}{
		{"the same", said(free, s61, debugcheck.TitleLeftRedzone),
			said(free, s61, debugcheck.TitleLeftRedzone), false},
		{"two titles of the same rules", said(free, s61, debugcheck.TitleLeftRedzone),
			said(free, s61, debugcheck.TitleRightRedzone), true},
		{"two titles of two layouts", said(free, s61, debugcheck.TitleLeftRedzone), elsewhere,
			false},
		{"two titles of two rules", said(free, s61, debugcheck.TitleObjectPadding),
			said(free, s612, debugcheck.TitleRightRedzone), false},
		{"two titles of SLAB", said(free, s26, debugcheck.TitleSlabPoison),
			said(free, s26, debugcheck.TitleSlabOutside), false},
		{"two titles of a guard", said(free, debugcheck.Guard, debugcheck.TitleLeftRedzone),
			said(free, debugcheck.Guard, debugcheck.TitleRightRedzone), false},
		{"one side only", said(free, s61, debugcheck.TitleLeftRedzone), said(free, s61, ""), false},
		{"the other side only", said(free, s61, ""), said(free, s61, debugcheck.TitleLeftRedzone),
			false},
		{"twice, and foreign", said(again, s61, debugcheck.TitleAlreadyFree),
			said(again, s26, debugcheck.TitleWrongCache), true},
		{"foreign, and twice", said(wrong, s61, debugcheck.TitleWrongCache),
			said(wrong, s26, debugcheck.TitleSlabOnChain), true},
		{"twice, in two words", said(again, s61, debugcheck.TitleAlreadyFree),
			said(again, s26, debugcheck.TitleSlabDouble), false},
		{"twice, or damage", said(again, s61, debugcheck.TitleAlreadyFree),
			said(again, s24, debugcheck.TitleSlabEither), false},
		{"of a free that may be", said(free, s61, debugcheck.TitleAlreadyFree),
			said(free, s26, debugcheck.TitleWrongCache), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, b := &impls.Variant{Name: "a"}, &impls.Variant{Name: "b"}
			var c oracle.Comparison
			c.Add(a, []impls.Event{row.a, {Op: 1}}, false)
			c.Add(b, []impls.Event{row.b, {Op: 1, Outcome: impls.Skipped}}, false)
			ds := c.Differences()
			if len(ds) > 0 != row.differ || row.differ && (ds[0].Subject != b ||
				ds[0].Fault.Where.Line != 0) {
				t.Errorf("differences %+v, want one at line 0: %v", ds, row.differ)
			}
			c.Reset()
			c.Add(a, []impls.Event{row.a}, true)
			c.Add(b, []impls.Event{row.b}, false)
			if ds := c.Differences(); len(ds) > 0 {
				t.Errorf("apart from the start: differences %+v", ds)
			}
		})
	}
}

// TestComparisonMisuse: a misuse that one side skips parts the two, and so does what is done
// without a word and leads to something else on each side: a free, or damage to a field.
func TestComparisonMisuse(t *testing.T) {
	for _, row := range []struct {
		name   string
		a, b   impls.Event
		differ bool // a skipped operation behind it is a difference
	}{
		{"bytes", impls.Event{Code: impls.OpOverrun, Size: 1},
			impls.Event{Code: impls.OpOverrun, Size: 1}, true},
		{"a field", impls.Event{Code: impls.OpFlip}, impls.Event{Code: impls.OpFlip}, false},
		{"a free", impls.Event{Code: impls.OpFreeWrong}, impls.Event{Code: impls.OpFreeWrong},
			false},
		{"skipped on one side", impls.Event{Code: impls.OpOverrun, Size: 1},
			impls.Event{Code: impls.OpOverrun, Outcome: impls.Skipped}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c oracle.Comparison
			c.Add(&impls.Variant{Name: "a"}, []impls.Event{row.a, {Op: 1}}, false)
			c.Add(&impls.Variant{Name: "b"}, []impls.Event{row.b,
				{Op: 1, Outcome: impls.Skipped}}, false)
			if ds := c.Differences(); len(ds) > 0 != row.differ {
				t.Errorf("differences %+v, want one: %v", ds, row.differ)
			}
		})
	}
}
