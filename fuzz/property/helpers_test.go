package property_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/leanovate/gopter"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

var seedFlag = flag.Int64("seed", 1, "start of a test's randomness; 0 draws one")

// seed returns the number that a test's randomness starts from, and logs it.
func seed(tb testing.TB) int64 {
	tb.Helper()
	n := *seedFlag
	if n == 0 {
		n = int64(rand.Uint64() >> 1)
	}
	tb.Logf("again with: go test ./fuzz/property -run='^%s$' -seed=%d", tb.Name(), n)
	return n
}

// parameters are gopter's, started from seed, for n successful tests.
func parameters(tb testing.TB, n int) *gopter.TestParameters {
	tb.Helper()
	p := gopter.DefaultTestParametersWithSeed(seed(tb))
	p.MinSuccessfulTests = n
	return p
}

func lookup(tb testing.TB, name string) *impls.Variant {
	tb.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		tb.Fatalf("no subject %s", name)
	}
	return v
}

func compile(tb testing.TB, p *prog.Program) *oracle.Compiled {
	tb.Helper()
	c, err := oracle.Compile(p)
	if err != nil {
		tb.Fatalf("%v\n%s", err, prog.Format(p))
	}
	return c
}
