package prog

import (
	"os"
	"strings"
	"testing"
)

// spoils break the example of the whole grammar, one thing at a time.
var spoils = []struct {
	want  string
	spoil func(p *Program)
}{
	{"", func(*Program) {}},
	{"cpus=0", func(p *Program) { p.Machine.CPUs = 0 }},
	{"pages=0", func(p *Program) { p.Machine.Pages = 0 }},
	{"pagesize=96", func(p *Program) { p.Machine.PageSize = 96 }},
	{"word=8", func(p *Program) { p.Machine.Word = 8 }},
	{"seqbits=9", func(p *Program) { p.Machine.SeqBits = 9 }},
	{"seq0=8", func(p *Program) { p.Machine.Seq0 = 8 }},
	{"preempt=3", func(p *Program) { p.Machine.Preempt = 3 }},
	{"base=0", func(p *Program) { p.Machine.Base = 0 }},
	{"base=0x1280", func(p *Program) { p.Machine.Base = 0x1280 }},
	{"do not fit word=16", func(p *Program) { p.Machine.Base = 0xff00 }},
	{"head: byte 0x0a", func(p *Program) { p.Head.Found = "a\nb" }},
	{"head: 40000 bytes", func(p *Program) { p.Head.Title = strings.Repeat("x", 40000) }},
	{"comment \"x\"", func(p *Program) { p.Doc = append(p.Doc, "x") }},
	{"comment: byte 0x0a", func(p *Program) { p.Lines[0].Doc = []string{"#\nx"} }},
	{"tail: byte 0xff", func(p *Program) { p.Tail = []string{"#\xff"} }},
	{"cache: \"C\" is not a name", func(p *Program) { p.Caches[0].Name = "C" }},
	{"cache d: declared twice", func(p *Program) { p.Caches[0].Name = "d" }},
	{"cache d: size: 0", func(p *Program) { p.Caches[1].Spec.Size = 0 }},
	{"cache d: order: 18446744073709551614", func(p *Program) { p.Caches[1].Spec.Order = -2 }},
	{"cache d: flags=user,poison", func(p *Program) {
		p.Caches[1].Spec.Flags = []string{"user", "poison"}
	}},
	{"task cpu1: not a name", func(p *Program) { p.Tasks[0].Name = "cpu1" }},
	{"task t1: cpu=2", func(p *Program) { p.Tasks[0].CPU = 2 }},
	{"unknown operation", func(p *Program) { p.Lines[0].Verb = Verb(Verbs) }},
	{"cpu2: no such cpu", func(p *Program) { p.Lines[0].Ctx.CPU = 2 }},
	{"unknown context t2", func(p *Program) {
		p.Lines[0].Ctx = Ctx{Kind: TaskCtx, Name: "t2"}
	}},
	{"not a context", func(p *Program) { p.Lines[0].Ctx = Ctx{} }},
	{"not a context", func(p *Program) { p.Lines[0].Ctx = Ctx{Kind: IRQCtx, Name: "A"} }},
	{"label: \"a b\"", func(p *Program) { p.Lines[0].Label = "a b" }},
	{"label first: given twice", func(p *Program) { p.Lines[0].Label = "first" }},
	{"note: byte 0x0a", func(p *Program) { p.Lines[0].Note = "a\nb" }},
	{"create: size: 0", func(p *Program) { p.Lines[0].Spec.Size = 0 }},
	{"create: description", func(p *Program) { p.Lines[0].Spec = nil }},
	{"shrink: description", func(p *Program) { s := NewCacheSpec(8); p.Lines[1].Spec = &s }},
	{"shrink: region", func(p *Program) { p.Lines[1].Region = "object" }},
	{"shrink: names no cache", func(p *Program) { p.Lines[1].Cache = "" }},
	{"shrink: \"9\" is not a name", func(p *Program) { p.Lines[1].Cache = "9" }},
	{"shrink: names bound: 1", func(p *Program) { p.Lines[1].Results = []string{"x"} }},
	{"shrink: number 1 too many", func(p *Program) { p.Lines[1].Nums = []uint64{1} }},
	{"shrink: unknown key fail", func(p *Program) {
		p.Lines[1].KV = []KV{{Key: "fail", Num: 1, IsNum: true}}
	}},
	{"shrink: has a body", func(p *Program) { p.Lines[1].Count = 2 }},
	{"alloc: \"A\" is not a name", func(p *Program) { line(p, Alloc).Results[0] = "A" }},
	{"alloc: fail: wrong type", func(p *Program) { line(p, Alloc).KV[0].IsNum = false }},
	{"alloc: fail after failobj", func(p *Program) {
		kv := line(p, Alloc).KV
		kv[0], kv[1] = kv[1], kv[0]
	}},
	{"alloc: flags: unknown word", func(p *Program) { line(p, Alloc).KV[2].Word = "zero,x" }},
	{"alloc: flags: unknown word \"\"", func(p *Program) { line(p, Alloc).KV[2].Word = "" }},
	{"offline: no cpu", func(p *Program) { line(p, Offline).KV = nil }},
	{"offline: cpu=2", func(p *Program) { line(p, Offline).KV[0].Num = 2 }},
	{"overrun: bytes: 0", func(p *Program) { line(p, Overrun).Nums[0] = 0 }},
	{"flip: unknown region", func(p *Program) { line(p, Flip).Region = "slab.colour" }},
	{"report title \"\"", func(p *Program) { line(p, FreeAgain).Expect[0].Report = "" }},
	{"subject \"a b\"", func(p *Program) { line(p, FreeAgain).Expect[0].Subject = "a b" }},
	{"outcomes are not sorted", func(p *Program) {
		e := line(p, Create).Expect
		e[0], e[1] = e[1], e[0]
	}},
	{"unknown outcome", func(p *Program) { line(p, Create).Expect[0].Outcome = 99 }},
	{"second outcome", func(p *Program) { line(p, Create).Expect[1].Subject = "" }},
	{"bytes when printed", func(p *Program) {
		line(p, FreeAgain).Expect[0].Report = strings.Repeat("x", MaxLine)
	}},
	{"check: has more", func(p *Program) { line(p, Check).Cache = "c" }},
	{"check: has more", func(p *Program) { line(p, Check).Ctx = Ctx{Kind: CPUCtx} }},
	{"repeat: count: 0", func(p *Program) { line(p, Repeat).Count = 0 }},
	{"repeat: has operands", func(p *Program) { line(p, Repeat).Cache = "c" }},
	{"repeat: empty body", func(p *Program) { line(p, Repeat).Body = nil }},
	{"another context inside", func(p *Program) { line(p, Repeat).Body[0].Ctx.CPU = 1 }},
	{"repeat: nested too deep", func(p *Program) {
		in := &line(p, Repeat).Body[1].Body[0]
		*in = Line{Ctx: in.Ctx, Verb: Repeat, Count: 1, Body: []Line{*in}}
	}},
	{"name gone is never bound", func(p *Program) { line(p, Free).Slots[0] = "gone" }},
	{"free: nil is no object", func(p *Program) { line(p, Free).Slots[0] = Nil }},
	{"alloc: the name nil is reserved", func(p *Program) { line(p, Alloc).Results[0] = Nil }},
	{"cache: the name nil is reserved", func(p *Program) { p.Caches[0].Name = Nil }},
	{"unknown cache gone", func(p *Program) { line(p, Free).Cache = "gone" }},
	{"name nil is a slot", func(p *Program) { line(p, Free).Cache = Nil }},
	{"subject \"a b\"", func(p *Program) { p.Scheds[0].Subject = "a b" }},
	{"second block for", func(p *Program) { p.Scheds[0].Subject = p.Scheds[1].Subject }},
	{"unknown kind", func(p *Program) { p.Scheds[0].Departures[0].Kind = Kind(Kinds) }},
	{"field \"x\"", func(p *Program) { p.Scheds[0].Departures[0].Field = "x" }},
	{"debug: byte", func(p *Program) { p.Machine.Debug = "F\n" }},
	{"debug: byte", func(p *Program) { p.Machine.Debug = "F\"" }},
	{"257 bytes", func(p *Program) { p.Machine.Debug = strings.Repeat("F", 257) }},
	{"rules=5", func(p *Program) { p.Machine.Rules = Rules26 + 1 }},
	{"attempt 0", func(p *Program) { p.Scheds[0].Departures[0].N = 0 }},
	{"no action", func(p *Program) { p.Scheds[0].Departures[0].Actions = nil }},
	{"unknown action", func(p *Program) { p.Scheds[0].Departures[0].Actions[0].Kind = 99 }},
	{"irq2: no such cpu", func(p *Program) { p.Scheds[0].Departures[0].Actions[0].CPU = 2 }},
	{"handler without", func(p *Program) { p.Scheds[0].Departures[0].Actions[0].Name = "x" }},
	{"hold: no store buffers", func(p *Program) { p.Machine.TSO = false }},
	{"cpu2: no such cpu", func(p *Program) {
		p.Scheds[0].Departures[0].Actions[0] = Action{Kind: DrainStore, CPU: 2}
	}},
	{"no such line", func(p *Program) { p.Scheds[0].Departures[0].Where.Ref.Label = "x" }},
	{"delivery 1", func(p *Program) { p.Scheds[0].Departures[0].Where.Delivery = 1 }},
	{"handler \"irq0\"", func(p *Program) { p.Scheds[0].Departures[0].Where.IRQ = "irq0" }},
	{"1 iterations", func(p *Program) { p.Scheds[0].Departures[0].Where.Iter = []int{2} }},
	{"iteration 0", func(p *Program) { p.Scheds[1].Departures[0].Where.Iter[1] = 0 }},
	{"not one of this program", func(p *Program) {
		p.Scheds[0].Departures[0].Where.Line = &Line{Verb: Drain}
	}},
	{"a check has no points", func(p *Program) {
		p.Scheds[0].Departures[0].Where.Line = line(p, Check)
	}},
}

