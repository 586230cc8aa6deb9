package property

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Diff returns how got differs from want, "" when it does not: outcomes, transcripts, snapshots,
// texts, whatever a failing test holds two of. A nil slice and an empty one are the same. It takes
// tens of microseconds, so it is for the message of a failure that something cheaper has found.
func Diff(want, got any) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }
