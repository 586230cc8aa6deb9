package bugs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// whole uses every key, two files, two hunks and each way to write a count.
const whole = `# from the history
Subject: drain drops the last partial slab
Class: lost-slab
Needs: cpus=2 irq
On: slub-2021-partial-irqsave
Like: e0a043aa4145
From: one two
Finds: slab lost / pages leaked

--- a/impls/slub/partial.go	2026-01-01 00:00:00
+++ b/impls/slub/partial.go
@@ -3,4 +3,4 @@ func drain
 lock
-push one

+count one
 unlock
@@ -20 +20 @@
-b
+c
--- a/debugcheck/fill.go
+++ b/debugcheck/fill.go
@@ -1,2 +1,2 @@
-one
-two
+2
+1
`

func TestParse(t *testing.T) {
	got, err := Parse("slub/drain-loses-slab.patch", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &Patch{
		Name:    "slub/drain-loses-slab",
		Subject: "drain drops the last partial slab",
		Class:   "lost-slab",
		Needs:   []string{"cpus=2", "irq"},
		On:      "slub-2021-partial-irqsave",
		Like:    "e0a043aa4145",
		From:    []string{"one", "two"},
		Finds:   []string{"slab lost", "pages leaked"},
		Files: []File{
			{Path: "impls/slub/partial.go", Hunks: []Hunk{
				{
					Line: 12, Hint: 3,
					Old: []string{"lock", "push one", "", "unlock"},
					New: []string{"lock", "", "count one", "unlock"},
				},
				{Line: 18, Hint: 20, Old: []string{"b"}, New: []string{"c"}},
			}},
			{Path: "debugcheck/fill.go", Hunks: []Hunk{
				{Line: 23, Hint: 1, Old: []string{"one", "two"}, New: []string{"2", "1"}},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if got.Killer() != "slub/drain-loses-slab.prog" {
		t.Errorf("killer: got %q", got.Killer())
	}
	if diff := cmp.Diff([]string{"impls/slub/partial.go", "debugcheck/fill.go"},
		got.Paths()); diff != "" {
		t.Error(diff)
	}
	crlf, err := Parse("slub/drain-loses-slab.patch",
		[]byte(strings.ReplaceAll(whole, "\n", "\r\n")))
	if diff := cmp.Diff(want, crlf); err != nil || diff != "" {
		t.Errorf("with CRLF: error %v, patch (-want +got):\n%s", err, diff)
	}
}

const head = "Subject: s\nClass: lock\nFinds: deadlock\n"
const files = "--- a/x.go\n+++ b/x.go\n"

func TestParseErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "p:1: no Subject"},
		{"binary", "Subject: \x00", "p: a zero byte"},
		{"no class", "Subject: s\nFinds: t\n" + files, "p:2: no Class"},
		{"no finds", "Subject: s\nClass: lock\n" + files, "p:2: no Finds"},
		{"class", "Subject: s\nClass: sad\n", `p:2: unknown class "sad"`},
		{"key", "Subject: s\nColour: red\n", `p:2: unknown key "Colour"`},
		{"twice", "Subject: s\nSubject: t\n", "p:2: Subject is given twice, first at line 1"},
		{"no value", "Subject:\n", "p:1: Subject has no value"},
		{"no key", "hello\n", `p:1: got "hello", want "Key: value"`},
		{"three titles", "Finds: a / b / c\n", "p:1: got Finds"},
		{"no diff", head, "p:3: no diff"},
		{"one side", head + "--- a/x.go\n", `p:5: want a line "+++ b/PATH"`},
		{"prefix", head + "--- x.go\n+++ x.go\n", `p:4: got path "x.go", want a/`},
		{"created", head + "--- /dev/null\n+++ b/x.go\n", `p:4: got path "/dev/null"`},
		{"outside", head + "--- a/../x.go\n+++ b/../x.go\n", `p:4: got path "a/../x.go"`},
		{"renamed", head + "--- a/x.go\n+++ b/y.go\n", "p:5: got x.go and y.go"},
		{"no hunk", head + files, "p:6: no hunk for x.go"},
		{"hunk head", head + files + "@@ -1 @@\n", `p:6: got "@@ -1 @@"`},
		{"cut", head + files + "@@ -1,2 +1,2 @@\n-a\n", "p:6: the patch ends inside this hunk"},
		{"counts", head + files + "@@ -1,1 +1,2 @@\n-a\n-b\n+c\n+d\n", "p:6: got 2 old and 2 new"},
		{"grows", head + files + "@@ -1,1 +1,2 @@\n-a\n+c\n+d\n",
			"p:6: 1 lines removed and 2 added"},
		{"no change", head + files + "@@ -1 +1 @@\n a\n", "p:6: this hunk changes nothing"},
		{"same", head + files + "@@ -1 +1 @@\n-a\n+a\n", "p:6: this hunk changes nothing"},
		{"empty hunk", head + files + "@@ -1,0 +1,0 @@\n", "p:6: this hunk changes nothing"},
		{"huge", head + files + "@@ -1,99999999999999999999 +1 @@\n-a\n+b\n",
			"p:6: the patch ends"},
		{"stray", head + files + "@@ -1,2 +1,2 @@\n-a\n?b\n", `p:8: got "?b" inside a hunk`},
		{"behind", head + files + "@@ -1 +1 @@\n-a\n+b\nc\n", `p:9: want a line "--- a/PATH"`},
		{"file twice", head + files + "@@ -1 +1 @@\n-a\n+b\n" + files,
			"p:9: x.go is changed twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("p", []byte(test.text))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v, want it to begin with %q", err, test.want)
			}
		})
	}
}

// FuzzParse demands that no bytes make the parser or the applier panic, and that
// what was applied kept its number of lines.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole), []byte("lock\npush one\n\nunlock\nb\n"))
	f.Add([]byte(head+files+"@@ -1 +1 @@\n-a\n+b\n"), []byte("a"))
	f.Fuzz(func(t *testing.T, text, source []byte) {
		p, err := Parse("p", text)
		if err != nil {
			return
		}
		got, err := p.Apply(func(string) ([]byte, error) { return source, nil })
		if err != nil {
			return
		}
		want := strings.Count(string(source), "\n")
		for path, changed := range got {
			if n := strings.Count(string(changed), "\n"); n != want {
				t.Errorf("%s: got %d line ends, want %d", path, n, want)
			}
		}
	})
}
