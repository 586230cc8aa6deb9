package detect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// every are the rules of every kernel.
var every = []debugcheck.Rules{debugcheck.SLUB61, debugcheck.SLUB612, debugcheck.SLAB24,
	debugcheck.SLAB26}

// whole is the table of every subject under every rules.
func whole(t *testing.T) []*Table {
	t.Helper()
	tables, err := Tables(all.Variants(), every)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// find is the answer of a subject.
func find(t *testing.T, tables []*Table, c *cell) Answer {
	t.Helper()
	kind := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == c.kind })
	col := slices.IndexFunc(columns, func(f debugcheck.Flags) bool { return f.String() == c.flags })
	if kind < 0 || col < 0 {
		t.Fatalf("no cell %q, %q", c.kind, c.flags)
	}
	for _, x := range tables {
		for _, v := range x.Subjects {
			if v.Name == c.subject && x.Rules == c.rules {
				return x.Answers[kind][col]
			}
		}
	}
	t.Fatalf("no table of %s under %s", c.subject, c.rules)
	return Answer{}
}

// A cell is what the facts say of one kind of misuse under one set of options.
type cell struct {
	subject string
	rules   debugcheck.Rules
	kind    string
	flags   string
	word    string
	title   string
}

const (
	slub  = "slub-2022-debug-locked"
	slab  = "slab-2001-threelists"
	guard = "go-modernc-memory-guarded"

	r61, r612 = debugcheck.SLUB61, debugcheck.SLUB612
	r24, r26  = debugcheck.SLAB24, debugcheck.SLAB26
)

