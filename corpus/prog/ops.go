package prog

// This file is the one table of operations. Parser, printer and validator here, and the generator,
// the minimiser, the byte encoding and the documentation elsewhere, are driven by it: a new
// operation is a new constant and a new row.

// Verb is an operation; it is an index into Ops.
type Verb uint8

// The verbs, in the order of Ops.
const (
	Create Verb = iota
	Destroy
	Shrink
	Alloc
	Free
	AllocBulk
	FreeBulk
	Malloc
	Calloc
	Realloc
	Memalign
	Usable
	FreeSized
	Pages
	PagesFree
	Fill
	Verify
	Overrun
	Underrun
	WriteFreed
	FreeAgain
	FreeInside
	FreeForeign
	FreeWrong
	Flip
	ValidateCache
	Drain
	Flush
	Offline
	Tune
	Reap
	RCULock
	RCUUnlock
	Repeat
	Check

	Verbs int = iota // number of verbs
)

// Class groups the verbs.
type Class uint8

// The classes of verbs.
const (
	ClassCache   Class = iota // caches as a whole
	ClassAlloc                // binds objects of a cache
	ClassFree                 // gives memory back, of whatever kind
	ClassSize                 // sizes, as malloc has them
	ClassPage                 // pages
	ClassMemory               // contents
	ClassMisuse               // what a program must not do
	ClassControl              // the machine, the checks, the text itself
)

var classNames = [...]string{
	"cache", "alloc", "free", "size", "page", "memory", "misuse", "control",
}

// String returns a word for the class.
func (c Class) String() string { return pick(classNames[:], int(c)) }

// Many, as a number of results or slots, means one or more.
const Many = -1

// CacheUse says whether a verb takes a cache as its first operand.
type CacheUse uint8

// The uses of a cache operand.
const (
	NoCache   CacheUse = iota
	MayCache           // free c x is an object's, free p a size's
	NeedCache          // always there
)

// NumArg is one positional number of a verb.
type NumArg struct {
	Name     string // for messages and documentation
	Min, Max uint64
	Pow2     bool // must be a power of two
}

// KeyArg is one option of a verb. With Words it takes one or more of them, joined by commas, with
// Text a string in double quotes of at most so many bytes; otherwise a number from Min to Max.
type KeyArg struct {
	Name     string
	Min, Max uint64
	Pow2     bool
	Need     bool // must be given
	One      bool // exactly one of Words
	Words    []string
	Text     int
}

// Op is one row of the table; its index is the Verb.
type Op struct {
	Name    string // its spelling
	Class   Class
	Results int      // names bound: 0, 1 or Many
	Cache   CacheUse // leading cache operand
	Slots   int      // slot operands: 0, 1 or Many
	Nums    []NumArg // numbers after the names
	Keys    []KeyArg // options, sorted by name
	Spec    bool     // takes the options of a cache declaration (SpecKeys) too
	Nil     bool     // without a cache its slot may be Nil
	NoCtx   bool     // is not run by a context
	Doc     string   // one line
}

// Nil is the name of nothing, a slot whose address is 0. It is always bound and never to anything
// else.
const Nil = "nil"

// Limits of the numbers in a program.
const (
	MaxSize   = 1 << 47 // bytes in one request
	MaxObject = 1 << 30 // bytes in one object of a cache
	MaxOrder  = 20      // order of a page request
	MaxAlign  = 1 << 30 // alignment in bytes
	MaxRepeat = 1 << 24 // rounds of one repeat
	MaxBulk   = 4096    // names in a bulk operation
	MaxFail   = 1 << 20 // number of a page request, or of an object, in one line
	MaxNest   = 2       // repeats around a line
	MaxTasks  = 63      // tasks with lines; with preempt=rt handlers count too
	MaxN      = 1 << 30 // attempts, deliveries and iterations in an anchor
	MaxLine   = 64 << 10
)

// CacheFlags are the words of a cache's flags key: the debug options of SLUB by name (sanity is
// F, redzone Z, poison P, user U, trace T, failslab A) and the creation flags.
var CacheFlags = []string{
	"failslab", "hwalign", "nomerge", "panic", "poison", "rcu", "reclaim", "redzone", "sanity",
	"trace", "user",
}

// AllocFlags are the words of the flags key of verbs that allocate.
var AllocFlags = []string{"atomic", "zero"}

// FlipRegions are the parts of a slab and its objects that flip can damage through a live or
// freed object.
var FlipRegions = []string{
	"leftred", "object", "rightred", "freeptr", "alloctrack", "freetrack", "origsize", "padding",
	"slabpad", "slab.inuse", "slab.objects", "slab.frozen", "slab.freelist", "slab.cache",
}

