package shadow_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

const slub, slub612 = "slub-2022-debug-locked", newer

// retires is a program whose first report retires a slab.
const retires = fzpu + two + "free c a; writefreed a; e = alloc c; "

// damage changes a field of the slab of a report behind the call.
func damage(region debugcheck.Region, mask uint64) func(*liar, *machine.Ctx, *debugcheck.Report) {
	return func(t *liar, c *machine.Ctx, r *debugcheck.Report) {
		if k := t.owner(r.Slab); k != nil {
			k.Damage(c, region, r.Slab, mask)
		}
	}
}

// once makes f the free of the first call only.
func once(f func(k *lyingCache, c *machine.Ctx, a impls.Addr)) func(*lyingCache, *machine.Ctx,
	impls.Addr) {
	done := false
	return func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
		if done {
			k.Debugger.Free(c, a)
			return
		}
		done = true
		f(k, c, a)
	}
}

// TestBehaviour: what a subject does beside its reports is found, too: the first title is
// the one that is wanted.
func TestBehaviour(t *testing.T) {
	refusedOnce := fzpu + two + "overrun a 1; free c a; "
	for _, row := range []struct {
		name, text string
		lie        func() lie
		want       fault.Title
	}{
		{"a free that should go ahead is refused", fzpu + two + "free c a; ", func() lie {
			return lie{free: once(func(*lyingCache, *machine.Ctx, impls.Addr) {})}
		}, fault.FreeLost},
		{"it is refused after misuse elsewhere", fzpu + two + "overrun b 1; free c a; ",
			func() lie {
				return lie{free: once(func(*lyingCache, *machine.Ctx, impls.Addr) {})}
			}, fault.FreeLost},
		{"a free that should be refused goes ahead", refusedOnce, func() lie {
			return lie{free: once(func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
				k.Debugger.Free(c, a)
				k.Debugger.Free(c, a)
			})}
		}, fault.WrongRepair + ": " + right},
		{"a retired slab is not marked", retires, func() lie {
			return lie{after: damage(debugcheck.SlabFrozen, 1)}
		}, fault.WrongRepair + ": " + body},
		{"a retired slab keeps its count", retires, func() lie {
			return lie{after: damage(debugcheck.SlabInuse, 1)}
		}, fault.WrongRepair + ": " + body},
		{"a retired slab is on a list", retires, func() lie {
			return lie{show: func(s *impls.Snapshot) {
				for i := range s.Slabs {
					if s.Slabs[i].Retired {
						s.Slabs[i].On = []impls.Place{{List: impls.ListFull}}
					}
				}
			}}
		}, fault.WrongRepair + ": " + body},
		{"a good slab is retired", fzpu + three + "e = alloc c; overrun e 1; ", func() lie {
			return lie{show: func(s *impls.Snapshot) {
				if len(s.Slabs) == 2 {
					s.Slabs[1].On, s.Slabs[1].Retired = nil, true
				}
			}}
		}, fault.SlabLost},
		{"a good slab is disabled", fzpu + two + "overrun a 1; free c a; validate c; ",
			func() lie { return lie{after: damage(debugcheck.SlabFrozen, 1)} },
			fault.FalseReport + ": " + disabled},
		{"the kernel stops without need", refusedOnce, func() lie {
			return lie{after: func(_ *liar, c *machine.Ctx, _ *debugcheck.Report) { c.Halt() }}
		}, fault.WrongReport + ": " + right},
		{"the kernel stops without a word", fzpu + two + "free c a; ", func() lie {
			return lie{free: func(_ *lyingCache, c *machine.Ctx, _ impls.Addr) { c.Halt() }}
		}, fault.Aborted},
		{"the kernel stops before there is any misuse", fzpu + two + "free c a; ", func() lie {
			return lie{free: func(_ *lyingCache, c *machine.Ctx, _ impls.Addr) {
				c.Note(&debugcheck.Report{Cache: "c", Title: right, Kind: debugcheck.Fatal})
				c.Halt()
			}}
		}, fault.FalseReport + ": " + right},
		{"a report without misuse", fzpu + two + "free c a; ", func() lie {
			return lie{free: once(func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
				c.Note(&debugcheck.Report{Cache: "c", Title: right, Object: a})
				k.Debugger.Free(c, a)
			})}
		}, fault.FalseReport + ": " + right},
		{"memory is written behind a free", fzpu + two + "overrun b 1; free c a; " +
			"validate c; validate c; ", func() lie {
			return lie{free: once(func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
				k.Debugger.Free(c, a)
				k.t.Memory().Flip(a+3, 4)
			})}
		}, fault.FalseReport + ": " + body},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, list := row.lie(), []seen(nil)
			res := runner.Run(compile(t, row.text), lying(subject(t, slub), &l, &list),
				oracle.Options{})
			if got := titles(res); len(got) == 0 || got[0] != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}

