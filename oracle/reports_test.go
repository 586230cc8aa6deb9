package oracle_test

import (
	"fmt"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// A titleOf is a title under a set of rules.
type titleOf struct {
	rules debugcheck.Rules
	title string
}

// shown is what the committed seeds made the debug checks report.
type shown struct {
	made   map[titleOf]string // the first program that did
	stated map[titleOf]string // the first program that did where its text says so
}

// TestReports: for every title that can be reached and each set of rules that has it a
// seed makes the report and states it, no seed makes one that is out of reach, and every
// sound subject that debugs bears the seeds out. With -v it prints the table.
func TestReports(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	s := shown{map[titleOf]string{}, map[titleOf]string{}}
	for f := range corpus.Seeds() {
		p := compiled(t, f)
		for _, v := range all.Variants() {
			if !v.Sound || !v.Caps.Has(impls.CapDebug) {
				continue
			}
			out, err := r.Judge(p, v, oracle.Options{})
			switch {
			case err != nil:
				t.Errorf("%s on %s: %v", f.Name, v.Name, err)
			case out.Finding != nil:
				t.Errorf("%s on %s: %s", f.Name, v.Name, out.Finding.Fault)
			}
			if err == nil && out.Left == "" {
				s.collect(f.Name, p, v, out.Events)
			}
		}
	}
	for _, e := range debugcheck.Titles() {
		for rules := debugcheck.SLUB61; rules <= debugcheck.Guard; rules++ {
			s.judge(t, &e, rules)
		}
	}
}

// collect notes the reports of one run.
func (s *shown) collect(name string, p *oracle.Compiled, v *impls.Variant, events []impls.Event) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "corpus/seeds/"), ".prog")
	for i := range events {
		ev := &events[i]
		for n, report := range ev.Reports {
			k := titleOf{report.Rules, report.Title}
			if s.made[k] == "" {
				s.made[k] = name
			}
			if n == 0 && s.stated[k] == "" && states(p.Lines[ev.Op].Src, v, report.Title) {
				s.stated[k] = fmt.Sprintf("%s:%d", name, p.Lines[ev.Op].Src.Pos.Line)
			}
		}
	}
}

// states says whether a line states a report for v.
func states(l *prog.Line, v *impls.Variant, title string) bool {
	for i := range l.Expect {
		x := &l.Expect[i]
		ours := x.Subject == "" || x.Subject == v.Name || x.Subject == v.Alias ||
			strings.HasPrefix(v.Name, x.Subject+"-")
		if ours && x.Outcome == prog.Report && x.Report == title {
			return true
		}
	}
	return false
}

// judge holds what was shown of a title under some rules against the table of titles.
func (s *shown) judge(t *testing.T, e *debugcheck.TitleEntry, rules debugcheck.Rules) {
	t.Helper()
	k := titleOf{rules, e.Title}
	made, stated := s.made[k], s.stated[k]
	switch {
	case !e.Rules.Has(rules):
		if made != "" {
			t.Errorf("%s: %s has no %q", made, rules, e.Title)
		}
		return
	case e.Unreachable != "":
		if made != "" {
			t.Errorf("%s makes %q (%s), which is said to be out of reach: %s", made, e.Title,
				rules, e.Unreachable)
		}
		stated = "out of reach: " + e.Unreachable
	case stated == "":
		t.Errorf("no seed states %q (%s); made by %q", e.Title, rules, made)
	}
	t.Logf("%-6s %-62s %s", rules, e.Title, stated)
}

// TestBusyElsewhere: that a cache was destroyed too early is told with several tasks and
// natively, too, and is no false report there.
func TestBusyElsewhere(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	alone := "allocfuzz 1\ncache c flags=sanity objects=3 size=64\ncpu0 a = alloc c\n" +
		"cpu0 destroy c\ncpu0 free c a\ncpu0 destroy c => ok\n"
	two := "allocfuzz 1\nmachine cpus=2\ncache c flags=sanity objects=3 size=64\n" +
		"cpu0 a = alloc c\ncpu1 destroy c\ncpu1 free c a\ncpu1 destroy c => ok\n"
	for _, v := range all.Variants() {
		if !v.Sound || !v.Caps.Has(impls.CapDebug) {
			continue
		}
		for _, opt := range []oracle.Options{{Native: true}, {}} {
			text := two
			if opt.Native {
				text = alone
			}
			res := r.Run(compile(t, text), v, opt)
			res.Expect()
			told := 0
			for i := range res.Events {
				told += len(res.Events[i].Reports)
			}
			want := 1
			if v.Rules == debugcheck.Guard {
				want = 0 // it has no such report
			}
			if len(res.Faults) > 0 || told != want {
				t.Errorf("%s, native %v: %d reports, %v", v.Name, opt.Native, told, res.Faults)
			}
		}
	}
}
