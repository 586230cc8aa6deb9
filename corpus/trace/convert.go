package trace

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"allocfuzz/corpus/prog"
)

// movesMax bounds the reallocs of which only the first half was seen: one a thread of the recorded
// program.
const movesMax = 256

// errLimit ends an import at Options.Limit. It never leaves the package.
var errLimit = errors.New("limit reached")

// An object is one that is live in the recording.
type object struct {
	name  uint32 // noName when it is from before the slice
	line  int    // where it was allocated
	size  uint64
	cache *Cache // nil when it was asked for by size
}

// A move is a realloc between its two lines. Its object has no id: the address it had may already
// be another object's.
type move struct {
	mate  uint64
	old   uint64
	line  int
	known bool
	obj   object
}

// A converter turns events into program lines.
type converter struct {
	emit     func(*prog.Line) error
	limit    int
	from     int // the first operation of the slice
	to       int // the last one; 0 is no end
	seen     int // operations so far, those before the slice included
	res      *Result
	use      footprint
	live     map[uint64]object
	moves    []move // the latest last
	free     []uint32
	names    []string // by number
	line     prog.Line
	irqs     [prog.MaxCPUs]int // handlers of each CPU so far
	handlers int               // so far
	folded   bool              // a CPU that no machine has was seen
	level    uint8             // of the interrupt that line.Ctx is
	nums     []uint64
	note     string // of the latest skip that had one
}

func newConverter(opt *Options, res *Result) *converter {
	c := &converter{
		emit: opt.Emit, limit: opt.Limit, from: opt.From, to: opt.To, res: res,
		live: make(map[uint64]object),
	}
	c.line.Ctx = prog.Ctx{Kind: prog.CPUCtx}
	return c
}

// apply converts one event. It returns the error of the emit function, or errLimit.
func (c *converter) apply(ev *Event) error {
	if ev.Kind != Skipped {
		c.context(ev)
	}
	switch ev.Kind {
	case Skipped:
		c.skip(ev.Skip, ev.Line, ev.Note)
		return nil
	case Malloc, Calloc, Memalign:
		return c.alloc(ev)
	case Free:
		return c.release(ev)
	case Realloc:
		return c.resize(ev)
	case MoveFrom:
		c.moveFrom(ev.ID, ev)
		return nil
	case MoveTo:
		return c.moveTo(ev)
	}
	panic(fmt.Sprintf("allocfuzz: trace: event of unknown kind %d", ev.Kind))
}

// context is that of an event. What interrupts of one kind do on one CPU without an operation of
// another context between is one handler; each has a name of its own. So a handler's body, which
// is delivered at the place of its first line, never passes an operation that it may depend on.
func (c *converter) context(ev *Event) {
	cpu := int(ev.CPU)
	if cpu >= prog.MaxCPUs {
		if !c.folded {
			c.res.warn(ev.Line, fmt.Sprintf("CPU %d is above the %d of the largest machine; it "+
				"and those above become lower ones", cpu, prog.MaxCPUs))
		}
		c.folded = true
		cpu %= prog.MaxCPUs
	}
	c.res.CPUs = max(c.res.CPUs, cpu+1)
	x := &c.line.Ctx
	if ev.IRQ == 0 {
		*x = prog.Ctx{Kind: prog.CPUCtx, CPU: cpu}
		return
	}
	if x.Kind == prog.IRQCtx && x.CPU == cpu && c.level == ev.IRQ {
		return
	}
	if c.handlers == handlersMax {
		c.skip(Handlers, ev.Line, "")
		*x = prog.Ctx{Kind: prog.CPUCtx, CPU: cpu}
		return
	}
	c.level = ev.IRQ
	if c.seen+1 >= c.from { // else it is before the slice
		c.handlers++
	}
	c.irqs[cpu]++
	*x = prog.Ctx{Kind: prog.IRQCtx, CPU: cpu, Name: handlerName(c.irqs[cpu])}
}

// handlersMax is how many handlers a program may have that is to be replayed, where contexts have
// numbers of one byte; what interrupts do beyond them becomes what tasks do.
const handlersMax = 255 - prog.MaxCPUs

// handlerName makes the name of the n-th handler of a CPU.
func handlerName(n int) string {
	var b [20]byte
	return string(strconv.AppendInt(append(b[:0], 'k'), int64(n), 10))
}

