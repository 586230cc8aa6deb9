package trace

import (
	"strconv"

	"allocfuzz/corpus/prog"
)

// noName stands for no name where a line binds nothing or takes no object.
const noName = ^uint32(0)

// takeName returns the number of a name that no live object has: one given back, else a new one. So
// there are never more names than objects live at once.
func (c *converter) takeName() uint32 {
	if n := len(c.free); n > 0 {
		name := c.free[n-1]
		c.free = c.free[:n-1]
		return name
	}
	c.names = append(c.names, "a"+strconv.Itoa(len(c.names)))
	return uint32(len(c.names) - 1)
}

// put emits one line, with the numbers of the latest request where there is a result. The line's
// slices are reused for the next one.
func (c *converter) put(verb prog.Verb, result object, operand uint32) error {
	if c.limit > 0 && c.res.Operations == c.limit {
		return errLimit
	}
	l := &c.line
	l.Verb, l.Cache = verb, ""
	l.Results, l.Slots, l.Nums = l.Results[:0], l.Slots[:0], l.Nums[:0]
	if result.name != noName {
		l.Results = append(l.Results, c.names[result.name])
		l.Nums = append(l.Nums, c.nums...)
	}
	if operand != noName {
		l.Slots = append(l.Slots, c.names[operand])
	}
	if result.cache != nil {
		l.Cache = c.declare(result.cache)
	}
	if c.emit != nil {
		if err := c.emit(l); err != nil {
			return err
		}
	}
	c.res.Operations++
	return nil
}

// declare returns the name of a cache, which the program declares from now on.
func (c *converter) declare(cache *Cache) string {
	if !cache.used {
		cache.used = true
		c.res.Caches = append(c.res.Caches, *cache)
		c.use.caches++
	}
	return cache.Name
}