// TestCells holds answers against what the rules of the kernels say of them.
func TestCells(t *testing.T) {
	cells := []cell{
		// A free with F looks at the red zones, repairs what it finds and is refused.
		{slub, r61, "overrun by 1 byte", "FZ", "free!", "Right Redzone overwritten"},
		{slub, r61, "underrun by 1 byte", "FZPU", "free!", "Left Redzone overwritten"},
		// Without F it writes the red zones anew: only a validation before it sees anything.
		{slub, r61, "overrun by 1 byte", "Z", "validate", "Right Redzone overwritten"},
		{slub, r61, "overrun by 1 byte", "U", "silent", ""},
		// The link of the designs before 2020 is the first word of the neighbour, later ones
		// keep it in the middle; the walk of a free with F meets it.
		{"slub-2008-seq", r61, "overrun by 1 byte", "F", "free", "Freechain corrupt"},
		{slub, r61, "overrun by 1 byte", "F", "silent", ""},
		// Behind 50 bytes there are 14 more of the class; 6.12 keeps the size with U.
		{slub, r61, "malloc(50) overrun by 1", "FZPU", "silent", ""},
		{slub, r612, "malloc(50) overrun by 1", "FZPU", "free!",
			"kmalloc Redzone overwritten"},
		{slub, r612, "malloc(50) overrun by 1", "FZP", "silent", ""},
		// An allocation with F looks at the poison and retires the slab.
		{slub, r61, "byte written after free", "FZP", "alloc!", "Poison overwritten"},
		{slub, r61, "byte written after free", "P", "validate", "Poison overwritten"},
		{slub, r61, "byte written after free", "FZ", "silent", ""},
		// With P the link lies behind the object, else the writing destroys it.
		{slub, r61, "all written after free", "Z", "undefined", ""},
		{slub, r61, "all written after free", "FZ", "alloc!", "Freepointer corrupt"},
		{slub, r61, "all written after free", "FZP", "alloc!", "Poison overwritten"},
		// 6.12 finds more than one thing, and the last one has the repair.
		{slub, r612, "all written after free", "FZP", "alloc!", "Poison overwritten"},
		{slub, r61, "free again", "F", "refused", "Object already free"},
		{slub, r61, "free again", "P", "undefined", ""},
		{slub, r61, "free again in a new slab", "F", "refused", "Object already free"},
		{slub, r61, "free of an inner address", "F", "refused", "Invalid object pointer"},
		// The owner of the slab gets the object, whatever cache was named.
		{slub, r61, "free to another cache", "F", "now", "Wrong slab cache"},
		{slub, r61, "free of a foreign page", "F", "refused", "Object is not a Slab page"},
		// No link of its own outside a live object without P.
		{slub, r61, "link of a live object", "FZ", "-", ""},
		{slub, r61, "link of a live object", "FZP", "free!", "Freepointer corrupt"},
		{slub, r61, "track of the allocation", "FZP", "-", ""},
		{slub, r61, "track of the allocation", "FZPU", "silent", ""},
		// 6.1 repairs padding and lets the free go ahead, 6.12 does not.
		{slub, r61, "padding of a live object", "FZP", "free", "Object padding overwritten"},
		{slub, r612, "padding of a live object", "FZP", "free!", "Object padding overwritten"},
		{slub, r61, "padding of the slab", "P", "validate", "Padding overwritten"},
		{slub, r61, "slab.inuse", "F", "free", "Wrong object count"},
		{slub, r61, "slab.frozen", "F", "free!",
			"Slab disabled since SLUB metadata consistency check failed"},
		// The sum over both lists needs the list of full slabs, which U keeps.
		{slub, r61, "cache.nr_slabs", "U", "validate", "slabs counted but counter differs"},
		{slub, r61, "cache.nr_slabs", "FZ", "undefined", ""},
		{slub, r61, "cache.nr_partial", "Z", "validate",
			"partial slabs counted but counter differs"},

		// Z alone checks the words in 2.4, and whatever is wrong is the end.
		{slab, r24, "overrun by 1 byte", "Z", "free*",
			"double free, or memory outside object was overwritten"},
		{slab, r24, "free again", "F", "fatal", "slab: double free detected in cache"},
		{slab, r24, "free again", "U", "undefined", ""},
		{slab, r24, "free again in a new slab", "F", "fatal",
			"slab: double free detected in cache"},
		{slab, r24, "byte written after free", "FZP", "alloc*", "Slab corruption"},
		// The weak check of 2.4 asks for the first end mark only, which is what its poison
		// becomes when all bits are inverted.
		{slab, r24, "all written after free", "P", "alloc*", "Slab corruption"},
		// A table of indexes has no links in objects, and no counter for lists.
		{slab, r24, "link of a free object", "FZPU", "-", ""},
		{slab, r24, "cache.nr_partial", "FZPU", "-", ""},
		// 2.6 tells and goes on.
		{slab, r26, "overrun by 1 byte", "Z", "free", "memory outside object was overwritten"},
		{slab, r26, "free to another cache", "F", "now", "Wrong slab cache"},
		{slab, r24, "free to another cache", "F", "fatal", "Wrong slab cache"},
		// With F the chain of 2.6 is the end, though the words were told of before.
		{slab, r26, "free again", "FZ", "fatal", "double free detected"},

		// The guard knows the size to the byte, and keeps what is freed until the end.
		{guard, debugcheck.Guard, "malloc(50) overrun by 1", "FZ", "free!",
			"Right Redzone overwritten"},
		{guard, debugcheck.Guard, "byte written after free", "FZP", "discard",
			"Poison overwritten"},
		{guard, debugcheck.Guard, "free again", "U", "refused", "Object already free"},
		{guard, debugcheck.Guard, "free of an inner address", "Z", "refused",
			"Invalid object pointer"},
		{guard, debugcheck.Guard, "free of a foreign page", "FZPU", "-", ""},
	}
	tables := whole(t)
	for i := range cells {
		c := &cells[i]
		if a := find(t, tables, c); a.Word() != c.word || a.Title != c.title {
			t.Errorf("%s under %s, %s, %s: %s %q, want %s %q", c.subject, c.rules, c.kind, c.flags,
				a.Word(), a.Title, c.word, c.title)
		}
	}
}

// TestJudge: an answer is read from the misuse on. The first report decides, also when
// something was skipped before it.
func TestJudge(t *testing.T) {
	report := []*debugcheck.Report{{Title: "first"}, {Title: "second"}}
	skipped, no := impls.Skipped, impls.Unsupported
	k := &Kind{} // its misuse is operation 6
	for _, c := range []struct {
		events []impls.Event
		want   Answer
	}{
		{nil, Answer{State: Silent}},
		{[]impls.Event{{Op: 5, Reports: report}, {Op: 5, Outcome: skipped}}, Answer{State: Silent}},
		{[]impls.Event{{Op: 6, Outcome: no}, {Op: 7, Reports: report}}, Answer{State: Absent}},
		{[]impls.Event{{Op: 6}, {Op: 7, Outcome: no}}, Answer{State: Silent}},
		{[]impls.Event{{Op: 6, Outcome: skipped}, {Op: 7}}, Answer{State: Undefined}},
		{[]impls.Event{{Op: 6}, {Op: 7, Outcome: skipped}, {Op: 8}}, Answer{State: Undefined}},
		{[]impls.Event{{Op: 6, Code: impls.OpFreeAgain, Reports: report}},
			Answer{State: Reported, Moment: Now, Title: "first"}},
		{[]impls.Event{{Op: 7, Outcome: skipped}, {Op: 8, Code: impls.OpMalloc, Reports: report}},
			Answer{State: Reported, Moment: Alloc, Title: "first"}},
		{[]impls.Event{{Op: 9, Code: impls.OpDestroy, Reports: report},
			{Op: 10, Code: impls.OpValidate, Reports: report}},
			Answer{State: Reported, Moment: Discard, Title: "first"}},
	} {
		if got := k.judge(c.events); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.events, got, c.want)
		}
	}
}

// TestLegend: the legend explains every word that occurs, and nothing else.
func TestLegend(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range whole(t) {
		for _, row := range x.Answers {
			for _, a := range row {
				word := a.Word()
				for _, mark := range []string{"!", "*"} {
					if w, ok := strings.CutSuffix(word, mark); ok {
						word, seen["…"+mark] = w, true
					}
				}
				seen[word] = true
			}
		}
	}
	for _, l := range Legend() {
		if !seen[l[0]] {
			t.Errorf("the legend explains %q, which does not occur", l[0])
		}
		if l[1] == "" {
			t.Errorf("the legend says nothing of %q", l[0])
		}
		delete(seen, l[0])
	}
	for word := range seen {
		t.Errorf("the legend does not explain %q", word)
	}
}

// TestPrograms: every program can be read, and its misuse stands where it is looked
// for; what is before and behind it is no misuse.
func TestPrograms(t *testing.T) {
	names := map[string]bool{}
	for i := range kinds {
		k := &kinds[i]
		if k.Name == "" || names[k.Name] {
			t.Errorf("kind %d has no name of its own: %q", i, k.Name)
		}
		names[k.Name] = true
		for after := range courses {
			for _, r := range append(every, debugcheck.Guard) {
				text, ok := k.program(debugcheck.Default, r, after)
				if !ok {
					continue
				}
				for j, l := range parse(text).Lines {
					misuse := prog.Ops[l.Verb].Class == prog.ClassMisuse
					if misuse != (j == k.at()) {
						t.Errorf("%s, course %d: line %d of\n%s", k.Name, after, j, text)
					}
				}
			}
		}
	}
}

