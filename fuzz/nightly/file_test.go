package nightly

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz"
)

// TestSame: what this night has filed, or a committed program expects, is not filed again, by
// whichever of its titles it comes.
func TestSame(t *testing.T) {
	w := &work{out: t.TempDir(), known: &fuzz.Known{}}
	w.known.Add("slub-2008-cmpxchg", "freelist leaves its slab", "wild address")
	s := &State{Filed: []Filed{{Report: "first.txt", Subject: "slub-2008-cmpxchg",
		Title: "object handed out twice", Also: []string{"live object on a freelist"},
		Fate: Regression}}}
	for _, x := range []struct{ title, also, why string }{
		{"object handed out twice", "", "this night"},
		{"contents changed", "live object on a freelist", "this night"},
		{"wild address", "", "a committed program"},
		{"slab lost", "pages leaked; freelist leaves its slab", "a committed program"},
	} {
		text := "TITLE: slub-2008-cmpxchg: " + x.title + "\nCLASS: ownership\n"
		if x.also != "" {
			text += "ALSO: " + x.also + "\n"
		}
		text += "IDENTITY: slub-2008-cmpxchg: " + x.title + " in alloc\nREPLAY: allocfuzz\n\n"
		if err := os.WriteFile(filepath.Join(w.out, "x.txt"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := w.File(t.Context(), s, "x.txt")
		if err != nil || got.Fate != Same || !strings.HasPrefix(got.Why, x.why) {
			t.Errorf("%s: %+v, error %v", x.title, got, err)
		}
	}
}
