// Package subject puts an allocator of your own under test, from your own module:
//
//	func FuzzPool(f *testing.F) {
//		subject.Fuzz(f, func() any { return newPool() })
//	}
//
// The function makes a new allocator for each run. What it returns is one of two kinds:
//
//   - an allocator of slices: Malloc(int) []byte and Free([]byte) (golib.Mallocer);
//   - an allocator of offsets into memory of its own, 0 for none: Alloc(uint64) uint64,
//     Free(uint64) and Bytes() []byte (golib.HeapAllocator).
//
// What more it can do is found out by looking at its methods: Calloc, Realloc, Memalign and
// UsableSize, with the signatures that package golib lists, Limit for judging refusals, Used for an
// arena, which hands nothing out again, Reset and Close for its end, and MinAlign for the alignment
// that it promises.
//
// Every input is a program of one task. It runs on your allocator and on the reference. The model
// says of each operation whether what was returned is aligned, lies where it may, overlaps nothing
// that is live, and holds what it should; a panic of the allocator is a finding; and the outcomes
// of both are compared. A failure prints the program, made small where a test fails first, its
// history beside what the model says of it, and how to see it again. Replay runs programs from
// files, for regression tests. Guarded adds red zones and poison, which show writes outside of what
// is handed out.
//
// The allocator is called by one goroutine at a time.
package subject

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/golib"
	"allocfuzz/impls/guard"
	"allocfuzz/oracle"
)

// An Aligned allocator promises an alignment: every address is a multiple of MinAlign bytes, a
// power of two. Others promise none.
type Aligned interface{ MinAlign() int }

// Guarded puts the allocators that newAllocator makes behind red zones, poison and a
// quarantine (package guard), for Fuzz and Replay:
//
//	subject.Fuzz(f, subject.Guarded(newArena))
//
// What the guard reports in a program is a finding, "false report: T": the program did
// nothing wrong, so the allocator wrote where it must not, behind a block that it had
// handed out, in front of it, or into one that was not given back yet. Calloc, Realloc and
// UsableSize are the guard's own then, and the allocator's are not called: use Fuzz
// without Guarded for those.
//
// Options, none or one, say how it is guarded. What the usual ones do not show:
//
//   - The allocator gets a block back when 256 more (or 1 MiB) were freed, or when it
//     refuses a request, so that its ways to use a block again are hardly taken. With
//     Count: -1 it gets each back at once; with a small Count it uses blocks again, and
//     what it writes to one that waits is seen sooner.
//   - All flags together make a block of 96 bytes or more of every request, so that
//     smaller classes of the allocator are never used. With Flags: debugcheck.Sanity |
//     debugcheck.RedZone it is 32 bytes.
//   - What lies between blocks is not looked at: nobody sees a write into the
//     allocator's own headers, but by what comes of it.
//   - A write that changes nothing is not seen, such as of bits that are set already.
func Guarded(newAllocator func() any, options ...guard.Options) func() any {
	var opt guard.Options
	switch len(options) {
	case 0:
	case 1:
		opt = options[0]
	default:
		panic(fmt.Sprintf("allocfuzz: Guarded with %d Options: expected none or one", len(options)))
	}
	return func() any { return guarded{newAllocator(), opt} }
}

// guarded marks an allocator to be guarded.
type guarded struct {
	allocator any
	opt       guard.Options
}

// reference is what outcomes are compared with.
const reference = "slab-locked"

// Fuzz is the body of a fuzz test of the allocator that newAllocator makes, a golib.Mallocer or a
// golib.HeapAllocator. The seeds are the committed programs of one task and some generated ones, so
// that a plain go test already says something.
func Fuzz(f *testing.F, newAllocator func() any) {
	f.Helper()
	h := newHarness(f, newAllocator)
	for i, data := range seeds() {
		f.Add(data)
		h.seeds[string(data)] = i
	}
	f.Fuzz(func(t *testing.T, data []byte) { h.input(t, data) })
}

