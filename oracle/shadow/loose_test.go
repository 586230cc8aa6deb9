package shadow_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// cpus is a machine on which a second context makes the order of steps open; without a
// schedule lines run in their order all the same.
const cpus = "machine cpus=2; "

// loosePrograms have several contexts.
var loosePrograms = []struct {
	subject string
	program
}{
	{slub, program{"a free that nothing overlaps", cpus + fzpu + two + "cpu1 d = alloc c; " +
		"overrun a 2; cpu1 free c a; cpu1 free c b", []string{"5: " + right}, nil}},
	{slub, program{"a fill is no free", cpus + fzpu + two + "overrun a 1; cpu1 free c a; " +
		"overrun b 1; cpu1 fill b; cpu1 free c b", []string{"4: " + right, "7: " + right}, nil}},
	{slub, program{"both red zones", cpus + fzpu + two + "cpu1 d = alloc c; overrun a 2; " +
		"underrun a 1; cpu1 free c a", []string{"6: " + left}, nil}},
	{slub, program{"both red zones, 6.12", "machine cpus=2 rules=6.12; " + fzpu + two +
		"cpu1 d = alloc c; overrun a 2; underrun a 1; cpu1 free c a",
		[]string{"6: " + left, "6: " + right}, nil}},
	{slub, program{"twice the same bits", cpus + fzpu + two + "cpu1 d = alloc c; overrun a 2; " +
		"cpu1 overrun a 2; cpu1 free c a", nil, nil}},
	{slub, program{"retired", cpus + fzpu + two + "cpu1 free c a; writefreed a; " +
		"cpu1 e = alloc c; cpu1 validate c; f = alloc c; cpu1 free c b; destroy c",
		[]string{"5: " + body, "6: " + slabs, "8: " + disabled,
			"9: " + debugcheck.TitleRemaining},
		nil}},
	{slub, program{"soft padding", cpus + fzpu + two + "cpu1 flip padding of a; free c a; " +
		"cpu1 e = alloc c", []string{"4: " + padding}, nil}},
	{slub, program{"padding is not soft", "machine cpus=2 rules=6.12; " + fzpu + two +
		"cpu1 flip padding of a; free c a; cpu1 e = alloc c", []string{"4: " + padding}, nil}},
	{slub, program{"end of a slab", cpus + fzpu + two + "cpu1 flip slabpad of a; free c a",
		[]string{"4: " + slabEnd}, nil}},
	{slub, program{"a slab that goes", cpus + fzpu + "a = alloc c; cpu1 free c a; " +
		"writefreed a; cpu1 shrink c", []string{"4: " + body}, nil}},
	{slub, program{"a slab that goes at the free of another", cpus +
		"cache c flags=poison,redzone,sanity min_partial=0 objects=2 size=64; " + two +
		"cpu1 free c a; writefreed a; cpu1 free c b; a = alloc c", []string{"5: " + body}, nil}},
	{slub, program{"nothing that is followed is damaged", cpus + fzpu + two +
		"cpu1 flip slab.inuse of a; cpu1 flip slab.freelist of a; flip freeptr of b; " +
		"flip cache.nr_partial c; free c a; freeagain c a; freeinside c b 8; cpu1 free c b", nil,
		[]int{3, 4, 5, 6, 8, 9}}},
	{slub, program{"without checks", cpus + zOnly + two + "cpu1 overrun a 1; overrun b 1; " +
		"validate c; cpu1 free c a; free c b", []string{"5: " + right}, nil}},
	{slub, program{"another cache", cpus + fzpu + "cache d flags=sanity size=32; " + two +
		"cpu1 e = alloc d; overrun a 1; cpu1 free d e; validate d; free c a",
		[]string{"7: " + right}, nil}},
	{slub, program{"refused once", cpus + fzpu + two + "overrun a 1; cpu1 free c a; " +
		"cpu1 destroy c", []string{"4: " + right, "5: " + debugcheck.TitleRemaining}, nil}},
	{"slab-2001-threelists", program{"2.4 stops", cpus + fzpu + two + "cpu1 overrun a 1; " +
		"free c a", []string{"4: " + either}, nil}},
	{"slab-2001-threelists", program{"2.6 says it again", "machine cpus=2 rules=2.6; " + fzpu +
		two + "cpu1 overrun a 1; validate c; validate c; cpu1 free c a",
		[]string{"4: " + outside, "5: " + outside, "6: " + outside}, nil}},
	{"slab-2001-onelist", program{"2.6 frees all the same", "machine cpus=2 rules=2.6; " +
		fzpu + two + "cpu1 overrun a 1; free c a; cpu1 a = alloc c; validate c",
		[]string{"4: " + outside}, nil}},
	{"slab-2001-threelists", program{"no red words", cpus + fOnly + two + "cpu1 overrun b 1; " +
		"free c b", nil, nil}},
	{slub, program{"the middle of a red zone", cpus + fzpu + two +
		"cpu1 flip rightred of a byte=3; flip rightred of a byte=5; free c a",
		[]string{"5: " + right}, nil}},
	{slub, program{"the end of a slab that goes", cpus +
		"cache c flags=poison,redzone,sanity min_partial=0 objects=2 size=64; a = alloc c; " +
		"cpu1 flip slabpad of a; free c a", []string{"3: " + slabEnd}, nil}},
	{"slab-2001-threelists", program{"in use", cpus + fzpu + two + "cpu1 destroy c",
		[]string{"3: " + debugcheck.TitleSlabRemaining}, nil}},
	{"slub-2008-seq", program{"usable tells nothing", "machine cpus=2 debug=\"FZPU\"; " +
		"a = malloc 64; overrun a 1; cpu1 usable a; cpu1 free a", []string{"4: " + right}, nil}},
	{"slub-2008-seq", program{"by size", "machine cpus=2 debug=\"FZPU\"; a = malloc 64; " +
		"cpu1 b = malloc 64; overrun a 1; cpu1 free a", []string{"4: " + right}, nil}},
	{"slub-2008-seq", program{"realloc", "machine cpus=2 debug=\"FZPU\"; a = malloc 64; " +
		"cpu1 b = malloc 64; overrun a 1; cpu1 b = realloc a 300; free b",
		[]string{"4: " + right}, nil}},
}

