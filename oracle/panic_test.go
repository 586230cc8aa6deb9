package oracle_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// TestVital: a kernel that stops for want of a cache ends the run there, with the outcome
// of the create, and there is nothing wrong; natively as well.
func TestVital(t *testing.T) {
	const vital = "allocfuzz 1\ncpu0 c = create size=64\ncpu0 a = alloc c\n" +
		"cpu0 d = create align=8192 flags=panic size=64 => refused\ncpu0 free c a\n"
	r := oracle.NewRunner()
	defer r.Close()
	for _, name := range []string{"slab-2001-threelists", "slub-2021-partial-irqsave"} {
		for _, native := range []bool{false, true} {
			for _, tail := range []string{"", "irq0 b = malloc 8\n"} {
				if native && tail != "" {
					continue
				}
				res := r.Run(named(t, vital+tail), subject(t, name), oracle.Options{Native: native})
				n := len(res.Events)
				if len(res.Faults) > 0 || !res.Aborted || n < 3 {
					t.Fatalf("%s: %v, aborted %v, %d events", name, res.Faults, res.Aborted, n)
				}
				if ev := &res.Events[n-1]; ev.Code != impls.OpCreate || ev.Op != 2 ||
					ev.Outcome != impls.Refused || ev.Cache != 1 {
					t.Errorf("%s: the last event is %+v", name, ev)
				}
			}
		}
	}
}

// TestVitalStated: what is stated for the create that stops the kernel is compared.
func TestVitalStated(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	p := named(t, "allocfuzz 1\ncpu0 d = create align=8192 flags=panic size=64 => ok\n")
	v, err := r.Judge(p, subject(t, "slub-2008-irqsave"), oracle.Options{})
	if err != nil || v.Finding == nil || v.Finding.Title != fault.OutcomesDiffer {
		t.Errorf("%v, %v", v, err)
	}
}

// TestNotVital: a kernel that stops though nobody made the cache vital is found.
func TestNotVital(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	panics := toyBug{call: func(toy *toy, c *machine.Ctx) {
		if toy.calls == 2 {
			c.Note(&impls.Panic{Cache: "c", Err: impls.ErrInvalid, Line: 1})
			c.Halt()
		}
	}}
	for text, want := range map[string]int{
		"cpu0 a = malloc 8\ncpu0 c = create size=8\n":             1,
		"cpu0 a = malloc 8\ncpu0 b = malloc 8\n":                  1,
		"cpu0 a = malloc 8\ncpu0 c = create flags=panic size=8\n": 0,
	} {
		v := toySubject(panics)
		v.Caps |= impls.CapDebug
		res := r.Run(named(t, "allocfuzz 1\n"+text), v, oracle.Options{})
		if got := titles(res); len(got) != want || want > 0 && got[0] != fault.Aborted {
			t.Errorf("found %q of\n%s", got, text)
		}
	}
}
