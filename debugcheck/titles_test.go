package debugcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTitlesByRules says which rule set has which titles, and which are out of reach.
func TestTitlesByRules(t *testing.T) {
	slub := []string{
		"Left Redzone overwritten", "Right Redzone overwritten", "Alignment padding overwritten",
		"Poison overwritten", "End Poison overwritten", "Object padding overwritten",
		"Padding overwritten", "Not a valid slab page", "objects exceeds max",
		"inuse exceeds max", "Slab disabled since SLUB metadata consistency check failed",
		"Freepointer corrupt", "Freechain corrupt", "Freelist Pointer check fails",
		"Wrong number of objects", "Wrong object count",
		"partial slabs counted but counter differs", "slabs counted but counter differs",
		"Invalid object pointer", "Object already free",
		"Slab has fewer allocated objects than are to be freed",
		"Bulk free found another number of objects", "Attempt to free object outside of slab",
		"No slab cache for object", "page slab pointer corrupt", "Wrong slab cache",
		"Object is not a Slab page", "Objects remaining on __kmem_cache_shutdown()",
	}
	slab := []string{
		"double free, or memory outside object was overwritten",
		"start of a freed object was overwritten", "end of a freed object was overwritten",
		"Slab corruption", "slab: double free detected in cache",
		"Internal list corruption detected", "Invalid object pointer", "Wrong slab cache",
		"Object is not a Slab page",
	}
	want := map[Rules][]string{
		SLUB61:  slub,
		SLUB612: append(slices.Clone(slub), "kmalloc Redzone overwritten", "Object corrupt"),
		SLAB24: append(slices.Clone(slab), "slabs of the list are out of order",
			"Can't free all objects"),
		SLAB26: append(slices.Clone(slab), "double free detected",
			"memory outside object was overwritten",
			"constructor overwrote the start of an object",
			"constructor overwrote the end of an object"),
	}
	for rules, titles := range want {
		var got []string
		for _, e := range Titles() {
			if e.Rules.Has(rules) {
				got = append(got, e.Title)
			}
		}
		slices.Sort(got)
		slices.Sort(titles)
		if !slices.Equal(got, titles) {
			t.Errorf("%v has\n%q\nwant\n%q", rules, got, titles)
		}
	}
	reach := []string{"Attempt to free object outside of slab",
		"Bulk free found another number of objects",
		"No slab cache for object", "Not a valid slab page",
		"Object corrupt",
		"constructor overwrote the end of an object",
		"constructor overwrote the start of an object",
		"page slab pointer corrupt"}
	var got []string
	for _, e := range Titles() {
		if e.Unreachable != "" {
			got = append(got, e.Title)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, reach) {
		t.Errorf("out of reach are\n%q\nwant\n%q", got, reach)
	}
}

// TestTitlesComplete wants every constant in the table, once, in order, and every row
// filled in.
func TestTitlesComplete(t *testing.T) {
	constants := titleConstants(t)
	var table []string
	for _, e := range Titles() {
		table = append(table, e.Title)
		if found, ok := LookupTitle(e.Title); !ok || found != e {
			t.Errorf("LookupTitle(%q) = %v, %v", e.Title, found, ok)
		}
		if e.Rules == 0 || e.Kernel == "" || !strings.HasSuffix(e.Means, ".") {
			t.Errorf("%q: incomplete row %+v", e.Title, e)
		}
		if strings.ContainsAny(e.Title, "%0123456789") || strings.HasSuffix(e.Title, ".") {
			t.Errorf("%q is no fixed text", e.Title)
		}
	}
	if !slices.Equal(table, constants) {
		t.Errorf("the table has\n%q\nthe constants are\n%q", table, constants)
	}
	if e, ok := LookupTitle("object corrupt"); ok {
		t.Errorf("LookupTitle found %v for what is no title", e)
	}
}

// titleConstants reads the constants out of the source, in its order.
func titleConstants(t *testing.T) (out []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "titles.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Title") {
			return true
		}
		s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
		return true
	})
	return out
}

func TestRuleSet(t *testing.T) {
	s := RuleSet(1<<SLUB61 | 1<<SLAB26)
	for r, want := range map[Rules]bool{SLUB61: true, SLUB612: false, SLAB26: true, 9: false} {
		if s.Has(r) != want {
			t.Errorf("Has(%d) = %v", r, !want)
		}
	}
}