// TestLoose: where the order is open, what is reported is about damage that was done.
func TestLoose(t *testing.T) {
	for _, row := range loosePrograms {
		t.Run(row.name, func(t *testing.T) { row.test(t, row.subject) })
	}
}

// TestLooseLies: a report that nothing explains is found, and a free that nothing overlaps
// must tell of the red zones of its object.
func TestLooseLies(t *testing.T) {
	for _, row := range loosePrograms {
		v, c := subject(t, row.subject), compile(t, row.text)
		var list []seen
		runner.Run(c, lying(v, &lie{}, &list), oracle.Options{})
		for i := range list {
			r := &list[i]
			t.Run(row.name, func(t *testing.T) {
				for _, l := range looseLies {
					fits := (r.From == r.To) == l.empty && r.Title != l.title
					if !fits || r.Kind == debugcheck.Fatal && l.grows || r.Rules.SLAB() && l.exact {
						continue
					}
					var told []seen
					res := runner.Run(c, lying(v, &lie{at: i, reports: l.reports}, &told),
						oracle.Options{})
					title := fault.FalseReport + ": " + fault.Title(cmpOr(l.title, r.Title))
					if got := titles(res); !slices.Contains(got, title) {
						t.Errorf("%s, %s: found %q, want %q", r.Title, l.name, got, title)
					}
				}
			})
		}
	}
}

