package prog

import (
	"math/bits"
	"strconv"
	"strings"
)

// Machine holds the parameters of the simulated computer that a program runs on.
type Machine struct {
	CPUs     int     // 1 to MaxCPUs
	Pages    int     // pages in the arena, 1 to MaxPages
	PageSize int     // bytes in a page, a power of two
	Word     int     // bits in a word: 64, 32 or 16
	Base     uint64  // address of the first page, a multiple of the page size, not 0
	SeqBits  int     // bits of a sequence counter, 2 to half of Word
	Seq0     uint64  // first value of sequence counters, below 1<<SeqBits
	Preempt  Preempt // when a task may lose its CPU
	TSO      bool    // stores pass through a store buffer
	Debug    string  // boot parameter slab_debug: debug options of caches by name, "" for none
	Rules    Rules   // the kernel whose rules the debug checks follow
	Merge    bool    // boot parameter slab_merge: caches that are alike are one
}

// Limits of a machine.
const (
	MaxPages    = 1 << 20
	MinPageSize = 16
	MaxPageSize = 1 << 24
	MaxArena    = 1 << 34 // bytes of all pages together
	MaxDebug    = 256     // bytes of a string of debug options
)

// Preempt is a machine's preemption model.
type Preempt uint8

// The preemption models.
const (
	PreemptNone Preempt = iota // a task runs until it ends or waits
	PreemptFull                // a task may be preempted wherever it has not forbidden it
	PreemptRT                  // full, and handlers are tasks of high priority
)

var preemptNames = [...]string{"none", "full", "rt"}

// String returns the spelling used on the machine line.
func (p Preempt) String() string { return pick(preemptNames[:], int(p)) }

// Rules names the kernel whose debug checks apply. A rule set concerns the allocators that were
// in use under it, 2.4 and 2.6 SLAB and the others SLUB; the rest keep their own default.
type Rules uint8

// The rule sets.
const (
	RulesOwn Rules = iota // not given: each allocator's own default, 6.1 and 2.4
	Rules61               // 6.1
	Rules612              // 6.12
	Rules24               // 2.4
	Rules26               // 2.6
)

var rulesNames = [...]string{"6.1", "6.12", "2.4", "2.6"}

// String returns the spelling used on the machine line, "" for RulesOwn.
func (r Rules) String() string {
	if r == RulesOwn {
		return ""
	}
	return pick(rulesNames[:], int(r)-1)
}

// ParseRules returns the rule set spelled s.
func ParseRules(s string) (Rules, bool) {
	i := indexOf(rulesNames[:], s)
	return Rules(i + 1), i >= 0
}

// DefaultMachine returns the machine of a program that has no machine line: one CPU, 16 pages of
// 4096 bytes, 64-bit words.
func DefaultMachine() Machine { return Machine{}.Resolve() }

// Resolve returns the machine with every zero field replaced by its default. Page size, base and
// width of sequence counters depend on the word: the base is one half-word's span, rounded up to
// a page.
func (m Machine) Resolve() Machine {
	if m.CPUs == 0 {
		m.CPUs = 1
	}
	if m.Pages == 0 {
		m.Pages = 16
	}
	if m.Word == 0 {
		m.Word = 64
	}
	if m.PageSize == 0 {
		m.PageSize = 4096
		if m.Word == 16 {
			m.PageSize = 128
		}
	}
	if m.Base == 0 {
		m.Base = defaultBase(m.Word, m.PageSize)
	}
	if m.SeqBits == 0 {
		m.SeqBits = m.Word / 2
	}
	return m
}

// defaultBase returns the span of half a word rounded up to a page.
func defaultBase(word, pageSize int) uint64 {
	span, page := uint64(1)<<(uint(word/2)&63), uint64(pageSize)
	if page == 0 {
		return span
	}
	return (span + page - 1) / page * page
}

// Check returns nil for a machine that can be built, or an *Error without a position that says
// which parameter does not fit.
func (m Machine) Check() error {
	if e := m.check(); e != nil {
		return e
	}
	return nil
}

