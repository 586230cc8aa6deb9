package oracle_test

import (
	"slices"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// leaving is a slab without room for any colour but 0, whose object is shifted into the
// slab behind it, and one at the end of the arena.
const leaving = `allocfuzz 1
machine cpus=2
cache c objects=1 size=4048

cpu0 a = alloc c
cpu1 b = alloc c
check

sched subject=slab-colour-unclamped => bug "object overlaps a live object"
at alloc(a) load cache.colour_next 2: cpu1
at alloc(b) store cache.colour_next 2: cpu0
`

const leavingArena = `allocfuzz 1
machine cpus=2 pages=2
cache c objects=1 size=4048

cpu0 a = alloc c
cpu1 b = alloc c
cpu1 free c b
check

sched subject=slab-colour-unclamped => bug "object outside the arena"
at alloc(a) store cache.colour_next 1: cpu1
at alloc(b) load cache.colour_next 2: cpu0
at alloc(a) store cache.colour_next 2: cpu1
`

// TestColourLeaves: an object that is shifted out of its slab is found by each check that can
// see it, with the others off, and never stops the run.
func TestColourLeaves(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	consequences := oracle.AllChecks.Without(fault.Step)
	ownership := consequences.Without(fault.Structure)
	for _, tt := range []struct {
		name, text string
		checks     oracle.Checks
		want       []fault.Title
	}{
		{"all", leaving, oracle.AllChecks, []fault.Title{fault.ColourRange, fault.OutsideSlab,
			fault.Overlap}},
		{"consequences", leaving, consequences, []fault.Title{fault.OutsideSlab, fault.Overlap}},
		{"ownership", leaving, ownership, []fault.Title{fault.OutsideSlab, fault.Overlap}},
		{"steps", leaving, 1 << fault.Step, []fault.Title{fault.ColourRange}},
		{"all", leavingArena, oracle.AllChecks, []fault.Title{fault.ColourRange,
			fault.OutsideSlab, fault.OutsideArena}},
		{"ownership", leavingArena, ownership, []fault.Title{fault.OutsideArena}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := compile(t, tt.text)
			out, err := r.Judge(p, subject(t, "slab-colour-unclamped"),
				oracle.Options{Checks: tt.checks})
			if err != nil || out.Finding == nil {
				t.Fatal(out.Finding, err)
			}
			got := titlesOf(out.Finding)
			for _, want := range tt.want {
				if !slices.Contains(got, want) {
					t.Errorf("found %q, not %s", got, want)
				}
			}
			for _, f := range out.Finding.Faults {
				if f.Title == fault.ColourRange && !tt.checks.On(fault.Step) &&
					!tt.checks.On(fault.Structure) {
					t.Errorf("%s with its checks off", f)
				}
			}
			for _, name := range []string{"slab-colour-racy", "slab-colour-locked"} {
				out, err := r.Judge(p, subject(t, name), oracle.Options{})
				if err != nil || out.Finding != nil {
					t.Errorf("%s: %+v, %v", name, out.Finding, err)
				}
			}
		})
	}
}

func titlesOf(f *oracle.Finding) []fault.Title { return append([]fault.Title{f.Title}, f.Also...) }

// TestColourBothWays: the committed programs of the colour that is not clamped show the step
// where the colour is used, and what comes of it with the checks of steps off, and with
// those of structure off, too.
func TestColourBothWays(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slab-colour-unclamped")
	late := oracle.AllChecks.Without(fault.Step)
	const step, outside = fault.ColourRange, fault.OutsideSlab
	for _, tt := range []struct {
		file                   string
		all, late, consequence fault.Title
	}{
		{"limit", step, step, ""},
		{"two-cpus", outside, outside, outside},
		{"three-cpus", outside, outside, outside},
		{"no-room", outside, outside, outside},
	} {
		p := scheduled(t, "corpus/regress/slab-colour-unclamped-"+tt.file+".prog")
		for checks, want := range map[oracle.Checks]fault.Title{
			oracle.AllChecks: tt.all, 1 << fault.Step: step, late: tt.late,
			late.Without(fault.Structure): tt.consequence,
		} {
			out, err := r.Judge(p, v, oracle.Options{Checks: checks})
			if err != nil {
				t.Fatal(err)
			}
			got := fault.Title("")
			if out.Finding != nil {
				got = out.Finding.Title
			}
			if got != want {
				t.Errorf("%s, checks %x: found %q, want %q", tt.file, checks, got, want)
			}
		}
	}
}

// TestColourTwice: in the committed program of two CPUs that take one next colour, both
// slabs have colour 1 where nothing protects it, and 0 and 1 under the lock; nothing is
// found.
func TestColourTwice(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := scheduled(t, "corpus/seeds/colour-read-by-two-cpus.prog")
	anchors, err := p.Anchors(&p.Prog.Scheds[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint64{
		"slab-colour-racy": {1, 1}, "slab-colour-unclamped": {1, 1}, "slab-colour-locked": {0, 1},
	} {
		res := r.Run(p, subject(t, name),
			oracle.Options{Chooser: sched.NewReplay(sched.Repair, anchors)})
		if len(res.Faults) > 0 {
			t.Errorf("%s: %v", name, res.Faults)
		}
		got := map[int32]uint64{}
		for i := range res.Events[:4] {
			ev := &res.Events[i]
			got[ev.Op] = (ev.Addr%4096 - 48) / 64 // before the first object are 48 bytes
		}
		if got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: colours %d and %d, want %d", name, got[0], got[1], want)
		}
	}
}

// scheduled is a committed program with its schedules.
func scheduled(t *testing.T, name string) *oracle.Compiled {
	t.Helper()
	for f := range corpus.All() {
		if f.Name == name {
			return compiled(t, f)
		}
	}
	t.Fatalf("no program %s", name)
	return nil
}
