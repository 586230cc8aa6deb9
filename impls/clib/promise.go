package clib

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// Where the standards promise what findings say was broken.
const (
	c17Align    = "C17 7.22.3: suitably aligned for any object that fits in the size asked for"
	posixAlign  = "POSIX posix_memalign, C17 7.22.3.1: a multiple of the alignment"
	c17Disjoint = "C17 7.22.3: each allocation is an object disjoint from any other"
	c17Zero     = "C17 7.22.3.2: calloc initialises the space to all bits zero"
	c17Prefix   = "C17 7.22.3.5: the contents are the same up to the lesser of the sizes"
	c17Keep     = "C17 7.22.3.5: when realloc fails the old object is unchanged"
	c17Product  = "C17 7.22.3.2: space for an array of nmemb objects of size bytes each"
	posixErrno  = "POSIX calloc, malloc, realloc: a failure sets errno"
	usableSize  = "malloc_usable_size(3): at least the size asked for, and usable"
	goodSize    = "the library's own manual: the size that an allocation would have"
	noEnd       = "C17 7.22.3: they return a null pointer or the space; nothing ends the program"
	noGrowth    = "C17 7.22.3.3: free makes the space available for further allocation"
)

// promises say who promised what a finding of a library broke.
var promises = map[fault.Title]string{
	fault.TwiceOut: c17Disjoint, fault.Overlap: c17Disjoint, fault.NotZeroed: c17Zero,
	fault.PrefixLost: c17Prefix, fault.OverflowServed: c17Product,
	fault.ErrnoWrong: posixErrno, fault.UsableTooSmall: usableSize,
	fault.UsableUnlike: goodSize, fault.Killed: noEnd, fault.Aborted: noEnd, fault.Exited: noEnd,
	fault.Hung: noEnd, fault.MemoryBlowUp: noEnd, fault.Footprint: noGrowth,
	fault.ContentsChanged: c17Disjoint,
}

// promise is who promised that an operation does not show a title.
func promise(code impls.Code, title fault.Title) string {
	switch {
	case title == fault.Misaligned && (code == impls.OpMemalign || code == impls.OpAlloc):
		return posixAlign
	case title == fault.Misaligned:
		return c17Align
	case title == fault.ContentsChanged && code == impls.OpRealloc:
		return c17Keep
	}
	return promises[title]
}
