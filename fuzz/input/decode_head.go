package input

import (
	fuzzheaders "github.com/AdaLogics/go-fuzz-headers"

	"allocfuzz/corpus/prog"
)

// This file reads the head: the machine, the tasks and the caches that exist from the start.

// The places of the head's bytes; the caches follow, cacheBytes each.
const (
	headCPUs = iota
	headPages
	headWord
	headPageSize
	headSeqBits
	headSeq0
	headPreempt
	headKind
	headBase
	headBasePages
	headTasks
	headTaskCPU // of each task
	headCaches  = headTaskCPU + tasksMax
	headCache   = headCaches + 1
	cacheBytes  = 8
	headFlags   = 6                                  // of each cache: its debug flags
	headEdits   = headCache + declaredMax*cacheBytes // two bytes each, to the end of the head
)

// Bits of headKind, all of which must be set: the rarer of two machines has more of them.
const (
	kindMerge = 0x06 // a machine that merges caches
	kindTSO   = 0x19 // a machine with store buffers
)

// head reads the head; bytes that are not there are 0. It is the one part of an input that
// go-fuzz-headers reads, by the getter that a writer can invert.
func (d *Decoder) head(data []byte) {
	c := fuzzheaders.NewConsumer(data)
	next := func() byte {
		b, err := c.GetByte()
		if err != nil {
			return 0
		}
		return b
	}
	d.p.Machine.CPUs = pick(cpusTable, next())
	d.p.Machine.Pages = pick(pagesTable, next())
	d.p.Machine.Word = pick(wordTable, next())
	d.p.Machine.PageSize = pick(pageSizeTable, next())
	d.p.Machine.SeqBits = pick(seqBitsTable, next())
	seq0 := next()
	preempt := next() // two bits, and the rules of the debug checks
	d.p.Machine.Preempt = prog.Preempt(pick(preemptTable, preempt))
	kind := next()
	d.p.Machine.TSO = kind&kindTSO == kindTSO && d.opt.StoreBuffers
	d.p.Machine.Merge = kind&kindMerge == kindMerge
	mode, pages := pick(baseTable, next()), next() // four bits, and the debug options
	d.boot(pick(debugTable, pages>>4), pick(rulesTable, preempt>>2))
	if d.opt.Sequential {
		d.p.Machine.CPUs = 1
	}
	d.crowd(&d.p.Machine)
	fitMachine(&d.p.Machine)
	d.p.Machine.Seq0 = firstSeq(seq0, d.p.Machine.SeqBits)
	setBase(&d.p.Machine, mode, int(pages&15))

	d.headTasks(pick(tasksTable, next()), next)
	n := pick(declaredTable, next())
	for i := range n {
		d.headCache(i, next)
	}
	d.p.Caches = d.spec[:n:n]
	d.caches.known = 1<<n - 1
	for i := range n {
		d.caches.show(i)
	}
}

// boot sets the debug options that the bits of mask name, for all caches, and the rules.
func (d *Decoder) boot(mask, rules int) {
	if !d.opt.Debug {
		return
	}
	d.p.Machine.Debug = debugStrings[mask%len(debugStrings)]
	d.p.Machine.Rules = prog.Rules(rules % (int(prog.Rules26) + 1))
}

func (d *Decoder) headTasks(n int, next func() byte) {
	for i := range tasksMax {
		d.tasks[i] = prog.Task{Name: taskNames[i], CPU: int(next()) % d.p.Machine.CPUs}
	}
	switch {
	case d.opt.Sequential:
		n = 0
	case d.opt.SMP:
		n = max(n, 1)
	}
	d.p.Tasks = d.tasks[:n:n]
}

func (d *Decoder) headCache(i int, next func() byte) {
	size, ext := next(), next()
	s := prog.NewCacheSpec(objectSize(size, ext, d.p.Machine.PageSize))
	s.Objects = pick(objectsTable, next())
	s.MinPartial = pick(minTable, next())
	s.CPUPartial = pick(keptTable, next())
	placing(&s, next())
	d.flags(&s, uint64(pick(flagsTable, next())))
	d.caches.checks(i, s.Flags)
	array := next()
	s.Limit, s.Batch = pick(limitTable, array&7), pick(batchTable, array>>3)
	d.thin(&s)
	d.spec[i] = prog.Cache{Name: cacheNames[i], Spec: s}
}

// crowd leaves a machine with SMP few pages for several CPUs. What is so already stays as it
// is, and so does what follows.
func (d *Decoder) crowd(m *prog.Machine) {
	if d.opt.SMP {
		m.CPUs, m.Pages = min(max(m.CPUs, 2), 3), min(max(m.Pages, 2), 6)
	}
}

// thin leaves a cache with SMP so few objects that every list runs full and empty.
func (d *Decoder) thin(s *prog.CacheSpec) {
	if !d.opt.SMP {
		return
	}
	if s.Objects == 0 || s.Objects > 3 {
		s.Objects = 2 + s.Objects&1
	}
	if s.MinPartial == prog.NotGiven || s.MinPartial > 1 {
		s.MinPartial = 0
	}
	if s.CPUPartial == prog.NotGiven || s.CPUPartial > 2 {
		s.CPUPartial = 1
	}
	if s.Limit == prog.NotGiven || s.Limit > 2 {
		s.Limit = 2
	}
	if s.Batch == prog.NotGiven || s.Batch > 2 {
		s.Batch = 1
	}
}

