package slab

import (
	"testing"
	"time"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// undebugged is Alloc and Free of a cache with three lists that cannot be debugged, as
// far as objects of one partial slab come and go: nothing in them knows of debugging.
type undebugged struct{ *Cache }

func (s undebugged) alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	flags := s.lock.LockIRQSave(c)
	t := s.lists.(*threeLists)
	p := t.of[impls.ListPartial].first(c)
	if p == nil {
		c.Die(fault.NoProgress, "no slab is partial")
	}
	obj, inuse := s.take(c, p)
	if inuse == s.objects {
		t.of[impls.ListPartial].remove(c, p)
		t.of[impls.ListFull].push(c, p)
	}
	s.lock.UnlockIRQRestore(c, flags)
	if f&impls.FlagZero != 0 {
		clear(s.sys.m.MemBytes(obj, int(s.size)))
	}
	return obj
}

func (s undebugged) take(c *machine.Ctx, p *machine.Page) (obj impls.Addr, inuse uint64) {
	index := freeWord.Load(c, p)
	if index >= s.objects {
		c.Die(fault.WildAddress, "slab.free of page %d is %#x", p.PFN(), index)
	}
	colour := colourWord.Load(c, p)
	freeWord.Store(c, p, s.loadIndex(c, managerWord.Load(c, p), index))
	inuse = inuseWord.Load(c, p) + 1
	inuseWord.Store(c, p, inuse)
	return s.start(p, colour) + s.first + index*s.stride, inuse
}

func (s undebugged) free(c *machine.Ctx, obj impls.Addr) {
	p := s.sys.m.PageOf(obj)
	if p == nil || p.Tag != any(s.Cache) {
		c.Die(fault.WildAddress, "free of %#x", obj)
	}
	flags := s.lock.LockIRQSave(c)
	if inuse, ok := s.put(c, p, obj); ok {
		s.lists.freed(c, s.Cache, p, inuse)
	}
	s.lock.UnlockIRQRestore(c, flags)
}

func (s undebugged) put(c *machine.Ctx, p *machine.Page, obj impls.Addr) (inuse uint64, ok bool) {
	colour := colourWord.Load(c, p)
	index, ok := s.indexOf(p, colour, obj)
	if !ok {
		c.Fault(fault.OutsideSlab, "%#x freed, where no object begins", obj)
		return 0, false
	}
	s.storeIndex(c, managerWord.Load(c, p), index, freeWord.Load(c, p))
	freeWord.Store(c, p, index)
	inuse = inuseWord.Load(c, p)
	inuseWord.Store(c, p, inuse-1)
	return inuse, true
}

// rounds is how many pairs are timed at a time. The fastest such round counts: it is
// the one that nobody else disturbed.
const rounds = 200

// BenchmarkDebugOff compares a cache that has no debug flags with one that has never
// heard of them, in turns.
func BenchmarkDebugOff(b *testing.B) {
	cfg := machine.DefaultConfig()
	cfg.Native = true
	m := machine.New(cfg)
	defer m.Close()
	k, err := plain(newThreeLists).new(m).Objects().NewCache(nil, impls.NewSpec("c", 64))
	if err != nil {
		b.Fatal(err)
	}
	c, s := m.NativeCtx(0, "bench"), k.(*Cache)
	defer c.Release()
	s.Alloc(c, 0) // the slab stays partial
	u := undebugged{s}
	var best [2]time.Duration
	with := func() {
		for range rounds {
			s.Free(c, s.Alloc(c, 0))
		}
	}
	without := func() {
		for range rounds {
			u.free(c, u.alloc(c, 0))
		}
	}
	for b.Loop() {
		for i, f := range [...]func(){with, without} {
			start := time.Now()
			f()
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	b.ReportMetric(float64(best[0])/float64(best[1]), "off/never")
	b.ReportMetric(float64(best[0])/rounds, "ns/pair")
}
