package play

// Adopt binds s to slot i as it is: memory whose name a program has lost, so that
// it can be freed. Nothing may be running.
func (e *Exec) Adopt(i int, s Slot) {
	gen := e.slots[i].gen + 1
	e.slots[i].Slot = s
	e.slots[i].gen = gen
}
