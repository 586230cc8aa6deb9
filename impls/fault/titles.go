package fault

import "strings"

// Titles of the machine: steps that are wrong whatever comes of them.
const (
	Unguarded     Title = "guarded field touched without its guard"
	StaleView     Title = "page view not current"
	ForeignPerCPU Title = "per-CPU word written by another CPU"
	DataRace      Title = "data race"
	LockOrder     Title = "lock order cycle"
	LockIRQ       Title = "lock taken in interrupts and with them on"
	Sleeping      Title = "sleeping where forbidden"
	CallIRQOff    Title = "cross-CPU call with interrupts off"
	WildAddress   Title = "wild address"
	NoProgress    Title = "no progress"
	Deadlock      Title = "deadlock"
	StateLeaked   Title = "lock or interrupt state not restored"
	PageLocked    Title = "page freed with its lock held"
)

// Titles of check 1, ownership.
const (
	TwiceOut        Title = "object handed out twice"
	Overlap         Title = "object overlaps a live object"
	Misaligned      Title = "object misaligned"
	OutsideSlab     Title = "object outside its slab"
	OutsideArena    Title = "object outside the arena"
	UsableTooSmall  Title = "usable size below the request"
	RefusedNoReason Title = "refused without reason"
	OverflowServed  Title = "count times size served though it overflows"
	ErrnoWrong      Title = "no memory without an error"
	UsableUnlike    Title = "usable size unlike the size promised"
	ReadReuse       Title = "page reused inside a read section"
)

// Titles of check 2, contents.
const (
	ContentsChanged Title = "contents changed"
	NotZeroed       Title = "not zeroed"
	CtorLost        Title = "constructor state lost"
	PrefixLost      Title = "prefix lost at realloc"
	FreshUnmarked   Title = "fresh object not poisoned"
)

// Titles of check 3, reports: each is followed by the report's own title.
const (
	MissedMisuse Title = "missed misuse"
	FalseReport  Title = "false report"
	WrongReport  Title = "wrong report"
	WrongRepair  Title = "wrong repair"
)

// Titles of check 4, structure.
const (
	LiveOnFreelist Title = "live object on a freelist"
	FreeLost       Title = "free object lost"
	FreeTwice      Title = "free object on two lists"
	FreelistCycle  Title = "freelist cycle"
	FreelistLeaves Title = "freelist leaves its slab"
	InuseWrong     Title = "inuse wrong"
	SlabTwice      Title = "slab on two lists"
	SlabLost       Title = "slab lost"
	ListOrder      Title = "list order broken"
	CountWrong     Title = "stored count wrong"
	ColourRange    Title = "colour out of range"
	ReuseOrder     Title = "reuse order broken"
	PagesLeaked    Title = "pages leaked"
	Footprint      Title = "footprint unbounded"
	BuddiesApart   Title = "free buddies left unjoined"
	PoolLimit      Title = "pool limit broken"
	ArrayLimit     Title = "array limit broken"
	ReapWrong      Title = "reap answer wrong"
	OffSlabLimit   Title = "off-slab limit broken"
	FreeSlabKept   Title = "free slab kept by shrink"
	HeldOn         Title = "held after flush"
	WrongLayout    Title = "wrong layout"
	OutOfTurn      Title = "quarantine left out of turn"
)

// Titles of check 5, difference, and of check 6, history.
const (
	OutcomesDiffer   Title = "outcomes differ"
	PairDiffers      Title = "pair differs"
	NonDeterministic Title = "not deterministic"
	NotLinearizable  Title = "history not linearizable"
)

// Titles of the process: how a subject ended that should have gone on.
const (
	Killed       Title = "killed by a signal"
	Aborted      Title = "aborted"
	Exited       Title = "exited"
	Hung         Title = "hung"
	MemoryBlowUp Title = "memory blow-up"
)

// An Entry is one row of the table of titles.
type Entry struct {
	Title Title
	Rule  Rule
	Means string // one sentence for the person who meets it
}