// alloc converts a new object.
func (c *converter) alloc(ev *Event) error {
	if ev.ID == 0 {
		c.skip(Failed, ev.Line, "")
		return nil
	}
	verb, nums := c.request(ev)
	size, fit := total(ev, verb, nums)
	if !fit {
		c.skip(Unfit, ev.Line, unfitNote(verb, nums))
		return nil
	}
	if err := c.displace(ev); err != nil {
		return err
	}
	return c.bind(ev, verb, object{line: ev.Line, size: size, cache: ev.Cache}, nil)
}

// bind makes obj the object at the event's place, by the operation verb and the numbers of the
// latest request; old is the one that it was before, of a realloc.
func (c *converter) bind(ev *Event, verb prog.Verb, obj object, old *object) error {
	inside, err := c.step()
	if err != nil {
		return err
	}
	obj.name = noName
	if inside {
		operand := noName
		if old != nil {
			operand = old.name
		}
		if verb == prog.Realloc && operand == noName {
			c.skip(BeforeSlice, ev.Line, "")
			verb = prog.Malloc
		}
		obj.name = c.takeName()
		if err := c.put(verb, obj, operand); err != nil {
			return err
		}
		c.use.add(obj.size)
	}
	c.live[ev.ID] = obj
	if old != nil {
		c.forget(*old)
	}
	return nil
}

// step counts an operation, and tells whether it is inside the slice; errLimit is behind it.
func (c *converter) step() (inside bool, err error) {
	if c.to > 0 && c.seen == c.to {
		return false, errLimit
	}
	c.seen++
	return c.seen >= c.from, nil
}

// request returns the operation that makes a new object, and its numbers, which are valid until the
// next one.
func (c *converter) request(ev *Event) (prog.Verb, []uint64) {
	verb := prog.Malloc
	c.nums = c.nums[:0]
	switch {
	case ev.Cache != nil:
		return prog.Alloc, c.nums
	case ev.Kind == Calloc:
		verb, c.nums = prog.Calloc, append(c.nums, ev.Count)
	case ev.Kind == Memalign:
		verb, c.nums = prog.Memalign, append(c.nums, ev.Align)
	case ev.Kind == MoveTo:
		verb = prog.Realloc
	}
	c.nums = append(c.nums, ev.Size)
	return verb, c.nums
}

// total returns the bytes that an operation asks for, and whether a program can hold its numbers.
func total(ev *Event, verb prog.Verb, nums []uint64) (size uint64, fit bool) {
	if verb == prog.Alloc {
		return ev.Cache.Size, ev.Cache.Size-1 < prog.MaxObject
	}
	for i, arg := range verb.Op().Nums {
		n := nums[i]
		if n < arg.Min || n > arg.Max || arg.Pow2 && n&(n-1) != 0 {
			return 0, false
		}
	}
	size = ev.Size
	if verb == prog.Calloc {
		var over uint64
		if over, size = bits.Mul64(ev.Count, ev.Size); over != 0 {
			return 0, false
		}
	}
	return size, size <= prog.MaxSize
}

func unfitNote(verb prog.Verb, nums []uint64) string {
	return fmt.Sprintf("%v of %d does not fit a program; expected at most %d bytes and an "+
		"alignment that is a power of two", verb, nums, uint64(prog.MaxSize))
}

// displace frees the object that is live at the place of a new one. The recorded allocator cannot
// have handed out the place twice: the trace lost the free, or shows it late.
func (c *converter) displace(ev *Event) error {
	obj, found := c.live[ev.ID]
	if !found {
		return nil
	}
	if c.res.Skipped[Lost]++; !c.res.full() {
		c.res.warn(ev.Line, fmt.Sprintf("%#x allocated again while live since line %d; its free "+
			"is lost, so it is freed first", ev.ID, obj.line))
	} else {
		c.res.WarningsMore++
	}
	return c.drop(ev.ID, obj)
}

// release converts a free.
func (c *converter) release(ev *Event) error {
	obj, found := c.live[ev.ID]
	switch {
	case ev.ID == 0:
		c.skip(Null, ev.Line, "")
		return nil
	case !found:
		c.skip(UnknownObject, ev.Line, "")
		return nil
	}
	return c.drop(ev.ID, obj)
}

// drop frees a live object.
func (c *converter) drop(id uint64, obj object) error {
	if err := c.end(obj); err != nil {
		return err
	}
	delete(c.live, id)
	return nil
}

// end frees an object that is in no place any more.
func (c *converter) end(obj object) error {
	inside, err := c.step()
	switch {
	case err != nil:
		return err
	case inside && obj.name == noName:
		c.res.Skipped[BeforeSlice]++
	case inside:
		if err := c.put(prog.Free, object{name: noName, cache: obj.cache}, obj.name); err != nil {
			return err
		}
	}
	c.forget(obj)
	return nil
}

