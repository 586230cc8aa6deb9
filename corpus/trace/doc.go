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
// # The rep format
//
// The traces of malloc labs. Four lines of one number each (heap, ids, operations, weight), then
// operations on objects that go by number:
//
//	a 0 512    allocate          f 0     free
//	r 0 640    resize            f -1    free of null
//
// # The valgrind format
//
// What valgrind --trace-malloc=yes prints, of the process seen first; lines of others are counted.
// What the program itself prints between is a mark. new and delete go by their mangled names. A
// realloc of null, or to 0, has the malloc or the free that it becomes on the same line:
//
//	--77-- malloc(24) = 0x4A5B040
//	--77-- memalign(al 64, size 100) = 0x4A5B180
//	--77-- _ZnwmSt11align_val_t(size 128, al 64) = 0x4A5B300
//	--77-- realloc(0x0,5)malloc(5) = 0x4A5B400
//	--77-- free(0x4A5B040)
//
// # The android format
//
// Written by Android's malloc debug (record_allocs), read by memory_replay. The thread is ignored,
// and so are the two times that newer ones have at the end:
//
//	7: malloc 0xb6f1a000 24              7: calloc 0xb6f1b000 3 8
//	7: realloc 0xNEW 0xOLD 100           7: memalign 0xb6f1d000 64 100
//	7: free 0xb6f1c000                   7: thread_done 0x0
//
// # The heaptrack format
//
// Written by heaptrack --raw: "+ SIZE STACK ADDRESS" and "- ADDRESS", in hexadecimal; records of
// other letters are marks. A realloc is a free and an allocation. What heaptrack makes of it
// without --raw has no addresses, and is refused.
//
// # The kmem format
//
// The tracepoints kmalloc, kmalloc_node, kfree, kmem_cache_alloc, kmem_cache_alloc_node and
// kmem_cache_free, as ftrace, trace-cmd report and perf script print them; other events are marks:
//
//	cat-8 [001] ..s1. 7.1: kmem_cache_alloc: call_site=f ptr=00a1 name=dentry bytes_req=192 …
//	cat 8 [001]       7.2: kmem:kfree: call_site=f ptr=0xa2
//
// The CPU becomes the context; CPUs above those of the largest machine become lower ones. The third
// flag tells interrupts: lines of one kind of interrupt of one CPU, with no operation of another
// context between, become one handler, irqN.kM. So two interrupts in a row may become one, and one
// that other CPUs ran beside becomes several: the order of the operations is that of the trace.
// A program has at most 239 handlers; what interrupts do beyond them is done by tasks, and counted.
// perf script prints no flags, so with it everything is of tasks.
//
// Caches go by the name that the line has. Older kernels have it where an object is freed only:
// there a site of the code allocates from a cache size_N until the first of its objects was freed.
// kmalloc of no bytes, and its free, are left out.
//
// # The malloc-bench format
//
// A protocol buffer, a record an operation, read without its schema. The schema assumed, of proto3
// with explicit presence:
//
//	Tracefile: repeated TraceLine lines = 1; uint64 max_simultaneous_allocs = 2
//	TraceLine: oneof: Malloc malloc = 1; Free free = 2; Realloc realloc = 3; Calloc calloc = 4
//	Malloc:    uint64 result_id = 1; input_size = 2; input_alignment = 3
//	Free:      uint64 input_id = 1; input_size_hint = 2; input_alignment_hint = 3
//	Realloc:   uint64 result_id = 1; input_id = 2; input_size = 3
//	Calloc:    uint64 result_id = 1; input_nmemb = 2; input_size = 3
//
// An id that is absent is null. Other fields are passed over. Records are numbered as lines are.
//
// # Compressed traces
//
// Any of them may be compressed by gzip or zstd, which is told by the first bytes. Where the data
// is cut or damaged, what is before is kept, and the result says so.
package trace
