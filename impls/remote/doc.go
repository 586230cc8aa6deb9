// Package remote is the other kind of subject: one in a process or a guest of its
// own. A Player sends it a batch and gets a transcript; Serve is the loop on the
// other side. Both ends need no more than a stream of bytes.
//
// The stream is a sequence of frames, each four bytes of length (little endian,
// of what follows), one byte of kind, and a payload:
//
//	'B' batch      player to subject: one batch
//	'P' progress   subject to player: events that are complete, then the number of
//	               the operation that begins now
//	'V' events     subject to player: the events of a journal that was full
//	'E' end        subject to player: the last events; the batch is done
//	'X' error      subject to player: why the batch was not played, as text
//
// A progress frame is written before every call of the allocator. So when the
// subject dies, the operation that it was in is known, and if that is a free the
// event of the free as well. What the debug checks reported during a free is not
// known then: its event comes once more behind the call, with the reports. The batch is
// done, too, when the kernel on the other side stopped on purpose, after a report of
// that kind: its last event has the outcome "report".
//
// A subject in a process of this machine keeps a Journal instead: memory that both ends
// share, to which an event costs no system call. It sends no progress, and of events only
// what the journal could not hold.
//
// Numbers are variable-length integers as in encoding/binary. Both decoders take
// any bytes: what is wrong comes back as an error with its offset, and nothing is
// allocated that is much larger than the input.
package remote
