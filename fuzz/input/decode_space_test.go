package input

import (
	"fmt"
	"math/bits"
	"testing"

	"allocfuzz/corpus/prog"
)

// note adds what a program holds to what was seen.
func note(seen map[string]bool, p *prog.Program) {
	noteMachine(seen, &p.Machine)
	seen[fmt.Sprintf("caches %d", len(p.Caches))] = true
	for i := range p.Caches {
		s := &p.Caches[i].Spec
		seen[fmt.Sprintf("objects %d", s.Objects)] = true
		seen["flags"] = seen["flags"] || len(s.Flags) > 0
	}
	bound := map[string]bool{}
	p.Walk(func(l *prog.Line, path []int) {
		noteLine(seen, l, len(path))
		for _, s := range l.Slots {
			seen["waits"] = seen["waits"] || !bound[s]
		}
		for _, s := range l.Results {
			bound[s] = true
		}
	})
	for i := range p.Scheds {
		for _, d := range p.Scheds[i].Departures {
			seen["kind "+d.Kind.String()] = true
			seen["field "+d.Field] = true
			seen["iteration"] = seen["iteration"] || d.Where.Iter != nil
			seen["delivery"] = seen["delivery"] || d.Where.Delivery > 1
			for _, a := range d.Actions {
				seen["action "+a.Kind.String()] = true
			}
		}
	}
}

func noteMachine(seen map[string]bool, m *prog.Machine) {
	seen[fmt.Sprintf("cpus %d", m.CPUs)] = true
	seen[fmt.Sprintf("word %d", m.Word)] = true
	seen[fmt.Sprintf("pages %d", m.Pages)] = true
	seen[fmt.Sprintf("seqbits %d", m.SeqBits)] = true
	seen["preempt "+m.Preempt.String()] = true
	seen["tso"] = seen["tso"] || m.TSO
	seen["debug "+m.Debug], seen["rules "+m.Rules.String()] = true, true
	if m.Seq0 == 1<<m.SeqBits-1 {
		seen["seq0 all-ones"] = true
	}
	def := prog.Machine{Word: m.Word, PageSize: m.PageSize}.Resolve().Base
	end := m.Base + uint64(m.Pages*m.PageSize)
	switch {
	case m.Base < def && end > def:
		seen["straddle"] = true
	case m.Base == uint64(m.PageSize) && end <= def:
		seen["low base"] = true
	case m.Word == 64 && end == 0:
		seen["top"] = true
	}
}

func noteLine(seen map[string]bool, l *prog.Line, depth int) {
	seen["verb "+l.Verb.String()] = true
	switch {
	case l.Ctx.Kind == prog.TaskCtx:
		seen["ctx task"] = true
	case l.Ctx.Kind == prog.IRQCtx && l.Ctx.Name != "":
		seen["ctx named"] = true
	case l.Ctx.Kind == prog.IRQCtx:
		seen["ctx irq"] = true
	}
	switch l.Verb {
	case prog.Repeat:
		seen[fmt.Sprintf("repeat %d", l.Count)] = true
		seen["repeat nested"] = seen["repeat nested"] || depth > 1
	case prog.Create:
		seen["created flags"] = seen["created flags"] || len(l.Spec.Flags) > 0
	case prog.Malloc:
		seen[fmt.Sprintf("malloc %d", l.Nums[0])] = true
	case prog.Calloc:
		hi, _ := bits.Mul64(l.Nums[0], l.Nums[1])
		seen["calloc overflow"] = seen["calloc overflow"] || hi > 0
	}
	seen["fail"] = seen["fail"] || l.Num("fail", 0) > 0
	seen["zero"] = seen["zero"] || l.HasFlag("zero")
	seen["atomic"] = seen["atomic"] || l.HasFlag("atomic")
}

// TestFields demands names that a schedule may hold, none twice, and fixes the first places: the
// table may only grow at its end.
func TestFields(t *testing.T) {
	head := []string{"-", "cpu_slab.freelist", "cpu_slab.base", "cpu_slab.page", "slab.freelist"}
	p := parse(t, "allocfuzz 1\ncache c size=64\ncpu0 a = alloc c\n")
	seen := map[string]bool{}
	for i, f := range Fields() {
		if i < len(head) && f != head[i] {
			t.Errorf("field %d is %s, want %s: bytes would change their meaning", i, f, head[i])
		}
		if seen[f] {
			t.Errorf("field %s is there twice", f)
		}
		seen[f] = true
		p.Scheds = []prog.Sched{{Departures: []prog.Departure{{
			Where: prog.Where{Line: &p.Lines[0]}, Field: f, N: 1,
			Actions: []prog.Action{{Kind: prog.Fail}},
		}}}}
		if err := prog.Validate(p); err != nil {
			t.Errorf("field %s: %v", f, err)
		}
		if !HasField(f) {
			t.Errorf("HasField(%q) = false", f)
		}
	}
	if HasField("no.such") {
		t.Error("HasField of a name that is not in the table")
	}
}
