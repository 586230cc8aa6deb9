package thin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// A Feature is something that an input made happen: a block of a function was run about so often.
// The number is a hash, the same in every process of one binary.
type Feature uint64

// The form of the counters that runtime/coverage writes, version 1: a header, and a segment, whose
// functions follow a table of strings and the arguments of the process. See the documentation of
// the Go standard library's internal/coverage.
const (
	headerLen  = 32
	segmentLen = 16
	footerLen  = 16
	rawFlavor  = 1
	lebFlavor  = 2
	version    = 1
)

var magic = []byte{0, 'c', 'w', 'm'}

// errShort says that counters end too early.
var errShort = errors.New("counters end within a function")

// Features adds the features of the counters of one input to list. Counters of another form than
// this knows are an error: a newer Go may have changed it.
func Features(list []Feature, counters []byte) ([]Feature, error) {
	if len(counters) < headerLen+segmentLen+footerLen || !bytes.HasPrefix(counters, magic) {
		return list, fmt.Errorf("%d bytes that are no counters of runtime/coverage", len(counters))
	}
	v, flavour := binary.LittleEndian.Uint32(counters[4:]), counters[24]
	if v != version || flavour != rawFlavor && flavour != lebFlavor || counters[25] != 0 {
		return list, fmt.Errorf("counters of version %d, flavour %d: this knows version %d, "+
			"flavours 1 and 2; build with an older Go", v, flavour, version)
	}
	rest := counters[headerLen:]
	functions := binary.LittleEndian.Uint64(rest)
	skip := uint64(binary.LittleEndian.Uint32(rest[8:])) +
		uint64(binary.LittleEndian.Uint32(rest[12:]))
	if rest = rest[segmentLen:]; skip > uint64(len(rest)) {
		return list, errShort
	}
	r := &reader{rest[skip:], flavour == rawFlavor, false}
	for range functions {
		n, pkg, function := r.next(), r.next(), r.next()
		if r.short || uint64(n) > uint64(len(r.rest)) {
			return list, errShort
		}
		for i := range n {
			if count := r.next(); count > 0 {
				list = append(list, feature(pkg, function, i, count))
			}
		}
	}
	if r.short {
		return list, errShort
	}
	return list, nil
}

// A reader reads numbers of either flavour.
type reader struct {
	rest  []byte
	raw   bool
	short bool
}

func (r *reader) next() uint32 {
	if r.raw {
		if len(r.rest) < 4 {
			r.short = true
			return 0
		}
		v := binary.LittleEndian.Uint32(r.rest)
		r.rest = r.rest[4:]
		return v
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.short = true
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// feature is the hash of a counter and of the size of its count, by powers of two.
func feature(pkg, function, block, count uint32) Feature {
	h := uint64(14695981039346656037)
	for _, v := range [...]uint32{pkg, function, block, uint32(bits.Len32(count))} {
		h = (h ^ uint64(v)) * 1099511628211
		h ^= h >> 29
	}
	return Feature(h)
}
