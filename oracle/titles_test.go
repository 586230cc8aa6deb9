package oracle_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// A rule is one way to break a rule: with the bug the program must raise the title
// and, while only the title's check is on, nothing else. Without it nothing.
type rule struct {
	title fault.Title
	how   string
	bug   toyBug
	text  string
	extra fault.Rule // a check that must be on, too
	// simulated: natively nobody looks between operations.
	simulated bool
}

const (
	twoMallocs = "cpu0 a = malloc 48\ncpu0 b = malloc 48\ncpu0 verify a\n"
	twoObjects = "cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncheck\ncpu0 free c b\n"
	fullSlab   = "cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncpu0 d = alloc c\n" +
		"cpu0 e = alloc c\ncheck\n"
	emptySlab = "cache c size=64\ncpu0 a = alloc c\ncpu0 free c a\ncheck\n"
)

// readerText leaves an object freed that a reader may look at.
const readerText = "cache c flags=rcu size=64\ncpu0 a = alloc c\ncpu0 rculock\ncpu0 free c a\n"

// second breaks the second allocation only.
func second(f func(t *toy, a impls.Addr, size uint64) impls.Addr) toyBug {
	return toyBug{give: func(t *toy, a impls.Addr, size uint64) impls.Addr {
		if t.last == 0 {
			return a
		}
		return f(t, a, size)
	}}
}

// slabs bends every slab of a snapshot.
func slabs(f func(b *impls.SlabState)) toyBug {
	return toyBug{show: func(_ *toy, s *impls.Snapshot) {
		for i := range s.Slabs {
			f(&s.Slabs[i])
		}
	}}
}

// on puts a slab on one list.
func on(b *impls.SlabState, l impls.ListKind) {
	b.On = append(b.On[:0], impls.Place{List: l})
}

// resettle sets inuse and list after the freelist was changed.
func resettle(b *impls.SlabState) {
	b.Inuse = b.Objects - len(b.Free)
	on(b, impls.ListPartial)
	switch b.Inuse {
	case 0:
		on(b, impls.ListFree)
	case b.Objects:
		on(b, impls.ListFull)
	}
}

// What the toy holds for CPUs at a flush and when CPU 1 goes out of use: nothing.
const (
	flushed  = "machine cpus=2\ncache c size=64\ncpu0 a = alloc c\ncpu0 flush c\n"
	offlined = "machine cpus=2\ncache c size=64\ncpu0 a = alloc c\ncpu0 offline cpu=1 => ok\n"
)

// heldBy shows all slabs as those of a CPU.
func heldBy(kind impls.PlaceKind, cpu int) toyBug {
	return slabs(func(b *impls.SlabState) { b.On = []impls.Place{{Kind: kind, CPU: cpu}} })
}

// wrongList puts slabs of one fullness on a list.
func wrongList(free int, l impls.ListKind) toyBug {
	return slabs(func(b *impls.SlabState) {
		if len(b.Free) == free {
			on(b, l)
		}
	})
}

