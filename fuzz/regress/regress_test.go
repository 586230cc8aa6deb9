package regress

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

func replayer(t *testing.T) *engine.Replayer {
	r := engine.NewReplayer(oracle.Options{})
	t.Cleanup(r.Close)
	return r
}

// TestCommitted: everything that is committed holds.
func TestCommitted(t *testing.T) {
	r := replayer(t)
	for f := range corpus.All() {
		checks, err := Verify(t.Context(), r, nil, f.Name, f.Text)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if !c.OK() {
				t.Errorf("%+v", c)
			}
		}
	}
}

// aba is the text of the regression that hands an object out twice.
func aba(t *testing.T) string {
	t.Helper()
	for f := range corpus.Regress() {
		if f.Name == "corpus/regress/slub-2008-cmpxchg-aba.prog" {
			return string(f.Text)
		}
	}
	t.Fatal("no such regression")
	return ""
}

// TestVerify: what a program shows and what it expects make its state.
func TestVerify(t *testing.T) {
	text := aba(t)
	change := func(from, to string) string {
		t.Helper()
		if strings.Count(text, from) != 1 {
			t.Fatalf("%q occurs %d times", from, strings.Count(text, from))
		}
		return strings.Replace(text, from, to, 1)
	}
	lifo, err := os.ReadFile("../../corpus/regress/slab-2001-lifo-posted.prog")
	if err != nil {
		t.Fatal(err)
	}
	const silent = "allocfuzz 1\ncache c size=64\n\ncpu0 a = alloc c\n"
	for _, tt := range []struct {
		name, text string
		want       State
		why        string
	}{
		{"holds", text, Holds, ""},
		{"silent", silent, Holds, ""},
		{"repaired", change("sched subject=slub-2008-cmpxchg", "sched subject=slub-2008-seq"), Gone,
			"take the block out"},
		{"another title", change(`bug "object handed out twice"`, `bug "not zeroed"`), Changed,
			"expected not zeroed"},
		{"schedule of another line", change("at alloc(a)", "at irq0/free(x)"), Stale,
			"allocfuzz replay --repair"},
		{"another point", change("cpu_slab.freelist 1", "cpu_slab.freelist 7"), Stale,
			"allocfuzz explore"},
		{"sound subject speaks", silent + "check\ncpu0 free c a => enomem\n", Unexpected,
			"nothing is expected"},
		{"broken", change("irq0 free c x", "irq0 fre c x"), Unusable, "x.prog:16:6: "},
		{"no such subject", change("subject=slub-2008-cmpxchg", "subject=slub-1999"), Unusable,
			`no subject "slub-1999"`},
		{"in line order", string(lifo), Holds, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checks, err := Verify(t.Context(), replayer(t), nil, "x.prog", []byte(tt.text))
			if err != nil || len(checks) == 0 {
				t.Fatalf("checks %v, error %v", checks, err)
			}
			for _, c := range checks {
				if c.State != tt.want || !strings.Contains(c.Why, tt.why) {
					t.Errorf("%+v, want %s and %q", c, tt.want, tt.why)
				}
				if (c.Err != nil) != (tt.want == Unusable) {
					t.Errorf("error %v", c.Err)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Verify(ctx, replayer(t), nil, "x.prog", []byte(text))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestMake: a regression of what a program shows has a head, expects it, holds, and is written
// under a name that was free; one that is there already is not written again.
func TestMake(t *testing.T) {
	p, err := prog.ParseString(strings.Split(aba(t), "sched ")[0] +
		"sched\nat alloc(a) cmpxchg cpu_slab.freelist 1: irq0\n")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := all.Lookup("slub-2008-cmpxchg")
	r := replayer(t)
	list, err := r.Program(t.Context(), p, []*impls.Variant{v})
	if err != nil || len(list[0].Findings) != 1 {
		t.Fatalf("%v, error %v", list, err)
	}
	f := list[0].Findings[0]
	made, err := Make(list[0].Report.Program, &f, Meta{"in a\ttest", "2026-12-01"})
	if err != nil {
		t.Fatal(err)
	}
	if h := made.Head; h.Title != f.Title || h.Class != "ownership" || h.Date != "2026-12-01" ||
		// Not what any fault may lead to.
		h.Also != "freelist leaves its slab; live object on a freelist; contents changed" ||
		!slices.Contains(f.Also, "outcomes differ") {
		t.Errorf("head %+v", h)
	}
	dir := filepath.Join(t.TempDir(), "größe und mehr")
	file, err := Write(dir, made, &f)
	if err != nil || filepath.Base(file) != "slub-2008-cmpxchg-object-handed-out-twice.prog" {
		t.Fatalf("%s, error %v", file, err)
	}
	if again, err := Write(dir, made, &f); err != nil || again != file {
		t.Errorf("the same is written to %s, error %v", again, err)
	}
	made.Tail = []string{"# Another one."}
	if other, err := Write(dir, made, &f); err != nil || other == file {
		t.Errorf("another one is written to %s, error %v", other, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checks, err := Verify(t.Context(), r, nil, file, text)
	if err != nil || len(checks) != 1 || checks[0].State != Holds || checks[0].Expected != f.Title {
		t.Errorf("checks %+v, error %v", checks, err)
	}
	if _, err := Make(p, &f, Meta{Found: "two\nlines"}); err == nil {
		t.Error("a head of two lines was made")
	}
	files, err := Files([]string{dir, file})
	if err != nil || len(files) != 2 {
		t.Errorf("files %v, error %v", files, err)
	}
	if _, err := Files([]string{t.TempDir()}); err == nil {
		t.Error("a folder without programs is no error")
	}
}
