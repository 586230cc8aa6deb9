package clib

import (
	"fmt"
	"io"

	"allocfuzz/impls"
)

// This file does what no program may do to a library, one thing at a time, and looks at what
// comes of it. Nothing is promised for any of it: the answers are for comparison.

// A Misuse is one thing that a program must not do.
type Misuse struct {
	Name  string
	About string
	needs function // that the library must have
	do    func(m *misuser)
}

// misuses are the rows of the score.
var misuses = []Misuse{
	{"double free", "a block is freed twice in a row", fnFree, func(m *misuser) {
		m.free(m.a)
		m.free(m.a)
	}},
	{"double free, later", "a block is freed, then another, then the first again", fnFree,
		func(m *misuser) {
			m.free(m.a)
			m.free(m.b)
			m.free(m.a)
		}},
	{"free inside", "what is freed is 16 bytes behind the start of a block", fnFree,
		func(m *misuser) { m.free(m.a + 16) }},
	{"free foreign", "what is freed is memory that the library never handed out", fnFree,
		func(m *misuser) { m.free(m.foreign()) }},
	{"overrun by 1", "the byte behind the usable bytes of a block is written", fnFree,
		func(m *misuser) { m.overrun(1) }},
	{"overrun by 8", "8 bytes behind the usable bytes of a block are written", fnFree,
		func(m *misuser) { m.overrun(8) }},
	{"overrun by 64", "64 bytes behind the usable bytes of a block are written", fnFree,
		func(m *misuser) { m.overrun(64) }},
	{"underrun by 8", "the 8 bytes in front of a block are written", fnFree,
		func(m *misuser) {
			m.flip(m.a-8, 8)
			m.free(m.a)
		}},
	{"write after free", "the first 8 bytes of a freed block are written", fnFree,
		func(m *misuser) {
			m.free(m.a)
			m.flip(m.a, 8)
		}},
	{"write after free at 16", "8 bytes of a freed block are written, 16 behind its start",
		fnFree, func(m *misuser) {
			m.free(m.a)
			m.flip(m.a+16, 8)
		}},
	{"realloc after free", "a freed block is given to realloc", fnRealloc,
		func(m *misuser) {
			m.free(m.a)
			m.call(m.addr[fnRealloc], uintptr(m.a), uintptr(2*m.size))
		}},
	{"size of a freed block", "malloc_usable_size is asked about a freed block", fnUsableSize,
		func(m *misuser) {
			m.free(m.a)
			m.call(m.addr[fnUsableSize], uintptr(m.a))
		}},
	{"free with a wrong size", "a block is given back with twice its size", fnFreeSized,
		func(m *misuser) { m.call(m.addr[fnFreeSized], uintptr(m.a), uintptr(2*m.size)) }},
}

// Misuses are the kinds of misuse, in the order of the score.
func Misuses() []Misuse { return misuses }

// What a child says while it misuses its library, a line each.
const (
	saidMisuse = "misuse" // it begins
	saidAfter  = "after"  // the misuse is over, and the library is used as it should be
	saidTwice  = "twice"  // memory was handed out that is live
	saidBroken = "broken" // what a live block held has changed
	saidEnd    = "end"
)

// A misuser is a child that does it.
type misuser struct {
	*library
	size uint64
	a, b impls.Addr // neighbours, as far as the library makes such
	gone map[impls.Addr]bool
}

func (m *misuser) free(p impls.Addr) {
	m.gone[p] = true
	m.call(m.addr[fnFree], uintptr(p))
}

func (m *misuser) malloc() impls.Addr {
	return impls.Addr(m.call(m.addr[fnMalloc], uintptr(m.size)))
}

func (m *misuser) flip(p impls.Addr, n uint64) {
	for i := range n {
		memory{}.Flip(p+i, 0xff)
	}
}

// overrun writes behind what may be used and frees the block.
func (m *misuser) overrun(n uint64) {
	end := m.size
	if m.addr[fnUsableSize] != 0 {
		end = uint64(m.call(m.addr[fnUsableSize], uintptr(m.a)))
	}
	m.flip(m.a+end, n)
	m.free(m.a)
}

// foreign is memory in the middle of what another allocator handed out.
func (m *misuser) foreign() impls.Addr {
	b := make([]uint64, 512) // of Go's heap
	foreignMemory = b
	return addressOf(&b[256])
}

// foreignMemory keeps it.
var foreignMemory []uint64

// afterwards is how many blocks are taken behind the misuse: more than any list of free blocks
// for one thread holds.
const afterwards = 512

// misuse does it: takes blocks, so that there is a heap, misuses it, and then uses it and looks
// at what it gets.
func misuse(w io.Writer, l *library, kind *Misuse, size uint64) {
	m := &misuser{library: l, size: size, gone: map[impls.Addr]bool{}}
	var before [8]impls.Addr
	for i := range before {
		before[i] = m.malloc()
		memory{}.Fill(before[i], size, impls.Pattern(i+1))
	}
	m.a, m.b = before[3], before[4]
	fmt.Fprintln(w, saidMisuse)
	kind.do(m)
	fmt.Fprintln(w, saidAfter)
	fmt.Fprintln(w, m.after(before))
}

// after uses the heap and says what it came to.
func (m *misuser) after(before [8]impls.Addr) string {
	live := map[impls.Addr]impls.Pattern{}
	order := make([]impls.Addr, 0, afterwards)
	for i, p := range before {
		if !m.gone[p] && p != m.a { // what became of a is the library's business
			live[p] = impls.Pattern(i + 1)
			order = append(order, p)
		}
	}
	for i := range afterwards {
		p := m.malloc()
		if p == 0 {
			continue
		}
		if m.overlaps(p, live) {
			return saidTwice
		}
		live[p] = impls.Pattern(100 + i)
		order = append(order, p)
		memory{}.Fill(p, m.size, live[p])
	}
	broken := false
	for _, p := range order {
		broken = broken || memory{}.Verify(p, m.size, live[p]) >= 0
	}
	for _, p := range order {
		m.free(p)
	}
	if broken {
		return saidBroken
	}
	return saidEnd
}

// overlaps says whether a block shares bytes with a live one.
func (m *misuser) overlaps(p impls.Addr, live map[impls.Addr]impls.Pattern) bool {
	//tidy:maporder any that overlaps will do
	for q := range live {
		if p < q+m.size && q < p+m.size {
			return true
		}
	}
	return false
}
