//go:build !linux

package clib

// fell goes on with a panic.
func fell(v any) { panic(v) }
