package prog

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOpsComplete demands that every row of the table is filled in and consistent.
func TestOpsComplete(t *testing.T) {
	if len(Ops) != Verbs {
		t.Fatalf("%d rows, %d verbs", len(Ops), Verbs)
	}
	seen := map[string]bool{}
	for i := range Ops {
		op, v := &Ops[i], Verb(i)
		if op.Name == "" || op.Doc == "" || seen[op.Name] {
			t.Errorf("row %d (%q): no name, no documentation, or a name used before", i, op.Name)
		}
		seen[op.Name] = true
		if got, ok := ParseVerb(op.Name); !ok || got != v || v.String() != op.Name || v.Op() != op {
			t.Errorf("%s: parses as %v", op.Name, got)
		}
		if int(op.Class) >= len(classNames) {
			t.Errorf("%s: class %d", op.Name, op.Class)
		}
		checkKeyTable(t, op.Name, op.Keys)
		for _, a := range op.Nums {
			if a.Name == "" || a.Min > a.Max {
				t.Errorf("%s: number %+v", op.Name, a)
			}
		}
		if !strings.Contains(op.Usage(), op.Name) {
			t.Errorf("%s: usage %q", op.Name, op.Usage())
		}
	}
	if _, ok := ParseVerb("nonesuch"); ok {
		t.Error("a verb that is none was found")
	}
}

func checkKeyTable(t *testing.T, where string, keys []KeyArg) {
	t.Helper()
	for i, k := range keys {
		if i > 0 && keys[i-1].Name >= k.Name {
			t.Errorf("%s: %s after %s: not sorted", where, k.Name, keys[i-1].Name)
		}
		if k.Name == "" || len(k.Words) == 0 && k.Text == 0 && k.Min >= k.Max {
			t.Errorf("%s: key %+v", where, k)
		}
	}
}

// TestTablesSorted demands sorted tables where searching or printing counts on it.
func TestTablesSorted(t *testing.T) {
	checkKeyTable(t, "cache", SpecKeys)
	checkKeyTable(t, "machine", machineKeys)
	for _, list := range [][]string{CacheFlags, AllocFlags} {
		if !slices.IsSorted(list) {
			t.Errorf("%q is not sorted", list)
		}
	}
}

// TestEveryVerbInExample demands that the example of the whole grammar is of the whole grammar.
func TestEveryVerbInExample(t *testing.T) {
	b, err := os.ReadFile("testdata/everything.prog")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParseString(string(b))
	if err != nil {
		t.Fatal(err)
	}
	verbs, keys := map[Verb]bool{}, map[string]bool{}
	p.Walk(func(l *Line, _ []int) {
		verbs[l.Verb] = true
		for _, kv := range l.KV {
			keys[l.Verb.String()+" "+kv.Key] = true
		}
	})
	for i := range Ops {
		if !verbs[Verb(i)] {
			t.Errorf("no line with %s", Ops[i].Name)
		}
	}
	for _, want := range []string{
		"alloc fail", "alloc flags", "flip bits", "flip byte", "create fail",
	} {
		if !keys[want] {
			t.Errorf("no line with %s=", want)
		}
	}
}

// TestWords demands that every enumeration reads what it prints.
func TestWords(t *testing.T) {
	for i := range Kinds {
		if k, ok := ParseKind(Kind(i).String()); !ok || k != Kind(i) {
			t.Errorf("kind %d: %s reads as %d", i, Kind(i), k)
		}
	}
	for i := range Outcomes {
		if o, ok := ParseOutcome(Outcome(i).String()); !ok || o != Outcome(i) {
			t.Errorf("outcome %d: %s reads as %d", i, Outcome(i), o)
		}
	}
	for i := range rulesNames {
		want := Rules(i + 1)
		if r, ok := ParseRules(want.String()); !ok || r != want {
			t.Errorf("rules %d: %s reads as %d", want, want, r)
		}
	}
	if _, ok := ParseRules(""); ok {
		t.Error("no rules at all were taken")
	}
	if _, ok := ParseRules("guard"); ok {
		t.Error("rules that are none were found")
	}
	if _, ok := ParseKind("jump"); ok {
		t.Error("a kind that is none was found")
	}
	for _, c := range []Ctx{
		{Kind: CPUCtx}, {Kind: CPUCtx, CPU: 15}, {Kind: IRQCtx, CPU: 3},
		{Kind: IRQCtx, CPU: 12, Name: "tick"}, {Kind: TaskCtx, Name: "cpu"},
		{Kind: TaskCtx, Name: "cpu01"}, {Kind: TaskCtx, Name: "irq_x"},
	} {
		if got, ok := ParseCtx(c.String()); !ok || got != c {
			t.Errorf("context %s reads as %+v (%v)", c, got, ok)
		}
	}
	for _, s := range []string{"", "CPU0", "irq0.", "irq0.X", "a.b", "0", "cpu0.x"} {
		if c, ok := ParseCtx(s); ok {
			t.Errorf("%q reads as context %+v", s, c)
		}
	}
	for _, k := range []ActionKind{ToCPU, ToTask, Interrupt, Move, Fail, None} {
		if k.String() == "?" {
			t.Errorf("action %d has no word", k)
		}
	}
}

// TestFlags demands whole words.
func TestFlags(t *testing.T) {
	p, err := ParseString(first + "cache c flags=poison,user size=8\n" +
		"cpu0 a = alloc c fail=3 flags=atomic,zero\n")
	if err != nil {
		t.Fatal(err)
	}
	s, l := &p.Caches[0].Spec, &p.Lines[0]
	if !s.HasFlag("user") || s.HasFlag("use") || s.HasFlag("trace") {
		t.Errorf("flags of the cache: %q", s.Flags)
	}
	if !l.HasFlag("zero") || !l.HasFlag("atomic") || l.HasFlag("ato") || l.HasFlag("") {
		t.Errorf("flags of the line: %+v", l.KV)
	}
	if l.Num("fail", 7) != 3 || l.Num("byte", 7) != 7 {
		t.Errorf("fail=%d, byte=%d", l.Num("fail", 7), l.Num("byte", 7))
	}
}
