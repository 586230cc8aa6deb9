package impls

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls/fault"
)

// Code is an operation of a batch: a subset of the program language in which
// names are slots and nothing is text.
type Code uint8

// The operations.
const (
	OpAlloc Code = iota
	OpFree
	OpMalloc
	OpCalloc
	OpRealloc
	OpMemalign
	OpUsable
	OpFreeSized
	OpPages
	OpPagesFree
	OpCreate
	OpDestroy
	OpShrink
	OpDrain
	OpFill
	OpVerify
	OpValidate
	OpOverrun
	OpUnderrun
	OpWriteFreed
	OpFreeAgain
	OpFreeInside
	OpFreeForeign
	OpFreeWrong
	OpFlip
	OpAllocBulk
	OpFreeBulk
	OpFlush
	OpOffline
	OpTune
	OpReap
	OpRCULock
	OpRCUUnlock
	nCodes
)

// LastCode is the last of the operations: a decoder accepts none above it.
const LastCode = nCodes - 1

var codeNames = [nCodes]string{"alloc", "free", "malloc", "calloc", "realloc", "memalign", "usable",
	"freesized", "pages", "pagesfree", "create", "destroy", "shrink", "drain", "fill", "verify",
	"validate", "overrun", "underrun", "writefreed", "freeagain", "freeinside",
	"freeforeign", "freewrong", "flip", "allocbulk", "freebulk", "flush", "offline", "tune", "reap",
	"rculock", "rcuunlock"}

// String names the operation as programs do.
func (c Code) String() string { return codeNames[c] }

// NilSlot is the slot of nothing: it always holds the address 0 and no bytes, as if they
// had been allocated by size.
const NilSlot int32 = -2

// TakesNil says whether the operation may be about NilSlot, where it names no cache.
func (c Code) TakesNil() bool {
	return c == OpFree || c == OpFreeSized || c == OpRealloc || c == OpUsable
}

// An Op is one operation of a batch: a compiled line.
type Op struct {
	Code       Code
	Flags      AllocFlags
	Fail       uint16  // its n-th page request fails, 0 none
	FailObject uint16  // the n-th object that it asks for is refused, 0 none
	Cache      int32   // slot of the cache, -1 when the operation is by size
	Slot       int32   // slot of its operand, NilSlot, or -1
	Result     int32   // slot that it binds, -1
	Slots      []int32 // bulk: slots that it binds, or gives back
	// Size is a number of bytes; calloc: of one; pages: order; freeinside, flip: offset;
	// offline: CPU; tune: limit.
	Size uint64
	// Arg, of memalign: alignment; calloc: elements; flip: bits to invert; tune: batch.
	Arg     uint64
	Region  debugcheck.Region // flip: of what
	Pattern Pattern           // contents given to what it returns
	Thread  uint8             // that it belongs to, below Batch.Threads
	Spec    *CacheSpec
}

// A Batch is a stream of operations, with the caches that exist from the start in slots
// 0, 1, …. Those of one thread are carried out in order; those of several are real ones,
// and only a slot that is not bound yet makes one of them wait for another.
type Batch struct {
	Debug, Rules string // boot parameters, as in machine.Config
	Merge        bool   // likewise
	Caches       []CacheSpec
	Slots        int // slots of objects
	Threads      int // 0 is one
	Ops          []Op
}

// ThreadsMax bounds the threads of a batch.
const ThreadsMax = 64

// Outcome is what became of an operation.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	NoMem
	Unsupported // outside the subject's capabilities
	Skipped     // an operand was void, or a race in the program was lost
	Refused     // the subject said no for another reason
	Reported    // a debug report was made
	Died        // the subject's process ended during it
	nOutcomes
)

// LastOutcome is the last of the outcomes: a decoder accepts none above it.
const LastOutcome = nOutcomes - 1

var outcomeNames = [nOutcomes]string{"ok", "enomem", "unsupported", "skipped", "refused", "report",
	"died"}

// String gives the spelling of programs.
func (o Outcome) String() string { return outcomeNames[o] }

// An Event is one operation as it happened: an entry of a transcript. Allocations
// are written down when they end, frees when they begin, since between the two
// the address belongs to the program. A bulk operation has an event for each of its
// slots, in order: an allocation or a free like any other, but for Part.
type Event struct {
	Op      int32 // index in the batch or compiled program
	Code    Code
	Outcome Outcome
	Ctx     uint8 // number of the context
	CPU     uint8
	Region  debugcheck.Region // flip: of what
	Part    uint16            // bulk: which of its slots, from 1
	Irq     bool              // in a handler
	Legit   bool              // NoMem: the page layer refused during the operation
	Ctor    bool              // alloc: Bad is about the state that a constructor made
	Fresh   Pattern           // pattern that the memory got
	Cache   int32             // slot of the cache, -1
	Slot    int32             // slot bound or used, NilSlot, or -1
	Want    Pattern           // pattern that was expected
	Bad     int64             // offset of the first wrong byte, -1 when none
	Align   uint64            // alignment asked for
	Addr    Addr              // misuse: the first byte damaged, or the address that was freed
	Old     Addr              // realloc: the address before; misuse: that of its victim
	Size    uint64            // bytes asked for; misuse: bytes damaged
	// Usable is the number of bytes that the subject gives, 0 when it does not say; of a
	// realloc that succeeded it is those that both sizes share.
	Usable  uint64
	Seq     uint64               // place in the order of the run, from 1
	Began   uint64               // realloc among threads: Seq of the last event before its call
	Mask    uint64               // flip: the bits inverted, of the bytes from Addr or of a field
	Reports []*debugcheck.Report // of the debug checks, in order
	// Broke is a promise that a Witness saw broken, "" for none, and Evidence of it.
	Broke    fault.Title
	Evidence string
}

// Bulk says whether c is about several objects at once.
func (c Code) Bulk() bool { return c == OpAllocBulk || c == OpFreeBulk }

// Each is what an operation is for a single object: the code of its events.
func (c Code) Each() Code {
	switch c {
	case OpAllocBulk:
		return OpAlloc
	case OpFreeBulk:
		return OpFree
	}
	return c
}

// Misuses says whether c does what a program must not do.
func (c Code) Misuses() bool { return c >= OpOverrun && c <= OpFlip }

// A Transcript is what happened in one run, in order.
type Transcript struct {
	Events []Event
	Last   int32  // last operation begun, when the subject died
	Death  string // how it died, "" when it did not
}

// A Player runs a batch on a remote subject.
type Player interface {
	// Play carries the batch out and returns what happened; an error is a fault of
	// the connection, not of the subject, whose death is part of the transcript.
	Play(b *Batch) (*Transcript, error)
	// Close ends the remote side.
	Close() error
}

// A Footprinter is a Player that knows how much memory the remote side has.
type Footprinter interface {
	// Footprint is in bytes, 0 when nobody knows.
	Footprint() uint64
}
