// Package all is the list of everything under test that lives in this process:
// explicit and ordered, with no registration elsewhere.
package all

import (
	"fmt"
	"slices"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/impls/clib"
	"allocfuzz/impls/golib"
	"allocfuzz/impls/guard"
	"allocfuzz/impls/page"
	"allocfuzz/impls/slab"
	"allocfuzz/impls/slub"
)

// variants is the list: the families by age, page allocators by themselves, then
// allocators from outside, and two of those behind the guard's red zones: one whose
// addresses are the system's, one that works in a heap of its own.
var variants = slices.Concat(slab.Variants(), slub.Variants(), page.Variants(),
	withGuarded(golib.Variants(), "go-modernc-memory", "go-wasm2go-tlsf"))

// withGuarded is vs and then those that are named, guarded.
func withGuarded(vs []*impls.Variant, names ...string) []*impls.Variant {
	out := slices.Clip(vs)
	for _, v := range vs {
		if slices.Contains(names, v.Name) {
			out = append(out, guard.Of(v, guard.Options{}))
		}
	}
	return out
}

// Variants returns every variant, the reference first. The caller may keep the
// slice, not change it.
func Variants() []*impls.Variant { return variants }

// Lookup finds a variant by its name or its alias, a library of malloc by the name of its
// subject; ok is false when there is none here. See Find.
func Lookup(name string) (v *impls.Variant, ok bool) {
	v, err := Find(name)
	return v, err == nil
}

// Find is Lookup with an error that says what there is instead, or what is wrong with a
// library.
func Find(name string) (*impls.Variant, error) {
	for _, v := range variants {
		if name != "" && (v.Name == name || v.Alias == name) {
			return v, nil
		}
	}
	v, ok, err := clib.Lookup(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("no subject %q: expected one of %s, or %sFILE for a library of "+
			"malloc", name, strings.Join(Names(), ", "), clib.Prefix)
	case err != nil:
		return nil, err
	}
	return v, nil
}

// Known says whether a name is that of a subject, which may be a library that this machine
// has not.
func Known(name string) bool {
	_, ok := Lookup(name)
	return ok || clib.Names(name)
}

// Names lists the names of every variant, in order, without aliases.
func Names() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.Name
	}
	return names
}
