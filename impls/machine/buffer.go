package machine

// This file is total store order: on a machine with Config.TSO each CPU has a buffer that its
// plain stores can be held in, first in, first out. The CPU itself reads them there, newest
// first; for all others they happen when they are drained.
//
// What a store does when nobody chooses is what it does without buffers: it goes to memory at
// once. The departure is Hold, which keeps one store back. The stores of the CPU behind it
// queue up, without a choice of their own, until the buffer is empty again. Each weak outcome
// thus costs a schedule one departure for the store that is late, and one more (Drain) where
// it must arrive neither at once nor at the end.

// StoresMax is the size of a store buffer. With one more store the oldest is drained.
const StoresMax = 8

// storeBuffer is what an operation waits for that has ended and whose stores have not been
// seen by others yet.
var storeBuffer = Atomic("cpu", "store_buffer")

// A heldStore is one store in a buffer: to a word, or to memory when at is nil.
type heldStore struct {
	at    *uint64
	off   int // of the word of memory
	v     uint64
	f     *Field
	news  []news // for the data race check
	joint bool   // seen together with the one behind it: the halves of a double word
}

// put does the store in memory.
func (e *heldStore) put(m *Machine) {
	for _, n := range e.news {
		m.sim.races.clocks[n.at] = n.k
	}
	if e.at != nil {
		*e.at = e.v
	} else {
		m.put(e.off, e.v)
	}
}

// plainPoint is a point of a plain store, which may be held back there.
func (c *Ctx) plainPoint(k Kind, f *Field) {
	c.plain = c.m.TSO // for decide, which takes it before anything else can happen
	c.point(k, f)
	c.plain = false
}

// write carries a plain store out, in front of which plainPoint was.
func (c *Ctx) write(f *Field, at *uint64, v uint64) {
	if c.m.TSO {
		c.enter(heldStore{at: at, v: v, f: f})
		return
	}
	*at = v
}

// writeMem is write of a word of memory.
func (c *Ctx) writeMem(f *Field, off int, v uint64) {
	if c.m.TSO {
		c.enter(heldStore{off: off, v: v, f: f})
		return
	}
	c.m.put(off, v)
}

// enter puts stores that are seen together into the buffer when the point in front of them
// said so or others are in it, else into memory.
func (c *Ctx) enter(list ...heldStore) {
	cpu, hold := c.cpu, c.hold
	c.hold = false
	if !hold && len(cpu.stores) == 0 {
		for i := range list {
			list[i].put(c.m)
		}
		return
	}
	list[len(list)-1].news, c.news = c.news, nil
	for len(cpu.stores)+len(list) > StoresMax {
		c.sim.drain(cpu)
	}
	c.sim.note(uint64(len(cpu.stores)) | 1<<32)
	cpu.stores = append(cpu.stores, list...)
}

// withheld says whether the store that c is about to make is held back.
func (c *Ctx) withheld() bool { return c.m.TSO && (c.hold || len(c.cpu.stores) > 0) }

// heldClock is what the newest store in the CPU's buffer to an address tells; nil without one.
func (cpu *CPU) heldClock(at any) *clock {
	for i := len(cpu.stores) - 1; i >= 0; i-- {
		for _, n := range cpu.stores[i].news {
			if n.at == at {
				return n.k
			}
		}
	}
	return nil
}

// seen is what c reads in a word that holds v in memory: its CPU's newest store to it.
func (c *Ctx) seen(at *uint64, v uint64) uint64 {
	if c.m.TSO {
		return c.cpu.newest(at, -1, v)
	}
	return v
}

// seenMem is seen of the word of memory at an offset.
func (c *Ctx) seenMem(off int) uint64 {
	if c.m.TSO {
		return c.cpu.newest(nil, off, c.m.get(off))
	}
	return c.m.get(off)
}

func (cpu *CPU) newest(at *uint64, off int, v uint64) uint64 {
	for i := len(cpu.stores) - 1; i >= 0; i-- {
		if e := &cpu.stores[i]; e.at == at && (at != nil || e.off == off) {
			return e.v
		}
	}
	return v
}

// fence drains the buffer of c's CPU: what is behind it comes after all stores before it.
func (c *Ctx) fence() {
	if c.m.TSO {
		c.sim.drainAll(c.cpu)
	}
}

// through makes way for a guarded store, which goes to memory at once: a store of this CPU to
// the same word that is still in the buffer comes first, and what is older than that.
func (c *Ctx) through(at *uint64) {
	if c.m.TSO {
		c.sim.drainTo(c.cpu, func(e *heldStore) bool { return e.at == at })
	}
}

// throughMem is through for the word of memory at an offset.
func (c *Ctx) throughMem(off int) {
	if c.m.TSO {
		c.sim.drainTo(c.cpu, func(e *heldStore) bool { return e.at == nil && e.off == off })
	}
}

// drain takes the oldest store out of a buffer into memory.
func (s *Sim) drain(cpu *CPU) {
	n := 1
	for cpu.stores[n-1].joint {
		n++
	}
	for i := range cpu.stores[:n] {
		e := &cpu.stores[i]
		s.note(e.f.hash ^ uint64(cpu.ID))
		s.note(e.v)
		e.put(s.m)
	}
	cpu.stores = append(cpu.stores[:0], cpu.stores[n:]...)
}

func (s *Sim) drainAll(cpu *CPU) {
	for len(cpu.stores) > 0 {
		s.drain(cpu)
	}
}

// drainTo drains a buffer up to the last store that is one of those meant.
func (s *Sim) drainTo(cpu *CPU, meant func(*heldStore) bool) {
	for i := len(cpu.stores) - 1; i >= 0; i-- {
		if meant(&cpu.stores[i]) {
			for left := len(cpu.stores) - 1 - i; len(cpu.stores) > left; {
				s.drain(cpu)
			}
			return
		}
	}
}

// uncover drains what buffers hold for n bytes of memory, which somebody is about to touch as
// bytes. That a store arrives early is always possible.
func (m *Machine) uncover(off, n int) {
	for _, cpu := range m.cpus {
		m.sim.drainTo(cpu, func(e *heldStore) bool {
			return e.at == nil && e.off < off+n && off < e.off+m.WordBytes()
		})
	}
}

// drainFirst drains a buffer when nothing can run otherwise, and says whether there was one.
func (s *Sim) drainFirst() bool {
	for _, cpu := range s.m.cpus {
		if len(cpu.stores) > 0 {
			s.drainAll(cpu)
			return true
		}
	}
	return false
}

// drained waits until the buffer of a CPU is empty.
type drained struct{ cpu *CPU }

// Ready says whether it is.
func (w drained) Ready(*Ctx) bool { return len(w.cpu.stores) == 0 }

// Publish ends what c does for one operation: whoever learns of its result finds every store
// of it done. Stores that are held back are late, so others run first, as long as they can do
// so without it, and then the buffer is drained.
func (c *Ctx) Publish() {
	if c.sim == nil || len(c.cpu.stores) == 0 {
		return
	}
	if c.mayWait() {
		c.block(drained{c.cpu}, storeBuffer)
	}
	c.fence()
}

// publishing says whether the task of a CPU has ended an operation and waits for its stores.
func (cpu *CPU) publishing() bool {
	if len(cpu.stores) == 0 || cpu.cur == nil {
		return false
	}
	_, waits := cpu.cur.wait.on.(drained)
	return waits
}

// mayWait says whether others may run before c goes on, without their being kept from it.
func (c *Ctx) mayWait() bool { return !c.cpu.irqsOff && len(c.held) == 0 }
