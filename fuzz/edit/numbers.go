package edit

import "allocfuzz/corpus/prog"

// A Number is one of a program that is simpler when it is smaller.
type Number struct {
	Value uint64                  // more than 1
	Usual uint64                  // what people write where it does not matter
	With  func(value uint64) *Cut // the cut that makes it another
}

// usualSize is the size of an object in bytes, for a bug that does not care.
const usualSize = 64

// Numbers lists the counts of repeats, the numbers and options of lines and the sizes of caches of
// a program, those that are more than 1.
func Numbers(p *prog.Program) []Number {
	var out []Number
	add := func(value, usual uint64, with func(n uint64) *Cut) {
		if value > 1 {
			out = append(out, Number{value, usual, with})
		}
	}
	for i := range p.Caches {
		add(uint64(p.Caches[i].Spec.Size), usualSize, func(n uint64) *Cut {
			return &Cut{Whole: func(p *prog.Program) { p.Caches[i].Spec.Size = int(n) }}
		})
	}
	for _, l := range Lines(p) {
		add(uint64(l.Count), 1, func(n uint64) *Cut {
			return &Cut{Line: l, Change: func(l *prog.Line) { l.Count = int(n) }}
		})
		for i := range l.Nums {
			add(l.Nums[i], 1, func(n uint64) *Cut {
				return &Cut{Line: l, Change: func(l *prog.Line) { l.Nums[i] = n }}
			})
		}
		for i := range l.KV { // words have the number 0
			add(l.KV[i].Num, 1, func(n uint64) *Cut {
				return &Cut{Line: l, Change: func(l *prog.Line) { l.KV[i].Num = n }}
			})
		}
		if l.Spec != nil {
			add(uint64(l.Spec.Size), usualSize, func(n uint64) *Cut {
				return &Cut{Line: l, Change: func(l *prog.Line) { l.Spec.Size = int(n) }}
			})
		}
	}
	return out
}

// Smaller makes a number 1, a half of itself, and one less.
func (n Number) Smaller() []Cut {
	var out []Cut
	for _, v := range Smaller(n.Value) {
		out = append(out, *n.With(v))
	}
	return out
}

// Smaller lists numbers to try instead of n: 1, a half of it, one less.
func Smaller(n uint64) []uint64 {
	switch {
	case n <= 1:
		return nil
	case n == 2:
		return []uint64{1}
	case n <= 4:
		return []uint64{1, n - 1}
	}
	return []uint64{1, n / 2, n - 1}
}

// Machine goes towards the default machine, at once or by one parameter.
func Machine(p *prog.Program) []Cut {
	plain := prog.DefaultMachine()
	m := p.Machine.Resolve()
	if m == plain.Resolve() {
		return nil
	}
	var out []Cut
	set := func(is bool, do func(m *prog.Machine)) {
		if is {
			out = append(out, Cut{Whole: func(p *prog.Program) {
				do(&p.Machine)
				p.Machine = p.Machine.Resolve()
			}})
		}
	}
	set(true, func(m *prog.Machine) { *m = plain })
	for _, n := range Smaller(uint64(m.CPUs)) {
		set(true, func(m *prog.Machine) { m.CPUs = int(n) })
	}
	set(m.Preempt != plain.Preempt, func(m *prog.Machine) { m.Preempt = plain.Preempt })
	set(m.TSO, func(m *prog.Machine) { m.TSO = false })
	set(m.Merge, func(m *prog.Machine) { m.Merge = false })
	set(m.Debug != "", func(m *prog.Machine) { m.Debug = "" })
	set(m.Rules != plain.Rules, func(m *prog.Machine) { m.Rules = plain.Rules })
	set(m.Seq0 != 0, func(m *prog.Machine) { m.Seq0 = 0 })
	set(m.Pages != plain.Pages, func(m *prog.Machine) { m.Pages = plain.Pages })
	word := prog.Machine{Word: m.Word}.Resolve()
	set(m.SeqBits != word.SeqBits, func(m *prog.Machine) { m.SeqBits = 0 })
	set(m.PageSize != word.PageSize, func(m *prog.Machine) { m.PageSize = 0 })
	at := m
	at.Base = 0
	set(m.Base != at.Resolve().Base, func(m *prog.Machine) { m.Base = 0 })
	set(m.Word != plain.Word, func(m *prog.Machine) {
		m.Word, m.Base, m.SeqBits, m.PageSize = plain.Word, 0, 0, 0
	})
	return out
}
