package oracle_test

import (
	"reflect"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// TestCompileMisuse demands the operation of the contract for every misuse verb, with
// its operands where the contract has them.
func TestCompileMisuse(t *testing.T) {
	p, err := prog.ParseString(`allocfuzz 1
machine debug="FZ;-,d" rules=6.12
cache c size=64
cache d size=8
cpu0 x = alloc c
cpu0 overrun x 4
cpu0 underrun x 5
cpu0 writefreed x
cpu0 freeagain c x
cpu0 freeagain x
cpu0 freeinside x 8
cpu0 freeforeign d x
cpu0 freewrong d x
cpu0 flip padding of x bits=513 byte=3
cpu0 flip slab.inuse of x
cpu0 flip cache.nr_slabs d bits=7
cpu0 validate d
`)
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	if c.Config.Debug != "FZ;-,d" || c.Config.Rules != "6.12" {
		t.Errorf("boot parameters %q and %q", c.Config.Debug, c.Config.Rules)
	}
	op := func(code impls.Code, cache, slot int32, size uint64) impls.Op {
		return impls.Op{Code: code, Cache: cache, Slot: slot, Result: -1, Size: size}
	}
	flip := func(r debugcheck.Region, cache, slot int32, at, bits uint64) impls.Op {
		return impls.Op{Code: impls.OpFlip, Cache: cache, Slot: slot, Result: -1, Size: at,
			Arg: bits, Region: r}
	}
	want := []impls.Op{
		op(impls.OpOverrun, -1, 0, 4), op(impls.OpUnderrun, -1, 0, 5),
		op(impls.OpWriteFreed, -1, 0, 0), op(impls.OpFreeAgain, 0, 0, 0),
		op(impls.OpFreeAgain, -1, 0, 0), op(impls.OpFreeInside, -1, 0, 8),
		op(impls.OpFreeForeign, 1, 0, 0), op(impls.OpFreeWrong, 1, 0, 0),
		flip(debugcheck.Padding, -1, 0, 3, 513), flip(debugcheck.SlabInuse, -1, 0, 0, 1),
		flip(debugcheck.NrSlabs, 1, -1, 0, 7), op(impls.OpValidate, 1, -1, 0),
	}
	for i, w := range want {
		l := &c.Lines[i+1]
		if !reflect.DeepEqual(l.Op, w) {
			t.Errorf("%s: %+v, want %+v", prog.AppendLine(nil, l.Src), l.Op, w)
		}
	}
}

// TestCompileVerbs demands that every verb of the language is an operation of its own in the
// contract, by the same name.
func TestCompileVerbs(t *testing.T) {
	const text = `allocfuzz 1
cache c size=64
cpu0 d = create size=64
cpu0 a,b,e = allocbulk c
cpu0 x = alloc c
cpu0 fill x
cpu0 verify x
cpu0 overrun x 1
cpu0 underrun x 1
cpu0 flip rightred of x
cpu0 freewrong d x
cpu0 freeforeign c x
cpu0 freeinside c x 8
cpu0 free c x
cpu0 writefreed x
cpu0 freeagain c x
cpu0 freebulk c a b e
cpu0 validate c
cpu0 tune c batch=1 limit=1
cpu0 flush c
cpu0 shrink c
cpu0 destroy d
cpu0 p = malloc 8
cpu0 p = realloc p 9
cpu0 usable p
cpu0 freesized p 9
cpu0 p = calloc 1 8
cpu0 p = memalign 8 8
cpu0 g = pages 0
cpu0 pagesfree g
cpu0 drain
cpu0 offline cpu=0
cpu0 reap
cpu0 rculock
cpu0 rcuunlock
`
	c := compile(t, text)
	have := map[prog.Verb]bool{prog.Repeat: true, prog.Check: true}
	for i := range c.Lines {
		l := &c.Lines[i]
		have[l.Src.Verb] = true
		if l.Op.Code.String() != l.Src.Verb.Op().Name {
			t.Errorf("%s is %s", l.Src.Verb.Op().Name, l.Op.Code)
		}
	}
	for i := range prog.Ops {
		if !have[prog.Verb(i)] {
			t.Errorf("no line has %s", prog.Ops[i].Name)
		}
	}
}

// TestCompileRegions demands that the language and the library spell regions alike.
func TestCompileRegions(t *testing.T) {
	names := append(append([]string(nil), prog.FlipRegions...), prog.FlipCacheFields...)
	if len(names) != debugcheck.Regions {
		t.Errorf("%d regions in programs, %d in the library", len(names), debugcheck.Regions)
	}
	for _, n := range names {
		if _, ok := debugcheck.ParseRegion(n); !ok {
			t.Errorf("region %s is not the library's", n)
		}
	}
}

// TestCompileBoot demands that every rule set is the library's, that the default is
// said by nothing, and that a wrong option is pointed at.
func TestCompileBoot(t *testing.T) {
	for _, rules := range []string{"6.1", "6.12", "2.4", "2.6"} {
		p, err := prog.ParseString("allocfuzz 1\nmachine rules=" + rules + "\n")
		if err != nil {
			t.Fatal(err)
		}
		c, err := oracle.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := debugcheck.ParseRules(rules); err != nil || c.Config.Rules != rules {
			t.Errorf("rules %q of rules=%s (%v)", c.Config.Rules, rules, err)
		}
	}
	for _, c := range []struct{ line, want string }{
		{`machine cpus=2 debug="FX" pages=4`, "a.prog:3:24: machine: debug: "},
		{`machine debug="FZ;-,kmalloc-*,"`, "a.prog:3:31: machine: debug: "},
		{`machine debug=" "`, "a.prog:3:16: machine: debug: "},
	} {
		p, err := prog.Parse("a.prog", strings.NewReader("allocfuzz 1\n\n"+c.line+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = oracle.Compile(p)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "expected ") {
			t.Errorf("%s: %v, want %s", c.line, err, c.want)
		}
		p.DebugAt = prog.Pos{} // built in memory
		if _, err = oracle.Compile(p); err == nil ||
			!strings.HasPrefix(err.Error(), "a.prog: machine: debug: ") {
			t.Errorf("%s, built in memory: %v", c.line, err)
		}
	}
}
