package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitPrefixes(t *testing.T) {
	got := splitPrefixes(" b/..., a ,,b,c/")
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Error(diff)
	}
	if got := splitPrefixes(" , "); got != nil {
		t.Errorf("blank list: got %q, want none", got)
	}
}

func TestFilter(t *testing.T) {
	const compiler = "/go/pkg/tool/linux_amd64/compile"
	in := []string{"-p", "x", "-d=libfuzzer", "-c=2", "x.go"}
	out := []string{"-p", "x", "-c=2", "x.go"}
	tests := []struct {
		name, tool, path string
		prefixes         []string
		args, want       []string
	}{
		{"outside", compiler, "m/other", []string{"m/impls"}, in, out},
		{"equal", compiler, "m/impls", []string{"m/impls"}, in, in},
		{"below", compiler, "m/impls/slub", []string{"m/impls"}, in, in},
		{"second prefix", compiler, "m/b", []string{"m/a", "m/b"}, in, in},
		{"sibling with the prefix's letters", compiler, "m/impls2", []string{"m/impls"}, in, out},
		{"built for a test", compiler, "m/impls [m/impls.test]", []string{"m/impls"}, in, in},
		{"outside, built for a test", compiler, "m/x [m/impls.test]", []string{"m/impls"}, in, out},
		{"external test", compiler, "m/impls_test [m/impls.test]", []string{"m/impls"}, in, out},
		{"main of a test", compiler, "m/impls.test", []string{"m/impls"}, in, out},
		{"no path", compiler, "", []string{"m/impls"}, in, out},
		{"windows", "compile.exe", "m/x", []string{"m/impls"}, in, out},
		{"no prefixes", compiler, "m/other", nil, in, in},
		{"linker", "/go/link", "m/other", []string{"m/impls"}, in, in},
		{"shared flag", compiler, "m/x", []string{"m/a"},
			[]string{"-d=checkptr=0,libfuzzer=1,ssa"}, []string{"-d=checkptr=0,ssa"}},
		{"other flags", compiler, "m/x", []string{"m/a"},
			[]string{"-d=ssa", "-l", "libfuzzer"}, []string{"-d=ssa", "-l", "libfuzzer"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := filter(test.tool, test.path, test.args, test.prefixes)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStamp(t *testing.T) {
	const release = "compile version go1.26.8\n"
	a, b := stamp(release, []string{"m/a"}), stamp(release, []string{"m/b"})
	if a == b {
		t.Errorf("two prefixes give one version: %q", a)
	}
	if f := strings.Fields(a); len(f) != 3 || f[0] != "compile" || f[1] != "version" {
		t.Errorf("got %q, want three words that begin with \"compile version\"", a)
	}
	const devel = "compile version devel go1.27-0123 buildID=a/b/c/d"
	last := func(s string) string { return s[strings.LastIndex(s, "/")+1:] }
	a, b = last(stamp(devel, []string{"m/x/y"})), last(stamp(devel, []string{"m/z/y"}))
	if a == b || !strings.HasPrefix(a, "d+") {
		t.Errorf("content part of the build ID: got %q and %q, want two of the form d+…", a, b)
	}
}

func TestWantsVersion(t *testing.T) {
	if !wantsVersion("/go/compile", []string{"-V=full"}) {
		t.Error("the compiler's -V=full is not seen")
	}
	if wantsVersion("/go/link", []string{"-V=full"}) ||
		wantsVersion("/go/compile", []string{"-V"}) {
		t.Error("something other than the compiler's -V=full is taken for it")
	}
}
