package stress

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// The blocks of a toy: every allocation gets one.
const (
	toyBlock  = 8192
	toyBlocks = 64
	toyBase   = 1 << 20
)

// toy is an allocator with a list of free blocks. Sound, a lock is around it.
type toy struct {
	bug  toyBug
	mu   sync.Mutex
	next [toyBlocks]atomic.Int64
	head atomic.Int64 // -1 for none
	n    atomic.Int64

	bytes sync.Mutex // so that two owners of a block are no race of this test
	mem   [toyBlocks * toyBlock]byte
}

// toyBug is what is wrong with a toy.
type toyBug struct {
	unlocked bool               // the list is changed by a load and a store
	scribble bool               // a malloc writes to the block before
	odd      bool               // what is to be aligned is not
	outside  bool               // hands out what is not its own
	dirty    bool               // zeroed memory is not
	dies     bool               // the 20th malloc ends at a wild address
	halts    bool               // … is where the machine is halted
	malloc   func(n int64)      // is called in each, with its number
	free     func(c *toy)       // is called in each
	resize   func(*toy, []byte) // is called with what a realloc returns
	caps     impls.Caps         // without these
}

func (b toyBug) variant(name string) *impls.Variant {
	return &impls.Variant{Name: name, Machines: []machine.Preempt{machine.PreemptNone},
		Caps: (impls.CapSizes | impls.CapSMP | impls.CapAlign | impls.CapZero | impls.CapRealloc) &^
			b.caps,
		New: func(*machine.Machine) impls.Instance {
			t := &toy{bug: b}
			for i := range t.next {
				t.next[i].Store(int64(i - 1))
			}
			t.head.Store(toyBlocks - 1)
			return t
		}}
}

func (t *toy) Memory() impls.Memory                   { return t }
func (t *toy) Objects() impls.Objects                 { return nil }
func (t *toy) Sizes() impls.Allocator                 { return t }
func (t *toy) Pages() impls.Pages                     { return nil }
func (t *toy) Snapshot(*impls.Snapshot) bool          { return false }
func (t *toy) Close()                                 {}
func (t *toy) Usable(*machine.Ctx, impls.Addr) uint64 { return toyBlock }

// lock is what the unlocked toy does without.
func (t *toy) lock() func() {
	if t.bug.unlocked {
		return func() {}
	}
	t.mu.Lock()
	return t.mu.Unlock
}

func (t *toy) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	n := t.n.Add(1)
	if t.bug.malloc != nil {
		t.bug.malloc(n)
	}
	if t.bug.dies && n == 20 {
		c.Die(fault.WildAddress, "on purpose")
	}
	if t.bug.halts && n == 20 {
		c.Halt()
	}
	defer t.lock()()
	head := t.head.Load()
	if head < 0 || size > toyBlock {
		return 0
	}
	next := t.next[head].Load()
	if t.bug.unlocked {
		runtime.Gosched() // between the load and the store somebody else takes the same block
	}
	t.head.Store(next)
	a := impls.Addr(toyBase + head*toyBlock)
	t.bytes.Lock()
	defer t.bytes.Unlock()
	if t.bug.scribble && head+1 < toyBlocks {
		t.mem[(head+1)*toyBlock]++
	}
	if f&impls.FlagZero != 0 {
		clear(t.view(a, size))
		if t.bug.dirty {
			t.view(a, size)[0] = 1
		}
	}
	if t.bug.outside && n == 20 {
		return 8
	}
	return a
}

func (t *toy) Memalign(c *machine.Ctx, _, size uint64, f impls.AllocFlags) impls.Addr {
	a := t.Malloc(c, size, f)
	if t.bug.odd && a != 0 {
		a++
	}
	return a
}

func (t *toy) Realloc(c *machine.Ctx, p impls.Addr, size uint64, _ impls.AllocFlags) impls.Addr {
	if size > toyBlock {
		return 0
	}
	if t.bug.resize != nil {
		t.bytes.Lock()
		defer t.bytes.Unlock()
		t.bug.resize(t, t.view(p, size))
	}
	return p
}

func (t *toy) Free(_ *machine.Ctx, p impls.Addr) {
	if t.bug.free != nil {
		t.bug.free(t)
	}
	defer t.lock()()
	if p < toyBase {
		return
	}
	n := int64(p-toyBase) / toyBlock
	head := t.head.Load()
	if t.bug.unlocked {
		runtime.Gosched()
	}
	t.next[n].Store(head)
	t.head.Store(n)
}

func (t *toy) view(a impls.Addr, n uint64) []byte {
	if !t.Contains(a, n) {
		return nil
	}
	return t.mem[a-toyBase : a-toyBase+n]
}

func (t *toy) Fill(a impls.Addr, n uint64, p impls.Pattern) {
	t.bytes.Lock()
	defer t.bytes.Unlock()
	p.Fill(t.view(a, n))
}

func (t *toy) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	t.bytes.Lock()
	defer t.bytes.Unlock()
	return p.Verify(t.view(a, n))
}

func (t *toy) Read(a impls.Addr, b []byte) int { return copy(b, t.view(a, uint64(len(b)))) }

func (t *toy) Flip(a impls.Addr, mask byte) { t.view(a, 1)[0] ^= mask }

func (t *toy) Contains(a impls.Addr, n uint64) bool {
	return a >= toyBase && a-toyBase+n <= toyBlocks*toyBlock
}

// enough bounds the time of a search that a test ends as soon as it has found.
const enough = time.Minute

// hunt runs a subject until something of an identity is found, and returns it; nil when it
// is not.
func hunt(t *testing.T, cfg Config, v *impls.Variant, identity string) (*Finding, []string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var found *Finding
	var others []string
	cfg.Subjects, cfg.For = []*impls.Variant{v}, enough
	cfg.Found = func(f *Finding) {
		if f.Identity() == identity {
			found = f
			stop()
			return
		}
		others = append(others, f.Identity()+": "+f.Fault.Detail)
	}
	Run(ctx, cfg)
	return found, others
}
