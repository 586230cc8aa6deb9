package shadow_test

import (
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// guardPrograms are those of a guard, where what is allocated by size is debugged unasked.
var guardPrograms = []program{
	{"overrun is refused once", "a = malloc 50; overrun a 2; free a; freeagain a",
		[]string{"3: " + right}, nil},
	{"underrun", "a = malloc 50; underrun a 1; overrun a 1; free a; freeagain a; freeagain a",
		[]string{"4: " + left, "5: " + right}, nil},
	{"padding is soft", "a = malloc 50; flip padding of a byte=1; free a",
		[]string{"3: " + padding}, nil},
	{"the link's place is nobody's", "a = malloc 64; flip freeptr of a; free a; " +
		"flip freeptr of a", nil, nil},
	{"freed again", "a = malloc 50; b = malloc 50; free a; freeagain a; freeagain a",
		[]string{"4: " + already, "5: " + already}, nil},
	{"freed inside", "a = malloc 50; freeinside a 8; free a", []string{"2: " + invalid}, nil},
	{"freed inside, damaged", "a = malloc 50; overrun a 1; freeinside a 8; free a",
		[]string{"3: " + invalid, "4: " + right}, nil},
	{"freed inside one of several", "a = malloc 50; b = malloc 50; d = malloc 50; " +
		"e = malloc 50; free a; freeinside d 8; freeinside b 8; freeinside e 9",
		[]string{"6: " + invalid, "7: " + invalid, "8: " + invalid}, nil},
	{"no field is stored", fzpu + two + "flip cache.nr_partial c; flip slab.inuse of a; " +
		"flip slabpad of a; overrun a 1; free c a", []string{"7: " + right}, []int{3, 4, 5}},
	{"the old place of a realloc", "a = malloc 50; b = realloc a 60; freeagain a; " +
		"writefreed a; free b", []string{"3: " + already}, nil},
	{"what left unseen is forgotten", "cache c flags=poison,redzone size=64; a = alloc c; " +
		"free c a; flip padding of a; repeat 256 {; b = alloc c; free c b; }; d = alloc c; " +
		"e = alloc c; validate c", nil, nil},
	{"realloc always moves", "a = malloc 50; overrun a 1; a = realloc a 51; free a",
		[]string{"3: " + right}, nil},
	{"freed again without checks", "machine debug=\"Z\"; a = malloc 50; free a; freeagain a",
		[]string{"3: " + already}, nil},
	{"nothing is seen without checks", "machine debug=\"Z\"; a = malloc 50; overrun a 1; free a",
		nil, nil},

	{"a validation", fzpu + two + "d = alloc c; free c b; overrun d 1; underrun a 1; " +
		"writefreed b; validate c; validate c",
		[]string{"8: " + left, "8: " + right, "8: " + body, "9: " + bodyEnd}, nil},
	{"a validation in the order of allocation", fzpu + two + "free c a; d = alloc c; " +
		"overrun b 1; underrun d 1; validate c", []string{"7: " + right, "7: " + left}, nil},
	{"what leaves the quarantine", fzpu + two + "free c a; free c b; writefreed b; destroy c",
		[]string{"6: " + body}, nil},
	{"what leaves in its order", fzpu + two + "free c b; free c a; writefreed a; " +
		"flip leftred of b; destroy c", []string{"7: " + left, "7: " + body}, nil},
	{"what leaves unseen", "cache c flags=poison,redzone size=64; " + two + "free c a; " +
		"writefreed a; free c b; destroy c", nil, nil},
	{"to the wrong cache", fzpu + "cache d flags=sanity size=32; " + two + "freewrong d a; " +
		"validate c", []string{"3: " + wrong}, nil},
	{"to a cache that does not check", fzpu + "cache d flags=redzone size=32; " + two +
		"freewrong d a", nil, []int{3}},
	{"crowded out", "a = malloc 50; free a; writefreed a; repeat 256 {; b = malloc 8; free b; " +
		"}; freeagain a", []string{"6: " + body}, []int{7}},
	{"too large to stay", "a = malloc 2097152; free a; freeagain a", nil, []int{3}},
}

// TestGuard: each program over both kinds of heap.
func TestGuard(t *testing.T) {
	for _, name := range []string{"go-modernc-memory-guarded", "go-wasm2go-tlsf-guarded"} {
		for _, p := range guardPrograms {
			t.Run(name+"/"+p.name, func(t *testing.T) { p.test(t, name) })
		}
	}
}

// TestOutOfTurn: a guard whose quarantine is not what it says, or which lets go of what it
// should keep, is found.
func TestOutOfTurn(t *testing.T) {
	const churn = "repeat 200 {; b = malloc 8; free b; }; a = malloc 8"
	for _, row := range []struct {
		name, text string
		lie        lie
		found      bool
	}{
		{"honest", churn, lie{}, false},
		{"all that fit", churn, lie{limit: [2]int{200, 1 << 20}}, false},
		{"one too many", churn, lie{limit: [2]int{199, 1 << 20}}, true},
		{"too many bytes", churn, lie{limit: [2]int{200, 4096}}, true},
		{"one that is too large", "a = malloc 5000; free a; b = malloc 8",
			lie{limit: [2]int{200, 4096}}, true},
		{"a large one beside a small one", "b = malloc 8; free b; a = malloc 2097152; free a; " +
			"d = malloc 8", lie{}, false},
		{"at the end", "a = malloc 8; b = malloc 8; free a; free b",
			lie{limit: [2]int{1, 1 << 20}}, true},
		{"too early", "repeat 257 {; b = malloc 8; free b; }; a = malloc 8",
			lie{limit: [2]int{257, 1 << 20}}, true},
		{"of another cache", fzpu + "cache d size=64; a = alloc c; b = alloc d; free c a; " +
			"free d b; destroy d", lie{ends: func(k *lyingCache, c *machine.Ctx) error {
			for _, o := range k.t.caches {
				_ = o.Debugger.Destroy(c)
			}
			return nil
		}}, true},
		{"not those of a cache that ends", fzpu + "a = alloc c; free c a; destroy c",
			lie{ends: func(*lyingCache, *machine.Ctx) error { return nil }}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var list []seen
			res := runner.Run(compile(t, row.text),
				lying(subject(t, "go-modernc-memory-guarded"), &row.lie, &list),
				oracle.Options{NoEnd: true})
			got := titles(res)
			if row.found != (len(got) == 1 && got[0] == fault.OutOfTurn) ||
				!row.found && len(got) > 0 {
				t.Errorf("found %q", got)
			}
		})
	}
}
