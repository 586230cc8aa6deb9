package all_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// TestDestroyWaits: whoever destroys a cache whose objects may be read after their free waits
// for a task that reads; afterwards no page of the cache waits for anybody.
func TestDestroyWaits(t *testing.T) {
	for _, v := range families() {
		if !v.Caps.Has(impls.CapRCU) {
			t.Errorf("%s knows no readers", v.Name)
			continue
		}
		m := machine.New(machine.DefaultConfig())
		t.Cleanup(m.Close)
		in := v.New(m)
		var s impls.Snapshot
		waiting := func() int {
			in.Snapshot(&s)
			return len(s.Waiting)
		}
		m.AddTask("reader", 0, 0, true, func(c *machine.Ctx) {
			c.BeginLine(0, [2]int32{})
			c.RCUReadLock()
			c.EndLine(10)
			c.BeginLine(10, [2]int32{})
			c.RCUReadUnlock()
			c.EndLine(machine.After)
		})
		m.AddTask("owner", 0, 1, true, func(c *machine.Ctx) {
			c.BeginLine(1, [2]int32{})
			spec := impls.NewSpec("c", 64)
			spec.Flags, spec.MinPartial = []string{"rcu"}, 0
			k, err := in.Objects().NewCache(c, spec)
			if err != nil {
				t.Fatal(v.Name, err)
			}
			k.Free(c, k.Alloc(c, 0))
			k.Shrink(c)
			before := waiting()
			err = k.Destroy(c)
			if after := waiting(); err != nil || before != 1 || after != 0 {
				t.Errorf("%s: %v; %d blocks wait before, %d afterwards", v.Name, err, before, after)
			}
			c.EndLine(machine.After)
		})
		if err := m.Sim().Run(nil); err != nil {
			t.Fatal(err)
		}
		if len(m.Faults()) > 0 {
			t.Error(v.Name, m.Faults())
		}
	}
}
