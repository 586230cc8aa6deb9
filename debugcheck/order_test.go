package debugcheck

import (
	"math"
	"testing"
)

// kernelBounds are those of a machine with pages of 4 KiB.
func kernelBounds(cpus int) Bounds {
	return Bounds{PageSize: 4096, CPUs: cpus, MaxOrder: UsualOrder, TopOrder: LastOrder}
}

// Choices worked out by hand. With 2 CPUs a slab should hold 12 objects, with 1 CPU 8.
func TestOrder(t *testing.T) {
	tests := []struct {
		size           uint64
		cpus           int
		o61, n61       int
		o612, n612     int
		why            string
		min, max, want int // slab_min_order, slab_max_order if above 0, slab_min_objects
	}{
		{size: 8, cpus: 2, o61: 0, n61: 512, o612: 0, n612: 512, why: "a page, no waste"},
		{size: 341, cpus: 2, o61: 0, n61: 12, o612: 0, n612: 12, why: "12 in a page, 4 over"},
		{size: 342, cpus: 2, o61: 1, n61: 23, o612: 1, n612: 23, why: "12 in two pages, 326 over"},
		{size: 512, cpus: 2, o61: 1, n61: 16, o612: 1, n612: 16, why: "12 in two pages"},
		{size: 512, cpus: 1, o61: 0, n61: 8, o612: 0, n612: 8, why: "8 fit a page"},
		{size: 1024, cpus: 2, o61: 2, n61: 16, o612: 2, n612: 16, why: "12 need four pages"},
		{size: 4096, cpus: 2, o61: 3, n61: 8, o612: 3, n612: 8, why: "8 is all that order 3 holds"},
		{size: 5000, cpus: 2, o61: 3, n61: 6, o612: 3, n612: 6,
			why: "6 need eight pages; 2768 over are more than a 16th, less than an 8th"},
		{size: 6500, cpus: 2, o61: 3, n61: 5, o612: 3, n612: 5, why: "268 over"},
		{size: 6700, cpus: 2, o61: 3, n61: 4, o612: 3, n612: 4, why: "5968 over: a quarter"},
		{size: 9000, cpus: 2, o61: 3, n61: 3, o612: 3, n612: 3, why: "5768 over: a quarter"},
		{size: 12000, cpus: 2, o61: 2, n61: 1, o612: 3, n612: 2,
			why: "8768 over are above a quarter, below half; 6.1 then takes one object: " +
				"16384 bytes"},
		{size: 16384, cpus: 2, o61: 3, n61: 2, o612: 3, n612: 2, why: "two, no waste"},
		{size: 17000, cpus: 2, o61: 3, n61: 1, o612: 3, n612: 1,
			why: "one; 15768 over are below half of order 3"},
		{size: 11000, cpus: 2, o61: 2, n61: 1, o612: 3, n612: 2,
			why: "two at order 3 leave 10768, above a quarter"},
		{size: 32768, cpus: 2, o61: 3, n61: 1, o612: 3, n612: 1, why: "exactly order 3"},
		{size: 32769, cpus: 2, o61: 4, n61: 1, o612: 4, n612: 1, why: "above order 3"},
		{size: 4 << 20, cpus: 2, o61: 10, n61: 1, o612: 10, n612: 1, why: "the last order"},
		{size: 8, cpus: 2, min: 2, o61: 2, n61: 2048, o612: 2, n612: 2048, why: "slab_min_order"},
		{size: 20000, cpus: 2, min: 4, o61: 4, n61: 3, o612: 3, n612: 1,
			why: "slab_min_order above the usual: 6.12 forgets it in the end"},
		{size: 8, cpus: 2, min: 9, max: 10, o61: 5, n61: 16384, o612: 5, n612: 16384,
			why: "2 MiB hold 262144: below the order of 32767 of them"},
		{size: 1000, cpus: 2, want: 2, o61: 0, n61: 4, o612: 0, n612: 4, why: "slab_min_objects"},
		{size: 1000, cpus: 2, want: 30, o61: 3, n61: 32, o612: 3, n612: 32, why: "likewise"},
		{size: 1365, cpus: 1, max: 2, o61: 2, n61: 12, o612: 2, n612: 12,
			why: "8 take 10920 bytes; 4 over"},
	}
	for _, tt := range tests {
		b := kernelBounds(tt.cpus)
		b.MinOrder, b.MinObjects = tt.min, tt.want
		if tt.max > 0 {
			b.MaxOrder = tt.max
		}
		for _, r := range []Rules{SLUB61, Guard, SLUB612} {
			want, objects := tt.o61, tt.n61
			if r == SLUB612 {
				want, objects = tt.o612, tt.n612
			}
			if o, n, err := Order(tt.size, r, b); o != want || n != objects || err != nil {
				t.Errorf("%v, %d bytes, %d CPUs: order %d, %d objects, %v, want %d, %d (%s)",
					r, tt.size, tt.cpus, o, n, err, want, objects, tt.why)
			}
		}
	}
}