// harness is a session with one user's allocator.
type harness struct {
	mu    sync.Mutex
	v     *impls.Variant
	s     *fuzz.Session
	seeds map[string]int // inputs added to the fuzz test, by number
	done  bool           // a program was made small
}

func newHarness(tb testing.TB, newAllocator func() any) *harness {
	tb.Helper()
	v := variant(tb, newAllocator)
	ref, ok := all.Lookup(reference)
	if !ok {
		panic("allocfuzz: no subject " + reference)
	}
	h := &harness{v: v, s: fuzz.NewSession([]*impls.Variant{ref, v}), seeds: map[string]int{}}
	tb.Cleanup(h.s.Close)
	return h
}

// variant wraps the allocator, or fails tb with what is missing.
func variant(tb testing.TB, newAllocator func() any) *impls.Variant {
	tb.Helper()
	first := newAllocator()
	if g, ok := first.(guarded); ok {
		release(g.allocator)
		inside := func() any { return newAllocator().(guarded).allocator }
		return guard.Of(variant(tb, inside), g.opt)
	}
	switch first.(type) {
	case golib.Mallocer, golib.HeapAllocator:
	default:
		tb.Fatalf("%T is no allocator: give it the methods Malloc(int) []byte and Free([]byte), "+
			"or Alloc(uint64) uint64, Free(uint64) and Bytes() []byte", first)
	}
	v := golib.Wrap(name(first), newAllocator)
	if a, ok := first.(Aligned); ok {
		n := a.MinAlign()
		if n < 1 || n&(n-1) != 0 {
			tb.Fatalf("%T.MinAlign is %d: expected a power of two", first, n)
		}
		v.Profile.MinAlign = uint64(n)
	}
	release(first)
	return v
}

// release gives up an allocator that was made to be looked at.
func release(allocator any) {
	if c, ok := allocator.(golib.Closer); ok {
		c.Close()
	}
}

// name is how reports and programs call an allocator: its type, as far as they can spell it.
func name(allocator any) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && strings.ContainsRune(letters, r) {
			return r
		}
		return -1
	}, fmt.Sprintf("%T", allocator))
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-"

// generated is how many inputs are made for the seeds, and generatedLines the lines of each.
const (
	generated      = 100
	generatedLines = 40
)

// seeds are the committed inputs that mean a program of one task without a schedule, and some made
// by chance, always the same.
func seeds() [][]byte {
	var out [][]byte
	seen := map[string]bool{}
	for _, data := range fuzz.Seeds(false) {
		p := input.Decode(data, input.Everything)
		c, err := oracle.Compile(p)
		if err == nil && c.Sequential() && len(p.Scheds) == 0 && !seen[string(data)] {
			seen[string(data)] = true
			out = append(out, data)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range generated {
		out = append(out, input.GenerateBytes(rng, input.GenerateOptions{Lines: generatedLines,
			Decode: input.DecodeOptions{Sequential: true}}))
	}
	return out
}

// input runs one input and fails t with what it shows.
func (h *harness) input(t *testing.T, data []byte) {
	t.Helper()
	text, err := h.check(t.Name(), data)
	if err != nil {
		t.Fatalf("allocfuzz: %v", err)
	}
	if text != "" {
		t.Fatal(text)
	}
}

// check runs one input and returns the report of what it shows, "" for nothing.
func (h *harness) check(test string, data []byte) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := h.s.Sequential(data)
	if f == nil || err != nil {
		return "", err
	}
	f = h.small(test, f)
	f.Report.Command = h.command(test, data)
	return told(f.Report), nil
}

// told is the text of a report, with what to do with its program.
func told(r *oracle.Report) string {
	b := &strings.Builder{}
	b.WriteString("\n")
	r.Text(b)
	b.WriteString("\nTo keep the program, save what is below PROGRAM as a file NAME.prog and " +
		"give it, or its\nfolder, to subject.Replay in a test.\n")
	return b.String()
}
