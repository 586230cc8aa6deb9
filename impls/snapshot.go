package impls

// A Snapshot is the state of a subject at a quiet point, as it was found by
// walking its own structures. It is reused: Reset keeps the storage.
type Snapshot struct {
	Caches []CacheState
	Slabs  []SlabState
	Arrays []Array
	Counts []Count
	// PagesTotal and PagesFree are the page layer's own figures. Pages in pools are among
	// the free ones.
	PagesTotal, PagesFree int
	// TopOrder is the largest order of a block, 0 when the page layer shows nothing more.
	// Blocks are the free blocks on its lists and Pools what it holds for single CPUs.
	TopOrder int
	Blocks   []Block
	Pools    []Pool
	// Waiting are the blocks of slabs that are no more and whose pages read sections keep.
	Waiting []Block
}

// A Block is a free block of 1<<Order pages.
type Block struct {
	Page  int // number of its first page
	Order int
}

// A Pool is the single free pages that the page layer holds for one CPU, which is the
// only one that can have them.
type Pool struct {
	CPU   int
	Pages []int // numbers in the order of its list: the first was given back last
	Keep  int   // requests that may sleep leave so many
	Max   int   // it may hold so many
}

// An Array is the free objects that a cache holds for one CPU, which is the only one that
// can have them. Each of them is in CPUFree of its slab, too.
type Array struct {
	Cache   int // index in Caches
	CPU     int
	Avail   int    // as stored: how many there are
	Limit   int    // it may hold so many; 0: there is no array
	Batch   int    // so many move at once
	Objects []Addr // from the one that was freed first
}

// A CacheState is one cache.
type CacheState struct {
	Name       string
	Handle     Cache  // the cache itself
	Size       uint64 // bytes of an object
	Stride     uint64 // distance of two objects
	Align      uint64
	LinkOffset uint64 // where a free object keeps its link
	Dead       bool   // destroyed
	FullLists  bool   // every slab is on a list, and the lists are strict: SLAB
	// Ordered says that the slabs are on one list, ListAny: first the full ones, then
	// those with some objects free, then those with all. FirstNotFull is the page of
	// the first that is not full as the cache stores it, -1 for none.
	Ordered      bool
	FirstNotFull int
	Moves        int // of slabs off a list since the cache was made, 0 where nobody counts
	Shrinks      ShrinkAnswer
	// OffSlab says that its slabs are described in objects of Manager, each of which may
	// so have up to Limit objects. The objects of an Internal cache are for the allocator
	// itself: every one in use describes a slab.
	OffSlab  bool
	Manager  Cache
	Limit    int
	Internal bool
	// Bounded says that the design bounds what the cache keeps. With FullLists free slabs
	// stay, and up to PerCPU objects are held for each CPU. Otherwise its node keeps at
	// most Spare slabs all of whose objects are free, and each CPU has at most Store slabs
	// on its partial list.
	Bounded              bool
	PerCPU, Spare, Store int
}

// A ShrinkAnswer is what a cache promises to answer to shrink.
type ShrinkAnswer uint8

// The answers.
const (
	AnswersAnything ShrinkAnswer = iota // nothing is promised
	AnswersRemains                      // 1 when slabs remain, else 0
	AnswersPages                        // how many pages were given back
)

// A SlabState is one slab that exists: from its page allocation until its pages
// went back. A family keeps a list of them beside its own lists, so that a lost
// one still shows.
type SlabState struct {
	Cache   int // index in Caches
	Page    int // number of its first page
	Order   int
	Addr    Addr
	First   Addr // first object
	Objects int
	Inuse   int // as stored
	Frozen  bool
	Retired bool // a debug check failed: on no list, and its free objects are given up
	Colour  int  // -1 without colouring
	Colours int  // legal colours are below it, 0 counts as 1
	Manager Addr // of an OffSlab cache: what describes it begins there
	Managed int  // … and has so many bytes
	On      []Place
	Free    []Addr // its own freelist in order
	FreeEnd FreeEnd
	CPUFree []Addr // its objects on a CPU's freelist or array, in order
	CPUEnd  FreeEnd
}

// A FreeEnd says how the walk of a freelist ended.
type FreeEnd uint8