var ownershipRules = []rule{
	{title: fault.TwiceOut, text: twoMallocs, bug: second(
		func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last })},
	{title: fault.TwiceOut, how: "object", text: twoObjects, bug: second(
		func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last })},
	{title: fault.Overlap, text: twoMallocs, bug: second(
		func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last + 8 })},
	{title: fault.Overlap, how: "from before", bug: second(
		func(t *toy, a impls.Addr, size uint64) impls.Addr {
			if size < toyPage {
				return a
			}
			return t.last - 8
		}),
		text: "cpu0 z = malloc 16\ncpu0 free z\ncpu0 a = malloc 48\ncpu0 b = malloc 4096\n"},
	{title: fault.Misaligned, text: twoMallocs, bug: second(
		func(_ *toy, a impls.Addr, _ uint64) impls.Addr { return a + 4 })},
	{title: fault.Misaligned, how: "memalign", text: "cpu0 b = malloc 8\ncpu0 a = memalign 64 40\n",
		bug: second(func(_ *toy, a impls.Addr, _ uint64) impls.Addr { return a + 8 })},
	{title: fault.Misaligned, how: "cache", text: "cache c align=64 size=64\ncpu0 b = malloc 8\n" +
		"cpu0 a = alloc c\n",
		bug: second(func(_ *toy, a impls.Addr, _ uint64) impls.Addr { return a + 8 })},
	{title: fault.OutsideSlab, text: twoObjects, bug: second(
		func(_ *toy, a impls.Addr, _ uint64) impls.Addr { return a + 1024 })},
	{title: fault.OutsideSlab, how: "no slab there", text: twoObjects, bug: second(
		func(_ *toy, _ impls.Addr, _ uint64) impls.Addr { return 16 * toyPage })},
	{title: fault.OutsideSlab, how: "too long", bug: slabs(
		func(b *impls.SlabState) { b.Addr -= toyPage - 32 }),
		text: "cache c size=64\ncpu0 a = alloc c\ncheck\n"},
	{title: fault.OutsideArena, text: twoMallocs, bug: second(
		func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return uint64(len(t.mem)) - 8 })},
	{title: fault.UsableTooSmall, text: "cpu0 a = malloc 48\ncpu0 usable a\n",
		bug: toyBug{usable: -1}},
	{title: fault.ReadReuse, text: readerText + "cpu0 shrink c\ncpu0 b = pages 0\n",
		bug: second(func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last })},
	{title: fault.ReadReuse, how: "another place", text: readerText + "cpu0 b = alloc c\n",
		bug: second(func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last + 8 })},
	{title: fault.ReadReuse, how: "another cache",
		text: "cache d flags=rcu size=64\n" + readerText + "cpu0 b = alloc d\n",
		bug:  second(func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last })},
	{title: fault.RefusedNoReason, text: "cpu0 a = malloc 48\n",
		bug: toyBug{refuse: "malloc", silent: true}},
	{title: fault.RefusedNoReason, how: "realloc",
		text: "cpu0 a = malloc 8\ncpu0 a = realloc a 9\n",
		bug:  toyBug{refuse: "realloc", silent: true}},
	{title: fault.RefusedNoReason, how: "create", text: "cpu0 c = create size=8\n",
		bug: toyBug{refuse: "create", silent: true}},
	{title: fault.RefusedNoReason, how: "pages", text: "cpu0 a = pages 1\n",
		bug: toyBug{refuse: "pages", silent: true}},
	{title: fault.RefusedNoReason, how: "size 0", text: "cpu0 a = malloc 0\n",
		bug: toyBug{refuse: "malloc", silent: true}},
}

// scribble changes a byte of what was handed out before.
func scribble(t *toy, _ impls.Addr, _ uint64) {
	if t.last != 0 {
		t.mem[t.last+5] ^= 1
	}
}

var contentsRules = []rule{
	{title: fault.ContentsChanged, how: "at free", bug: toyBug{after: scribble},
		text: "cpu0 a = malloc 48\ncpu0 b = malloc 48\ncpu0 free a\n"},
	{title: fault.ContentsChanged, how: "at verify", bug: toyBug{after: scribble},
		text: twoMallocs},
	{title: fault.ContentsChanged, how: "at fill", bug: toyBug{after: scribble},
		text: "cpu0 a = malloc 48\ncpu0 b = malloc 48\ncpu0 fill a\n"},
	{title: fault.CtorLost, how: "at first", bug: toyBug{bare: true},
		text: "cache c ctor=on size=48\ncpu0 a = alloc c\n"},
	{title: fault.CtorLost, how: "on the way", text: "cache c ctor=on size=48\n" +
		"cpu0 a = alloc c\ncpu0 free c a\ncpu0 b = alloc c\n",
		bug: toyBug{after: func(t *toy, a impls.Addr, _ uint64) {
			if a == t.last {
				t.mem[a+47] ^= 1
			}
		}}},
	{title: fault.NotZeroed, how: "malloc", text: "cpu0 a = malloc 48 flags=zero\n",
		bug: toyBug{dirty: true}},
	{title: fault.NotZeroed, how: "calloc", text: "cpu0 a = calloc 6 8\n",
		bug: toyBug{dirty: true}},
	{title: fault.NotZeroed, how: "realloc", bug: toyBug{dirty: true},
		text: "cpu0 a = malloc 0 flags=zero\ncpu0 a = realloc a 48 flags=zero\n"},
	{title: fault.NotZeroed, how: "memalign", text: "cpu0 a = memalign 64 48 flags=zero\n",
		bug: toyBug{dirty: true}},
	{title: fault.NotZeroed, how: "alloc", text: "cache c size=64\ncpu0 a = alloc c flags=zero\n",
		bug: toyBug{dirty: true}},
	{title: fault.PrefixLost, how: "grown", text: "cpu0 a = malloc 48\ncpu0 a = realloc a 96\n",
		bug: toyBug{loses: true}},
	{title: fault.PrefixLost, how: "shrunk", text: "cpu0 a = malloc 48\ncpu0 b = realloc a 16\n",
		bug: toyBug{loses: true}},
}

