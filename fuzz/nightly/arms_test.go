package nightly

import (
	"maps"
	"slices"
	"testing"

	"allocfuzz/fuzz"
)

// spend gives slices until all arms together have had so many, each of which finds what rate says
// a second.
func spend(s *State, n int, rate map[string]float64) {
	for range n {
		a := s.Pick()
		if a == nil {
			return
		}
		a.took(&SliceReport{Seconds: 10, New: int(10 * rate[a.Name])})
	}
}

// TestPick: every arm has a slice first; then the one that still finds something gets most, none
// starves, and when it runs dry the others get more.
func TestPick(t *testing.T) {
	s := fresh(1000)
	spend(s, 3, map[string]float64{"b": 2})
	for _, a := range s.Arms {
		if a.Slices != 1 {
			t.Errorf("%s had %d slices of the first three", a.Name, a.Slices)
		}
	}
	spend(s, 60, map[string]float64{"b": 2})
	a, b, c := s.Arms[0], s.Arms[1], s.Arms[2]
	if b.Slices < 35 || a.Slices < 8 || c.Slices < 8 {
		t.Errorf("slices %d, %d, %d: want most for the one that finds something, and some for "+
			"all", a.Slices, b.Slices, c.Slices)
	}
	before := c.Slices
	spend(s, 60, map[string]float64{"c": 1})
	if c.Slices-before < 35 {
		t.Errorf("an arm that began to find something had %d slices of 60", c.Slices-before)
	}
	again := fresh(1000)
	spend(again, 3, map[string]float64{"b": 2})
	spend(again, 60, map[string]float64{"b": 2})
	spend(again, 60, map[string]float64{"c": 1})
	for i := range s.Arms {
		if s.Arms[i].Slices != again.Arms[i].Slices {
			t.Error("the same night had other slices")
		}
	}
}

// TestDeaths: an arm whose workers die again and again gets no more, and a flake is no death.
func TestDeaths(t *testing.T) {
	a := &Arm{Name: "a"}
	for range deathsMax - 1 {
		a.took(&SliceReport{Death: true})
	}
	a.took(&SliceReport{})
	for range deathsMax {
		a.took(&SliceReport{Flake: true})
	}
	if a.Left != "" || a.Deaths != 0 || a.Flakes != deathsMax {
		t.Errorf("%+v", a)
	}
	for range deathsMax {
		a.took(&SliceReport{Death: true})
	}
	if a.Left == "" {
		t.Errorf("%+v gets more", a)
	}
	if s := (&State{Arms: []*Arm{a}}); s.Pick() != nil {
		t.Error("it is picked")
	}
}

// TestArms: targets that compare subjects have all of them, the others a family each.
func TestArms(t *testing.T) {
	subjects, err := fuzz.Select("slab-percpu,slub-2008-seq,slub-2011-tid")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range Arms([]string{"FuzzSequential", "FuzzSMP"}, subjects) {
		got = append(got, a.Name)
		if n := map[string]int{"FuzzSMP on slab": 1, "FuzzSMP on slub": 2}[a.Name]; n > 0 &&
			len(a.Subjects) != n || n == 0 && len(a.Subjects) != 3 {
			t.Errorf("%s has %v", a.Name, a.Subjects)
		}
	}
	want := []string{"explorers", "FuzzSequential", "FuzzSMP on slab", "FuzzSMP on slub"}
	if !slices.Equal(got, want) {
		t.Errorf("arms %v, want %v", got, want)
	}
	left := maps.Clone(compares)
	for _, target := range fuzz.Targets() { // and no name is left over from a target that went
		delete(left, target.Name)
	}
	if len(left) != 1 || !left["FuzzProg"] {
		t.Errorf("no such targets: %v", left)
	}
}