func (m Machine) check() *Error {
	switch {
	case m.Word != 64 && m.Word != 32 && m.Word != 16:
		return fault("machine: word=%d", m.Word).want("64, 32 or 16").on("word")
	case m.CPUs < 1 || m.CPUs > MaxCPUs:
		return fault("machine: cpus=%d", m.CPUs).want("1 to %d", MaxCPUs).on("cpus")
	case m.Pages < 1 || m.Pages > MaxPages:
		return fault("machine: pages=%d", m.Pages).want("1 to %d", MaxPages).on("pages")
	case m.PageSize < MinPageSize || m.PageSize > MaxPageSize || m.PageSize&(m.PageSize-1) != 0:
		return fault("machine: pagesize=%d", m.PageSize).
			want("a power of two, %d to %d", MinPageSize, MaxPageSize).on("pagesize")
	case m.SeqBits < 2 || m.SeqBits > m.Word/2:
		return fault("machine: seqbits=%d", m.SeqBits).
			want("2 to %d, half of word=%d", m.Word/2, m.Word).on("seqbits")
	case m.Seq0 >= 1<<uint(m.SeqBits):
		return fault("machine: seq0=%d", m.Seq0).want("a number of %d bits", m.SeqBits).on("seq0")
	case m.Preempt > PreemptRT:
		return fault("machine: preempt=%d", m.Preempt).want("none, full or rt").on("preempt")
	case m.Rules > Rules26:
		return fault("machine: rules=%d", m.Rules).want("%s", orList(rulesNames[:])).on("rules")
	case m.Base <= ZeroSize:
		return fault("machine: base=%#x", m.Base).
			want("an address above %d, where allocations of no bytes are", ZeroSize).on("base")
	case m.Base%uint64(m.PageSize) != 0:
		return fault("machine: base=%#x", m.Base).want("a multiple of pagesize=%d", m.PageSize).
			on("base")
	}
	return firstOf(m.checkSpan(), m.checkDebug())
}

// checkDebug demands a string that can stand in double quotes as it is. What its letters mean is
// for whoever runs the program: this package knows no allocator.
func (m Machine) checkDebug() *Error {
	if m.Debug == "" {
		return nil
	}
	_, e := plainText("machine: debug", m.Debug, MaxDebug)
	if e != nil {
		return e.on("debug")
	}
	return nil
}

// plainText demands a string of at most most bytes of printable ASCII without a double quote or a
// backslash; the number is the offset of the first byte that is none.
func plainText(what, s string, most int) (int, *Error) {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return i, fault("%s: byte %q", what, s[i:i+1]).
				want("printable ASCII without double quotes and backslashes")
		}
	}
	if len(s) > most {
		return most, fault("%s: %d bytes", what, len(s)).want("at most %d", most)
	}
	return 0, nil
}

// checkSpan demands that the arena ends within the word's address space.
func (m Machine) checkSpan() *Error {
	size := uint64(m.Pages) * uint64(m.PageSize) // at most 2^44
	if size > MaxArena {
		return fault("machine: %d pages of %d bytes are too much memory", m.Pages, m.PageSize).
			want("at most %d bytes", MaxArena).hint("use fewer or smaller pages").on("pages")
	}
	end, carry := bits.Add64(m.Base, size, 0)
	fits := carry == 0 || end == 0
	if m.Word < 64 {
		fits = carry == 0 && end <= 1<<uint(m.Word)
	}
	if fits {
		return nil
	}
	return fault("machine: %d pages of %d bytes at %#x do not fit word=%d",
		m.Pages, m.PageSize, m.Base, m.Word).
		want("an end of the arena of at most 1<<%d", m.Word).
		hint("use fewer or smaller pages, a lower base, or a wider word").on("pages")
}

// ZeroSize is the address that stands for an allocation of no bytes (ZERO_SIZE_PTR). The arena
// lies above it.
const ZeroSize = 16

// MaxCPUs is the largest number of CPUs a machine may have.
const MaxCPUs = 16

// Ctx says who runs a line. It is comparable and may be a map key.
type Ctx struct {
	Kind CtxKind
	CPU  int    // of CPUCtx and IRQCtx, from 0
	Name string // the task's name; the name part of a handler, "" when it has none
}

