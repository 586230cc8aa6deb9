// Package debugcheck is the validation of SLUB and SLAB as a library: how debug
// flags lay an object out, what is written around it and when, in which order it
// is checked, what the report says, and how damage is repaired.
//
// It works on bytes and on descriptions of slabs, and knows no allocator and no
// machine. An allocator keeps its own structures; it asks a Checker at the moments
// at which the kernel checks, and writes what the Checker repaired back to where
// it keeps it. The Checker reaches memory region by region through Memory, so that
// the allocator decides what one step is and what must be held meanwhile.
//
//	flags.go    debug options and rule sets
//	options.go  the slab_debug parameter
//	region.go   the parts of a slab by name
//	slab.go     how a slab is described, and how its memory is reached
//	layout.go   where they lie: sizes, free pointer, tracks, padding
//	order.go    objects and pages of a slab
//	fill.go     what is written at creation, allocation and free
//	check.go    what is looked at, in which order, and the repairs
//	object.go   the same for one object, and how a report comes to be
//	slabwords.go  the rules of SLAB: magic words, last user, chain
//	track.go    who allocated and freed
//	report.go   what was found, and its JSON
//	print.go    the text of a report, as the kernel prints it
//	titles.go   the table of the titles of reports
//
// # Rule sets
//
// Kernels differ; a Rules value names one: 6.1 (the default) and 6.12 for SLUB,
// 2.4 and 2.6 for SLAB. What differs is a method of Rules or a row of a table, not
// a copy of the code.
package debugcheck