// FlipCacheFields are the counters that flip can damage through a cache.
var FlipCacheFields = []string{"cache.nr_partial", "cache.nr_slabs"}

// SpecKeys are the options of a cache, for the declaration and for create, sorted by name.
var SpecKeys = []KeyArg{
	{Name: "align", Min: 1, Max: MaxAlign, Pow2: true},
	{Name: "batch", Min: 1, Max: 1 << 20},
	{Name: "cpu_partial", Max: 1 << 20},
	{Name: "ctor", One: true, Words: onOff},
	{Name: "flags", Words: CacheFlags},
	{Name: "limit", Max: 1 << 20},
	{Name: "min_partial", Max: 1 << 20},
	{Name: "objects", Min: 1, Max: 1 << 15},
	{Name: "order", Max: MaxOrder},
	{Name: "size", Min: 1, Max: MaxObject, Need: true},
}

var (
	failKey  = KeyArg{Name: "fail", Min: 1, Max: MaxFail}
	objKey   = KeyArg{Name: "failobj", Min: 1, Max: MaxFail}
	flagsKey = KeyArg{Name: "flags", Words: AllocFlags}

	tuneKeys = []KeyArg{
		{Name: "batch", Min: 1, Max: 1 << 20, Need: true},
		{Name: "limit", Max: 1 << 20, Need: true},
	}

	failKeys   = []KeyArg{failKey}
	pageKeys   = []KeyArg{failKey, flagsKey}
	allocKeys  = []KeyArg{failKey, objKey, flagsKey}
	callocKeys = []KeyArg{failKey, objKey}
	flipKeys   = []KeyArg{
		{Name: "bits", Min: 1, Max: 1<<64 - 1},
		{Name: "byte", Max: MaxSize},
	}

	sizeArg  = NumArg{Name: "size", Max: MaxSize}
	sizeArgs = []NumArg{sizeArg}
	overArgs = []NumArg{{Name: "bytes", Min: 1, Max: 1 << 16}}
)

