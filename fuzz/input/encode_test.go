package input

import (
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
)

// TestEncodeCorpus demands that every block of every committed program but the traces, and those
// with debug options that bits do not spell, fits into bytes and comes back the same up to names.
func TestEncodeCorpus(t *testing.T) {
	for _, f := range corpusFiles() {
		t.Run(f.Name, func(t *testing.T) {
			p, err := f.Program()
			if err != nil {
				t.Fatal(err)
			}
			for i := range max(1, len(p.Scheds)) {
				data, err := EncodeBlock(p, i)
				if debugMask(p.Machine.Debug) < 0 {
					if err == nil {
						t.Fatal("options for caches by name fit into bytes")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := *p
				if i < len(p.Scheds) {
					want.Scheds = p.Scheds[i : i+1]
				}
				got := canonText(Decode(data, Everything))
				if diff := firstDiff(canonText(&want), got); diff != "" {
					t.Errorf("block %d (-file +decoded):\n%s", i, diff)
				}
			}
		})
	}
}

// TestEncodeTraces demands that traces say that they do not fit.
func TestEncodeTraces(t *testing.T) {
	for f := range corpus.Traces() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Encode(p)
		if err == nil || !strings.Contains(err.Error(), "do not fit into bytes") ||
			!strings.Contains(err.Error(), f.Name) {
			t.Errorf("Encode(%s): %v, want a refusal that names the file", f.Name, err)
		}
	}
}

// TestEncodeSpelled demands that what a table does not have is spelled in full.
func TestEncodeSpelled(t *testing.T) {
	for name, text := range map[string]string{
		"machine": `
machine base=0x3fd70000 cpus=4 pages=11 pagesize=32768 seq0=12345 seqbits=21 tso=on
cache c size=64
cpu3 a = alloc c
`,
		"narrow": `
machine base=0x600 pages=7 seq0=100 seqbits=8 word=16
`,
		"top": `
machine base=0xffffffffffff8000 pages=8
`,
		"boot": `
machine cpus=2 debug="FZPUTA" pages=3 preempt=rt rules=2.4
cache c size=64
`,
		"boot with a base": `
machine base=0x3fd70000 debug="TA" preempt=full rules=6.12
`,
		"boot at the end": `
machine base=0xffffffffffff8000 debug="ZP" pages=8 rules=2.6
`,
		"caches": `
cache c align=4096 batch=60 cpu_partial=30 ctor=on flags=failslab,trace size=100000
cache c2 limit=120 min_partial=5 objects=99 order=3 size=4097
cache c1 align=64 size=256
cpu0 d = create align=32 batch=9 cpu_partial=13 ctor=on fail=9 flags=poison size=4097
cpu0 e = create limit=7 min_partial=10 objects=5 order=2 size=70000
cpu0 a = alloc d
cpu0 d = create size=8
cpu0 e = create flags=poison,redzone,sanity,user size=8
cpu0 e = create flags=failslab size=8
`,
		"numbers": `
cpu0 a = malloc 140737488355328
cpu0 b = malloc 7001
cpu0 d = calloc 4294967296 4294967296
cpu0 e = calloc 12345 3
cpu0 f = memalign 8192 65
cpu0 g = pages 9
cpu0 h = malloc fail=77 flags=atomic,zero 31337
cpu0 a = realloc a 99999
cpu0 b = malloc 0
`,
		"refused objects": `
cache c size=64
cpu0 a = alloc c failobj=4
cpu0 b,d = allocbulk c failobj=5 flags=zero
cpu0 e = alloc c fail=2 failobj=1
cpu0 f = malloc fail=9 failobj=70000 31
cpu0 g = calloc 3 5 failobj=1
cpu0 f = realloc f 200 fail=5 failobj=3
`,
		"store buffers": `
machine cpus=3 merge=on tso=on
cache c size=64
cpu0 a = alloc c
cpu2 b = alloc c

sched
at alloc(a) store cpu_slab.tid 1: hold, cpu2, drain cpu0
at alloc(b) memstore object.link 1: hold, none, fail
at alloc(b) wait cpu.store_buffer 1: drain cpu2, cpu0, move cpu1
`,
		"repeats": `
cache c size=64
cpu0 repeat 3 {
	cpu0 repeat 300 {
		cpu0 a = alloc c
		cpu0 free c a
	}
	cpu0 b = alloc c
}

sched
at alloc(a)[2][299] load slab.inuse 200: fail, irq0
at free(a)[3][1] lock node.list_lock 3: fail
at alloc(a) load slab.inuse 4000: none
`,
		"names": `
cache c size=64
cpu0 a,b,d,e,f,g,h,i,j = allocbulk c
cpu0 b,a = allocbulk c
cpu0 freebulk c j i h g f e d b a
`,
		"waits": `
machine cpus=2
cache c size=64
cpu1 free c a
cpu1 usable p
cpu1 verify q
cpu0 a = alloc c
cpu0 p = malloc 10
cpu0 q = pages 1
cpu0 a = alloc c
`,
		"contexts": `
machine cpus=3 preempt=full
cache c size=64
task one cpu=2
task two cpu=0
two a = alloc c
irq2.timer b = alloc c
irq2 free c b
irq2.disk free c a
one d = alloc c
cpu2 e = alloc c

sched
at irq2.disk#7/free(a) load - 1: two, move cpu1, cpu2, irq2.timer
at alloc(a) end - 1: one
at alloc(b) store cpu.call 1: none
`,
		"misuse": `
cache c flags=poison,redzone,sanity,user size=64
cache c1 size=32
cpu0 a = alloc c
cpu0 p = malloc 10
cpu0 overrun a 8
cpu0 underrun p 300
cpu0 flip padding of a bits=1311768467463790320 byte=1000
cpu0 flip slab.inuse of p
cpu0 flip cache.nr_slabs c1 bits=3
cpu0 freeinside c a 8
cpu0 g = pages 1
cpu0 freeforeign g
cpu0 freeforeign c1 g
cpu0 freewrong c1 a
cpu0 overrun a 112
cpu0 overrun a 113
cpu0 flip leftred of a byte=7
cpu0 flip object of a byte=8
cpu0 flip object of a byte=135
cpu0 flip object of a byte=136
cpu0 free c a
cpu0 writefreed a
cpu0 freeagain c a
cpu0 freesized p 10
`,
		"others": `
machine cpus=2
cache c size=64
cpu0 validate c
cpu0 flush c
cpu1 drain
check
cpu0 offline cpu=1
cpu0 shrink c
cpu0 destroy c
`,
	} {
		t.Run(name, func(t *testing.T) {
			text = strings.Replace(text, "fail, irq0", "fail, cpu0", 1)
			text = strings.Replace(text, "at alloc(b) store", "at irq2.timer/alloc(b) store", 1)
			text = strings.Replace(text, "h = malloc fail=77 flags=atomic,zero 31337",
				"h = malloc 31337 fail=77 flags=atomic,zero", 1)
			p := parse(t, "allocfuzz 1"+text)
			if _, err := Encode(p); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEncodeRefuses demands an error that says what does not fit.
func TestEncodeRefuses(t *testing.T) {
	many := strings.Repeat("cpu0 a = alloc c\n", LinesMax+1)
	cache := "cache c size=64\n"
	for _, c := range []struct{ text, want string }{
		{"machine cpus=5\n", "5 cpus"},
		{"machine debug=\"ZF\"\n", "the debug options \"ZF\""},
		{"machine debug=\"FZ;-,c\"\n", "the debug options \"FZ;-,c\""},
		{"machine debug=\"-\"\n", "the debug options \"-\""},
		{"cpu0 a = malloc 8\ncpu0 freeforeign a\n", "freeforeign a"},
		{"machine pages=100000\n", "an arena of 100000 pages"},
		{cache + many, "257 lines"},
		{cache + "cpu0 repeat 5000 {\n\tcpu0 a = alloc c\n}\n", "5000 operations"},
		{cache + "cache d size=1\ncache e size=1\ncache f size=1\n", "4 declared caches"},
		{cache + "cpu0 a = alloc c\nsched\nat alloc(a) load no.such 1: fail\n",
			"the field no.such"},
		{"cpu0 a = malloc 8\ncpu0 freesized a 9\n", "freesized a 9"},
		{cache + "cpu0 a = alloc c\ncpu0 free a\n", "free a"},
		{cache + "irq0 shrink c\n", "irq0 shrink c"},
		{"machine cpus=2\ncpu1 a = alloc c\ncpu0 c = create size=8\n",
			"used before it is created"},
	} {
		p, err := prog.ParseString("allocfuzz 1\n" + c.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Encode(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Encode: %v, want an error with %q", err, c.want)
		}
	}
}

// TestCodes demands that every code of a number decodes to the number.
func TestCodes(t *testing.T) {
	sizes := 0
	for size := range 9000 {
		if b, ext, ok := sizeCode(uint64(size)); ok {
			sizes++
			if got := sizeOf(b, ext, 4096); got != uint64(size) {
				t.Fatalf("sizeOf(sizeCode(%d)) = %d", size, got)
			}
		}
		if b, ext, ok := objectCode(size + 1); ok {
			if got := objectSize(b, ext, 4096); got != size+1 {
				t.Fatalf("objectSize(objectCode(%d)) = %d", size+1, got)
			}
		}
		if how, b, ok := countCode(size + 1); ok {
			if got := repeatCount(how, b); got != size+1 {
				t.Fatalf("repeatCount(countCode(%d)) = %d", size+1, got)
			}
		}
		if b, ok := attemptCode(size + 1); ok {
			if got := attemptOf(b); got != size+1 {
				t.Fatalf("attemptOf(attemptCode(%d)) = %d", size+1, got)
			}
		}
		if b, ok := bytesCode(uint64(size)); ok {
			if got := bytesOf(b); got != size {
				t.Fatalf("bytesOf(bytesCode(%d)) = %d", size, got)
			}
		}
		if b, ok := offsetCode(uint64(size)); ok {
			if got := offsetOf(b); got != size {
				t.Fatalf("offsetOf(offsetCode(%d)) = %d", size, got)
			}
		}
		if b, ok := failCode(size); ok {
			if got := failOf(b); got != size {
				t.Fatalf("failOf(failCode(%d)) = %d", size, got)
			}
		}
		if b, ok := bodyCode(size + 1); ok {
			if got := bodyLength(b); got != size+1 {
				t.Fatalf("bodyLength(bodyCode(%d)) = %d", size+1, got)
			}
		}
	}
	if sizes < 6144 {
		t.Errorf("%d sizes have a code, want all up to 6143", sizes)
	}
}

// TestCanonical demands that what bytes do not carry is left out, and only that.
func TestCanonical(t *testing.T) {
	p := parse(t, `allocfuzz 1
title: object handed out twice
# A comment.
cache mine size=64

@here cpu0 first = alloc mine => ok ; a note
irq0.late free mine first
irq0.soon x = alloc mine
check

sched subject=slub-2008-cmpxchg => bug "object handed out twice"
at here load - 1: irq0.soon
`)
	want := `allocfuzz 1
cache c size=64
cpu0 a = alloc c
irq0.a free c a
irq0.b b = alloc c
check

sched
at alloc(a) load - 1: irq0.b
`
	before := p.String()
	if diff := firstDiff(want, canonText(p)); diff != "" {
		t.Error(diff)
	}
	if before != p.String() {
		t.Error("Canonical changed its argument")
	}
}

func BenchmarkEncode(b *testing.B) {
	p := Generate(newRand(), GenerateOptions{Lines: 60})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(p); err != nil {
			b.Fatal(err)
		}
	}
}
