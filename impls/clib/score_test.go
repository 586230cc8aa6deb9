package clib_test

import (
	"testing"

	"allocfuzz/impls/clib"
)

// TestScore: what comes of a misuse of the library of the test is told from what comes of
// another.
func TestScore(t *testing.T) {
	name := clib.Prefix + built(t, "libscore.so")
	for _, row := range []struct {
		bad, kind string
		want      clib.Response
		says      string
	}{
		{"", "double free", clib.NothingSeen, ""},
		{"", "free with a wrong size", clib.NotPossible, ""},
		{"", "overrun by 64", clib.HandedTwice, ""},
		{"double free told", "double free", clib.Told, "bad: freed twice"},
		{"double free stops", "double free", clib.Stopped, ""},
		{"double free late", "double free", clib.Late, "bad: the heap is damaged"},
		{"double free hangs", "double free", clib.ResponseHung, ""},
		{"double free twice", "double free", clib.HandedTwice, ""},
	} {
		t.Run(row.bad+" "+row.kind, func(t *testing.T) {
			t.Setenv("BAD", row.bad)
			if row.want == clib.ResponseHung {
				t.Setenv(clib.EnvLimit, "3s")
			}
			got, says, err := clib.Score(name, kindNamed(t, row.kind), 40)
			if err != nil || got != row.want || says != row.says {
				t.Errorf("%v %q, %v; want %v %q", got, says, err, row.want, row.says)
			}
		})
	}
}

func kindNamed(t *testing.T, name string) *clib.Misuse {
	t.Helper()
	kinds := clib.Misuses()
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	t.Fatalf("no misuse %q", name)
	return nil
}
