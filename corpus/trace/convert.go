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
	name uint32
	line int // where it was allocated
	size uint64
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
	emit  func(*prog.Line) error
	limit int
	res   *Result
	use   footprint
	live  map[uint64]object
	moves []move // the latest last
	free  []uint32
	names []string // by number
	line  prog.Line
	irqs  [256]int // handlers of each CPU so far
	nums  []uint64
	note  string // of the latest skip that had one
}

func newConverter(opt *Options, res *Result) *converter {
	c := &converter{
		emit: opt.Emit, limit: opt.Limit, res: res, live: make(map[uint64]object),
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

// context is that of an event. What interrupts do on one CPU without a line of another context
// between is one handler; each has a name of its own.
func (c *converter) context(ev *Event) {
	cpu := int(ev.CPU)
	c.res.CPUs = max(c.res.CPUs, cpu+1)
	x := &c.line.Ctx
	if !ev.IRQ {
		*x = prog.Ctx{Kind: prog.CPUCtx, CPU: cpu}
		return
	}
	if x.Kind == prog.IRQCtx && x.CPU == cpu {
		return
	}
	c.irqs[cpu]++
	*x = prog.Ctx{Kind: prog.IRQCtx, CPU: cpu, Name: "k" + strconv.Itoa(c.irqs[cpu])}
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
	obj := object{name: c.takeName(), line: ev.Line, size: size}
	if err := c.put(verb, obj.name, noName, nums); err != nil {
		return err
	}
	c.live[ev.ID] = obj
	c.use.add(size)
	return nil
}

// request returns the operation that makes a new object, and its numbers, which are valid until the
// next one.
func (c *converter) request(ev *Event) (prog.Verb, []uint64) {
	verb := prog.Malloc
	c.nums = c.nums[:0]
	switch ev.Kind {
	case Calloc:
		verb, c.nums = prog.Calloc, append(c.nums, ev.Count)
	case Memalign:
		verb, c.nums = prog.Memalign, append(c.nums, ev.Align)
	case MoveTo:
		verb = prog.Realloc
	}
	c.nums = append(c.nums, ev.Size)
	return verb, c.nums
}

// total returns the bytes that an operation asks for, and whether a program can hold its numbers.
func total(ev *Event, verb prog.Verb, nums []uint64) (size uint64, fit bool) {
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
	c.res.warn(ev.Line, fmt.Sprintf("%#x allocated again while live since line %d; freed first",
		ev.ID, obj.line))
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
	if err := c.put(prog.Free, noName, obj.name, nil); err != nil {
		return err
	}
	delete(c.live, id)
	c.forget(obj)
	return nil
}

// forget gives an object's name back. The free or realloc has been emitted.
func (c *converter) forget(obj object) {
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
		return c.dropMoved(m)
	}
	if err := c.displace(ev); err != nil {
		return err
	}
	obj := object{name: c.takeName(), line: ev.Line, size: ev.Size}
	if err := c.put(verb, obj.name, m.obj.name, nums); err != nil {
		return err
	}
	c.live[ev.ID] = obj
	c.use.add(ev.Size)
	c.forget(m.obj)
	return nil
}

// moveNowhere ends a realloc without a result: to size 0 it was a free, else it failed, and the
// object is where it was.
func (c *converter) moveNowhere(m move, ev *Event) error {
	if ev.Size == 0 {
		return c.dropMoved(m)
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

// dropMoved frees the object of a realloc that has no result in the program.
func (c *converter) dropMoved(m move) error {
	if err := c.put(prog.Free, noName, m.obj.name, nil); err != nil {
		return err
	}
	c.forget(m.obj)
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

// noName stands for no name where a line binds nothing or takes no object.
const noName = ^uint32(0)

// takeName returns the number of a name that no live object has: one given back, else a new one. So
// there are never more names than objects live at once.
func (c *converter) takeName() uint32 {
	if n := len(c.free); n > 0 {
		name := c.free[n-1]
		c.free = c.free[:n-1]
		return name
	}
	c.names = append(c.names, "a"+strconv.Itoa(len(c.names)))
	return uint32(len(c.names) - 1)
}

// put emits one line. The line's slices are reused for the next one.
func (c *converter) put(verb prog.Verb, result, operand uint32, nums []uint64) error {
	if c.limit > 0 && c.res.Operations == c.limit {
		return errLimit
	}
	l := &c.line
	l.Verb = verb
	l.Results, l.Slots = l.Results[:0], l.Slots[:0]
	if result != noName {
		l.Results = append(l.Results, c.names[result])
	}
	if operand != noName {
		l.Slots = append(l.Slots, c.names[operand])
	}
	l.Nums = append(l.Nums[:0], nums...)
	if c.emit != nil {
		if err := c.emit(l); err != nil {
			return err
		}
	}
	c.res.Operations++
	return nil
}