var looseLies = []struct {
	name    string
	grows   bool // there are more reports than there were
	empty   bool // about reports of no bytes, else of bytes
	exact   bool // SLAB, which repairs nothing, is not held to it
	title   string
	reports func([]*debugcheck.Report) []*debugcheck.Report
}{
	{name: "made twice", grows: true, exact: true,
		reports: twice},
	{name: "both bytes", exact: true,
		reports: alter(func(r *debugcheck.Report) { r.Got, r.Want = r.Got^1, r.Want^1 })},
	{name: "too long", exact: true, reports: alter(func(r *debugcheck.Report) { r.To += 80 })},
	{name: "title of the end of a slab", exact: true, title: slabEnd,
		reports: alter(func(r *debugcheck.Report) {
			r.Title, r.Object = slabEnd, 0
		})},
	{name: "title of a chain", title: onChain,
		reports: alter(func(r *debugcheck.Report) { r.Title = onChain })},
	{name: "title of what is left", title: debugcheck.TitleRemaining,
		reports: alter(func(r *debugcheck.Report) {
			r.Title, r.To = debugcheck.TitleRemaining, r.From
		})},
	{name: "title of a retired slab", title: disabled,
		reports: alter(func(r *debugcheck.Report) { r.Title, r.To = disabled, r.From })},
	{name: "title of a counter", title: slabs,
		reports: alter(func(r *debugcheck.Report) { r.Title, r.To = slabs, r.From })},
	{name: "another title", exact: true, title: bodyEnd + "x",
		reports: alter(func(r *debugcheck.Report) { r.Title = bodyEnd + "x" })},
	{name: "title of another byte", exact: true, title: align,
		reports: alter(func(r *debugcheck.Report) { r.Title = align })},
	{name: "another cache", title: "", exact: true,
		reports: alter(func(r *debugcheck.Report) { r.Object, r.Cache = 0, r.Cache+"x" })},
	{name: "elsewhere", reports: alter(func(r *debugcheck.Report) {
		r.From, r.To = r.From+1<<20, r.To+1<<20
	})},
	{name: "byte found", exact: true,
		reports: alter(func(r *debugcheck.Report) { r.Got ^= 1 })},
	{name: "byte wanted", exact: true,
		reports: alter(func(r *debugcheck.Report) { r.Want ^= 1 })},
	{name: "of no bytes", empty: true, title: other,
		reports: alter(func(r *debugcheck.Report) { r.Title = other })},
	{name: "first byte", exact: true, reports: alter(func(r *debugcheck.Report) { r.From-- })},
	{name: "last byte", exact: true, reports: alter(func(r *debugcheck.Report) { r.To++ })},
	{name: "about nothing", reports: alter(func(r *debugcheck.Report) { r.To = r.From })},
}

