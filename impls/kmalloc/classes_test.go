package kmalloc_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
)

// tables says of each table what the sizes at its boundaries take: on pages of 4096
// bytes, and on pages of 128.
var tables = []struct {
	table *kmalloc.Table
	names map[int][]string // by page size
	takes map[int][][3]uint64
}{
	{kmalloc.General24, map[int][]string{
		4096: {"size-32", "size-64", "size-128", "size-256", "size-512", "size-1024", "size-2048",
			"size-4096", "size-8192", "size-16384", "size-32768", "size-65536", "size-131072"},
		128: {"size-64", "size-128", "size-256", "size-512", "size-1024", "size-2048",
			"size-4096", "size-8192", "size-16384", "size-32768", "size-65536", "size-131072"},
	}, map[int][][3]uint64{ // size, usable, alignment
		4096: {{1, 32, 32}, {32, 32, 32}, {33, 64, 64}, {65, 128, 64}, {96, 128, 64},
			{129, 256, 64}, {193, 256, 64}, {4096, 4096, 64}, {4097, 8192, 64},
			{65537, 131072, 64}, {131073, 0, 0}},
		128: {{1, 64, 2}, {65, 128, 2}, {129, 256, 2}, {131073, 0, 0}},
	}},
	{kmalloc.General26, map[int][]string{
		4096: {"size-32", "size-64", "size-96", "size-128", "size-192", "size-256", "size-512",
			"size-1024", "size-2048", "size-4096", "size-8192", "size-16384", "size-32768",
			"size-65536", "size-131072"},
		128: {"size-64", "size-96", "size-128", "size-192", "size-256", "size-512", "size-1024",
			"size-2048", "size-4096", "size-8192", "size-16384", "size-32768", "size-65536",
			"size-131072"},
	}, map[int][][3]uint64{
		4096: {{1, 32, 32}, {65, 96, 64}, {97, 128, 64}, {129, 192, 64}, {193, 256, 64},
			{131073, 0, 0}},
		128: {{1, 64, 2}, {65, 96, 2}, {193, 256, 2}, {131073, 0, 0}},
	}},
	{kmalloc.Page2008, map[int][]string{
		4096: {"kmalloc-8", "kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-96", "kmalloc-128",
			"kmalloc-192", "kmalloc-256", "kmalloc-512", "kmalloc-1024", "kmalloc-2048",
			"kmalloc-4096"},
		128: {"kmalloc-8", "kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-96", "kmalloc-128"},
	}, map[int][][3]uint64{
		4096: {{1, 8, 8}, {65, 96, 8}, {97, 128, 8}, {129, 192, 8}, {193, 256, 8},
			{2049, 4096, 8}, {4096, 4096, 8}, {4097, 8192, 4096}, {8193, 16384, 4096},
			{131073, 262144, 4096}},
		128: {{1, 8, 8}, {65, 96, 8}, {128, 128, 8}, {129, 256, 128}, {8193, 16384, 128}},
	}},
	{kmalloc.TwoPages, map[int][]string{
		4096: {"kmalloc-8", "kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-96", "kmalloc-128",
			"kmalloc-192", "kmalloc-256", "kmalloc-512", "kmalloc-1k", "kmalloc-2k", "kmalloc-4k",
			"kmalloc-8k"},
		128: {"kmalloc-8", "kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-96", "kmalloc-128",
			"kmalloc-192", "kmalloc-256"},
	}, map[int][][3]uint64{
		4096: {{1, 8, 8}, {65, 96, 32}, {97, 128, 128}, {129, 192, 64}, {193, 256, 256},
			{2049, 4096, 4096}, {4097, 8192, 4096}, {8192, 8192, 4096}, {8193, 16384, 4096}},
		128: {{1, 8, 8}, {65, 96, 32}, {129, 192, 64}, {193, 256, 128}, {257, 512, 128}},
	}},
}

// TestTables holds every table against the list of its sizes, on large and small pages.
// What a fresh allocation says may be used is what its class rounds it up to.
func TestTables(t *testing.T) {
	if len(tables) != len(kmalloc.Tables()) {
		t.Fatalf("%d tables, want %d", len(kmalloc.Tables()), len(tables))
	}
	for i, tt := range tables {
		if tt.table != kmalloc.Tables()[i] {
			t.Errorf("table %d is %s", i, kmalloc.Tables()[i].Name)
		}
		for _, page := range []int{4096, 128} {
			t.Run(fmt.Sprintf("%s/%d", tt.table.Name, page), func(t *testing.T) {
				if diff := cmp.Diff(tt.names[page], tt.table.Names(uint64(page))); diff != "" {
					t.Errorf("names (-want +got):\n%s", diff)
				}
				m, inst := system(t, func(c *machine.Config) { c.PageSize, c.Pages = page, 2048 })
				inst.(*classed).table = tt.table
				k := inst.Sizes().(*kmalloc.Kmalloc)
				run(t, m, func(c *machine.Ctx) {
					for _, row := range tt.takes[page] {
						takes(t, c, k, row)
					}
				})
			})
		}
	}
}

