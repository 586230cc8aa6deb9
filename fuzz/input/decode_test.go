package input

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
)

var seed = flag.Uint64("seed", 1, "seed of the random tests of package fuzz")

// FuzzDecode demands that any bytes are a valid program, the same one each time, under each of
// the options, and that what they mean can be written and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	for _, file := range corpusFiles() {
		p, err := file.Program()
		if err != nil {
			f.Fatal(err)
		}
		if debugMask(p.Machine.Debug) < 0 {
			continue
		}
		data, err := Encode(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	rng := newRand()
	for range 20 {
		f.Add(GenerateBytes(rng, GenerateOptions{}))
	}
	d := new(Decoder)
	f.Fuzz(func(t *testing.T, data []byte) { checkDecode(t, d, data) })
}

// TestDecodeRandom is FuzzDecode over random bytes of every length, for a plain go test.
func TestDecodeRandom(t *testing.T) {
	rng := newRand()
	d := new(Decoder)
	for range 600 {
		data := make([]byte, rng.IntN(700))
		for i := range data {
			if rng.IntN(4) > 0 {
				data[i] = byte(rng.Uint32())
			}
		}
		checkDecode(t, d, data)
		checkDecode(t, d, GenerateBytes(rng, GenerateOptions{Lines: 1 + rng.IntN(80)}))
	}
}

