// Package outside puts allocators of large modules under test without making anybody else carry
// those modules: it is a module of its own, of tests only.
package outside
