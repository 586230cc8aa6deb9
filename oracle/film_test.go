package oracle_test

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// filmed films a regression on a subject, under its schedule.
func filmed(t *testing.T, file, subject string) (*oracle.Film, *oracle.Result) {
	t.Helper()
	var p *prog.Program
	for f := range corpus.Regress() {
		if strings.HasSuffix(f.Name, file) {
			var err error
			if p, err = f.Program(); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := all.Lookup(subject)
	if !ok {
		t.Fatal(subject)
	}
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	f, err := r.Film(c, v, &p.Scheds[0], oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Points(c, v, &p.Scheds[0], oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f, res
}

// TestFilm: a film has every point of the run, in order, which it does not change; it shows the
// interrupt where the schedule has it, the live object on the freelist from the wrong exchange on,
// and each fault at the point behind which it was found.
func TestFilm(t *testing.T) {
	f, res := filmed(t, "slub-2008-cmpxchg-aba.prog", "slub-2008-cmpxchg")
	if f.Report == nil || f.Report.Hash != res.Hash || len(f.Frames) != len(res.Trace)+1 || f.Cut {
		t.Fatalf("%d frames, hash %x, want %d, the point of the interrupt twice, and %x",
			len(f.Frames), f.Report.Hash, len(res.Trace)+1, res.Hash)
	}
	stale := func(fr *oracle.Frame) bool { // a live object on the CPU's freelist
		return slices.ContainsFunc(fr.Slabs, func(s oracle.FilmSlab) bool {
			return slices.ContainsFunc(s.CPUFree, func(n int) bool { return s.Objects[n].Live })
		})
	}
	interrupts, exchanges, wrong := 0, 0, -1
	at := 0 // in the trace
	for i := range f.Frames {
		fr, e := &f.Frames[i], &res.Trace[min(at, len(res.Trace)-1)]
		if again := i > 0 && f.Frames[i-1].Depth == 1 && fr.Depth == 0; again {
			e = &res.Trace[26]
		} else {
			at++
		}
		if fr.Task != e.Where.Task || fr.Line != e.Where.Line || fr.Depth != e.Depth ||
			!strings.HasPrefix(fr.Point, e.Kind.String()+" ") {
			t.Errorf("frame %d is %s of %s in line %d, want %s of %s in line %d", i, fr.Point,
				fr.Task, fr.Line, e.Kind, e.Where.Task, e.Where.Line)
		}
		// Locks are taken with interrupts off here, and who gives one back has it.
		look, words := &fr.CPUs[fr.CPU], strings.Fields(fr.Point)
		last := append([]string{""}, look.Held...)[len(look.Held)]
		if words[0] == "unlock" && last != words[1] || words[0] == "lock" && !look.IRQsOff {
			t.Errorf("frame %d: at %s the CPU is %+v", i, fr.Point, look)
		}
		if fr.Chosen == " interrupt irq0" {
			interrupts++
			if fr.Point != "cmpxchg cpu_slab.freelist 1" || fr.Line != 1 {
				t.Errorf("the interrupt comes at %s of line %d", fr.Point, fr.Line)
			}
			if next := &f.Frames[i+1]; next.Depth != 1 || next.Task != "irq0" ||
				!slices.Equal(next.CPUs[0].Handlers, []string{"irq0"}) {
				t.Errorf("behind it there is %+v", next.CPUs)
			}
		}
		if fr.Depth == 0 && fr.Line == 1 && fr.Point == "cmpxchg cpu_slab.freelist 1" {
			exchanges = i // the last of them: asked again behind the handler
		}
		if wrong < 0 && stale(fr) {
			wrong = i
		}
	}
	if interrupts != 1 || wrong != exchanges+1 {
		t.Errorf("%d interrupts; the list is wrong from frame %d on, the exchange is at %d",
			interrupts, wrong, exchanges)
	}
	if len(f.Frames[exchanges].Faults) == 0 ||
		!strings.HasPrefix(f.Frames[exchanges].Faults[0], "freelist leaves its slab") {
		t.Errorf("faults at the exchange: %q", f.Frames[exchanges].Faults)
	}
}

// TestFilmWords: the word of the sequence number design is shown as its two parts, which say where
// the list begins and change with every change of it.
func TestFilmWords(t *testing.T) {
	f, _ := filmed(t, "slub-2008-cmpxchg-aba.prog", "slub-2008-seq")
	changes := 0
	last := uint64(0)
	for i := range f.Frames {
		fr := &f.Frames[i]
		at := slices.IndexFunc(fr.Words, func(w impls.Word) bool {
			return w.Name == "cpu_slab.freelist"
		})
		if at < 0 || len(fr.Words[at].Parts) != 2 {
			t.Fatalf("frame %d has the words %+v", i, fr.Words)
		}
		sequence, offset := fr.Words[at].Parts[0].Value, fr.Words[at].Parts[1].Value
		if sequence != last {
			changes++
		}
		if fr.Words[at].Value != sequence<<32|offset {
			t.Errorf("frame %d: %#x is shown as %#x and %#x", i, fr.Words[at].Value, sequence,
				offset)
		}
		last = sequence
		base := fr.Words[at+1].Value
		if fr.Point == "end - 1" && len(fr.Slabs) == 1 && len(fr.Slabs[0].CPUFree) > 0 {
			s := &fr.Slabs[0]
			stride := fr.Caches[s.Cache].Stride
			if want := s.First + uint64(s.CPUFree[0])*stride; base|offset != want {
				t.Errorf("frame %d: the word says %#x, the list begins at %#x", i, base|offset,
					want)
			}
		}
	}
	if f.Report != nil || changes < 5 {
		t.Errorf("report %v, %d changes of the sequence number", f.Report, changes)
	}
}

// TestFilmRedZones: the window of 2022 is seen: the free of the debug cache has made the red zones
// those of a free object while the freelist does not have it yet; the design that holds the lock
// shows the same moment with the lock held.
func TestFilmRedZones(t *testing.T) {
	f, _ := filmed(t, "slub-2022-debug-racy-validate.prog", "slub-2022-debug-racy")
	window, live := 0, 0
	for i := range f.Frames {
		for _, s := range f.Frames[i].Slabs {
			for n, o := range s.Objects {
				switch {
				case o.Red == "active" && o.Live:
					live++
				case o.Red == "inactive" && !slices.Contains(s.Free, n) &&
					!slices.Contains(f.Frames[i].CPUs[0].Held, "node.list_lock") &&
					!slices.Contains(f.Frames[i].CPUs[1].Held, "node.list_lock"):
					window++
				case o.Red == "":
					t.Fatalf("frame %d: object %d has no red zones", i, n)
				}
			}
		}
	}
	if window == 0 || live == 0 {
		t.Errorf("%d moments with an object of no list, %d with a live one", window, live)
	}
}
