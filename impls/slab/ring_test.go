package slab

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// plain is a design with these lists and the first alternative of every other axis.
func plain(of func(*Cache) lists) design {
	return design{layer: page.Plain, lists: of, arrays: newNoArrays, colouring: newLockedColour,
		management: onSlab{}, classes: kmalloc.General24}
}

// TestRing: a list of slabs that runs into itself ends whoever walks over it for the
// sake of debugging, as no progress and not as if the list were at its end.
func TestRing(t *testing.T) {
	for name, walk := range map[string]func(*machine.Ctx, *Cache){
		"validate": func(c *machine.Ctx, s *Cache) { s.Validate(c) },
		"destroy":  func(c *machine.Ctx, s *Cache) { s.Destroy(c) },
	} {
		m := machine.New(machine.DefaultConfig())
		spec := impls.NewSpec("c", 64)
		spec.Objects, spec.Flags = 1, []string{"sanity"}
		k, err := plain(newThreeLists).new(m).Objects().NewCache(nil, spec)
		if err != nil {
			t.Fatal(err)
		}
		s, back := k.(*Cache), false
		m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
			s.Alloc(c, 0)
			s.Alloc(c, 0)
			flags := s.lock.LockIRQSave(c)
			full := s.heads[impls.ListFull]
			nextWord.Store(c, full.last(c), full.head.Load(c))
			s.lock.UnlockIRQRestore(c, flags)
			walk(c, s)
			back = true
		})
		if err := m.Sim().Run(nil); err != nil {
			t.Fatal(err)
		}
		if f := m.Faults(); back || len(f) != 1 || f[0].Title != fault.NoProgress {
			t.Errorf("%s: comes back: %v, findings %v", name, back, f)
		}
		m.Close()
	}
}