// TestLooseMissed: what a free must report, whoever runs meanwhile.
func TestLooseMissed(t *testing.T) {
	apart := cpus + fzpu + two + "cpu1 d = alloc c; overrun a 2; free c a; cpu1 free c d; "
	for _, row := range []struct {
		name, subject, text string
		want                []fault.Title
	}{
		{"overrun", slub, apart, []fault.Title{fault.MissedMisuse + ": " + right}},
		{"underrun", slub, cpus + fzpu + two + "cpu1 d = alloc c; underrun b 2; " +
			"cpu1 free c b; ", []fault.Title{fault.MissedMisuse + ": " + left}},
		{"slack", slub, cpus + "cache c flags=poison,sanity,redzone size=60; " + two +
			"cpu1 d = alloc c; overrun b 2; cpu1 free c b; ",
			[]fault.Title{fault.MissedMisuse + ": " + right}},
		{"tail", "slub-2008-seq", "machine cpus=2 debug=\"FZPU\" rules=6.12; a = malloc 50; " +
			"cpu1 b = malloc 50; overrun a 2; cpu1 free a; ",
			[]fault.Title{fault.MissedMisuse + ": " + tail}},
		{"sized", "slub-2008-seq", "machine cpus=2 debug=\"FZPU\"; a = malloc 64; " +
			"cpu1 b = malloc 50; overrun a 2; cpu1 freesized a 64; ",
			[]fault.Title{fault.MissedMisuse + ": " + right}},
		{"red words", "slab-2001-threelists", "machine cpus=2 rules=2.6; " + zp + two +
			"cpu1 d = alloc c; overrun a 1; cpu1 free c a; ",
			[]fault.Title{fault.MissedMisuse + ": " + outside}},
		{"red word in front", "slab-2001-onelist", "machine cpus=2 rules=2.6; " + zp + two +
			"cpu1 d = alloc c; underrun b 1; cpu1 free c b; ",
			[]fault.Title{fault.MissedMisuse + ": " + outside}},
		{"nobody need say so of padding", slub, cpus + fzpu + two + "cpu1 flip padding of a; " +
			"free c a; ", nil},
		{"nobody need say so with an overlap", slub, apart + "; sched subject=" + slub +
			"; at free(a) irqsave - 1: cpu1; ", nil},
		{"nobody need say so with an overlap from before", slub, cpus + fzpu + two +
			"cpu1 d = alloc c; overrun a 2; cpu1 free c d; free c a; " +
			"; sched subject=" + slub + "; at free(d) irqsave - 1: cpu0; ", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var list []seen
			v := lying(subject(t, row.subject), &lie{reports: leaveOut}, &list)
			out, err := runner.Judge(compile(t, row.text), v, oracle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []fault.Title
			if f := out.Finding; f != nil {
				got = append(append(got, f.Title), f.Also...)
			}
			if len(row.want) > 0 && !slices.Contains(got, row.want[0]) {
				t.Errorf("found %q, want %q", got, row.want)
			}
			for _, g := range got {
				if len(row.want) == 0 && g != fault.OutcomesDiffer && g != fault.FreeLost {
					t.Errorf("found %q", g)
				}
			}
			if len(list) == 0 {
				t.Error("nothing was left out")
			}
		})
	}
}

