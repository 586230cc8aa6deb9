// Package races is the table of the historical races: for each row of the historical systems
// whose point is a schedule, a plain program, the design or the known bug that misbehaves under
// some schedule of it, and those that must not. A [Lab] lets the search of schedules prove it.
package races

// A Race is a program that shows a row, one way or the other.
type Race struct {
	Row     string // of the historical systems
	Subject string
	Patch   string // of corpus/bugs, built into it; "" for the design as it is
	Program string // committed, by path; its schedules are not used
	// Preemptions and Interrupts bound the search. What is to be found is found within them,
	// and nothing else is complete within them.
	Preemptions, Interrupts int
	// Step is the title by which the wrong step is found, "" where there is none that anybody
	// sees. Consequence is what it is found by with the checks of Off switched off, "" where
	// that is not demanded of this program.
	Step, Consequence string
	Off               Off
}

// Off are checks that are switched off so that a consequence has to show by itself.
type Off string

// The checks to switch off: those of steps, and with them those of the structure, which see a step
// that is about a freelist.
const (
	Steps     Off = "--checks=-step,-history"
	Structure Off = "--checks=-step,-structure,-history"
)

// Sound says whether nothing must be found.
func (r *Race) Sound() bool { return r.Step == "" && r.Consequence == "" }

const (
	seeds   = "corpus/seeds/"
	regress = "corpus/regress/"
	patched = "corpus/bugs/slub/"
)

// Table is every race, by row, the unsound first.
var Table = []Race{
	{"S2b (i)", "slub-2008-cmpxchg", "", seeds + "aba-interrupt.prog", 0, 1,
		"live object on a freelist", "object handed out twice", Structure},
	{"S2b (ii)", "slub-2008-cmpxchg", "", regress + "slub-2008-cmpxchg-empty-list.prog", 0, 1,
		"freelist leaves its slab", "free object lost", Steps},
	{"S2d (i)", "slub-2008-seq", "slub/seq-ones-task", seeds + "seq-two-bits-task.prog", 0, 1,
		"live object on a freelist", "object handed out twice", Structure},
	{"S2d (ii)", "slub-2008-seq", "slub/seq-ones-irq", seeds + "seq-two-bits-interrupt.prog", 0, 1,
		"live object on a freelist", "object handed out twice", Structure},
	{"S2d (iii)", "slub-2008-seq", "slub/seq-wrap-irq", seeds + "seq-two-bits-interrupt.prog", 0, 1,
		"live object on a freelist", "object handed out twice", Structure},
	{"S2d (iv)", "slub-2008-seq", "slub/seq-preempt", seeds + "seq-two-bits-preempt.prog", 1, 0,
		"live object on a freelist", "object handed out twice", Structure},
	{"S2e", "slub-2008-seq", "slub/same-base-alloc", seeds + "half-word-all-objects.prog", 0, 0,
		"freelist leaves its slab", "wild address", Structure},
	{"S2e", "slub-2008-seq", "slub/same-base-free", seeds + "half-word-all-objects.prog", 0, 0,
		"freelist leaves its slab", "wild address", Structure},
	{"S2e", "slub-2008-seq", "slub/reread-dropped", patched + "reread-dropped.prog", 0, 1,
		"wild address", "wild address", Structure},
	{"S2e", "slub-2008-seq", "slub/page-read-first", patched + "page-read-first.prog", 0, 1,
		"freelist leaves its slab", "free object lost", Steps},
	{"S2e", "slub-2008-seq", "slub/setter-does-not-count", patched + "setter-does-not-count.prog",
		0, 1, "freelist leaves its slab", "free object lost", Steps},
	{"S2e", "slub-2008-seq", "slub/base-from-low-half", patched + "base-from-low-half.prog", 0, 0,
		"freelist leaves its slab", "wild address", Structure},
	{"S2e", "slub-2008-seq", "slub/list-kept-at-deactivation", seeds + "shrink-all-objects.prog",
		0, 0, "freelist leaves its slab", "object handed out twice", Structure},
	{"S2f", "slub-2008-seq", "slub/cpu-before-pin", seeds + "pinned-too-late.prog", 2, 0,
		"per-CPU word written by another CPU", "object handed out twice", Steps},
	{"S3c", "slab-colour-unclamped", "", regress + "slab-colour-unclamped-two-cpus.prog", 2, 0,
		"colour out of range", "", ""},
	{"S3c", "slab-colour-unclamped", "", regress + "slab-colour-unclamped-no-room.prog", 2, 0,
		"colour out of range", "object outside its slab", Steps},
	{"S4a (a)", "slub-2021-partial-cmpxchg", "", regress + "slub-2021-partial-cmpxchg-counts.prog",
		0, 1, "stored count wrong", "", ""},
	{"S4a (b)", "slub-2021-partial-cmpxchg", "", regress + "slub-2021-partial-cmpxchg-reused.prog",
		1, 1, "page view not current", "", ""},
	{"S4a′", "slub-2021-partial-cmpxchg-irqson", "",
		regress + "slub-2021-partial-cmpxchg-irqson-pop.prog", 0, 1, "", "slab lost", Steps},
	{"S5a", "slub-2022-debug-racy", "", regress + "slub-2022-debug-racy-validate.prog", 1, 0,
		"", "false report: Left Redzone overwritten", Steps},

	sound("S2a", "slub-2008-irqsave", seeds+"aba-interrupt.prog"),
	sound("S2a", "slub-2008-irqsave", regress+"slub-2008-cmpxchg-empty-list.prog"),
	sound("S2c", "slub-2008-seq", seeds+"aba-interrupt.prog"),
	sound("S2c", "slub-2008-seq", regress+"slub-2008-cmpxchg-empty-list.prog"),
	sound("S2d", "slub-2008-seq", seeds+"seq-two-bits-task.prog"),
	sound("S2d", "slub-2008-seq", seeds+"seq-two-bits-interrupt.prog"),
	sound("S2d", "slub-2008-seq", seeds+"seq-two-bits-preempt.prog"),
	sound("S2e", "slub-2008-seq", patched+"reread-dropped.prog"),
	sound("S2f", "slub-2008-seq", patched+"cpu-before-pin.prog"),
	sound("S3a", "slab-colour-locked", regress+"slab-colour-unclamped-two-cpus.prog"),
	sound("S3b", "slab-colour-racy", regress+"slab-colour-unclamped-two-cpus.prog"),
	sound("S4b", "slub-2021-partial-irqsave", regress+"slub-2021-partial-cmpxchg-counts.prog"),
	sound("S4b", "slub-2021-partial-irqsave", regress+"slub-2021-partial-cmpxchg-irqson-pop.prog"),
	sound("S4b", "slub-2021-partial-irqsave", regress+"slub-2021-partial-cmpxchg-reused.prog"),
	sound("S4c", "slub-2021-partial-locallock", regress+"slub-2021-partial-cmpxchg-irqson-rt.prog"),
	sound("S5b", "slub-2022-debug-locked", regress+"slub-2022-debug-racy-validate.prog"),
}

// sound is a design that must be silent on a program, at two preemptions and one interrupt.
func sound(row, subject, program string) Race {
	return Race{Row: row, Subject: subject, Program: program, Preemptions: 2, Interrupts: 1}
}
