package pairs

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls/all"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// TestPagesSeen: a witness writes down every page that goes and comes, in order, and a
// refusal, where pages are compared.
func TestPagesSeen(t *testing.T) {
	for view, want := range map[View]string{
		Whole: "pages page=0 order=1\npages page=2 order=0\nno pages order=2\n" +
			"back page=0 order=1\nback page=2 order=0\n",
		Outcomes: "",
	} {
		cfg := machine.DefaultConfig()
		cfg.Pages = 4
		m := machine.New(cfg)
		w := &witness{view: view, PageLayer: page.New(m)}
		m.SetPageLayer(w)
		m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
			c.BeginLine(0, [2]int32{})
			two, one := c.AllocPages(1, false), c.AllocPages(0, false)
			if c.AllocPages(2, false) != nil {
				t.Error("four pages more")
			}
			c.FreePages(two)
			c.FreePages(one)
			c.EndLine(machine.After)
		})
		if err := m.Sim().Run(nil); err != nil {
			t.Fatal(err)
		}
		m.Close()
		if got := string(w.seen); got != want {
			t.Errorf("seen\n%swant\n%s", got, want)
		}
	}
}

// TestLines: numbers keep their sign, addresses are told as such, and the first line that
// differs is found, also where one side is longer.
func TestLines(t *testing.T) {
	got := string(line(nil, "a", field{"x", ^uint64(0)}, field{"y", 12}, field{"z", 1 << 40}))
	if want := "a x=-1 y=12 z=0x10000000000\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, tt := range []struct {
		a, b, x, y string
		n          int
	}{
		{"1\n2\n", "1\n3\n", "2", "3", 1}, {"1\n", "1\n3\n", "", "3", 1},
		{"4\n", "", "4", "", 0}, {"4\n", "4\n", "", "", -1},
	} {
		n, x, y, ok := differs([]byte(tt.a), []byte(tt.b))
		if ok != (tt.n >= 0) || ok && (n != tt.n || x != tt.x || y != tt.y) {
			t.Errorf("%q, %q: line %d, %q, %q, %v", tt.a, tt.b, n, x, y, ok)
		}
	}
}

// TestPlaces: where colours are left out each object that is handed out goes by the page
// and its number in the slab, and what is in no slab by its page.
func TestPlaces(t *testing.T) {
	const text = "allocfuzz 1\ncache c objects=2 size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\n" +
		"cpu0 d = alloc c\ncpu0 p = pages 0\ncpu0 free c b\ncpu0 e = alloc c\n"
	prg, err := prog.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(prg)
	if err != nil {
		t.Fatal(err)
	}
	r := oracle.NewRunner()
	defer r.Close()
	a, _ := all.Lookup("slab-colour-locked")
	b, _ := all.Lookup("slab-colour-racy")
	p := New(&Row{A: a.Name, B: b.Name, View: Uncoloured}, a, b)
	out, err := p.Run(r, c, sched.Strict, nil)
	if err != nil || out.Left != "" || out.Fault != nil {
		t.Fatal(out, err)
	}
	var got []string
	for l := range strings.Lines(string(p.seen[1].seen)) {
		if strings.HasPrefix(l, "object") || strings.HasPrefix(l, "memory") {
			got = append(got, strings.TrimSpace(l))
		}
	}
	want := []string{"object contents=1 page=0 number=0", "object contents=2 page=0 number=1",
		"object contents=3 page=1 number=0", "memory contents=4 page=2",
		"object contents=6 page=0 number=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
