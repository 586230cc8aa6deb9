package oracle_test

import (
	"slices"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// bentPages is a page allocator of which a test breaks one thing; nil fields are right.
type bentPages struct {
	impls.Instance
	show  func(s *impls.Snapshot)
	alloc func(p impls.Pages, c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr
	drain func(c *machine.Ctx)
}

func (b *bentPages) Pages() impls.Pages { return bentCalls{b.Instance.Pages(), b} }

func (b *bentPages) Offline(c *machine.Ctx, cpu int) error {
	return b.Instance.(impls.Hotplugger).Offline(c, cpu)
}

func (b *bentPages) Snapshot(s *impls.Snapshot) bool {
	ok := b.Instance.Snapshot(s)
	if b.show != nil {
		b.show(s)
	}
	return ok
}

type bentCalls struct {
	impls.Pages
	b *bentPages
}

func (k bentCalls) AllocPages(c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr {
	if k.b.alloc != nil {
		return k.b.alloc(k.Pages, c, order, f)
	}
	return k.Pages.AllocPages(c, order, f)
}

func (k bentCalls) Drain(c *machine.Ctx) {
	if k.b.drain != nil {
		k.b.drain(c)
		return
	}
	k.Pages.Drain(c)
}

// bend is the allocator with pools, bent.
func bend(t *testing.T, by bentPages) *impls.Variant {
	t.Helper()
	v := *subject(t, "page-2001-percpu-irqfirst")
	set := v.New
	v.New = func(m *machine.Machine) impls.Instance {
		b := by
		b.Instance = set(m)
		return &b
	}
	return &v
}

// refuse says no to every request and gives a reason that satisfies the check of ownership.
func refuse(_ impls.Pages, c *machine.Ctx, _ int, _ impls.AllocFlags) impls.Addr {
	c.NoteRefusal()
	return 0
}

// refuseSecond says no as soon as one page is in use.
func refuseSecond(p impls.Pages, c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr {
	if c.Machine().PageLayer().FreePages() < c.Machine().Pages {
		return refuse(p, c, order, f)
	}
	return p.AllocPages(c, order, f)
}

// skip hands out the second page that it gets for a request that must not sleep, and gives
// the first one back.
func skip(p impls.Pages, c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr {
	a := p.AllocPages(c, order, f)
	if f&impls.FlagAtomic == 0 {
		return a
	}
	b := p.AllocPages(c, order, f)
	p.FreePages(c, a)
	return b
}

// shifted hands out blocks of two pages at odd ones.
func shifted(p impls.Pages, c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr {
	a := p.AllocPages(c, order, f)
	if order == 1 {
		a += uint64(c.Machine().PageSize)
	}
	return a
}

// drainAtTheEnd does nothing while a page is in use.
func drainAtTheEnd(c *machine.Ctx) {
	if l := c.Machine().PageLayer(); l.FreePages() == c.Machine().Pages {
		l.Drain(c)
	}
}

const freed = "cpu0 a = pages 0\ncpu0 pagesfree a\n"

// TestPageRules: every rule about pages is raised when a page allocator breaks it, and no
// fault at all when it does not.
func TestPageRules(t *testing.T) {
	rows := []struct {
		name  string
		title fault.Title
		text  string
		by    bentPages
	}{
		{"misaligned", fault.Misaligned, "cpu0 a = pages 1\n", bentPages{alloc: shifted}},
		{"unjoined", fault.BuddiesApart, "cpu0 a = pages 2\ncheck\n",
			bentPages{show: func(s *impls.Snapshot) {
				for i := range s.Blocks {
					if b := &s.Blocks[i]; b.Order == 3 {
						b.Order = 2
						s.Blocks = append(s.Blocks, impls.Block{Page: b.Page + 4, Order: 2})
						return
					}
				}
			}}},
		{"pool limit", fault.PoolLimit, freed + "check\n",
			bentPages{show: func(s *impls.Snapshot) { s.Pools[0].Max = 0 }}},
		{"live and free", fault.LiveOnFreelist, "cpu0 a = pages 0\ncheck\n",
			bentPages{show: func(s *impls.Snapshot) {
				s.Blocks = append(s.Blocks, impls.Block{})
			}}},
		{"lost", fault.PagesLeaked, "cpu0 a = pages 0\ncheck\n",
			bentPages{show: func(s *impls.Snapshot) { s.Blocks = s.Blocks[1:] }}},
		{"lost with its name", fault.PagesLeaked, "cpu0 a = pages 0\ncpu0 a = pages 0\ncheck\n",
			bentPages{show: func(s *impls.Snapshot) { s.Blocks = s.Blocks[1:] }}},
		{"not drained", fault.PagesLeaked,
			"cpu0 a = pages 0\ncpu0 b = pages 0\ncpu0 pagesfree a\ncpu0 drain\n",
			bentPages{drain: drainAtTheEnd}},
		{"held out of use", fault.HeldOn, "machine cpus=2\ncpu0 offline cpu=1\n",
			bentPages{show: func(s *impls.Snapshot) {
				s.Pools[1].Pages = append(s.Pools[1].Pages, s.Blocks[0].Page)
			}}},
		{"not drained at the end", fault.PagesLeaked, freed,
			bentPages{drain: func(*machine.Ctx) {}}},
		{"refused block", fault.RefusedNoReason, "cpu0 a = pages 1\n", bentPages{alloc: refuse}},
		{"refused page of the pool", fault.RefusedNoReason,
			"machine pages=2\ncpu0 a = pages 0\ncpu0 b = pages 0\ncpu0 pagesfree b\n" +
				"cpu0 d = pages 0\ncpu0 pagesfree d\ncpu0 e = pages 0\n",
			bentPages{alloc: refuseSecond}},
		{"another page", fault.ReuseOrder, freed + "cpu0 b = pages 0 flags=atomic\n",
			bentPages{alloc: skip}},
	}
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := compile(t, "allocfuzz 1\n"+row.text)
			if got := titles(r.Run(p, bend(t, row.by), oracle.Options{})); !slices.Contains(got,
				row.title) {
				t.Errorf("found %q, want %s", got, row.title)
			}
			if res := r.Run(p, bend(t, bentPages{}), oracle.Options{}); len(res.Faults) > 0 {
				t.Errorf("without the bug: %q", res.Faults)
			}
		})
	}
}

// TestPageRefusals: what is refused for a reason is none of the above.
func TestPageRefusals(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for _, text := range []string{
		"cpu0 a = pages 1 fail=1 => enomem\n",
		"cpu0 a = pages 5 => enomem\n",
		"cpu0 a = pages 11 => enomem\n",
		"machine pages=1\ncpu0 a = pages 0\ncpu0 b = pages 0 => enomem\n",
	} {
		p := compile(t, "allocfuzz 1\n"+text)
		for _, name := range []string{"page-buddy", "page-2001-percpu"} {
			if res := r.Run(p, subject(t, name), oracle.Options{}); len(res.Faults) > 0 {
				t.Errorf("%s on %s: %q", text, name, res.Faults)
			}
		}
	}
}

// TestPagesOnly: a program that asks for no pages is not for who has nothing else.
func TestPagesOnly(t *testing.T) {
	without := compile(t, "allocfuzz 1\ncpu0 a = malloc 8\n")
	with := compile(t, "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 b = pages 0\n")
	for _, name := range []string{"page-buddy", "slub-2008-irqsave"} {
		v := subject(t, name)
		ok, why := oracle.Applies(without, v)
		if ok != (name != "page-buddy") || ok != (why == "") {
			t.Errorf("%s without pages: %v, %q", name, ok, why)
		}
		if ok, why := oracle.Applies(with, v); !ok {
			t.Errorf("%s with pages: %q", name, why)
		}
	}
}

// TestPoolMove: a task that is moved between asking for its CPU and turning interrupts
// off changes the pool of another CPU. In the other order there is no such point, and with
// no preemption no such move.
func TestPoolMove(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for _, file := range []string{"seeds/page-pool-and-a-move.prog",
		"regress/page-2001-percpu-preempt-move.prog"} {
		p := committed(t, file)
		x := r.Singles(p, subject(t, "page-2001-percpu-preempt"), oracle.Options{})
		if x.Finding == nil || !x.Finding.Matches(string(fault.ForeignPerCPU)) {
			t.Errorf("%s: found %+v in %d schedules", file, x.Finding, x.Schedules)
		}
		for _, name := range []string{"page-2001-percpu-irqfirst", "page-buddy"} {
			x := r.Singles(p, subject(t, name), oracle.Options{})
			if x.Finding != nil || x.Schedules < 10 {
				t.Errorf("%s on %s: found %+v in %d schedules", file, name, x.Finding, x.Schedules)
			}
		}
	}
	p := committed(t, "seeds/page-handler-at-the-pool.prog")
	for _, name := range []string{"page-2001-percpu", "page-2001-percpu-irqfirst"} {
		x := r.Singles(p, subject(t, name), oracle.Options{})
		if x.Finding != nil || x.Schedules < 10 {
			t.Errorf("%s: found %+v in %d schedules", name, x.Finding, x.Schedules)
		}
	}
}
