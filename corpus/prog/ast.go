package prog

// Pos is a place in a file, both numbers counted from 1; columns count bytes. The zero Pos means
// that the thing was made by a program and was never in a file.
type Pos struct{ Line, Col int }

// Program is a whole file. Parse makes one, Format prints one; Validate says whether one that was
// built in memory could be printed and read back.
//
// Comments are kept where they stand: a Doc slice holds comment lines with their "#", and the
// empty string for a blank line between them.
type Program struct {
	Doc     []string // comments before the machine line, or before the first item without one
	Head    Head     // what a regression file says about itself
	Machine Machine  // always complete: the defaults with the file's values over them
	DebugAt Pos      // first byte of the machine's debug options, for errors in them
	Caches  []Cache  // caches that exist from the start
	Tasks   []Task   // declared tasks; each cpuN has one of its own, not declared
	Lines   []Line   // the operations in file order
	Scheds  []Sched  // the schedule blocks in file order
	Tail    []string // comments after everything else
	File    string   // the name used in errors; not printed
}

// Head is the head of a regression file. Empty fields are not printed.
type Head struct {
	Title string // title of the expected finding; any text of one line
	Also  string // other titles that findings of the bug had, joined by "; "
	Class string // class of the bug, such as double-handout
	Found string // where or by what it was found
	Date  string // when, in the writer's own spelling
}

// Cache is a cache that exists before the first operation.
type Cache struct {
	Pos   Pos
	Doc   []string // comment lines above
	Blank bool     // one blank line above
	Name  string
	Spec  CacheSpec
}

// CacheSpec describes a cache, for the declaration and for the verb create. Fields where zero
// means something are NotGiven when the file does not set them; start from NewCacheSpec.
type CacheSpec struct {
	Size       int      // object size in bytes, 1 to MaxObject
	Align      int      // alignment in bytes, a power of two; 0: not given
	Flags      []string // words of CacheFlags, sorted, none twice
	Ctor       bool     // objects have a constructor
	Objects    int      // wanted objects a slab; 0: the allocator's own choice
	Order      int      // order of a slab; NotGiven: the allocator's own choice
	MinPartial int      // slabs kept on a node's partial list; NotGiven: the default
	CPUPartial int      // slabs or objects kept by a CPU; NotGiven: the default
	Limit      int      // objects in a per-CPU array; NotGiven: the default
	Batch      int      // objects moved at once to and from an array; NotGiven: the default
}

// NotGiven marks a CacheSpec field that the program leaves to the allocator.
const NotGiven = -1

// NewCacheSpec returns the description of a cache of which only the object size, in bytes, is
// given.
func NewCacheSpec(size int) CacheSpec {
	return CacheSpec{
		Size: size, Order: NotGiven, MinPartial: NotGiven, CPUPartial: NotGiven,
		Limit: NotGiven, Batch: NotGiven,
	}
}

// HasFlag reports whether the cache was declared with the given word of CacheFlags.
func (s *CacheSpec) HasFlag(word string) bool {
	for _, f := range s.Flags {
		if f == word {
			return true
		}
	}
	return false
}

// Task is a declared task: a thread of control that starts on a CPU and may be moved.
type Task struct {
	Pos   Pos
	Doc   []string // comment lines above
	Blank bool     // one blank line above
	Name  string
	CPU   int // where it starts, counted from 0
}

// Line is one operation, a repeat with its body, or a check.
type Line struct {
	Pos   Pos
	Doc   []string // comment lines above
	Blank bool     // one blank line above
	Label string   // name for anchors, "" when none
	Ctx   Ctx      // who runs it; the zero Ctx, which says nothing, for Check
	Verb  Verb     // index into Ops

	Results []string   // names bound, in order
	Cache   string     // cache operand, "" when none was given
	Slots   []string   // slot operands, in order
	Nums    []uint64   // positional numbers, in order: malloc 64, calloc 4 16, pages 2
	Region  string     // what a flip damages: "object", "slab.inuse", "cache.nr_slabs"
	KV      []KV       // options, sorted by key
	Spec    *CacheSpec // of create only
	Expect  []Expect   // stated outcomes, sorted by subject, the general one first
	Note    string     // text after ";": never compared

	Count int      // of a repeat: how many times the body runs
	Body  []Line   // of a repeat
	Tail  []string // of a repeat: comments above its closing brace
}

