package clib

import "allocfuzz/impls"

// A profile is what a library promises beyond the contract, and who says so.
type profile struct {
	impls.Profile
	errno bool // a failure leaves ENOMEM in errno (POSIX)
	slack bool // all usable bytes may be written
	good  bool // the size that it says it would give is the size that it gives
}

// fundamental is the alignment of the types of C on the processors here.
const fundamental = 16

// standard is what C17 and POSIX promise, with nothing known of the library.
var standard = profile{Profile: impls.Profile{MinAlign: fundamental, SizeAlign: true,
	Source: "C17 7.22.3, POSIX.1-2024"}, errno: true, slack: true, good: true}

// profiles are those of the known libraries, by the names of their subjects, where they say
// more than the standards or something else.
var profiles = map[string]profile{
	// malloc(3): a unique pointer for 0; realloc(p, 0) frees. The manual of
	// malloc_usable_size advises against writing there, and it was always possible.
	"c-glibc": with(func(p *profile) {
		p.MallocZero, p.ReallocZero, p.SizeAlign = impls.Always, impls.Always, false
		p.Source = "malloc(3), C17 7.22.3, POSIX.1-2024"
	}),
	// jemalloc(3): nallocx computes what the allocation would result in; opt.zero_realloc is
	// "free" where the C library frees.
	"c-jemalloc": with(func(p *profile) {
		p.MallocZero, p.ReallocZero = impls.Always, impls.Always
		p.Source = "jemalloc(3), C17 7.22.3, POSIX.1-2024"
	}),
	// mimalloc.h: the usable size of a block is at least what was asked; good_size is what it
	// would round a size to.
	"c-mimalloc": with(func(p *profile) {
		p.MallocZero, p.ReallocZero = impls.Always, impls.Never
		p.Source = "mimalloc's documentation, C17 7.22.3, POSIX.1-2024"
	}),
	"c-tcmalloc": with(func(p *profile) {
		p.MallocZero, p.ReallocZero = impls.Always, impls.Always
		p.Source = "gperftools' documentation, C17 7.22.3, POSIX.1-2024"
	}),
	// The debugging one gives what was asked for and checks every byte behind it.
	"c-tcmalloc-debug": with(func(p *profile) {
		p.MallocZero, p.ReallocZero, p.slack, p.good = impls.Always, impls.Always, false, false
		p.Source = "gperftools' documentation, C17 7.22.3, POSIX.1-2024"
	}),
	"c-tbbmalloc": with(func(p *profile) {
		p.MallocZero, p.ReallocZero = impls.Always, impls.Always
		p.Source = "oneTBB scalable_allocator.h, C17 7.22.3"
	}),
	"c-scudo": with(func(p *profile) {
		p.MallocZero, p.ReallocZero, p.SizeAlign = impls.Always, impls.Always, false
		p.Source = "LLVM ScudoHardenedAllocator, C17 7.22.3, POSIX.1-2024"
	}),
}

func with(change func(*profile)) profile {
	p := standard
	change(&p)
	return p
}

// profileOf is the profile of a subject: the standards' where nobody knows more.
func profileOf(subject string) profile {
	if p, ok := profiles[subject]; ok {
		return p
	}
	return standard
}