// The ends of a walk.
const (
	EndOK     FreeEnd = iota // at the end marker
	EndLeaves                // at something that is no object of the slab: the last entry
	EndCycle                 // after more steps than the slab has objects
)

// PlaceKind is what a slab is on.
type PlaceKind uint8

// The places of a slab.
const (
	OnList       PlaceKind = iota // a list of its cache or node
	OnCPU                         // the slab of a CPU
	OnCPUPartial                  // a CPU's partial list
)

// A Place is one place where a slab was found.
type Place struct {
	Kind PlaceKind
	List ListKind // OnList
	CPU  int      // OnCPU, OnCPUPartial
	At   int      // position in the list, from 0
}

// ListKind is which list, and so what fullness its slabs must have.
type ListKind uint8

// The lists.
const (
	ListPartial ListKind = iota // some objects free, some in use (SLUB: may be all free)
	ListFull                    // none free
	ListFree                    // all free
	ListAny                     // one list in an order of its own
)

var listNames = [...]string{"partial", "full", "free", "ordered"}

// String is the word for the list.
func (k ListKind) String() string { return listNames[k] }

// A Count is a stored counter beside what it counts.
type Count struct {
	Name    string
	Stored  int
	Counted int
}

// Reset empties the snapshot.
func (s *Snapshot) Reset() {
	s.Caches, s.Counts = s.Caches[:0], s.Counts[:0]
	s.Slabs, s.Arrays = s.Slabs[:0], s.Arrays[:0]
	s.PagesTotal, s.PagesFree, s.TopOrder = 0, 0, 0
	s.Blocks, s.Pools, s.Waiting = s.Blocks[:0], s.Pools[:0], s.Waiting[:0]
}

// extend makes a list one element longer, with what its storage held there.
func extend[T any](list []T) ([]T, *T) {
	if len(list) < cap(list) {
		list = list[:len(list)+1]
	} else {
		list = append(list, *new(T))
	}
	return list, &list[len(list)-1]
}

// AddPool adds the pool of a CPU and returns it for filling in, empty but with its
// storage kept.
func (s *Snapshot) AddPool(cpu int) (p *Pool) {
	s.Pools, p = extend(s.Pools)
	*p = Pool{CPU: cpu, Pages: p.Pages[:0]}
	return p
}

// AddArray adds the array of a cache for a CPU and returns it for filling in, empty but
// with its storage kept.
func (s *Snapshot) AddArray(cache, cpu int) (a *Array) {
	s.Arrays, a = extend(s.Arrays)
	*a = Array{Cache: cache, CPU: cpu, Objects: a.Objects[:0]}
	return a
}

// AddSlab adds a slab and returns it for filling in, with its slices empty but
// their storage kept.
func (s *Snapshot) AddSlab() (b *SlabState) {
	s.Slabs, b = extend(s.Slabs)
	*b = SlabState{On: b.On[:0], Free: b.Free[:0], CPUFree: b.CPUFree[:0], Colour: -1}
	return b
}

// SlabOf finds the slab whose memory holds a; nil when none does.
func (s *Snapshot) SlabOf(pageSize uint64, a Addr) *SlabState {
	for i := range s.Slabs {
		b := &s.Slabs[i]
		if a >= b.Addr && a-b.Addr < pageSize<<uint(b.Order) {
			return b
		}
	}
	return nil
}

// Holds says whether a is the address of an object of b, stride bytes apart.
func (b *SlabState) Holds(a Addr, stride uint64) bool {
	if a < b.First || stride == 0 {
		return false
	}
	d := a - b.First
	return d%stride == 0 && d/stride < uint64(b.Objects)
}

// A Word is a word that a subject keeps for one CPU, as it is stored, for pictures.
type Word struct {
	Cache int // index in Snapshot.Caches
	CPU   int
	Name  string // of its field, such as cpu_slab.freelist
	Value uint64
	Parts []WordPart // what it is made of, the upper part first; nil for a plain word
	Page  bool       // the value is a page's number with 1 added, 0 for none
}

// A WordPart is some bits of a word.
type WordPart struct {
	Name  string
	Value uint64
}

// A WordShower is an instance that shows the words that it keeps for CPUs. It is a look from
// outside and no step.
type WordShower interface{ Words() []Word }