// plainOrder answers the same question the other way round: it rates every order and
// takes the best. 0 objects: none.
func plainOrder(size uint64, r Rules, b Bounds) (order, objects int) {
	want := b.MinObjects
	if want == 0 {
		want = 8
		for n := 2; n <= b.CPUs; n *= 2 {
			want += 4
		}
	}
	fits := func(o, n int) bool { return uint64(n)*size <= b.PageSize<<o }
	done := func(o int) (int, int) { return o, min(int((b.PageSize<<o)/size), 32767) }
	for !fits(b.MaxOrder, want) && want > 0 {
		want--
	}
	least, parts := 2, []int{16, 8, 4}
	if r == SLUB612 {
		least, parts = max(want, 1), []int{16, 8, 4, 2}
		want = least
	}
	for ; want >= least; want-- {
		for _, part := range parts {
			for o := b.MinOrder; o <= b.MaxOrder; o++ {
				waste := (b.PageSize << o) % size * uint64(part)
				if fits(o, want) && waste <= b.PageSize<<o {
					return done(o)
				}
			}
		}
	}
	o := 0
	if r == SLUB61 {
		o = b.MinOrder
	}
	for ; o <= b.TopOrder; o++ {
		if fits(o, 1) {
			return done(o)
		}
	}
	return 0, 0
}

func TestOrderPlain(t *testing.T) {
	for _, r := range []Rules{SLUB61, SLUB612} {
		for _, cpus := range []int{1, 2, 3, 4, 16} {
			for _, page := range []uint64{256, 4096, 65536} {
				for minOrder := range 3 {
					b := kernelBounds(cpus)
					b.PageSize, b.MinOrder, b.MinObjects = page, minOrder, minOrder*cpus
					if page < 4096 {
						b.MaxOrder, b.TopOrder = 1, 3
					}
					comparePlain(t, r, b)
				}
			}
		}
	}
}

// comparePlain compares both for sizes across the range of b. A slab of the lowest order
// holds no more objects than it may.
func comparePlain(t *testing.T, r Rules, b Bounds) {
	t.Helper()
	least := max(8, b.PageSize<<b.MinOrder/MaxObjects+1)
	for size := least; size < b.PageSize<<(b.MaxOrder+2); size += 8 + size/97 {
		o, n, err := Order(size, r, b)
		if err != nil {
			o, n = 0, 0
		}
		if wo, wn := plainOrder(size, r, b); o != wo || n != wn {
			t.Errorf("%v, %d bytes, %+v: order %d, %d objects, %v, want %d, %d",
				r, size, b, o, n, err, wo, wn)
			return
		}
	}
}