var structureRules = []rule{
	{title: fault.LiveOnFreelist, text: twoObjects, bug: slabs(func(b *impls.SlabState) {
		b.Free = append(b.Free, b.First)
		resettle(b)
	})},
	{title: fault.LiveOnFreelist, how: "of a CPU", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.CPUFree = append(b.CPUFree, b.First) })},
	{title: fault.FreeLost, text: twoObjects, bug: slabs(func(b *impls.SlabState) {
		b.Free = b.Free[1:]
		resettle(b)
	})},
	{title: fault.FreeTwice, text: twoObjects, bug: slabs(func(b *impls.SlabState) {
		b.CPUFree = append(b.CPUFree, b.Free[0])
	})},
	{title: fault.FreeTwice, how: "on one list", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.Free = append(b.Free, b.Free[0]) })},
	{title: fault.FreelistCycle, text: twoObjects, bug: slabs(func(b *impls.SlabState) {
		b.Free = append(b.Free, b.Free...)
		b.FreeEnd = impls.EndCycle
	})},
	{title: fault.FreelistCycle, how: "of a CPU", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.CPUFree, b.CPUEnd = b.Free, impls.EndCycle })},
	{title: fault.FreelistLeaves, how: "at the end", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.FreeEnd = impls.EndLeaves })},
	{title: fault.FreelistLeaves, how: "of a CPU", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.CPUEnd = impls.EndLeaves })},
	{title: fault.FreelistLeaves, how: "by an entry", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.Free[len(b.Free)-1] += 8 })},
	{title: fault.InuseWrong, text: twoObjects, bug: slabs(func(b *impls.SlabState) { b.Inuse++ })},
	{title: fault.SlabTwice, text: twoObjects, bug: slabs(func(b *impls.SlabState) {
		b.On = append(b.On, impls.Place{Kind: impls.OnCPU})
	})},
	{title: fault.SlabLost, text: twoObjects, bug: slabs(func(b *impls.SlabState) { b.On = nil })},
	{title: fault.SlabLost, how: "full", text: fullSlab, bug: slabs(func(b *impls.SlabState) {
		if len(b.Free) == 0 {
			b.On = nil
		}
	})},
	{title: fault.ListOrder, how: "full on partial", text: fullSlab,
		bug: wrongList(0, impls.ListPartial)},
	{title: fault.ListOrder, how: "free on partial", text: emptySlab,
		bug: wrongList(4, impls.ListPartial)},
	{title: fault.ListOrder, how: "partial on full", text: twoObjects,
		bug: wrongList(2, impls.ListFull)},
	{title: fault.ListOrder, how: "partial on free", text: twoObjects,
		bug: wrongList(2, impls.ListFree)},
	{title: fault.CountWrong, text: twoObjects, bug: toyBug{
		show: func(_ *toy, s *impls.Snapshot) { s.Counts[0].Stored++ }}},
	{title: fault.ColourRange, text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.Colour, b.Colours = 2, 2 })},
	{title: fault.ColourRange, how: "none", text: twoObjects, bug: slabs(
		func(b *impls.SlabState) { b.Colour, b.Colours = 1, 0 })},
	{title: fault.ReuseOrder, text: "cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\n" +
		"cpu0 free c b\ncpu0 d = alloc c\n", bug: toyBug{fifo: true}},
	{title: fault.ReuseOrder, how: "emptied", text: "cache c size=64\ncpu0 a = alloc c\n" +
		"cpu0 free c a\ncpu0 d = alloc c\n", bug: toyBug{fifo: true}},
	{title: fault.ReuseOrder, how: "CPU slab", text: "cache c size=64\ncpu0 a = alloc c\n" +
		"cpu0 free c a\ncpu0 d = alloc c\n", bug: toyBug{fifo: true, show: func(_ *toy,
		s *impls.Snapshot) {
		s.Caches[0].FullLists = false
		for i := range s.Slabs {
			s.Slabs[i].On = []impls.Place{{Kind: impls.OnCPU}}
		}
	}}},
	{title: fault.FreeSlabKept, text: "cache c size=64\ncpu0 a = alloc c\ncpu0 free c a\n" +
		"cpu0 shrink c\n", bug: toyBug{hoards: true}},
	{title: fault.FreeSlabKept, how: "destroy", text: "cache c size=64\ncpu0 a = alloc c\n" +
		"cpu0 b = alloc c\ncpu0 d = alloc c\ncpu0 e = alloc c\ncpu0 f = alloc c\n" +
		"cpu0 free c f\ncpu0 destroy c\n", bug: toyBug{hoards: true}},
	{title: fault.HeldOn, how: "CPU's slab", text: flushed, bug: heldBy(impls.OnCPU, 0)},
	{title: fault.HeldOn, how: "store of another CPU", text: flushed,
		bug: heldBy(impls.OnCPUPartial, 1)},
	{title: fault.HeldOn, how: "objects", text: flushed, bug: slabs(
		func(b *impls.SlabState) { b.CPUFree, b.Free = b.Free[2:], b.Free[:2]; b.Inuse++ })},
	{title: fault.HeldOn, how: "offline", text: offlined,
		bug: heldBy(impls.OnCPUPartial, 1)},
	{title: fault.PagesLeaked, how: "slab outlives its cache", text: twoObjects, bug: toyBug{
		show: func(t *toy, s *impls.Snapshot) {
			if t.caches[0].dead {
				b := s.AddSlab()
				b.On = []impls.Place{{List: impls.ListFree}}
			}
		}, setUp: withPages(1, 1)}},
	{title: fault.PagesLeaked, how: "not free again", text: twoObjects,
		bug: toyBug{setUp: withPages(1, 1)}},
	{title: fault.PagesLeaked, how: "free and not to be had", text: twoObjects,
		bug: toyBug{setUp: withPages(0, 1)}},
}

