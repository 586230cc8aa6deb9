package slub

import (
	"allocfuzz/impls/machine"
)

// The fields of what belongs to one CPU. Where every path holds the CPU they are
// guarded by that (held…); where one does not, per-CPU words.
var (
	cpuFreelist  = machine.PerCPU("cpu_slab", "freelist")
	cpuPage      = machine.PerCPU("cpu_slab", "page")
	cpuTID       = machine.PerCPU("cpu_slab", "tid")
	cpuStore     = machine.PerCPU("cpu_slab", "partial")
	heldFreelist = machine.Guarded("cpu_slab", "freelist")
	heldPage     = machine.Guarded("cpu_slab", "page")
	heldPartial  = machine.Guarded("cpu_slab", "partial")
	cpuBase      = machine.Racy("cpu_slab", "base",
		"read beside the freelist word, which is read again to see whether the two belong together")
)

// A dualWord is a word that some designs guard and others leave open. Where every
// path holds the guard (an exclusion for a CPU's slab, the list lock for a
// count) no access is a point; where one does not the word is open, and each is.
type dualWord struct {
	guarded machine.GuardedWord
	open    machine.Word
	isOpen  bool
}

// guard makes w a guarded word.
func (w *dualWord) guard(f *machine.Field, g machine.Guard, v uint64) {
	w.guarded.Init(f, g, v)
}

// leaveOpen makes w an open word.
func (w *dualWord) leaveOpen(f *machine.Field, cpu int, v uint64) {
	w.open.Init(f, cpu, v)
	w.isOpen = true
}

// load reads w. Without a context it is a look at a quiet point.
func (w *dualWord) load(c *machine.Ctx) uint64 {
	switch {
	case c == nil && w.isOpen:
		return w.open.Peek()
	case c == nil:
		return w.guarded.Peek()
	case w.isOpen:
		return w.open.Load(c)
	}
	return w.guarded.Load(c)
}

// store writes w.
func (w *dualWord) store(c *machine.Ctx, v uint64) {
	if w.isOpen {
		w.open.Store(c, v)
		return
	}
	w.guarded.Store(c, v)
}

// add adds n, modulo 2^64.
func (w *dualWord) add(c *machine.Ctx, n uint64) {
	if w.isOpen {
		w.open.Add(c, n)
		return
	}
	w.guarded.Add(c, n)
}

// A cpuSlab is what a cache keeps for one CPU (struct kmem_cache_cpu). Only that
// CPU touches it: where another wants something of it, in a call or in a task that comes.
type cpuSlab struct {
	cpu   int
	guard machine.Guard     // the CPU is held, see exclusion
	lock  machine.LocalLock // of a localLock
	split split

	// freelist leads to the first free object; how it does is the fast path's
	// own. Invariant SLUB1: it holds free objects of page only.
	freelist dualWord
	// base is the upper part of the addresses on a list with sequence numbers.
	// Invariant SLUB3: it changes only together with the sequence number.
	base dualWord
	// pair is list and transaction id where they change together: the first free object,
	// and an id that is a CPU's number and a multiple of step above it.
	// Invariant SLUB11: see doc.go.
	pair *machine.DoubleWord
	step uint64
	// page is the CPU's slab, see ref. Invariant SLUB2: it is frozen and on no list.
	page dualWord
	// partial is the first slab of the CPU's store. Invariant SLUB9: its words say
	// what the list holds.
	partial dualWord
}

// none stands for no page where ref would stand.
const none = 0

// ref is what lists and CPUs write down for a page: its number above which 1 is
// added, so that 0 is none.
func ref(p *machine.Page) uint64 { return uint64(p.PFN()) + 1 }

// A split says how a sequence fast path divides a word: offset below, sequence
// number above.
type split struct {
	shift uint   // bits of the offset
	low   uint64 // mask of the offset
	ones  uint64 // the largest sequence number
}

func splitOf(m *machine.Machine) split {
	shift := uint(m.Word - m.SeqBits)
	return split{shift: shift, low: 1<<shift - 1, ones: 1<<uint(m.SeqBits) - 1}
}

// sequence is the sequence number of a word.
func (s *split) sequence(word uint64) uint64 { return word >> s.shift }

// next is word with its sequence number one higher and the offset of a.
func (s *split) next(word, a uint64) uint64 {
	return s.word(s.sequence(word)+1, a)
}

// word puts a sequence number and the offset of a together.
func (s *split) word(sequence, a uint64) uint64 {
	return sequence&s.ones<<s.shift | a&s.low
}

// sameBase says whether two addresses agree above the offset.
func (s *split) sameBase(a, b uint64) bool { return (a^b)>>s.shift == 0 }
