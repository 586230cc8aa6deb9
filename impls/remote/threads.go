package remote

import (
	"runtime"
	"sync"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// A gang is the threads of one batch. Everything but the calls of the allocator is done under
// one lock, so that slots and journal have one order: a free is written down before its call,
// an allocation behind it, and what overlaps in the journal did so in the allocator.
type gang struct {
	s       *server
	b       *impls.Batch
	mu      sync.Mutex
	moved   sync.Cond // an operation ended, or a thread did
	alive   int       // threads that have not ended
	waiting int       // of those, how many wait for a slot since anything moved
	seq     uint64
	err     error
	fault   any // what a thread panicked with
}

// threads carries the batch out on threads of the operating system. They do not end with it but
// are used again.
func (s *server) threads(b *impls.Batch) error {
	g := &gang{s: s, b: b, alive: b.Threads}
	g.moved.L = &g.mu
	lists := make([][]int, b.Threads)
	for i := range b.Ops {
		n := b.Ops[i].Thread
		lists[n] = append(lists[n], i)
	}
	var done sync.WaitGroup
	for n, list := range lists {
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			g.thread(n, list)
		}()
	}
	done.Wait()
	if g.fault != nil {
		panic(g.fault)
	}
	return g.err
}

// thread carries out the operations of one thread.
func (g *gang) thread(n int, list []int) {
	c := g.s.m.NativeCtx(n, "cpu")
	defer c.Release()
	defer func() {
		p := recover()
		g.mu.Lock()
		if p != nil && g.fault == nil {
			g.fault = p
		}
		g.alive--
		g.goOn()
		g.mu.Unlock()
	}()
	for _, i := range list {
		g.one(c, n, i)
	}
}

// one carries out operation i, once what it is about was bound: when every thread waits for
// something that is not, the one that notices skips its operation.
func (g *gang) one(c *machine.Ctx, thread, i int) {
	op := &g.b.Ops[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	ready := g.s.exec.Ready(op)
	for ; !ready && g.waiting+1 < g.alive; ready = g.s.exec.Ready(op) {
		g.waiting++
		g.moved.Wait()
	}
	defer g.goOn()
	ev := impls.Event{Op: int32(i), Ctx: uint8(thread)}
	if op.Code.Bulk() {
		g.many(c, op, &ev, ready)
		return
	}
	var step play.Step
	if !ready {
		g.s.exec.Skip(c, op, &ev)
		g.add(&ev)
		return
	}
	if !g.s.exec.Begin(c, op, &ev, &step) {
		g.add(&ev)
		return
	}
	if play.Frees(op.Code) {
		g.add(&ev)
	}
	ev.Began = g.seq
	g.call(thread, i, func() { g.s.exec.Call(c, &step) })
	g.s.exec.End(c, &step)
	if !play.Frees(op.Code) {
		g.add(&ev)
	}
}

// many is one for a bulk operation.
func (g *gang) many(c *machine.Ctx, op *impls.Op, ev *impls.Event, ready bool) {
	var bulk play.BulkStep
	frees := op.Code == impls.OpFreeBulk
	more := false
	if ready {
		more = g.s.exec.BeginBulk(c, op, ev, &bulk)
	} else {
		g.s.exec.SkipBulk(c, op, ev, &bulk)
	}
	if frees || !more {
		g.all(bulk.Events)
	}
	if !more {
		return
	}
	g.call(int(ev.Ctx), int(ev.Op), func() { g.s.exec.CallBulk(c, &bulk) })
	g.s.exec.EndBulk(c, &bulk)
	if !frees {
		g.all(bulk.Events)
	}
}

// goOn wakes who waits: each looks again.
func (g *gang) goOn() {
	g.waiting = 0
	g.moved.Broadcast()
}

func (g *gang) all(events []impls.Event) {
	for i := range events {
		g.add(&events[i])
	}
}

// call makes the call of an operation, in which the others go on.
func (g *gang) call(thread, i int, operation func()) {
	if j := g.s.journal; j != nil {
		j.begin(uint8(thread), int32(i))
		defer j.begin(uint8(thread), -1)
	}
	g.mu.Unlock()
	defer g.mu.Lock()
	operation()
}

func (g *gang) add(ev *impls.Event) {
	g.seq++
	ev.Seq = g.seq
	g.s.add(ev)
}
