// Package kmalloc makes one kind of subject of the other, so that all of them run
// the same operations.
//
// New is kmalloc over any family of object caches: a cache per size class, and larger
// sizes straight from the page layer or not at all. Which classes there are is an axis:
// a Table for each time, side by side in classes.go. What is freed is recognised by the
// descriptor of its page: Page.Tag holds the impls.Cache of a slab, which every
// family sets when it makes one, and is nil for a block of pages.
//
// Caches is the other way: object caches over any impls.Allocator.
package kmalloc
