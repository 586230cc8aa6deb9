package explore_test

import (
	"fmt"
	"slices"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// This file holds the programs that explorers are measured by in the literature, with the number
// of traces that each has where that is known.

// threads is a toy in which each task has a CPU of its own.
func threads(name string, want int, bodies ...func(*th)) *toy {
	t := &toy{name: name, cpus: len(bodies), want: want}
	for i, body := range bodies {
		t.tasks = append(t.tasks, process{cpu: i, lines: []func(*th){body}})
	}
	return t
}

// each is n tasks, by number.
func each(n int, body func(h *th, i int)) (bodies []func(*th)) {
	for i := range n {
		bodies = append(bodies, func(h *th) { body(h, i) })
	}
	return bodies
}

// multinomial is the number of orders of n tasks with k steps each.
func multinomial(n, k int) int {
	out := 1
	for i := range n {
		for j := range k {
			out = out * (i*k + j + 1) / (j + 1)
		}
	}
	return out
}

// grid is n tasks that store k times to one word.
func grid(n, k int) *toy {
	return threads(fmt.Sprintf("grid %dx%d", n, k), multinomial(n, k), each(n, func(h *th, i int) {
		for j := range k {
			h.store(0, uint64(i*k+j+1))
		}
	})...)
}

// independent is the same with a word for each.
func independent(n, k int) *toy {
	return threads(fmt.Sprintf("independent %dx%d", n, k), 1, each(n, func(h *th, i int) {
		for j := range k {
			h.store(i, uint64(j+1))
		}
	})...)
}

// readers is a writer and n readers of one word: each is before it or behind.
func readers(n int) *toy {
	return threads(fmt.Sprintf("readers %d", n), 1<<n, each(n+1, func(h *th, i int) {
		if i == 0 {
			h.store(0, 1)
			return
		}
		h.keep(h.load(0))
	})...)
}

// lastzero looks for the last zero of an array of which n tasks fill in one element each, one
// above the element before.
func lastzero(n int) *toy {
	return threads(fmt.Sprintf("lastzero %d", n), (n+3)<<n/4, each(n+1, func(h *th, i int) {
		if i > 0 {
			h.store(i, h.load(i-1)+1)
			return
		}
		at := n
		for h.load(at) != 0 {
			at--
		}
		h.keep(uint64(at))
	})...)
}

// indexer is n tasks that put four messages each into a hash table of 128 places.
func indexer(n, want int) *toy {
	return threads(fmt.Sprintf("indexer %d", n), want, each(n, func(h *th, i int) {
		for m := 1; m <= 4; m++ {
			w := m*11 + i
			at := w * 7 % 128
			for !h.cas(at, 0, uint64(w)) {
				at = (at + 1) % 128
			}
		}
	})...)
}

// filesystem is n tasks that give an inode of their own a block, of 26.
func filesystem(n, want int) *toy {
	const blocks, inodes = 26, 32
	return threads(fmt.Sprintf("filesystem %d", n), want, each(n, func(h *th, i int) {
		h.lock(i)
		if h.load(i) == 0 {
			b := i * 2 % blocks
			for ; ; b = (b + 1) % blocks {
				h.lock(inodes + b)
				if h.load(inodes+b) == 0 {
					break
				}
				h.unlock(inodes + b)
			}
			h.store(inodes+b, 1)
			h.store(i, uint64(b+1))
			h.unlock(inodes + b)
		}
		h.unlock(i)
	})...)
}

// locks is n tasks that hold one lock k times each, and do nothing with it.
func locks(n, k int) *toy {
	return threads(fmt.Sprintf("locks %dx%d", n, k), multinomial(n, k), each(n,
		func(h *th, i int) {
			for range k {
				h.lock(0)
				h.unlock(0)
			}
		})...)
}

// findable marks a toy whose property fails in some schedule.
func findable(t *toy, bad func(t *toy) bool) *toy {
	t.found, t.bad = true, bad
	return t
}

// keptBy is value n that a task kept, false when it kept less.
func (t *toy) keptBy(task, n int) (uint64, bool) {
	if k := t.ths[task].kept; n < len(k) {
		return k[n], true
	}
	return 0, false
}

// said says whether a task kept v.
func (t *toy) said(task int, v uint64) bool { return slices.Contains(t.ths[task].kept, v) }

// reorder is k tasks that set a and then b, and one that sees one of the two only.
func reorder(k int) *toy {
	const a, b = 0, 1
	t := threads(fmt.Sprintf("reorder %d", k), 0, each(k+1, func(h *th, i int) {
		if i < k {
			h.store(a, 1)
			h.store(b, 1)
			return
		}
		h.keep(h.load(a))
		h.keep(h.load(b))
	})...)
	return findable(t, func(t *toy) bool {
		va, _ := t.keptBy(k, 0)
		vb, _ := t.keptBy(k, 1)
		return va != vb
	})
}

// twostage is a pair of words under a lock each, written one after the other.
func twostage() *toy {
	const d1, d2 = 0, 1
	t := threads("twostage", 0, func(h *th) {
		h.lock(0)
		h.store(d1, 1)
		h.unlock(0)
		h.lock(1)
		h.store(d2, h.load(d1)+1)
		h.unlock(1)
	}, func(h *th) {
		h.lock(0)
		v := h.load(d1)
		h.unlock(0)
		if v == 0 {
			return
		}
		h.lock(1)
		h.keep(v)
		h.keep(h.load(d2))
		h.unlock(1)
	})
	return findable(t, func(t *toy) bool {
		v, ok := t.keptBy(1, 0)
		w, _ := t.keptBy(1, 1)
		return ok && w != v+1
	})
}

// wronglock is n tasks that count under one lock, and one that holds another.
func wronglock(n int) *toy {
	t := threads(fmt.Sprintf("wronglock %d", n), 0, each(n+1, func(h *th, i int) {
		l := min(n-i, 1) // the last one takes lock 0
		h.lock(l)
		h.store(0, h.load(0)+1)
		h.unlock(l)
	})...)
	return findable(t, func(t *toy) bool { return t.x[0].Peek() != uint64(n+1) })
}

// account is a check that takes it that money was never drawn when it looks.
func account() *toy {
	const balance, put, drawn = 0, 1, 2
	change := func(n uint64, flag int) func(*th) {
		return func(h *th) {
			h.lock(0)
			h.store(balance, h.load(balance)+n)
			h.store(flag, 1)
			h.unlock(0)
		}
	}
	t := threads("account", 0, change(5, put), change(^uint64(1), drawn), func(h *th) {
		h.lock(0)
		if h.load(put) == 1 && h.load(drawn) == 1 {
			h.keep(h.load(balance))
		}
		h.unlock(0)
	})
	t.first = []uint64{10}
	return findable(t, func(t *toy) bool {
		v, ok := t.keptBy(2, 0)
		return ok && v != 15
	})
}

// lazy is a check that its two neighbours have not both been there yet.
func lazy() *toy {
	add := func(n uint64) func(*th) {
		return func(h *th) {
			h.lock(0)
			h.store(0, h.load(0)+n)
			h.unlock(0)
		}
	}
	t := threads("lazy", 6, add(1), add(2), func(h *th) {
		h.lock(0)
		h.keep(h.load(0))
		h.unlock(0)
	})
	return findable(t, func(t *toy) bool { return t.said(2, 3) })
}

// stack is a pusher, and a popper that looks only once whether something is there.
func stack() *toy {
	const top, flag = 0, 1
	t := threads("stack", 0, func(h *th) {
		for range 2 {
			h.lock(0)
			h.store(top, h.load(top)+1)
			h.store(flag, 1)
			h.unlock(0)
		}
	}, func(h *th) {
		for range 2 {
			h.lock(0)
			if h.load(flag) == 1 {
				n := h.load(top)
				h.keep(n)
				if n > 0 {
					h.store(top, n-1)
				}
			}
			h.unlock(0)
		}
	})
	return findable(t, func(t *toy) bool { return t.said(1, 0) })
}

// queue is one that puts in and one that takes out, which does not see that the place where it
// reads is only claimed.
func queue() *toy {
	const head, tail, slots = 0, 1, 2
	t := threads("queue", 0, func(h *th) {
		for i := range 2 {
			n := h.load(tail)
			h.store(tail, n+1)
			h.store(slots+int(n), uint64(i+7))
		}
	}, func(h *th) {
		for range 2 {
			n := h.load(head)
			if n == h.load(tail) {
				continue
			}
			h.keep(h.load(slots + int(n)))
			h.store(head, n+1)
		}
	})
	return findable(t, func(t *toy) bool { return t.said(1, 0) })
}

// tokenRing passes a value round, each place under the lock, and checks that it went round.
func tokenRing() *toy {
	pass := func(to, from int, n uint64) func(*th) {
		return func(h *th) {
			h.lock(0)
			h.store(to, h.load(from)+n)
			h.unlock(0)
		}
	}
	t := threads("token ring", 24, pass(0, 2, 1), pass(1, 0, 0), pass(2, 1, 0), func(h *th) {
		h.lock(0)
		a, b, c := h.load(0), h.load(1), h.load(2)
		h.keep(min(a^b|b^c, 1))
		h.unlock(0)
	})
	return findable(t, func(t *toy) bool { return t.said(3, 1) })
}

// philosophers is n tasks that take the lock on their left and then the one on their right.
func philosophers(n int) *toy {
	t := threads(fmt.Sprintf("deadlock %d", n), 0, each(n, func(h *th, i int) {
		h.lock(i)
		h.lock((i + 1) % n)
		h.unlock((i + 1) % n)
		h.unlock(i)
	})...)
	t.found, t.only = true, fault.Deadlock
	return t
}

// carter is SCTBench's two locks in two orders, one of the orders only when the other task has
// been there.
func carter() *toy {
	const a = 0
	t := threads("carter", 0, func(h *th) {
		h.lock(0)
		h.store(a, h.load(a)+1)
		if h.load(a) == 1 {
			h.lock(1)
			h.unlock(1)
		}
		h.unlock(0)
	}, func(h *th) {
		h.lock(1)
		if h.load(a) == 0 {
			h.lock(0)
			h.unlock(0)
		}
		h.unlock(1)
	})
	t.found, t.only = true, fault.Deadlock
	return t
}

// A listForm is a way to take from, and put back to, the CPU's list of free objects.
type listForm struct {
	name string
	swap func(h *th, change func(head uint64) uint64)
	seen bool // the bug is there to be found
}

// Object i has its link in word i; the head is its number, with a sequence number above it.
var listForms = []listForm{
	{"irqsave", func(h *th, change func(uint64) uint64) {
		flags := h.IRQSave()
		w := &h.t.pc[h.CPUID()].A
		w.Store(h.Ctx, change(w.Load(h.Ctx)))
		h.IRQRestore(flags)
	}, false},
	{"cmpxchg", func(h *th, change func(uint64) uint64) {
		w := &h.t.pc[h.CPUID()].A
		for {
			old := w.Load(h.Ctx)
			if w.CmpxchgLocal(h.Ctx, old, change(old)) {
				return
			}
		}
	}, true},
	{"seq", func(h *th, change func(uint64) uint64) {
		w := &h.t.pc[h.CPUID()].A
		for {
			old := w.Load(h.Ctx)
			if w.CmpxchgLocal(h.Ctx, old, change(old&0xff)|(old&^0xff+0x100)) {
				return
			}
		}
	}, false},
}

// alloc takes an object and keeps its number; free gives it back and keeps that.
func (f *listForm) alloc(h *th) (obj uint64) {
	f.swap(h, func(head uint64) uint64 {
		if obj = head; obj == 0 {
			return 0
		}
		return h.load(int(obj))
	})
	h.keep(obj)
	return obj
}

func (f *listForm) free(h *th, obj uint64) {
	h.keep(obj | 1<<32)
	f.swap(h, func(head uint64) uint64 {
		h.store(int(obj), head)
		return obj
	})
}

// twice says whether an object was handed out that somebody has.
func twice(t *toy) bool {
	var held [2 * objectMax]int
	for i := range t.ths {
		for _, v := range t.ths[i].kept {
			if v>>32 == 1 {
				held[v&0xff]--
			} else if v>>32 == 0 {
				held[v]++
			}
		}
	}
	return slices.Max(held[1:]) > 1
}

// aba is a list on each of one or two CPUs, and on one or both of them a handler that takes two
// objects and puts one back. The second CPU looks at the head of the first, and with a handler
// of its own uses its list, too.
func aba(f listForm, cpus, handlers int) *toy {
	t := &toy{name: fmt.Sprintf("aba %d cpu %d irq %s", cpus, handlers, f.name), cpus: cpus}
	t.first = []uint64{0, 2, 3, 0, 5, 6, 0}
	t.heads = [][]uint64{{1}, {4}}
	t.tasks = []process{{cpu: 0, lines: []func(*th){func(h *th) {
		f.alloc(h)
		f.alloc(h)
	}}}}
	t.handlers = []process{{cpu: 0, lines: []func(*th){func(h *th) {
		x := f.alloc(h)
		f.alloc(h)
		f.free(h, x)
	}}}}
	if cpus > 1 {
		t.tasks = append(t.tasks, f.other(handlers > 1))
	}
	if handlers > 1 {
		t.handlers = append(t.handlers, f.interrupts())
	}
	if f.seen {
		return findable(t, twice)
	}
	t.bad = twice
	return t
}

// other is the task of the second CPU, and interrupts the handler.
func (f *listForm) other(busy bool) process {
	return process{cpu: 1, lines: []func(*th){func(h *th) {
		h.keep(h.t.pc[0].A.Load(h.Ctx) | 2<<32)
		if busy {
			f.alloc(h)
		}
	}}}
}

func (f *listForm) interrupts() process {
	return process{cpu: 1, lines: []func(*th){func(h *th) { f.alloc(h) }}}
}

// half is what the second CPU of aba does, with nothing beside it: its traces, times those with
// a second CPU that only looks, are those of the whole.
func half(f listForm) *toy {
	t := &toy{name: "half of aba " + f.name, cpus: 2, first: []uint64{0, 2, 3, 0, 5, 6, 0},
		heads: [][]uint64{{1}, {4}}}
	t.tasks = []process{{cpu: 0, lines: []func(*th){func(*th) {}}}, f.other(true)}
	t.handlers = []process{f.interrupts()}
	return t
}

// nested is n handlers of one CPU that each may come in the middle of the others.
func nested(n int, p machine.Preempt) *toy {
	t := &toy{name: fmt.Sprintf("nested %d %s", n, p), cpus: 1, preempt: p}
	t.tasks = []process{{cpu: 0, lines: []func(*th){func(h *th) {
		h.store(0, h.load(0)+1)
	}}}}
	for range n {
		t.handlers = append(t.handlers, process{cpu: 0, lines: []func(*th){func(h *th) {
			h.store(0, h.load(0)+1)
		}}})
	}
	return findable(t, func(t *toy) bool { return t.x[0].Peek() != uint64(n+1) })
}

// small are the programs that brute force can do.
func small() []*toy {
	ts := []*toy{grid(2, 2), grid(2, 4), grid(3, 2), grid(2, 8), independent(2, 8),
		independent(3, 3), readers(2), readers(4), lastzero(2), lastzero(3),
		locks(2, 2), locks(2, 3), locks(3, 2), reorder(1), reorder(2), twostage(), wronglock(1),
		wronglock(2), account(), lazy(), stack(), queue(), tokenRing(), philosophers(2),
		philosophers(3), carter(), indexer(2, 1), filesystem(2, 1),
		nested(1, machine.PreemptNone), nested(2, machine.PreemptNone),
		nested(2, machine.PreemptFull)}
	for _, f := range listForms {
		ts = append(ts, aba(f, 1, 1), aba(f, 2, 1), half(f))
	}
	return ts
}

// large are those with a known number of traces and too many runs for it.
func large() []*toy {
	return []*toy{grid(3, 4), independent(8, 8), readers(8), readers(13), lastzero(5),
		lastzero(10), indexer(12, 8), indexer(15, 4096), filesystem(14, 2),
		filesystem(16, 8)}
}
