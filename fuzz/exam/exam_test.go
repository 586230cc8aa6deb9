package exam_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/bugs"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/exam"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/overlay"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// envPatch names the patch that this test binary was built with. The binary that
// go test builds is clean.
const envPatch = "ALLOCFUZZ_EXAM_PATCH"

func load(t *testing.T, p *bugs.Patch) *exam.Case {
	t.Helper()
	c, err := exam.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func patches(t *testing.T) []*bugs.Patch {
	t.Helper()
	ps, err := bugs.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(ps) == 0 {
		t.Fatal("no patches")
	}
	return ps
}

// TestLoadErrors: a patch is made for one subject, which exists.
func TestLoadErrors(t *testing.T) {
	tests := []struct{ patch, on, want string }{
		{"slub/free-track-late", "", `no subject for slub/free-track-late: add "On: `},
		{"slub/free-track-late", "slub-1999", `no subject "slub-1999"`},
		{"slub/seq-preempt", "slub-2008-irqsave", "made for slub-2008-irqsave: keep one"},
	}
	for _, tt := range tests {
		found, err := bugs.Find(patches(t), tt.patch)
		if err != nil {
			t.Fatal(err)
		}
		p := *found
		p.On = tt.on
		if _, err := exam.Load(&p); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s on %q: error %v, want %q", tt.patch, tt.on, err, tt.want)
		}
	}
}

// TestClean: every killer is silent on the clean tree, under its own schedule and
// under every single departure.
func TestClean(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	for _, p := range patches(t) {
		c := load(t, p)
		v, err := r.Judge(c.Killer, c.Clean, oracle.Options{})
		if err != nil {
			t.Error(err)
		}
		if v.Finding != nil {
			t.Errorf("%s: %s on the clean tree", p.Name, v.Finding.Identity())
		}
		if x := r.Singles(c.Killer, c.Clean, oracle.Options{}); x.Finding != nil {
			t.Errorf("%s: %s on the clean tree", p.Name, x.Finding.Identity())
		}
	}
}

// TestMutants builds this test with each patch and runs TestMutant and TestMinimised in it.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary a patch")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches(t) {
		t.Run(p.Name, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "mutant.test")
			err := overlay.Build(context.Background(), root, bin, p, "test", "-c", "./fuzz/exam")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bin, "-test.run=^TestMutant$|^TestMinimised$", "-test.v")
			cmd.Env = append(os.Environ(), envPatch+"="+p.Name)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// mutant is the bug that TestMutants built this binary with; others skip the test.
func mutant(t *testing.T) *exam.Case {
	t.Helper()
	name := os.Getenv(envPatch)
	if name == "" {
		t.Skip("runs in the binaries of TestMutants")
	}
	p, err := bugs.Find(patches(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, p)
}

// TestMutant runs in a binary that TestMutants built: the killer speaks under its
// schedule and under one departure, and mutating the seeds finds the bug.
func TestMutant(t *testing.T) {
	c := mutant(t)
	p := c.Patch
	r := oracle.NewRunner()
	defer r.Close()
	v, err := r.Judge(c.Killer, c.Mutant, oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Finding == nil || !c.Names(v.Finding) {
		t.Errorf("its schedule finds %v, want one of %q", v.Finding, p.Finds)
	} else {
		t.Logf("schedule: %s, also %q", v.Finding.Title, v.Finding.Also)
	}
	x := r.Singles(c.Killer, c.Mutant, oracle.Options{})
	if x.Finding == nil || !c.Names(x.Finding) {
		t.Errorf("one departure finds %v, want one of %q", x.Finding, p.Finds)
	} else {
		t.Logf("%d of %d single departures: %s", x.Found, x.Schedules, x.Finding.Title)
	}
	hunt(t, c, start(t, p))
}

// huntMax bounds the inputs until a mutant must be found from the seeds.
const huntMax = 300000

// hunt mutates inputs until the mutant is found.
func hunt(t *testing.T, c *exam.Case, pool [][]byte) {
	if f, n := mutate(t, c.Mutant, isDebug(c.Patch), pool, huntMax); f != nil {
		t.Logf("mutated seeds: %s after %d inputs", f.Report.Finding.Identity(), n)
		return
	}
	t.Errorf("not found in %d mutated inputs", huntMax)
}

// huntClean is the number of inputs that must show nothing on the clean tree: what a
// hunt finds is the mutant then.
const huntClean = 2000

// TestCleanHunt: hunts show nothing on the clean tree.
func TestCleanHunt(t *testing.T) {
	type key struct {
		v     *impls.Variant
		debug bool
	}
	done := map[key]bool{}
	for _, p := range patches(t) {
		k := key{load(t, p).Clean, isDebug(p)}
		if done[k] {
			continue
		}
		done[k] = true
		if f, n := mutate(t, k.v, k.debug, start(t, p), huntClean); f != nil {
			t.Errorf("%s after %d inputs\n%s", f.Report.Finding.Identity(), n,
				prog.Format(f.Report.Program))
		}
	}
}

// isDebug says whether a bug shows in programs with debug flags only.
func isDebug(p *bugs.Patch) bool { return slices.Contains(p.Needs, "debug") }

// mutate runs up to most inputs on a subject and returns the first failure, with the
// number of inputs until then: mutations of pool, and half of the time also of whatever
// gave a trace of a length not seen before, as a fuzzer keeps what covers something new.
// What inputs mean is up to the target that looks for such bugs.
func mutate(t *testing.T, v *impls.Variant, debug bool, pool [][]byte, most int) (
	f *fuzz.Failure, n int) {
	s := fuzz.NewSession([]*impls.Variant{v})
	defer s.Close()
	run := s.Interrupts
	if debug {
		run = s.Debugged
	}
	opt := input.DecodeOptions{Debug: debug, Misuse: debug}
	rng := rand.New(rand.NewPCG(1, 2))
	seen, given := map[uint64]bool{}, len(pool)
	for n = 1; n <= most; n++ {
		from := pool
		if rng.IntN(2) == 0 {
			from = pool[:given]
		}
		data := input.Mutate(rng, from[rng.IntN(len(from))], opt)
		before := s.Stats.Points
		f, err := run(data)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			return f, n
		}
		if points := s.Stats.Points - before; !seen[points] && points < 500 {
			seen[points] = true
			pool = append(pool, data)
		}
	}
	return nil, most
}

// start is what a hunt starts from: the committed seeds. For a bug that needs a
// sequence number of few bits it is the programs of the recycled object and of two
// tasks on a CPU, with such a number.
func start(t *testing.T, p *bugs.Patch) [][]byte {
	for _, need := range p.Needs {
		if strings.HasPrefix(need, "seqbits=") {
			return [][]byte{encoded(t, "aba-interrupt", 2), encoded(t, "preempt-migrate", 2)}
		}
	}
	if len(p.From) == 0 {
		return fuzz.Seeds(isDebug(p))
	}
	var pool [][]byte
	for _, name := range p.From {
		pool = append(pool, encoded(t, name, 0))
	}
	return pool
}

// encoded is a committed seed, with a sequence number of so many bits where that is not 0.
func encoded(t *testing.T, name string, seqbits int) []byte {
	t.Helper()
	for f := range corpus.Seeds() {
		if f.Name != "corpus/seeds/"+name+".prog" {
			continue
		}
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		if seqbits > 0 {
			p.Machine.SeqBits = seqbits
		}
		data, err := input.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	t.Fatalf("no seed %s", name)
	return nil
}
