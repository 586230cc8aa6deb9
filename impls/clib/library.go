package clib

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A library is a loaded one with what it promises.
type library struct {
	symbols
	caller
	profile profile
	version string   // as it says itself, "" when it does not
	aligned function // what aligned memory comes from where nothing better can be asked
}

// capabilities are what the functions allow.
func (s *symbols) capabilities() impls.Caps {
	caps := impls.CapObjects | impls.CapSizes | impls.CapDestroy | impls.CapCtor | impls.CapBulk |
		impls.CapSMP
	for fn := range functions {
		if s.addr[fn] != 0 {
			caps |= gives[fn]
		}
	}
	return caps
}

// gives is what a function adds to the capabilities of every library.
var gives = [functions]impls.Caps{
	fnCalloc: impls.CapZero, fnRealloc: impls.CapRealloc, fnUsableSize: impls.CapUsable,
	fnFreeSized: impls.CapFreeSized, fnSdallocx: impls.CapFreeSized,
	fnAlignedAlloc: impls.CapAlign, fnMemalign: impls.CapAlign,
	fnPosixMemalign: impls.CapAlign, fnAlignedTBB: impls.CapAlign,
}

// anyAligned is a function that takes any alignment and size.
func (s *symbols) anyAligned() function {
	for _, fn := range []function{fnMemalign, fnAlignedTBB, fnAlignedAlloc, fnPosixMemalign} {
		if s.addr[fn] != 0 {
			return fn
		}
	}
	return fnMalloc
}

// variant is the subject that a child serves.
func (l *library) variant(name string) *impls.Variant {
	l.aligned = l.anyAligned()
	return &impls.Variant{Name: name, Caps: l.capabilities(), Profile: l.profile.Profile,
		New: func(*machine.Machine) impls.Instance { return newHeap(l) }}
}
