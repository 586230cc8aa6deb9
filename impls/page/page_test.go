package page_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// A step is one call in a table: a block asked for ("a order") or given back.
type step struct {
	free  bool
	order int
	pfn   int // expected, -1 for none; free: the block's first page
}

func take(order, pfn int) step { return step{order: order, pfn: pfn} }
func give(order, pfn int) step { return step{free: true, order: order, pfn: pfn} }

func TestBuddy(t *testing.T) {
	tests := []struct {
		name  string
		pages int
		steps []step
		free  int
	}{
		{"lowest first", 16, []step{take(0, 0), take(0, 1), take(0, 2), take(2, 4)}, 9},
		{"split keeps the upper halves", 16,
			[]step{take(0, 0), take(1, 2), take(2, 4), take(3, 8), take(0, 1), take(0, -1)}, 0},
		{"join up to the whole", 8,
			[]step{take(0, 0), take(0, 1), take(1, 2), take(2, 4),
				give(0, 0), give(1, 2), take(3, -1), give(2, 4), take(3, -1), give(0, 1),
				take(3, 0)}, 0},
		{"last freed comes first", 4,
			[]step{take(0, 0), take(0, 1), take(0, 2), take(0, 3),
				give(0, 3), give(0, 0), take(0, 0), take(0, 3)}, 0},
		{"buddy of another order stays apart", 4,
			[]step{take(1, 0), take(0, 2), give(1, 0), take(0, 3), give(0, 2), take(1, 0),
				take(0, 2)}, 0},
		{"removal from the middle of a list", 8,
			[]step{take(0, 0), take(0, 1), take(0, 2), take(0, 3), take(0, 4), take(0, 5),
				give(0, 1), give(0, 3), give(0, 5), give(0, 2),
				take(1, 2), take(1, 6), take(0, 5), take(0, 1)}, 0},
		{"odd arena", 7, []step{take(2, 0), take(1, 4), take(0, 6), take(0, -1),
			give(1, 4), give(0, 6), take(2, -1), give(2, 0)}, 7},
		{"one page", 1, []step{take(1, -1), take(0, 0), give(0, 0), take(0, 0)}, 0},
		{"orders out of range", 16,
			[]step{take(-1, -1), take(5, -1), take(11, -1), take(64, -1)}, 16},
		{"several of the largest", 4096 + 3,
			[]step{take(10, 0), take(10, 1024), take(10, 2048), take(0, 4098), take(0, 4096)},
			1025},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, b := machineOf(t, tt.pages, 1)
			run(t, m, func(c *machine.Ctx) {
				for i, s := range tt.steps {
					play(t, c, b, i, s)
				}
			})
			check(t, b, tt.free)
			noFaults(t, m)
		})
	}
}

func play(t *testing.T, c *machine.Ctx, b *page.Buddy, i int, s step) {
	t.Helper()
	if s.free {
		b.Free(c, c.Machine().PageAt(s.pfn), s.order)
		return
	}
	p := b.Alloc(c, s.order)
	switch {
	case p == nil && s.pfn >= 0:
		t.Errorf("step %d: no block of order %d, want page %d", i, s.order, s.pfn)
	case p != nil && p.PFN() != s.pfn:
		t.Errorf("step %d: page %d, want %d", i, p.PFN(), s.pfn)
	case p != nil && (p.Order() != s.order || p.PFN()%(1<<s.order) != 0):
		t.Errorf("step %d: page %d has order %d, want %d aligned", i, p.PFN(), p.Order(), s.order)
	}
}

// TestWhole allocates and frees at every order in many ways and takes the whole
// arena at the end.
func TestWhole(t *testing.T) {
	for _, pages := range []int{1, 3, 16, 21, 64, 1024, 1500} {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			m, b := machineOf(t, pages, 1)
			run(t, m, func(c *machine.Ctx) {
				for round := 0; round < 5; round++ {
					churn(t, c, b, round)
				}
				for n := 0; n < pages; n++ {
					c.BeginLine(0, [2]int32{})
					if b.Alloc(c, 0) == nil {
						t.Fatalf("%d of %d pages", n, pages)
					}
				}
			})
			check(t, b, 0)
			noFaults(t, m)
		})
	}
}

