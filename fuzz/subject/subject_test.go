package subject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz/input"
	"allocfuzz/oracle"
)

// pile is a small allocator of slices: freed ones are kept by their exact size. A bug is a number.
type pile struct {
	free map[int][][]byte
	last []byte
	bug  int
}

// The bugs of a pile.
const (
	none    = iota
	again   // what is handed out comes from the pile and stays there
	writes  // a free writes to what was handed out last
	refuses // the fourth free allocation of a size is not handed out
	panics  // on 4 KiB and more
)

func newPile(bug int) func() any {
	return func() any { return &pile{free: map[int][][]byte{}, bug: bug} }
}

func (p *pile) Malloc(n int) []byte {
	have := p.free[n]
	switch {
	case p.bug == panics && n >= 4096:
		panic("too large for me")
	case p.bug == refuses && len(have) == 4:
		return nil
	case len(have) == 0:
		p.last = make([]byte, n, n+1)
	default:
		p.last = have[len(have)-1]
		if p.bug != again {
			p.free[n] = have[:len(have)-1]
		}
	}
	return p.last
}

func (p *pile) Free(b []byte) {
	if p.bug == writes && len(p.last) > 0 && len(b) > 0 && &p.last[0] != &b[0] {
		p.last[0]++
	}
	p.free[len(b)] = append(p.free[len(b)], b)
}

// FuzzPile is the public way in, on a sound allocator: it is a test like a user's.
func FuzzPile(f *testing.F) { Fuzz(f, newPile(none)) }

// TestFinds: the seeds alone find each bug, and the report has what its reader needs. The sound
// pile passes them.
func TestFinds(t *testing.T) {
	for bug, title := range map[int]string{none: "", again: "object handed out twice",
		writes: "contents changed", refuses: "refused without reason", panics: "aborted"} {
		h := newHarness(t, newPile(bug))
		found := ""
		for _, data := range seeds() {
			text, err := h.check("FuzzPile", data)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				found = text
				break
			}
		}
		if title == "" {
			if found != "" {
				t.Errorf("a sound allocator was found to be wrong:%s", found)
			}
			continue
		}
		for _, want := range []string{title, "subject.pile", "\nPROGRAM\nallocfuzz 1\n",
			"\nHISTORY\n", "go test -run='^FuzzPile$/^", "subject.Replay"} {
			if !strings.Contains(found, want) {
				t.Errorf("bug %d: no %q in the report %q", bug, want, found)
			}
		}
	}
}

// TestSeeds: seeds are programs of one task, the committed ones among them, and always the same.
func TestSeeds(t *testing.T) {
	a, b := seeds(), seeds()
	if len(a) <= generated {
		t.Errorf("%d seeds, %d of them made by chance: the corpus gives none", len(a), generated)
	}
	for i := range a {
		if string(a[i]) != string(b[i]) {
			t.Fatalf("seed %d is not always the same", i)
		}
		p := input.Decode(a[i], input.DecodeOptions{Sequential: true})
		if c, err := oracle.Compile(p); err != nil || len(c.Ctxs) > 0 && !c.Sequential() {
			t.Errorf("seed %d: %v\n%s", i, err, p)
		}
	}
}

// TestCommand: under go test a seed or file is named by the test; under the engine a seed by its
// number and a new input by the file that is written for it. The name is one that the engine gave.
func TestCommand(t *testing.T) {
	h := &harness{seeds: map[string]int{"seed": 7}}
	for _, c := range []struct{ test, data, want string }{
		{"FuzzX/seed#3", "", "go test -run='^FuzzX$/^seed#3$'"},
		{"FuzzX", "seed", "go test -run='^FuzzX$/^seed#7$'"},
		{"FuzzX", "00000", "go test -run='^FuzzX$/^f34630c44c11bb13$'"},
	} {
		if got := h.command(c.test, []byte(c.data)); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.test, c.data, got, c.want)
		}
	}
}

// promise is a pile that says what its alignment is.
type promise struct {
	pile
	align int
}

func (p *promise) MinAlign() int { return p.align }

func TestMinAlign(t *testing.T) {
	make := func(n int) func() any { return func() any { return &promise{align: n} } }
	if v := variant(t, make(4)); v.Profile.MinAlign != 4 || v.Name != "subject.promise" {
		t.Errorf("%s promises %d", v.Name, v.Profile.MinAlign)
	}
	if v := variant(t, newPile(none)); v.Profile.MinAlign != 1 {
		t.Errorf("%s promises %d", v.Name, v.Profile.MinAlign)
	}
}

// TestReplay runs a file, and the committed folder, by the public call.
func TestReplay(t *testing.T) {
	Replay(t, newPile(none), "../../corpus/seeds")
	Replay(t, newPile(none), "../../corpus/seeds/alloc-free.prog")
}

const twoLives = "cpu0 a = malloc 8\ncpu0 free a\ncpu0 b = malloc 8\ncpu0 c = malloc 8\n"

// TestJudge: what files of every kind show.
func TestJudge(t *testing.T) {
	const schedule = "\nsched subject=subject.pile => bug \"object handed out twice\"\n"
	for _, c := range []struct {
		name, text string
		bug        int
		want       string // in the report, why it was skipped, or the error
	}{
		{"sound", twoLives, none, ""},
		{"broken", twoLives, again, "subject.pile: object handed out twice"},
		{"known", twoLives + schedule, again, "known: subject.pile: object handed out twice"},
		{"repaired", twoLives + schedule, none, "which was not found"},
		{"stated", "cpu0 a = malloc 8 => enomem\n", none, "states enomem and got ok"},
		{"stated of another", "cpu0 a = malloc 8 => enomem @slab-locked\n", none, ""},
		{"two contexts", "cpu0 a = malloc 8\nirq0 free a\n", none, "is left out"},
		{"no program", "cpu0 a = malloc\n", none, ":2:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.prog")
			if err := os.WriteFile(file, []byte("allocfuzz 1\n"+c.text), 0o666); err != nil {
				t.Fatal(err)
			}
			r := oracle.NewRunner()
			defer r.Close()
			v, err := newHarness(t, newPile(c.bug)).judge(r, file)
			got := v.skip
			if err != nil {
				got = err.Error()
			}
			if v.report != nil {
				got = told(v.report)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestPrograms: a folder gives its programs in order; nothing to run is an error.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing.prog")} {
		if files, err := programs(path); err == nil {
			t.Errorf("%s: %v", path, files)
		}
	}
	for _, name := range []string{"b.prog", "a.prog", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	files, err := programs(dir)
	if err != nil || len(files) != 2 || filepath.Base(files[0]) != "a.prog" {
		t.Errorf("%v %v", files, err)
	}
}
