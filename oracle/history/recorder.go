package history

import "allocfuzz/impls"

// A Recorder writes a history down while only one context runs at a time, as on the
// simulated machine: stamps are the order in which it is told.
type Recorder struct {
	History
	now int64
}

// Reset begins a new history.
func (r *Recorder) Reset() {
	r.History.Reset()
	r.now = 0
}

// Stamp is the next moment.
func (r *Recorder) Stamp() int64 {
	r.now++
	return r.now
}

// Began adds an operation that is called now, and returns its number.
func (r *Recorder) Began(o Op) int {
	o.Call, o.Return = r.Stamp(), Pending
	r.Ops = append(r.Ops, o)
	return len(r.Ops) - 1
}

// Kept notes that what operation n should give back stays with its holder.
func (r *Recorder) Kept(n int) { r.Ops[n].Old = Range{} }

// Ended notes that operation n returns now.
func (r *Recorder) Ended(n int, outcome impls.Outcome, got Range) {
	o := &r.Ops[n]
	o.Return, o.Outcome, o.New = r.Stamp(), outcome, got
}
