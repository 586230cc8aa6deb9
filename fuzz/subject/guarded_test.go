package subject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"allocfuzz/debugcheck"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls/golib"
	"allocfuzz/impls/guard"
)

// FuzzPileGuarded is the public way to a guard, on a sound allocator.
func FuzzPileGuarded(f *testing.F) { Fuzz(f, Guarded(newPile(none))) }

// closing is a pile that counts how many are in use.
type closing struct {
	pile
	open *int
}

func (c *closing) Close() { *c.open-- }

var _ golib.Closer = (*closing)(nil)

// TestGuardedFinds: an allocator that writes to what it handed out is found by the guard's red
// zone, with the guard's title, where it is only found by the object's contents without. A panic
// of the allocator goes through the guard.
func TestGuardedFinds(t *testing.T) {
	for bug, title := range map[int]string{none: "", panics: "aborted",
		writes: "false report: Left Redzone overwritten"} {
		h := newHarness(t, Guarded(newPile(bug)))
		found := ""
		for _, data := range seeds() {
			text, err := h.check("FuzzPile", data)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				found = text
				break
			}
		}
		if title == "" && found != "" {
			t.Errorf("a sound allocator was found to be wrong:%s", found)
		}
		if !strings.Contains(found, title) ||
			title != "" && !strings.Contains(found, "subject.pile-guarded: ") {
			t.Errorf("bug %d: no %q in the report %q", bug, title, found)
		}
	}
}

// TestGuardedReplay: Replay takes a guarded allocator, and each that was made is closed.
func TestGuardedReplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "two.prog")
	const text = "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 b = realloc a 24\ncpu0 free b\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	open, made := 0, 0
	t.Run("replay", func(t *testing.T) {
		Replay(t, Guarded(func() any {
			open, made = open+1, made+1
			return &closing{pile: pile{free: map[int][][]byte{}}, open: &open}
		}), file)
	})
	if open > 0 || made < 2 {
		t.Errorf("%d of %d allocators are not closed", open, made)
	}
}

// An asked is an allocator that counts what it is asked for.
type asked struct {
	least int // bytes
	freed *int
}

func (a *asked) Malloc(n int) []byte { a.least = min(a.least, n); return make([]byte, n) }
func (a *asked) Free([]byte)         { *a.freed++ }

// TestGuardedOptions: the options of a guard reach it: blocks are as small as its flags let them
// be, and without a quarantine they come back at their free. More than one set is a fault.
func TestGuardedOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.prog")
	const text = "allocfuzz 1\ncpu0 a = malloc 1\ncpu0 free a\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	few := guard.Options{Flags: debugcheck.Sanity | debugcheck.RedZone, Count: -1}
	for _, tt := range []struct {
		options []guard.Options
		least   int
		back    bool
	}{{nil, 96, false}, {[]guard.Options{few}, 32, true}} {
		freed, least := 0, 1000
		t.Run("replay", func(t *testing.T) {
			var last *asked
			Replay(t, Guarded(func() any {
				if last != nil {
					least = min(least, last.least)
				}
				last = &asked{1000, &freed}
				return last
			}, tt.options...), file)
			least = min(least, last.least)
		})
		if least != tt.least || (freed > 0) != tt.back {
			t.Errorf("%d options: blocks of %d bytes, %d came back", len(tt.options), least, freed)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("two sets of options are taken")
		}
	}()
	Guarded(func() any { return nil }, few, few)
}

// TestGuardedVariant: a promise of alignment goes through the guard, and is kept.
func TestGuardedVariant(t *testing.T) {
	v := variant(t, Guarded(func() any { return aligned{} }))
	if v.Profile.MinAlign != 32 || v.Name != "subject.aligned-guarded" {
		t.Errorf("%s: %+v", v.Name, v.Profile)
	}
	h := newHarness(t, Guarded(func() any { return aligned{} }))
	for i, data := range seeds() {
		if text, err := h.check("FuzzX", data); text != "" || err != nil {
			t.Fatalf("seed %d: %v%s\n%s", i, err, text, input.Decode(data, input.Everything))
		}
	}
}

// aligned is an allocator that leaves everything to Go but the alignment.
type aligned struct{}

func (aligned) MinAlign() int { return 32 }
func (aligned) Free([]byte)   {}
func (aligned) Malloc(n int) []byte {
	b := make([]byte, n+32)
	at := -uintptr(unsafe.Pointer(&b[0])) % 32
	return b[at : int(at)+n]
}
