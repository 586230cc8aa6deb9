package history_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/oracle/history"
)

var seed = flag.Uint64("seed", 1, "of the generated histories")

// brute says whether some order explains a history, by trying all. What is live is known
// from which operations were done, so each set of them is looked at once.
func brute(h *history.History) bool {
	seen := make([]bool, 1<<len(h.Ops))
	var try func(done uint) bool
	try = func(done uint) bool {
		if seen[done] {
			return false
		}
		seen[done] = true
		over := true
		for i := range h.Ops {
			over = over && (done&(1<<i) != 0 || h.Ops[i].Pending())
		}
		if over {
			return true
		}
		for i := range h.Ops {
			if done&(1<<i) == 0 && next(h, done, i) && try(done|1<<i) {
				return true
			}
		}
		return false
	}
	return try(0)
}

// next says whether operation i may come behind those that are done.
func next(h *history.History, done uint, i int) bool {
	o := &h.Ops[i]
	live := map[history.Range]int{}
	for j := range h.Ops {
		p := &h.Ops[j]
		if done&(1<<j) == 0 {
			if i != j && p.Return < o.Call {
				return false
			}
			continue
		}
		if p.Old.Size > 0 && (p.Outcome == impls.OK || p.Pending()) {
			live[p.Old]--
		}
		if p.New.Size > 0 && p.Outcome == impls.OK && !p.Pending() {
			live[p.New]++
		}
	}
	if o.Outcome != impls.OK && !o.Pending() {
		return true
	}
	if o.Old.Size > 0 {
		if live[o.Old] != 1 {
			return false
		}
		delete(live, o.Old)
	}
	if o.New.Size > 0 && !o.Pending() {
		for r, n := range live {
			if n > 0 && r.Overlaps(o.New) {
				return false
			}
		}
	}
	return true
}

// world says what histories are generated.
type world struct {
	ops, places, sizes int
	time               int64
	reallocs           bool
}

// generate makes a history that a program could see: nobody gives back what he has not got.
func generate(rng *rand.Rand, w world) *history.History {
	h := &history.History{}
	type life struct {
		at    history.Range
		since int64
	}
	var lives []life
	span := func(after int64) (call, ret int64) {
		call = after + 1 + rng.Int64N(w.time/3)
		return call, call + rng.Int64N(w.time/2)
	}
	for len(h.Ops) < w.ops {
		o := history.Op{Code: impls.OpMalloc, Line: -1}
		at := history.Range{Addr: uint64(1 + rng.IntN(w.places)),
			Size: uint64(1 + rng.IntN(w.sizes))}
		kind := rng.IntN(5)
		if len(lives) == 0 || kind < 2 {
			o.Call, o.Return = span(rng.Int64N(w.time) - 1)
			o.New = at
		} else {
			n := rng.IntN(len(lives))
			o.Code = impls.OpFree
			o.Call, o.Return = span(lives[n].since + rng.Int64N(w.time/3))
			o.Old = lives[n].at
			if w.reallocs && kind == 4 {
				o.Code, o.New = impls.OpRealloc, at
				if rng.IntN(3) == 0 {
					o.New.Addr = o.Old.Addr
				}
			}
			if o.Code == impls.OpFree || rng.IntN(4) > 0 {
				lives = append(lives[:n], lives[n+1:]...)
			} else {
				o.Outcome, o.New = impls.NoMem, history.Range{}
				lives[n].since = o.Return
			}
		}
		if o.Outcome == impls.OK && rng.IntN(8) == 0 {
			o.Return = history.Pending
		}
		if o.Outcome == impls.OK && o.New.Size > 0 && o.Return != history.Pending {
			lives = append(lives, life{o.New, o.Return})
		}
		h.Ops = append(h.Ops, o)
	}
	return h
}

// worlds are small ones in which about as many histories are right as wrong.
var worlds = []world{
	{ops: 7, places: 2, sizes: 1, time: 24},
	{ops: 8, places: 5, sizes: 1, time: 40},
	{ops: 7, places: 4, sizes: 3, time: 40},
	{ops: 7, places: 3, sizes: 1, time: 24, reallocs: true},
	{ops: 7, places: 6, sizes: 3, time: 30, reallocs: true},
	{ops: 5, places: 4, sizes: 2, time: 12, reallocs: true},
	{ops: 8, places: 9, sizes: 4, time: 50, reallocs: true},
}

// TestBrute: the check agrees with trying every order, on many small histories of each kind.
func TestBrute(t *testing.T) {
	t.Logf("seed %d", *seed)
	each := 20000
	if testing.Short() {
		each = 3000
	}
	var k history.Checker
	for n, w := range worlds {
		rng := rand.New(rand.NewPCG(*seed, uint64(n)))
		count := map[bool]int{}
		for range each {
			h := generate(rng, w)
			want := brute(h)
			v := k.Check(h)
			if (v == nil) != want {
				t.Fatalf("%+v: linearizable %v, check says %v\n%s", w, want, v, text(h))
			}
			count[want]++
		}
		if count[true] < each/10 || count[false] < each/10 {
			t.Errorf("%+v: %d right and %d wrong: this says little", w, count[true], count[false])
		}
	}
}

func text(h *history.History) string {
	s := ""
	for i := range h.Ops {
		s += fmt.Sprintf("%d: %s\n", i, h.Text(i))
	}
	return s
}
