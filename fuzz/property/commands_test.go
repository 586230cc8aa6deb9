package property_test

import (
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"

	"allocfuzz/fuzz/property"
	"allocfuzz/impls/fault"
)

// TestCommands drives subjects by gopter's commands: the reference, a SLUB and one from outside
// with realloc and usable.
func TestCommands(t *testing.T) {
	for _, name := range []string{"slab-locked", "slub-2008-seq", "go-modernc-memory"} {
		t.Run(name, func(t *testing.T) {
			n := 150
			if testing.Short() {
				n = 30
			}
			res := commands.Prop(property.Commands(lookup(t, name), 64)).Check(parameters(t, n))
			if !res.Passed() {
				t.Fatal(failure(res))
			}
		})
	}
}

// TestFindsBrokenByCommands: gopter finds an allocator that hands an object out twice after some
// frees and shrinks to the commands that it takes: as many pairs of an allocation and a free, an
// object that stays live, and the one that is not new.
func TestFindsBrokenByCommands(t *testing.T) {
	const frees = 2
	v := twice(lookup(t, "slab-locked"), frees)
	res := commands.Prop(property.Commands(v, 64)).Check(parameters(t, 200))
	if res.Passed() {
		t.Fatal("objects handed out twice were not found")
	}
	t.Log(failure(res))
	if title := string(fault.TwiceOut); len(res.Labels) == 0 ||
		!strings.Contains(res.Labels[0], title) {
		t.Errorf("not found as %q: %q", title, res.Labels)
	}
	left := sequence(t, res)
	for _, c := range left {
		if !strings.HasPrefix(c, "alloc()") && !strings.HasPrefix(c, "free(#") {
			t.Errorf("%s is left and has nothing to do with it", c)
		}
	}
	if len(left) > 2*frees+2 {
		t.Errorf("%d commands are left, want at most %d: %v", len(left), 2*frees+2, left)
	}
}

// TestFindsBrokenBulk: an object that is there twice in one bulk allocation is found, and
// the commands shrink to that one of two objects.
func TestFindsBrokenBulk(t *testing.T) {
	v := sameInBulk(lookup(t, "slub-2008-seq"))
	res := commands.Prop(property.Commands(v, 64)).Check(parameters(t, 200))
	if res.Passed() {
		t.Fatal("not found")
	}
	if title := string(fault.TwiceOut); len(res.Labels) == 0 ||
		!strings.Contains(res.Labels[0], title) {
		t.Errorf("not found as %q: %q", title, res.Labels)
	}
	if left := sequence(t, res); len(left) != 1 || left[0] != "allocbulk(2)" {
		t.Errorf("left are %q, want allocbulk(2)", left)
	}
}

// TestCommandsCheck: each thing that the commands check is found when it is wrong, in a
// dozen commands at most.
func TestCommandsCheck(t *testing.T) {
	for _, bug := range []string{dirty, lost, small, inside, odd, scrawls, miser} {
		t.Run(bug, func(t *testing.T) {
			v := badSizes(lookup(t, "go-modernc-memory"), bug)
			res := commands.Prop(property.Commands(v, 64)).Check(parameters(t, 200))
			if res.Passed() {
				t.Fatal("not found")
			}
			if len(res.Labels) == 0 || !strings.Contains(res.Labels[0], bug) {
				t.Errorf("found as %s", failure(res))
			}
			if left := sequence(t, res); len(left) > 12 {
				t.Errorf("%d commands are left: %v", len(left), left)
			}
		})
	}
}

// sequence is the commands of a failed property.
func sequence(t *testing.T, res *gopter.TestResult) []string {
	t.Helper()
	_, list, ok := strings.Cut(res.Args[0].ArgFormatted, "sequential=[")
	if !ok {
		t.Fatalf("no commands in %q", res.Args[0].ArgFormatted)
	}
	return strings.Fields(strings.TrimSuffix(list, "]"))
}