func checkDecode(t *testing.T, d *Decoder, data []byte) {
	t.Helper()
	before := bytes.Clone(data)
	for _, opt := range []DecodeOptions{
		{}, Everything, {Sequential: true}, {Budget: 7, Lines: 5}, {Misuse: true},
		{Debug: true, Sequential: true}, {SMP: true},
	} {
		p := d.Decode(data, opt)
		if err := prog.Validate(p); err != nil {
			t.Fatalf("%+v: %v\n%s", opt, err, p)
		}
		checkOptions(t, p, opt)
	}
	text := d.Decode(data, Everything).String()
	if again := Decode(data, Everything).String(); again != text {
		t.Fatalf("a fresh decoder reads something else:\n%s", firstDiff(text, again))
	}
	if !bytes.Equal(before, data) {
		t.Fatal("the input was changed")
	}
	p := d.Decode(data, Everything)
	out, err := Encode(p)
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	if diff := firstDiff(canonText(p), canonText(Decode(out, Everything))); diff != "" {
		t.Fatalf("encoded and decoded (-was +is):\n%s", diff)
	}
	parsed, err := prog.ParseString(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := firstDiff(canonText(p), canonText(parsed)); diff != "" {
		t.Fatalf("the text means something else (-was +is):\n%s", diff)
	}
}

// plain says whether a cache has no flag but the one for readers, which takes no debugging.
func plain(flags []string) bool {
	return len(flags) == 0 || len(flags) == 1 && flags[0] == "rcu"
}

// checkOptions demands that nothing is there that the options leave out.
func checkOptions(t *testing.T, p *prog.Program, opt DecodeOptions) {
	t.Helper()
	lines, runs := weigh(p.Lines)
	if most := opt.Lines; most > 0 && lines > most || lines > LinesMax {
		t.Fatalf("%+v: %d lines\n%s", opt, lines, p)
	}
	if most := opt.Budget; most > 0 && runs > most || runs > BudgetDefault {
		t.Fatalf("%+v: %d operations\n%s", opt, runs, p)
	}
	if p.Machine.TSO && !opt.StoreBuffers {
		t.Fatalf("%+v: tso\n%s", opt, p)
	}
	if p.Machine.Pages*p.Machine.PageSize > arenaMax {
		t.Fatalf("arena too large: %s", p)
	}
	if opt.Sequential && (p.Machine.CPUs > 1 || len(p.Tasks)+len(p.Scheds) > 0) {
		t.Fatalf("not sequential:\n%s", p)
	}
	if opt.SMP {
		checkSMP(t, p)
	}
	if m := &p.Machine; !opt.Debug && (m.Debug != "" || m.Rules != prog.RulesOwn) {
		t.Fatalf("%+v: boot parameters\n%s", opt, p)
	}
	for i := range p.Caches {
		if !opt.Debug && !plain(p.Caches[i].Spec.Flags) {
			t.Fatalf("%+v: flags\n%s", opt, p)
		}
	}
	p.Walk(func(l *prog.Line, _ []int) {
		switch {
		case l.Spec != nil && !opt.Debug && !plain(l.Spec.Flags):
			t.Fatalf("%+v: flags: %s", opt, prog.AppendLine(nil, l))
		case opt.Sequential && l.Verb != prog.Check && l.Ctx != prog.Ctx{Kind: prog.CPUCtx}:
			t.Fatalf("not sequential: %s", prog.AppendLine(nil, l))
		case l.Verb.Op().Class == prog.ClassMisuse && !opt.Misuse:
			t.Fatalf("misuse: %s", prog.AppendLine(nil, l))
		case l.Ctx.IsIRQ() && handlerVerbs>>l.Verb&1 == 0:
			t.Fatalf("not for a handler: %s", prog.AppendLine(nil, l))
		}
	})
}

// checkSMP demands a small machine of several CPUs, with caches that keep little.
func checkSMP(t *testing.T, p *prog.Program) {
	t.Helper()
	if m := &p.Machine; m.CPUs < 2 || m.CPUs > 3 || m.Pages > 6 || len(p.Tasks) == 0 {
		t.Fatalf("not a small machine of several CPUs:\n%s", p)
	}
	for i := range p.Caches {
		s := &p.Caches[i].Spec
		if s.Objects < 1 || s.Objects > 3 || s.MinPartial > 1 || s.MinPartial == prog.NotGiven ||
			s.CPUPartial > 2 || s.CPUPartial == prog.NotGiven || s.Limit > 2 || s.Batch > 2 {
			t.Fatalf("a cache that keeps much:\n%s", p)
		}
	}
	for i := range p.Scheds {
		if n := len(p.Scheds[i].Departures); n > departuresSMP {
			t.Fatalf("%d departures:\n%s", n, p)
		}
	}
}

// TestSMPKeeps: what is small and busy already means the same with SMP, departures included.
func TestSMPKeeps(t *testing.T) {
	p, err := prog.ParseString(`allocfuzz 1
machine cpus=2 pages=4 preempt=full
cache c batch=1 cpu_partial=1 limit=2 min_partial=0 objects=2 size=64
task t0 cpu=0

cpu0 s0 = alloc c
t0 s1 = alloc c
irq1 s2 = alloc c
cpu1 free c s0

sched
at alloc(s0) cmpxchg cpu_slab.freelist 1: irq1, t0
at alloc(s1) lock node.list_lock 1: move cpu1
at free(s0) pagealloc zone.pages 1: fail
`)
	if err != nil {
		t.Fatal(err)
	}
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	want, got := Decode(data, DecodeOptions{}), Decode(data, DecodeOptions{SMP: true})
	if d := firstDiff(want.String(), got.String()); d != "" {
		t.Errorf("(-without +with SMP):\n%s", d)
	}
}

// TestDecodeRepeatsSpend demands that most frees in a repeat are of what the repeat itself binds:
// from the second round on the others are skipped.
func TestDecodeRepeatsSpend(t *testing.T) {
	rng := newRand()
	d := new(Decoder)
	frees, own := 0, 0
	for range 2000 {
		p := d.Decode(GenerateBytes(rng, GenerateOptions{Lines: 30}), DecodeOptions{})
		for i := range p.Lines {
			bound := map[string]bool{}
			one := prog.Program{Lines: p.Lines[i].Body}
			one.Walk(func(l *prog.Line, _ []int) {
				if l.Verb == prog.Free {
					frees++
					if bound[l.Slots[0]] {
						own++
					}
				}
				for _, s := range l.Results {
					bound[s] = true
				}
			})
		}
	}
	if frees < 1000 || own*10 < frees*8 {
		t.Errorf("%d of %d frees in repeats are of what they bind, want 8 of 10", own, frees)
	}
}

// TestDecodeSizedFree demands that a sized free states the one size that its operand can have.
func TestDecodeSizedFree(t *testing.T) {
	rng := newRand()
	d := new(Decoder)
	frees := 0
	for range 3000 {
		p := d.Decode(GenerateBytes(rng, GenerateOptions{Lines: 60}), DecodeOptions{})
		sizes := map[string][]uint64{}
		p.Walk(func(l *prog.Line, _ []int) {
			for _, s := range l.Results {
				sizes[s] = append(sizes[s], requested(l))
			}
		})
		p.Walk(func(l *prog.Line, _ []int) {
			if l.Verb != prog.FreeSized || l.Slots[0] == prog.Nil {
				return
			}
			frees++
			if bound := sizes[l.Slots[0]]; !slices.Equal(bound, l.Nums) {
				t.Fatalf("%s: bound with sizes %d\n%s", prog.AppendLine(nil, l), bound, p)
			}
		})
	}
	if frees < 100 {
		t.Errorf("%d sized frees, want 100", frees)
	}
}

// TestDecodeBudget demands that a repeat runs as often as the budget allows, and is whole.
func TestDecodeBudget(t *testing.T) {
	p := parse(t, "allocfuzz 1\ncache c size=64\n"+
		"cpu0 repeat 100 {\n\tcpu0 a = alloc c\n\tcpu0 free c a\n}\n")
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	got := Decode(data, DecodeOptions{Budget: 11})
	if l := got.Lines[0]; l.Count != 5 || len(l.Body) != 2 {
		t.Errorf("with 11 operations to spend got\n%s\nwant 5 rounds of 2", got)
	}
}

// TestDecodeZero fixes the simplest choices.
func TestDecodeZero(t *testing.T) {
	want := "allocfuzz 1\ncache c size=64\n"
	if diff := firstDiff(want, Decode(nil, Everything).String()); diff != "" {
		t.Error(diff)
	}
	text := Decode(make([]byte, HeadSize+2*RecordSize+3), DecodeOptions{}).String()
	want = "allocfuzz 1\ncache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncpu0 d = alloc c\n"
	if diff := firstDiff(want, text); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeDepartureZero demands that a departure of zeros is the first point of the line above.
func TestDecodeDepartureZero(t *testing.T) {
	data := make([]byte, HeadSize)
	data = append(data, make([]byte, RecordSize)...)
	data = append(data, tagDeparture, 0, 0, 0, 0, 0, 0, 0)
	p := Decode(data, DecodeOptions{})
	if want := "sched\nat alloc(a) load - 1: cpu0\n"; !strings.Contains(p.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", p, want)
	}
}

// TestDecodeSpace demands that random bytes reach everything that bytes are there to say.
func TestDecodeSpace(t *testing.T) {
	rng := newRand()
	d := new(Decoder)
	seen := map[string]bool{}
	for range 5000 {
		p := d.Decode(GenerateBytes(rng, GenerateOptions{Lines: 40}), Everything)
		note(seen, p)
	}
	for v := range prog.Verb(prog.Verbs) {
		need(t, seen, "verb "+v.String())
	}
	for k := range prog.Kind(prog.Kinds) {
		need(t, seen, "kind "+k.String())
	}
	for k := range prog.ActionKind(prog.ActionKinds) {
		need(t, seen, "action "+k.String())
	}
	for _, f := range Fields() {
		need(t, seen, "field "+f)
	}
	for _, s := range []string{
		"cpus 1", "cpus 2", "cpus 3", "word 64", "word 32", "word 16", "pages 2", "pages 16",
		"seqbits 2", "seqbits 3", "seqbits 4", "seqbits 8", "seqbits 32", "preempt none",
		"preempt full", "preempt rt", "seq0 all-ones", "tso", "flags", "ctx task", "ctx irq",
		"ctx named", "fail", "zero", "atomic", "repeat 126", "repeat 6", "repeat nested",
		"iteration",
		"delivery", "waits", "low base", "straddle", "top", "caches 0", "caches 3", "objects 2",
		"malloc 0", "calloc overflow", "debug FZPU", "debug Z", "rules 6.12", "rules 2.4",
		"rules 2.6", "rules ", "created flags",
	} {
		need(t, seen, s)
	}
}

func need(t *testing.T, seen map[string]bool, what string) {
	t.Helper()
	if !seen[what] {
		t.Errorf("never seen: %s", what)
	}
}

// TestDecodeSeqBits demands that narrow sequence counters are the rule.
func TestDecodeSeqBits(t *testing.T) {
	n := map[int]int{}
	for b := range 256 {
		n[pick(seqBitsTable, byte(b))]++
	}
	if n[2]+n[3] <= 128 || n[4] == 0 || n[8] == 0 || n[0] == 0 {
		t.Errorf("weights of the widths: %v, want most of them 2 and 3", n)
	}
}

// TestDecodeRepeat demands that half of the counts are near a power of two.
func TestDecodeRepeat(t *testing.T) {
	for b := range 256 {
		n := repeatCount(0, byte(b))
		near := false
		for less := range 4 {
			near = near || (n+less)&(n+less-1) == 0
		}
		if !near || n < 1 || n > 256 {
			t.Errorf("repeatCount(0, %d) = %d, want near a power of two", b, n)
		}
	}
}

// TestDecodeMeaningful demands that most frees of random programs find something live.
func TestDecodeMeaningful(t *testing.T) {
	rng := newRand()
	d := new(Decoder)
	frees, dead := 0, 0
	for range 2000 {
		p := d.Decode(GenerateBytes(rng, GenerateOptions{Lines: 30}), DecodeOptions{})
		live := map[string]bool{}
		p.Walk(func(l *prog.Line, _ []int) {
			for _, s := range l.Slots {
				if l.Verb == prog.Free {
					frees++
					if !live[s] {
						dead++
					}
					live[s] = false
				}
			}
			for _, s := range l.Results {
				live[s] = true
			}
		})
	}
	if frees < 10000 || dead*10 > frees {
		t.Errorf("%d of %d frees are of nothing live, want a tenth at most", dead, frees)
	}
}

// TestDecodeInsert demands that a record put in, or taken out, in front of a departure's line
// leaves the departure where it was.
func TestDecodeInsert(t *testing.T) {
	p := parse(t, abaText)
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	malloc := []byte{0, verbByte[prog.Malloc], 60, 0, 0, 0, 0, 0}
	for i := 0; i <= 2; i++ {
		at := HeadSize + i*RecordSize
		more := append(append(bytes.Clone(data[:at]), malloc...), data[at:]...)
		if i == 2 {
			more = append(append(bytes.Clone(data), malloc...), malloc...)
		}
		got := Decode(more, DecodeOptions{})
		d := got.Scheds[0].Departures[0]
		if l := d.Where.Line; l.Verb != prog.Alloc || d.Field != "cpu_slab.freelist" {
			t.Errorf("record put in at %d: departure at\n%s", i, got)
		}
	}
	less := append(bytes.Clone(data[:HeadSize]), data[HeadSize+RecordSize:]...)
	got := Decode(less, DecodeOptions{})
	if l := got.Scheds[0].Departures[0].Where.Line; l != &got.Lines[0] {
		t.Errorf("first record taken out: departure at\n%s", got)
	}
}

// abaText is the program that the tests of departures work on.
const abaText = `allocfuzz 1
cache c size=64

cpu0 w = alloc c
cpu0 a = alloc c
cpu0 b = alloc c
irq0 x = alloc c
irq0 y = alloc c
irq0 free c x

sched
at alloc(a) cmpxchg cpu_slab.freelist 1: irq0
`

func parse(t testing.TB, text string) *prog.Program {
	t.Helper()
	p, err := prog.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func canonText(p *prog.Program) string { return Canonical(p).String() }

// firstDiff returns "" for equal texts, else the first line that differs, on both sides. It stands
// in for go-cmp, which a fuzz binary had better not link.
func firstDiff(want, got string) string {
	if want == got {
		return ""
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < min(len(a), len(b))-1 && a[i] == b[i] {
		i++
	}
	return "-" + a[i] + "\n+" + b[i] + "\nin\n" + got
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(*seed, 7)) }

// corpusFiles returns the programs that must fit into bytes.
func corpusFiles() []corpus.File {
	var list []corpus.File
	for f := range corpus.Seeds() {
		list = append(list, f)
	}
	for f := range corpus.Regress() {
		list = append(list, f)
	}
	return list
}

func BenchmarkDecode(b *testing.B) {
	rng := newRand()
	var inputs [][]byte
	for range 64 {
		data := GenerateBytes(rng, GenerateOptions{Lines: 200})
		inputs = append(inputs, data[:HeadSize+60*RecordSize])
	}
	d := new(Decoder)
	b.ReportAllocs()
	lines := 0
	for i := 0; b.Loop(); i++ {
		p := d.Decode(inputs[i%len(inputs)], DecodeOptions{})
		lines += len(p.Lines)
	}
	b.ReportMetric(float64(lines)/float64(b.N), "lines/op")
}

// TestDecodeActions demands that bytes of a machine without store buffers mean what they meant
// before there were any, and that few machines have them.
func TestDecodeActions(t *testing.T) {
	for i, want := range []prog.ActionKind{prog.Interrupt, prog.ToCPU, prog.Interrupt, prog.ToTask,
		prog.Interrupt, prog.Move, prog.Fail, prog.None} {
		if actionTable[i] != want {
			t.Errorf("action %d is %s, want %s", i, actionTable[i], want)
		}
		if got := bufferTable[i]; got != want && want != prog.Interrupt {
			t.Errorf("with store buffers action %d is %s, want %s", i, got, want)
		}
	}
	n := 0
	head := make([]byte, HeadSize)
	for kind := range 256 {
		head[headKind] = byte(kind)
		if Decode(head, Everything).Machine.TSO {
			n++
		}
		if Decode(head, DecodeOptions{}).Machine.TSO {
			t.Fatalf("kind %#x has store buffers, which are not let through", kind)
		}
	}
	if n != 32 {
		t.Errorf("%d of 256 machines have store buffers, want 32", n)
	}
}