// TestGoesOn: a kernel that should stop and does not is found.
func TestGoesOn(t *testing.T) {
	l := &lie{free: func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
		c.Note(&debugcheck.Report{Cache: "c", Title: stray, Object: a, Kind: debugcheck.Fatal})
	}}
	var list []seen
	res := runner.Run(compile(t, fzpu+"p = pages 0; freeforeign c p; pagesfree p"),
		lying(subject(t, "slab-2001-threelists"), l, &list), oracle.Options{})
	if got := titles(res); len(got) != 1 || got[0] != fault.WrongReport+": "+stray {
		t.Errorf("found %q", got)
	}
}

// TestForgets: what was damaged of one slab says nothing about the next one on its pages,
// in the same run and in another.
func TestForgets(t *testing.T) {
	// The count is damaged and put right; from then on the structure of the slab is not
	// looked at.
	damaged := "cache c flags=sanity min_partial=0 objects=2 size=64; a = alloc c; " +
		"flip slab.inuse of a; flip slab.inuse of a; "
	v, list := subject(t, slub), []seen(nil)
	refuse := func(nth int) *lie {
		return &lie{free: func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
			if nth--; nth != 0 {
				k.Debugger.Free(c, a)
			}
		}}
	}
	for _, row := range []struct {
		text string
		nth  int
		want bool
	}{
		{damaged + "b = alloc c; free c b", 1, false},
		{damaged + "free c a; b = alloc c; d = alloc c; free c b", 2, true},
		{damaged + "free c a; b = alloc c; d = alloc c; free c b", 0, false},
		{damaged, 0, false},
		{"cache c flags=sanity min_partial=0 objects=2 size=64; " + two + "free c b", 1, true},
	} {
		res := runner.Run(compile(t, row.text), lying(v, refuse(row.nth), &list),
			oracle.Options{NoEnd: true})
		if got := titles(res); slices.Contains(got, fault.FreeLost) != row.want {
			t.Errorf("found %q of\n%s", got, row.text)
		}
	}
}

// TestStream: a program that is read while it runs makes the same reports, and what is
// left out of them is missed.
func TestStream(t *testing.T) {
	for _, f := range families {
		v := subject(t, f.name)
		for _, p := range f.programs {
			t.Run(f.name+"/"+p.name, func(t *testing.T) {
				var list []seen
				res, c := stream(t, lying(v, &lie{}, &list), p.text), compile(t, p.text)
				if got := titles(res); len(got) > 0 {
					t.Errorf("found %q", got)
				}
				if diff := cmp.Diff(p.want, said(c, list)); diff != "" {
					t.Errorf("reports (-want +got):\n%s", diff)
				}
				if len(p.want) == 0 || list[0].Kind == debugcheck.Fatal {
					return
				}
				var lied []seen
				res = stream(t, lying(v, &lie{reports: leaveOut}, &lied), p.text)
				missed := fault.MissedMisuse + ": " + fault.Title(list[0].Title)
				if got := titles(res); !slices.Contains(got, missed) && !again(list, 0) {
					t.Errorf("left out: found %q, want %q", got, missed)
				}
			})
		}
	}
}

func stream(t *testing.T, v *impls.Variant, text string) *oracle.Result {
	t.Helper()
	in, err := prog.NewReader("s.prog", bytes.NewReader(expand(text)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := runner.Stream(in, v, oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestNative: natively misuse is skipped and nothing is predicted; any report is a
// false one.
func TestNative(t *testing.T) {
	c := compile(t, fzpu+two+"overrun a 1; flip slab.inuse of a; free c a; "+
		"freeagain c a; validate c; ")
	native := oracle.Options{Native: true}
	var list []seen
	res := runner.Run(c, lying(subject(t, slub), &lie{}, &list), native)
	if got := titles(res); len(got) > 0 || len(list) > 0 || res.Counts.Skipped != 3 {
		t.Errorf("found %q, %d reports, %d skipped", got, len(list), res.Counts.Skipped)
	}
	l := &lie{free: once(func(k *lyingCache, c *machine.Ctx, a impls.Addr) {
		c.Note(&debugcheck.Report{Cache: "c", Title: right, Object: a})
		k.Debugger.Free(c, a)
	})}
	res = runner.Run(c, lying(subject(t, slub), l, &list), native)
	want := []fault.Title{fault.FalseReport + ": " + right}
	if diff := cmp.Diff(want, titles(res)); diff != "" {
		t.Errorf("with a report (-want +got):\n%s", diff)
	}
}
