package clib

import (
	"slices"
	"strings"
)

// A function is one that a library of malloc may have.
type function uint8

// The functions. What the standards name comes first, then what single libraries add.
const (
	fnMalloc function = iota
	fnCalloc
	fnRealloc
	fnFree
	fnAlignedAlloc
	fnPosixMemalign
	fnMemalign
	fnUsableSize
	fnFreeSized
	fnReallocarray
	fnGoodSize   // the size that a request of so many bytes would be given
	fnGoodSizeX  // the same, with flags behind the size
	fnMallocx    // jemalloc: size and flags
	fnSdallocx   // jemalloc: free with size and flags
	fnAlignedTBB // scalable_aligned_malloc(size, align)
	functions
)

// plain are the names of the C library, which every family puts its prefix to.
var plain = [functions]string{
	fnMalloc: "malloc", fnCalloc: "calloc", fnRealloc: "realloc", fnFree: "free",
	fnAlignedAlloc: "aligned_alloc", fnPosixMemalign: "posix_memalign",
	fnMemalign: "memalign", fnUsableSize: "malloc_usable_size", fnFreeSized: "free_sized",
	fnReallocarray: "reallocarray", fnGoodSize: "malloc_good_size", fnGoodSizeX: "nallocx",
	fnMallocx: "mallocx", fnSdallocx: "sdallocx",
}

// A family is a way to name the functions. It is a library's when it has malloc and free.
type family struct {
	name   string
	prefix string
	others map[function]string // whole names that are not the prefix and the plain name
}

// families are tried in order: the names of the C library first, since that is what a program
// that is linked to the library would call.
var families = []family{
	{name: "malloc"},
	{name: "mi_", prefix: "mi_", others: map[function]string{
		fnUsableSize: "mi_usable_size", fnGoodSize: "mi_good_size", fnFreeSized: "mi_free_size",
	}},
	{name: "je_", prefix: "je_"},
	{name: "tc_", prefix: "tc_", others: map[function]string{
		fnUsableSize: "tc_malloc_size", fnFreeSized: "tc_free_sized", fnGoodSize: "tc_nallocx",
	}},
	{name: "scalable_", prefix: "scalable_", others: map[function]string{
		fnUsableSize: "scalable_msize", fnAlignedTBB: "scalable_aligned_malloc",
	}},
	{name: "rp", prefix: "rp", others: map[function]string{
		fnAlignedAlloc: "rpaligned_alloc", fnUsableSize: "rpmalloc_usable_size",
	}},
	{name: "sn_", prefix: "sn_", others: map[function]string{
		fnUsableSize: "sn_malloc_usable_size"}},
	{name: "hoard", prefix: "xx", others: map[function]string{
		fnUsableSize: "xxmalloc_usable_size"}},
	{name: "dl", prefix: "dl", others: map[function]string{
		fnUsableSize: "dlmalloc_usable_size"}},
}

// symbol is what a family calls a function.
func (f *family) symbol(fn function) string {
	if other, ok := f.others[fn]; ok {
		return other
	}
	if plain[fn] == "" {
		return ""
	}
	return f.prefix + plain[fn]
}

// libcOnly are functions that a library may lack while the C library, which is always there,
// has them: a lookup finds that one then, and it is another heap's.
type symbols struct {
	family *family
	addr   [functions]uintptr
}

// discover finds the functions of a library. lookup gives a symbol's address, 0 when the
// library itself has none of that name.
func discover(lookup func(name string) uintptr) (symbols, bool) {
	for i := range families {
		s := symbols{family: &families[i]}
		for fn := range functions {
			if name := s.family.symbol(fn); name != "" {
				s.addr[fn] = lookup(name)
			}
		}
		if s.addr[fnMalloc] != 0 && s.addr[fnFree] != 0 {
			return s, true
		}
	}
	return symbols{}, false
}

// names lists the functions that were found, as the library calls them.
func (s *symbols) names() []string {
	var out []string
	for fn := range functions {
		if s.addr[fn] != 0 {
			out = append(out, s.family.symbol(fn))
		}
	}
	return out
}

// lacking lists those of the C standard that were not.
func (s *symbols) lacking() []string {
	var out []string
	for _, fn := range []function{fnCalloc, fnRealloc, fnAlignedAlloc} {
		if s.addr[fn] == 0 {
			out = append(out, s.family.symbol(fn))
		}
	}
	return out
}

// functionNamed finds a function of a family by the library's name of it.
func (f *family) functionNamed(name string) (function, bool) {
	for fn := range functions {
		if f.symbol(fn) == name {
			return fn, true
		}
	}
	return 0, false
}

// familyNamed finds a family; nil when there is none.
func familyNamed(name string) *family {
	i := slices.IndexFunc(families, func(f family) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &families[i]
}

// expected lists what malloc and free may be called, for messages.
func expected() string {
	var out []string
	for i := range families {
		out = append(out, families[i].symbol(fnMalloc))
	}
	return strings.Join(out, ", ")
}