// TestLooseForgets: what a free writes over is not damaged any more.
func TestLooseForgets(t *testing.T) {
	for _, row := range []struct {
		text string
		off  impls.Addr
		r    debugcheck.Report
	}{
		{cpus + zOnly + two + "cpu1 overrun a 1; free c a; cpu1 free c b", 64,
			debugcheck.Report{Title: right, Got: 0xbb ^ 0xff, Want: 0xbb}},
		{cpus + "cache c flags=poison objects=3 size=64; " + two + "free c a; cpu1 writefreed a; " +
			"d = alloc c; free c d; cpu1 free c b", 5,
			debugcheck.Report{Title: body, Got: 0x6b ^ 0xff, Want: 0x6b}},
	} {
		first := impls.Addr(0)
		l := &lie{free: func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
			if first == 0 {
				first = a
			} else if a != first {
				r := row.r
				r.Cache, r.Object, r.From, r.To = "c", first, first+row.off, first+row.off+1
				c.Note(&r)
			}
			k.Debugger.Free(c, a)
		}}
		var list []seen
		res := runner.Run(compile(t, row.text), lying(subject(t, slub), l, &list),
			oracle.Options{})
		want := fault.FalseReport + ": " + fault.Title(row.r.Title)
		if got := titles(res); !slices.Contains(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// TestLooseStop: a kernel that stops on one of several contexts must say why.
func TestLooseStop(t *testing.T) {
	stops := func(title string, kind debugcheck.Kind) *lie {
		return &lie{free: func(_ *lyingCache, c *machine.Ctx, a impls.Addr) {
			c.Note(&debugcheck.Report{Cache: "c", Title: title, Object: a, Kind: kind})
			c.Halt()
		}}
	}
	halt := &lie{after: func(_ *liar, c *machine.Ctx, _ *debugcheck.Report) { c.Halt() }}
	var told []seen
	needless := runner.Run(compile(t, cpus+fzpu+two+"cpu1 overrun a 1; free c a"),
		lying(subject(t, slub), halt, &told), oracle.Options{})
	if got := titles(needless); len(got) != 1 || got[0] != fault.FalseReport+": "+right {
		t.Errorf("without need: found %q", got)
	}
	c := compile(t, cpus+fzpu+two+"cpu1 free c a")
	for _, kind := range []debugcheck.Kind{debugcheck.Bug, debugcheck.Fatal} {
		var list []seen
		res := runner.Run(c, lying(subject(t, slub), stops(right, kind), &list), oracle.Options{})
		want := []fault.Title{fault.FalseReport + ": " + right}
		if diff := cmp.Diff(want, titles(res)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// TestLooseInFlight: what is damaged while an allocation is in flight may have been written
// over by it, or not: a report of it is right, and so is none.
func TestLooseInFlight(t *testing.T) {
	for _, row := range []struct{ subject, text, at, title string }{
		{"slab-2001-threelists", "machine cpus=2 rules=2.6; " + zp + two +
			"free c b; cpu1 overrun a 16", "alloc(b) irqrestore - 1", outside},
		{slub, cpus + "cache c flags=redzone,sanity objects=3 size=64; " + two +
			"free c b; cpu1 overrun a 24", "alloc(b) irqrestore - 2", left},
		{slub, cpus + "cache c flags=redzone,sanity objects=3 size=64; " + two +
			"free c b; cpu1 overrun a 24", "free(b) irqsave - 1", left},
	} {
		for _, l := range []*lie{{}, {reports: leaveOut}} {
			var list []seen
			v := lying(subject(t, row.subject), l, &list)
			p := compile(t, row.text+"; sched subject="+row.subject+"; at "+row.at+": cpu1")
			out, err := runner.Judge(p, v, oracle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			missed := fault.MissedMisuse + ": " + fault.Title(row.title)
			if f := out.Finding; f != nil && (l.reports == nil || f.Matches(string(missed))) {
				t.Errorf("%s: found %q, also %q", row.subject, f.Title, f.Also)
			}
			if len(list) == 0 || list[0].Title != row.title {
				t.Errorf("%s: reports %+v, want %q first", row.subject, list, row.title)
			}
		}
	}
}

// TestLooseRefused: a refused free gives no slab up, and what 6.1 does not look at is not
// reported.
func TestLooseRefused(t *testing.T) {
	for _, text := range []string{
		cpus + fzpu + three + "cpu1 overrun a 1; cpu1 free c a; cpu1 free c b",
		cpus + fzpu + two + "free c a; flip padding of a; cpu1 e = alloc c; cpu1 free c b",
	} {
		nth := 2 // that is lost
		l := &lie{free: func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
			if nth--; nth != 0 {
				k.Debugger.Free(c, a)
			}
		}}
		var list []seen
		res := runner.Run(compile(t, text), lying(subject(t, slub), l, &list), oracle.Options{})
		if got := titles(res); !slices.Contains(got, fault.FreeLost) {
			t.Errorf("found %q of %s", got, text)
		}
		if len(list) == 0 {
			t.Errorf("no report of %s", text)
		}
	}
	v := subject(t, "slub-2008-seq")
	said := *v
	said.New = func(m *machine.Machine) impls.Instance {
		return &teller{Instance: v.New(m)}
	}
	res := runner.Run(compile(t, "machine cpus=2 debug=\"FZPU\"; a = malloc 50; "+
		"cpu1 overrun a 1; cpu1 free a; "), &said, oracle.Options{})
	if got := titles(res); !slices.Contains(got, fault.FalseReport+": "+tail) {
		t.Errorf("found %q", got)
	}
}

// A teller reports the tail of an object that it frees by size.
type teller struct{ impls.Instance }

func (t *teller) Sizes() impls.Allocator {
	return tellingSizes{t.Instance.Sizes().(impls.Owner)}
}

type tellingSizes struct{ impls.Owner }

func (s tellingSizes) Free(c *machine.Ctx, a impls.Addr) {
	k := s.CacheOf(a).(impls.Debugger)
	d, _ := k.Slab(a)
	c.Note(&debugcheck.Report{Cache: k.Layout().Name, Title: tail, Object: a, Slab: d.Addr,
		From: a + 50, To: a + 51, Got: 0xcc ^ 0xff, Want: 0xcc})
	s.Owner.Free(c, a)
}
