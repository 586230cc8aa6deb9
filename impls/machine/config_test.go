package machine_test

import (
	"strings"
	"testing"

	"allocfuzz/impls/machine"
)

// TestValidate: each parameter at its limits and beyond.
func TestValidate(t *testing.T) {
	type cfg = machine.Config
	for _, k := range []struct {
		name string
		set  func(*cfg)
		bad  string // part of the error
	}{
		{"default", func(*cfg) {}, ""},
		{"no cpus", func(c *cfg) { c.CPUs = 0 }, "cpus=0"},
		{"most cpus", func(c *cfg) { c.CPUs = machine.MaxCPUs }, ""},
		{"more cpus", func(c *cfg) { c.CPUs = machine.MaxCPUs + 1 }, "cpus=17"},
		{"no pages", func(c *cfg) { c.Pages = 0 }, "pages=0"},
		{"negative pages", func(c *cfg) { c.Pages = -1 }, "pages=-1"},
		{"too many pages", func(c *cfg) { c.Pages = machine.MaxPages + 1 }, "pages="},
		{"too many bytes", func(c *cfg) { c.Pages, c.PageSize = 1<<20, 1<<24; c.Base = 1 << 40 },
			"more than"},
		{"page size", func(c *cfg) { c.PageSize = 100 }, "pagesize=100"},
		{"small page", func(c *cfg) { c.PageSize = 16 }, ""},
		{"smaller page", func(c *cfg) { c.PageSize = 8 }, "pagesize=8"},
		{"word", func(c *cfg) { c.Word = 8 }, "word=8"},
		{"seqbits", func(c *cfg) { c.SeqBits = 33 }, "seqbits=33"},
		{"few seqbits", func(c *cfg) { c.SeqBits = 1 }, "seqbits=1"},
		{"seq0", func(c *cfg) { c.SeqBits, c.Seq0 = 2, 4 }, "seq0=4"},
		{"seq0 fits", func(c *cfg) { c.SeqBits, c.Seq0 = 2, 3 }, ""},
		{"no base", func(c *cfg) { c.Base = 0 }, "base=0x0"},
		{"unaligned base", func(c *cfg) { c.Base += 8 }, "base=0x100000008"},
		{"top", func(c *cfg) { c.Base = -(c.Bytes()) }, ""},
		{"over the top", func(c *cfg) { c.Base = -(c.Bytes()) + 4096 }, "does not fit"},
		{"32", func(c *cfg) { c.Word, c.SeqBits, c.Base = 32, 16, 1<<32-c.Bytes() }, ""},
		{"over 32", func(c *cfg) { c.Word, c.SeqBits, c.Base = 32, 16, 1<<32-c.Bytes()+4096 },
			"does not fit"},
		{"beyond 32", func(c *cfg) { c.Word, c.SeqBits, c.Base = 32, 16, 1<<32 }, "does not fit"},
		{"32 at the very top", func(c *cfg) { c.Word, c.SeqBits, c.Base = 32, 16, -(c.Bytes()) },
			"does not fit"},
		{"16", func(c *cfg) {
			c.Word, c.SeqBits, c.PageSize, c.Base = 16, 8, 128, 1<<16-16*128
		}, ""},
		{"over 16", func(c *cfg) {
			c.Word, c.SeqBits, c.PageSize, c.Base = 16, 8, 128, 1<<16-15*128
		}, "does not fit"},
		{"preempt", func(c *cfg) { c.Preempt = 3 }, "preempt="},
		{"native", func(c *cfg) { c.Native = true }, ""},
		{"native 32", func(c *cfg) { c.Native, c.Word, c.SeqBits, c.Base = true, 32, 16, 4096 },
			"native"},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := machine.DefaultConfig()
			k.set(&c)
			err := c.Validate()
			if k.bad == "" {
				if err != nil {
					t.Fatal(err)
				}
				machine.New(c).Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), k.bad) {
				t.Errorf("error %v, want … %s", err, k.bad)
			}
			wantPanic(t, func() { machine.New(c) })
		})
	}
	if c := machine.DefaultConfig(); c.HalfWord() != 1<<32 || c.Bytes() != 16*4096 {
		t.Error("default sizes")
	}
	if c := (cfg{Word: 16}); c.HalfWord() != 256 {
		t.Error("half of 16 bits")
	}
}

// TestNames: what programs spell.
func TestNames(t *testing.T) {
	kinds := "load store cmpxchg memload memstore lock unlock irqsave irqrestore " +
		"preempt_disable preempt_enable pagealloc barrier call end wait"
	for i, name := range strings.Fields(kinds) {
		if got := machine.Kind(i).String(); got != name {
			t.Errorf("kind %d is %s, want %s", i, got, name)
		}
	}
	for i, name := range []string{"none", "full", "rt", "number 3"} {
		if got := machine.Preempt(i).String(); got != name {
			t.Errorf("preempt %d is %s, want %s", i, got, name)
		}
	}
	if machine.Kind(77).String() != "number 77" || machine.View(99).String() != "number 99" ||
		machine.ViewBuddy.String() != "buddy" || machine.Suppress.String() != "suppress" {
		t.Error("names")
	}
	for i, f := range machine.Fields() {
		if i > 0 && f == machine.Fields()[i-1] || f.Name() == "" {
			t.Errorf("field %d", i)
		}
	}
}