var differenceRules = []rule{
	{title: fault.OutcomesDiffer, how: "destroy of a cache in use", bug: toyBug{never: true},
		text: "cache c size=64\ncpu0 a = alloc c\ncpu0 destroy c\n"},
	{title: fault.OutcomesDiffer, how: "destroy of an empty cache", bug: toyBug{busy: true},
		text: "cache c size=64\ncpu0 a = alloc c\ncpu0 free c a\ncpu0 destroy c\n"},
	{title: fault.OutcomesDiffer, how: "destroy of a cache made again", bug: toyBug{busy: true},
		text: "cpu0 c = create size=64\ncpu0 a = alloc c\n" +
			"cpu0 c = create size=32\ncpu0 destroy c\n"},
	{title: fault.OutcomesDiffer, how: "shrink says that nothing is left",
		bug: toyBug{lies: true}, extra: fault.Structure, simulated: true,
		text: "cache c size=64\ncpu0 a = alloc c\ncpu0 shrink c\n"},
	{title: fault.OutcomesDiffer, how: "shrink says that a page came back",
		bug: toyBug{show: func(_ *toy, s *impls.Snapshot) {
			s.Caches[0].Shrinks = impls.AnswersPages
		}}, extra: fault.Structure, simulated: true,
		text: "cache c size=64\ncpu0 a = alloc c\ncpu0 shrink c\n"},
	{title: fault.OutcomesDiffer, how: "destroy at the end", bug: toyBug{busy: true},
		text: twoObjects, extra: fault.Structure},
	{title: fault.Aborted, text: twoMallocs, bug: toyBug{call: func(*toy, *machine.Ctx) {
		panic("toy: broken")
	}}},
}

// withPages gives the toy's machine a page layer that says less than it has, or
// has less than it says.
func withPages(hides, keeps int) func(*toy) {
	return func(t *toy) {
		l := &toyPages{m: t.m, hides: hides}
		for i := range t.m.Pages - keeps {
			l.free = append(l.free, i)
		}
		t.m.SetPageLayer(l)
	}
}

// toyPages is a page layer of single pages, none of which the toy itself uses.
type toyPages struct {
	m     *machine.Machine
	free  []int
	hides int
}

func (l *toyPages) Alloc(*machine.Ctx, int) *machine.Page {
	if len(l.free) == 0 {
		return nil
	}
	n := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	return l.m.PageAt(n)
}

func (l *toyPages) Free(_ *machine.Ctx, p *machine.Page, _ int) {
	l.free = append(l.free, p.PFN())
}

func (l *toyPages) Drain(*machine.Ctx) {}
func (l *toyPages) FreePages() int     { return l.m.Pages - l.hides }

func allRules() []rule {
	return slices.Concat(ownershipRules, contentsRules, structureRules, managerRules,
		footprintRules, arrayRules, differenceRules)
}

// TestTitles: every rule raises its title when it is broken, nothing but that while
// it is the only check, and nothing when it is kept. Names are titles.
func TestTitles(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for _, row := range allRules() {
		name := string(row.title)
		if row.how != "" {
			name += "/" + row.how
		}
		t.Run(name, func(t *testing.T) { row.test(t, r) })
	}
}

