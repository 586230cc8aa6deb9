// Package linear asks porcupine, a checker of linearizability for any model, about histories
// of allocators: as a second opinion on what package history says, and for its picture. A
// search may take for ever, so it has a limit, and what it did not decide in time is
// Unknown: that is no word for fine.
//
// It is a package of its own so that what fuzz binaries instrument does not carry porcupine.
package linear

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"allocfuzz/impls"
	"allocfuzz/oracle/history"
)

// A Verdict is what became of a search.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // the time was over first
	Linearizable
	NotLinearizable
)

var verdicts = [...]string{"unknown", "linearizable", "not linearizable"}

// String is the verdict in words.
func (v Verdict) String() string { return verdicts[v] }

// Check searches for an order that explains h, for at most limit, which is above 0.
func Check(h *history.History, limit time.Duration) Verdict {
	demand(limit)
	return verdictOf(porcupine.CheckOperationsTimeout(model(h), operations(h), limit))
}

// Picture is Check, and writes what it found as a page that a browser shows: the operations
// of each client in time, and an order that explains them, or how far one gets.
func Picture(w io.Writer, h *history.History, limit time.Duration) (Verdict, error) {
	demand(limit)
	m := model(h)
	res, info := porcupine.CheckOperationsVerbose(m, operations(h), limit)
	return verdictOf(res), porcupine.Visualize(m, info, w)
}

func demand(limit time.Duration) {
	if limit <= 0 {
		panic("allocfuzz: a search without a limit of time")
	}
}

func verdictOf(r porcupine.CheckResult) Verdict {
	switch r {
	case porcupine.Ok:
		return Linearizable
	case porcupine.Illegal:
		return NotLinearizable
	}
	return Unknown
}

// operations is the history as porcupine takes it. An operation that never returned stays,
// with its return behind everything: there it may have happened, or as good as not.
func operations(h *history.History) []porcupine.Operation {
	out := make([]porcupine.Operation, len(h.Ops))
	for i := range h.Ops {
		o := &h.Ops[i]
		out[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return}
	}
	return out
}

// live is the state: the ranges that are live, by address. It is never changed, only copied.
type live []history.Range

// model is the simple allocator, for one part of a history at a time.
func model(h *history.History) porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			var out [][]porcupine.Operation
			for _, part := range h.Parts() {
				var list []porcupine.Operation
				for _, i := range part {
					list = append(list, ops[i])
				}
				if len(list) > 0 {
					out = append(out, list)
				}
			}
			return out
		},
		Init: func() any { return live(nil) },
		Step: func(state, input, _ any) (bool, any) {
			return state.(live).step(input.(*history.Op))
		},
		Equal: func(a, b any) bool { return slices.Equal(a.(live), b.(live)) },
		Hash:  func(state any) uint64 { return state.(live).hash() },
		DescribeOperation: func(input, _ any) string {
			return describe(input.(*history.Op))
		},
		DescribeState: func(state any) string { return state.(live).String() },
	}
}

// step is what the simple allocator does. A refusal, and what got nobody knows what, changes
// nothing.
func (s live) step(o *history.Op) (bool, any) {
	if o.Outcome != impls.OK && !o.Pending() {
		return true, s
	}
	if o.Old.Size > 0 {
		i := slices.Index(s, o.Old)
		if i < 0 {
			return false, s
		}
		s = slices.Delete(slices.Clone(s), i, i+1)
	}
	if o.New.Size == 0 || o.Pending() {
		return true, s
	}
	at := 0
	for i := range s {
		if s[i].Overlaps(o.New) {
			return false, s
		}
		if s[i].Addr < o.New.Addr {
			at = i + 1
		}
	}
	return true, slices.Insert(slices.Clone(s), at, o.New)
}

func (s live) hash() uint64 {
	h := uint64(14695981039346656037)
	for _, r := range s {
		h = (h ^ r.Addr) * 1099511628211
		h = (h ^ r.Size) * 1099511628211
	}
	return h
}

// String lists the live ranges.
func (s live) String() string {
	if len(s) == 0 {
		return "nothing is live"
	}
	var b strings.Builder
	b.WriteString("live:")
	for _, r := range s {
		fmt.Fprintf(&b, " %#x+%d", r.Addr, r.Size)
	}
	return b.String()
}

// describe is what an operation gave back and got.
func describe(o *history.Op) string {
	s := o.Code.String()
	if o.Old.Size > 0 {
		s += fmt.Sprintf(" %#x+%d", o.Old.Addr, o.Old.Size)
	}
	switch {
	case o.Pending():
		s += ", never returned"
	case o.Outcome != impls.OK:
		s += ", refused"
	case o.New.Size > 0:
		s += fmt.Sprintf(" → %#x+%d", o.New.Addr, o.New.Size)
	}
	return s
}

// operation is the JSON form of one.
type operation struct {
	Client  string         `json:"client"`
	Verb    string         `json:"verb"`
	Outcome string         `json:"outcome"`
	CPU     int            `json:"cpu"`
	Call    int64          `json:"call"`
	Return  *int64         `json:"return"` // null: it never returned
	Old     *history.Range `json:"gave,omitempty"`
	New     *history.Range `json:"got,omitempty"`
}

// WriteJSON writes a history as a list of operations in the order of their calls.
func WriteJSON(w io.Writer, h *history.History) error {
	list := make([]operation, 0, len(h.Ops))
	for i := range h.Ops {
		o := &h.Ops[i]
		out := operation{Client: h.Client(o.Client), Verb: o.Code.String(),
			Outcome: o.Outcome.String(), CPU: int(o.CPU), Call: o.Call}
		if o.Pending() {
			out.Outcome = "pending"
		} else {
			out.Return = &o.Return
		}
		if o.Old.Size > 0 {
			out.Old = &o.Old
		}
		if o.New.Size > 0 {
			out.New = &o.New
		}
		list = append(list, out)
	}
	slices.SortStableFunc(list, func(a, b operation) int { return int(a.Call - b.Call) })
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(list)
}
