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

// symbols are the functions of a library.
type symbols struct {
	family *family
	addr   [functions]uintptr
	name   [functions]string // as the library calls them
}

// discover finds the functions of a library. lookup gives a symbol's address, 0 when the
// library itself has none of that name. What the library's family lacks is looked for under the
// names of the others: many give the functions of their own besides those of C.
func discover(lookup func(name string) uintptr) (symbols, bool) {
	for i := range families {
		s := symbols{family: &families[i]}
		s.find(s.family, lookup)
		if s.addr[fnMalloc] == 0 || s.addr[fnFree] == 0 {
			continue
		}
		for k := range families {
			s.find(&families[k], lookup)
		}
		return s, true
	}
	return symbols{}, false
}

// find looks for what is missing under the names of a family.
func (s *symbols) find(f *family, lookup func(name string) uintptr) {
	for fn := range functions {
		name := f.symbol(fn)
		if s.addr[fn] != 0 || name == "" {
			continue
		}
		if s.addr[fn] = lookup(name); s.addr[fn] != 0 {
			s.name[fn] = name
		}
	}
}

// names lists the functions that were found, as the library calls them.
func (s *symbols) names() []string {
	var out []string
	for fn := range functions {
		if s.addr[fn] != 0 {
			out = append(out, s.name[fn])
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

// functionNamed finds a function by a name that some family gives it.
func functionNamed(name string) (function, bool) {
	for i := range families {
		for fn := range functions {
			if families[i].symbol(fn) == name {
				return fn, true
			}
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
