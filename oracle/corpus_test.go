package oracle_test

import (
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// TestCorpus: every seed and regression on every subject that its machine allows.
// A sound subject shows nothing; an unsound one with a block of its own shows what
// the block expects. Each subject has programs and each of its checks is made.
func TestCorpus(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	programs := map[string]int{}
	counts := map[string]*oracle.Counts{}
	for f := range corpus.All() {
		if strings.HasPrefix(f.Name, "corpus/traces/") {
			continue
		}
		p := compiled(t, f)
		for _, v := range all.Variants() {
			out, err := r.Judge(p, v, oracle.Options{})
			if err != nil {
				t.Errorf("%s on %s: %v", f.Name, v.Name, err)
				continue
			}
			if out.Left != "" {
				continue
			}
			programs[v.Name]++
			if counts[v.Name] == nil {
				counts[v.Name] = &oracle.Counts{}
			}
			counts[v.Name].Add(&out.Counts)
			judged(t, f.Name, v, out)
		}
	}
	for _, v := range all.Variants() {
		c := counts[v.Name]
		if programs[v.Name] == 0 {
			t.Errorf("%s ran no program", v.Name)
			continue
		}
		for _, rule := range []fault.Rule{fault.Ownership, fault.Contents, fault.Structure,
			fault.History, fault.Step} {
			outside := v.Row == "" && (rule == fault.Structure || rule == fault.History)
			if c.Checked[rule] == 0 && !outside {
				t.Errorf("%s: no check of %s was made", v.Name, rule)
			}
		}
	}
}

func judged(t *testing.T, name string, v *impls.Variant, out *oracle.Verdict) {
	t.Helper()
	switch {
	case v.Sound && out.Finding != nil:
		t.Errorf("%s on %s: %s at %s", name, v.Name, out.Finding.Fault, out.Finding.Place)
	case out.Expected != "" && !out.Known():
		t.Errorf("%s on %s: expected %q, found %+v", name, v.Name, out.Expected, out.Finding)
	}
}

func compiled(t *testing.T, f corpus.File) *oracle.Compiled {
	t.Helper()
	p, err := f.Program()
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTraces: every recorded program on every sound subject, at least 95 of 100
// operations supported (90 where there is no realloc), nothing found.
func TestTraces(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for f := range corpus.Traces() {
		p := compiled(t, f)
		for _, v := range all.Variants() {
			if !v.Sound || !v.Caps.Has(impls.CapSizes) {
				continue // traces are of allocations by size
			}
			out, err := r.Judge(p, v, oracle.Options{})
			if err != nil || out.Left != "" {
				t.Errorf("%s on %s: %v, left out %q", f.Name, v.Name, err, out.Left)
				continue
			}
			judged(t, f.Name, v, out)
			c := &out.Counts
			part := 20
			if !v.Caps.Has(impls.CapRealloc) {
				part = 10
			}
			if c.Operations < 1000 || c.Operations != p.Operations() ||
				part*c.Unsupported > c.Operations {
				t.Errorf("%s on %s: %d of %d operations, %d not supported", f.Name, v.Name,
					c.Operations,
					p.Operations(), c.Unsupported)
			}
			if done := len(out.Events); done != c.Operations {
				t.Errorf("%s on %s: %d events", f.Name, v.Name, done)
			}
		}
	}
}

// TestCorpusTwice: every seed and regression gives the same trace when it is run
// again, on every subject.
func TestCorpusTwice(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	made := 0
	for f := range corpus.All() {
		if strings.HasPrefix(f.Name, "corpus/traces/") {
			continue
		}
		p := compiled(t, f)
		for _, v := range all.Variants() {
			if ok, _ := oracle.Applies(p, v); !ok {
				continue
			}
			res := r.Run(p, v, oracle.Options{Twice: true})
			made += res.Counts.Checked[fault.Difference]
			for i := range res.Faults {
				if res.Faults[i].Title == fault.NonDeterministic {
					t.Errorf("%s on %s: %s", f.Name, v.Name, res.Faults[i])
				}
			}
		}
	}
	if made < 100 {
		t.Errorf("%d runs were made twice", made)
	}
}