// Key returns the name that an anchor verb(name) uses for the line: the first result, else the
// first slot, else the cache, else "".
func (l *Line) Key() string {
	switch {
	case len(l.Results) > 0:
		return l.Results[0]
	case len(l.Slots) > 0:
		return l.Slots[0]
	}
	return l.Cache
}

// Num returns the number given with key, or def when the key is absent.
func (l *Line) Num(key string, def uint64) uint64 {
	for i := range l.KV {
		if l.KV[i].Key == key && l.KV[i].IsNum {
			return l.KV[i].Num
		}
	}
	return def
}

// HasFlag reports whether word is among the comma separated words of the line's flags key.
func (l *Line) HasFlag(word string) bool {
	for i := range l.KV {
		if l.KV[i].Key == "flags" {
			return hasWord(l.KV[i].Word, word)
		}
	}
	return false
}

// KV is one option of a line. A number is in Num with IsNum set; anything else is in Word, several
// words joined by commas, sorted.
type KV struct {
	Key   string
	Num   uint64
	Word  string
	IsNum bool
}

// Expect is a stated outcome of a line.
type Expect struct {
	Outcome Outcome
	Report  string // the title of the report, with Report only
	Subject string // the one subject it holds for, "" for all
}

// Outcome is the result of one operation as far as it is compared.
type Outcome uint8

// The outcomes, in the order of their spelling in Outcome.String.
const (
	OK          Outcome = iota // it did what was asked
	NoMem                      // refused for want of memory
	Unsupported                // outside the subject's capabilities
	Skipped                    // an operand was void or never bound
	Refused                    // the arguments were turned down
	Report                     // a debug report came
)

var outcomeNames = [...]string{"ok", "enomem", "unsupported", "skipped", "refused", "report"}

// Outcomes is the number of outcomes.
const Outcomes = len(outcomeNames)

// String returns the spelling used in a program.
func (o Outcome) String() string { return pick(outcomeNames[:], int(o)) }

// ParseOutcome returns the outcome spelled s.
func ParseOutcome(s string) (Outcome, bool) {
	i := indexOf(outcomeNames[:], s)
	return Outcome(max(i, 0)), i >= 0
}

// Sched is a schedule block: what differs from line order on one subject.
type Sched struct {
	Pos        Pos
	Doc        []string // comment lines above
	Blank      bool     // one blank line above
	Subject    string   // "" for a block of any subject
	Bug        string   // title of the expected finding, "" when none is expected
	Departures []Departure
}

// Departure is one decision that differs from line order, anchored to a point of a line.
type Departure struct {
	Pos     Pos
	Doc     []string // comment lines above
	Blank   bool     // one blank line above
	Where   Where
	Kind    Kind
	Field   string // "object.member", or "-" for a point without one
	N       int    // attempt: the N-th point of this kind and field in this execution, from 1
	Actions []Action
}

// Where names one execution of a line.
type Where struct {
	Pos      Pos
	IRQ      string  // "irq0" or "irq0.name" for a line of a handler, "" in a task
	Delivery int     // which delivery of the handler, from 1; 0 in a task
	Ref      LineRef // how the line is spelled
	Iter     []int   // iteration of each repeat around it, outermost first; nil: the first of all
	// Line, when set, wins over Ref: Format then chooses the spelling. It must point into the
	// program that is printed. Parse leaves it nil.
	Line *Line
}

// LineRef spells a line: either its label, or its verb and Key.
type LineRef struct {
	Label string
	Verb  Verb
	Name  string
}

// Action is what happens at an anchored point.
type Action struct {
	Kind ActionKind
	CPU  int    // of ToCPU, Move, DrainStore and Interrupt
	Name string // the task of ToTask, the handler's name part of Interrupt
}

// Ctx returns the context that the action switches to or delivers; ok is false for the others.
func (a Action) Ctx() (c Ctx, ok bool) {
	switch a.Kind {
	case ToCPU:
		return Ctx{Kind: CPUCtx, CPU: a.CPU}, true
	case ToTask:
		return Ctx{Kind: TaskCtx, Name: a.Name}, true
	case Interrupt:
		return Ctx{Kind: IRQCtx, CPU: a.CPU, Name: a.Name}, true
	}
	return Ctx{}, false
}

