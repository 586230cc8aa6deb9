package arena

import "math/bits"

// Sizes of a Pool: classes are powers of two, and what is larger than the last is made for each
// request.
const (
	smallest = 4  // log2 of the first class
	classes  = 13 // up to 64 KiB
)

// A Pool hands out slices and keeps those that come back, by size class. The zero Pool is ready.
type Pool struct{ free [classes][][]byte }

// Get returns a slice of n bytes, whatever they hold. Its capacity is the size of its class.
func (p *Pool) Get(n int) []byte {
	k := class(n)
	if k >= classes {
		return make([]byte, n)
	}
	if last := len(p.free[k]) - 1; last >= 0 {
		b := p.free[k][last]
		p.free[k] = p.free[k][:last]
		return b[:n]
	}
	return make([]byte, n, 1<<(k+smallest))
}

// Put takes back a slice that Get returned.
func (p *Pool) Put(b []byte) {
	if k := class(cap(b)); k < classes {
		p.free[k] = append(p.free[k], b)
	}
}

// class is the number of the first class that n bytes fit into.
func class(n int) int { return bits.Len(uint(max(n, 1<<smallest)-1)) - smallest }