// TestEvidence: there is a program for each answer that has a report; it is canonical
// and shows the report to whoever runs it.
func TestEvidence(t *testing.T) {
	tables, err := Tables([]*impls.Variant{variant(t, slub)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	runner := oracle.NewRunner()
	defer runner.Close()
	shown := 0
	for i, row := range tables[0].Answers {
		for _, a := range row {
			if (a.State == Reported) != (a.Program != "") {
				t.Fatalf("%s: %s, and the program %q", kinds[i].Name, a.Word(), a.Program)
			}
			if a.Program == "" {
				continue
			}
			p := parse(a.Program)
			if got := string(prog.Format(p)); got != a.Program {
				t.Errorf("not canonical:\n%s", a.Program)
			}
			if title := first(t, runner, p); title != a.Title {
				t.Errorf("%q, want %q:\n%s", title, a.Title, a.Program)
			}
			shown++
		}
	}
	if shown < 50 {
		t.Errorf("%d answers with a program", shown)
	}
}

// first is the title of the first report of a run.
func first(t *testing.T, runner *oracle.Runner, p *prog.Program) string {
	t.Helper()
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range runner.Run(c, variant(t, slub), oracle.Options{}).Events {
		if len(ev.Reports) > 0 {
			return ev.Reports[0].Title
		}
	}
	return ""
}

func variant(t *testing.T, name string) *impls.Variant {
	t.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		t.Fatalf("no subject %s", name)
	}
	return v
}

// TestSame: the table is the same each time.
func TestSame(t *testing.T) {
	var first, again bytes.Buffer
	Write(&first, whole(t), true)
	Write(&again, whole(t), true)
	if first.String() != again.String() {
		t.Error("two tables differ")
	}
}

// TestGroups: subjects that answer alike share a table, under the name of the family
// when it is all of it.
func TestGroups(t *testing.T) {
	a := variant(t, slub)
	b := *a
	b.Name = "slub-copy"
	tables, err := Tables([]*impls.Variant{a, &b, variant(t, slab)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range tables {
		names = append(names, x.Name())
	}
	if got := strings.Join(names, "; "); got != "slub-*; "+slab {
		t.Errorf("tables of %s", got)
	}
	tables[0].All = false
	if got := tables[0].Name(); got != slub+", slub-copy" {
		t.Errorf("some of a family are %q", got)
	}
	old, err := Tables([]*impls.Variant{a, variant(t, "slub-2008-seq")}, nil)
	if err != nil || len(old) != 2 || old[0].All || old[1].All {
		t.Errorf("subjects that differ: %v tables, %v", len(old), err)
	}
	none, err := Tables([]*impls.Variant{variant(t, "go-modernc-memory")}, nil)
	if err != nil || len(none) != 0 {
		t.Errorf("a subject without debugging: %v, %v", none, err)
	}
}

// TestRulesFor: a family takes those of the rules that it has, each once, and its own
// when none is for it.
func TestRulesFor(t *testing.T) {
	for _, c := range []struct {
		subject     string
		asked, want []debugcheck.Rules
	}{
		{slub, nil, []debugcheck.Rules{r61}},
		{slub, []debugcheck.Rules{r612, r24, r612}, []debugcheck.Rules{r612}},
		{slub, []debugcheck.Rules{r26}, []debugcheck.Rules{r61}},
		{slab, []debugcheck.Rules{r612, r26, r24}, []debugcheck.Rules{r26, r24}},
		{slab, []debugcheck.Rules{debugcheck.Guard}, []debugcheck.Rules{r24}},
		{slub, []debugcheck.Rules{debugcheck.Guard}, []debugcheck.Rules{r61}},
		{guard, every, []debugcheck.Rules{debugcheck.Guard}},
	} {
		if got := rulesFor(variant(t, c.subject), c.asked); !slices.Equal(got, c.want) {
			t.Errorf("%s, asked for %v: %v, want %v", c.subject, c.asked, got, c.want)
		}
	}
}

// TestWrong: a subject whose checks do not do what the rules say has no table.
func TestWrong(t *testing.T) {
	v := *variant(t, guard)
	honest := v.New
	v.New = func(m *machine.Machine) impls.Instance { return mute{honest(m)} }
	_, err := Tables([]*impls.Variant{&v}, nil)
	if err == nil || !strings.Contains(err.Error(), "the run is wrong: missed misuse") ||
		!strings.Contains(err.Error(), "allocfuzz 1\n") {
		t.Errorf("%v, want a missed misuse and the program", err)
	}
}

// mute is an instance whose caches never find anything in a validation.
type mute struct{ impls.Instance }

func (m mute) Objects() impls.Objects { return muteObjects{m.Instance.Objects()} }

type muteObjects struct{ impls.Objects }

func (o muteObjects) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	k, err := o.Objects.NewCache(c, spec)
	if err != nil {
		return nil, err
	}
	return muteCache{k.(impls.Debugger)}, nil
}

type muteCache struct{ impls.Debugger }

func (muteCache) Validate(*machine.Ctx) (int, error) { return 1, nil }

// TestWrite: columns line up, nothing stands behind them, and titles are told when
// they are asked for.
func TestWrite(t *testing.T) {
	tables, err := Tables([]*impls.Variant{variant(t, slub)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var short, long bytes.Buffer
	Write(&short, tables, false)
	Write(&long, tables, true)
	lines := strings.Split(short.String(), "\n")
	if lines[0] != slub+" under 6.1" {
		t.Errorf("headed %q", lines[0])
	}
	at := strings.Index(lines[1], "FZPU")
	for _, l := range lines[1 : 2+len(kinds)] {
		if len(l) <= at || l[at-1] != ' ' || l[at] == ' ' || strings.HasSuffix(l, " ") {
			t.Errorf("the last column is not at %d in %q", at, l)
		}
		if len(l) > 100 {
			t.Errorf("%d columns: %q", len(l), l)
		}
	}
	var guarded bytes.Buffer
	Write(&guarded, []*Table{{Subjects: []*impls.Variant{variant(t, guard)},
		Rules: debugcheck.Guard, Answers: tables[0].Answers}}, false)
	if !strings.HasPrefix(guarded.String(), guard+" under the guard's rules\n") {
		t.Errorf("a guard's table:\n%s", guarded.String())
	}
	title := `free again: "Object already free" with F (refused), FZ (refused), ` +
		"FZP (refused), FZPU (refused)\n"
	if strings.Contains(short.String(), title) || !strings.Contains(long.String(), title) {
		t.Errorf("titles:\n%s", long.String())
	}
}