// CtxKind is the kind of a context.
type CtxKind uint8

// The kinds of contexts.
const (
	NoCtx   CtxKind = iota // a check: nobody in particular
	CPUCtx                 // the task pinned to a CPU
	TaskCtx                // a declared task
	IRQCtx                 // an interrupt handler of a CPU
)

// String returns the spelling used in a program: cpu1, the task's name, irq0 or irq0.name.
func (c Ctx) String() string { return string(c.append(nil)) }

func (c Ctx) append(b []byte) []byte {
	switch c.Kind {
	case CPUCtx:
		b = append(b, "cpu"...)
		return strconv.AppendInt(b, int64(c.CPU), 10)
	case TaskCtx:
		return append(b, c.Name...)
	case IRQCtx:
		b = append(b, "irq"...)
		b = strconv.AppendInt(b, int64(c.CPU), 10)
		if c.Name != "" {
			b = append(b, '.')
			b = append(b, c.Name...)
		}
	}
	return b
}

// IsIRQ reports whether the context is an interrupt handler.
func (c Ctx) IsIRQ() bool { return c.Kind == IRQCtx }

// ParseCtx reads the spelling of a context. Any name that is not cpuN or irqN is taken for a
// task's; whether it is declared is not known here.
func ParseCtx(s string) (Ctx, bool) {
	if n, ok := numbered(s, "cpu"); ok {
		return Ctx{Kind: CPUCtx, CPU: n}, true
	}
	head, name, dotted := strings.Cut(s, ".")
	if n, ok := numbered(head, "irq"); ok {
		return Ctx{Kind: IRQCtx, CPU: n, Name: name}, !dotted || isName(name)
	}
	if dotted || !isName(s) {
		return Ctx{}, false
	}
	return Ctx{Kind: TaskCtx, Name: s}, true
}

// numbered splits a word such as cpu12. Leading zeros and numbers that no machine has are left to
// be names.
func numbered(s, prefix string) (int, bool) {
	if len(s) <= len(prefix) || len(s) > len(prefix)+4 || s[:len(prefix)] != prefix {
		return 0, false
	}
	digits, n := s[len(prefix):], 0
	for i := 0; i < len(digits); i++ {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = n*10 + int(digits[i]-'0')
	}
	return n, len(digits) == 1 || digits[0] != '0'
}

// isName reports whether s has the form of a name: [a-z_][a-z0-9_]*.
func isName(s string) bool {
	if s == "" || !isNameStart(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isNameStart(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' }
func isNameByte(c byte) bool  { return isNameStart(c) || '0' <= c && c <= '9' }

func indexByte(s string, c byte) int { return strings.IndexByte(s, c) }

// Kind is the kind of a point at which a scheduler may decide.
type Kind uint8

// The kinds of points.
const (
	KLoad           Kind = iota // a read of a shared word
	KStore                      // a write of a shared word
	KCmpxchg                    // a compare and exchange
	KMemLoad                    // a read of memory bytes, such as a free object's link
	KMemStore                   // a write of memory bytes
	KLock                       // taking a lock
	KUnlock                     // releasing a lock
	KIRQSave                    // interrupts off
	KIRQRestore                 // interrupts as they were
	KPreemptDisable             // preemption off
	KPreemptEnable              // preemption as it was
	KPageAlloc                  // a request for pages
	KBarrier                    // a memory barrier
	KCall                       // a call on another CPU
	KEnd                        // the end of a context's work
	KWait                       // a wait for a lock, a name or another CPU
)

var kindNames = [...]string{
	"load", "store", "cmpxchg", "memload", "memstore", "lock", "unlock", "irqsave", "irqrestore",
	"preempt_disable", "preempt_enable", "pagealloc", "barrier", "call", "end", "wait",
}

// Kinds is the number of kinds of points.
const Kinds = len(kindNames)

// String returns the spelling used in a departure.
func (k Kind) String() string { return pick(kindNames[:], int(k)) }

// ParseKind returns the kind spelled s.
func ParseKind(s string) (Kind, bool) {
	i := indexOf(kindNames[:], s)
	return Kind(max(i, 0)), i >= 0
}
