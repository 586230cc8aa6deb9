package machine_test

import (
	"testing"

	"allocfuzz/impls/machine"
)

// TestRows: attempts are counted for each kind and field by itself, of guarded fields,
// which have points in memory, too; and At says what Where says.
func TestRows(t *testing.T) {
	other := machine.Guarded("test", "other")
	m := machine.New(config(1, machine.PreemptNone))
	defer m.Close()
	m.Sim().Trace()
	m.AddTask("a", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
		a := c.Machine().Base
		for range 2 {
			c.LoadMem(held, a)
			c.LoadMem(other, a)
			c.StoreMem(held, a, 1)
			c.LoadMem(link, a)
		}
		w := c.Where()
		line, cpu, step := c.At()
		if line != w.Line || cpu != w.CPU || step != w.Step || step == 0 {
			t.Errorf("at %d %d %d, expected %+v", line, cpu, step, w)
		}
	}))
	run(t, m, nil)
	seen := map[string]int{}
	for _, e := range m.Sim().Entries() {
		if e.Kind != machine.KMemLoad && e.Kind != machine.KMemStore {
			continue
		}
		k := e.Kind.String() + " " + e.Field.Name()
		if seen[k]++; e.N != seen[k] {
			t.Errorf("%s: attempt %d, expected %d", k, e.N, seen[k])
		}
	}
	if len(seen) != 4 {
		t.Errorf("points of %v", seen)
	}
}
