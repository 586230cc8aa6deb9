// Package all is the list of everything under test that lives in this process:
// explicit and ordered, with no registration elsewhere.
package all

import (
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/golib"
	"allocfuzz/impls/slab"
	"allocfuzz/impls/slub"
)

// variants is the list: the families by age, then allocators from outside.
var variants = slices.Concat(slab.Variants(), slub.Variants(), golib.Variants())

// Variants returns every variant, the reference first. The caller may keep the
// slice, not change it.
func Variants() []*impls.Variant { return variants }

// Lookup finds a variant by its name or its alias; ok is false when there is none.
func Lookup(name string) (v *impls.Variant, ok bool) {
	for _, v := range variants {
		if name != "" && (v.Name == name || v.Alias == name) {
			return v, true
		}
	}
	return nil, false
}

// Names lists the names of every variant, in order, without aliases.
func Names() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.Name
	}
	return names
}
