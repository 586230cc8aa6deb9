package trace

// A Kind says what an Event is.
type Kind uint8

// The kinds of event. Realloc is a whole one; formats that write the object before and the object
// after apart, with events of other threads possibly between them, give MoveFrom and MoveTo.
const (
	Skipped Kind = iota
	Malloc
	Calloc
	Memalign
	Free
	Realloc
	MoveFrom
	MoveTo
)

// An Event is one step of a recording, in no format's own terms.
type Event struct {
	Kind Kind
	Line int    // input line, from 1; of a format without lines, the number of the record
	ID   uint64 // the object: of Realloc and MoveTo the one after; 0 is none
	Old  uint64 // Realloc: the object before; 0 is none
	Size uint64 // bytes asked for; Calloc: of one element
	// Count is the number of elements of a Calloc.
	Count uint64
	// Align is the alignment of a Memalign, in bytes.
	Align uint64
	// Mate is equal on the two halves of one move, as far as the format can tell.
	Mate uint64
	// Cache is the cache that a Malloc takes its object from; nil where the format has none, and
	// then objects are asked for by size.
	Cache *Cache
	// CPU and IRQ are the context; 0 where the format has none. IRQ is 0 for a task, and tells
	// softirq, hardirq and NMI apart.
	CPU uint16
	IRQ uint8
	// Skip and Note say, when Kind is Skipped, what was left out and why. Note may be empty.
	Skip Skip
	Note string
}

// A Cache is a cache of objects of one size. Its decoder makes one for each name and hands out the
// same pointer each time.
type Cache struct {
	Name string // as a program has it
	Size uint64
	used bool // by the converter
}

// A Skip is a reason to leave something out of the program, or to take only part of it.
type Skip uint8

// The reasons.
const (
	Mark          Skip = iota // a line that is no operation by design: a comment, a blank line
	UnknownLine               // a line that the format does not have
	Truncated                 // the last line, when the input ends before it does
	Failed                    // a request that the recorded allocator refused
	UnknownObject             // a free of an object from before; a realloc becomes an allocation
	Null                      // a free of the null pointer
	Unfit                     // a size or an alignment that no program can hold
	HalfRealloc               // half of a realloc; the second half becomes an allocation
	Lost                      // an object whose place was handed out again; freed first
	OtherProcess              // a line of another process than the first
	Handlers                  // an operation of an interrupt beyond the handlers of a program
	BeforeSlice               // a free of an object from before the slice; a realloc allocates
	skips
)

var skipNames = [skips]string{
	Mark:          "marks",
	UnknownLine:   "unknown lines",
	Truncated:     "truncated lines",
	Failed:        "failed requests",
	UnknownObject: "frees and reallocs of objects from before",
	Null:          "frees of null",
	Unfit:         "unfit sizes",
	HalfRealloc:   "half reallocs",
	Lost:          "objects whose free is lost",
	OtherProcess:  "lines of other processes",
	Handlers:      "operations of interrupts that became those of tasks",
	BeforeSlice:   "frees and reallocs of objects from before the slice",
}

// String returns the reason as a plural noun: "failed requests".
func (s Skip) String() string {
	if s >= skips {
		return "unknown reasons"
	}
	return skipNames[s]
}

// A decoder reads one format. next fills *ev, which it may assume to be zero, with the next event.
// At the end of the input it returns io.EOF; other errors are those of the reader, or an *Error
// when the format turns out to be one that cannot be imported at all. A line that it cannot read is
// an event of kind Skipped, never an error.
type decoder interface {
	next(ev *Event) error
}
