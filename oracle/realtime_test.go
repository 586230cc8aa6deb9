package oracle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"allocfuzz/corpus"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
	"allocfuzz/oracle/sched"
)

var lendWord = machine.Atomic("lender", "word")

// lender is a toy whose realloc gives the old memory back for a moment, and takes it again
// where it stays. The bytes it keeps meanwhile.
type lender struct {
	*toy
	word machine.Word
}

func (l *lender) Sizes() impls.Allocator { return l }

// Realloc shrinks in place, and refuses to grow.
func (l *lender) Realloc(c *machine.Ctx, p impls.Addr, size uint64, _ impls.AllocFlags) impls.Addr {
	old := l.sizes[p]
	bytes := slices.Clone(l.mem[p : p+old])
	l.free[old] = append(l.free[old], p)
	l.word.Load(c) // here others run
	if i := slices.Index(l.free[old], p); i >= 0 {
		l.free[old] = slices.Delete(l.free[old], i, i+1)
	}
	copy(l.mem[p:], bytes)
	if size > old {
		c.NoteRefusal()
		return 0
	}
	l.sizes[p] = size
	return p
}

func lending() *impls.Variant {
	v := toySubject(toyBug{hidden: true})
	inner := v.New
	v.New = func(m *machine.Machine) impls.Instance {
		l := &lender{toy: inner(m).(*toy)}
		l.word.Init(lendWord, -1, 0)
		return l
	}
	return v
}

// TestLent: memory that is given to somebody else for the length of a realloc which keeps it
// is back when the realloc returns, and its bytes are as before: only the history shows it.
func TestLent(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for _, c := range []struct{ name, realloc, verb string }{
		{"refused", "cpu0 b = realloc a 64", "malloc"},
		{"in place", "cpu0 b = realloc a 40", "malloc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, "allocfuzz 1\nmachine cpus=2\ncpu0 a = malloc 48\n"+c.realloc+
				"\ncpu1 x = malloc 48\ncpu1 free x\n")
			f := r.Singles(p, lending(), oracle.Options{}).Finding
			if f == nil || f.Title != fault.NotLinearizable || len(f.Also) > 0 {
				t.Fatalf("found %+v", f)
			}
			if want := "toy: history not linearizable in " + c.verb; f.Identity() != want {
				t.Errorf("identity %q, want %q", f.Identity(), want)
			}
			off := oracle.Options{Checks: oracle.AllChecks.Without(fault.History)}
			if f := r.Singles(p, lending(), off).Finding; f != nil {
				t.Errorf("without the history: %+v", f)
			}
			right := toySubject(toyBug{hidden: true})
			if f := r.Singles(p, right, oracle.Options{}).Finding; f != nil {
				t.Errorf("where nothing is lent: %+v", f)
			}
		})
	}
}

// lines are the operations of a history in text.
func lines(h *history.History) []string {
	var out []string
	for i := range h.Ops {
		out = append(out, h.Text(i))
	}
	return out
}

// TestHistory: what is written down of a run in line order, and when.
func TestHistory(t *testing.T) {
	const base = 0x100000000
	at := func(n int) string { return fmt.Sprintf("(%#x, 64 bytes)", base+n) }
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"one object each", "\ncache c size=64\ncpu0 a = alloc c\ncpu1 shrink c\n" +
			"cpu1 free c a\n", []string{
			"alloc of cpu0 [1, 2] " + at(0), "free of cpu1 [3, 4] " + at(0)}},
		{"refused", "\ncache c size=64\ncpu0 a = alloc c fail=1\ncpu1 free c a\n",
			[]string{"alloc of cpu0 [1, 2] refused"}},
		{"bulk", "\ncache c size=64\ncpu0 a,b = allocbulk c\ncpu1 freebulk c b a\n", []string{
			"alloc of cpu0 [1, 3] " + at(0), "alloc of cpu0 [2, 4] " + at(64),
			"free of cpu1 [5, 7] " + at(64), "free of cpu1 [6, 8] " + at(0)}},
		{"not taken back", "\ncache c flags=sanity,redzone size=64\ncpu0 a = alloc c\n" +
			"cpu0 overrun a 1\ncpu1 free c a\n", []string{
			"alloc of cpu0 [1, 2] (0x100000008, 64 bytes)", "free of cpu1 [3, 4]"}},
		{"bulk not taken back", "\ncache c flags=sanity,redzone size=64\ncpu0 a,b = allocbulk c\n" +
			"cpu0 overrun b 1\ncpu1 freebulk c a b\n", []string{
			"alloc of cpu0 [1, 3] (0x100000008, 64 bytes)",
			"alloc of cpu0 [2, 4] (0x100000060, 64 bytes)",
			"free of cpu1 [5, 7] (0x100000008, 64 bytes)", "free of cpu1 [6, 8]"}},
		{"realloc", "\ncpu0 a = malloc 64\ncpu1 b = realloc a 100\ncpu0 free b\n", []string{
			"malloc of cpu0 [1, 2] " + at(0),
			"realloc of cpu1 [3, 4] (0x100000000, 64 bytes to 0x100001000, 100 bytes)",
			"free of cpu0 [5, 6] (0x100001000, 100 bytes)"}},
		{"realloc, the old not taken back", " debug=\"FZ\"\ncpu0 a = malloc 64\n" +
			"cpu0 overrun a 8\ncpu1 b = realloc a 100\ncpu0 free b\n", []string{
			"malloc of cpu0 [1, 2] (0x100000040, 64 bytes)",
			"realloc of cpu1 [3, 4] (0x100002080, 100 bytes)",
			"free of cpu0 [5, 6] (0x100002080, 100 bytes)"}},
		{"realloc refused", "\ncpu0 a = malloc 64\ncpu1 b = realloc a 100 fail=1\n" +
			"cpu0 c = malloc 8\n", []string{
			"malloc of cpu0 [1, 2] " + at(0), "realloc of cpu1 [3, 4] refused",
			"malloc of cpu0 [5, 6] (0x100001000, 8 bytes)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := oracle.NewRunner()
			t.Cleanup(r.Close)
			p := compile(t, "allocfuzz 1\nmachine cpus=2"+c.text)
			res := r.Run(p, subject(t, "slub-2022-debug-locked"), oracle.Options{})
			if len(res.Faults) > 0 {
				t.Fatal(res.Faults)
			}
			if got := lines(res.History); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
			if n := res.Counts.Checked[fault.History]; n != len(c.want) {
				t.Errorf("%d operations were checked", n)
			}
		})
	}
}

// TestNoHistory: of a single task, and with the rule off, none is written down.
func TestNoHistory(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-seq")
	off := oracle.Options{Checks: oracle.AllChecks.Without(fault.History)}
	for _, c := range []struct {
		text string
		opt  oracle.Options
		want bool
	}{
		{"cpu0 b = malloc 8\n", oracle.Options{}, false},
		{"cpu1 b = malloc 8\n", oracle.Options{}, true},
		{"irq0 b = malloc 8\n", oracle.Options{}, true},
		{"cpu1 b = malloc 8\n", off, false},
	} {
		p := compile(t, "allocfuzz 1\nmachine cpus=2\ncpu0 a = malloc 8\n"+c.text)
		res := r.Run(p, v, c.opt)
		if (res.History != nil) != c.want || (res.Counts.Checked[fault.History] > 0) != c.want {
			t.Errorf("%q: %v, %d checked", c.text, res.History, res.Counts.Checked[fault.History])
		}
	}
}

// TestCorpusInTime: porcupine agrees with the check on what committed programs do, in line
// order and under their schedules.
func TestCorpusInTime(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	count := map[linear.Verdict]int{}
	for f := range corpus.All() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		c, err := oracle.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if c.Sequential() {
			continue
		}
		for _, v := range all.Variants() {
			if ok, _ := oracle.Applies(c, v); !ok {
				continue
			}
			for i := -1; i < len(p.Scheds); i++ {
				if i >= 0 && p.Scheds[i].Subject != v.Name {
					continue
				}
				opt := oracle.Options{}
				if i >= 0 {
					opt.Chooser = replaying(t, c, i)
				}
				res := r.Run(c, v, opt)
				want := linear.Linearizable
				for _, f := range res.Faults {
					if f.Title == fault.NotLinearizable {
						want = linear.NotLinearizable
					}
				}
				got := linear.Check(res.History, time.Hour)
				if count[got]++; got != want {
					t.Errorf("%s on %s, schedule %d: porcupine says %v, the check %v", p.File,
						v.Name, i, got, want)
				}
			}
		}
	}
	if count[linear.Linearizable] < 100 || count[linear.NotLinearizable] == 0 {
		t.Errorf("%v: this says little", count)
	}
}

// replaying is the chooser of a program's schedule.
func replaying(t *testing.T, c *oracle.Compiled, i int) machine.Chooser {
	t.Helper()
	anchors, err := c.Anchors(&c.Prog.Scheds[i])
	if err != nil {
		t.Fatal(err)
	}
	return sched.NewReplay(sched.Repair, anchors)
}
