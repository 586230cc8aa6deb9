package history

import (
	"cmp"
	"fmt"
	"slices"

	"allocfuzz/impls/fault"
)

// A Violation is two operations of a history that no order explains.
type Violation struct {
	First, Second int    // numbers of the operations
	Why           string // how they clash
}

// Fault tells of a violation, at the place of the second operation.
func (v *Violation) Fault(h *History) fault.Fault {
	o := &h.Ops[v.Second]
	return fault.Fault{Title: fault.NotLinearizable,
		Detail: fmt.Sprintf("%s %s %s", h.Text(v.Second), v.Why, h.Text(v.First)),
		Where:  fault.Where{Line: int(o.Line), CPU: int(o.CPU), Task: h.Client(o.Client)}}
}

// How operations clash.
const (
	whyHeld   = "returned memory that is still held from the"
	whyForced = "returned before it could have followed the"
	whyCycle  = "must come both before and behind the"
)

// A Checker checks histories and keeps its storage between them. The zero Checker is ready.
type Checker struct {
	h      *History
	marks  []mark
	edges  []edge
	reals  bool // there are operations that both give back and get
	found  *Violation
	tree   tree
	points points
}

// A mark is a moment at which somebody begins or ceases to rely on a range.
type mark struct {
	at    Range
	when  int64
	op    int32
	begin bool
	end   int32 // of a begin: the operation that ended it, -1 for none
}

// An edge says that one operation comes before another.
type edge struct{ before, behind int32 }

// Check returns what is wrong in h, of several things the first in time; nil when h is
// linearizable. A free of what was not got before is a fault of whoever wrote the history
// down, and panics.
func (k *Checker) Check(h *History) *Violation {
	k.h, k.found, k.reals = h, nil, false
	k.marks, k.edges = k.marks[:0], k.edges[:0]
	for i := range h.Ops {
		o := &h.Ops[i]
		gave, got := o.gave(), o.got()
		if gave {
			k.marks = append(k.marks, mark{at: o.Old, when: o.Call, op: int32(i), end: -1})
		}
		if got {
			k.marks = append(k.marks, mark{at: o.New, when: o.Return, op: int32(i), begin: true,
				end: -1})
		}
		k.reals = k.reals || gave && got
	}
	sortMarks(k.marks)
	for from := 0; from < len(k.marks); {
		to, same := k.component(from)
		if same {
			k.alternate(k.marks[from:to])
		} else {
			k.overlapping(k.marks[from:to])
		}
		from = to
	}
	if k.reals && k.found == nil {
		k.order()
	}
	return k.found
}

// fewMarks are sorted faster by insertion.
const fewMarks = 24

// sortMarks sorts by byPlace.
func sortMarks(marks []mark) {
	if len(marks) > fewMarks {
		slices.SortFunc(marks, func(a, b mark) int { return byPlace(&a, &b) })
		return
	}
	for i := 1; i < len(marks); i++ {
		for j := i; j > 0 && byPlace(&marks[j], &marks[j-1]) < 0; j-- {
			marks[j], marks[j-1] = marks[j-1], marks[j]
		}
	}
}

// byPlace sorts marks by range, those of one range by time. Of two at one stamp the end
// comes first, since the operations are concurrent.
func byPlace(a, b *mark) int {
	switch {
	case a.at == b.at:
		return byTime(a, b)
	case a.at.Addr != b.at.Addr:
		return cmp.Compare(a.at.Addr, b.at.Addr)
	}
	return cmp.Compare(a.at.Size, b.at.Size)
}

func byTime(a, b *mark) int {
	switch {
	case a.when != b.when:
		return cmp.Compare(a.when, b.when)
	case a.begin == b.begin:
		return cmp.Compare(a.op, b.op)
	case b.begin:
		return -1
	}
	return 1
}

// component finds the end of the marks from one on that hang together by overlaps, and
// says whether all of them are of the same range.
func (k *Checker) component(from int) (to int, same bool) {
	first := k.marks[from].at
	last := first.Addr + (first.Size - 1)
	same = true
	for to = from + 1; to < len(k.marks) && k.marks[to].at.Addr <= last; to++ {
		at := k.marks[to].at
		same = same && at == first
		last = max(last, at.Addr+(at.Size-1))
	}
	return to, same
}

// clash notes what is wrong, unless something that happened before is.
func (k *Checker) clash(first, second int32, why string) {
	if k.found == nil || k.h.Ops[second].Return < k.h.Ops[k.found.Second].Return {
		k.found = &Violation{int(first), int(second), why}
	}
}

// follows notes that the life which begin starts comes behind that which end ended.
func (k *Checker) follows(end, begin int32) {
	if k.reals && end != begin {
		k.edges = append(k.edges, edge{end, begin})
	}
}

// alternate checks marks of one range, by time: begin and end take turns.
func (k *Checker) alternate(marks []mark) {
	held, ended := int32(-1), int32(-1)
	for i := range marks {
		m := &marks[i]
		switch {
		case !m.begin && held < 0:
			k.stranger(m)
		case !m.begin:
			held, ended = -1, m.op
		case held >= 0:
			k.clash(held, m.op, whyHeld)
			return
		default:
			if ended >= 0 {
				k.follows(ended, m.op)
			}
			held = m.op
		}
	}
}

// stranger is called for the end of what never began.
func (k *Checker) stranger(m *mark) {
	panic("allocfuzz: " + k.h.Text(int(m.op)) + " gives back what nobody got")
}

// overlapping checks marks of ranges that overlap in part.
func (k *Checker) overlapping(marks []mark) {
	k.tree.reset(marks)
	pair(marks, k.stranger)
	slices.SortFunc(marks, func(a, b mark) int { return byTime(&a, &b) })
	for i := range marks {
		m := &marks[i]
		if !m.begin {
			continue
		}
		for _, j := range k.tree.assign(m.at, int32(i)) {
			last := &marks[j]
			if last.end < 0 || k.h.Ops[last.end].Call > m.when {
				k.clash(last.op, m.op, whyHeld)
				return
			}
			k.follows(last.end, m.op)
		}
	}
}

// pair finds the end of each life among marks that are sorted by place. Where one range is
// held twice at a time it does not matter which of the two an end is taken to be of.
func pair(marks []mark, stranger func(*mark)) {
	open, held := -1, 0
	for i := range marks {
		m := &marks[i]
		if i == 0 || marks[i-1].at != m.at {
			open, held = -1, 0
		}
		switch {
		case m.begin:
			open = i
			held++
			continue
		case held == 0:
			stranger(m)
		case open >= 0:
			marks[open].end = m.op
		}
		open = -1
		held--
	}
}
