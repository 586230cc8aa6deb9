package remote

import (
	"sync/atomic"
	"unsafe"

	"allocfuzz/impls"
)

// A Journal is memory that both ends share, so that what happened is known after a death
// without a frame for every call. It holds the events since the last frame and the
// operation that each thread is in.
//
// One word says what is complete: how often the journal was emptied into a frame (8 bits),
// events (28) and bytes (28). It is stored when an event is whole, so it is right whenever
// the other side dies.
type Journal struct {
	// Measure is asked, by the side that serves, how much of the memory of its process is its
	// own; nil when nobody knows.
	Measure func() uint64

	head *journalHead
	body []byte
}

type journalHead struct {
	state atomic.Uint64
	begun [impls.ThreadsMax]atomic.Int32 // operation + 1, by thread
	own   atomic.Uint64                  // bytes that are the serving side's, not the subject's
}

const (
	journalBits = 28
	journalMask = 1<<journalBits - 1
	// JournalSize is what a journal's memory is made with: some ten thousand events.
	JournalSize = 1 << 20
)

// NewJournal is the journal in b, which is as long as JournalSize and aligned for words, as
// mapped memory is.
func NewJournal(b []byte) *Journal {
	n := int(unsafe.Sizeof(journalHead{}))
	return &Journal{head: (*journalHead)(unsafe.Pointer(&b[0])), body: b[n:]}
}

// Own is how many bytes of the serving side's memory are its own and not the subject's.
func (j *Journal) Own() uint64 { return j.head.own.Load() }

// long is the number of bytes from which a batch is a long one, after which it is measured again
// what is the side's own.
const long = 1 << 20

// measure notes what is the side's own after a batch of so many bytes.
func (j *Journal) measure(size int) {
	if j != nil && j.Measure != nil && (size >= long || j.Own() == 0) {
		j.head.own.Store(j.Measure())
	}
}

// reset empties the journal for a batch.
func (j *Journal) reset() {
	j.head.state.Store(0)
	for i := range j.head.begun {
		j.head.begun[i].Store(0)
	}
}

// begin notes that a thread is in an operation, -1 for none.
func (j *Journal) begin(thread uint8, op int32) { j.head.begun[thread].Store(op + 1) }

// begins is the operation that a thread was in, -1 for none.
func (j *Journal) begins(thread int) int32 { return j.head.begun[thread].Load() - 1 }

// add appends an event, encoded; false when it does not fit.
func (j *Journal) add(event []byte) bool {
	s := j.head.state.Load()
	n := int(s & journalMask)
	if n+len(event) > len(j.body) {
		return false
	}
	copy(j.body[n:], event)
	j.head.state.Store(s + 1<<journalBits + uint64(len(event)))
	return true
}

// written are the events of the journal, encoded, how many, and how often it was emptied.
func (j *Journal) written() (events []byte, n int, emptied uint8) {
	s := j.head.state.Load()
	size := min(int(s&journalMask), len(j.body))
	return j.body[:size], int(s >> journalBits & journalMask), uint8(s >> (2 * journalBits))
}

// empty forgets the events, which went into a frame.
func (j *Journal) empty() {
	j.head.state.Store((j.head.state.Load()>>(2*journalBits) + 1) << (2 * journalBits))
}