// TestWidePages: every class of every table can be had where pages are wide, and what is larger
// than all of them comes from the pages, where the table lets it.
func TestWidePages(t *testing.T) {
	for _, table := range kmalloc.Tables() {
		for _, page := range []int{1 << 15, 1 << 16, 1 << 17, 1 << 20} {
			m, inst := system(t, func(c *machine.Config) { c.PageSize, c.Pages = page, 16 })
			inst.(*classed).table = table
			k := inst.Sizes().(*kmalloc.Kmalloc)
			run(t, m, func(c *machine.Ctx) {
				for size := uint64(8); size <= 4<<20; size *= 2 {
					before := c.Refused()
					p := k.Malloc(c, size, 0)
					q := k.Memalign(c, uint64(page), 8, 0)
					if q%uint64(page) != 0 || p == 0 && c.Refused() == before {
						t.Errorf("%s: pages of %d: malloc %d is %#x, memalign %#x", table.Name,
							page, size, p, q)
					}
					k.Free(c, p)
					k.Free(c, q)
				}
			})
		}
	}
}

// takes allocates one size and looks at what came.
func takes(t *testing.T, c *machine.Ctx, k *kmalloc.Kmalloc, row [3]uint64) {
	t.Helper()
	size, usable, align := row[0], row[1], row[2]
	before := c.Refused()
	p := k.Malloc(c, size, 0)
	if usable == 0 {
		if p != 0 || c.Refused() == before {
			t.Errorf("malloc %d: %#x, want none", size, p)
		}
		if p = k.Memalign(c, 8, size, 0); p != 0 {
			t.Errorf("memalign %d: %#x, want none", size, p)
		}
		return
	}
	if n := k.Usable(c, p); p == 0 || n != usable || p%align != 0 {
		t.Errorf("malloc %d: %#x of %d bytes, want %d at a multiple of %d", size, p, n, usable,
			align)
	}
	if of := k.CacheOf(p); of != nil && of.Align() < align {
		t.Errorf("malloc %d: its class is aligned to %d, want %d", size, of.Align(), align)
	}
	k.Free(c, p)
}

// TestMemalignClass: an alignment that a class promises is had there, any other from the
// pages, whatever the table.
func TestMemalignClass(t *testing.T) {
	tests := []struct {
		table       *kmalloc.Table
		align, size uint64
		usable      uint64
	}{
		{kmalloc.General24, 64, 33, 64}, {kmalloc.General24, 64, 8, 64},
		{kmalloc.General24, 128, 8, 4096}, {kmalloc.General26, 64, 70, 96},
		{kmalloc.Page2008, 8, 70, 96}, {kmalloc.Page2008, 16, 70, 4096},
		{kmalloc.TwoPages, 32, 70, 96}, {kmalloc.TwoPages, 64, 70, 128},
		{kmalloc.TwoPages, 64, 129, 192}, {kmalloc.TwoPages, 128, 129, 256},
		{kmalloc.TwoPages, 256, 193, 256}, {kmalloc.TwoPages, 4096, 8, 4096},
	}
	for _, tt := range tests {
		m, inst := system(t, nil)
		inst.(*classed).table = tt.table
		k := inst.Sizes()
		run(t, m, func(c *machine.Ctx) {
			p := k.Memalign(c, tt.align, tt.size, 0)
			if n := k.Usable(c, p); p%tt.align != 0 || n != tt.usable {
				t.Errorf("%s: memalign %d %d: %#x of %d bytes, want %d", tt.table.Name, tt.align,
					tt.size, p, n, tt.usable)
			}
		})
	}
}

// TestHandler: in a handler no flag is needed for a request not to sleep.
func TestHandler(t *testing.T) {
	m, inst := system(t, nil)
	k := inst.Sizes()
	var got [2]impls.Addr
	m.AddHandler(&machine.Handler{Name: "irq0", Body: func(c *machine.Ctx) {
		c.BeginLine(0, [2]int32{})
		got = [2]impls.Addr{k.Malloc(c, 64, 0), k.Malloc(c, 9000, impls.FlagZero)}
		c.EndLine(1)
	}})
	run(t, m, func(*machine.Ctx) {})
	if got[0] == 0 || got[1] == 0 {
		t.Errorf("a handler got %#x", got)
	}
}
