package play

// Adopt binds s to slot i as it is: memory whose name a program has lost, so that
// it can be freed. Nothing may be running.
func (e *Exec) Adopt(i int, s Slot) {
	gen := e.slots[i].gen + 1
	e.slots[i].Slot = s
	e.slots[i].gen = gen
}

// Grow adds slots until there are so many of objects and of caches. What is added
// is void, as if it had been used up: nothing waits for it.
func (e *Exec) Grow(objects, caches int) {
	for len(e.slots) < objects {
		e.slots = append(e.slots, objectSlot{Slot: Slot{State: Void}})
		if e.native {
			e.slots[len(e.slots)-1].word.Init(slotLock, -1, 0)
		}
	}
	for len(e.caches) < caches {
		e.caches = append(e.caches, cacheSlot{state: Void})
		e.caches[len(e.caches)-1].word.Init(cacheLock, -1, 0)
	}
}
