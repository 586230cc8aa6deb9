// Package rows is the table of the historical systems that must exist here: what each one
// is, and by which subjects, checks, scenarios and known bugs it does. It is data; its test
// holds it against everything that it names, in both directions.
package rows

// A Row is one system of the five kernel patches that the project goes back to.
type Row struct {
	ID     string // as in Variant.Row
	Year   int    // of the patch
	System string // what it is
	Point  string // what there is to see
	// Subjects are the variants that are made of it.
	Subjects []string
	// Checks are titles of findings, and of debug reports, that hold it to its word.
	Checks []string
	// Scenarios are committed programs, seeds and regressions, by name, that show the point.
	Scenarios []string
	// Bugs are patches, by folder and name, that break it and must be found.
	Bugs []string
}

// Patch names one of the five patches.
type Patch struct {
	Year  int
	Title string
	// Kernel is the kind of machine that its systems are made for.
	Kernel string
}

// Patches are the five, by age.
var Patches = []Patch{
	{2001, "the slab lists of SLAB", "preempt=none"},
	{2008, "SLUB's fast path with a sequence number", "preempt=none or full"},
	{2016, "the slab colour, racy on purpose", "any"},
	{2021, "put_cpu_partial under disabled interrupts", "preempt=full or rt"},
	{2022, "validation against a free", "any"},
}