// placing sets what two bits, three bits and three bits say about a cache's slabs.
func placing(s *prog.CacheSpec, b byte) {
	s.Order, s.Align, s.Ctor = pick(orderTable, b&3), pick(alignTable, b>>2&7), b>>5 == 7
}

// flags sets the words that the bits of mask name: without debugging only the one that has to
// do with readers.
func (d *Decoder) flags(s *prog.CacheSpec, mask uint64) {
	s.Flags = nil
	if !d.opt.Debug {
		mask &= readersFlag
	}
	if mask == 0 {
		return
	}
	words := d.strs.take(len(prog.CacheFlags))[:0]
	for i, f := range prog.CacheFlags {
		if mask>>i&1 != 0 {
			words = append(words, f)
		}
	}
	if len(words) > 0 {
		s.Flags = words
	}
}

// fitMachine fills in the defaults and cuts down what does not fit the word.
func fitMachine(m *prog.Machine) {
	m.Base, m.Seq0 = 0, 0
	m.SeqBits = min(m.SeqBits, m.Word/2)
	*m = m.Resolve()
	for m.Pages > 1 && (m.Check() != nil || m.Pages*m.PageSize > arenaMax) {
		m.Pages -= (m.Pages + 3) / 4
	}
	if m.Check() != nil {
		m.PageSize, m.Base = 0, 0
		*m = m.Resolve()
	}
}

// firstSeq returns the first value of sequence counters: small ones from 0 up, large ones from
// all-ones down.
func firstSeq(b byte, bits int) uint64 {
	all := uint64(1)<<bits - 1
	if b < 128 {
		return uint64(b) & all
	}
	return (all - uint64(255-b)) & all
}

// setBase moves the arena, where the place exists.
func setBase(m *prog.Machine, mode, k int) {
	page, at := uint64(m.PageSize), *m
	switch mode {
	case baseDefault:
		return
	case baseLow:
		at.Base = uint64(k+1) * page
	case baseStraddle:
		at.Base -= uint64(k+1) * page
	case baseTop:
		// At 64 bits the end is 2 to the power of 64, which is 0 as it should be.
		at.Base = uint64(1)<<m.Word - uint64(m.Pages+k)*page
	case baseHigh:
		at.Base += uint64(k+1) * page
	}
	if at.Base < 1<<48 || mode == baseTop {
		if at.Check() == nil {
			*m = at
		}
	}
}

// headValue applies a value record to the head. The high half of its field is 0 for the machine
// and else the number of the cache.
func (d *Decoder) headValue(field byte, v uint64) {
	if which := int(field>>4) % (declaredMax + 1); which > 0 {
		if which <= len(d.p.Caches) {
			s := &d.p.Caches[which-1].Spec
			d.specValue(s, field&15, v)
			d.thin(s)
			d.caches.checks(which-1, s.Flags)
		}
		return
	}
	switch field & 7 {
	case valueDebug:
		d.boot(int(v&63), int(d.p.Machine.Rules))
		return
	case valueRules:
		d.boot(debugMask(d.p.Machine.Debug), int(v%(uint64(prog.Rules26)+1)))
		return
	}
	m, seq0 := d.p.Machine, d.p.Machine.Seq0
	switch field & 7 {
	case valuePages:
		m.Pages = int(clamp(v, 1, valueMax))
		d.crowd(&m)
		fitMachine(&m)
	case valuePageSize:
		m.PageSize = 1 << clamp(v, 4, 16)
		fitMachine(&m)
	case valueSeqBits:
		m.SeqBits = int(clamp(v, 2, uint64(m.Word/2)))
		seq0 &= 1<<m.SeqBits - 1
	case valueSeq0:
		seq0 = v
	case valueBaseLow:
		m.Base = m.Base>>32<<32 | v&(1<<32-1)
	case valueBaseHigh:
		m.Base = m.Base&(1<<32-1) | v<<32
	}
	m.Seq0 = seq0 & (1<<m.SeqBits - 1)
	if m.Base%uint64(m.PageSize) == 0 && m.Check() == nil {
		d.p.Machine = m
	}
}

// Fields of a value record of the machine.
const (
	valuePages = iota
	valuePageSize
	valueSeqBits
	valueSeq0
	valueBaseLow
	valueBaseHigh
	valueDebug // bits of debugLetters
	valueRules
)

// Fields of a value record of a cache, declared or created.
const (
	valueSize = iota
	valueAlign
	valueFlags
	valueCtor
	valueObjects
	valueOrder
	valueMin
	valueKept
	valueLimit
	valueBatch
)

// specValue applies a value record to a cache. 0 is "not given" where there is such a thing, and
// what follows counts from 1.
func (d *Decoder) specValue(s *prog.CacheSpec, field byte, v uint64) {
	given := func(least, most uint64) int {
		if v == 0 {
			return prog.NotGiven
		}
		return int(clamp(v-1, least, most))
	}
	switch field {
	case valueSize:
		s.Size = int(clamp(v, 1, prog.MaxObject))
	case valueAlign:
		s.Align = 0
		if v != 0 {
			s.Align = 1 << ((v - 1) % 31)
		}
	case valueFlags:
		d.flags(s, v)
	case valueCtor:
		s.Ctor = v&1 != 0
	case valueObjects:
		s.Objects = int(clamp(v, 0, valueMax))
	case valueOrder:
		s.Order = given(0, prog.MaxOrder)
	case valueMin:
		s.MinPartial = given(0, valueMax)
	case valueKept:
		s.CPUPartial = given(0, valueMax)
	case valueLimit:
		s.Limit = given(0, valueMax)
	case valueBatch:
		s.Batch = given(1, valueMax)
	}
}