func TestOrderErrors(t *testing.T) {
	good := kernelBounds(1)
	tests := []struct {
		name string
		size uint64
		r    Rules
		edit func(*Bounds)
		ok   bool
	}{
		{"good", 64, SLUB61, func(*Bounds) {}, true},
		{"size 0", 0, SLUB61, func(*Bounds) {}, false},
		{"above the last order", 4<<20 + 1, SLUB61, func(*Bounds) {}, false},
		{"all ones", math.MaxUint64, SLUB61, func(*Bounds) {}, false},
		{"all ones, 6.12", math.MaxUint64, SLUB612, func(*Bounds) {}, false},
		{"half of all, 6.12", 1 << 63, SLUB612, func(*Bounds) {}, false},
		{"SLAB", 64, SLAB24, func(*Bounds) {}, false},
		{"no rules", 64, nRules, func(*Bounds) {}, false},
		{"no page", 64, SLUB61, func(b *Bounds) { b.PageSize = 0 }, false},
		{"page 3000", 64, SLUB61, func(b *Bounds) { b.PageSize = 3000 }, false},
		{"page of half of all", 64, SLUB61, func(b *Bounds) { b.PageSize = 1 << 63 }, false},
		{"page 1<<52", 64, SLUB61, func(b *Bounds) { b.PageSize = 1 << 52 }, true},
		{"page 1<<53", 64, SLUB61, func(b *Bounds) { b.PageSize = 1 << 53 }, false},
		{"order below 0", 64, SLUB61, func(b *Bounds) { b.MinOrder = -1 }, false},
		{"usual below 0", 64, SLUB61, func(b *Bounds) { b.MaxOrder = -1 }, false},
		{"top below 0", 64, SLUB61, func(b *Bounds) { b.TopOrder = -1 }, false},
		{"usual above top", 64, SLUB61, func(b *Bounds) { b.MaxOrder = 11 }, false},
		{"lowest above top", 64, SLUB61, func(b *Bounds) { b.MinOrder = 11 }, false},
		{"CPUs below 0", 64, SLUB61, func(b *Bounds) { b.CPUs = -1 }, false},
		{"objects below 0", 64, SLUB61, func(b *Bounds) { b.MinObjects = -1 }, false},
		{"most below 0", 64, SLUB61, func(b *Bounds) { b.MaxObjects = -1 }, false},
		{"many objects", 1, SLUB61, func(b *Bounds) {
			b.MinObjects, b.MinOrder, b.PageSize = math.MaxInt, 10, 1<<24
		}, true},
		{"one object at most", 5000, SLUB612, func(b *Bounds) { b.MaxObjects = 1 }, true},
	}
	for _, tt := range tests {
		b := good
		tt.edit(&b)
		o, n, err := Order(tt.size, tt.r, b)
		if (err == nil) != tt.ok {
			t.Errorf("%s: order %d, %d objects, %v", tt.name, o, n, err)
		}
		if err == nil && (n < 1 || n > 32767 || uint64(n)*tt.size > b.PageSize<<o) {
			t.Errorf("%s: %d objects in order %d", tt.name, n, o)
		}
	}
}

func TestMinOrder(t *testing.T) {
	for _, tt := range []struct {
		size, page uint64
		want       int
	}{
		{0, 4096, 0}, {1, 4096, 0}, {4096, 4096, 0}, {4097, 4096, 1}, {8192, 4096, 1},
		{8193, 4096, 2}, {1 << 63, 4096, 51}, {math.MaxUint64, 4096, 52}, {3, 1, 2},
	} {
		if got := MinOrder(tt.size, tt.page); got != tt.want {
			t.Errorf("MinOrder(%d, %d) = %d, want %d", tt.size, tt.page, got, tt.want)
		}
	}
}

func TestPartialDefaults(t *testing.T) {
	for _, tt := range []struct {
		stride uint64
		want   int
	}{
		{0, 5}, {8, 5}, {2047, 5}, {4095, 5}, {4096, 6}, {1<<18 - 1, 8}, {1 << 18, 9},
		{1 << 20, 10}, {1 << 22, 10}, {1 << 63, 10},
	} {
		if got := MinPartial(tt.stride); got != tt.want {
			t.Errorf("MinPartial(%d) = %d, want %d", tt.stride, got, tt.want)
		}
	}
	for _, tt := range []struct {
		f       Flags
		stride  uint64
		objects int
		want    int
	}{
		{0, 8, 512, 1}, {0, 64, 64, 4}, {0, 255, 16, 15}, {0, 256, 16, 7}, {0, 1023, 16, 7},
		{0, 1024, 16, 3}, {0, 4095, 8, 6}, {0, 4096, 8, 2}, {0, 4096, 1, 12}, {0, 8, 1, 240},
		{Failslab, 64, 64, 4}, {Sanity, 64, 64, 0}, {Trace, 64, 64, 0}, {RedZone, 64, 64, 0},
		{0, 64, 0, 0}, {0, 64, -1, 0}, {0, 64, math.MaxInt, 1},
	} {
		if got := CPUPartial(tt.f, tt.stride, 4096, tt.objects); got != tt.want {
			t.Errorf("CPUPartial(%v, %d, 4096, %d) = %d, want %d",
				tt.f, tt.stride, tt.objects, got, tt.want)
		}
	}
}
