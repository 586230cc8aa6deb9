package thin_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/store"
	"allocfuzz/fuzz/thin"
)

// TestPick: what is kept covers what all cover, and nothing of it can be left out; small inputs
// win.
func TestPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 300 {
		var list []thin.Cover
		for i := range 1 + rng.IntN(30) {
			c := thin.Cover{Name: fmt.Sprintf("%02d", i), Size: rng.IntN(5)}
			for range rng.IntN(8) {
				c.Features = append(c.Features, thin.Feature(rng.IntN(25)))
			}
			list = append(list, c)
		}
		kept := thin.Pick(list)
		of := func(names []string) map[thin.Feature]bool {
			return thin.Covered(slices.DeleteFunc(slices.Clone(list), func(c thin.Cover) bool {
				return !slices.Contains(names, c.Name)
			}))
		}
		if !maps.Equal(of(kept), thin.Covered(list)) {
			t.Fatalf("round %d: %v does not cover what %v covers", round, kept, list)
		}
		for i := range kept {
			if maps.Equal(of(slices.Delete(slices.Clone(kept), i, i+1)), thin.Covered(list)) {
				t.Fatalf("round %d: %s of %v is not needed: %v", round, kept[i], kept, list)
			}
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if again := thin.Pick(list); !slices.Equal(again, kept) {
			t.Fatalf("round %d: %v, and in another order %v", round, kept, again)
		}
	}
	small := thin.Pick([]thin.Cover{{Name: "large", Size: 9, Features: []thin.Feature{1, 2}},
		{Name: "small", Size: 3, Features: []thin.Feature{2, 1, 2}}, {Name: "empty"}})
	if !slices.Equal(small, []string{"small"}) {
		t.Errorf("kept %v", small)
	}
}

// counters makes counters of the form that the documentation of internal/coverage says.
func counters(flavour byte, functions ...[]uint32) []byte {
	b := append([]byte{0, 'c', 'w', 'm', 1, 0, 0, 0}, make([]byte, 16)...)
	b = append(b, flavour, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(functions)))
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint32(b, 5)
	b = append(b, "strargs.."[:8]...)
	put := func(v uint32) {
		if flavour == 1 {
			b = binary.LittleEndian.AppendUint32(b, v)
		} else {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	for _, f := range functions { // package, function, counters
		put(uint32(len(f) - 2))
		for _, v := range f {
			put(v)
		}
	}
	return append(b, make([]byte, 16)...)
}

func TestFeatures(t *testing.T) {
	for _, flavour := range []byte{1, 2} {
		get := func(functions ...[]uint32) []thin.Feature {
			list, err := thin.Features(nil, counters(flavour, functions...))
			if err != nil {
				t.Fatalf("flavour %d: %v", flavour, err)
			}
			return list
		}
		a := get([]uint32{1, 7, 0, 300, 1}, []uint32{2, 7, 5})
		if len(a) != 3 {
			t.Errorf("flavour %d: %d features, want one for each counter above 0", flavour, len(a))
		}
		for _, other := range [][]uint32{{1, 7, 300, 0, 1}, {2, 7, 0, 300, 1}, {1, 8, 0, 300, 1},
			{1, 7, 0, 700, 1}} {
			if slices.Equal(get(other, []uint32{2, 7, 5}), a) {
				t.Errorf("flavour %d: %v covers the same", flavour, other)
			}
		}
		if !slices.Equal(get([]uint32{1, 7, 0, 301, 1}, []uint32{2, 7, 4}), a) {
			t.Errorf("flavour %d: counts of one power of two differ", flavour)
		}
		whole := counters(flavour, []uint32{1, 7, 9, 300, 1})
		for n := range len(whole) - 16 { // the last 16 bytes say nothing
			cut := append(slices.Clone(whole[:n]), make([]byte, 0)...)
			if _, err := thin.Features(nil, cut); err == nil {
				t.Errorf("flavour %d: %d of %d bytes are no error", flavour, n, len(whole))
			}
		}
		whole[4] = 2
		if _, err := thin.Features(nil, whole); err == nil || !strings.Contains(err.Error(),
			"version 2") {
			t.Errorf("another version: %v", err)
		}
	}
}

// tracer builds a tracer.
func tracer(tb testing.TB, target string) *thin.Tracer {
	tb.Helper()
	dir := tb.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		tb.Fatal(err)
	}
	bin, err := thin.Build(context.Background(), root, dir)
	if err != nil {
		tb.Fatal(err)
	}
	return &thin.Tracer{Binary: bin, Target: target, Parallel: 2, Work: dir}
}

// inputs are mutations of the committed seeds, as a fuzzer keeps them.
func inputs(n int) []store.Input {
	rng := rand.New(rand.NewPCG(3, 4))
	pool := fuzz.Seeds(false)
	var out []store.Input
	for i := range n {
		data := pool[rng.IntN(len(pool))]
		for range rng.IntN(4) {
			data = input.Mutate(rng, data, input.DecodeOptions{})
		}
		out = append(out, store.Input{Name: fmt.Sprintf("%05d", i), Data: data})
	}
	return out
}