// Table is every row, by patch.
var Table = []Row{
	{
		ID: "S1a", Year: 2001,
		System: "one list in the order full, partial, free, with a word for the first slab that " +
			"is not full",
		Point: "an emptied slab goes to the tail, and so its object is not the next one handed " +
			"out when another free slab exists and none is partial",
		Subjects:  []string{"slab-2001-onelist"},
		Checks:    []string{"list order broken"},
		Scenarios: []string{"slab-emptied-at-tail", "lifo-emptied-slab"},
		Bugs:      []string{"slab/mark-not-advanced"},
	},
	{
		ID: "S1b", Year: 2001,
		System: "the repair as its comment intends: an emptied slab stays in front of the free " +
			"ones",
		Point:     "the object freed last is the next one",
		Subjects:  []string{"slab-2001-onelist-lifo"},
		Checks:    []string{"reuse order broken"},
		Scenarios: []string{"slab-emptied-at-tail"},
	},
	{
		ID: "S1b′", Year: 2001,
		System:    "the repair as it was mailed: its condition never holds",
		Point:     "nothing is repaired: it is S1a to everybody who looks",
		Subjects:  []string{"slab-2001-onelist-lifo-posted"},
		Checks:    []string{"reuse order broken", "pair differs"},
		Scenarios: []string{"slab-2001-lifo-posted"},
	},
	{
		ID: "S1c", Year: 2001,
		System:   "lists of full, partial and free slabs under one lock: the reference",
		Point:    "each change of fullness moves a slab, where S1a moves a mark",
		Subjects: []string{"slab-2001-threelists"},
		Checks:   []string{"list order broken", "reuse order broken"},
		Scenarios: []string{"lifo-partial-before-free", "slab-lists-one-move-more",
			"reap-takes-the-oldest"},
		Bugs: []string{"slab/emptied-to-tail", "slab/free-in-two-steps", "slab/reap-from-head"},
	},
	{
		ID: "S1d", Year: 2001,
		System:    "the same without the flag: a free slab becomes partial when it is picked",
		Point:     "equal to S1c for all who look, with one move more for slabs of one object",
		Subjects:  []string{"slab-2001-threelists-opt"},
		Checks:    []string{"pair differs"},
		Scenarios: []string{"slab-lists-one-move-more"},
	},
	{
		ID: "S1e", Year: 2001,
		System:    "the walk over the one list after every free of a debugged cache",
		Point:     "full slabs first, then partial, then free, and the mark at the first not full",
		Checks:    []string{"slabs of the list are out of order"},
		Scenarios: []string{"debug-slab-order", "debug-slab-order-partial", "debug-slab-mark"},
		Bugs:      []string{"slab/chain-test-strict"},
	},
	{
		ID: "S1f", Year: 2001,
		System: "arrays of free objects for each CPU, filled and emptied in batches, with bounds " +
			"that can be changed",
		Point:    "which end a full array gives back decides the order of reuse",
		Subjects: []string{"slab-percpu", "slab-percpu-oldest"},
		Checks:   []string{"reuse order broken", "stored count wrong"},
		Scenarios: []string{"array-newest-or-oldest", "array-filled-in-batches",
			"array-tuned-while-full", "array-keeps-a-page", "array-full-meets-handler",
			"array-of-a-cpu-that-goes"},
		Bugs: []string{"slab/arrays-irqs-on", "slab/avail-after-flush", "slab/flush-here-only",
			"slab/tune-forgets-a-cpu"},
	},
	{
		ID: "S1g", Year: 2001,
		System: "what describes a slab is kept off the slab, where a limit allows it",
		Point: "the limit counts elements: above it a description comes from a cache whose own " +
			"are kept off its slabs",
		Subjects: []string{"slab-2001-offslab", "slab-2001-offslab-half"},
		Checks:   []string{"off-slab limit broken"},
		Scenarios: []string{"slab-2001-offslab-half", "slab-2001-offslab-half-loop",
			"slab-2001-offslab-half-small-pages", "off-slab-at-the-limit", "off-slab-two-grow"},
		Bugs: []string{"slab/description-kept", "slab/limit-without-description",
			"slab/pages-undescribed"},
	},
	{
		ID: "S1h", Year: 2001,
		System: "pages by the buddy system, and a pool of single pages for each CPU in front",
		Point: "pages in pools do not join and are out of reach of other CPUs, until they are " +
			"drained; which CPU it is must be asked with interrupts off where tasks are preempted",
		Subjects: []string{"page-buddy", "page-2001-percpu", "page-2001-percpu-preempt",
			"page-2001-percpu-irqfirst", "slab-2001-threelists-percpu",
			"slub-2021-partial-irqsave-pools"},
		Checks: []string{"free buddies left unjoined", "pool limit broken", "pages leaked"},
		Scenarios: []string{"page-2001-percpu-preempt-move", "page-pool-reserves",
			"page-pool-keeps-from-others", "page-pool-apart-from-blocks",
			"page-joins-after-mixed-frees", "slabs-from-pools"},
		Bugs: []string{"page/drain-first-cpu-only", "page/joins-any-order",
			"page/joins-upwards-only", "page/pool-limit-passed"},
	},
	{
		ID: "S1i", Year: 2001,
		System: "the order of reuse as a property with a name, reuse=lifo, of those who promise it",
		Point:  "for lists, CPU slabs, arrays and pools, each with its own condition",
		Checks: []string{"reuse order broken"},
		Scenarios: []string{"lifo-reuse", "lifo-emptied-slab", "lifo-partial-before-free",
			"page-pool-last-in-first-out", "array-newest-or-oldest"},
		Bugs: []string{"slab/emptied-to-tail"},
	},
	{
		ID: "S2a", Year: 2008,
		System:    "interrupts off around the CPU's freelist",
		Point:     "right, and the price that the others are measured by",
		Subjects:  []string{"slub-2008-irqsave"},
		Checks:    []string{"guarded field touched without its guard"},
		Scenarios: []string{"handler-allocates", "handler-frees"},
	},
	{
		ID: "S2b", Year: 2008,
		System:   "a local compare and exchange of the list's head alone",
		Point:    "an interrupt brings the head back and not its successor",
		Subjects: []string{"slub-2008-cmpxchg"},
		Checks: []string{"live object on a freelist", "object handed out twice",
			"freelist leaves its slab"},
		Scenarios: []string{"slub-2008-cmpxchg-aba", "slub-2008-cmpxchg-empty-list",
			"aba-interrupt", "slub-2008-cmpxchg-bulk"},
	},
	{
		ID: "S2c", Year: 2008,
		System:   "head and sequence number in one word, the rest of the address beside it",
		Point:    "what an interrupt brings back has another number",
		Subjects: []string{"slub-2008-seq", "slub-2011-tid", "slub-2021-tid-partial"},
		Checks:   []string{"live object on a freelist", "object handed out twice"},
		Scenarios: []string{"low-base-aba", "free-onto-empty-list", "low-base-empty-list",
			"tid-recycled-object", "tid-two-empty-lists"},
		Bugs: []string{"slub/setter-does-not-count", "slub/bulk-not-counted"},
	},
	{
		ID: "S2d", Year: 2008,
		System: "at all ones everybody goes the slow way, and only code that interrupts nothing " +
			"goes on to 0",
		Point:    "a number that comes round, in task and in interrupt context",
		Subjects: []string{"slub-2008-seq", "slub-2011-tid", "slub-2021-tid-partial"},
		Checks:   []string{"live object on a freelist", "object handed out twice"},
		Scenarios: []string{"slub-2008-seq-wrap8", "seq-wraps", "seq-at-all-ones",
			"seq-wraps-in-task", "seq-wraps-in-interrupt", "seq-two-bits-task",
			"seq-two-bits-interrupt", "seq-two-bits-preempt"},
		Bugs: []string{"slub/seq-ones-task", "slub/seq-ones-irq", "slub/seq-wrap-irq",
			"slub/seq-preempt"},
	},
	{
		ID: "S2e", Year: 2008,
		System:   "the guards of that path: same base, a second read, the word before the page",
		Point:    "a slab across a half-word boundary, and a base that changes in between",
		Subjects: []string{"slub-2008-seq", "slub-2011-tid", "slub-2021-tid-partial"},
		Checks:   []string{"freelist leaves its slab", "wild address"},
		Scenarios: []string{"half-word-boundary", "base-changes-in-between",
			"tid-read-from-elsewhere", "tid-slab-let-go", "half-word-all-objects",
			"shrink-all-objects"},
		Bugs: []string{"slub/same-base-alloc", "slub/same-base-free", "slub/reread-dropped",
			"slub/page-read-first", "slub/base-from-low-half",
			"slub/list-kept-at-deactivation", "slub/tid-kept-on-empty"},
	},
	{
		ID: "S2f", Year: 2008,
		System:   "preemption is off in the fast path, and the slow one trusts nothing it read",
		Point:    "a task that goes on upon another CPU between the two",
		Subjects: []string{"slub-2008-seq", "slub-2011-tid", "slub-2021-tid-partial"},
		Checks:   []string{"per-CPU word written by another CPU", "free object lost"},
		Scenarios: []string{"preempt-migrate", "low-base-migrate", "fast-slow-migrate",
			"tid-moved-on", "tid-there-and-back", "pinned-too-late"},
		Bugs: []string{"slub/cpu-before-pin", "slub/tid-of-another-cpu",
			"slub/tid-starts-alike", "slub/pages-for-old-cpu"},
	},
	{
		ID: "S2g", Year: 2008,
		System: "the slow path takes from a list that is not empty, and looks again after pages " +
			"came",
		Point: "the one then in use writes over the list",
		Subjects: []string{"slub-2008-seq", "slub-2008-seq-slowpath", "slub-2011-tid",
			"slub-2021-tid-partial"},
		Checks: []string{"free object lost"},
		Bugs:   []string{"slub/slab-brought-meanwhile"},
		Scenarios: []string{"slub-2008-seq-slowpath-all-ones", "slub-2008-seq-slowpath-base",
			"slub-2008-seq-slowpath-interrupt", "slub-2008-seq-slowpath-migrate",
			"slub-2008-seq-slowpath-end"},
	},
	{
		ID: "S3a", Year: 2016,
		System:    "the next colour under the list lock, before the pages are asked for",
		Point:     "colours come round, and a page that is refused uses one up",
		Subjects:  []string{"slab-colour-locked"},
		Checks:    []string{"colour out of range"},
		Scenarios: []string{"colour-rotation", "colour-of-wide-alignment"},
		Bugs:      []string{"slab/colour-limit"},
	},
	{
		ID: "S3b", Year: 2016,
		System:    "the next colour without a lock: advanced, wrapped, read again and clamped",
		Point:     "colours may repeat and be left out, and are never out of range",
		Subjects:  []string{"slab-colour-racy"},
		Checks:    []string{"colour out of range"},
		Scenarios: []string{"colour-read-by-two-cpus"},
	},
	{
		ID: "S3c", Year: 2016,
		System:   "the same without the clamp",
		Point:    "a colour out of range, and one further, or none to choose from, objects outside",
		Subjects: []string{"slab-colour-unclamped"},
		Checks:   []string{"colour out of range", "object outside its slab"},
		Scenarios: []string{"slab-colour-unclamped-limit", "slab-colour-unclamped-two-cpus",
			"slab-colour-unclamped-three-cpus", "slab-colour-unclamped-no-room"},
	},
	{
		ID: "S4a", Year: 2021,
		System: "a CPU's store of partial slabs pushed by a local compare and exchange, with " +
			"counts read before",
		Point:    "counts that are out of date after one interrupt, or somebody else's words",
		Subjects: []string{"slub-2021-partial-cmpxchg"},
		Checks:   []string{"stored count wrong", "page view not current"},
		Scenarios: []string{"slub-2021-partial-cmpxchg-counts",
			"slub-2021-partial-cmpxchg-reused"},
	},
	{
		ID: "S4a′", Year: 2021,
		System:   "that push against a slow path with interrupts on",
		Point:    "a slab pushed in the middle of the slow path's pop is lost",
		Subjects: []string{"slub-2021-partial-cmpxchg-irqson"},
		Checks:   []string{"slab lost"},
		Scenarios: []string{"slub-2021-partial-cmpxchg-irqson-pop",
			"slub-2021-partial-cmpxchg-irqson-rt"},
	},
	{
		ID: "S4b", Year: 2021,
		System: "the push with interrupts off, what a full store held put away afterwards",
		Point:  "right where handlers interrupt",
		Subjects: []string{"slub-2021-partial-irqsave", "slub-2021-partial-irqsave-pools",
			"slub-2021-tid-partial"},
		Checks:    []string{"stored count wrong", "slab lost"},
		Scenarios: []string{"handler-drains-store", "store-filled-from-node", "cpu-partial-churn"},
		Bugs:      []string{"slub/store-push-window", "slub/flush-skips-store"},
	},
	{
		ID: "S4c", Year: 2021,
		System:    "the same with a local lock, where handlers are tasks that may sleep",
		Point:     "the slow path can be preempted in its middle",
		Subjects:  []string{"slub-2021-partial-locallock"},
		Checks:    []string{"stored count wrong", "slab lost", "sleeping where forbidden"},
		Scenarios: []string{"rt-handler-waits", "rt-push-waits", "rt-flush-waits"},
		Bugs:      []string{"slub/push-without-lock"},
	},
	{
		ID: "S4d", Year: 2021,
		System:    "somebody else who takes pages that went back, and writes over their words",
		Point:     "a page descriptor is read as what it is no longer",
		Checks:    []string{"page view not current"},
		Scenarios: []string{"page-reuse", "slub-2021-partial-cmpxchg-reused"},
	},
	{
		ID: "S5a", Year: 2022,
		System:    "a debug free that marks an object under its locks and links it under the next",
		Point:     "a validation in between reports and repairs what nobody damaged",
		Subjects:  []string{"slub-2022-debug-racy"},
		Checks:    []string{"false report: Left Redzone overwritten"},
		Scenarios: []string{"slub-2022-debug-racy-validate"},
	},
	{
		ID: "S5b", Year: 2022,
		System:    "the list lock from the check of a freed object to its link",
		Point:     "whoever holds the list lock sees an object free or in use",
		Subjects:  []string{"slub-2022-debug-locked"},
		Checks:    []string{"false report"},
		Scenarios: []string{"flush-and-validate", "debug-shrink-meets-validate"},
	},
	{
		ID: "S5c", Year: 2022,
		System:    "the number of slabs changes under the lock of the lists",
		Point:     "a validation counts as many slabs as are stored",
		Subjects:  []string{"slub-2022-debug-locked"},
		Checks:    []string{"guarded field touched without its guard", "false report"},
		Scenarios: []string{"debug-counters", "debug-shrink-meets-validate"},
		Bugs:      []string{"slub/slabs-counted-late", "slub/shrink-counts-late"},
	},
}

// Find returns a row by its name, nil when there is none.
func Find(id string) *Row {
	for i := range Table {
		if Table[i].ID == id {
			return &Table[i]
		}
	}
	return nil
}
