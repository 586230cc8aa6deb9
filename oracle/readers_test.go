package oracle_test

import (
	"slices"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// TestReaders: how long an object that was freed is kept for readers, and for what else it is
// kept. The subject hands the same memory out for everything.
func TestReaders(t *testing.T) {
	const cache = "machine cpus=2\ncache c flags=rcu size=64\ncpu0 a = alloc c\n"
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := toySubject(second(func(t *toy, _ impls.Addr, _ uint64) impls.Addr { return t.last }))
	for _, tt := range []struct {
		name, text string
		found      bool
	}{
		{"its own section", cache + "cpu0 rculock\ncpu0 free c a\ncpu0 b = malloc 64\n", true},
		{"a section of another context", cache + "cpu1 rculock\ncpu0 free c a\n" +
			"cpu0 b = malloc 8\ncpu1 verify b\n", true},
		{"the same again", cache + "cpu1 rculock\ncpu0 free c a\ncpu0 b = alloc c\n" +
			"cpu1 verify b\n", false},
		{"the same again, and freed again", cache + "cpu1 rculock\ncpu0 free c a\n" +
			"cpu0 b = alloc c\ncpu0 free c b\ncpu0 b = malloc 8\ncpu1 verify b\n", true},
		{"no section", cache + "cpu0 free c a\ncpu0 b = malloc 64\n", false},
		{"a section that began later", cache + "cpu0 free c a\ncpu0 rculock\n" +
			"cpu0 b = malloc 64\n", false},
		{"a section that has ended", cache + "cpu0 rculock\ncpu0 free c a\ncpu0 rcuunlock\n" +
			"cpu0 b = malloc 64\n", false},
		{"one of two has ended", cache + "cpu1 rculock\ncpu0 rculock\ncpu0 free c a\n" +
			"cpu1 rcuunlock\ncpu0 b = malloc 64\ncpu0 rcuunlock\n", true},
		{"ended, and another began behind the free", cache + "cpu0 rculock\ncpu0 free c a\n" +
			"cpu1 rculock\ncpu0 rcuunlock\ncpu0 b = malloc 64\ncpu1 verify b\n", false},
		{"nested", cache + "cpu0 rculock\ncpu0 rculock\ncpu0 free c a\ncpu0 rcuunlock\n" +
			"cpu0 b = malloc 64\n", true},
		{"left open by a context that has ended", cache + "cpu0 rculock\ncpu0 free c a\n" +
			"cpu1 b = malloc 64\n", false},
		{"ended by a check", cache + "cpu0 rculock\ncpu0 free c a\ncheck\ncpu0 b = malloc 64\n",
			false},
		{"no readers' cache", "cache c size=64\ncpu0 a = alloc c\ncpu0 rculock\n" +
			"cpu0 free c a\ncpu0 b = malloc 64\n", false},
		{"another cache of the name", cache + "cpu0 rculock\ncpu0 free c a\ncpu0 destroy c\n" +
			"cpu0 c = create flags=rcu size=64\ncpu0 b = alloc c\n", true},
		{"pages", cache + "cpu0 rculock\ncpu0 free c a\ncpu0 b = pages 0\n", true},
		{"a realloc", cache + "cpu0 rculock\ncpu0 free c a\ncpu0 b = malloc 8\n" +
			"cpu0 b = realloc b 16\n", true},
	} {
		res := r.Run(compile(t, "allocfuzz 1\n"+tt.text), v, oracle.Options{
			Checks: oracle.Checks(1 << fault.Ownership)})
		if got := slices.Contains(titles(res), fault.ReadReuse); got != tt.found {
			t.Errorf("%s: found %v, want %v: %q", tt.name, got, tt.found, res.Faults)
		}
	}
}

// TestWaitingPages: pages that readers may look at are not free, whatever the lists say.
func TestWaitingPages(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\nmachine pages=8\ncpu0 a = pages 0\n")
	v := bend(t, bentPages{show: func(s *impls.Snapshot) {
		s.Waiting = append(s.Waiting, impls.Block{Page: 4, Order: 1})
	}})
	if got := titles(r.Run(p, v, oracle.Options{})); !slices.Equal(got,
		[]fault.Title{fault.LiveOnFreelist}) {
		t.Errorf("found %q", got)
	}
}
