package clib

// A Response is what comes of a misuse.
type Response uint8

// The responses, the best first.
const (
	Told         Response = iota // the process ended at once, with a message
	Stopped                      // it ended at once, without one
	Late                         // it ended later
	HandedTwice                  // live memory was handed out again, or changed
	NothingSeen                  // nothing came of it as far as could be seen
	NotPossible                  // the library has no such function
	ResponseHung                 // it did not come back
)

var responseNames = []string{"told", "stopped", "late", "twice", "-", "n/a", "hung"}

// String is a word for a table.
func (r Response) String() string { return responseNames[r] }

// Means says what a response is.
func (r Response) Means() string {
	return []string{"the library ends the process at once and says why",
		"the process ends at once, without a word", "it ends later, when the heap is used on",
		"live memory is handed out again, or changes", "nothing is seen",
		"the library has no such function", "it does not come back"}[r]
}
