package property

import (
	"fmt"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// system is a subject in process on a native machine, with a map of what it handed out. Its
// methods are the commands' calls: each makes one call of the allocator and says what is wrong.
type system struct {
	v       *impls.Variant
	m       *machine.Machine
	c       *machine.Ctx
	in      impls.Instance
	mem     impls.Memory
	cache   impls.Cache
	sizes   impls.Allocator
	blocks  []block                      // as the model's
	at      map[impls.Addr]impls.Pattern // what is live, by number
	pattern impls.Pattern                // number of the last allocation
	broken  bool                         // something was wrong: nothing more is called
}

// block is what one allocation of the model became.
type block struct {
	addr    impls.Addr // 0: it was refused
	size    uint64
	pattern impls.Pattern
	object  bool // of the cache
}

// answer is the result of a command as far as the model decides it.
type answer struct {
	Problem string // a title and its evidence, "" when all is well
	Live    int    // allocations that are live
}

func newSystem(v *impls.Variant, m *machine.Machine, object uint64) *system {
	m.Reset()
	s := &system{v: v, m: m, in: v.New(m), at: map[impls.Addr]impls.Pattern{}}
	s.mem = s.in.Memory()
	s.c = m.NativeCtx(0, "commands")
	cache, err := s.in.Objects().NewCache(s.c, impls.NewSpec("c", object))
	if err != nil {
		panic("allocfuzz: " + v.Name + ": no cache for commands: " + err.Error())
	}
	s.cache = cache
	if v.Caps.Has(impls.CapSizes) {
		s.sizes = s.in.Sizes()
	}
	return s
}

func (s *system) close() {
	s.c.Release()
	s.in.Close()
}

// guarded makes a call unless something was wrong before; a panic of the subject is wrong.
func (s *system) guarded(call func() string) (a answer) {
	if s.broken {
		return answer{Problem: "not called", Live: len(s.blocks)}
	}
	defer func() {
		if r := recover(); r != nil {
			a.Problem = fmt.Sprintf("%s: panic: %v", fault.Aborted, r)
		}
		if fs := s.m.Faults(); a.Problem == "" && len(fs) > 0 {
			a.Problem = fs[0].String()
		}
		s.broken = a.Problem != ""
		a.Live = len(s.blocks)
	}()
	return answer{Problem: call()}
}

// add notes a new block and fills it.
func (s *system) add(b block, refused int, align uint64) string {
	if b.addr == 0 {
		s.blocks = append(s.blocks, b)
		if s.c.Refused() == refused && b.size > 0 {
			return string(fault.RefusedNoReason)
		}
		return ""
	}
	if why := s.wrong(&b, align); why != "" {
		return why
	}
	s.pattern = s.pattern.Next()
	b.pattern = s.pattern
	s.mem.Fill(b.addr, b.size, b.pattern)
	s.keep(b)
	return ""
}

func (s *system) keep(b block) {
	s.at[b.addr] = b.pattern
	s.blocks = append(s.blocks, b)
}

// wrong holds the place of a new block against what is live.
func (s *system) wrong(b *block, align uint64) string {
	if n, ok := s.at[b.addr]; ok {
		return fmt.Sprintf("%s: %#x, live since allocation %d", fault.TwiceOut, b.addr, n)
	}
	if b.addr%align != 0 {
		return fmt.Sprintf("%s: %#x at %d", fault.Misaligned, b.addr, align)
	}
	if !s.mem.Contains(b.addr, b.size) {
		return fmt.Sprintf("%s: %#x of %d bytes", fault.OutsideArena, b.addr, b.size)
	}
	for i := range s.blocks {
		o := &s.blocks[i]
		if o.addr != 0 && b.addr < o.addr+o.size && o.addr < b.addr+b.size {
			return fmt.Sprintf("%s: %#x of %d bytes, %#x of %d", fault.Overlap, b.addr, b.size,
				o.addr, o.size)
		}
	}
	return ""
}

// remove takes block i out of the books and checks its contents.
func (s *system) remove(i int) (block, string) {
	b := s.blocks[i]
	s.blocks = append(s.blocks[:i], s.blocks[i+1:]...)
	if b.addr == 0 {
		return b, ""
	}
	delete(s.at, b.addr)
	if bad := s.mem.Verify(b.addr, b.size, b.pattern); bad >= 0 {
		return b, fmt.Sprintf("%s: %#x, byte %d", fault.ContentsChanged, b.addr, bad)
	}
	return b, ""
}

// zeroed says what is wrong with memory that was to be zero.
func (s *system) zeroed(a impls.Addr, size uint64, f impls.AllocFlags) string {
	if a == 0 || f&impls.FlagZero == 0 {
		return ""
	}
	if bad := s.mem.Verify(a, size, 0); bad >= 0 {
		return fmt.Sprintf("%s: %#x, byte %d", fault.NotZeroed, a, bad)
	}
	return ""
}

func (s *system) alloc(f impls.AllocFlags) string {
	was := s.c.Refused()
	b := block{addr: s.cache.Alloc(s.c, f), size: s.cache.Size(), object: true}
	if why := s.zeroed(b.addr, b.size, f); why != "" {
		return why
	}
	return s.add(b, was, s.cache.Align())
}

// allocBulk takes n objects: all, or none, which are then blocks that were refused.
func (s *system) allocBulk(n int, f impls.AllocFlags) string {
	was, into := s.c.Refused(), make([]impls.Addr, n)
	if !s.cache.(impls.BulkCache).AllocBulk(s.c, f, into) {
		clear(into)
	}
	for _, a := range into {
		b := block{addr: a, size: s.cache.Size(), object: true}
		if why := s.zeroed(a, b.size, f); why != "" {
			return why
		}
		if why := s.add(b, was, s.cache.Align()); why != "" {
			return why
		}
	}
	return ""
}

// freeBulk frees the objects of the blocks at these places, the last one first.
func (s *system) freeBulk(at []int) string {
	var objects []impls.Addr
	for _, i := range at {
		b, why := s.remove(i)
		if why != "" {
			return why
		}
		if b.addr != 0 {
			objects = append(objects, b.addr)
		}
	}
	s.cache.(impls.BulkCache).FreeBulk(s.c, objects)
	return ""
}

func (s *system) malloc(size uint64, f impls.AllocFlags) string {
	was := s.c.Refused()
	b := block{addr: s.sizes.Malloc(s.c, size, f), size: size}
	if why := s.zeroed(b.addr, size, f); why != "" {
		return why
	}
	return s.add(b, was, s.v.Profile.MinAlign)
}

func (s *system) free(i int) string {
	b, why := s.remove(i)
	switch {
	case why != "" || b.addr == 0:
	case b.object:
		s.cache.Free(s.c, b.addr)
	default:
		s.sizes.Free(s.c, b.addr)
	}
	return why
}

func (s *system) realloc(i int, size uint64) string {
	old, why := s.remove(i)
	if why != "" {
		return why
	}
	if old.addr == 0 {
		return s.malloc(size, 0)
	}
	was := s.c.Refused()
	b := block{addr: s.sizes.Realloc(s.c, old.addr, size, 0), size: size}
	if b.addr == 0 {
		if s.c.Refused() == was {
			return string(fault.RefusedNoReason)
		}
		s.keep(old)
		return ""
	}
	if bad := s.mem.Verify(b.addr, min(old.size, size), old.pattern); bad >= 0 {
		return fmt.Sprintf("%s: %#x, byte %d", fault.PrefixLost, b.addr, bad)
	}
	return s.add(b, was, s.v.Profile.MinAlign)
}

func (s *system) usable(i int) string {
	b := &s.blocks[i]
	if b.addr == 0 {
		return ""
	}
	if n := s.sizes.Usable(s.c, b.addr); n < b.size {
		return fmt.Sprintf("%s: %d of %d", fault.UsableTooSmall, n, b.size)
	}
	return ""
}
