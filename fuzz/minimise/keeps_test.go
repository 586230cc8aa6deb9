package minimise_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/fuzz/minimise/padded"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// TestFlaky: a finding that shows in some runs only is no ground to cut anything.
func TestFlaky(t *testing.T) {
	p, v := committed(t, "slub-2008-seq-slowpath-end")
	sound := lookup(t, "slub-2008-seq")
	for _, tt := range []struct {
		every int // run that is wrong
		shown int
	}{{1, 8}, {3, 3}, {8, 1}, {0, 0}} {
		n, mixed := 0, *v
		mixed.New = func(m *machine.Machine) impls.Instance {
			if n++; tt.every > 0 && n%tt.every == 0 {
				return v.New(m)
			}
			return sound.New(m)
		}
		if tt.every == 3 {
			n = 1 // the second run is wrong, the fifth and the eighth
		}
		res, err := minimise.Program(t.Context(), p, minimise.Bug{Subject: &mixed},
			minimise.Options{})
		if tt.shown == 0 {
			if !errors.Is(err, minimise.ErrSilent) {
				t.Errorf("never: error %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if res.Flaky != (tt.every > 1) || res.Shown != tt.shown || res.Runs != 8 {
			t.Errorf("every %d: flaky %v, %d of %d", tt.every, res.Flaky, res.Shown, res.Runs)
		}
		if res.Flaky && (res.Program != p || res.Minimal) {
			t.Errorf("every %d: cut to\n%s", tt.every, res.Program)
		}
	}
}

// TestSame: the same program and bug give the same result, with the same number of tries.
func TestSame(t *testing.T) {
	p, v, identity := large(t, "slub-2008-cmpxchg-aba", padded.Size{Lines: 60, Departures: 5})
	first := ""
	for range 2 {
		res, err := minimise.Program(t.Context(), p,
			minimise.Bug{Subject: v, Identity: identity}, minimise.Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := res.Program.String() + res.Removed()
		if first != "" && text != first {
			t.Errorf("first\n%s\nand then\n%s", first, text)
		}
		first = text
	}
}

// TestEnded: when its time is over, the best so far is what there is, and it still shows the bug.
func TestEnded(t *testing.T) {
	p, v, identity := large(t, "slub-2021-partial-cmpxchg-counts",
		padded.Size{Lines: 60, Departures: 5})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := minimise.Program(ctx, p, minimise.Bug{Subject: v, Identity: identity},
		minimise.Options{Progress: func(g minimise.Progress) {
			if g.Pass == "caches" {
				cancel()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Minimal || res.After.Lines >= res.Before.Lines || res.After.Lines < 15 {
		t.Errorf("minimal %v, %s", res.Minimal, res.Removed())
	}
	if res.Report.Finding.Identity() != identity {
		t.Errorf("shows %s", res.Report.Finding.Identity())
	}
	res, err = minimise.Program(ctx, p, minimise.Bug{Subject: v}, minimise.Options{})
	if err == nil {
		t.Error("no error when there was no time at all")
	}
}

// TestKeeps: what a file says of itself stays, its names too when comments may speak of them; an
// expected title stays also where it is not the finding's own.
func TestKeeps(t *testing.T) {
	p, v := committed(t, "slub-2008-cmpxchg-aba")
	r := oracle.NewRunner()
	defer r.Close()
	res, err := minimise.Program(t.Context(), p, minimise.Bug{Subject: v}, minimise.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Program.Head != p.Head || len(res.Program.Doc) != len(p.Doc) || len(p.Doc) == 0 {
		t.Errorf("head or comments are lost:\n%s", res.Program)
	}
	if res.Program.String() != p.String() {
		t.Errorf("a minimal file is another one:\n%s", res.Program)
	}

	bare := strings.NewReplacer("cpu0 w", "cpu0 xylo", "alloc c\n", "alloc kiste\n",
		"cache c ", "cache kiste ", "free c ", "free kiste ",
		"object handed out twice", "live object on a freelist").Replace(text(p))
	p, err = prog.ParseString(bare)
	if err != nil {
		t.Fatal(err)
	}
	res, err = minimise.Program(t.Context(), p, minimise.Bug{Subject: v}, minimise.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `allocfuzz 1
cache c size=64

cpu0 a = alloc c
cpu0 b = alloc c
cpu0 d = alloc c
irq0 e = alloc c
irq0 f = alloc c
irq0 free c e

sched subject=slub-2008-cmpxchg => bug "live object on a freelist"
at alloc(b) cmpxchg cpu_slab.freelist 1: irq0
`
	if got := res.Program.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	if id := res.Report.Finding.Identity(); !strings.Contains(id, "handed out twice") {
		t.Errorf("identity %s", id)
	}
}

// text is a program without its head and comments.
func text(p *prog.Program) string {
	q := *p
	q.Doc, q.Head = nil, prog.Head{}
	return q.String()
}
