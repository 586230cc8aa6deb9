package prog

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExamples demands that the example files are canonical and survive a round trip.
func TestExamples(t *testing.T) {
	for _, name := range programs(t) {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParseString(string(b))
			if err != nil {
				t.Fatal(err)
			}
			checkStable(t, p)
			if d := cmp.Diff(string(b), p.String()); d != "" {
				t.Errorf("not canonical (-file +printed):\n%s", d)
			}
			var out bytes.Buffer
			w := NewWriter(&out, p)
			for i := range p.Lines {
				if err := w.WriteLine(&p.Lines[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(p.Scheds); err != nil {
				t.Fatal(err)
			}
			want := strings.TrimSuffix(p.String(), strings.Join(append(p.Tail, ""), "\n"))
			if d := cmp.Diff(want, out.String()); d != "" {
				t.Errorf("Writer differs from Format (-Format +Writer):\n%s", d)
			}
		})
	}
}

// spellings are accepted texts and what they print as; without a want they are faults.
var spellings = []struct{ name, in, want string }{
	{"head order", "allocfuzz 1\ndate: 2\nfound:  x \nclass: b\nalso:c; d\ntitle:a\n",
		"allocfuzz 1\ntitle: a\nalso: c; d\nclass: b\nfound: x\ndate: 2\n"},
	{"blanks and carriage returns", "  allocfuzz\t1 \r\ncache  c\tsize=64 \r\n\r\n\r\n",
		cache},
	{"no end of line", cache + "cpu0 a = alloc c", objs},
	{"tight", cache + "cpu0 a,b=allocbulk c=>ok@x;n\n",
		cache + "cpu0 a,b = allocbulk c => ok @x ; n\n"},
	{"loose", cache + "@ l  cpu0  a , b  =  allocbulk  c  =>  ok  @  x  ;  n \n", ""},
	{"loose without the label's blank",
		cache + "@l  cpu0  a , b  =  allocbulk  c  =>  ok  @  x  ;  n \n",
		cache + "@l cpu0 a,b = allocbulk c => ok @x ; n\n"},
	{"numbers", first + "cpu0 p = malloc 0x40\ncpu0 p = malloc 2K\ncpu0 p = malloc 007\n",
		first + "cpu0 p = malloc 64\ncpu0 p = malloc 2048\ncpu0 p = malloc 7\n"},
	{"megabytes", first + "cpu0 p = malloc 1M\ncpu0 p = malloc 0x1K\n",
		first + "cpu0 p = malloc 1048576\ncpu0 p = malloc 1024\n"},
	{"64 bits", objs + "cpu0 flip object of a bits=18446744073709551615\n" +
		"cpu0 flip object of a bits=0xffffFFFFffffFFFF\n",
		objs + "cpu0 flip object of a bits=18446744073709551615\n" +
			"cpu0 flip object of a bits=18446744073709551615\n"},
	{"keys sorted", first + "cache c size=8 flags=user,poison align=4\n" +
		"cpu0 a = alloc flags=zero,atomic c fail=2\n",
		first + "cache c align=4 flags=poison,user size=8\n" +
			"cpu0 a = alloc c fail=2 flags=atomic,zero\n"},
	{"create", first + "cpu0 c = create size=8 fail=1 order=0 align=8 ctor=off\n",
		first + "cpu0 c = create align=8 fail=1 order=0 size=8\n"},
	{"default machine", first + "machine cpus=1 pages=16 pagesize=4K word=64 seqbits=32 " +
		"base=0x100000000 seq0=0 tso=off preempt=none\n", first},
	{"machine of 16 bits", first + "machine word=16 base=0x100 pagesize=128 seqbits=8\n",
		first + "machine word=16\n"},
	{"machine of 16 bits, other page",
		first + "machine word=16 base=0x1000 pagesize=4K pages=4\n",
		first + "machine pages=4 pagesize=4096 word=16\n"},
	{"base in hex", first + "machine base=65536 word=64\n", first + "machine base=0x10000\n"},
	{"rules that are a default", first + "machine rules=6.1\n", first + "machine rules=6.1\n"},
	{"boot parameters", first + "machine word=32 rules=6.12 debug=\"fz;-,kmalloc-*\" pages=4\n",
		first + "machine debug=\"fz;-,kmalloc-*\" pages=4 rules=6.12 word=32\n"},
	{"older rules", first + "machine rules=2.6 cpus=2\n",
		first + "machine cpus=2 rules=2.6\n"},
	{"outcomes sorted", objs + "cpu0 free c a => ok @b => enomem @a => refused\n",
		objs + "cpu0 free c a => refused => enomem @a => ok @b\n"},
	{"empty note", objs + "cpu0 free c a ;\n", objs + "cpu0 free c a\n"},
	{"odd string", objs + "cpu0 free c a => report \"\\x41\\t\\xff\u200b\"\n",
		objs + "cpu0 free c a => report \"A\\t\\xff\\u200b\"\n"},
	{"indentation", cache + "cpu0 repeat 2 {\ncpu0 repeat 3 {\n# x\ncpu0 drain\n  }\n# y\n}\n",
		cache + "cpu0 repeat 2 {\n\tcpu0 repeat 3 {\n\t\t# x\n\t\tcpu0 drain\n\t}\n\t# y\n}\n"},
	{"anchors", objs + "@l irq0 b = alloc c\ncpu0 repeat 3 {\ncpu0 e = alloc c\n}\nsched\n" +
		"at  alloc(a)  end  -  0x1  :  irq0,fail\nat irq0#1/alloc(b) end - 1: none\n" +
		"at alloc(e)[1] end - 1: cpu0\nat alloc(e)[2] end - 1:cpu0\n",
		objs + "@l irq0 b = alloc c\ncpu0 repeat 3 {\n\tcpu0 e = alloc c\n}\nsched\n" +
			"at alloc(a) end - 1: irq0, fail\nat irq0/l end - 1: none\n" +
			"at alloc(e) end - 1: cpu0\nat alloc(e)[2] end - 1: cpu0\n"},
	{"tasks before caches", first + "# t\ntask t cpu=0\n\n# c\n\ncache c size=8\n",
		first + "\n# c\n\ncache c size=8\n# t\ntask t cpu=0\n"},
	{"comment of a machine line that goes",
		first + "# a\nmachine cpus=1\n# b\ncache c size=8\n",
		first + "# a\n# b\ncache c size=8\n"},
	{"only comments", first + "\n\n# a\n\n\n# b\n\n", first + "\n# a\n\n# b\n"},
	{"comments without declarations",
		first + "# a\n\n# b\ncpu0 drain\n# c\ncpu0 drain\n\n# d\nsched\n",
		first + "# a\n\n# b\ncpu0 drain\n# c\ncpu0 drain\n\n# d\nsched\n"},
	{"only a machine", first + "# a\n\nmachine cpus=2\n\n# b\n",
		first + "# a\n\nmachine cpus=2\n\n# b\n"},
}

// TestCanonical holds spellings that are accepted and the one that is printed.
func TestCanonical(t *testing.T) {
	for _, c := range spellings {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParseString(c.in)
			if c.want == "" {
				if err == nil {
					t.Fatalf("accepted:\n%s", p)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, p.String()); d != "" {
				t.Errorf("printed (-want +got):\n%s", d)
			}
			checkStable(t, p)
		})
	}
}

