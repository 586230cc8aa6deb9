package history

// points is the storage of order.
type points struct {
	when  []int64
	waits []int32 // predecessors that have no moment yet
	first []int32 // by operation: where its edges begin
	ready []int32
	from  []int32 // in a cycle: a predecessor
}

// sized is a list of n zero elements in the storage of list.
func sized[T any](list []T, n int) []T {
	if cap(list) < n {
		list = make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// order gives every operation the earliest moment that its call and its predecessors
// allow, and finds the first that has none before its return.
func (k *Checker) order() {
	p, n := &k.points, len(k.h.Ops)
	p.when, p.waits, p.from = sized(p.when, n), sized(p.waits, n), sized(p.from, n)
	p.first = sized(p.first, n+1)
	for i := range k.h.Ops {
		p.when[i] = k.h.Ops[i].Call
	}
	k.sortEdges()
	p.ready = p.ready[:0]
	for i := range p.waits {
		if p.waits[i] == 0 {
			p.ready = append(p.ready, int32(i))
		}
	}
	for i := 0; i < len(p.ready); i++ {
		if k.pass(p.ready[i]); k.found != nil {
			return
		}
	}
	if len(p.ready) < n {
		k.cycle()
	}
}

// sortEdges puts the edges in the order of the operation that comes before, and counts
// those that lead to each.
func (k *Checker) sortEdges() {
	p := &k.points
	for _, e := range k.edges {
		p.first[e.before+1]++
		p.waits[e.behind]++
	}
	for i := 1; i < len(p.first); i++ {
		p.first[i] += p.first[i-1]
	}
	sorted := make([]edge, len(k.edges))
	next := append([]int32(nil), p.first...)
	for _, e := range k.edges {
		sorted[next[e.before]] = e
		next[e.before]++
	}
	k.edges = sorted
}

// pass hands the moment of an operation on to those behind it.
func (k *Checker) pass(op int32) {
	p := &k.points
	for _, e := range k.edges[p.first[op]:p.first[op+1]] {
		p.when[e.behind] = max(p.when[e.behind], p.when[op])
		if p.when[e.behind] > k.h.Ops[e.behind].Return {
			k.clash(op, e.behind, whyForced)
			return
		}
		if p.waits[e.behind]--; p.waits[e.behind] == 0 {
			p.ready = append(p.ready, e.behind)
		}
	}
}

// cycle names two operations of which each must come before the other: every one that still
// waits has a predecessor that does, so that walking back ends in a circle.
func (k *Checker) cycle() {
	p := &k.points
	at := int32(0)
	for _, e := range k.edges {
		if p.waits[e.before] > 0 && p.waits[e.behind] > 0 {
			p.from[e.behind], at = e.before, e.behind
		}
	}
	for range k.h.Ops {
		at = p.from[at]
	}
	k.clash(p.from[at], at, whyCycle)
}
