package shadow_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// trackPrograms show tracks in their reports: "line: by whom allocated, by whom freed",
// operations from 1 and 0 for nobody.
var trackPrograms = []struct {
	name, subject, text string
	want                []string
}{
	{"of a live object", slub, fzpu + two + "overrun a 1; free c a", []string{"4: 1, 0"}},
	{"of a free one", slub, fzpu + two + "free c a; writefreed a; validate c",
		[]string{"5: 1, 3"}},
	{"the former free", slub, fzpu + two + "free c a; e = alloc c; overrun e 1; free c e",
		[]string{"6: 4, 3"}},
	{"not of a free that was refused", slub, fzpu + two + "overrun a 1; free c a; overrun a 1; " +
		"validate c", []string{"4: 1, 0"}},
	{"of an allocation that finds damage", slub, fzpu + two + "free c a; writefreed a; " +
		"e = alloc c", []string{"5: 1, 3"}},
	{"of a slab made anew", slub, "cache c flags=poison,redzone,sanity,user min_partial=0 " +
		"objects=2 size=64; a = alloc c; free c a; b = alloc c; overrun b 1; free c b",
		[]string{"5: 3, 0"}},
	{"of a slab that was shrunk away", slub, fzpu + "a = alloc c; free c a; shrink c; " +
		"b = alloc c; overrun b 1; free c b", []string{"6: 4, 0"}},
	{"of a slab that goes", slub, fzpu + two + "free c b; free c a; writefreed b; shrink c",
		[]string{"6: 2, 3"}},
	{"without user", slub, fzp + two + "overrun a 1; free c a", []string{"4: 0, 0"}},
	{"the last user", "slab-2001-threelists", "machine rules=2.6; " + fzpu + two +
		"free c a; writefreed a; validate c; overrun b 1; validate c",
		[]string{"5: 3, 0", "7: 3, 0", "7: 2, 0"}},
	{"of halves of words", "slab-2001-threelists", "machine word=16 rules=2.6 pages=8; " + fzpu +
		two + "overrun b 1; validate c", []string{"4: 2, 0"}},
	{"of memory that is used again", "go-wasm2go-tlsf-guarded", "repeat 300 {; b = malloc 8; " +
		"free b; }; a = malloc 8; overrun a 1; free a", []string{"6: 4, 0"}},
	{"in quarantine", "go-modernc-memory-guarded", "a = malloc 50; free a; writefreed a; " +
		"repeat 256 {; b = malloc 8; free b; }; freeagain a", []string{"6: 1, 2"}},
}

// TestTracks: what the reports of a subject show is what the rules say, and the shadow
// thinks so, too.
func TestTracks(t *testing.T) {
	for _, p := range trackPrograms {
		t.Run(p.name, func(t *testing.T) {
			c := compile(t, p.text)
			var list []seen
			res := runner.Run(c, lying(subject(t, p.subject), &lie{}, &list), oracle.Options{})
			if len(res.Faults) > 0 {
				t.Errorf("%s: %s", res.Faults[0].Title, res.Faults[0].Detail)
			}
			var got []string
			for i := range list {
				r := &list[i]
				if r.line >= 0 && r.line < len(c.Lines) {
					got = append(got, fmt.Sprintf("%d: %d, %d", r.line+1, by(r.Alloc), by(r.Free)))
				}
			}
			if diff := cmp.Diff(p.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// by is the operation of a track, from 1; 0 for nobody.
func by(t debugcheck.Track) int {
	if !t.Set {
		return 0
	}
	return t.Line + 1
}

// TestTracksOfSeveral: with several contexts, the tracks of a live object that nobody else
// touches are held against the rules, too.
func TestTracksOfSeveral(t *testing.T) {
	c := compile(t, "machine cpus=2; "+fzpu+"a = alloc c; overrun a 1; cpu1 b = alloc c; free c a")
	for _, bad := range []bool{false, true} {
		l := &lie{}
		if bad {
			l.reports = alter(func(r *debugcheck.Report) { r.Alloc.Line++ })
		}
		var list []seen
		res := runner.Run(c, lying(subject(t, slub), l, &list), oracle.Options{})
		got := titles(res)
		if len(list) == 0 || bad != (len(got) > 0 && heads(got[0], fault.WrongReport)) ||
			!bad && len(got) > 0 {
			t.Errorf("lied %v: found %q of %d reports", bad, got, len(list))
		}
	}
}