// TestFreshLabels demands that anchors which name lines by pointer are printed with a spelling
// that finds the line again, with a label where it must be, without changing the program.
func TestFreshLabels(t *testing.T) {
	p, err := ParseString(objs + "@l1 cpu0 a = alloc c\ncpu0 drain\ncpu0 b = alloc c\ncpu0 drain\n")
	if err != nil {
		t.Fatal(err)
	}
	var deps []Departure
	for i := range p.Lines {
		deps = append(deps, Departure{Where: Where{Line: &p.Lines[i]}, Kind: KEnd, Field: "-", N: 1,
			Actions: []Action{{Kind: ToCPU}}})
	}
	p.Scheds = []Sched{{Departures: append(deps, deps[0])}}
	if err := Validate(p); err != nil {
		t.Fatal(err)
	}
	want := cache + `@l2 cpu0 a = alloc c
@l1 cpu0 a = alloc c
@l3 cpu0 drain
cpu0 b = alloc c
@l4 cpu0 drain
sched
at l2 end - 1: cpu0
at l1 end - 1: cpu0
at l3 end - 1: cpu0
at alloc(b) end - 1: cpu0
at l4 end - 1: cpu0
at l2 end - 1: cpu0
`
	if d := cmp.Diff(want, p.String()); d != "" {
		t.Errorf("printed (-want +got):\n%s", d)
	}
	if p.Lines[0].Label != "" || p.Scheds[0].Departures[0].Where.Ref != (LineRef{}) {
		t.Error("printing changed the program")
	}
	again, err := ParseString(p.String())
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range again.Scheds[0].Departures {
		_, path, err := again.FindRef(d.Where.Ref)
		if err != nil || path[0] != i%5 {
			t.Errorf("departure %d names line %v (%v), want %d", i, path, err, i%5)
		}
	}
}

