package property

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"
	"github.com/leanovate/gopter/gen"

	"allocfuzz/fuzz/edit"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// liveMax bounds what the model has live; sizeMax the bytes of one request.
const (
	liveMax = 24
	sizeMax = 600
)

// Commands is a subject in process as gopter's commands: allocations and frees of objects of the
// given size in bytes and, as far as v can do them, malloc, realloc, usable and zeroed memory, on a
// native machine of one CPU. The model decides how much is live and nothing else; the system
// checks places and contents of what it is given.
func Commands(v *impls.Variant, object uint64) commands.Commands {
	cfg := machine.DefaultConfig()
	cfg.Pages, cfg.Native = 64, true
	return &stateful{v: v, object: object, m: machine.New(cfg)}
}

type stateful struct {
	v      *impls.Variant
	object uint64
	m      *machine.Machine
}

// NewSystemUnderTest sets the subject up anew.
func (s *stateful) NewSystemUnderTest(commands.State) commands.SystemUnderTest {
	return newSystem(s.v, s.m, s.object)
}

// DestroySystemUnderTest gives back what the subject holds.
func (s *stateful) DestroySystemUnderTest(sut commands.SystemUnderTest) { sut.(*system).close() }

// GenInitialState is nothing live.
func (s *stateful) GenInitialState() gopter.Gen { return gen.Const(model{}) }

// InitialPreCondition always holds.
func (s *stateful) InitialPreCondition(commands.State) bool { return true }

// GenCommand draws one of the calls that v can do and the state allows.
func (s *stateful) GenCommand(state commands.State) gopter.Gen {
	var can []call
	for k := range calls {
		if !s.v.Caps.Has(callNeeds[k]) {
			continue
		}
		c := command{kind: k}
		if c.PreCondition(state) && (!c.targets() || state.(model).target(c) >= 0) {
			can = append(can, k)
		}
	}
	zero := s.v.Caps.Has(impls.CapZero)
	return func(params *gopter.GenParameters) *gopter.GenResult {
		rng := params.Rng
		c := command{kind: can[rng.Intn(len(can))], nth: rng.Intn(liveMax),
			size: 1 + uint64(rng.Intn(sizeMax)), zero: zero && rng.Intn(4) == 0}
		if c.kind >= callAllocBulk {
			c.size = 1 + c.size%bulkMax
		}
		return gopter.NewGenResult(c.tidy(), shrinkCommand)
	}
}

// model is the state: what is live, true for objects of the cache. It is never changed in place.
type model struct{ objects []bool }

// String says how much is live.
func (m model) String() string { return fmt.Sprintf("%d live", len(m.objects)) }

// call is a kind of command.
type call uint8

const (
	callAlloc call = iota
	callFree
	callMalloc
	callRealloc
	callUsable
	callAllocBulk
	callFreeBulk
	calls
)

var callNames = [calls]string{"alloc", "free", "malloc", "realloc", "usable", "allocbulk",
	"freebulk"}

// callNeeds are the capabilities that the calls need.
var callNeeds = [calls]impls.Caps{callMalloc: impls.CapSizes,
	callRealloc: impls.CapSizes | impls.CapRealloc, callUsable: impls.CapSizes | impls.CapUsable,
	callAllocBulk: impls.CapBulk, callFreeBulk: impls.CapBulk}

// bulkMax bounds the objects of one bulk call.
const bulkMax = 6

// command is one call. nth is which of the live allocations that it may be made for, taken modulo;
// a bulk call is made for so many objects as size says, from that one on.
// Without any it does nothing: such commands are not generated, but come about when a sequence is
// made shorter, and with them it can be by one command at a time.
type command struct {
	kind call
	nth  int
	size uint64
	zero bool
}

// targets says whether the call is made for an allocation that is live.
func (c command) targets() bool {
	return c.kind != callAlloc && c.kind != callMalloc && c.kind != callAllocBulk
}

// tidy sets what the kind does not use to zero.
func (c command) tidy() command {
	if c.targets() {
		c.zero = false
	} else {
		c.nth = 0
	}
	if c.kind == callAlloc || c.kind == callFree || c.kind == callUsable {
		c.size = 0
	}
	return c
}

// String spells the command without blanks.
func (c command) String() string {
	var args []string
	if c.targets() {
		args = append(args, fmt.Sprint("#", c.nth))
	}
	if c.size > 0 {
		args = append(args, fmt.Sprint(c.size))
	}
	if c.zero {
		args = append(args, "zero")
	}
	return callNames[c.kind] + "(" + strings.Join(args, ",") + ")"
}

