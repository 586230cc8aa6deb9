package golib

import (
	"github.com/bytedance/gopkg/lang/mcache"

	"allocfuzz/impls"
)

// pools is github.com/bytedance/gopkg/lang/mcache: slices whose capacity is a power of two, in
// one sync.Pool for each. The pools are the process's, so that a run may get slices that an
// earlier one gave back, and the collector empties them when it likes; neither shows, since
// addresses are pointers and contents are not promised.
//
// A slice that is freed twice is handed out twice, without a word. No program does that here:
// misuse is for subjects with debug checks.
type pools struct{}

func (pools) Malloc(size int) []byte  { return mcache.Malloc(size) }
func (pools) Free(b []byte)           { mcache.Free(b) }
func (pools) UsableSize(b []byte) int { return cap(b) }

// Reset has nothing to do: what is live is left to the collector.
func (pools) Reset() {}

func mcacheVariant() *impls.Variant {
	v := Wrap("go-gopkg-mcache", func() any { return pools{} })
	v.Year = 2026
	v.About = "github.com/bytedance/gopkg/lang/mcache " + mcacheVersion +
		": slices by power of two in pools of the process, at most 64 MiB live here"
	v.Profile = impls.Profile{MallocZero: impls.Always, MinAlign: 1,
		Source: "own documentation, a length for every size"}
	return v
}
