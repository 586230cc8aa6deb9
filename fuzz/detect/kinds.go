package detect

import (
	"fmt"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
)

// A Kind is a kind of misuse. Its victim x is the second of four objects of a slab. The
// neighbours on both sides, w and y, are free, so that their bytes are nobody's, and z
// behind them is live.
type Kind struct {
	Name   string // a few words, as rows are headed
	before string // operations between those and the misuse
	misuse string // the operation, without its context
	freed  bool   // x was given back before
	sizes  bool   // the objects are allocated by size, 50 bytes each
	other  bool   // there is a second cache, d
	again  bool   // its slab goes and comes again
}

// fullPage is a cache whose slabs leave SLAB no room for another colour, so that a new
// slab in the same pages has its objects at the same addresses.
const fullPage = "align=512 objects=7"

// kinds are the rows of the table: bytes that a program writes by mistake, frees that
// must not be, and damage to what the allocator keeps for itself.
var kinds = []Kind{
	{Name: "overrun by 1 byte", misuse: "overrun x 1"},
	{Name: "overrun by 24 bytes", misuse: "overrun x 24"},
	{Name: "malloc(50) overrun by 1", misuse: "overrun x 1", sizes: true},
	{Name: "underrun by 1 byte", misuse: "underrun x 1"},
	{Name: "byte written after free", freed: true,
		misuse: "flip object of x bits=0xff byte=16"},
	{Name: "all written after free", freed: true, misuse: "writefreed x"},

	{Name: "free again", freed: true, misuse: "freeagain c x"},
	{Name: "free again in a new slab", freed: true,
		before: "free c z; shrink c; v = alloc c", misuse: "freeagain c x", again: true},
	{Name: "free of an inner address", misuse: "freeinside c x 8"},
	{Name: "free to another cache", other: true, misuse: "freewrong d x"},
	{Name: "free of a foreign page", before: "g = pages 0", misuse: "freeforeign c g"},

	{Name: "link of a live object", misuse: "flip freeptr of x"},
	{Name: "link of a free object", freed: true, misuse: "flip freeptr of x"},
	{Name: "track of the allocation", misuse: "flip alloctrack of x"},
	{Name: "padding of a live object", misuse: "flip padding of x"},
	{Name: "padding of the slab", misuse: "flip slabpad of x"},
	{Name: "slab.inuse", misuse: "flip slab.inuse of x"},
	{Name: "slab.objects", misuse: "flip slab.objects of x"},
	{Name: "slab.frozen", misuse: "flip slab.frozen of x"},
	{Name: "slab.freelist", misuse: "flip slab.freelist of x bits=0x101"},
	{Name: "cache.nr_partial", misuse: "flip cache.nr_partial c"},
	{Name: "cache.nr_slabs", misuse: "flip cache.nr_slabs c"},
}

// Kinds lists the kinds of misuse, in the order of the table. They must not be changed.
func Kinds() []Kind { return kinds }

// A course is what a program does after its misuse.
type course uint8

const (
	used      course = iota // x is freed if it is live, then all that is free is allocated
	ended                   // everything is freed, the cache is shrunk and destroyed
	validated               // the cache is validated
	courses
)

// program is the text of a program: a kind of misuse, options, rules of a kernel, and
// what follows. False when there is no such program: classes of kmalloc are neither
// validated nor destroyed.
func (k *Kind) program(f debugcheck.Flags, r debugcheck.Rules, after course) (string, bool) {
	if k.sizes && after != used {
		return "", false
	}
	b := &strings.Builder{}
	fmt.Fprintln(b, "allocfuzz 1")
	fmt.Fprint(b, "machine")
	if k.sizes {
		fmt.Fprintf(b, " debug=%q", f)
	}
	fmt.Fprint(b, " pages=32")
	if r != debugcheck.Guard { // it is nobody's choice
		fmt.Fprintf(b, " rules=%s", r)
	}
	fmt.Fprintln(b)
	spec := "objects=4"
	if k.again && r.SLAB() {
		spec = fullPage
	}
	spec += " size=64 flags=" + strings.Join(f.Words(), ",")
	if !k.sizes {
		fmt.Fprintln(b, "cache c "+spec)
	}
	if k.other {
		fmt.Fprintln(b, "cache d "+spec)
	}
	for _, op := range k.operations(after) {
		fmt.Fprintln(b, "cpu0", op)
	}
	return b.String(), true
}

// operations are those of the program, the misuse at index k.at().
func (k *Kind) operations(after course) []string {
	alloc, free := "alloc c", "free c "
	if k.sizes {
		alloc, free = "malloc 50", "free "
	}
	var ops []string
	for _, x := range []string{"w", "x", "y", "z"} {
		ops = append(ops, x+" = "+alloc)
	}
	ops = append(ops, free+"w", free+"y")
	if k.freed {
		ops = append(ops, free+"x")
	}
	if k.before != "" {
		ops = append(ops, strings.Split(k.before, "; ")...)
	}
	ops = append(ops, k.misuse)
	x := []string{free + "x"}
	if k.freed {
		x = nil
	}
	switch after {
	case used:
		ops = append(ops, x...)
		for _, n := range []string{"p", "q", "r"} {
			ops = append(ops, n+" = "+alloc)
		}
	case ended:
		ops = append(ops, x...)
		ops = append(ops, free+"z")
		if k.again {
			ops = append(ops, free+"v")
		}
		ops = append(ops, "shrink c", "destroy c")
	case validated:
		ops = append(ops, "validate c")
	}
	return ops
}

// at is the place of the misuse among the operations of every program of the kind.
func (k *Kind) at() int {
	n := 6
	if k.freed {
		n++
	}
	if k.before != "" {
		n += strings.Count(k.before, "; ") + 1
	}
	return n
}

// parse reads a program of this package.
func parse(text string) *prog.Program {
	p, err := prog.ParseString(text)
	if err != nil {
		panic("allocfuzz: a program of detect: " + err.Error() + "\n" + text)
	}
	return p
}
