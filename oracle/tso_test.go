package oracle_test

import (
	"strings"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// twoFlags is a subject whose caches hand out one object after the other, by one CPU at a time:
// who comes raises its flag, and leaves again without an object when the other's is up. That is
// right if the flag is up before the other's is read: between the two a barrier is needed.
func twoFlags(barrier bool) *impls.Variant {
	v := toySubject(toyBug{})
	v.Caps = impls.CapObjects | impls.CapSMP
	v.New = func(m *machine.Machine) impls.Instance {
		t := &toy{m: m, mem: make([]byte, 1<<17), next: toyPage, sizes: map[impls.Addr]uint64{},
			free: map[uint64][]impls.Addr{}, bug: toyBug{hidden: true}}
		return &flagged{toy: t, barrier: barrier}
	}
	return v
}

type flagged struct {
	*toy
	barrier bool
}

var (
	flagWord = machine.Atomic("toy", "flag")
	nextWord = machine.Racy("toy", "next", "read with the flag up")
)

func (f *flagged) Objects() impls.Objects { return f }

func (f *flagged) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	made, err := f.toy.NewCache(c, spec)
	if err != nil {
		return nil, err
	}
	k := &flaggedCache{toyCache: made.(*toyCache), barrier: f.barrier}
	k.next.Init(nextWord, -1, f.toy.bump(toyPage, toyPage))
	k.flags[0].Init(flagWord, -1, 0)
	k.flags[1].Init(flagWord, -1, 0)
	return k, nil
}

type flaggedCache struct {
	*toyCache
	flags   [2]machine.Word // of CPU 0 and 1
	next    machine.Word    // address of the next object
	barrier bool
}

func (k *flaggedCache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	me := c.CPUID()
	k.flags[me].Store(c, 1)
	if k.barrier {
		c.Barrier()
	}
	if k.flags[1-me].Load(c) != 0 {
		k.flags[me].Store(c, 0)
		c.NoteRefusal()
		return 0
	}
	a := k.next.Load(c)
	k.next.Store(c, a+k.stride)
	k.flags[me].Store(c, 0)
	return k.t.zero(a, k.size, f)
}

// Free keeps nothing for later.
func (k *flaggedCache) Free(*machine.Ctx, impls.Addr) {}

const flagsProgram = `allocfuzz 1
machine cpus=2 tso=on
cache c size=64

cpu0 a = alloc c
cpu1 b = alloc c
`

// TestMissingBarrier: with store buffers one departure shows that a barrier is missing. The
// schedule is printed, parsed and replayed strictly, and shows the same with the same trace.
// With the barrier, and without store buffers, the same subject is silent.
func TestMissingBarrier(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	opt := oracle.Options{NoEnd: true}
	p := named(t, flagsProgram)
	for _, row := range []struct {
		name    string
		p       *oracle.Compiled
		barrier bool
	}{
		{"barrier", p, true},
		{"no store buffers", named(t, strings.Replace(flagsProgram, " tso=on", "", 1)), false},
	} {
		if x := r.Singles(row.p, twoFlags(row.barrier), opt); x.Found > 0 || x.Schedules < 5 {
			t.Errorf("%s: found %v in %d of %d schedules", row.name, x.Finding, x.Found,
				x.Schedules)
		}
	}
	v := twoFlags(false)
	x := r.Singles(p, v, opt)
	if x.Finding == nil || !x.Finding.Matches(string(fault.TwiceOut)) {
		t.Fatalf("found %+v in %d schedules", x.Finding, x.Schedules)
	}
	p.Prog.Scheds = append(p.Prog.Scheds, *x.Sched)
	text := p.Prog.String()
	if !strings.HasSuffix(text, "\nat alloc(a) store toy.flag 1: hold\n") {
		t.Errorf("the schedule is\n%s", text)
	}
	out, err := r.Judge(named(t, text), v, opt)
	if err != nil || !out.Known() || out.Hash != x.Hash {
		t.Errorf("replayed: %v, %+v, trace %x, want %x", err, out.Finding, out.Hash, x.Hash)
	}
}

// TestStoreBuffersInText: a schedule that holds and drains is replayed as it is written, and a
// drain of nothing is an error with its place.
func TestStoreBuffersInText(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := twoFlags(false)
	for _, row := range []struct{ name, sched, want string }{
		{"drained in time", "at alloc(a) store toy.flag 1: hold\n" +
			"at alloc(a) store toy.next 1: drain cpu0, cpu1\n", ""},
		{"drained too late", "at alloc(a) store toy.flag 1: hold\n" +
			"at alloc(a) store toy.next 1: cpu1, drain cpu0\n", string(fault.TwiceOut)},
		{"nothing to drain", "at alloc(a) store toy.next 1: drain cpu0\n",
			"t.prog:9:1: this point never occurs"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := named(t, flagsProgram+"\nsched subject=toy\n"+row.sched)
			out, err := r.Judge(p, v, oracle.Options{NoEnd: true})
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case out.Finding != nil:
				got = string(out.Finding.Title)
			}
			if !strings.HasPrefix(got, row.want) || row.want == "" && got != "" {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// buffered are committed programs of several CPUs.
var buffered = []string{"seeds/tid-read-from-elsewhere.prog", "seeds/deactivate-meets-free.prog",
	"seeds/colour-read-by-two-cpus.prog", "seeds/slabs-from-pools.prog", "seeds/remote-free.prog",
	"seeds/two-cpus-one-cache.prog"}

// holds counts the stores that could be held back.
type holds struct {
	sched.Survey
	n int
}

// Choose counts and goes on.
func (h *holds) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if c.Allowed(p, machine.Action{Kind: machine.Hold}) {
		h.n++
	}
	return h.Survey.Choose(c, p)
}

// TestSoundWithStoreBuffers: the sound subjects need no barrier that they do not have. Every
// single departure is tried, every store held back among them.
func TestSoundWithStoreBuffers(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	list := buffered
	if testing.Short() {
		list = list[:1]
	}
	count := &holds{}
	for _, name := range list {
		src := committed(t, name).Prog
		src.Machine.TSO = true
		p, err := oracle.Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		if p.Config.CPUs < 2 {
			t.Fatalf("%s has one CPU", name)
		}
		for _, v := range all.Variants() {
			if ok, _ := oracle.Applies(p, v); !ok || !v.Sound || v.New == nil {
				continue
			}
			r.Run(p, v, oracle.Options{Chooser: count})
			x := r.Singles(p, v, oracle.Options{})
			if x.Found > 0 {
				t.Errorf("%s on %s: %v in %d of %d schedules", name, v.Name, x.Finding.Title,
					x.Found, x.Schedules)
			}
		}
	}
	if t.Logf("%d stores held back", count.n); count.n < 10*len(list) {
		t.Error("too few stores could be held back to say anything")
	}
}
