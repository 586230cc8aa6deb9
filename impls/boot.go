package impls

import (
	"errors"
	"fmt"
	"slices"

	"allocfuzz/debugcheck"
	"allocfuzz/impls/machine"
)

// A Boot is what the boot parameters of a machine say to one family about debugging.
type Boot struct {
	// Rules are those of its debug checks.
	Rules debugcheck.Rules
	// Usual are the debug options of a cache that names none, where the machine names
	// none either: 0 but in a guard.
	Usual debugcheck.Flags

	options *debugcheck.Options // nil for none
}

// BootOf reads the boot parameters of m, nil for none. usual are the rules of the
// family where m names none, or those of the other one. The strings were accepted with
// the program: one that cannot be read is a harness fault and panics.
func BootOf(m *machine.Machine, usual debugcheck.Rules) Boot {
	b := Boot{Rules: usual}
	if m == nil {
		return b
	}
	if m.Rules != "" {
		r, err := debugcheck.ParseRules(m.Rules)
		if err != nil {
			panic("allocfuzz: " + err.Error())
		}
		if usual != debugcheck.Guard && r.SLAB() == usual.SLAB() {
			b.Rules = r
		}
	}
	if m.Debug != "" {
		o, err := debugcheck.ParseOptions(m.Debug)
		if err != nil {
			panic(fmt.Sprintf("allocfuzz: debug options %q: %v", m.Debug, err))
		}
		b.options = &o
	}
	return b
}

// For are the debug options of the cache of that name, which asks for those of own
// itself. Small says that they must not make its slabs larger (letter O).
func (b *Boot) For(name string, own debugcheck.Flags) (f debugcheck.Flags, small bool) {
	switch {
	case b.options != nil:
		return b.options.For(name, own)
	case own != 0:
		return own, false
	}
	return b.Usual, false
}

// creationWords are the flags of a cache that are no debug options and are accepted.
var creationWords = []string{lineWord, "nomerge", panicWord, "rcu", "reclaim"}

// Flags are the debug options of the cache that spec asks for, and Small as of For.
// ErrInvalid: a flag that is none, and a constructor for a size class of kmalloc.
func (b *Boot) Flags(spec *CacheSpec) (f debugcheck.Flags, small bool, err error) {
	if spec.Ctor && spec.Kmalloc {
		return 0, false, ErrInvalid // whoever allocates by size knows no constructor
	}
	for _, word := range spec.Flags {
		option, ok := debugcheck.ParseWord(word)
		if !ok && !slices.Contains(creationWords, word) {
			return 0, false, ErrInvalid
		}
		f |= option
	}
	f, small = b.For(spec.Name, f)
	return f, small, nil
}

// The flag of a cache whose objects begin at cache lines.
const lineWord = "hwalign"

// LinesPerPage is how many cache lines there are in a page, whatever its size.
const LinesPerPage = 64

// CacheLine is the alignment of an object that begins at a cache line, or, where several
// fit in one, at the smallest even share of it that holds the object. size is above 0.
func CacheLine(size, page uint64) uint64 {
	line := max(page/LinesPerPage, 1)
	for size <= line/2 {
		line /= 2
	}
	return line
}

// Alignment is what the address of an object is asked to be a multiple of on a machine with
// such pages, 0 for the word: align, and a cache line with the flag hwalign (SLUB's
// calculate_alignment). SLAB drops the cache line where there are red zones.
func (s *CacheSpec) Alignment(page uint64) uint64 {
	if s.Size == 0 || !slices.Contains(s.Flags, lineWord) {
		return s.Align
	}
	return max(s.Align, CacheLine(s.Size, page))
}

// The flag of a cache that the kernel cannot do without.
const panicWord = "panic"

// Panics says whether the kernel stops when the cache cannot be made (the flag panic).
func (s *CacheSpec) Panics() bool { return slices.Contains(s.Flags, panicWord) }

// AtBoot is the spec of a cache that is declared, and so asked for before anything runs
// that could be stopped: it cannot panic.
func (s *CacheSpec) AtBoot() CacheSpec {
	t := *s
	if s.Panics() {
		t.Flags = slices.DeleteFunc(slices.Clone(s.Flags), func(w string) bool {
			return w == panicWord
		})
	}
	return t
}

// A Panic is what a kernel notes that stops for want of a cache.
type Panic struct {
	Cache string
	Err   error // why there is none
	Line  int   // order of the operation
}

// TurnDown answers a request for a cache that cannot be made. Who asked with the flag
// panic does not get to see err: the kernel stops. What this subject merely does not
// support is an answer all the same, and without a context nobody is there to be stopped.
func (s *CacheSpec) TurnDown(c *machine.Ctx, err error) error {
	if c != nil && s.Panics() && !errors.Is(err, ErrUnsupported) {
		line, _, _ := c.At()
		c.Note(&Panic{Cache: s.Name, Err: err, Line: line})
		c.Halt()
	}
	return err
}

// Panicked finds the panic among what an operation noted; nil when there was none.
func Panicked(notes []any) *Panic {
	for _, n := range notes {
		if p, ok := n.(*Panic); ok {
			return p
		}
	}
	return nil
}

// RCU says whether objects may be read after they were freed (the flag rcu).
func (s *CacheSpec) RCU() bool { return slices.Contains(s.Flags, "rcu") }

// TrackOf is who c is and where, for the track of an object.
func TrackOf(c *machine.Ctx) debugcheck.Track {
	line, cpu, step := c.At()
	return debugcheck.Track{Line: line, Task: c.TaskID(), CPU: cpu, Step: step, Set: true}
}

// Tell passes on what a debug check found while c ran. After a fatal report the kernel
// stops.
func Tell(c *machine.Ctx, r *debugcheck.Report) {
	r.Where = c.Where()
	c.Note(r)
	if r.Kind == debugcheck.Fatal {
		c.Halt()
	}
}
