package minimise

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// of finds a subject.
func of(t *testing.T, name string) *impls.Variant {
	t.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		t.Fatalf("no subject %s", name)
	}
	return v
}

// TestShifted: a line that is needed only because a departure is anchored to it goes, with another
// schedule in its place.
func TestShifted(t *testing.T) {
	p := parse(t, "allocfuzz 1\nmachine cpus=2\ncache c objects=2 size=64\n\ncpu0 a = alloc c\n"+
		"cpu0 q = pages 0\ncpu0 b = alloc c\ncpu1 free c a\ncheck\n\n"+
		"sched subject=slub-2008-seq-slowpath => bug \"free object lost\"\n"+
		"at pages(q) end - 1: cpu1\n")
	res, err := Program(t.Context(), p, Bug{Subject: of(t, "slub-2008-seq-slowpath")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res.After.Lines != 3 || res.After.Departures != 1 {
		t.Errorf("got\n%s", res.Program)
	}
}

// TestRounds: what one sort of cuts makes possible for another is done.
func TestRounds(t *testing.T) {
	probe := func(_ context.Context, p *prog.Program) (*oracle.Finding, error) {
		text := p.String()
		needs := strings.Contains(text, "\nat ") && !strings.Contains(text, "b = malloc")
		if needs {
			return nil, nil
		}
		return needing("allocfuzz 1", "a = malloc", "d = malloc")(t.Context(), p)
	}
	p := parse(t, "allocfuzz 1\nmachine cpus=2\ncpu0 b = malloc 1\ncpu1 d = malloc 1\n"+
		"cpu0 a = malloc 1\n\nsched subject=toy\nat malloc(a) end - 1: cpu1\n")
	res, err := Program(t.Context(), p, Bug{Subject: &impls.Variant{Name: "toy"}},
		Options{Probe: probe})
	if err != nil {
		t.Fatal(err)
	}
	if res.After != (Size{Lines: 2, Contexts: 1, Names: 2, Default: true}) {
		t.Errorf("got\n%s", res.Program)
	}
}

// TestExpected: an expected title that is not the finding's own stays among the others of the run.
func TestExpected(t *testing.T) {
	probe := func(_ context.Context, p *prog.Program) (*oracle.Finding, error) {
		f, err := needing("a = malloc")(t.Context(), p)
		if f != nil && strings.Contains(p.String(), "b = malloc") {
			f.Also = []fault.Title{fault.SlabLost}
		}
		return f, err
	}
	p := parse(t, "allocfuzz 1\ncpu0 a = malloc 1\ncpu0 b = malloc 1\ncpu0 d = malloc 1\n\n"+
		"sched subject=toy => bug \"slab lost\"\n")
	res, err := Program(t.Context(), p, Bug{Subject: &impls.Variant{Name: "toy"}},
		Options{Probe: probe})
	if err != nil {
		t.Fatal(err)
	}
	if res.After.Lines != 2 || res.Program.Scheds[0].Bug != "slab lost" {
		t.Errorf("got\n%s", res.Program)
	}
}

// TestRepaired: of a schedule that was made for another subject what does not apply falls away at
// once, so that the result replays strictly whenever it is ended.
func TestRepaired(t *testing.T) {
	p := parse(t, "allocfuzz 1\nmachine cpus=2\ncache c objects=2 size=64\n\ncpu0 a = alloc c\n"+
		"cpu0 b = alloc c\ncpu1 free c a\ncheck\n\nsched\nat alloc(a) load cpu_slab.freelist 77: "+
		"cpu1\nat alloc(a) end - 1: cpu1\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := Program(ctx, p, Bug{Subject: of(t, "slub-2008-seq-slowpath")},
		Options{Progress: func(Progress) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	if res.Minimal || res.After.Departures != 1 || res.Before.Departures != 2 {
		t.Errorf("minimal %v, %+v to %+v", res.Minimal, res.Before, res.After)
	}
}

// TestReferenceWrong: a reference that is wrong by itself is held against nobody.
func TestReferenceWrong(t *testing.T) {
	first, second := *of(t, "slab-2001-threelists"), of(t, "slab-2001-threelists-opt")
	half := of(t, "slab-2001-offslab-half")
	p := parse(t, "allocfuzz 1\nmachine pages=32\ncache c order=3 size=512\n\ncpu0 a = alloc c\n")
	for _, title := range []fault.Title{fault.PairDiffers, fault.OutcomesDiffer} {
		bug := Bug{Subject: second, Reference: &first,
			Identity: second.Name + ": " + string(title) + " in alloc"}
		first.New = half.New
		if res, err := Program(t.Context(), p, bug, Options{}); !errors.Is(err, ErrSilent) {
			t.Errorf("%s: %v, %v", title, res, err)
		}
	}
}

// TestLimit: a candidate that hangs in this process is left behind, and no ground to cut.
func TestLimit(t *testing.T) {
	v := *of(t, "slub-2008-seq-slowpath")
	made := v.New
	release := make(chan struct{})
	defer close(release)
	var runs atomic.Int32
	v.New = func(m *machine.Machine) impls.Instance {
		if runs.Add(1) == 12 { // behind those of the given program
			<-release
		}
		return made(m)
	}
	p := parse(t, "allocfuzz 1\nmachine cpus=2\ncache c objects=2 size=64\n\ncpu0 a = alloc c\n"+
		"cpu1 free c a\ncpu0 b = alloc c\ncheck\ncpu0 d = malloc 8\ncpu0 free d\n")
	res, err := Program(t.Context(), p, Bug{Subject: &v}, Options{Limit: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.Hung != 1 || res.Flaky || res.After.Lines > 4 {
		t.Errorf("%d hung, flaky %v, got\n%s", res.Hung, res.Flaky, res.Program)
	}
}
