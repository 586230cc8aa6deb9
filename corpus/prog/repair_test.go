package prog

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repairs are damaged programs, what is kept of them and what is dropped.
var repairs = []struct {
	name, in, want string
	dropped        []string
}{
	{"good", objs, objs, nil},
	{"unknown operation", objs + "cpu0 jump\ncpu0 free c a\n", objs + "cpu0 free c a\n",
		[]string{"cpu0 jump"}},
	{"unknown key", objs + "cpu0 b = alloc c node=1\n", objs,
		[]string{"cpu0 b = alloc c node=1"}},
	{"bad machine", first + "machine cores=9\ncache c size=8\n", first + "cache c size=8\n",
		[]string{"machine cores=9"}},
	{"bad options", first + "machine debug=F\ncache c size=8\n", first + "cache c size=8\n",
		[]string{"machine debug=F"}},
	{"bad cache and what needs it", first + "cache c size=0\ncpu0 a = alloc c\ncpu0 fill a\n" +
		"cpu0 p = malloc 8\n", first + "cpu0 p = malloc 8\n",
		[]string{"cache c size=0", "cpu0 a = alloc c", "cpu0 fill a"}},
	{"comments stay with the next", cache + "# x\ncpu0 jump\ncpu0 a = alloc c\n",
		cache + "# x\ncpu0 a = alloc c\n", []string{"cpu0 jump"}},
	{"head of a repeat",
		objs + "cpu7 repeat 2 {\ncpu7 repeat 2 {\ncpu7 drain\n}\n}\ncpu0 drain\n",
		objs + "cpu0 drain\n",
		[]string{"cpu7 repeat 2 {", "cpu7 drain", "}", "}", "cpu7 repeat 2 {"}},
	{"a note that looks like one", objs + "cpu0 jump ; {\ncpu0 drain\n", objs + "cpu0 drain\n",
		[]string{"cpu0 jump ; {"}},
	{"body of a repeat", objs + "cpu0 repeat 2 {\ncpu0 jump\ncpu0 drain\n}\n",
		objs + "cpu0 repeat 2 {\n\tcpu0 drain\n}\n", []string{"cpu0 jump"}},
	{"whole body of a repeat", objs + "cpu0 repeat 2 {\ncpu0 jump\n}\n", objs,
		[]string{"cpu0 jump", "cpu0 repeat 2 {"}},
	{"repeat emptied by names", objs + "cpu0 repeat 2 {\ncpu0 fill b\n}\n", objs,
		[]string{"cpu0 fill b"}},
	{"open repeat", objs + "cpu0 repeat 2 {\ncpu0 drain\n",
		objs + "cpu0 repeat 2 {\n\tcpu0 drain\n}\n",
		[]string{""}},
	{"stray brace", objs + "}\n", objs, []string{"}"}},
	{"twice the label", objs + "@l cpu0 drain\n@l cpu0 drain\n", objs + "@l cpu0 drain\n",
		[]string{"@l cpu0 drain"}},
	{"anchors", objs + "sched\nat alloc(b) end - 1: cpu0\nat alloc(a) end - 1: cpu0\nfoo\n",
		objs + "sched\nat alloc(a) end - 1: cpu0\n",
		[]string{"foo", "at alloc(b) end - 1: cpu0"}},
	{"handler that went", objs + "irq0 fill b\nsched\nat alloc(a) end - 1: irq0\n",
		objs + "sched\n", []string{"irq0 fill b", "at alloc(a) end - 1: irq0"}},
	{"bad sched line", objs + "sched x\nat alloc(a) end - 1: cpu0\nsched\n", objs + "sched\n",
		[]string{"sched x", "at alloc(a) end - 1: cpu0"}},
	{"binary line", objs + "cpu0 \x00\ncpu0 drain\n", objs + "cpu0 drain\n", []string{""}},
	{"long line", objs + "#" + strings.Repeat("x", 3*MaxLine) + "\ncpu0 drain\n",
		objs + "cpu0 drain\n", []string{""}},
	{"one task too many", crowd("cpus=2", MaxTasks+1),
		strings.TrimSuffix(crowd("cpus=2", MaxTasks+1), "t63 drain\n"), []string{"t63 drain"}},
	{"handlers are no tasks", crowd("cpus=2", MaxTasks) + "irq0 drain\n",
		crowd("cpus=2", MaxTasks) + "irq0 drain\n", nil},
}

