package minimise

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/all"
)

// sound is some subject that does what it should.
func sound(t *testing.T) *impls.Variant {
	t.Helper()
	v, ok := all.Lookup("slub-2008-seq")
	if !ok {
		t.Fatal("no subject slub-2008-seq")
	}
	return v
}
