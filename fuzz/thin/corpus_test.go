package thin

import (
	"context"
	"os"
	"slices"
	"testing"

	"allocfuzz/fuzz/store"
)

// chooser keeps the inputs of its list, and says that one ends its process.
type chooser struct {
	keep []string
	dead string
}

func (c *chooser) choose(context.Context, string, []store.Input, []store.Input) (*choice, error) {
	return &choice{keep: c.keep, features: 7, dead: map[string]error{c.dead: ErrDied}}, nil
}

// TestDeadStays: what covers nothing new goes, and what ends its process is named and stays, since
// it is what one looks for.
func TestDeadStays(t *testing.T) {
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"kept", "gone", "deadly"} {
		if _, err := s.Add("FuzzX", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	kept, deadly := store.Name([]byte("kept")), store.Name([]byte("deadly"))
	work, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	th := &Thinner{engine: &chooser{[]string{kept}, deadly}, work: work}
	res, err := th.Store(t.Context(), s, "FuzzX", false)
	if err != nil {
		t.Fatal(err)
	}
	left, _, err := s.Inputs("FuzzX")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, in := range left {
		names = append(names, in.Name)
	}
	want := []string{kept, deadly}
	slices.Sort(want)
	if !slices.Equal(names, want) || res.Before != 3 || res.After != 2 || res.Features != 7 ||
		len(res.Skipped) != 1 || res.Skipped[0].File != "FuzzX/"+deadly {
		t.Errorf("left %q, want %q; %+v", names, want, res)
	}
	fresh, bad, err := th.Fresh(t.Context(), s, "FuzzX", left)
	if err != nil || len(fresh) != 1 || fresh[0].Name != kept || len(bad) != 1 {
		t.Errorf("fresh %v, bad %v, error %v", fresh, bad, err)
	}
}
