package oracle_test

import (
	"strings"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// breaks is a chooser of ours that panics without saying whose fault it is.
type breaks struct{ list []int }

func (b *breaks) Choose(c *machine.Ctx, _ machine.Point) machine.Action {
	machine.New(machine.Config{}) // panics in package machine
	return machine.Action{}
}

// TestBlame: a panic in the code that a subject runs on is a fault of this project,
// one in the subject's own code is a finding.
func TestBlame(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	p := compile(t, "allocfuzz 1\ncache c size=8\ncpu0 a = alloc c\n")
	func() {
		defer func() {
			what, _ := recover().(string)
			if !strings.HasPrefix(what, "allocfuzz:") {
				t.Errorf("a panic of ours came out as %q", what)
			}
		}()
		r.Run(p, subject(t, "slab-locked"), oracle.Options{Chooser: &breaks{}})
	}()
	v := *subject(t, "slab-locked")
	inner := v.New
	v.New = func(m *machine.Machine) impls.Instance { return &clumsy{Instance: inner(m)} }
	f := r.Run(p, &v, oracle.Options{}).Finding()
	if f == nil || f.Title != fault.Aborted {
		t.Errorf("a panic of the subject gives %v, want %s", f, fault.Aborted)
	}
}

// clumsy is a subject whose caches index out of range.
type clumsy struct{ impls.Instance }

func (c *clumsy) Objects() impls.Objects { return c }

func (c *clumsy) NewCache(*machine.Ctx, impls.CacheSpec) (impls.Cache, error) {
	return &clumsyCache{}, nil
}

type clumsyCache struct {
	impls.Cache
	free []impls.Addr
}

func (c *clumsyCache) Alloc(*machine.Ctx, impls.AllocFlags) impls.Addr {
	return c.free[len(c.free)]
}
