package prog

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentation demands that the program in the package comment is canonical, and that the
// comment mentions every verb, key and word of the format.
func TestDocumentation(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	_, rest, _ := strings.Cut(doc, "This is a whole one:\n//\n")
	block, _, _ := strings.Cut(rest, "//\n// # Words")
	var text strings.Builder
	for line := range strings.Lines(block) {
		text.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "//"), "\t"))
	}
	p, err := ParseString(text.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	if d := cmp.Diff(text.String(), p.String()); d != "" {
		t.Errorf("not canonical (-doc +printed):\n%s", d)
	}
	words := append(append([]string(nil), kindNames[:]...), outcomeNames[:]...)
	words = append(words, preemptNames[:]...)
	for i := range Ops {
		words = append(words, Ops[i].Name)
	}
	for _, keys := range [][]KeyArg{SpecKeys, machineKeys, taskKeys} {
		for i := range keys {
			words = append(words, keys[i].Name)
		}
	}
	for _, w := range words {
		if !strings.Contains(doc, w) {
			t.Errorf("doc.go does not mention %s", w)
		}
	}
}

// TestSmallSurface holds what nothing else calls here.
func TestSmallSurface(t *testing.T) {
	p, err := ParseString(objs + "irq0 b = alloc c\nsched\n" +
		"at irq0/alloc(b) end - 1: move cpu0, none\n")
	if err != nil {
		t.Fatal(err)
	}
	d := &p.Scheds[0].Departures[0]
	l, path, err := NewIndex(p).Target(&d.Where)
	if err != nil || l != &p.Lines[1] || !cmp.Equal(path, []int{1}) || !l.Ctx.IsIRQ() {
		t.Errorf("target %v (%v)", path, err)
	}
	if _, _, err := p.FindRef(LineRef{Label: "x"}); err == nil {
		t.Error("a label that is none was found")
	}
	if _, _, err := NewIndex(p).Target(&Where{}); err == nil {
		t.Error("a place that is none was found")
	}
	if got := d.Actions[0].String() + "," + d.Actions[1].String(); got != "move cpu0,none" {
		t.Errorf("actions %s", got)
	}
	s := NewCacheSpec(0)
	if s.Check() == nil {
		t.Error("an object of no size was accepted")
	}
	s.Size = 8
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for i := range Ops {
		if Ops[i].Class.String() == "?" {
			t.Errorf("%s: class without a word", Ops[i].Name)
		}
	}
	var names []string
	for i := range 20 {
		names = append(names, "n"+string(rune('a'+i)))
	}
	many := cache + "cpu0 " + strings.Join(names, ",")
	if _, err := ParseString(many + " = allocbulk c\n"); err != nil {
		t.Error(err)
	}
	want := "3:66: allocbulk: name na given twice; expected different names"
	if _, err := ParseString(many + ",na = allocbulk c\n"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
