package oracle_test

import (
	"fmt"
	"slices"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// TestOptions: what each option leaves out or adds.
func TestOptions(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\n"+twoObjects)
	leak := toySubject(toyBug{setUp: withPages(1, 1)})
	if got := titles(r.Run(p, leak, oracle.Options{})); !slices.Equal(got,
		[]fault.Title{fault.PagesLeaked}) {
		t.Errorf("with the end: %q", got)
	}
	if got := titles(r.Run(p, leak, oracle.Options{NoEnd: true})); len(got) > 0 {
		t.Errorf("without the end: %q", got)
	}
	v := toySubject(toyBug{})
	res := r.Run(p, v, oracle.Options{})
	looks, events := res.Counts.Checked[fault.Structure], len(res.Events)
	if looks != 5 || events != 3 || len(res.Trace) > 0 {
		t.Errorf("%d looks at the structure, %d events, %d points kept", looks, events,
			len(res.Trace))
	}
	res = r.Run(p, v, oracle.Options{Shallow: true, Discard: true, Trace: true})
	if n := res.Counts.Checked[fault.Structure]; n != 2 || len(res.Events) != 0 ||
		uint64(len(res.Trace)) != res.Steps {
		t.Errorf("shallow: %d looks, %d events, %d of %d points kept", n, len(res.Events),
			len(res.Trace), res.Steps)
	}
	extra := fault.Fault{Title: fault.OutcomesDiffer, Where: fault.Where{Line: 1, CPU: -1}}
	f := r.Run(p, v, oracle.Options{Extra: &extra}).Finding()
	if f == nil || f.Title != fault.OutcomesDiffer || f.Line != "cpu0 b = alloc c" {
		t.Errorf("an extra fault: %+v", f)
	}
	rep, err := r.Explain(p, v, nil, oracle.Options{Extra: &extra})
	if err != nil || rep.History[1].Model != string(fault.OutcomesDiffer) {
		t.Errorf("explained: %v, %+v", err, rep)
	}
}

// TestRunnerMachines: a runner that meets more machines than it keeps, and one that
// a subject left in the middle of an operation, gives the same results again.
func TestRunnerMachines(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-seq")
	p := make([]*oracle.Compiled, 60)
	hashes := make([]uint64, len(p))
	for i := range p {
		p[i] = compile(t, fmt.Sprintf("allocfuzz 1\nmachine pages=%d\n%s", 4+i, twoObjects))
	}
	broken := toySubject(dies(2))
	for round := range 2 {
		for i := range p {
			bad := r.Run(p[i], broken, oracle.Options{})
			if !bad.Aborted || len(bad.Faults) != 1 {
				t.Fatalf("the broken subject: aborted %v, %q", bad.Aborted, bad.Faults)
			}
			res := r.Run(p[i], v, oracle.Options{})
			if len(res.Faults) > 0 || round > 0 && res.Hash != hashes[i] {
				t.Errorf("round %d, program %d: %q, trace %016x, before %016x", round, i,
					res.Faults, res.Hash, hashes[i])
			}
			hashes[i] = res.Hash
		}
	}
}

// TestHarnessFault: a fault of this project is no finding.
func TestHarnessFault(t *testing.T) {
	p := compile(t, "allocfuzz 1\n"+twoMallocs)
	v := toySubject(toyBug{call: func(*toy, *machine.Ctx) { panic("allocfuzz: toy: a fault") }})
	for _, native := range []bool{false, true} {
		r := oracle.NewRunner()
		wantPanic(t, "toy: a fault", func() { r.Run(p, v, oracle.Options{Native: native}) })
		r.Close()
	}
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	two := compile(t, "allocfuzz 1\n"+twoMallocs+"irq0 d = malloc 8\n")
	wantPanic(t, "several contexts", func() { r.Run(two, v, oracle.Options{Native: true}) })
}

// TestApplies: programs that a subject cannot follow are left out with the reason.
func TestApplies(t *testing.T) {
	plain := toySubject(toyBug{})
	plain.Caps &^= impls.CapIRQ | impls.CapSMP
	plain.Machines = []machine.Preempt{machine.PreemptNone}
	for _, row := range []struct {
		text string
		want bool
	}{
		{"cpu0 a = malloc 8\n", true},
		{"machine preempt=full\ncpu0 a = malloc 8\n", false},
		{"cpu0 a = malloc 8\nirq0 b = malloc 8\n", false},
		{"irq0 b = malloc 8\n", false},
		{"machine cpus=2\ncpu0 a = malloc 8\ncpu1 b = malloc 8\n", false},
	} {
		ok, why := oracle.Applies(compile(t, "allocfuzz 1\n"+row.text), plain)
		if ok != row.want || ok == (why != "") {
			t.Errorf("%v %q of\n%s", ok, why, row.text)
		}
		if row.text == "machine preempt=full\ncpu0 a = malloc 8\n" {
			continue
		}
		if ok, why := oracle.Applies(compile(t, "allocfuzz 1\n"+row.text),
			toySubject(toyBug{})); !ok {
			t.Errorf("the able one: %q of\n%s", why, row.text)
		}
	}
}