// TestRefFor demands a spelling for every operation that finds it again.
func TestRefFor(t *testing.T) {
	p, err := ParseString(objs +
		"cpu0 a = alloc c\ncpu0 repeat 2 {\ncpu0 drain\ncpu0 free c a\n}\n" +
		"cpu0 freebulk c a\ncpu0 x,y = allocbulk c\ncpu0 shrink c\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	p.Walk(func(l *Line, path []int) {
		if l.Verb == Repeat {
			return
		}
		ref := p.RefFor(l)
		got = append(got, ref.String())
		found, at, err := p.FindRef(ref)
		if err != nil || found != l || !cmp.Equal(at, path) {
			t.Errorf("%s finds %v (%v), want %v", ref, at, err, path)
		}
		if again := p.RefFor(l); again != ref {
			t.Errorf("%s is %s the second time", ref, again)
		}
	})
	// The second alloc(a) is not told apart by the label of the first.
	want := []string{"l1", "l2", "l3", "free(a)", "freebulk(a)", "allocbulk(x)", "shrink(c)"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("spellings (-want +got):\n%s", d)
	}
}

// TestCommentOwners demands that each comment is with the item below it, the first ones of a file
// without a machine line aside.
func TestCommentOwners(t *testing.T) {
	p, err := ParseString(first + "# a\ncpu0 drain\n\n# b\n\ncpu0 drain\n# c\nsched\n# d\n")
	if err != nil {
		t.Fatal(err)
	}
	got := [][]string{p.Doc, p.Lines[0].Doc, p.Lines[1].Doc, p.Scheds[0].Doc, p.Tail}
	want := [][]string{{"# a"}, nil, {"# b", ""}, {"# c"}, {"# d"}}
	if d := cmp.Diff(want, got); d != "" || p.Lines[0].Blank || !p.Lines[1].Blank {
		t.Errorf("comments (-want +got):\n%s", d)
	}
}

// TestOneBlankLine demands one blank line where two items of a program in memory ask for one each.
func TestOneBlankLine(t *testing.T) {
	p := &Program{Doc: []string{"# a", ""}}
	p.Lines = []Line{{Blank: true, Ctx: Ctx{Kind: CPUCtx}, Verb: Drain}}
	if got, want := p.String(), first+"# a\n\ncpu0 drain\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWriterErrors demands that a full disk is reported by Close, and not forgotten on the way.
func TestWriterErrors(t *testing.T) {
	full := errors.New("disk full")
	p, err := ParseString(objs)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(&failing{room: 100 << 10, err: full}, p)
	var first error
	for range 20_000 {
		if err := w.WriteLine(&p.Lines[0]); err != nil && first == nil {
			first = err
		}
	}
	if err := w.Close(nil); first != full || err != full {
		t.Errorf("WriteLine: %v, Close: %v, want %v from both", first, err, full)
	}
}

type failing struct {
	room int
	err  error
}

func (f *failing) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, f.err
	}
	return len(b), nil
}