// churn takes blocks until nothing is left and gives them back in another order.
func churn(t *testing.T, c *machine.Ctx, b *page.Buddy, round int) {
	var taken []*machine.Page
	owner := map[int]int{}
	for i := 0; ; i++ {
		c.BeginLine(0, [2]int32{})
		p := b.Alloc(c, (i*7+round)%4)
		if p == nil {
			if p = b.Alloc(c, 0); p == nil {
				break
			}
		}
		for n := 0; n < 1<<p.Order(); n++ {
			if by, ok := owner[p.PFN()+n]; ok {
				t.Fatalf("page %d is in the blocks of %d and %d", p.PFN()+n, by, p.PFN())
			}
			owner[p.PFN()+n] = p.PFN()
		}
		taken = append(taken, p)
	}
	if n := b.FreePages(); n != 0 {
		t.Fatalf("%d pages free though none could be had", n)
	}
	for len(taken) > 0 {
		c.BeginLine(0, [2]int32{})
		i := (len(taken)*5 + round) % len(taken)
		b.Free(c, taken[i], taken[i].Order())
		taken = append(taken[:i], taken[i+1:]...)
		check(t, b, -1)
	}
}

func TestViews(t *testing.T) {
	m, b := machineOf(t, 8, 1)
	run(t, m, func(c *machine.Ctx) {
		p := c.AllocPages(1, true)
		views(t, m, 0, 2, machine.ViewNone)
		if got := m.PageOf(m.PageAt(1).Addr()); got != p {
			t.Errorf("page 1 is of block %d, want 0", got.PFN())
		}
		c.FreePages(p)
		views(t, m, 0, 2, machine.ViewBuddy)
		p = c.AllocPages(0, true)
		views(t, m, 0, 1, machine.ViewNone)
		views(t, m, 1, 2, machine.ViewBuddy)
		c.FreePages(p)
	})
	check(t, b, 8)
	noFaults(t, m)
}

func views(t *testing.T, m *machine.Machine, from, to int, want machine.View) {
	t.Helper()
	for pfn := from; pfn < to; pfn++ {
		for _, r := range []machine.Region{machine.RegionLinks, machine.RegionBody} {
			if got := m.PageAt(pfn).CurrentView(r); got != want {
				t.Errorf("page %d is used as %s, want %s", pfn, got, want)
			}
		}
	}
}

// TestWrongFree gives back what is not given out: a finding, and nothing changes.
func TestWrongFree(t *testing.T) {
	tests := []struct {
		name  string
		pfn   int
		order int
	}{
		{"twice", 2, 0},
		{"never given out", 12, 0},
		{"joined into another", 3, 0},
		{"inside a block", 5, 0},
		{"smaller order", 4, 1},
		{"larger order", 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, b := machineOf(t, 16, 1)
			run(t, m, func(c *machine.Ctx) {
				for _, s := range []step{take(0, 0), take(1, 2), take(2, 4), give(1, 2)} {
					play(t, c, b, 0, s)
				}
				b.Free(c, m.PageAt(tt.pfn), tt.order)
			})
			check(t, b, 11)
			titles(t, m, fault.StaleView)
		})
	}
}

// TestWrittenWhileFree changes the descriptor of a free page: the run ends with a
// finding and no Go panic.
func TestWrittenWhileFree(t *testing.T) {
	m, b := machineOf(t, 16, 1)
	run(t, m, func(c *machine.Ctx) {
		p := b.Alloc(c, 0)
		b.Free(c, p, 0)
		p.Scribble(1 << 40)
		b.Alloc(c, 1)
		t.Error("the run went on")
	})
	titles(t, m, fault.WildAddress)
}

// testWord is a field of the tests: fields are declared before the first machine.
var testWord = machine.Atomic("test", "word")

func TestActor(t *testing.T) {
	m, b := machineOf(t, 4, 1)
	word := machine.PageField(testWord,
		machine.RegionBody, machine.ViewPageCache, 0)
	run(t, m, func(c *machine.Ctx) {
		a := page.NewActor(m)
		x := a.AllocPages(c, 1, 0)
		if x != m.Base {
			t.Errorf("pages at %#x, want %#x", x, m.Base)
		}
		views(t, m, 0, 2, machine.ViewPageCache)
		if word.Peek(m.PageAt(0)) == 0 || word.Peek(m.PageAt(0)) == word.Peek(m.PageAt(1)) {
			t.Error("descriptors were not written over")
		}
		if y := a.AllocPages(c, 2, 0); y != 0 {
			t.Errorf("pages at %#x of a full arena", y)
		}
		if c.Refused() != 1 {
			t.Errorf("%d requests refused, want 1", c.Refused())
		}
		a.FreePages(c, c.AllocPages(0, true).Addr()) // somebody else's
		a.FreePages(c, x)
		a.Drain(c)
		a.FreePages(c, x)
		a.FreePages(c, 16)
	})
	check(t, b, 3)
	titles(t, m, fault.StaleView, fault.StaleView, fault.WildAddress)
}

