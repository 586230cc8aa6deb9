package play

import (
	"errors"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A Setup is what an Exec is made for.
type Setup struct {
	Instance impls.Instance
	Caps     impls.Caps
	Profile  impls.Profile
	PageSize uint64 // bytes of a page; 0 is 4096
	Slots    int    // slots of objects
	Caches   int    // slots of caches
	// Lost is called with what a slot held when another binding takes its name, so
	// that it can still be freed in the end; nil when nobody wants to know. Natively
	// the slot is locked meanwhile.
	Lost func(Slot)
	// May is asked last before a misuse is carried out, its event being complete but
	// for the outcome; false skips it. nil allows whatever the rules of this package do.
	May func(c *machine.Ctx, op *impls.Op, ev *impls.Event) bool
	// Fresh is called with an allocation that succeeded, before its contents are given to
	// what it returned; nil when nobody wants to look.
	Fresh func(op *impls.Op, ev *impls.Event)
	// Native says that real threads share the Exec.
	Native bool
	// Destroys says that caches may be made or destroyed while other contexts run.
	// Only natively it matters: counting who is inside a cache costs a shared word.
	Destroys bool
}

// An Exec carries operations out on one Instance and keeps the program's slots.
// Every context of a run shares it. Use Reset before each run.
type Exec struct {
	in       impls.Instance
	mem      impls.Memory
	objects  impls.Objects
	sizes    impls.Allocator
	calloc   impls.Callocer
	sized    impls.SizedFreer
	witness  impls.Witness
	pages    impls.Pages
	caps     impls.Caps
	profile  impls.Profile
	lost     func(Slot)
	may      func(*machine.Ctx, *impls.Op, *impls.Event) bool
	fresh    func(*impls.Op, *impls.Event)
	strays   []Slot // live, and lost by their names; for misuse
	pageSize uint64
	native   bool
	counts   bool
	slots    []objectSlot
	caches   []cacheSlot
}

// New is an Exec that was Reset with s.
func New(s Setup) *Exec {
	e := &Exec{}
	e.Reset(s)
	return e
}

// Reset makes e ready for a run with all slots unbound. It keeps its storage.
func (e *Exec) Reset(s Setup) {
	e.in, e.caps, e.profile, e.native = s.Instance, s.Caps, s.Profile, s.Native
	e.counts = s.Destroys || !s.Native
	e.mem, e.lost, e.may, e.fresh = s.Instance.Memory(), s.Lost, s.May, s.Fresh
	e.strays = e.strays[:0]
	e.objects, e.sizes, e.pages = nil, nil, nil
	e.calloc, e.sized, e.witness = nil, nil, nil
	e.pageSize = s.PageSize
	if e.pageSize == 0 {
		e.pageSize = 4096
	}
	e.resetSlots(s.Slots, s.Caches)
	if s.Native {
		e.useObjects()
		e.useSizes()
		e.usePages()
	}
}

func (e *Exec) resetSlots(slots, caches int) {
	if cap(e.slots) < slots {
		e.slots = make([]objectSlot, slots)
	}
	e.slots = e.slots[:slots]
	for i := range e.slots {
		s := &e.slots[i]
		s.Slot = Slot{}
		if e.native {
			s.word.Init(slotLock, -1, 0)
		}
	}
	if cap(e.caches) < caches {
		e.caches = make([]cacheSlot, caches)
	}
	e.caches = e.caches[:caches]
	clear(e.caches)
	for i := range e.caches {
		e.caches[i].word.Init(cacheLock, -1, 0)
	}
}

// The parts of an instance are asked for when first used, since a family may
// build them only then. Natively that is in Reset.

func (e *Exec) useObjects() bool {
	if e.objects == nil && e.caps.Has(impls.CapObjects) {
		e.objects = e.in.Objects()
	}
	return e.objects != nil
}

func (e *Exec) useSizes() bool {
	if e.sizes == nil && e.caps.Has(impls.CapSizes) {
		e.sizes = e.in.Sizes()
		e.calloc, _ = e.sizes.(impls.Callocer)
		e.sized, _ = e.sizes.(impls.SizedFreer)
		e.witness, _ = e.sizes.(impls.Witness)
	}
	return e.sizes != nil
}

func (e *Exec) usePages() bool {
	if e.pages == nil && e.caps.Has(impls.CapPages) {
		e.pages = e.in.Pages()
	}
	return e.pages != nil
}

// CacheSlots is the number of slots of caches that a batch needs.
func CacheSlots(b *impls.Batch) int {
	n := len(b.Caches)
	for i := range b.Ops {
		op := &b.Ops[i]
		if op.Code == impls.OpCreate {
			n = max(n, int(created(op))+1)
		}
	}
	return n
}

// created is the slot of the cache that a create binds: its result, or its cache
// when it has none.
func created(op *impls.Op) int32 {
	if op.Result >= 0 {
		return op.Result
	}
	return op.Cache
}

// Open makes a cache that exists from the start in a slot. Any outcome but OK
// leaves the slot void; there is nobody yet whom the flag panic could stop.
func (e *Exec) Open(c *machine.Ctx, slot int, spec *impls.CacheSpec) impls.Outcome {
	if why := e.mayCreate(spec); why != impls.OK {
		e.bindNoCache(c, int32(slot), why)
		return why
	}
	made, err := e.objects.NewCache(c, spec.AtBoot())
	if err != nil {
		made = nil
	}
	e.bindCache(c, int32(slot), made, spec)
	return OutcomeOf(err)
}

// mayCreate says whether the subject has what a spec asks for.
func (e *Exec) mayCreate(spec *impls.CacheSpec) impls.Outcome {
	switch {
	case spec == nil:
		return impls.Skipped
	case !e.useObjects():
		return impls.Unsupported
	case !e.caps.Takes(spec, e.profile.MinAlign):
		return impls.Unsupported
	}
	return impls.OK
}

// OutcomeOf is how an error of the contract is written down.
func OutcomeOf(err error) impls.Outcome {
	switch {
	case err == nil:
		return impls.OK
	case errors.Is(err, impls.ErrNoMemory):
		return impls.NoMem
	case errors.Is(err, impls.ErrUnsupported):
		return impls.Unsupported
	}
	return impls.Refused
}

// Slots is the number of slots of objects.
func (e *Exec) Slots() int { return len(e.slots) }

// Slot is what slot i holds, for reports and tests; i may be impls.NilSlot. Natively ask
// only while nothing runs.
func (e *Exec) Slot(i int) Slot {
	if i == int(impls.NilSlot) {
		return nothing
	}
	return e.slots[i].Slot
}

// Cache is the cache in slot i, nil when it holds none.
func (e *Exec) Cache(i int) impls.Cache {
	if i < 0 || i >= len(e.caches) || e.caches[i].state != Live {
		return nil
	}
	return e.caches[i].cache
}

// Memory is the memory of the instance.
func (e *Exec) Memory() impls.Memory { return e.mem }

// Ready says whether every operand of op was bound at some time: an operation of a
// task waits until it is. A void operand is ready, and skips the operation.
func (e *Exec) Ready(op *impls.Op) bool {
	if i := op.Slot; i >= 0 && int(i) < len(e.slots) && e.slots[i].State == Unbound {
		return false
	}
	if op.Code == impls.OpFreeBulk {
		for _, i := range op.Slots {
			if i >= 0 && int(i) < len(e.slots) && e.slots[i].State == Unbound {
				return false
			}
		}
	}
	i := op.Cache
	return op.Code == impls.OpCreate || i < 0 || int(i) >= len(e.caches) ||
		e.caches[i].state != Unbound
}