// table lists every title once. Reports, documentation and the validator of
// expected findings read it.
var table = []Entry{
	{Unguarded, Step,
		"a field declared guarded was touched while its lock was not held or interrupts were on"},
	{StaleView, Step,
		"words of a page descriptor were read as something that the page is no longer used as"},
	{ForeignPerCPU, Step, "a CPU wrote a per-CPU word of another CPU outside a declared protocol"},
	{DataRace, Step,
		"two contexts touched a plain field, one writing, with nothing ordering them"},
	{LockOrder, Step,
		"locks are taken in a circle of orders, so CPUs can wait for each other"},
	{LockIRQ, Step,
		"a lock is taken in interrupts and also with them on, so a CPU can wait for itself, " +
			"or inside one that interrupts take, so two can wait for each other"},
	{Sleeping, Step, "something that may sleep was done where sleeping is forbidden"},
	{CallIRQOff, Step,
		"a cross-CPU call with interrupts off or a spin lock held: two CPUs can wait for ever"},
	{WildAddress, Step, "an access fell outside the arena or across its end"},
	{NoProgress, Step, "an operation passed its limit of steps"},
	{Deadlock, Step, "nothing can run and something still waits"},
	{StateLeaked, Step,
		"an operation ended with a lock held, interrupts off or preemption disabled"},
	{PageLocked, Step,
		"pages went back while somebody held the lock that is in their descriptor"},
	{TwiceOut, Ownership, "an allocation returned the address of an object that is still live"},
	{Overlap, Ownership, "an allocation returned a range that overlaps a live one"},
	{Misaligned, Ownership, "an address does not have the alignment asked for"},
	{OutsideSlab, Ownership, "an object is not at a place of an object of its slab"},
	{OutsideArena, Ownership, "an object lies outside the memory of the machine"},
	{UsableTooSmall, Ownership, "usable size is smaller than what was asked for"},
	{RefusedNoReason, Ownership,
		"no memory, though no page request was refused and no stated limit reached"},
	{OverflowServed, Ownership,
		"calloc handed memory out for more bytes than a number can hold"},
	{ErrnoWrong, Ownership, "a request failed and left no error in errno"},
	{UsableUnlike, Ownership,
		"the library says that it gives another number of bytes for a size than it gave"},
	{ReadReuse, Ownership,
		"memory of a freed object that a reader may still look at became something else"},
	{ContentsChanged, Contents, "bytes of a live object changed without its owner"},
	{NotZeroed, Contents, "memory that was promised zeroed is not"},
	{CtorLost, Contents, "an object was handed out without its constructor's state"},
	{PrefixLost, Contents, "realloc lost the bytes that both sizes share"},
	{FreshUnmarked, Contents,
		"an object was handed out without the bytes that its debug flags put in it and around it"},
	{MissedMisuse, Reports, "a misuse that the rules detect was not reported"},
	{FalseReport, Reports, "a report was made though nothing was misused"},
	{WrongReport, Reports,
		"a misuse was reported under another title, object or moment than the rules say"},
	{WrongRepair, Reports, "a repair left other bytes than the rules say"},
	{LiveOnFreelist, Structure,
		"a freelist holds an object that is live, so it will be handed out again"},
	{FreeLost, Structure, "a free object is on no freelist, so it will never be handed out"},
	{FreeTwice, Structure, "a free object is on two freelists"},
	{FreelistCycle, Structure, "a freelist runs into itself"},
	{FreelistLeaves, Structure, "a freelist holds something that is no object of its slab"},
	{InuseWrong, Structure, "a slab's count of used objects is not the number that are in use"},
	{SlabTwice, Structure, "a slab is on two lists or belongs to two CPUs"},
	{SlabLost, Structure, "a slab with free objects is on no list and belongs to no CPU"},
	{ListOrder, Structure,
		"a slab is on a list, or at a place of one, for slabs of another fullness"},
	{CountWrong, Structure, "a stored counter differs from what it counts"},
	{ColourRange, Structure, "a slab's colour is outside the cache's range"},
	{ReuseOrder, Structure, "an object was not reused in the order that the design promises"},
	{PagesLeaked, Structure, "pages that nobody uses are not free, or a drain did not free them"},
	{Footprint, Structure, "memory grew without bound under a steady load"},
	{BuddiesApart, Structure,
		"two free blocks of pages that should have been joined lie side by side"},
	{PoolLimit, Structure, "a CPU's pool holds more pages than its design allows"},
	{ArrayLimit, Structure,
		"a CPU's array holds more objects than its limit, or has other bounds than it was given"},
	{ReapWrong, Structure,
		"reap says that it gave back another number of pages than came back"},
	{OffSlabLimit, Structure,
		"a slab keeps more objects off the slab than its management can describe"},
	{FreeSlabKept, Structure, "a slab with no object in use is there after shrink or destroy"},
	{HeldOn, Structure,
		"a CPU still has a slab, objects or pages that a flush, other bounds of its arrays or " +
			"its going out of use give back"},
	{WrongLayout, Structure,
		"what lies around the objects of a cache is not where its debug flags put it"},
	{OutOfTurn, Structure,
		"a freed object left the quarantine of a guard too early, too late or not in its turn"},
	{OutcomesDiffer, Difference,
		"the same operation had another outcome than the model or the other subjects say"},
	{PairDiffers, Difference, "two variants that must behave the same did not"},
	{NonDeterministic, Difference,
		"the same program, subject and decisions gave two different traces"},
	{NotLinearizable, History, "allocations and frees of an address do not alternate in real time"},
	{Killed, Process, "the subject's process died of a signal"},
	{Aborted, Process, "the subject aborted itself"},
	{Exited, Process, "the subject's process ended by itself"},
	{Hung, Process, "the subject did not answer in time"},
	{MemoryBlowUp, Process, "the subject used far more memory than was live"},
}

// Titles returns the table in order. The caller may keep it, not change it.
func Titles() []Entry { return table }

// Lookup finds the entry of a title. The titles of check 3 carry the report's
// own title after a colon and are found by what stands before it.
func Lookup(t Title) (Entry, bool) {
	head, _, _ := strings.Cut(string(t), ": ")
	for _, e := range table {
		if e.Title == t || (e.Rule == Reports && string(e.Title) == head) {
			return e, true
		}
	}
	return Entry{}, false
}
