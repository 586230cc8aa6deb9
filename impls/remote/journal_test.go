package remote

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

func newJournal() *Journal { return NewJournal(make([]byte, JournalSize)) }

// TestJournalAsSent: what a journal tells of a batch is what frames tell, of one that it holds
// many times over too, and so batch after batch.
func TestJournalAsSent(t *testing.T) {
	v := variant(t, "go-wasm2go-tlsf")
	sent, _ := start(t, v, Options{})
	kept, _ := start(t, v, Options{Journal: newJournal()})
	for _, n := range []int{0, 1, 300, 100_000, 7} {
		b := batch(n)
		want, err := sent.Play(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := kept.Play(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d operations: %.2000s", n, diff)
		}
	}
}

// TestJournalAfterDeath: a subject that dies in operation n leaves what came before, and n, also
// where the journal was sent in between.
func TestJournalAfterDeath(t *testing.T) {
	for _, n := range []int{1, 2, 299, 60_000} {
		v := *variant(t, "go-wasm2go-tlsf")
		inner := v.New
		v.New = func(m *machine.Machine) impls.Instance {
			return &mortal{Instance: inner(m), left: n}
		}
		b := &impls.Batch{Slots: 1}
		for range n + 5 {
			b.Ops = append(b.Ops, impls.Op{Code: impls.OpMalloc, Size: 8, Cache: -1, Slot: -1})
		}
		p, _ := start(t, &v, Options{Journal: newJournal()})
		got, err := p.Play(b)
		if err != nil {
			t.Fatal(err)
		}
		last := got.Events[len(got.Events)-1]
		if got.Death == "" || int(got.Last) != n-1 || len(got.Events) != n ||
			last.Outcome != impls.Died || int(last.Op) != n-1 {
			t.Errorf("death at %d: %q in %d, %d events, the last %+v", n, got.Death, got.Last,
				len(got.Events), last)
		}
	}
}
