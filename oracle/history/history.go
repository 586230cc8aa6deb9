package history

import (
	"fmt"
	"math"

	"allocfuzz/impls"
)

// Pending is the return stamp of an operation that never returned.
const Pending int64 = math.MaxInt64

// A Range is Size bytes at Addr. A range of no bytes overlaps nothing.
type Range struct {
	Addr impls.Addr `json:"addr"`
	Size uint64     `json:"size"`
}

// Overlaps says whether two ranges share a byte.
func (r Range) Overlaps(s Range) bool {
	return r.Size > 0 && s.Size > 0 && r.Addr-s.Addr < s.Size || s.Size > 0 && r.Size > 0 &&
		s.Addr-r.Addr < r.Size
}

// String is address and size.
func (r Range) String() string { return fmt.Sprintf("%#x, %d bytes", r.Addr, r.Size) }

// An Op is one operation. Stamps are places in the order of all calls and returns.
type Op struct {
	Client  int           // number of the thread or context
	Code    impls.Code    // of one object: bulk operations are there once for each
	Outcome impls.Outcome // OK, or else nothing was changed
	Line    int32         // number of the program's operation, -1 when there is none
	CPU     uint8
	Call    int64
	Return  int64 // Pending when it never returned
	Old     Range // what it gave back, of no bytes when it gave nothing back
	New     Range // what it got, of no bytes when it got nothing or nobody knows
}

// Pending says that the operation never returned.
func (o *Op) Pending() bool { return o.Return == Pending }

// gave says whether the operation gave memory back, or may have.
func (o *Op) gave() bool { return o.Old.Size > 0 && (o.Outcome == impls.OK || o.Pending()) }

// got says whether the operation got memory that is known.
func (o *Op) got() bool { return o.New.Size > 0 && o.Outcome == impls.OK && !o.Pending() }

// A History is operations in any order, and the names of those who made them.
type History struct {
	Clients []string
	Ops     []Op
}

// Reset empties the history and keeps its storage.
func (h *History) Reset() { h.Clients, h.Ops = h.Clients[:0], h.Ops[:0] }

// Client is the name of a client.
func (h *History) Client(n int) string {
	if n < len(h.Clients) {
		return h.Clients[n]
	}
	return fmt.Sprintf("client %d", n)
}

// Text is an operation for a person: who, what, when.
func (h *History) Text(i int) string {
	o := &h.Ops[i]
	s := fmt.Sprintf("%s of %s", o.Code, h.Client(o.Client))
	if o.Pending() {
		s += fmt.Sprintf(" [%d, never returned]", o.Call)
	} else {
		s += fmt.Sprintf(" [%d, %d]", o.Call, o.Return)
	}
	switch {
	case o.Outcome != impls.OK:
		s += " refused"
	case o.Old.Size > 0 && o.New.Size > 0:
		s += fmt.Sprintf(" (%v to %v)", o.Old, o.New)
	case o.New.Size > 0:
		s += fmt.Sprintf(" (%v)", o.New)
	case o.Old.Size > 0:
		s += fmt.Sprintf(" (%v)", o.Old)
	}
	return s
}

// Part is the history of some operations, by number, in the order given.
func (h *History) Part(ops []int) *History {
	p := &History{Clients: h.Clients}
	for _, i := range ops {
		p.Ops = append(p.Ops, h.Ops[i])
	}
	return p
}