// forget gives an object's name back. The free or realloc has been emitted.
func (c *converter) forget(obj object) {
	if obj.name == noName {
		return
	}
	c.use.remove(obj.size)
	c.free = append(c.free, obj.name)
}

// resize converts a whole realloc.
func (c *converter) resize(ev *Event) error {
	switch {
	case ev.Old == 0:
		ev.Kind = Malloc
		return c.alloc(ev)
	case ev.ID == 0 && ev.Size != 0:
		c.skip(Failed, ev.Line, "")
		return nil
	case ev.ID == 0:
		ev.ID = ev.Old
		return c.release(ev)
	}
	ev.Kind, ev.Mate = MoveTo, 0
	c.moveFrom(ev.Old, ev)
	return c.moveTo(ev)
}

// moveFrom takes the id off the object that is being resized, and keeps it for its second half.
func (c *converter) moveFrom(old uint64, ev *Event) {
	obj, known := c.live[old]
	delete(c.live, old)
	if len(c.moves) == movesMax {
		c.abandon(&c.moves[0])
		c.moves = append(c.moves[:0], c.moves[1:]...)
	}
	c.moves = append(c.moves, move{mate: ev.Mate, old: old, line: ev.Line, known: known, obj: obj})
}

// moveTo converts a realloc once its second half is there.
func (c *converter) moveTo(ev *Event) error {
	m, found := c.takeMove(ev.Mate)
	switch {
	case !found:
		c.skip(HalfRealloc, ev.Line, "realloc without its first line; taken as an allocation")
	case !m.known:
		c.skip(UnknownObject, ev.Line, "")
	}
	if !m.known {
		ev.Kind = Malloc
		return c.alloc(ev)
	}
	if ev.ID == 0 {
		return c.moveNowhere(m, ev)
	}
	verb, nums := c.request(ev)
	if _, fit := total(ev, verb, nums); !fit {
		c.skip(Unfit, ev.Line, unfitNote(verb, nums))
		return c.end(m.obj)
	}
	if err := c.displace(ev); err != nil {
		return err
	}
	return c.bind(ev, verb, object{line: ev.Line, size: ev.Size}, &m.obj)
}

// moveNowhere ends a realloc without a result: to size 0 it was a free, else it failed, and the
// object is where it was.
func (c *converter) moveNowhere(m move, ev *Event) error {
	if ev.Size == 0 {
		return c.end(m.obj)
	}
	c.skip(Failed, ev.Line, "")
	if _, taken := c.live[m.old]; taken {
		c.res.warn(ev.Line, fmt.Sprintf("realloc of %#x failed, but its place is taken; "+
			"the object stays live", m.old))
		return nil
	}
	c.live[m.old] = m.obj
	return nil
}

// takeMove returns the latest first half with this mate or, where the format's mates do not agree,
// the latest of all.
func (c *converter) takeMove(mate uint64) (m move, found bool) {
	if len(c.moves) == 0 {
		return move{}, false
	}
	at := len(c.moves) - 1
	for i := at; i >= 0; i-- {
		if c.moves[i].mate == mate {
			at = i
			break
		}
	}
	m = c.moves[at]
	c.moves = append(c.moves[:at], c.moves[at+1:]...)
	return m, true
}

// abandon counts a realloc that never got its second half. Its object stays live.
func (c *converter) abandon(m *move) {
	c.skip(HalfRealloc, m.line,
		fmt.Sprintf("realloc of %#x without its second line; the object stays live", m.old))
}

// finish completes the result. ended says that the input was read to its end, so that a realloc
// still waiting for its second half waits in vain.
func (c *converter) finish(ended bool) {
	if ended {
		for i := range c.moves {
			c.abandon(&c.moves[i])
		}
	}
	c.res.PeakObjects, c.res.PeakBytes = c.use.objectsPeak, c.use.bytesPeak
	c.res.LiveObjects, c.res.LiveBytes = c.use.objects, c.use.bytes
	c.use.cpus = max(c.res.CPUs, 1)
	pages, enough := c.use.pages()
	c.res.Pages = pages
	if !enough {
		c.res.warn(0, fmt.Sprintf("the live peak needs more than the %d pages of the largest "+
			"machine; some allocations will be refused", pages))
	}
}

// skip counts something left out and, when note says something, keeps it as a warning.
func (c *converter) skip(why Skip, line int, note string) {
	c.res.Skipped[why]++
	if note != "" {
		c.note = note
		c.res.warn(line, note)
	}
}
