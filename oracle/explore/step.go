package explore

import "allocfuzz/impls/machine"

// A step is what one process does from one point to the next, as far as the order of steps
// matters.
type step struct {
	proc   int
	places uint64 // CPUs whose steps it is ordered with, a bit each
	acc    []machine.Access
	moved  bool // a migration
	sync   bool // comes behind everything before it: a barrier, a wait that was given up
}

// clone is a copy that lasts longer than the run.
func (s *step) clone() *step {
	c := *s
	c.acc = append([]machine.Access(nil), s.acc...)
	return &c
}

// dependent says whether the order of two steps of different processes matters.
func (a *step) dependent(b *step) bool {
	if a.places&b.places != 0 || a.sync || b.sync {
		return true
	}
	for i := range a.acc {
		x := &a.acc[i]
		for j := range b.acc {
			y := &b.acc[j]
			if x.Object == y.Object && (x.Kind != machine.Reads || y.Kind != machine.Reads) {
				return true
			}
		}
	}
	return false
}

// first finds process p's first step in v, -1 when it has none.
func first(v []*step, p int) int {
	for i, s := range v {
		if s.proc == p {
			return i
		}
	}
	return -1
}

// begins says whether v could begin with the next step of a process, s: by itself when it is
// not in v and nothing in v depends on it, or with that step moved to the front. at is its
// place in v, -1 when it has none.
func begins(s *step, v []*step) (at int, ok bool) {
	at = first(v, s.proc)
	if at < 0 {
		for _, w := range v {
			if s.dependent(w) {
				return -1, false
			}
		}
		return -1, true
	}
	for _, w := range v[:at] {
		if v[at].dependent(w) {
			return at, false
		}
	}
	return at, true
}

// A branch is a node of a wakeup tree: a step to be taken, and what comes behind it.
type branch struct {
	step *step
	kids []*branch
}

// insert adds a sequence to the tree whose branches are in kids, unless one is there already
// that begins so that the sequence can follow.
func insert(kids *[]*branch, v []*step) {
next:
	for len(v) > 0 {
		for _, b := range *kids {
			at, ok := begins(b.step, v)
			if !ok {
				continue
			}
			if at >= 0 {
				v = append(append([]*step(nil), v[:at]...), v[at+1:]...)
			}
			if len(b.kids) == 0 {
				return
			}
			kids = &b.kids
			continue next
		}
		for _, s := range v {
			b := &branch{step: s.clone()}
			*kids = append(*kids, b)
			kids = &b.kids
		}
		return
	}
}
