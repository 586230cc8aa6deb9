package search

import (
	"errors"
	"fmt"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// A Strategy is a way to choose schedules. Its spelling is public.
type Strategy string

// The strategies.
const (
	Bound     Strategy = "bound"
	DPOR      Strategy = "dpor"
	Sleep     Strategy = "sleep"
	Naive     Strategy = "naive"
	Random    Strategy = "random"
	PCT       Strategy = "pct"
	Guided    Strategy = "guided"
	Portfolio Strategy = "portfolio"
)

// A kind describes a strategy.
type kind struct {
	strategy Strategy
	about    string
	proves   bool // that there is no further schedule, when it ends
	orders   bool // searches orders of steps and knows no bounds
	parts    bool // can be shared between cores and shards
}

// kinds is the one table of strategies.
var kinds = []kind{
	{Bound, "every schedule of 0, 1, 2, … departures from line order, within the bounds", true,
		false, true},
	{DPOR, "every order of dependent steps, once each: Optimal-DPOR", true, true, false},
	{Sleep, "the same by sleep sets alone, which begins many runs in vain", true, true, false},
	{Naive, "every order of all steps, for comparison", true, true, false},
	{Random, "random walks", false, false, true},
	{PCT, "contexts with priorities that change at a few steps by chance", false, false, true},
	{Guided, "strings of departures, changed by chance and kept when they make something new " +
		"happen", false, false, false},
	{Portfolio, "one departure everywhere, then pct, random and guided by turns", false, false,
		true},
}

// Orders says whether a strategy searches orders of steps: it knows no bounds.
func (s Strategy) Orders() bool {
	k, _ := s.kind()
	return k.orders
}

// Proves says whether a strategy that ends has shown that there is no further schedule.
func (s Strategy) Proves() bool {
	k, _ := s.kind()
	return k.proves
}

// Strategies are the names of all strategies.
func Strategies() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k.strategy))
	}
	return names
}

// About says what a strategy does, in a line each.
func About() string {
	b := &strings.Builder{}
	for _, k := range kinds {
		fmt.Fprintf(b, "  %-10s %s\n", k.strategy, k.about)
	}
	return b.String()
}

func (s Strategy) kind() (kind, bool) {
	for _, k := range kinds {
		if k.strategy == s {
			return k, true
		}
	}
	return kind{}, false
}

// Options say how to search.
type Options struct {
	Strategy Strategy
	Bounds   explore.Bounds
	Moves    int // of tasks to other CPUs, for the search of orders
	Depth    int // of pct
	Seed     uint64
	Max      int  // schedules, 0 for all; strategies by chance make ChanceRuns then
	All      bool // go on behind what is found
	Parallel int  // workers, at least 1
	Shard    int  // this part, from 0
	Shards   int  // of so many, at least 1
	Run      oracle.Options
	// Checkpoint is called now and then with a state from which a search by parts can be taken
	// up again, and Resume is one that an earlier search left.
	Checkpoint func(*State)
	Resume     *State
	// Progress is called now and then.
	Progress func(Progress)
}

// ChanceRuns is the number of schedules that strategies by chance make when nothing else is
// said.
const ChanceRuns = 10000

// Progress is how far a search is.
type Progress struct {
	Subject    *impls.Variant
	Departures int // of the schedules in hand; -1 for strategies that do not count them
	Schedules  int // so far
	Points     uint64
	Part       int // of the parts of this number of departures
	Parts      int // 0 when not known
}

// Check says what is wrong with the options; nil when they can be used.
func (o *Options) Check() error {
	k, ok := o.Strategy.kind()
	switch {
	case !ok:
		return fmt.Errorf("no strategy %q: expected one of %s", o.Strategy,
			strings.Join(Strategies(), ", "))
	case o.Bounds.Preemptions < 0 || o.Bounds.Interrupts < 0 || o.Bounds.Failures < 0 ||
		o.Moves < 0 || o.Max < 0:
		return errors.New("a bound is below 0")
	case o.Bounds.Total() > 64:
		return fmt.Errorf("the bounds add up to %d departures: expected at most 64",
			o.Bounds.Total())
	case o.Moves > 1:
		return fmt.Errorf("%d migrations: expected 0 or 1: of more a search with a bound knows",
			o.Moves)
	case o.Parallel < 1:
		return fmt.Errorf("%d workers: expected at least 1", o.Parallel)
	case o.Shards < 1 || o.Shard < 0 || o.Shard >= o.Shards:
		return fmt.Errorf("shard %d of %d: expected one of 0/%d to %d/%d", o.Shard, o.Shards,
			max(o.Shards, 1), max(o.Shards, 1)-1, max(o.Shards, 1))
	case o.Shards > 1 && !k.parts:
		return fmt.Errorf("strategy %s cannot be shared between shards: what it tries next "+
			"depends on all it has tried", o.Strategy)
	case o.All && (o.Checkpoint != nil || o.Resume != nil):
		return errors.New("a checkpoint keeps no findings: it cannot be combined with going on " +
			"behind them")
	case o.Max > 0 && (o.Checkpoint != nil || o.Resume != nil):
		return errors.New("a checkpoint cannot be combined with a number of schedules: end the " +
			"search by time")
	case o.Strategy == PCT && (o.Depth < 1 || o.Depth > 8):
		return fmt.Errorf("depth %d: expected 1 to 8", o.Depth)
	}
	return nil
}