// target is the place of the allocation that a command is for among n, -1 when there is none.
// Sizes can be asked about or changed, objects cannot; only they are freed in bulk.
func (c command) target(n int, object func(int) bool) int {
	if c.kind == callFree {
		if n == 0 {
			return -1
		}
		return c.nth % n
	}
	var fit []int
	for i := range n {
		if object(i) == (c.kind == callFreeBulk) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return fit[c.nth%len(fit)]
}

func (m model) target(c command) int {
	return c.target(len(m.objects), func(i int) bool { return m.objects[i] })
}

// PreCondition says whether there is room.
func (c command) PreCondition(state commands.State) bool {
	return c.targets() || len(state.(model).objects)+int(c.makes()) <= liveMax
}

// makes is the number of allocations that the call makes at most.
func (c command) makes() uint64 {
	switch {
	case c.kind == callAllocBulk:
		return max(1, c.size) // a command that is not drawn yet has no size
	case c.targets() && c.kind != callRealloc:
		return 0
	}
	return 1
}

// batch is the places of the objects that a bulk free is for, from the last one on: up to so many
// as size says of those at place i and behind it.
func (c command) batch(i, n int, object func(int) bool) []int {
	var at []int
	for ; i < n && len(at) < int(c.size); i++ {
		if object(i) {
			at = append(at, i)
		}
	}
	slices.Reverse(at)
	return at
}

// NextState is what is live afterwards.
func (c command) NextState(state commands.State) commands.State {
	m := state.(model)
	i := -1
	if c.targets() {
		i = m.target(c)
	}
	if c.kind == callUsable || c.targets() && i < 0 {
		return m
	}
	next := model{objects: slices.Clone(m.objects)}
	if c.kind == callFreeBulk {
		is := func(i int) bool { return m.objects[i] }
		for _, k := range c.batch(i, len(m.objects), is) {
			next.objects = slices.Delete(next.objects, k, k+1)
		}
		return next
	}
	if i >= 0 {
		next.objects = slices.Delete(next.objects, i, i+1)
	}
	for range c.makes() {
		next.objects = append(next.objects, c.kind == callAlloc || c.kind == callAllocBulk)
	}
	return next
}

// Run makes the call.
func (c command) Run(sut commands.SystemUnderTest) commands.Result {
	s := sut.(*system)
	return s.guarded(func() string {
		var f impls.AllocFlags
		if c.zero {
			f = impls.FlagZero
		}
		switch c.kind {
		case callAlloc:
			return s.alloc(f)
		case callMalloc:
			return s.malloc(c.size, f)
		case callAllocBulk:
			return s.allocBulk(int(c.size), f)
		}
		object := func(i int) bool { return s.blocks[i].object }
		i := c.target(len(s.blocks), object)
		switch {
		case i < 0:
			return ""
		case c.kind == callFreeBulk:
			return s.freeBulk(c.batch(i, len(s.blocks), object))
		case c.kind == callFree:
			return s.free(i)
		case c.kind == callRealloc:
			return s.realloc(i, c.size)
		}
		return s.usable(i)
	})
}

// PostCondition demands that nothing was wrong and that as much is live as the model says.
func (c command) PostCondition(state commands.State, result commands.Result) *gopter.PropResult {
	want := answer{Live: len(state.(model).objects)}
	got := result.(answer)
	if got == want {
		return &gopter.PropResult{Status: gopter.PropTrue}
	}
	return gopter.NewPropResult(false, fmt.Sprintf("%s: %s\n(- model, + subject)\n%s", c,
		got.Problem, Diff(want, got)))
}

// shrinkCommand makes the numbers of a command smaller.
func shrinkCommand(v any) gopter.Shrink {
	c := v.(command)
	var list []command
	for _, n := range edit.Smaller(c.size) {
		d := c
		d.size = n
		list = append(list, d)
	}
	if c.nth > 0 {
		d, h := c, c
		d.nth, h.nth = 0, c.nth/2
		list = append(list, d, h)
	}
	if c.zero {
		d := c
		d.zero = false
		list = append(list, d)
	}
	return func() (any, bool) {
		if len(list) == 0 {
			return nil, false
		}
		next := list[0]
		list = list[1:]
		return next, true
	}
}