// TestValidate breaks a good program in memory, one thing at a time; every break must be noticed
// and named.
func TestValidate(t *testing.T) {
	text, err := os.ReadFile("testdata/everything.prog")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range spoils {
		p, err := ParseString(string(text))
		if err != nil {
			t.Fatal(err)
		}
		c.spoil(p)
		switch err := Validate(p); {
		case c.want == "" && err != nil:
			t.Errorf("the good program: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// line returns the first line of the program with the verb.
func line(p *Program, v Verb) *Line {
	for i := range p.Lines {
		if p.Lines[i].Verb == v {
			return &p.Lines[i]
		}
	}
	panic("allocfuzz: no such line in the example")
}

// TestMachineDefaults demands the defaults that depend on the word.
func TestMachineDefaults(t *testing.T) {
	for _, c := range []struct{ in, want Machine }{
		{Machine{},
			Machine{1, 16, 4096, 64, 1 << 32, 32, 0, PreemptNone, false, "", RulesOwn, false}},
		{Machine{Word: 32},
			Machine{1, 16, 4096, 32, 1 << 16, 16, 0, PreemptNone, false, "", RulesOwn, false}},
		{Machine{Word: 16},
			Machine{1, 16, 128, 16, 1 << 8, 8, 0, PreemptNone, false, "", RulesOwn, false}},
		{Machine{Word: 16, PageSize: 1024},
			Machine{1, 16, 1024, 16, 1024, 8, 0, PreemptNone, false, "", RulesOwn, false}},
	} {
		got := c.in.Resolve()
		if got != c.want || got.Resolve() != got || got.Check() != nil {
			t.Errorf("%+v: %+v (%v), want %+v", c.in, got, got.Check(), c.want)
		}
	}
	if DefaultMachine() != (Machine{}).Resolve() {
		t.Error("the default machine is not the default")
	}
	bad := Machine{Word: 24}.Resolve().Check()
	if want := "machine: word=24; expected 64, 32 or 16"; bad == nil || bad.Error() != want {
		t.Errorf("%v, want %s", bad, want)
	}
	last := Machine{Base: 1<<64 - 1<<16}.Resolve()
	if err := last.Check(); err != nil {
		t.Errorf("an arena that ends with the address space: %v", err)
	}
	if err := (Machine{Base: 1<<64 - 1<<16, Pages: 17}).Resolve().Check(); err == nil {
		t.Error("an arena past the address space was accepted")
	}
}