// TestFailure makes the second request fail.
func TestFailure(t *testing.T) {
	m, b := machineOf(t, 4, 1)
	run(t, m, func(c *machine.Ctx) {
		a := page.NewActor(m)
		c.FailPage(2)
		var got []bool
		for range 3 {
			got = append(got, a.AllocPages(c, 0, 0) != 0)
		}
		if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
			t.Error(diff)
		}
	})
	check(t, b, 2)
	noFaults(t, m)
}

// at delivers its handler at the k-th point.
type at struct {
	k, n int
	h    *machine.Handler
	to   *machine.Ctx
}

func (a *at) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	act := machine.Action{Kind: machine.Interrupt, Handler: a.h}
	if a.to != nil {
		act = machine.Action{Kind: machine.SwitchTo, Task: a.to}
	}
	a.n++
	if a.n == a.k && c.Allowed(p, act) {
		return act
	}
	return machine.Action{}
}

// TestEverywhere lets an interrupt, or another CPU, ask for pages and give them
// back at every point.
func TestEverywhere(t *testing.T) {
	body := func(c *machine.Ctx) {
		x, y := c.AllocPages(0, false), c.AllocPages(1, false)
		if x == nil || y == nil {
			t.Error("no page")
			return
		}
		c.FreePages(x)
		c.FreePages(y)
	}
	for _, cpus := range []int{1, 2} {
		for k := 1; ; k++ {
			m, b := machineOf(t, 16, cpus)
			ch := &at{k: k}
			if cpus == 1 {
				ch.h = &machine.Handler{CPU: 0, Name: "irq0", Pos: 1, Body: line(0, body)}
				m.AddHandler(ch.h)
			} else {
				ch.to = m.AddTask("cpu1", 1, 1, true, line(1, body))
			}
			m.AddTask("cpu0", 0, 0, true, line(0, body))
			if err := m.Sim().Run(ch); err != nil {
				t.Fatal(err)
			}
			check(t, b, 16)
			noFaults(t, m)
			if ch.n < k {
				break
			}
		}
	}
}

func line(pos int, body func(*machine.Ctx)) func(*machine.Ctx) {
	return func(c *machine.Ctx) {
		c.BeginLine(pos, [2]int32{})
		body(c)
		c.EndLine(machine.After)
	}
}

// TestNative has goroutines share one arena.
func TestNative(t *testing.T) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs, cfg.Pages = true, 2, 64
	m := machine.New(cfg)
	b := page.New(m)
	m.SetPageLayer(b)
	var wg sync.WaitGroup
	for i := range cfg.CPUs {
		wg.Go(func() {
			c := m.NativeCtx(i, "stress")
			defer c.Release()
			for n := 0; n < 2000; n++ {
				x, y := c.AllocPages(n%4, true), c.AllocPages(0, true)
				c.FreePages(x)
				c.FreePages(y)
			}
		})
	}
	wg.Wait()
	check(t, b, 64)
	noFaults(t, m)
}

func BenchmarkNewFirst(b *testing.B) {
	for _, pages := range []int{16, 65536} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			cfg := machine.DefaultConfig()
			cfg.Native, cfg.Pages, cfg.PageSize = true, pages, 64
			m := machine.New(cfg)
			c := m.NativeCtx(0, "bench")
			b.ReportAllocs()
			for b.Loop() {
				l := page.New(m)
				m.SetPageLayer(l)
				c.FreePages(c.AllocPages(0, true))
			}
		})
	}
}

// machineOf is a machine with its page layer.
func machineOf(t *testing.T, pages, cpus int) (*machine.Machine, *page.Buddy) {
	t.Helper()
	cfg := machine.DefaultConfig()
	cfg.Pages, cfg.CPUs = pages, cpus
	m := machine.New(cfg)
	t.Cleanup(m.Close)
	b := page.New(m)
	m.SetPageLayer(b)
	return m, b
}

// run runs body as the one line of a task.
func run(t *testing.T, m *machine.Machine, body func(*machine.Ctx)) {
	t.Helper()
	m.AddTask("cpu0", 0, 0, true, line(0, body))
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
}

// check looks at the counters; free -1 for any number.
func check(t *testing.T, b *page.Buddy, free int) {
	t.Helper()
	var s impls.Snapshot
	b.Snapshot(&s)
	for _, n := range s.Counts {
		if n.Stored != n.Counted {
			t.Errorf("%s is %d, counted %d", n.Name, n.Stored, n.Counted)
		}
	}
	if free >= 0 && s.PagesFree != free {
		t.Errorf("%d pages free, want %d", s.PagesFree, free)
	}
}

func noFaults(t *testing.T, m *machine.Machine) {
	t.Helper()
	titles(t, m)
}

func titles(t *testing.T, m *machine.Machine, want ...fault.Title) {
	t.Helper()
	var got []fault.Title
	for _, f := range m.Faults() {
		got = append(got, f.Title)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s%v", diff, m.Faults())
	}
}
