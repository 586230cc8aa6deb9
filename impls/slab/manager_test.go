package slab_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// on makes a machine with words and pages of so many bits and bytes.
func on(word, pagesize int) func(*machine.Config) {
	return func(c *machine.Config) {
		c.Word, c.PageSize, c.SeqBits, c.Base, c.Pages = word, pagesize, word/2, 1<<13, 128
	}
}

// stateOf finds the cache of that name.
func stateOf(s *impls.Snapshot, name string) *impls.CacheState {
	for i := range s.Caches {
		if s.Caches[i].Name == name {
			return &s.Caches[i]
		}
	}
	return nil
}

// TestGeneralsNative: threads find every general cache made, before any of them needs one,
// and only where some cache may.
func TestGeneralsNative(t *testing.T) {
	for name, want := range map[string]int{"threelists": 0, "offslab": 13} {
		cfg := machine.DefaultConfig() // 32 to 131072 bytes on pages of 4096
		cfg.Native, cfg.Pages = true, 64
		m := machine.New(cfg)
		in := variant(name).New(m)
		var s impls.Snapshot
		in.Snapshot(&s)
		got := 0
		for i := range s.Caches {
			if s.Caches[i].Internal {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d general caches, want %d", name, got, want)
		}
		in.Close()
		m.Close()
	}
}

// TestLimit: with 40 bytes of description and 4 bytes for each number on a 64-bit machine
// an object of 256 bytes describes 54 objects. On small pages a cache of the 8th part of a
// page has more objects than the limit, so it describes its slabs on them, and raises the
// limit. Where a number has two bytes the limit divided by 2 is right.
func TestLimit(t *testing.T) {
	tests := []struct {
		word, pagesize int
		right, half    int
	}{
		{64, 4096, (256 - 40) / 4, (256 - 40) / 2},
		{32, 4096, (256 - 20) / 4, (256 - 20) / 2},
		{64, 8192, (512 - 40) / 4, (512 - 40) / 2},
		{64, 1024, (128 - 40) / 4, (64 - 40) / 2},
		{32, 512, (64 - 20) / 4, (64 - 20) / 2},
		{16, 128, (32 - 10) / 2, (32 - 10) / 2},
	}
	for _, tt := range tests {
		for i, want := range []int{tt.right, tt.half} {
			name := [...]string{"offslab", "offslab-half"}[i]
			t.Run(fmt.Sprint(name, tt.word, "/", tt.pagesize), func(t *testing.T) {
				r := newRigOf(t, variant(name), on(tt.word, tt.pagesize))
				r.cache(impls.NewSpec("c", uint64(tt.pagesize)/2))
				k := stateOf(r.check(), "c")
				if !k.OffSlab || k.Limit != want {
					t.Errorf("off the slab: %v, limit %d, want %d", k.OffSlab, k.Limit, want)
				}
			})
		}
	}
}

// TestManagement: where the slabs of a cache are described, and by what.
func TestManagement(t *testing.T) {
	type shape struct {
		from           string // cache of the descriptions, "" on the slab
		order, objects int
		managed        int
		colours        int
	}
	tests := []struct {
		name    string
		variant string
		size    uint64
		order   int
		objects int
		want    shape
	}{
		{"below the 8th part of a page", "", 504, -1, -1, shape{"", 0, 7, 0, 7}},
		{"the 8th part", "", 512, -1, -1, shape{"size-128", 0, 8, 72, 0}},
		{"never", "threelists", 512, -1, -1, shape{"", 0, 7, 0, 7}},
		{"left over for a colour", "", 576, -1, -1, shape{"size-128", 0, 7, 68 + 4, 1}},
		{"left over for the description", "", 600, -1, -1, shape{"", 0, 6, 0, 6}},
		{"one object", "", 4096, -1, -1, shape{"size-64", 0, 1, 48, 0}},
		{"waste asks for a larger order", "", 1500, -1, -1, shape{"", 1, 5, 0, 9}},
		{"an eighth of two pages", "", 1024, 1, -1, shape{"size-128", 1, 8, 72, 0}},
		{"as many as the limit", "", 512, 3, 54, shape{"", 3, 54, 0, 76}},
		{"below the limit", "", 640, 3, -1, shape{"size-256", 3, 51, 248, 2}},
		{"beyond the limit", "", 512, 3, -1, shape{"", 3, 63, 0, 3}},
		{"beyond the right limit only", "offslab-half", 512, 3, -1,
			shape{"size-512", 3, 64, 296, 0}},
		{"beyond both", "offslab-half", 512, 4, -1, shape{"", 4, 126, 0, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.variant == "" {
				tt.variant = "offslab"
			}
			r := newRigOf(t, variant(tt.variant), on(64, 4096))
			spec := impls.NewSpec("c", tt.size)
			spec.Order, spec.Objects = tt.order, tt.objects
			s := r.cache(spec)
			r.run(func(c *machine.Ctx) { r.alloc(c, s, 0) })
			snap := r.checkOwn()
			k, b := stateOf(snap, "c"), snap.Slabs[0]
			got := shape{"", b.Order, b.Objects, b.Managed, b.Colours}
			if k.OffSlab {
				got.from = snap.Caches[snap.SlabOf(4096, b.Manager).Cache].Name
			} else if b.Manager != 0 {
				t.Errorf("described at %#x", b.Manager)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(shape{})); diff != "" {
				t.Error(diff)
			}
			r.titles()
		})
	}
}

// checkOwn is check, where objects that describe slabs are live.
func (r *rig) checkOwn() *impls.Snapshot {
	r.t.Helper()
	r.inst.Snapshot(&r.snap)
	var own []impls.Addr
	for i := range r.snap.Slabs {
		if a := r.snap.Slabs[i].Manager; a != 0 {
			own = append(own, a)
			if r.live[a] {
				r.t.Errorf("%#x describes a slab and is live, or describes two", a)
			}
			r.live[a] = true
		}
	}
	defer func() {
		for _, a := range own {
			delete(r.live, a)
		}
	}()
	return r.check()
}

// TestDescriptions: a slab's description comes with its pages and goes with them, before
// and after colours, and what was refused has taken nothing.
func TestDescriptions(t *testing.T) {
	r := newRigOf(t, variant("offslab"), on(64, 4096))
	s := r.cache(impls.NewSpec("c", 1024))
	used := func() (n int) {
		snap := r.checkOwn()
		for _, b := range snap.Slabs {
			if snap.Caches[b.Cache].Internal {
				n += b.Inuse
			}
		}
		return n
	}
	r.run(func(c *machine.Ctx) {
		for _, nth := range []int{1, 2} {
			r.op(c, func() {
				c.FailPage(nth)
				if a := s.Alloc(c, 0); a != 0 {
					t.Errorf("%#x, though request %d was refused", a, nth)
				}
				c.FailPage(0)
			})
			r.allBack()
		}
		var objs []impls.Addr
		for range 9 {
			objs = append(objs, r.alloc(c, s, impls.FlagZero))
		}
		if n := used(); n != 3 {
			t.Errorf("%d descriptions in use, of 3 slabs", n)
		}
		for _, a := range objs[:8] {
			r.free(c, s, a)
		}
		r.op(c, func() {
			if n := s.Shrink(c); n != 2 {
				t.Errorf("shrink gave %d pages back, of 2", n)
			}
		})
		if n := used(); n != 1 {
			t.Errorf("%d descriptions in use, of 1 slab", n)
		}
		r.op(c, func() {
			if err := s.Destroy(c); !errors.Is(err, impls.ErrBusy) {
				t.Errorf("destroy with one live: %v", err)
			}
		})
		r.free(c, s, objs[8])
		r.op(c, func() {
			if err := s.Destroy(c); err != nil {
				t.Error(err)
			}
		})
		if n := used(); n != 0 {
			t.Errorf("%d descriptions in use, of none", n)
		}
	})
	r.titles()
}

// TestGrowsItself: with the limit of 2001 on pages of 1 KiB the description of eight
// objects of 128 bytes is an object of 128 bytes. Growing the cache takes every page once
// and gives it back, and there is no memory.
func TestGrowsItself(t *testing.T) {
	for _, name := range []string{"offslab", "offslab-half"} {
		r := newRigOf(t, variant(name), on(64, 1024))
		s := r.cache(impls.NewSpec("c", 128))
		r.run(func(c *machine.Ctx) {
			r.op(c, func() {
				a, asked := s.Alloc(c, 0), c.PageRequests()
				if name == "offslab" && (a == 0 || asked != 2) {
					t.Errorf("%s: %#x after %d requests, want one of 2", name, a, asked)
				}
				if name != "offslab" && (a != 0 || asked != r.m.Pages+1) {
					t.Errorf("%s: %#x after %d requests, want none of %d", name, a, asked,
						r.m.Pages+1)
				}
				if a != 0 {
					s.Free(c, a)
				}
			})
		})
		snap := r.checkOwn()
		if k := stateOf(snap, "size-128"); k == nil || k.OffSlab == (name == "offslab") ||
			k.OffSlab && k.Manager != k.Handle {
			t.Errorf("%s: size-128 is %+v", name, k)
		}
		if name != "offslab" {
			r.allBack()
		}
		r.titles()
	}
}

// TestDescribedNatively: threads of a native machine grow and shrink a cache whose
// descriptions they share.
func TestDescribedNatively(t *testing.T) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs, cfg.Pages = true, 4, 512
	m := machine.New(cfg)
	defer m.Close()
	inst := variant("offslab").New(m)
	s, err := inst.Objects().NewCache(nil, impls.NewSpec("c", 1024))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	for cpu := range cfg.CPUs {
		go func() {
			c := m.NativeCtx(cpu, "t")
			var objs []impls.Addr
			for i := range 2000 {
				if a := s.Alloc(c, 0); a != 0 {
					objs = append(objs, a)
				}
				if i%16 == 15 {
					for _, a := range objs {
						s.Free(c, a)
					}
					objs = objs[:0]
					s.Shrink(c)
				}
			}
			c.Release()
			done <- true
		}()
	}
	for range cfg.CPUs {
		<-done
	}
	c := m.NativeCtx(0, "t")
	defer c.Release()
	if err := s.Destroy(c); err != nil {
		t.Error(err)
	}
	var snap impls.Snapshot
	inst.Snapshot(&snap)
	for _, b := range snap.Slabs {
		if !snap.Caches[b.Cache].Internal || b.Inuse > 0 {
			t.Errorf("slab of %s with %d in use is left", snap.Caches[b.Cache].Name, b.Inuse)
		}
	}
}