// TestRepair demands that exactly what is wrong is left out, and said.
func TestRepair(t *testing.T) {
	for _, c := range repairs {
		t.Run(c.name, func(t *testing.T) {
			p, dropped, err := ParseRepair("a.prog", strings.NewReader(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, p.String()); d != "" {
				t.Errorf("kept (-want +got):\n%s", d)
			}
			var got []string
			for _, d := range dropped {
				got = append(got, d.Text)
				if d.Err == nil || d.Err.File != "a.prog" || d.Err.Pos.Line == 0 {
					t.Errorf("%q was dropped for %v, want a reason with a position", d.Text, d.Err)
				}
			}
			if d := cmp.Diff(c.dropped, got); d != "" {
				t.Errorf("dropped (-want +got):\n%s", d)
			}
			checkStable(t, p)
		})
	}
	if _, _, err := ParseRepair("a.prog", strings.NewReader("allocfuzz 9\n")); err == nil {
		t.Error("another version was accepted")
	}
}

// TestRepairChain demands that a long chain of lines, each of which needs the one before, is
// dropped in few rounds.
func TestRepairChain(t *testing.T) {
	const n = 50_000
	b := []byte(first + "cpu0 p0 = jump\n")
	for i := range n {
		b = append(b, "cpu0 p"+strconv.Itoa(i+1)+" = realloc p"+strconv.Itoa(i)+" 8\n"...)
	}
	p, dropped, err := ParseRepair("", strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Lines) != 0 || len(dropped) != n+1 {
		t.Errorf("%d lines kept, %d dropped, want 0 and %d", len(p.Lines), len(dropped), n+1)
	}
}

// TestMutatedExamples changes words and lines of the examples at random (the same each time) and
// demands of every result what FuzzFormat demands.
func TestMutatedExamples(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	for _, name := range programs(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := mutator{state: 1, lines: strings.SplitAfter(string(b), "\n")}
		good := 0
		for range rounds {
			text := m.next()
			if _, err := ParseString(text); err == nil {
				good++
			}
			checkText(t, text)
		}
		t.Logf("%s: %d of %d mutants parse", name, good, rounds)
		if good < rounds/20 {
			t.Errorf("%s: %d of %d mutants parse, want one in twenty", name, good, rounds)
		}
	}
}

// mutator makes variants of a text from a fixed sequence of numbers.
type mutator struct {
	state uint64
	lines []string
}

func (m *mutator) pick(n int) int {
	m.state = m.state*6364136223846793005 + 1442695040888963407
	return int(m.state >> 33 % uint64(n))
}

func (m *mutator) next() string {
	lines := append([]string(nil), m.lines...)
	for range 1 + m.pick(4) {
		i, j := m.pick(len(lines)), m.pick(len(lines))
		switch m.pick(7) {
		case 0:
			lines[i] = ""
		case 1:
			lines[i] = "\n" + lines[i]
		case 2:
			lines[i] = "# note\n" + lines[i]
		case 3:
			lines[i], lines[j] = lines[j], lines[i]
		case 4:
			lines[i] += lines[j]
		default:
			words := strings.SplitAfter(lines[i], " ")
			other := strings.SplitAfter(lines[j], " ")
			words[m.pick(len(words))] = other[m.pick(len(other))]
			lines[i] = strings.Join(words, "")
		}
	}
	return strings.Join(lines, "")
}
