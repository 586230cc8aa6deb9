package pages_test

import (
	"slices"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle/pages"
)

// raised gathers titles.
type raised []fault.Title

func (r *raised) raise(t fault.Title, _ string, _ ...any) { *r = append(*r, t) }

// TestFree: what is raised for free pages, and how many there are.
func TestFree(t *testing.T) {
	tests := []struct {
		name   string
		total  int
		blocks []impls.Block
		pools  []impls.Pool
		want   []fault.Title
		free   int
	}{
		{name: "none", total: 4},
		{name: "whole", total: 8, blocks: []impls.Block{{Page: 0, Order: 3}}, free: 8},
		{name: "odd arena", total: 7, free: 7,
			blocks: []impls.Block{{Page: 0, Order: 2}, {Page: 4, Order: 1}, {Page: 6}}},
		{name: "neighbours that are no buddies", total: 8, free: 2,
			blocks: []impls.Block{{Page: 1}, {Page: 2}}},
		{name: "buddies of two orders", total: 8, free: 3,
			blocks: []impls.Block{{Page: 0, Order: 1}, {Page: 2}}},
		{name: "of the largest order", total: 16, free: 16,
			blocks: []impls.Block{{Page: 0, Order: 3}, {Page: 8, Order: 3}}},
		{name: "beside a page in a pool", total: 4, free: 2,
			blocks: []impls.Block{{Page: 0}}, pools: []impls.Pool{{Pages: []int{1}, Max: 1}}},
		{name: "unjoined", total: 8, free: 2, blocks: []impls.Block{{Page: 3}, {Page: 2}},
			want: []fault.Title{fault.BuddiesApart}},
		{name: "unjoined pairs", total: 8, free: 4,
			blocks: []impls.Block{{Page: 4, Order: 1}, {Page: 6, Order: 1}},
			want:   []fault.Title{fault.BuddiesApart}},
		{name: "misaligned", total: 8, free: 2, blocks: []impls.Block{{Page: 1, Order: 1}},
			want: []fault.Title{fault.Misaligned}},
		{name: "in two blocks", total: 8, free: 3,
			blocks: []impls.Block{{Page: 2, Order: 1}, {Page: 3}},
			want:   []fault.Title{fault.FreeTwice}},
		{name: "in a block and a pool", total: 8, free: 3,
			blocks: []impls.Block{{Page: 2, Order: 1}},
			pools:  []impls.Pool{{Pages: []int{3}, Max: 1}}, want: []fault.Title{fault.FreeTwice}},
		{name: "in two pools", total: 8, free: 2,
			pools: []impls.Pool{{Pages: []int{3}, Max: 1}, {CPU: 1, Pages: []int{3}, Max: 1}},
			want:  []fault.Title{fault.FreeTwice}},
		{name: "beyond the arena", total: 7, free: 2, blocks: []impls.Block{{Page: 6, Order: 1}},
			want: []fault.Title{fault.OutsideArena}},
		{name: "all beyond the arena", total: 7, free: 1, blocks: []impls.Block{{Page: 9}},
			want: []fault.Title{fault.OutsideArena}},
		{name: "too many in a pool", total: 8, free: 2,
			pools: []impls.Pool{{Pages: []int{3, 5}, Max: 1}},
			want:  []fault.Title{fault.PoolLimit}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var k pages.Checker
			var got raised
			s := &impls.Snapshot{PagesTotal: tt.total, TopOrder: 3, Blocks: tt.blocks,
				Pools: tt.pools}
			for range 2 { // the second time with the storage of the first
				got = nil
				if n := k.Free(s, got.raise); n != tt.free {
					t.Errorf("%d free, want %d", n, tt.free)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("raised %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// TestLive: a live block has no page that is free.
func TestLive(t *testing.T) {
	var k pages.Checker
	var got raised
	k.Free(&impls.Snapshot{PagesTotal: 8, TopOrder: 3, Blocks: []impls.Block{{Page: 2, Order: 1}},
		Pools: []impls.Pool{{Pages: []int{6}, Max: 1}}}, got.raise)
	for _, tt := range []struct {
		first, n int
		want     bool
	}{{0, 2, false}, {4, 2, false}, {7, 1, false}, {7, 4, false}, {12, 4, false},
		{2, 1, true}, {0, 4, true}, {3, 1, true}, {6, 1, true}} {
		got = nil
		k.Live(tt.first, tt.n, got.raise)
		if tt.want != slices.Equal(got, raised{fault.LiveOnFreelist}) || !tt.want && got != nil {
			t.Errorf("%d pages from %d: raised %q", tt.n, tt.first, got)
		}
	}
}

// TestRefused: a request may be turned down when the zone has no block that is as large,
// and for a single page the pool of the CPU none to spare.
func TestRefused(t *testing.T) {
	s := &impls.Snapshot{PagesTotal: 64, TopOrder: 3, Blocks: []impls.Block{{Page: 8, Order: 1}},
		Pools: []impls.Pool{{CPU: 0, Pages: []int{1, 3}, Keep: 1},
			{CPU: 1, Pages: []int{5}, Keep: 1}}}
	empty := &impls.Snapshot{PagesTotal: 64, TopOrder: 3, Pools: s.Pools}
	for _, tt := range []struct {
		s          *impls.Snapshot
		order, cpu int
		want       bool
	}{{s, 0, 1, true}, {s, 1, 0, true}, {s, 2, 0, false}, {empty, 0, 0, true},
		{empty, 0, 1, false}, {empty, 0, 2, false}, {empty, 1, 0, false}} {
		var got raised
		pages.Refused(tt.s, tt.order, tt.cpu, got.raise)
		if tt.want != slices.Equal(got, raised{fault.RefusedNoReason}) || !tt.want && got != nil {
			t.Errorf("order %d on CPU %d: raised %q", tt.order, tt.cpu, got)
		}
	}
}

// TestDrained: no page stays in a pool.
func TestDrained(t *testing.T) {
	s := &impls.Snapshot{Pools: []impls.Pool{{CPU: 0}, {CPU: 1}}}
	var got raised
	if pages.Drained(s, got.raise); got != nil {
		t.Errorf("raised %q", got)
	}
	s.Pools[1].Pages = []int{7}
	if pages.Drained(s, got.raise); !slices.Equal(got, raised{fault.PagesLeaked}) {
		t.Errorf("raised %q", got)
	}
}

// TestReleased: no page stays in the pool of the CPU that is out of use.
func TestReleased(t *testing.T) {
	s := &impls.Snapshot{Pools: []impls.Pool{{CPU: 0, Pages: []int{3}}, {CPU: 1}}}
	var got raised
	pages.Released(s, 1, got.raise)
	if pages.Released(s, 2, got.raise); got != nil {
		t.Errorf("raised %q", got)
	}
	if pages.Released(s, 0, got.raise); !slices.Equal(got, raised{fault.HeldOn}) {
		t.Errorf("raised %q", got)
	}
}

// TestNext: the pool of the CPU itself must have the page, and more than it keeps.
func TestNext(t *testing.T) {
	s := &impls.Snapshot{Pools: []impls.Pool{{CPU: 0, Pages: []int{4, 2}, Keep: 1},
		{CPU: 1, Pages: []int{6}, Keep: 1}}}
	for _, tt := range []struct {
		cpu, page int
		want      bool
	}{{0, 4, true}, {0, 6, false}, {1, 6, false}, {1, 4, false}, {2, 4, false}} {
		if got := pages.Next(s, tt.cpu, tt.page); got != tt.want {
			t.Errorf("page %d on CPU %d: %v", tt.page, tt.cpu, got)
		}
	}
}