// TestTracer: real inputs cover something, the same in every process and order; what is kept of
// them covers the same, measured anew; and an input that ends its process is named and left out.
func TestTracer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary")
	}
	tr := tracer(t, "FuzzSequential")
	list := inputs(60)
	first, bad, err := tr.Covers(t.Context(), list)
	if err != nil || len(bad) > 0 || len(first) != len(list) {
		t.Fatalf("%d covers of %d inputs, bad %v, error %v", len(first), len(list), bad, err)
	}
	kept := thin.Pick(first)
	if len(kept) == 0 || len(kept) == len(list) {
		t.Errorf("kept %d of %d", len(kept), len(list))
	}
	var again []store.Input
	for _, in := range slices.Backward(list) {
		if slices.Contains(kept, in.Name) {
			again = append(again, in)
		}
	}
	tr.Parallel = 1
	second, _, err := tr.Covers(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(thin.Covered(second), thin.Covered(first)) {
		t.Errorf("what is kept covers %d features, all cover %d", len(thin.Covered(second)),
			len(thin.Covered(first)))
	}
	if _, _, err := tracer(t, "FuzzNothing").Covers(t.Context(), list); err == nil {
		t.Error("a target that is not there is no error")
	}
}

// TestEngines: each engine that is there leaves a store with fewer inputs, which cover what all
// did, turns down what is there already, and takes what covers more.
func TestEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("builds binaries")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := inputs(60)
	for _, name := range []string{thin.Own, thin.LibFuzzer} {
		t.Run(name, func(t *testing.T) {
			th, err := thin.New(t.Context(), name, root, 2)
			if err != nil && name == thin.LibFuzzer {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer th.Close()
			testEngine(t, th, list)
		})
	}
}

func testEngine(t *testing.T, th *thin.Thinner, list []store.Input) {
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const target = "FuzzInterrupts"
	if _, err := s.AddAll(target, list[:40]); err != nil {
		t.Fatal(err)
	}
	all, _, err := s.Inputs(target)
	if err != nil {
		t.Fatal(err)
	}
	dry, err := th.Store(t.Context(), s, target, true)
	if err != nil {
		t.Fatal(err)
	}
	if left, _, _ := s.Inputs(target); len(left) != len(all) {
		t.Fatal("looking took inputs away")
	}
	res, err := th.Store(t.Context(), s, target, false)
	if err != nil {
		t.Fatal(err)
	}
	left, _, _ := s.Inputs(target)
	if res.Before != len(all) || res.After != len(left) || len(left) >= len(all) ||
		res.Features != dry.Features || res.After != dry.After {
		t.Errorf("%d of %d left, %+v, looked at %+v", len(left), len(all), res, dry)
	}
	again, err := th.Store(t.Context(), s, target, false)
	if err != nil || again.Features != res.Features {
		t.Errorf("what is left covers %d features, all did %d; error %v", again.Features,
			res.Features, err)
	}
	none, _, err := th.Fresh(t.Context(), s, target, all)
	if err != nil || len(none) > 0 {
		t.Errorf("%d of what was there cover something new, error %v", len(none), err)
	}
	more, _, err := th.Fresh(t.Context(), s, target, list[40:])
	if err != nil || len(more) == 0 || len(more) == 20 {
		t.Errorf("%d of 20 others cover something new, error %v", len(more), err)
	}
}

// TestDies: a process that ends or stands still costs one input.
func TestDies(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(envDies, "1")
	tr := &thin.Tracer{Binary: self, Target: "FuzzSequential", Parallel: 2, Work: t.TempDir(),
		Limit: 500e6}
	var list []store.Input
	for i, text := range []string{"one", "die", "two", "hang", "three"} {
		list = append(list, store.Input{Name: fmt.Sprint(i), Data: []byte(text)})
	}
	got, bad, err := tr.Covers(t.Context(), list)
	if err != nil || len(got) != 3 || bad["1"] == nil || bad["3"] == nil {
		t.Errorf("covers %v, bad %v, error %v", got, bad, err)
	}
}

// envDies makes the test binary a tracer that dies of some inputs.
const envDies = "ALLOCFUZZ_TEST_DIES"

func TestMain(m *testing.M) {
	if os.Getenv(envDies) == "" || len(os.Args) != 2 || os.Args[1] != "FuzzSequential" {
		os.Exit(m.Run())
	}
	buf := make([]byte, 100)
	for {
		n, err := os.Stdin.Read(buf)
		switch {
		case err != nil:
			os.Exit(0)
		case bytes.Contains(buf[:n], []byte("die")):
			os.Exit(1)
		case bytes.Contains(buf[:n], []byte("hang")):
			select {}
		}
		os.Stdout.Write([]byte{1, 1, 2, 3, 4, 5, 6, 7, 8})
	}
}

// BenchmarkThin thins a corpus with each engine that is there.
func BenchmarkThin(b *testing.B) {
	root, err := filepath.Abs("../..")
	if err != nil {
		b.Fatal(err)
	}
	const target = "FuzzInterrupts"
	for _, name := range []string{thin.Own, thin.LibFuzzer} {
		b.Run(name, func(b *testing.B) {
			th, err := thin.New(b.Context(), name, root, 2)
			if err != nil {
				b.Skip(err)
			}
			defer th.Close()
			s, err := store.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			n, err := s.AddAll(target, inputs(2000))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := th.Store(b.Context(), s, target, true); err != nil { // it builds
				b.Fatal(err)
			}
			for b.Loop() {
				res, err := th.Store(b.Context(), s, target, true)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(res.After), "kept")
			}
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(n)/seconds, "inputs/s")
			b.ReportMetric(10000/float64(n)*seconds, "s/10000inputs")
		})
	}
}