func (row *rule) test(t *testing.T, r *oracle.Runner) {
	p := compile(t, "allocfuzz 1\n"+row.text)
	e, ok := fault.Lookup(row.title)
	if !ok {
		t.Fatal("no such title")
	}
	only := oracle.Checks(1<<e.Rule) | oracle.Checks(1<<row.extra)
	broken := toySubject(row.bug)
	sound := toySubject(row.bug.mended())
	want := []fault.Title{row.title}
	if got := titles(r.Run(p, broken, oracle.Options{Checks: only})); !slices.Equal(got, want) {
		t.Errorf("with the check alone: %s", cmp.Diff(want, got))
	}
	res := r.Run(p, broken, oracle.Options{})
	if !slices.Contains(titles(res), row.title) {
		t.Errorf("with all checks: %q", titles(res))
	}
	if f := res.Finding(); !f.Matches(string(row.title)) {
		t.Errorf("the finding %q, also %q", f.Title, f.Also)
	}
	rest := oracle.AllChecks.Without(e.Rule)
	if got := titles(r.Run(p, broken, oracle.Options{Checks: rest})); slices.Contains(got,
		row.title) {
		t.Errorf("without the check: %q", got)
	}
	for _, native := range []bool{false, true} {
		if res := r.Run(p, sound, oracle.Options{Native: native}); len(res.Faults) > 0 {
			t.Errorf("sound, native %v: %q", native, res.Faults)
		}
	}
	if e.Rule != fault.Structure && row.title != fault.OutsideSlab && !row.simulated {
		native := oracle.Options{Checks: only, Native: true}
		if got := titles(r.Run(p, broken, native)); !slices.Equal(got, want) {
			t.Errorf("native: %s", cmp.Diff(want, got))
		}
	}
}

// mended is the bug put right where that can be by less than leaving it out: a
// refusal with its reason.
func (b toyBug) mended() toyBug {
	if b.refuse == "" {
		return toyBug{setUp: mendedPages(b.setUp)}
	}
	b.silent = false
	return b
}

func mendedPages(setUp func(*toy)) func(*toy) {
	if setUp == nil {
		return nil
	}
	return withPages(0, 0)
}

// TestNativeChecks: natively the structure is looked at where the program says, too.
func TestNativeChecks(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\ncache c size=64\ncpu0 a = alloc c\ncheck\ncpu0 b = alloc c\n")
	v := toySubject(toyBug{show: func(t *toy, s *impls.Snapshot) {
		if t.calls == 1 {
			s.Counts[0].Stored++
		}
	}})
	res := r.Run(p, v, oracle.Options{Native: true})
	if got := titles(res); len(got) != 1 || got[0] != fault.CountWrong {
		t.Errorf("found %q, want %s", got, fault.CountWrong)
	}
}

// TestDestroyMerged: where caches are merged one task is asked for the right answer of
// destroy, too. A stream does not know whether there is one task only.
func TestDestroyMerged(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\nmachine merge=on\ncache c size=64\ncpu0 a = alloc c\n"+
		"cpu0 destroy c\n")
	for _, bug := range []toyBug{{}, {never: true}} {
		got := titles(r.Run(p, toySubject(bug), oracle.Options{}))
		if slices.Contains(got, fault.OutcomesDiffer) != bug.never {
			t.Errorf("never busy: %v, found %q", bug.never, got)
		}
	}
}

// TestTitlesComplete: the table above has every title that checks 1 to 5 can raise; what is
// left out is named with the reason, or with the test that has it.
func TestTitlesComplete(t *testing.T) {
	elsewhere := map[fault.Title]string{
		fault.BuddiesApart:     "TestPageRules",
		fault.PoolLimit:        "TestPageRules",
		fault.PairDiffers:      "TestDiffers of fuzz/pairs",
		fault.NonDeterministic: "TestTwice",
		fault.FreshUnmarked:    "shadow: TestFresh",
		fault.WrongLayout:      "shadow: TestLayoutLies",
		fault.OutOfTurn:        "shadow: TestOutOfTurn",
		fault.MissedMisuse:     "shadow: TestReportLies",
		fault.FalseReport:      "shadow: TestReportLies",
		fault.WrongReport:      "shadow: TestReportLies",
		fault.WrongRepair:      "shadow: TestRepairLies",
		fault.OverflowServed:   "impls/clib: TestBroken",
		fault.ErrnoWrong:       "impls/clib: TestBroken",
		fault.UsableUnlike:     "impls/clib: TestBroken",
	}
	have := map[fault.Title]bool{}
	for _, row := range allRules() {
		have[row.title] = true
	}
	for _, e := range fault.Titles() {
		switch e.Rule {
		case fault.Ownership, fault.Contents, fault.Reports, fault.Structure, fault.Difference:
		default:
			continue
		}
		if have[e.Title] == (elsewhere[e.Title] != "") {
			t.Errorf("%s: in the table %v, elsewhere %q", e.Title, have[e.Title],
				elsewhere[e.Title])
		}
	}
}
