package minimise_test

import (
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// keeping is a subject that refuses to tune a cache once it gave back two objects: the model leaves
// it to each subject which bounds it takes, so that only another one shows it.
type keeping struct {
	impls.Instance
	of impls.Objects
}

func (k keeping) Objects() impls.Objects { return k }
func (k keeping) NewCache(c *machine.Ctx, s impls.CacheSpec) (impls.Cache, error) {
	made, err := k.of.NewCache(c, s)
	if err != nil {
		return nil, err
	}
	return &kept{Cache: made}, nil
}

type kept struct {
	impls.Cache
	freed int
}

func (k *kept) Free(c *machine.Ctx, a impls.Addr) {
	k.freed++
	k.Cache.Free(c, a)
}

func (k *kept) Tune(c *machine.Ctx, limit, batch int) error {
	if k.freed >= 2 {
		return impls.ErrInvalid
	}
	return k.Cache.(impls.Tuner).Tune(c, limit, batch)
}

func lookup(t *testing.T, name string) *impls.Variant {
	t.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	return v
}

// TestTwo: what shows of two subjects only, by their outcomes or as a pair, stays so, and a replay
// of both finds it in what is left.
func TestTwo(t *testing.T) {
	arrays, oldest := lookup(t, "slab-percpu"), lookup(t, "slab-percpu-oldest")
	stiff := *oldest
	stiff.New = func(m *machine.Machine) impls.Instance {
		in := oldest.New(m)
		return keeping{in, in.Objects()}
	}
	stiff.Caps &= impls.CapObjects | impls.CapSizes | impls.CapTune
	lists, second := lookup(t, "slab-2001-threelists"), lookup(t, "slab-2001-threelists-opt")
	one := lookup(t, "slab-2001-onelist")
	unlike := *second
	unlike.New, unlike.Caps = one.New, one.Caps
	for _, tt := range []struct {
		first, v   *impls.Variant
		title      fault.Title
		text, want string
	}{
		{arrays, &stiff, fault.OutcomesDiffer, `allocfuzz 1
machine cpus=2
cache c size=32
cpu0 q = malloc 10
cpu0 k = create objects=4 size=100
cpu0 a = alloc k
cpu0 x = alloc c
cpu0 tune k batch=1 limit=2
cpu0 free k a
cpu0 b = alloc k
cpu0 free c x
cpu0 free k b
cpu0 tune k batch=1 limit=2
cpu0 free q
`, `allocfuzz 1

cpu0 c = create size=64
cpu0 a = alloc c
cpu0 free c a
cpu0 b = alloc c
cpu0 free c b
cpu0 tune c batch=1 limit=1
`},
		{lists, &unlike, fault.PairDiffers, `allocfuzz 1
machine cpus=2
cache c objects=2 size=32
cache k size=100
cpu0 q = malloc 10
cpu0 a = alloc c
cpu0 b = alloc c
cpu0 d = alloc c
cpu0 f = alloc k
cpu0 free c d
cpu0 free c a
cpu0 free c b
cpu1 free k f
irq0 e = alloc c
cpu0 free q

sched
at free(b) end - 1: irq0
at free(a) end - 1: cpu1
`, ""},
	} {
		p, err := prog.ParseString(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		r := engine.NewReplayer(oracle.Options{})
		defer r.Close()
		identity := found(t, r, p, tt.first, tt.v, tt.title)
		res, err := minimise.Program(t.Context(), p,
			minimise.Bug{Subject: tt.v, Reference: tt.first, Identity: identity},
			minimise.Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.title, err)
			continue
		}
		got := res.Program.String()
		if !res.Minimal || tt.want != "" && got != tt.want {
			t.Errorf("minimal %v, got\n%s", res.Minimal, got)
		}
		if again := found(t, r, res.Program, tt.first, tt.v, tt.title); again != identity {
			t.Errorf("%q, want %q, of\n%s", again, identity, got)
		}
		if res.After.Lines > 7 || strings.Contains(got, "cache k") {
			t.Errorf("not small:\n%s", got)
		}
		needed(t, r, res.Program, tt.first, tt.v, identity)
	}
}

// found replays a program on two subjects and gives what the second showed.
func found(t *testing.T, r *engine.Replayer, p *prog.Program, first, second *impls.Variant,
	title fault.Title) string {
	t.Helper()
	list, err := r.Program(t.Context(), p, []*impls.Variant{first, second})
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	f := list[1].Verdict.Finding
	if f == nil || f.Title != title || list[1].Against != first {
		t.Fatalf("found %+v, want %s, of\n%s", list[1].Findings, title, p)
	}
	return f.Identity()
}

// needed drops each line of a program's text.
func needed(t *testing.T, r *engine.Replayer, p *prog.Program, first, second *impls.Variant,
	identity string) {
	t.Helper()
	lines := strings.SplitAfter(p.String(), "\n")
	for i, l := range lines {
		word, _, _ := strings.Cut(strings.TrimSpace(l), " ")
		if word == "allocfuzz" || word == "machine" || word == "sched" || word == "" {
			continue
		}
		text := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		q, _, err := prog.ParseRepair("less.prog", strings.NewReader(text))
		if err != nil {
			continue
		}
		list, err := r.Program(t.Context(), q, []*impls.Variant{first, second})
		if err == nil && list[1].Verdict.Finding != nil &&
			list[1].Verdict.Finding.Identity() == identity {
			t.Errorf("needless: %s in\n%s", strings.TrimSpace(l), p)
		}
	}
}