// Ops is the table of operations, indexed by Verb.
var Ops = [...]Op{
	Create: {Name: "create", Class: ClassCache, Results: 1, Spec: true, Keys: failKeys,
		Doc: "makes a cache and binds its name"},
	Destroy: {Name: "destroy", Class: ClassCache, Cache: NeedCache,
		Doc: "gives an empty cache back; refused while objects live"},
	Shrink: {Name: "shrink", Class: ClassCache, Cache: NeedCache,
		Doc: "gives a cache's empty slabs back to the pages"},

	Alloc: {Name: "alloc", Class: ClassAlloc, Results: 1, Cache: NeedCache, Keys: allocKeys,
		Doc: "takes one object of a cache; flags=zero clears it, flags=atomic may not sleep"},
	Free: {Name: "free", Class: ClassFree, Cache: MayCache, Slots: 1, Nil: true,
		Doc: "gives back an object (with its cache) or an allocation by size (without)"},
	AllocBulk: {Name: "allocbulk", Class: ClassAlloc, Results: Many, Cache: NeedCache,
		Keys: allocKeys, Doc: "takes as many objects as names are bound, all or none"},
	FreeBulk: {Name: "freebulk", Class: ClassFree, Cache: NeedCache, Slots: Many,
		Doc: "gives several objects of a cache back at once"},

	Malloc: {Name: "malloc", Class: ClassSize, Results: 1, Nums: sizeArgs, Keys: allocKeys,
		Doc: "allocates by size in bytes"},
	Calloc: {Name: "calloc", Class: ClassSize, Results: 1, Keys: callocKeys,
		Nums: []NumArg{{Name: "count", Max: MaxSize}, sizeArg},
		Doc:  "allocates count times size bytes, all zero"},
	Realloc: {Name: "realloc", Class: ClassSize, Results: 1, Slots: 1, Nums: sizeArgs,
		Nil: true, Keys: allocKeys,
		Doc: "moves an allocation to a new size, keeping the common prefix; flags=zero clears " +
			"what is added"},
	Memalign: {Name: "memalign", Class: ClassSize, Results: 1, Keys: allocKeys,
		Nums: []NumArg{
			{Name: "alignment", Min: 1, Max: MaxAlign, Pow2: true},
			sizeArg,
		},
		Doc: "allocates size bytes at a multiple of alignment"},
	Usable: {Name: "usable", Class: ClassSize, Slots: 1, Nil: true,
		Doc: "asks how many bytes of an allocation may be used"},
	FreeSized: {Name: "freesized", Class: ClassFree, Slots: 1, Nums: sizeArgs, Nil: true,
		Doc: "gives an allocation back and states its size"},

	Pages: {Name: "pages", Class: ClassPage, Results: 1, Keys: pageKeys,
		Nums: []NumArg{{Name: "order", Max: MaxOrder}},
		Doc:  "takes 2 to the power of order pages in one piece"},
	PagesFree: {Name: "pagesfree", Class: ClassFree, Slots: 1,
		Doc: "gives pages back"},

	Fill: {Name: "fill", Class: ClassMemory, Slots: 1,
		Doc: "writes the owner's pattern over a whole allocation"},
	Verify: {Name: "verify", Class: ClassMemory, Slots: 1,
		Doc: "compares an allocation with its owner's pattern"},

	Overrun: {Name: "overrun", Class: ClassMisuse, Slots: 1, Nums: overArgs,
		Doc: "writes past the end of an allocation"},
	Underrun: {Name: "underrun", Class: ClassMisuse, Slots: 1, Nums: overArgs,
		Doc: "writes in front of an allocation"},
	WriteFreed: {Name: "writefreed", Class: ClassMisuse, Slots: 1,
		Doc: "writes to an allocation that was given back"},
	FreeAgain: {Name: "freeagain", Class: ClassMisuse, Cache: MayCache, Slots: 1,
		Doc: "gives back what was given back already"},
	FreeInside: {Name: "freeinside", Class: ClassMisuse, Cache: MayCache, Slots: 1,
		Nums: []NumArg{{Name: "offset", Min: 1, Max: MaxObject}},
		Doc:  "gives back an address inside an allocation, offset bytes from its start"},
	FreeForeign: {Name: "freeforeign", Class: ClassMisuse, Cache: MayCache, Slots: 1,
		Doc: "gives an allocator an address that it never handed out"},
	FreeWrong: {Name: "freewrong", Class: ClassMisuse, Cache: NeedCache, Slots: 1,
		Doc: "gives an object of another cache to the named one"},
	Flip: {Name: "flip", Class: ClassMisuse, Cache: MayCache, Slots: 1, Keys: flipKeys,
		Doc: "inverts bits of a region: flip REGION of x, slab.FIELD of x, cache.FIELD c"},

	ValidateCache: {Name: "validate", Class: ClassControl, Cache: NeedCache,
		Doc: "runs the debug checks over a whole cache"},
	Drain: {Name: "drain", Class: ClassControl,
		Doc: "gives back what is held for CPUs, down to the pools of pages"},
	Flush: {Name: "flush", Class: ClassControl, Cache: NeedCache,
		Doc: "empties a cache's per-CPU state on every CPU"},
	Offline: {Name: "offline", Class: ClassControl,
		Keys: []KeyArg{{Name: "cpu", Max: MaxCPUs - 1, Need: true}},
		Doc:  "takes a CPU out of use and gives back what it held; the next use brings it back"},
	Tune: {Name: "tune", Class: ClassCache, Cache: NeedCache, Keys: tuneKeys,
		Doc: "gives the per-CPU arrays of a cache other bounds"},
	Reap: {Name: "reap", Class: ClassControl,
		Doc: "says that memory is short: caches give some empty slabs back"},
	RCULock: {Name: "rculock", Class: ClassControl,
		Doc: "begins a read section: pages of caches with flags=rcu stay theirs meanwhile"},
	RCUUnlock: {Name: "rcuunlock", Class: ClassControl,
		Doc: "ends a read section of this context"},
	Repeat: {Name: "repeat", Class: ClassControl,
		Doc: "runs its body a number of times"},
	Check: {Name: "check", Class: ClassControl, NoCtx: true,
		Doc: "waits for everybody, then runs the structural checks"},
}

// Op returns the row of the verb. A verb outside the table is a fault of the caller.
func (v Verb) Op() *Op {
	if int(v) >= len(Ops) {
		panic("allocfuzz: no such verb")
	}
	return &Ops[v]
}

// String returns the spelling used in a program.
func (v Verb) String() string {
	if int(v) < len(Ops) {
		return Ops[v].Name
	}
	return "?"
}

// ParseVerb returns the verb spelled s.
func ParseVerb(s string) (Verb, bool) {
	v, ok := verbs[s]
	return v, ok
}

var verbs = verbIndex()

func verbIndex() map[string]Verb {
	m := make(map[string]Verb, len(Ops))
	for i := range Ops {
		m[Ops[i].Name] = Verb(i)
	}
	return m
}
