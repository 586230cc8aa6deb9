package impls

import (
	"errors"

	"allocfuzz/debugcheck"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// Addr is an address in a subject's own address space; 0 is no address.
type Addr = machine.Addr

// The ways in which an allocator says no. They are outcomes, never findings.
var (
	ErrNoMemory    = errors.New("no memory")
	ErrBusy        = errors.New("objects remain")
	ErrUnsupported = errors.New("not supported by this subject")
	ErrInvalid     = errors.New("arguments not acceptable")
)

// Caps are the capabilities that a subject declares. An operation outside them
// has the outcome "unsupported" and is left out of comparisons.
type Caps uint32

// The capabilities: what can be asked for, what can be given back, what looks at it and
// damages it, who may call, and what is promised besides.
const (
	CapObjects     Caps = 1 << iota // caches of objects
	CapCtor                         // constructors
	CapRCU                          // caches whose pages outlast read sections; read sections
	CapBulk                         // several objects at once, all or nothing
	CapSizes                        // malloc, free and calloc
	CapRealloc                      // realloc
	CapUsable                       // usable size
	CapFreeSized                    // free with the size
	CapPages                        // whole pages by order
	CapZero                         // zeroed memory on request
	CapAlign                        // an alignment asked for is kept
	CapZeroAlign                    // memalign that zeroes
	CapZeroRealloc                  // realloc that zeroes what it adds

	CapShrink  // give the empty slabs of a cache back
	CapDestroy // end a cache
	CapFlush   // give back what a cache holds for single CPUs
	CapDrain   // give back what is held for single CPUs, pages included
	CapOffline // take a CPU out of use, which ends with nothing held for it
	CapTune    // give the per-CPU arrays of a cache other bounds
	CapReap    // give some empty slabs back, of whichever cache has them

	CapDebug    // debug flags and their reports
	CapFailSlab // a single object of an operation is refused on purpose

	CapIRQ // interrupt handlers may call
	CapSMP // contexts on several CPUs may call

	CapReuseLIFO // what was freed last is handed out first: reuse=lifo
	nCaps        = iota
)

// capNames are in the order of the constants.
var capNames = [nCaps]string{
	"objects", "ctor", "rcu", "bulk", "sizes", "realloc", "usable", "freesized", "pages", "zero",
	"align", "zero-align", "zero-realloc",
	"shrink", "destroy", "flush", "drain", "offline", "tune", "reap",
	"debug", "failslab",
	"irq", "smp",
	"reuse-lifo",
}

// Names lists the capabilities in order.
func (c Caps) Names() []string {
	var names []string
	for i, n := range capNames {
		if c&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// Has says whether every capability of d is among c.
func (c Caps) Has(d Caps) bool { return c&d == d }

// AllocFlags modify one allocation.
type AllocFlags uint8

// The flags of an allocation.
const (
	FlagZero   AllocFlags = 1 << iota // zeroed memory
	FlagAtomic                        // must not sleep
)

// Waits says whether an allocation of the context may sleep for pages.
func (f AllocFlags) Waits(c *machine.Ctx) bool { return f&FlagAtomic == 0 && c.MayBlock() }

// A CacheSpec says what a cache's objects are like. Fields that are -1 were not
// given and are the allocator's to choose.
type CacheSpec struct {
	Name       string
	Size       uint64 // bytes of an object, above 0
	Align      uint64 // power of two, 0 for the word
	Ctor       bool   // objects are handed out in the state of a constructor
	Flags      []string
	Kmalloc    bool // a size class of kmalloc
	Objects    int  // objects of a slab
	Order      int  // pages of a slab are 1<<Order
	MinPartial int  // empty slabs a node keeps
	CPUPartial int  // SLUB: slabs of a per-CPU partial list
	Limit      int  // SLAB: objects of a per-CPU array
	Batch      int  // SLAB: objects moved at once
}

// NewSpec is a spec with nothing given but name and size.
func NewSpec(name string, size uint64) CacheSpec {
	return CacheSpec{Name: name, Size: size, Objects: -1, Order: -1, MinPartial: -1,
		CPUPartial: -1, Limit: -1, Batch: -1}
}

// Takes says whether a subject that can do c and aligns every address to align has what a
// cache of this kind asks for.
func (c Caps) Takes(s *CacheSpec, align uint64) bool {
	if s.Ctor && !c.Has(CapCtor) || s.Align > align && !c.Has(CapAlign) {
		return false
	}
	// Who debugs knows every flag; without that the one for read sections may be known.
	own := len(s.Flags) == 1 && s.RCU() && c.Has(CapRCU)
	return len(s.Flags) == 0 || own || c.Has(CapDebug)
}

// An Instance is one subject set up for one run.
type Instance interface {
	// Memory reaches the contents of objects.
	Memory() Memory
	// Objects makes caches; nil without CapObjects.
	Objects() Objects
	// Sizes allocates by size; nil without CapSizes.
	Sizes() Allocator
	// Pages allocates whole pages; nil without CapPages.
	Pages() Pages
	// Snapshot fills s at a quiet point; false when the subject shows nothing.
	Snapshot(s *Snapshot) bool
	// Close gives back what the instance holds outside the machine.
	Close()
}

// Objects makes caches of objects of one size.
type Objects interface {
	// NewCache makes a cache: ErrInvalid when spec cannot be met, ErrNoMemory. Nothing is
	// changed then, no page taken and no counter moved. See CacheSpec.TurnDown.
	NewCache(c *machine.Ctx, spec CacheSpec) (Cache, error)
}

// A Cache hands out objects of one size.
type Cache interface {
	// Alloc returns an object, 0 when there is no memory. FlagZero is not for a cache with a
	// constructor.
	Alloc(c *machine.Ctx, f AllocFlags) Addr
	// Free takes back an object of this cache that is live, and in the state of its
	// constructor where it has one (Construct).
	Free(c *machine.Ctx, a Addr)
	// Shrink gives empty slabs back; what it answers is the subject's own.
	Shrink(c *machine.Ctx) int
	// Destroy ends the cache; ErrBusy when objects are live.
	Destroy(c *machine.Ctx) error
	// Size is the number of bytes of an object that may be used.
	Size() uint64
	// Align is what the address of every object is a multiple of.
	Align() uint64
}

// A BulkCache is a cache that takes several objects at once (CapBulk). With none it does
// nothing.
type BulkCache interface {
	Cache
	// AllocBulk fills into with objects, or says false: then it has given back what it
	// had got, and what into holds means nothing.
	AllocBulk(c *machine.Ctx, f AllocFlags, into []Addr) bool
	// FreeBulk takes back live objects of this cache, each given once, in whatever order
	// suits it. It may exchange the elements of objects.
	FreeBulk(c *machine.Ctx, objects []Addr)
}

// A Debugger is a cache that can be debugged (CapDebug). Without debug flags its
// Layout is nil, and it answers nothing else.
type Debugger interface {
	Cache
	// Layout says where what lies around an object; nil without debug flags.
	Layout() *debugcheck.Layout
	// Validate checks every slab that a list holds and reports what is wrong by
	// Ctx.Note; it returns the number of slabs. ErrInvalid without debug flags,
	// ErrNoMemory.
	Validate(c *machine.Ctx) (slabs int, err error)
	// Slab describes the slab whose memory holds a, as it is stored; false when no
	// slab of the cache does. It is a look from outside and no step.
	Slab(a Addr) (debugcheck.Slab, bool)
	// Damage inverts the bits of mask in a stored field: of the slab that holds a, or
	// of the cache. False when the cache has no such field.
	Damage(c *machine.Ctx, r debugcheck.Region, a Addr, mask uint64) bool
}

// A Flusher is a cache that holds objects or slabs for single CPUs (CapFlush).
type Flusher interface {
	// Flush makes every CPU give back what the cache holds for it. Only where calls to
	// other CPUs are allowed.
	Flush(c *machine.Ctx)
}

// A Tuner is a cache whose per-CPU arrays can be given other bounds (CapTune).
type Tuner interface {
	// Tune lets an array hold limit objects, of which batch move at once. What the
	// arrays hold goes back first. ErrInvalid when the two do not fit together. Only
	// where calls to other CPUs are allowed.
	Tune(c *machine.Ctx, limit, batch int) error
}

// A Hotplugger is an instance that lets a CPU go out of use (CapOffline).
type Hotplugger interface {
	// Offline gives back what is held for a CPU that is out of use. ErrInvalid: it is
	// the CPU that c runs on. Only where calls to other CPUs are allowed.
	Offline(c *machine.Ctx, cpu int) error
}

// A Reaper is an instance that gives memory back under pressure (CapReap).
type Reaper interface {
	// Reap gives some empty slabs back and returns the number of their pages.
	Reap(c *machine.Ctx) int
}

// A SizedCache is a size class of kmalloc that keeps the size asked for (debug
// option U).
type SizedCache interface {
	Cache
	// AllocSize is Alloc for an object of which size bytes were asked for.
	AllocSize(c *machine.Ctx, f AllocFlags, size uint64) Addr
	// Widen forgets the size asked for and returns it, the object's own where none is
	// kept: ksize was called, so that the whole object may be used from now on.
	Widen(c *machine.Ctx, a Addr) (asked uint64)
}

// An Owner is an Allocator that hands out objects of caches.
type Owner interface {
	Allocator
	// CacheOf is the cache that holds the memory at a; nil when none does. It is a look
	// from outside and no step.
	CacheOf(a Addr) Cache
}

// An Allocator hands out memory by size.
type Allocator interface {
	// Malloc returns size bytes, 0 when there is no memory.
	Malloc(c *machine.Ctx, size uint64, f AllocFlags) Addr
	// Memalign is Malloc at a multiple of align, a power of two. It heeds FlagZero
	// with CapZeroAlign only.
	Memalign(c *machine.Ctx, align, size uint64, f AllocFlags) Addr
	// Realloc changes the size and keeps the bytes that both sizes share; 0 when
	// there is no memory, and then p is as it was. With a p of 0 it is Malloc. It heeds
	// FlagZero with CapZeroRealloc only: what it adds is zero, provided that every call
	// which ever sized this memory had the flag and that Usable was not asked about it.
	Realloc(c *machine.Ctx, p Addr, size uint64, f AllocFlags) Addr
	// Free takes back what the calls above returned; 0 is allowed.
	Free(c *machine.Ctx, p Addr)
	// Usable is the number of bytes that may be used at p: none at 0.
	Usable(c *machine.Ctx, p Addr) uint64
}

// Pages hands out blocks of 1<<order pages.
type Pages interface {
	// AllocPages returns the address of a block, 0 when there is none.
	AllocPages(c *machine.Ctx, order int, f AllocFlags) Addr
	// FreePages takes a block back.
	FreePages(c *machine.Ctx, a Addr)
	// Drain gives back pages that are held for one CPU.
	Drain(c *machine.Ctx)
}

// Memory reaches the contents of objects by address.
type Memory interface {
	// Fill writes pattern p to n bytes at a.
	Fill(a Addr, n uint64, p Pattern)
	// Verify returns the offset of the first byte that is not pattern p, -1 when
	// all n are.
	Verify(a Addr, n uint64, p Pattern) int64
	// Read copies bytes at a into b and returns how many there were.
	Read(a Addr, b []byte) int
	// Flip inverts the bits of mask in the byte at a.
	Flip(a Addr, mask byte)
	// Contains says whether n bytes at a are memory at all.
	Contains(a Addr, n uint64) bool
}

// A Viewer is a Memory in this process: it shows its bytes where they are.
type Viewer interface {
	Memory
	// View is n bytes at a, to read and to write; nil where they are not memory. It is
	// good until the next call of the allocator.
	View(a Addr, n uint64) []byte
}

// A Promise says where a subject may differ from the others.
type Promise uint8

// Answers of a Profile.
const (
	Unspecified Promise = iota // nothing promised: any answer is right
	Always                     // the unique answer of the field's comment
	Never
)

// A Profile says what a subject promises where allocators differ, so that a
// finding can name the promise that was broken.
type Profile struct {
	MallocZero  Promise // malloc(0) returns an address that may be freed
	ReallocZero Promise // realloc(p, 0) frees p and returns no memory
	MinAlign    uint64  // alignment of every address
	// SizeAlign says that memory smaller than MinAlign need only be aligned for objects of
	// its size: to the largest power of two that is not above it.
	SizeAlign bool
	Source    string // who promises: "own documentation", "C17 7.22.3"

	// Reuse says that memory which was freed is handed out again. Never is the contract of
	// an arena: a free gives nothing back, or only what was handed out last, so that it
	// grows with all that was ever asked for and may refuse while little is live.
	Reuse Promise
}

// Finds is what an unsound variant is found by.
type Finds struct {
	Step        string // title of the wrong step, "" when no step is wrong
	Consequence string // title of what comes of it
}

// An Axis is one choice of a variant, for listings.
type Axis struct{ Name, Value string }

// A Variant describes one subject.
type Variant struct {
	Name  string
	Alias string
	Row   string // row of the seed table, "" for outside allocators
	Year  int
	About string // one sentence
	Axes  []Axis
	// Rules are those of its debug checks; of those that have several by kernel, the
	// default.
	Rules    debugcheck.Rules
	Machines []machine.Preempt // kinds of kernel it is made for
	Sound    bool
	Finds    Finds
	Caps     Caps
	Profile  Profile
	Racy     []*machine.Field // its racy fields, each with the reason
	// New sets the subject up on a machine that was just made or reset; nil for
	// a remote subject. Subjects with their own heap leave the machine alone.
	New func(m *machine.Machine) Instance
	// Promise says who promised that an operation does not show a title: a clause of a standard
	// or of a manual, "" when nobody did. It is nil where the contract of this package is all.
	Promise func(code Code, title fault.Title) string
	// Dial starts a remote subject; nil for one in process.
	Dial func() (Player, error)
}

// Simulated says whether v runs on the simulated machine, every step of which is a point. The
// others come from outside: they have no points, and may end the process.
func (v *Variant) Simulated() bool { return v.Row != "" }

// For says whether v is made for a machine that preempts so.
func (v *Variant) For(p machine.Preempt) bool {
	for _, k := range v.Machines {
		if k == p {
			return true
		}
	}
	return false
}