// ActionKind is the kind of an Action.
type ActionKind uint8

// The kinds of actions.
const (
	ToCPU      ActionKind = iota // switch to the CPU's own task
	ToTask                       // switch to a declared task
	Interrupt                    // deliver a handler here
	Move                         // move the running task to another CPU
	Fail                         // fail this page request
	None                         // a handler is not delivered
	HoldStore                    // this store stays in the CPU's store buffer
	DrainStore                   // the oldest store in a CPU's buffer takes effect
)

var actionNames = [...]string{"cpu", "task", "irq", "move", "fail", "none", "hold", "drain"}

// ActionKinds is the number of kinds of actions.
const ActionKinds = len(actionNames)

// String returns a word for the kind; Action is spelled by Format.
func (k ActionKind) String() string { return pick(actionNames[:], int(k)) }

// pick returns names[i], or "?" outside the table.
func pick(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "?"
}

// indexOf returns the place of s in names, or -1.
func indexOf(names []string, s string) int {
	for i, n := range names {
		if n == s {
			return i
		}
	}
	return -1
}

// hasWord reports whether word is one of the comma separated words of list.
func hasWord(list, word string) bool {
	for list != "" {
		w := list
		if i := indexByte(list, ','); i >= 0 {
			w, list = list[:i], list[i+1:]
		} else {
			list = ""
		}
		if w == word {
			return true
		}
	}
	return false
}

// kvs appends the options that are given, sorted by key.
func (s *CacheSpec) kvs(b []KV) []KV {
	if s.Align != 0 {
		b = appendNum(b, "align", s.Align)
	}
	b = appendGiven(b, "batch", s.Batch)
	b = appendGiven(b, "cpu_partial", s.CPUPartial)
	if s.Ctor {
		b = append(b, KV{Key: "ctor", Word: "on"})
	}
	if len(s.Flags) > 0 {
		b = append(b, KV{Key: "flags", Word: joinWords(s.Flags)})
	}
	b = appendGiven(b, "limit", s.Limit)
	b = appendGiven(b, "min_partial", s.MinPartial)
	if s.Objects != 0 {
		b = appendNum(b, "objects", s.Objects)
	}
	b = appendGiven(b, "order", s.Order)
	return appendNum(b, "size", s.Size)
}

func appendNum(b []KV, key string, n int) []KV {
	return append(b, KV{Key: key, Num: uint64(n), IsNum: true})
}

func appendGiven(b []KV, key string, n int) []KV {
	if n == NotGiven {
		return b
	}
	return appendNum(b, key, n)
}

func joinWords(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	n := 0
	for _, w := range words {
		n += len(w) + 1
	}
	b := make([]byte, 0, n)
	for i, w := range words {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, w...)
	}
	return string(b)
}

func splitWords(list string) []string {
	var words []string
	for {
		i := indexByte(list, ',')
		if i < 0 {
			return append(words, list)
		}
		words = append(words, list[:i])
		list = list[i+1:]
	}
}

// set takes one option over.
func (s *CacheSpec) set(kv *KV) {
	n := int(kv.Num)
	switch kv.Key {
	case "align":
		s.Align = n
	case "batch":
		s.Batch = n
	case "cpu_partial":
		s.CPUPartial = n
	case "ctor":
		s.Ctor = kv.Word == "on"
	case "flags":
		s.Flags = splitWords(kv.Word)
	case "limit":
		s.Limit = n
	case "min_partial":
		s.MinPartial = n
	case "objects":
		s.Objects = n
	case "order":
		s.Order = n
	case "size":
		s.Size = n
	}
}

// has reports whether an option is given.
func (s *CacheSpec) has(key string) bool {
	switch key {
	case "size":
		return s.Size != 0
	case "ctor":
		return s.Ctor
	}
	for _, kv := range s.kvs(nil) {
		if kv.Key == key {
			return true
		}
	}
	return false
}

// Check returns nil for a description that a program may hold, or an *Error without a position.
func (s *CacheSpec) Check() error {
	if e := s.check("cache"); e != nil {
		return e
	}
	return nil
}

func (s *CacheSpec) check(where string) *Error {
	kvs := s.kvs(nil)
	for i := range kvs {
		if e := checkKV(where, SpecKeys, &kvs[i]); e != nil {
			return e
		}
	}
	return nil
}
