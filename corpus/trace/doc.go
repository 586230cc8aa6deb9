// Package trace imports recordings of real programs' allocations as programs of corpus/prog.
//
// # The three parts
//
// A decoder knows one trace format. It turns the recording into neutral events (malloc, free,
// realloc and so on, with the object's id, its size and the input line it stands on) and marks what
// it could not read. There is one row a format in the table of format.go; a row is a name, a test
// on the first bytes, and a decoder.
//
// The converter knows no format. It maps ids, which are addresses in most formats, to short names
// (a0, a1, …; a name is used again once its object is gone) and hands out one program line an
// event. What it holds is bounded by the objects live at once, not by the length of the trace.
//
// The footprint, counted along the way, says how large a machine the program needs. Since that is
// known only at the end and the machine line stands in front, Write keeps the lines in a temporary
// file; Import passes each line to a function and leaves the head to its caller.
//
// # What is left out
//
// A program holds what an allocator can be asked again. So these are counted and left out: failed
// requests (the machine of the replay decides for itself when memory ends), frees of objects that
// were allocated before the recording began, frees of the null pointer, sizes and alignments that
// no program can hold. Lines that the format does not have are left out too, or are an error with
// Options.Strict. Result says how many of each there were, and on which lines the odd ones stand.
//
// A recording may be cut anywhere: any prefix of a trace is a valid program, whose last objects
// simply stay live.
//
// # The mtrace format
//
// Written by mtrace of the GNU C library. Each line names the caller in front, which is ignored but
// for pairing the two lines of a realloc:
//
//	= Start
//	@ ls:[0x4025d4] + 0x55d0 0x20      an object of 32 bytes at 0x55d0
//	@ ls:[0x4025d4] + (nil) 0x7fffffff a request that failed
//	@ ls:(f+0x1c)[0x402611] - 0x55d0   freed
//	@ ls:[0x402700] < 0x55d0           resized: the object before,
//	@ ls:[0x402700] > 0x5600 0x40      and after
//	@ ls:[0x402700] ! 0x5600 0xffffff  a resize that failed; the object stays as it was
//	= End
//
// It writes calloc and the aligned requests like malloc, and tells nothing of threads: a trace of
// several threads becomes the program of one, in the order of the lines.
//
// # The record format
//
// Written by "allocfuzz record", and binary: see record.go. Its records are numbered as lines are.
// A record that its process did not live to fill is left out as truncated.
//
// # The other formats
//
// Each is described in the file of its decoder: record (of allocfuzz record), rep (the CMU malloc
// lab), valgrind (--trace-malloc=yes, of the first process), android (malloc debug,
// memory_replay), heaptrack (its raw data), kmem (tracepoints of the kernel: CPUs and interrupts
// become contexts, so the program has the interleaving that was recorded). Any of them may be
// compressed by gzip or zstd.
package trace
