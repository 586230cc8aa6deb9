// Package shadow is the model's side of check 3: which reports the debug checks of
// an allocator must make, when, and about what.
//
// A Shadow knows what a program did to memory that was not its own, byte by byte,
// and which rules say when somebody looks at that byte (rules.go). From both it
// predicts the reports of each operation, in order, and holds what came against
// that. It computes nothing by debugcheck: of that package it uses the description
// of a layout, so as to know where what lies, and the reports themselves. What is stored
// about a slab counts only where misuse has damaged it: otherwise it is what it must be.
// Behind an operation the Shadow looks whether what was reported is repaired.
//
//	shadow.go   one run: objects that are live, caches
//	step.go     one operation: its two ends, and what lies between
//	rules.go    the rules as data: region, expected byte, when it is checked
//	damage.go   what was done to bytes
//	may.go      which misuse has a defined effect, and so is carried out at all
//	view.go     a slab as an operation finds it
//	slub.go     what SLUB must report, operation by operation
//	slab.go     what SLAB must report
//	guard.go    what the guard around other allocators must report
//	match.go    predicted against reported, and repairs against both
//	loose.go    several contexts: what can be demanded when the order is open
//	track.go    who allocated and freed an object, as reports show it
//	fresh.go    what a fresh object and what is around it must be
//	layout.go   where what must lie around an object
package shadow
