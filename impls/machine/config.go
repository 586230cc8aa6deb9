package machine

import (
	"fmt"
	"strconv"
)

// Addr is an address of the simulated machine: a byte address below 1<<Word.
type Addr = uint64

// Preempt says when a task can lose its CPU to another task.
type Preempt uint8

// The three kinds of kernel a variant may be made for.
const (
	PreemptNone Preempt = iota // only where a task waits or between its operations
	PreemptFull                // at every point with interrupts on and preemption not disabled
	PreemptRT                  // as full; handlers are high-priority tasks that may block
)

var preemptNames = [...]string{"none", "full", "rt"}

// String gives the spelling of programs: none, full, rt.
func (p Preempt) String() string { return nameOf(preemptNames[:], int(p)) }

// nameOf is names[i], and a number for what has no name.
func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "number " + strconv.Itoa(i)
}

// Config holds the parameters of a machine.
type Config struct {
	CPUs     int    // 1 … MaxCPUs
	Pages    int    // pages of the arena
	PageSize int    // bytes a page, a power of two
	Word     int    // bits of a word: 64, 32 or 16
	Base     Addr   // address of the arena's first byte, a multiple of PageSize
	SeqBits  int    // bits of a sequence counter, 2 … Word/2
	Seq0     uint64 // first value of a sequence counter
	Preempt  Preempt
	TSO      bool // stores pass through a buffer of their CPU; nothing natively
	// Debug and Rules are boot parameters that the machine only carries: the value of
	// slab_debug, and the kernel whose rules for it apply. "" is none and the default.
	Debug, Rules string
	// Merge is a third: caches that are alike are one.
	Merge  bool
	Native bool // real goroutines and no scheduler, see the package comment
}

// Limits of a machine.
const (
	MaxCPUs      = 16
	MaxPages     = 1 << 20
	MaxBytes     = 1 << 34
	MaxTasks     = 64      // tasks, and on a real-time machine handlers too
	StepsMax     = 5000    // points of one operation in its own frame
	IRQDepthMax  = 4       // nested handlers and calls on one CPU
	IRQsPerOpMax = 64      // deliveries during one operation in its own frame
	IRQsMax      = 1 << 12 // deliveries of one handler in one run
)

// DefaultConfig is the machine of a program that says nothing: one CPU and 16
// pages of 4 KiB, 64-bit words.
func DefaultConfig() Config {
	return Config{CPUs: 1, Pages: 16, PageSize: 4096, Word: 64, Base: 1 << 32, SeqBits: 32}
}

// HalfWord is the number of bytes that half a word can address.
func (c Config) HalfWord() uint64 { return 1 << (uint(c.Word) / 2) }

// Bytes is the size of the arena.
func (c Config) Bytes() uint64 { return uint64(c.Pages) * uint64(c.PageSize) }

// Validate says what is wrong with the parameters; nil when a machine can be
// built from them.
func (c Config) Validate() error {
	switch {
	case c.Word != 64 && c.Word != 32 && c.Word != 16:
		return fmt.Errorf("word=%d: expected 64, 32 or 16", c.Word)
	case c.CPUs < 1 || c.CPUs > MaxCPUs:
		return fmt.Errorf("cpus=%d: expected 1 to %d", c.CPUs, MaxCPUs)
	case c.Pages < 1 || c.Pages > MaxPages:
		return fmt.Errorf("pages=%d: expected 1 to %d", c.Pages, MaxPages)
	case c.PageSize < 16 || c.PageSize > 1<<24 || c.PageSize&(c.PageSize-1) != 0:
		return fmt.Errorf("pagesize=%d: expected a power of two from 16 to 16777216", c.PageSize)
	case c.Bytes() > MaxBytes:
		return fmt.Errorf("%d pages of %d bytes: more than %d bytes", c.Pages, c.PageSize,
			uint64(MaxBytes))
	case c.SeqBits < 2 || c.SeqBits > c.Word/2:
		return fmt.Errorf("seqbits=%d: expected 2 to half the word, %d", c.SeqBits, c.Word/2)
	case c.Seq0 >= 1<<uint(c.SeqBits):
		return fmt.Errorf("seq0=%d: does not fit seqbits=%d", c.Seq0, c.SeqBits)
	case c.Base%uint64(c.PageSize) != 0 || c.Base == 0:
		return fmt.Errorf("base=%#x: expected a multiple of the page size above 0", c.Base)
	case c.Base+(c.Bytes()-1) < c.Base || (c.Base+(c.Bytes()-1))>>(uint(c.Word)-1)>>1 != 0:
		// The end itself may be 2 to the power of the word.
		return fmt.Errorf("base=%#x and %d bytes: the arena does not fit %d-bit words",
			c.Base, c.Bytes(), c.Word)
	case c.Preempt > PreemptRT:
		return fmt.Errorf("preempt=%d: expected none, full or rt", c.Preempt)
	case c.Native && c.Word != 64:
		return fmt.Errorf("word=%d: a native machine has 64-bit words", c.Word)
	}
	return nil
}
