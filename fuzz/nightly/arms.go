package nightly

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/impls"
)

// An Arm is something that time can be spent on: a fuzz target on some subjects, or the explorers.
type Arm struct {
	Name     string   `json:"name"`
	Target   string   `json:"target"` // "" for the explorers
	Subjects []string `json:"subjects"`
	Slices   int      `json:"slices"`
	Execs    int64    `json:"execs"`
	Points   uint64   `json:"points"`
	New      int      `json:"new"`     // inputs with new coverage, or searches with new states
	Corpus   int      `json:"corpus"`  // inputs kept
	Seconds  float64  `json:"seconds"` // spent on it
	Score    float64  `json:"score"`   // what it found a second, the last slices more than others
	Deaths   int      `json:"deaths"`  // of workers, in a row
	Flakes   int      `json:"flakes"`
	Left     string   `json:"left"` // why it gets no more time, "" when it does
	// Of the explorers: the pair of program and subject that is next, and how many final states
	// each has shown.
	Next   int            `json:"next,omitempty"`
	States map[string]int `json:"states,omitempty"`
}

// fits says whether the arms of a state are those of another.
func (s *State) fits(other *State) bool {
	return slices.EqualFunc(s.Arms, other.Arms, func(a, b *Arm) bool {
		return a != nil && a.Name == b.Name && a.Target == b.Target && a.Next >= 0 &&
			slices.Equal(a.Subjects, b.Subjects)
	})
}

// compares are the targets that hold subjects against each other: they have all of them.
var compares = map[string]bool{"FuzzSequential": true, "FuzzPairs": true, fuzz.Prog: true}

// Arms are those of a night: the explorers with the simulated subjects, the targets that compare
// subjects with all of them, and the others with a family each.
func Arms(targets []string, subjects []*impls.Variant) []*Arm {
	all := fuzz.Names(subjects)
	family := map[string][]string{}
	var order []string
	for _, v := range subjects {
		f, _, _ := strings.Cut(v.Name, "-")
		if family[f] == nil {
			order = append(order, f)
		}
		family[f] = append(family[f], v.Name)
	}
	// Allocators from outside have no points to search, and may end the process.
	var simulated []string
	for _, v := range subjects {
		if v.Simulated() {
			simulated = append(simulated, v.Name)
		}
	}
	out := []*Arm{{Name: "explorers", Subjects: simulated}}
	for _, t := range targets {
		if compares[t] || len(order) == 1 {
			out = append(out, &Arm{Name: t, Target: t, Subjects: all})
			continue
		}
		for _, f := range order {
			out = append(out, &Arm{Name: t + " on " + f, Target: t, Subjects: family[f]})
		}
	}
	return out
}

// The scheduler: every arm has one slice first. Then one slice in floorEvery goes to the arm that
// had the least time, so that none starves, and the others to the arm with the best score.
const (
	floorEvery = 3
	// scoreKeep is how much of an arm's score a slice leaves.
	scoreKeep = 0.5
	// deathsMax is how many slices in a row may end with the death of a worker.
	deathsMax = 3
)

// Pick is the arm that is next; nil when none gets more time. It depends on the state alone.
func (s *State) Pick() *Arm {
	var least, best *Arm
	slices := 0
	for _, a := range s.Arms {
		slices += a.Slices
		if a.Left != "" {
			continue
		}
		if a.Slices == 0 {
			return a
		}
		if least == nil || a.Seconds < least.Seconds {
			least = a
		}
		if best == nil || a.Score > best.Score {
			best = a
		}
	}
	if slices%floorEvery == 0 {
		return least
	}
	return best
}

// took notes what a slice of an arm brought.
func (a *Arm) took(r *SliceReport) {
	a.Slices++
	a.Execs += r.Execs
	a.Points += r.Points
	a.New += r.New
	a.Corpus = max(a.Corpus, r.Corpus)
	a.Seconds += r.Seconds
	score := 0.0
	if r.Seconds > 0 {
		score = float64(r.New) / r.Seconds
	}
	if a.Slices > 1 {
		score = scoreKeep*a.Score + (1-scoreKeep)*score
	}
	a.Score = score
	switch {
	case r.Flake:
		a.Flakes++
	case !r.Death:
		a.Deaths = 0
	default:
		if a.Deaths++; a.Deaths == deathsMax {
			a.Left = fmt.Sprintf("its workers died in %d slices in a row", deathsMax)
		}
	}
}

// Bounds of the length of a slice.
const (
	sliceLeast = 3 * time.Second
	sliceMost  = 30 * time.Second
	rounds     = 3 // slices that each arm should have at least
)

// slice is how long a slice should be.
func (s *State) slice() time.Duration {
	d := time.Duration(s.Budget*float64(time.Second)) / time.Duration(rounds*len(s.Arms))
	return min(max(d, sliceLeast), sliceMost)
}
