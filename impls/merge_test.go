package impls_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A kinOf is a cache to be merged: what was asked for, and how its objects lie.
type kinOf struct {
	change        func(*impls.CacheSpec)
	size          uint64
	stride, align uint64 // at multiples of which the objects are to be, and are
	debugs        bool
}

func (k *kinOf) make(m *machine.Machine) *impls.Kin {
	spec := impls.NewSpec("c", k.size)
	if k.change != nil {
		k.change(&spec)
	}
	kin := &impls.Kin{}
	kin.Init(m, &spec, impls.Places{Stride: k.stride, Align: k.align, Lies: k.align}, k.debugs)
	return kin
}

func flags(words ...string) func(*impls.CacheSpec) {
	return func(s *impls.CacheSpec) { s.Flags = words }
}

// TestTakes: what may be one with a cache of objects of 64 bytes, 64 apart at words.
func TestTakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		kinOf
		want bool
	}{
		{"the same", kinOf{nil, 64, 64, 8, false}, true},
		{"a byte less", kinOf{nil, 63, 64, 8, false}, true},
		{"a word less", kinOf{nil, 56, 56, 8, false}, false},
		{"less than a word less", kinOf{nil, 60, 60, 4, false}, true},
		{"more", kinOf{nil, 65, 72, 8, false}, false},
		{"smaller at its alignment", kinOf{nil, 33, 64, 64, false}, false},
		{"nomerge", kinOf{flags("nomerge"), 64, 64, 8, false}, false},
		{"rcu", kinOf{flags("rcu"), 64, 64, 8, false}, false},
		{"reclaim", kinOf{flags("reclaim"), 64, 64, 8, false}, false},
		{"panic", kinOf{flags("panic"), 64, 64, 8, false}, true},
		{"debug options", kinOf{nil, 64, 64, 8, true}, false},
		{"constructor", kinOf{func(s *impls.CacheSpec) { s.Ctor = true }, 64, 64, 8, false}, false},
		{"size class", kinOf{func(s *impls.CacheSpec) { s.Kmalloc = true }, 64, 64, 8, false},
			false},
		{"objects", kinOf{func(s *impls.CacheSpec) { s.Objects = 2 }, 64, 64, 8, false}, false},
		{"partial", kinOf{func(s *impls.CacheSpec) { s.MinPartial = 0 }, 64, 64, 8, false}, false},
	} {
		for _, merge := range []bool{true, false} {
			cfg := machine.DefaultConfig()
			cfg.Merge = merge
			m := machine.New(cfg)
			k := (&kinOf{nil, 64, 64, 8, false}).make(m)
			o := tt.make(m)
			if got := k.Takes(o); got != (tt.want && merge) {
				t.Errorf("%s, merge %v: %v", tt.name, merge, got)
			}
			m.Close()
		}
	}
}

// TestNames: a cache goes with its last name, and nobody joins one that is going.
func TestNames(t *testing.T) {
	cfg := machine.DefaultConfig()
	cfg.Merge = true
	m := machine.New(cfg)
	defer m.Close()
	k := (&kinOf{nil, 60, 64, 8, false}).make(m)
	o := (&kinOf{nil, 62, 64, 8, false}).make(m)
	if k.Size() != 60 {
		t.Errorf("size %d", k.Size())
	}
	k.Join(o)
	if k.Size() != 62 || k.Leave() || !k.Takes(o) {
		t.Errorf("size %d, or gone with a name left", k.Size())
	}
	if !k.Leave() || k.Takes(o) {
		t.Error("there without a name")
	}
	k.Stay()
	if !k.Takes(o) {
		t.Error("it stayed, and nobody may join")
	}
	k.Join((&kinOf{nil, 57, 64, 8, false}).make(m))
	if k.Size() != 62 || k.Leave() || !k.Leave() {
		t.Errorf("size %d of 62 and 57, or not two names", k.Size())
	}
}
