// Package prog is the text format of allocfuzz programs: seeds, scenarios, regressions and traces.
//
// A program says which machine it runs on, which caches and tasks there are, what each context
// does, one operation a line, and, if it matters, where a run departs from the order of the lines.
// This is a whole one:
//
//	allocfuzz 1
//	title: object handed out twice
//	# An interrupt takes two objects and gives the first back between the load and the exchange.
//	cache c size=64
//
//	cpu0 w = alloc c
//	cpu0 a = alloc c
//	cpu0 b = alloc c
//	irq0 x = alloc c
//	irq0 y = alloc c
//	irq0 free c x
//
//	sched subject=slub-2008-cmpxchg => bug "object handed out twice"
//	at alloc(a) cmpxchg cpu_slab.freelist 1: irq0
//
// # Words
//
// A file is UTF-8 text of lines of at most 64 KiB (MaxLine). Words are separated by blanks, except
// in key=value, where none may stand. A name is [a-z_][a-z0-9_]*. A number is decimal or 0x and
// hexadecimal digits, with K (1024) or M (1024 K) behind it if you like. Text in double quotes is
// a string as in Go. The name of a subject may hold capitals and -+./: as well.
//
// A line whose first non-blank is # is a comment. It belongs to the line below and moves with it;
// the first ones of a file belong to the program. Blank lines are kept, at most one in a row.
//
// # Head
//
// The first line is always "allocfuzz 1"; the number is the version of the format. A regression
// goes on with what is known about it, a line each: title:, also: (other titles of the same bug,
// with "; " between), class:, found:, date:.
//
// # Declarations
//
//	machine key=value …      once, before the others
//	cache NAME key=value …   a cache that exists from the start; size= must be given
//	task NAME cpu=n          a task that starts on CPU n
//
// Keys of the machine, with their defaults: cpus=1, pages=16, pagesize=4096 (128 with word=16),
// word=64 (or 32, 16), base= (the span of half a word, rounded up to a page), seqbits= (half of
// word), seq0=0, preempt=none (or full, rt), tso=off (or on). The arena must end within the
// address space of the word. merge=on is a boot parameter: caches that are alike are one, with
// several names. Two more are boot parameters for the debug checks: debug="FZPU" is
// the value of slab_debug, options for all caches or for caches by name, as in debug="FZ;-,c"; it
// is kept as it is written and read when the program is compiled. rules=6.1 (or 6.12 for SLUB, 2.4
// or 2.6 for SLAB) names the kernel whose checks apply.
//
// Keys of a cache: align, batch, cpu_partial, ctor=on, flags (words of CacheFlags, joined by
// commas), limit, min_partial, objects, order, size. What is not given is the allocator's choice.
// With ctor=on objects come and go in the state of a constructor, and zeroed memory cannot be
// asked for: such an alloc is skipped.
// A cache that cannot be made is refused and changes nothing; with flags=panic the kernel does not
// go on without it, and a refused create is the last operation of the run.
//
// Lines of at most 63 tasks (MaxTasks) may follow, declared or not; with preempt=rt every handler
// is one of them.
//
// # Operations
//
//	[@LABEL] CONTEXT [NAMES =] VERB [operands] [key=value …] [=> OUTCOME [@SUBJECT]] … [; NOTE]
//	[@LABEL] CONTEXT repeat n {
//		lines of the same context, or one more repeat
//	}
//	check
//
// The context is who runs the line. cpuN is a task that stays on CPU N; a declared task goes by
// its name; the lines of irqN, or irqN.name, are the body of one interrupt handler of CPU N,
// delivered where its first line stands, unless a schedule has delivered it before. Lines of one
// context run in their order. A check has no context: everybody waits there while the structure is
// examined.
//
// Operands come in a fixed order: a cache, slots, numbers. Which ones a verb takes, with the
// options and their limits, is in the table Ops (and Usage prints it):
//
//	c = create size=64 …     destroy c      shrink c
//	a = alloc c              free c a       a,b,d = allocbulk c    freebulk c a b d
//	p = malloc 64            free p         p = calloc 4 16        q = realloc p 128
//	p = memalign 64 100      usable p       freesized p 64
//	g = pages 2              pagesfree g
//	fill x                   verify x
//	overrun x 4              underrun x 4   writefreed x
//	freeagain [c] x          freeinside [c] x 8    freeforeign [c] x    freewrong d x
//	flip REGION of x         flip slab.FIELD of x  flip cache.FIELD c
//	validate c               flush c        drain                  offline cpu=1
//	tune c batch=2 limit=4   reap           rculock                rcuunlock
//
// With a cache in front free gives an object back, without one an allocation by size; the misuse
// verbs do the same. fail=n on a line that allocates makes its n-th request for pages fail, and
// failobj=n the n-th object that it asks for: before the allocator has looked for one.
//
// A line with several names is one call of the allocator: all or nothing for allocbulk, and in
// whatever order suits the allocator for freebulk. No name may stand in it twice.
//
// What is held for single CPUs comes back at flush, for one cache and all CPUs, at offline, for
// one CPU and whatever is held for it, and at drain. The CPU of offline must be another than the
// line's own, else the line is refused; the next line that runs there has it back in use. tune
// gives the arrays of a cache other bounds and empties them first; limit=0 is none, and a batch
// above any other limit is refused. reap asks the allocator as a whole for some of its empty
// slabs. All of these but drain wait for other CPUs, so where there are any they are skipped in
// a handler, as shrink and destroy are.
//
// rculock and rcuunlock enclose a read section of their context; sections nest. Within one an
// object of a cache with flags=rcu may be looked at after its free: its memory may become an
// object of that cache again, and nothing else. A check ends the sections that are open, and an
// rcuunlock that has none is skipped.
//
// A name is one slot: it means whatever was bound to it last. It may be used below a line of the
// same context that binds it, or anywhere when another context binds it (the user waits). A name
// that nothing binds, or that is bound only later by the same context, is an error; so is a name
// for both a cache and a slot. The name nil is reserved: it is the address of nothing, always
// bound, and may stand in free without a cache, freesized, realloc and usable. Caches have no such
// thing: giving one nothing back is a fault of the caller, and kernels do not survive it.
//
// The outcome is one of ok, enomem, unsupported, skipped, refused, or report and the report's
// title in quotes. It is compared with what happened. Behind @ a subject may be named, or the
// first word of the names of a family, as in => report "Object already free" @slub: what is stated
// for a subject holds there instead of what is stated for its family, and that instead of what is
// stated for all. A note is for people and is never compared. What a subject cannot do is
// unsupported there whatever the line states, and an operation on a name that nothing was bound to
// is skipped. A bulk operation binds all of its names or none, and leaves out names that hold
// nothing; what is stated of it is the outcome of the first object that a debug check reports
// about, else of the first that was not left out.
//
// # Schedules
//
//	sched [subject=NAME] [=> bug "TITLE"]
//	at WHERE KIND FIELD n: ACTION, …
//
// Schedules end the file. A block belongs to the subject it names, one block a subject, or to any
// subject. Every departure below it names a point: the n-th one of this kind on this field (-
// where there is none) while one line is executed once. The action comes just before that step
// takes effect. allocfuzz replay -v prints every point of a run in these words.
//
//	WHERE   alloc(a)         the line with this verb and this name: its first result, else its
//	                         first slot, else its cache. It must be the only such line
//	        here             the line with the label @here
//	        alloc(a)[3]      its third round in a repeat, one [n] for each repeat around it,
//	                         outermost first; none means the first round of all
//	        irq0#2/alloc(x)  a line of a handler, in its second delivery; #1 is not written
//	KIND    load store cmpxchg memload memstore lock unlock irqsave irqrestore preempt_disable
//	        preempt_enable pagealloc barrier call end wait
//	FIELD   object.member, the kind of object, never one of them: cpu_slab.freelist
//	ACTION  cpuN, a task     go on there          irqN, irqN.name   deliver this handler (again)
//	        move cpuN        move the task        fail              fail this page request
//	        none             do not deliver the handler that is due at this point: the end
//	                         of the line before its first one
//	        hold             keep this store    drain cpuN          let CPU N's oldest store
//	                         in the buffer                          that is kept take effect
//
// The last two need tso=on, with which each CPU has a store buffer, as x86 has. Its plain stores
// take effect at once all the same; one that is held is seen by its own CPU only, and the stores of
// that CPU behind it queue up, until a barrier, a locked operation, a lock taken or released, a
// switch of tasks or the end of the operation drains the buffer. That end comes when other
// contexts have had their turn, so a hold alone makes a store late. See the package comment of
// impls/machine for what drains and what does not.
//
// # Canonical text
//
// Format prints every program in exactly one way, which allocfuzz fmt writes back: single blanks,
// keys and the words of a key sorted, outcomes sorted by subject, numbers decimal (base= in
// hexadecimal), machine values that are defaults left out, "a,b = allocbulk c", bodies of repeats
// indented by a tab, declarations in the order machine, caches, tasks. A line with a label is
// anchored by it; a line that an anchor could not name otherwise is given a label (l1, l2, …).
//
// # Reading and writing
//
// Parse and ParseString take a whole program, strictly. A Reader takes it line by line, for traces
// of millions of lines; a Writer prints it so. ParseRepair leaves out what it cannot accept, for
// corpora older than the grammar. Validate is for programs built in memory. Faults are of type
// *Error and print as file:line:column: what is wrong; what was expected; what to do.
//
// To add an operation, add its constant and its row to Ops: parser, printer, checks and everything
// outside that works from the table follow. A misspelt row is noticed by the tests.
//
// Why text: bytes die when their encoding changes, while a line that says what it does survives,
// can be read in a review, and can be edited by hand. Why anchors and not step numbers: inserting
// an unrelated line moves every number behind it and no anchor.
package prog
