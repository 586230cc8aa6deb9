// Package machine is the computer that the allocators run on: a few CPUs, an arena of
// pages, an interrupt controller, and a scheduler that decides what happens between
// any two accesses to shared state.
//
// # Contexts
//
// A context ([Ctx]) is a task: a coroutine with a stack of its own, made once a
// machine and used for run after run. What interrupts a task, a handler ([Handler])
// or another CPU's call ([Ctx.CallOn]), runs nested on its stack, as on hardware, in
// a frame of its own. A CPU that no task has takes interrupts on an idle context.
// Exactly one context runs at a time. A run is a pure function of what was added to
// the machine and of the decisions taken: no clock, no map order, no chance.
//
// A task carries out lines of a program. It says where it is with [Ctx.BeginLine] and
// [Ctx.EndLine], and has its CPU from the one to the other; between lines any task of
// the CPU may come. Where an operation ends it must have left nothing behind: a lock,
// interrupts off or preemption disabled are found there, and put right so that the
// next operation is not blamed.
//
// # Points
//
// Every access that another CPU, task or interrupt could notice is a point, and just
// before the access happens a [Chooser] may let something else happen instead. A point
// has a public name, kind and field, and within one execution of a line, in its own
// frame, a number: loops and slow paths count on, nested handlers do not count, and a
// point that is asked again after something else ran keeps its number. Each wake-up of
// a wait is a new one. So a schedule can be written down as departures, and means the
// same after lines are added elsewhere.
//
// The actions ([ActionKind]) are: let another context run; deliver a handler; move the
// task to another CPU; let this page request fail; leave a handler out; hold a store
// back; drain one that was. What a point permits ([Ctx.Allowed]) is what the hardware
// and kernel would permit:
//
//   - a CPU of its own may run at any time, the middle of a local exchange included;
//   - a handler comes where its CPU's interrupts are on, not into itself, to a bounded
//     depth and a bounded number of times an operation, so that a retry that
//     interrupts cause is not called a livelock;
//   - a task loses its CPU where it is preemptible: with [PreemptNone] between lines
//     and where it sleeps, otherwise wherever interrupts are on, no handler runs, and
//     neither [Ctx.PreemptDisable] nor a spin lock forbids it. It can be moved there
//     too, unless it is pinned or holds a local lock.
//
// Without a word of the chooser lines run in the order of the program, and one that was
// left in the middle goes on when the lines behind it have had their turn. A switch
// that nobody chose (a task ended, a lock is taken) goes the same way and is not
// written down; [Ctx.Next] says whom it goes to. At the end of a line a switch to the
// task itself lets it go on before the others, and at the end of a handler on a CPU
// without a task a switch comes when the handler has returned. To interrupt with a
// handler that was left in the middle on such a CPU lets it go on. A handler is
// delivered once, at the place of its first line; what is still due comes before a
// barrier ([Machine.SetBarriers]) or at the end.
//
// # Fields
//
// A [Field] is declared once, with its class. Guarded fields are touched only with
// their [Guard] held: each access is checked and none is a point, since lock and
// unlock already are. Atomic fields may be touched by anybody, racy ones too, with a
// reason why a value that is out of date does no harm, and per-CPU ones only be
// written by their CPU. x++ is a load and a store. [Word.CmpxchgLocal] keeps this
// CPU's interrupts out and nothing else: between its load and its store other CPUs
// run, or the sequence numbers of the allocators would hide every migration. A task may
// be moved before an exchange as before any other step: which CPU's words
// [PerCPUDouble.CmpxchgDoubleThisCPU] means shows when it is carried out.
//
// Plain fields ([Plain], [PlainWord]) have no protection of their own. Each access is a point,
// so that others come between, and two accesses by different contexts, one of them a write,
// are a data race unless something orders them: a lock, an atomic word that one stores and
// the other loads, a read section and who waits for it, a call and its caller, a name of the
// program, a check. Racy words order nothing, and words and exchanges of one CPU nothing on
// others. Contexts of one CPU are also kept apart by interrupts off, against its handlers, and
// where a task cannot be preempted, against its tasks. What would have happened in another
// order is not needed: a handler that comes long after an access with interrupts on races
// with it unless one of these orders the two. The order is kept from the first plain word of a
// run on; without one it costs
// nothing.
//
// A [Page] describes a block of pages. Its words are a union: each region has a current
// [View], and a word ([PageWord]) of another view is a finding at that access, unless
// the caller says with [PageWord.LoadStale] that it throws garbage away.
//
// # Waiting
//
// A spin lock ([SpinLock]) spins with its CPU held: it takes interrupts and calls
// meanwhile where they are on. A local lock ([LocalLock]) is interrupts off, and with
// [PreemptRT] a lock that sleeps. A line that waits for a name ([Ctx.Wait]) gives its
// CPU away, and gives up, the earliest first, only when nothing else can run. When
// nothing can run and somebody is in the middle of something, that is a deadlock.
//
// With [PreemptRT] handlers are tasks of high priority: they preempt, may sleep on a
// local lock, take over at once when it is released, and no task of lower priority
// has the CPU while one can run.
//
// [Ctx.CallOn] runs a function on another CPU, like an interrupt, with interrupts off.
// It belongs to the caller's line: its points, steps and page requests count there. To
// make one in an interrupt, with interrupts off or a spin lock held is a finding even
// if nothing happens.
//
// [Ctx.RunOn] is for work that a call cannot do, since it may sleep: the task itself goes
// to the other CPU, waits until no other task has it, works there as a task that cannot be
// moved, and comes back. To go is forbidden where a call is, and where the task has promised
// to stay on its CPU: with preemption disabled or a local lock held.
//
// # Store buffers
//
// With Config.TSO each CPU has a buffer in front of memory, of [StoresMax] stores, first in,
// first out: total store order, the order of x86. What a CPU has stored it reads itself, newest
// first, and so does a handler on it; others read memory. So a load may overtake a store in
// front of it, and nothing else may be out of order. Without a word of the chooser every store
// goes to memory at once, and a run is the same as without buffers. [Hold], at the point of a
// store while the buffer is empty, keeps that store back, and the stores of the CPU behind it
// queue up; [Drain], at any point of any context, lets the oldest store of a CPU happen. Both are
// departures, so a bound on departures bounds them. A buffer that is full drains its oldest
// store.
//
// A plain store is one that is a point: [Word.Store], [PageWord.Store], [Ctx.StoreMem] and
// the store of a local exchange, whose load reads through the buffer, too: it has no lock
// prefix and is no fence. The halves of a double word are seen together. Guarded words go
// to memory at once, behind an older store of the CPU to the same place: only who holds their
// guard next may look, and the buffer is drained before that. Bytes that are touched as bytes
// are drained from all buffers first. Guards, views, owners and addresses are checked where the
// store is and not where it is drained.
//
// The whole buffer is drained by [Ctx.Barrier]; by every locked operation, one that fails as
// well: [Word.Cmpxchg], [Word.Add], [PageWord.Cmpxchg], taking a lock; by giving up a lock, which
// is a plain store on x86: here the lock itself is never late, and who takes it must see what
// was done under it; where tasks are switched or moved, on both CPUs; before and after a call
// of another CPU, by the caller and where it runs; where a handler returns, since the return is
// serialising; at the end of a read section and where a callback is handed over, as those who
// wait for readers are promised. What is none: to turn interrupts or preemption off or on, to
// fail at a [SpinLock.TryLock], which then only reads, to open a read section, and the entry
// of a handler. A processor of x86 would drain there, but nothing is promised to the kernel.
//
// Whoever learns that an operation is over learns it by a store behind the others, so where one
// ends its stores have happened ([Ctx.Publish], which [Ctx.EndLine] calls). As a held store is
// to be late, that end comes late, too: other contexts have their turn first, by the rule for
// points that nobody decided, and the buffer is drained when nothing else can run. One departure
// thus shows what a missing barrier does. At checks and at the end all buffers are empty.
//
// # Read sections
//
// A context reads between [Ctx.RCUReadLock] and [Ctx.RCUReadUnlock], over several lines if it
// likes, and a handler for itself. [Ctx.CallRCU] hands over a function that is called when
// all sections open at that moment have ended, by who ended the last, as a software interrupt:
// it may not sleep. [Ctx.RCUBarrier] waits for these calls where that can end well. A section
// that is still open when its context ends, or that a barrier would wait for in vain, the
// scheduler ends.
//
// # Watching
//
// A [Watcher] is a chooser that is told which objects each step touches ([Access]), and
// can ask who could run ([Sim.CanRun], [Sim.CanDeliver], [Sim.CanLeave], [CPU.Admits]),
// whether a step has to wait ([Ctx.Waits]) and for which lock ([Ctx.Wants]): what a search
// needs that leaves out schedules which differ only in the order of steps that have nothing
// to do with each other. A [Picker] is also asked who comes when a handler on an idle CPU
// has returned.
//
// # Findings
//
// The machine notes wrong steps, not their consequences ([Machine.Faults]): a guard not
// held, a view not current, a per-CPU word written from elsewhere, a data race, locks in a
// wrong order (ranks fall; no classes in a circle, local locks of a real-time machine
// among them), a lock taken in interrupts and also with them on, or one that is taken with
// them on inside one that interrupts take, sleeping where forbidden, a call that may
// deadlock, a wild address, a deadlock with who waits for whom, too many points in one
// operation of one frame, with those that go round, state left behind. Most are noted and
// the run goes on; after a wild address, a deadlock or a step limit it ends, and every
// context is unwound ([Ctx.Die]). What the harness does wrong panics with "allocfuzz: "
// and comes back from [Sim.Run] as a [Panic].
//
// The trace hash ([Sim.Hash]) covers every point with its context, field and value,
// every delivery and every move, every store that was held and where it was drained: two
// runs with one hash are taken to be one run.
//
// # Native mode
//
// With Config.Native there is no scheduler: goroutines own CPUs ([Machine.NativeCtx])
// and the same accessors are plain or atomic operations after one nil check. Locks are
// real, a local exchange is a compare and a store, calls are made by the CPU's owner
// between its operations or by the caller when it has none, interrupts do not exist
// and nothing is checked. A [ThreadLock] is for the notes that a subject keeps beside what is
// tested. It is for measuring and for stress with the race detector.
//
// # Where the rules come from
//
// Interrupt, preemption and lock rules are those of Linux and its lock validator; local
// exchanges and their limits those of the 2008 and 2021 patches that the variants
// follow; descriptors as unions those of struct page; sleeping local locks those of
// the real-time kernel. What is simpler here on purpose: one memory node, handlers that
// run with interrupts on, and memory no weaker than total store order, under which giving up
// a lock is a full barrier.
package machine
