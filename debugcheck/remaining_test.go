package debugcheck

import (
	"slices"
	"testing"

	"allocfuzz/impls/fault"
)

// TestRemaining: SLUB tells of a slab and lists its objects in use, SLAB 2.4 warns of a
// cache, and the others have nothing to say. Nothing is repaired.
func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		rules  Rules
		kind   Kind
		title  string
		detail string
	}{
		{SLUB61, Bug, "Objects remaining on __kmem_cache_shutdown()", "2 of 3 are in use"},
		{SLUB612, Bug, "Objects remaining on __kmem_cache_shutdown()", "2 of 3 are in use"},
		{SLAB24, Warn, "Can't free all objects", "2 are in use"},
		{SLAB26, 0, "", ""},
		{Guard, 0, "", ""},
	} {
		t.Run(c.rules.String(), func(t *testing.T) {
			k, slab, told := leaving(t, Default, c.rules)
			if c.rules.SLAB() {
				slab = nil
			}
			k.Remaining(slab, 2)
			if c.title == "" {
				if len(*told) > 0 {
					t.Errorf("told %v", (*told)[0])
				}
				return
			}
			if len(*told) != 1 {
				t.Fatalf("%d reports", len(*told))
			}
			r := (*told)[0]
			if r.Kind != c.kind || r.Title != c.title || r.Detail != c.detail ||
				r.Cache != "mine" || r.Object != 0 || len(r.Fixes) > 0 {
				t.Errorf("got %+v", r)
			}
			var objects []uint64
			for _, o := range r.Remaining {
				objects = append(objects, o.Object)
			}
			l := k.Layout
			want := []uint64{0x1000 + l.Pad, 0x1000 + l.Pad + 2*l.Stride}
			if slab == nil {
				want = nil
			} else if r.Slab != slab.Addr {
				t.Errorf("about the slab at %#x", r.Slab)
			}
			if !slices.Equal(objects, want) {
				t.Errorf("remaining are %#x, want %#x", objects, want)
			}
		})
	}
}

// leaving is a checker of a cache that goes, with one slab of three objects of which the
// second is free.
func leaving(t *testing.T, f Flags, rules Rules) (*Checker, *Slab, *[]*Report) {
	t.Helper()
	l, err := NewLayout(Spec{Name: "mine", Size: 8, Word: 8, Flags: f, Rules: rules, End: 1})
	if err != nil {
		t.Fatal(err)
	}
	told := &[]*Report{}
	k := &Checker{Layout: &l, Mem: &trackMem{base: 0x1000, b: make([]byte, 0x1000)},
		Out: func(r *Report) {
			r.Where = fault.Where{Step: 50}
			*told = append(*told, r)
		}}
	s := &Slab{Addr: 0x1000, First: 0x1000, Bytes: 0x1000, Max: 3, Objects: 3, Inuse: 2,
		Freelist: 0x1000 + l.Pad + l.Stride}
	return k, s, told
}

// TestRemainingText: a line for each object, with its tracks where option U keeps them.
func TestRemainingText(t *testing.T) {
	k, s, told := leaving(t, StoreUser, SLUB61) // objects at 0, 72 and 144
	k.SetTrack(AllocTrack, 0x1000, Track{Line: 1, Task: 2, CPU: 3, Step: 10, Set: true})
	k.SetTrack(AllocTrack, 0x1048, Track{Line: 8, Set: true}) // of the free one
	k.SetTrack(AllocTrack, 0x1090, Track{Line: 4, Task: 2, CPU: 3, Step: 30, Set: true})
	k.SetTrack(FreeTrack, 0x1090, Track{Line: 3, Task: 5, CPU: 0, Step: 20, Set: true})
	k.Remaining(s, 2)
	want := heading("BUG mine (6.1): Objects remaining in mine on __kmem_cache_shutdown()") +
		"Slab 0x1000 objects=3 used=2 fp=0x1048\n" +
		"Object 0x1000 @offset=0\n" +
		"Allocated in operation 1 age=40 step=10 cpu=3 task=2\n" +
		"Object 0x1090 @offset=144\n" +
		"Allocated in operation 4 age=20 step=30 cpu=3 task=2\n" +
		"Freed in operation 3 age=30 step=20 cpu=0 task=5\n"
	if got := (*told)[0].String(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	k, s, told = leaving(t, Sanity, SLUB612) // objects at 0, 8 and 16
	k.Remaining(s, 2)
	want = heading("BUG mine (6.12): Objects remaining on __kmem_cache_shutdown()") +
		"Slab 0x1000 objects=3 used=2 fp=0x1008\n" +
		"Object 0x1000 @offset=0\nObject 0x1010 @offset=16\n"
	if got := (*told)[0].String(); got != want {
		t.Errorf("without U\n%s\nwant\n%s", got, want)
	}
	k, s, told = leaving(t, Sanity, SLUB612)
	s.Inuse, s.Freelist = 3, 1 // none is free, and 1 is the end mark
	k.Remaining(s, 3)
	want = heading("BUG mine (6.12): Objects remaining on __kmem_cache_shutdown()") +
		"Slab 0x1000 objects=3 used=3 fp=0x0\n" +
		"Object 0x1000 @offset=0\nObject 0x1008 @offset=8\nObject 0x1010 @offset=16\n"
	if got := (*told)[0].String(); got != want {
		t.Errorf("all in use\n%s\nwant\n%s", got, want)
	}
}

// TestWrongCacheTracks: a free to the wrong cache says who had the object, where that can be
// seen, and reaches no memory for it.
func TestWrongCacheTracks(t *testing.T) {
	by := Track{Line: 4, Task: 2, CPU: 3, Step: 30, Set: true}
	for _, c := range []struct {
		name  string
		flags Flags
		rules Rules
		from  uint64 // of the view
		bytes int
		want  string
	}{
		{"seen", StoreUser, SLUB61, 0x1000, 0x100,
			"Allocated in operation 4 age=20 step=30 cpu=3 task=2\n"},
		{"guard", StoreUser, Guard, 0x1000, 0x100,
			"Allocated in operation 4 age=20 step=30 cpu=3 task=2\n"},
		{"cut short", StoreUser, SLUB61, 0x1000, 0x48 + 8 + 31, ""},
		{"behind", StoreUser, SLUB61, 0x1051, 0x100, ""},
		{"no view", StoreUser, SLUB61, 0, 0, ""},
		{"no U", Sanity, SLUB61, 0x1000, 0x100, ""},
		{"2.6", StoreUser, SLAB26, 0x1000, 0x100, ""},
	} {
		k, _, told := leaving(t, c.flags, c.rules)
		k.SetTrack(AllocTrack, 0x1048, by)
		m := k.Mem.(*trackMem)
		m.asked = nil
		if c.bytes > 0 {
			k.ViewAt, k.View = c.from, m.b[c.from-0x1000:][:c.bytes]
		}
		k.WrongCache("other", 0x1048)
		want := "WARNING mine (" + c.rules.String() +
			"): Wrong slab cache. other but object is from mine\n" + c.want
		if got := (*told)[0].String(); got != want {
			t.Errorf("%s: printed\n%s\nwant\n%s", c.name, got, want)
		}
		if len(m.asked) > 0 {
			t.Errorf("%s: reached %v", c.name, m.asked)
		}
	}
}
