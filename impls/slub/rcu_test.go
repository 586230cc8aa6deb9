package slub_test

import (
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slub"
)

// readersSpec is a cache of two objects a slab whose pages outlast read sections.
func readersSpec(flags ...string) impls.CacheSpec {
	spec := debugSpec(2, append(flags, "rcu")...)
	spec.MinPartial = 0
	return spec
}

// accounted demands so many slabs, pages that wait and free pages of 8.
func accounted(t *testing.T, in impls.Instance, when string, slabs, waiting, free int) {
	t.Helper()
	s := snap(t, in)
	if len(s.Slabs) != slabs || len(s.Waiting) != waiting || s.PagesFree != free {
		t.Errorf("%s: %d slabs, %d blocks wait, %d pages free; want %d, %d, %d", when, len(s.Slabs),
			len(s.Waiting), s.PagesFree, slabs, waiting, free)
	}
	for _, k := range s.Counts {
		if k.Stored != k.Counted {
			t.Errorf("%s: %s is %d and counts %d", when, k.Name, k.Stored, k.Counted)
		}
	}
}

// TestReadersKeepPages: a slab that empties while somebody reads is no slab any more and its
// pages are not free until the section ends, debugged or not. What it held is as it was, and a
// debug check looked at it before.
func TestReadersKeepPages(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		for _, flags := range [][]string{nil, {"poison", "redzone", "sanity", "user"}} {
			one(t, name, machineOf(1, 8), func(c *machine.Ctx, in impls.Instance) {
				k, err := in.Objects().NewCache(c, readersSpec(flags...))
				if err != nil {
					t.Fatal(err)
				}
				a := k.Alloc(c, 0)
				in.Memory().Fill(a, 64, 7)
				c.RCUReadLock()
				k.Free(c, a)
				k.Free(c, k.Alloc(c, 0))
				k.Shrink(c)
				s := snap(t, in)
				accounted(t, in, "shrunk", 0, len(s.Waiting), 8-len(s.Waiting))
				if len(s.Waiting) == 0 || in.Memory().Verify(a, 64, 7) >= 0 {
					t.Errorf("%q: %d blocks wait; contents gone at %d", flags, len(s.Waiting),
						in.Memory().Verify(a, 64, 7))
				}
				c.RCUReadUnlock()
				accounted(t, in, "ended", 0, 0, 8)
			})
		}
	})
}

// TestReaderDestroys: who reads itself destroys the cache and does not wait. The pages come
// with the end of its section.
func TestReaderDestroys(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		one(t, name, machineOf(1, 8), func(c *machine.Ctx, in impls.Instance) {
			k, err := in.Objects().NewCache(c, readersSpec())
			if err != nil {
				t.Fatal(err)
			}
			a := k.Alloc(c, 0)
			c.RCUReadLock()
			k.Free(c, a)
			if err := k.Destroy(c); err != nil || !snap(t, in).Caches[0].Dead {
				t.Errorf("destroy: %v", err)
			}
			accounted(t, in, "destroyed", 0, 1, 7)
			c.RCUReadUnlock()
			accounted(t, in, "ended", 0, 0, 8)
		})
	})
}

// TestReadersDiscard: the objects of a slab are checked before it waits, when its cache can
// still say so.
func TestReadersDiscard(t *testing.T) {
	one(t, locked, machineOf(1, 8), func(c *machine.Ctx, in impls.Instance) {
		k, err := in.Objects().NewCache(c, readersSpec("redzone", "sanity"))
		if err != nil {
			t.Fatal(err)
		}
		a := k.Alloc(c, 0)
		keep := k.Alloc(c, 0)
		c.RCUReadLock()
		k.Free(c, a)
		in.Memory().Flip(a-1, 1)
		before := len(c.Notes())
		k.Free(c, keep)
		notes := c.Notes()
		if len(notes) != before+1 ||
			notes[before].(*debugcheck.Report).Title != debugcheck.TitleLeftRedzone {
			t.Errorf("%d reports", len(notes)-before)
		}
		accounted(t, in, "discarded", 0, 1, 7)
		c.RCUReadUnlock()
	})
}

// TestNativeReaders: threads read, allocate, free each other's objects and shrink; afterwards
// every page is back.
func TestNativeReaders(t *testing.T) {
	const cpus, rounds = 3, 1500
	for _, v := range slub.Variants() {
		if v.Finds.Consequence == string(fault.FreeLost) {
			continue // it needs no interrupt: the end of a list is enough, and a remote free
		}
		t.Run(v.Name, func(t *testing.T) {
			m := machine.New(nativeConfig(cpus+1, 256))
			in := v.New(m)
			spec := readersSpec()
			spec.Objects, spec.CPUPartial = 4, 2
			cache, err := in.Objects().NewCache(nil, spec)
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			read := make(chan int)
			go func() {
				c := m.NativeCtx(cpus, "reader")
				defer func() { c.Release(); close(read) }()
				for {
					select {
					case <-stop:
						return // its section ends with it
					default:
					}
					c.RCUReadLock()
					c.Poll()
					if c.RCUReadLock(); c.TaskID()%2 == 0 {
						c.Poll()
					}
					c.RCUReadUnlock()
					c.RCUReadUnlock()
				}
			}()
			relay(t, m, cache, cpus, rounds)
			close(stop)
			<-read
			if s := snap(t, in); len(s.Slabs)+len(s.Waiting) != 0 || s.PagesFree != 256 {
				t.Errorf("%d slabs, %d wait, %d pages free", len(s.Slabs), len(s.Waiting),
					s.PagesFree)
			}
			if len(m.Faults()) > 0 {
				t.Errorf("faults: %v", m.Faults())
			}
		})
	}
}
