package main

import (
	"fmt"
	"go/importer"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository holds this repository to its own rules.
func TestRepository(t *testing.T) {
	problems, err := tidy(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// A check sees the files, given as path and text, and must say want, each in a
// problem of its own that begins with the place; no want means no problem.
type example struct {
	name  string
	files map[string]string
	want  []string
}

// try runs a check on examples that lie in memory.
func try(t *testing.T, check func(*tree) []problem, examples []example) {
	t.Helper()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Helper()
			compare(t, check(memory(t, e.files)), e.want)
		})
	}
}

// compare demands problems that begin with the texts of want, one each.
func compare(t *testing.T, problems []problem, want []string) {
	t.Helper()
	if len(problems) != len(want) {
		t.Fatalf("got %d problems, want %d:\ngot  %q\nwant %q",
			len(problems), len(want), problems, want)
	}
	for i, p := range problems {
		place, part, _ := strings.Cut(want[i], " … ")
		if got := p.String(); !strings.HasPrefix(got, place) || !strings.Contains(got, part) {
			t.Errorf("got %q, want %q", got, want[i])
		}
	}
}

// memory makes a tree of files, with a go.mod when none is given.
func memory(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module allocfuzz\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// one is a tree of one file.
func one(name, text string) map[string]string { return map[string]string{name: text} }

func TestArrows(t *testing.T) {
	imports := func(names ...string) string {
		return "package p\n\nimport (\n\t\"" + strings.Join(names, "\"\n\t\"") + "\"\n)\n"
	}
	try(t, checkArrows, []example{
		{"down",
			one("impls/slub/a.go", imports("allocfuzz/impls", "fmt", "allocfuzz/impls/page")), nil},
		{"up", one("impls/slub/a.go", imports("allocfuzz/oracle")),
			[]string{"impls/slub/a.go:4: package impls/slub must not import allocfuzz/oracle"}},
		{"family to family", one("impls/slab/a.go", imports("fmt", "allocfuzz/impls/slub")),
			[]string{"impls/slab/a.go:5: "}},
		{"programs in allocators", one("impls/a.go", imports("allocfuzz/corpus/prog")),
			[]string{"impls/a.go:4: "}},
		{"family in the oracle", one("oracle/a.go", imports("allocfuzz/impls/slub")),
			[]string{"oracle/a.go:4: "}},
		{"all in the oracle", one("oracle/a.go", imports("allocfuzz/impls/all")),
			[]string{"oracle/a.go:4: "}},
		{"all in fuzz", one("fuzz/a.go", imports("allocfuzz/impls/all")), nil},
		{"checks in the model", one("oracle/live/a.go", imports("allocfuzz/debugcheck")),
			[]string{"oracle/live/a.go:4: "}},
		{"test upwards", one("impls/slub/a_test.go", imports("allocfuzz/oracle")), nil},
		{"library in the machine",
			one("impls/machine/a.go", imports("github.com/google/go-cmp/cmp")),
			[]string{"impls/machine/a.go:4: "}},
		{"library in golib", one("impls/golib/a.go", imports("modernc.org/memory")), nil},
		{"wrong library in golib", one("impls/golib/a.go", imports("modernc.org/memory2")),
			[]string{"impls/golib/a.go:4: "}},
		{"library in fuzz", one("fuzz/a.go", imports("github.com/leanovate/gopter")),
			[]string{"fuzz/a.go:4: "}},
		{"library below fuzz",
			one("fuzz/property/a.go", imports("github.com/leanovate/gopter")), nil},
		{"unknown package", one("helpers/a.go", "package p\n"),
			[]string{"helpers/a.go:1: package helpers is in no row"}},
		{"nested module", map[string]string{
			"fuzz/example/go.mod": "module example\n",
			"fuzz/example/a.go":   imports("allocfuzz/fuzz", "example.org/x"),
		}, nil},
	})
}

func TestFuzzImports(t *testing.T) {
	list := []string{"testing", "network", "allocfuzz/fuzz [allocfuzz/fuzz.test]", "os"}
	compare(t, heavyImports("fuzz", list), nil)
	list = append(list, "net/http", "github.com/google/go-cmp/cmp [allocfuzz/fuzz.test]")
	compare(t, heavyImports("fuzz", list), []string{
		"fuzz: … net/http", "fuzz: … github.com/google/go-cmp/cmp,",
	})
}

func TestBans(t *testing.T) {
	clock := "package p\n\nimport \"time\"\n\nvar _ time.Time\n"
	locks := "package p\n\nimport (\n\t\"sync\"\n\t\"unsafe\"\n)\n"
	thread := "package p\n\nfunc f() {\n\tgo f()\n}\n"
	start := "package p\n\nfunc init() {}\n"
	try(t, checkBans, []example{
		{"clock", one("impls/slub/a.go", clock),
			[]string{"impls/slub/a.go:3: … steps, not clocks"}},
		{"clock in a test", one("impls/slub/a_test.go", clock), nil},
		{"clock elsewhere", one("fuzz/a.go", clock), nil},
		{"clock in golib", one("impls/golib/a.go", clock), []string{"impls/golib/a.go:3: "}},
		{"clock in clib", one("impls/clib/a.go", clock), nil},
		{"chance", one("corpus/prog/a.go", "package p\n\nimport \"math/rand/v2\"\n"),
			[]string{"corpus/prog/a.go:3: … chooser"}},
		{"locks", one("oracle/a.go", locks), []string{"oracle/a.go:4: ", "oracle/a.go:5: "}},
		{"locks in the machine", one("impls/machine/a.go", locks),
			[]string{"impls/machine/a.go:4: ", "impls/machine/a.go:5: "}},
		{"locks in native files", one("impls/machine/native_lock.go", locks), nil},
		{"locks in native files of others", one("oracle/native.go", locks),
			[]string{"oracle/native.go:4: ", "oracle/native.go:5: "}},
		{"atomics in the machine", one("impls/machine/a.go",
			"package p\n\nimport \"sync/atomic\"\n"), nil},
		{"thread", one("debugcheck/a.go", thread), []string{"debugcheck/a.go:4: … go statements"}},
		{"thread in golib", one("impls/golib/a.go", thread), nil},
		{"start", one("impls/a.go", start), []string{"impls/a.go:3: … init functions"}},
		{"method called init",
			one("impls/a.go", "package p\n\ntype t int\n\nfunc (t) init() {}\n"), nil},
	})
}

func TestMapOrder(t *testing.T) {
	const head = "package p\n\nimport (\n\t\"maps\"\n\t\"slices\"\n)\n\n" +
		"var m map[int]int\nvar s []int\n\nvar _ = slices.Sorted(maps.Keys(m))\n\n" +
		"func f[M ~map[int]int](x M) {\n"
	check := func(t *tree) []problem {
		return t.mapOrder(importer.Default(), func(*source) bool { return true })
	}
	body := func(text string) map[string]string { return one("impls/a.go", head+text+"}\n") }
	const loop = "\tfor k := range m {\n\t\t_ = k\n\t}\n"
	const escapes = "impls/a.go:14: the order of a map escapes"
	try(t, check, []example{
		{"sorted keys", body(""), nil},
		{"slice", body("\tfor i := range s {\n\t\t_ = i\n\t}\n"), nil},
		{"map", body(loop), []string{escapes}},
		{"counting", body("\tfor range m {\n\t}\n"), nil},
		{"marked", body("\t//tidy:maporder a sum has no order\n" + loop), nil},
		{"marked without reason", body("\t//tidy:maporder\n" + loop),
			[]string{"impls/a.go:14: //tidy:maporder needs a reason"}},
		{"stale mark", body("\t//tidy:maporder a sum has no order\n\t_ = s\n"),
			[]string{"impls/a.go:14: //tidy:maporder stands above no range"}},
		{"type parameter", body("\tfor k := range x {\n\t\t_ = k\n\t}\n"), []string{escapes}},
		{"named type", body("\ttype named map[int]int\n" +
			strings.Replace(loop, "range m", "range named(m)", 1)),
			[]string{"impls/a.go:15: the order of a map escapes"}},
		{"iterator", body("\tfor k := range maps.Keys(m) {\n\t\t_ = k\n\t}\n"), []string{escapes}},
		{"collected unsorted", body("\t_ = slices.Collect(maps.Values(m))\n"), []string{escapes}},
		{"sorted values", body("\t_ = slices.Sorted(maps.Values(m))\n"), nil},
		{"not deterministic", one("fuzz/a.go", head+loop+"}\n"), nil},
		{"type error", body("\tundefined()\n"),
			[]string{"impls: type errors, so ranges over maps may be missed"}},
	})
}

func TestSizes(t *testing.T) {
	function := func(lines int) string {
		return "package p\n\nfunc f() {\n" + strings.Repeat("\t_ = 0\n", lines-2) + "}\n"
	}
	nested := func(inner string) string {
		return "package p\n\nfunc f() {\n\tfor {\n\t\tif true {\n" +
			"\t\t\tswitch {\n\t\t\tcase true:\n" + inner + "\t\t\t}\n\t\t}\n\t}\n}\n"
	}
	many := make(map[string]string)
	for i := range packageFiles + 1 {
		many[fmt.Sprintf("p/%02d.go", i)] = "package p\n"
	}
	generated := "// Code generated by x. DO NOT EDIT.\n\n"
	wide := "package p\n\n// " + strings.Repeat("x", columns-2) + "\n"
	try(t, checkSizes, []example{
		{"function at the limit", one("a.go", function(funcLines)), nil},
		{"function above it", one("a.go", function(funcLines+1)),
			[]string{"a.go:3: f has 71 lines, the limit is 70"}},
		{"function of a test", one("a_test.go", function(funcLines+1)), nil},
		{"generated function", one("a.go", generated+function(funcLines+1)), nil},
		{"file at the limit", one("a.go", "package p\n"+strings.Repeat("//\n", fileLines-1)), nil},
		{"file above it", one("a.go", "package p\n"+strings.Repeat("//\n", fileLines)),
			[]string{"a.go:501: the file has 501 lines"}},
		{"wide line", one("a.go", wide), []string{"a.go:3: the line has 101 columns"}},
		{"wide line of a test", one("a_test.go", wide), []string{"a_test.go:3: "}},
		{"tabs", one("a.go", "package p\n\n"+strings.Repeat("\t", 25)+"//x\n"),
			[]string{"a.go:3: the line has 103 columns"}},
		{"letters, not bytes", one("a.go", "package p\n\n//"+strings.Repeat("é", 98)+"\n"), nil},
		{"address", one("a.go", wide+"// https://x.org/"+strings.Repeat("y", columns)+"\n"),
			[]string{"a.go:3: "}},
		{"five parameters", one("a.go", "package p\n\nfunc f(a, b, c int, d, e string) {}\n"), nil},
		{"six", one("a.go", "package p\n\nfunc f(a, b, c int, d, e, f string) {}\n"),
			[]string{"a.go:3: a function has 6 parameters"}},
		{"six in a literal", one("a.go", "package p\n\nvar f = func(a, b, c, d, e, f int) {}\n"),
			[]string{"a.go:3: "}},
		{"three levels", one("a.go", nested("\t\t\t\tf()\n")), nil},
		{"four levels", one("a.go", nested("\t\t\t\tif true {\n\t\t\t\t}\n")),
			[]string{"a.go:8: statements are nested more than 3 deep"}},
		{"else-if is no level", one("a.go", nested("")+
			"\nfunc g() {\n\tif true {\n\t} else if true {\n\t} else if true {\n"+
			"\t\tfor {\n\t\t\tfor {\n\t\t\t}\n\t\t}\n\t} else {\n\t\tfor {\n\t\t}\n\t}\n}\n"), nil},
		{"below else", one("a.go", "package p\n\nfunc g() {\n\tif true {\n\t} else {\n\t\tfor {\n"+
			"\t\t\tfor {\n\t\t\t\tfor {\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n"),
			[]string{"a.go:8: "}},
		{"literal keeps the depth", one("a.go", nested("\t\t\t\t_ = func() {\n\t\t\t\t\tfor {\n"+
			"\t\t\t\t\t}\n\t\t\t\t}\n")), []string{"a.go:9: "}},
		{"files of a package", many, []string{"p/20.go: package p has more than 20 files"}},
	})
}

func TestDocs(t *testing.T) {
	const head = "// Package p is one.\npackage p\n\n"
	source := func(text string) map[string]string { return one("p/a.go", head+text) }
	try(t, checkDocs, []example{
		{"package", one("p/a.go", "package p\n"), []string{"p/a.go:1: package p has no comment"}},
		{"package in another file", map[string]string{
			"p/a.go": "package p\n", "p/doc.go": "// Package p is one.\npackage p\n",
		}, nil},
		{"package in a test only", map[string]string{
			"p/a.go": "package p\n", "p/a_test.go": "// Package p is one.\npackage p\n",
		}, []string{"p/a.go:1: "}},
		{"function", source("func F() {}\n"), []string{"p/a.go:4: exported F has no comment"}},
		{"own function", source("func f() {}\n"), nil},
		{"documented", source("// F does.\nfunc F() {}\n"), nil},
		{"another name", source("// Does it.\nfunc F() {}\n"),
			[]string{"p/a.go:5: the comment of F must begin with its name"}},
		{"longer name", source("// Fx does.\nfunc F() {}\n"), []string{"p/a.go:5: "}},
		{"method", source("// A T is.\ntype T int\n\nfunc (t *T) M() {}\n"),
			[]string{"p/a.go:7: "}},
		{"generic method", source("// A T is.\ntype T[A any] int\n\nfunc (t *T[A]) M() {}\n"),
			[]string{"p/a.go:7: "}},
		{"method of an own type", source("type t int\n\nfunc (t) M() {}\n"), nil},
		{"type", source("type T int\n"), []string{"p/a.go:4: "}},
		{"types in a group", source("// Types.\ntype (\n\tT int\n\t// U is.\n\tU int\n)\n"),
			[]string{"p/a.go:6: exported T"}},
		{"constant", source("const C = 1\n"), []string{"p/a.go:4: "}},
		{"constants of a group", source("// Those.\nconst (\n\tC = 1\n\tD = 2\n)\n"), nil},
		{"comment behind", source("const (\n\tC = 1 // one\n\tD = 2\n)\n"), []string{"p/a.go:6: "}},
		{"interface", source("// An I is.\ntype I interface {\n\tF()\n\tG() // does\n}\n"),
			[]string{"p/a.go:6: exported F"}},
		{"interface of one method", source("// An I is.\ntype I interface{ F() }\n"), nil},
		{"main", one("p/a.go", "// P is a command.\npackage main\n\nfunc F() {}\n"), nil},
		{"test", map[string]string{
			"p/a.go": head, "p/a_test.go": "package p\n\nfunc F() {}\n",
		}, nil},
	})
}

func TestTexts(t *testing.T) {
	note, broken := "TO"+"DO", "FIX"+"ME"
	home, shared := "/ho"+"me/x/y", "../sha"+"red/DESIGN.md"
	try(t, checkTexts, []example{
		{"clean", one("a.md", "See docs/home/x and todo lists, shared/x.\n"), nil},
		{"note", one("a.go", "package p // "+note+": later\n"), []string{"a.go:1: got \"" + note}},
		{"note at the end", one("a.md", "x\n"+broken+"\n"), []string{"a.md:2: "}},
		{"note with a name", one("a.go", "package p // "+note+"(ada): later\n"), nil},
		{"note with no name", one("a.go", "package p // "+note+"(): later\n"),
			[]string{"a.go:1: "}},
		{"home", one("x.prog", "# from "+home+"\n"), []string{"x.prog:1: … one machine"}},
		{"quoted", one("Makefile", "X='"+home+"'\n"), []string{"Makefile:1: "}},
		{"windows", one("a.md", `C:\Us`+"ers\\x\n"), []string{"a.md:1: "}},
		{"outside", one(".ci/run", "cat "+shared+"\n"), []string{".ci/run:1: … outside"}},
		{"hidden folder", one(".cache/a.md", note+"\n"), nil},
		{"not a text", one("a.bin", note+"\n"), nil},
	})
}

func TestPrograms(t *testing.T) {
	const formatted = "allocfuzz 1\nmachine cpus=2\ncache c size=64\n\ncpu0 a = alloc c\n"
	spaced := strings.Replace(formatted, "alloc c", "alloc  c", 1)
	const broken = "allocfuzz 1\ncpu0 a = brew c\n"
	try(t, checkPrograms, []example{
		{"formatted", one("corpus/seeds/a.prog", formatted), nil},
		{"spaced", one("corpus/seeds/a.prog", spaced),
			[]string{"corpus/seeds/a.prog:5: not formatted"}},
		{"no line end", one("a.prog", strings.TrimSuffix(formatted, "\n")),
			[]string{"a.prog:5: not formatted"}},
		{"broken", one("impls/testdata/a.prog", broken),
			[]string{"impls/testdata/a.prog:2: … brew"}},
		{"broken on purpose", one("corpus/prog/testdata/bad/a.prog", broken), nil},
		{"not a program", one("a.md", broken), nil},
	})
}

func TestPatches(t *testing.T) {
	const source = "package slub\n\nfunc f() int {\n\treturn 1\n}\n"
	patch := "Subject: f is two\nClass: counter\nFinds: stored count wrong\n" +
		"--- a/impls/slub/a.go\n+++ b/impls/slub/a.go\n@@ -4 +4 @@\n-\treturn 1\n+\treturn 2\n"
	with := func(patch, source string) map[string]string {
		return map[string]string{
			"impls/slub/a.go":             source,
			"corpus/bugs/slub/two.patch":  patch,
			"corpus/bugs/slub/two.prog":   "allocfuzz 1\n",
			"corpus/bugs/slub/README.md":  "x\n",
			"corpus/bugs/testdata/x.prog": "x\n",
		}
	}
	alone := with(patch, source)
	delete(alone, "corpus/bugs/slub/two.prog")
	orphan := with(patch, source)
	delete(orphan, "corpus/bugs/slub/two.patch")
	const file = "corpus/bugs/slub/two.patch"
	try(t, checkPatches, []example{
		{"fresh", with(patch, source), nil},
		{"stale", with(patch, strings.Replace(source, "1", "3", 1)),
			[]string{file + ":6: impls/slub/a.go: the hunk fits nowhere"}},
		{"ambiguous", with(patch, source+"\nfunc g() int {\n\treturn 1\n}\n"),
			[]string{file + ":6: impls/slub/a.go: the hunk fits at lines 4, 8"}},
		{"no head", with(strings.Replace(patch, "Class: counter\n", "", 1), source),
			[]string{file + ":2: no Class"}},
		{"no Go", with(strings.Replace(patch, "+\treturn 2", "+\treturn (", 1), source),
			[]string{file + ": what it makes of the sources is no Go"}},
		{"title", with(strings.Replace(patch, "stored", "kept", 1), source),
			[]string{file + `: Finds names "kept count wrong"`}},
		{"no program", alone, []string{file + ": no program kills it"}},
		{"no patch", orphan, []string{"corpus/bugs/slub/two.prog: the patch two.patch"}},
	})
}

func TestMakefile(t *testing.T) {
	var whole string
	for _, verb := range verbs {
		whole += ".PHONY: " + verb + "\n" + verb + ": ## does it\n\tgo version\n"
	}
	with := func(more string) map[string]string { return one("Makefile", whole+more) }
	read := func(page string) map[string]string {
		return map[string]string{"Makefile": whole, "README.md": page}
	}
	try(t, checkMakefile, []example{
		{"whole", with("X := 1\nY ?= 2\n"), nil},
		{"missing", nil, []string{"Makefile: it is missing"}},
		{"silent", with(".PHONY: x\nx: test\n"), []string{"Makefile:17: the verb x does not say"}},
		{"empty", with(".PHONY: x\nx: ## \n"), []string{"Makefile:17: the verb x does not say"}},
		{"a file's name", with("x: ## does it\n"),
			[]string{"Makefile:16: the verb x is not in .PHONY"}},
		{"verb missing", one("Makefile", strings.ReplaceAll(whole, "fuzz", "fuss")),
			[]string{"Makefile: there is no verb fuzz"}},
		{"used", read("Run `make fuzz`.\n\n    make test FOR=1s\n"), nil},
		{"used but missing", read("Run `make coffee`.\n\n    make tea\n"),
			[]string{"README.md:1: the Makefile has no verb coffee", "README.md:3: … tea"}},
	})
}

func TestModuleRoot(t *testing.T) {
	root, err := moduleRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", "tidy")); err != nil {
		t.Errorf("got %s, want the root of this module", root)
	}
}

// TestFormats: a verb that follows a numbered one must have a number.
func TestFormats(t *testing.T) {
	const head = "package a\n\nimport \"fmt\"\n\n"
	try(t, checkFormats, []example{
		{"all plain", map[string]string{"a/a.go": head +
			"var _ = fmt.Sprintf(\"%s %d %%[1]d %s\", 1, 2, 3)\n"}, nil},
		{"all numbered behind the first", map[string]string{"a/a.go": head +
			"var _ = fmt.Sprintf(\"%s %d %[1]q 100%%\", 1, 2)\n"}, nil},
		{"plain behind numbered", map[string]string{"a/a.go": head +
			"var _ = fmt.Sprintf(\"%s %[1]s\"+\n\t\" %s\", 1, 2)\n"},
			[]string{"a/a.go:5 … number"}},
		{"at once", map[string]string{"a/a.go": head +
			"var _ = fmt.Sprintf(\"%[1]s%d\", 1, 2)\n"}, []string{"a/a.go:5 … number"}},
	})
}
