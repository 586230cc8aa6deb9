package oracle

import (
	"errors"
	"fmt"
	"slices"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Compiled is a program as the runner takes it: names are slots, contexts are
// numbered, and every line has its place in the program's order.
type Compiled struct {
	Prog   *prog.Program
	Config machine.Config
	Caches []impls.CacheSpec // that exist from the start, in slots 0, 1, …
	Lines  []Line            // by order; a repeat has a place too, and no operation
	Ctxs   []Context
	Checks []int    // orders of the check lines
	Slots  []string // names of the slots of objects
	Stores []string // names of the slots of caches
	ops    int      // operations counted with repeats, saturating
	pages  bool     // some line asks for pages
	wide   int      // the most objects that one line takes or gives in bulk
}

// A Line is one operation of a compiled program.
type Line struct {
	Src  *prog.Line
	Path []int // its place in the program: indexes into nested bodies
	Op   impls.Op
	Ctx  int
}

// A Context is a task or a handler with its lines.
type Context struct {
	Ctx   prog.Ctx
	Name  string
	CPU   int
	First int // order of its first line
	Code  []node
}

// node is a line, or a repeat with its body.
type node struct {
	line  int
	count int // of a repeat, else 0
	body  []node
}

// Sequential says whether one task does everything, so that the outcome of every
// operation is decided by the program alone.
func (p *Compiled) Sequential() bool { return len(p.Ctxs) == 1 && !p.Ctxs[0].Ctx.IsIRQ() }

// Operations is the number of operations that a run executes, repeats counted.
func (p *Compiled) Operations() int { return p.ops }

const opsMax = 1 << 40

// A compiler turns names into slots. A stream drops what it has run, and names
// that hold nothing any more: base and spare are its own.
type compiler struct {
	p     *Compiled
	slots names
	store names
	ctx   map[prog.Ctx]int
	base  int // order of the first line of p.Lines
}

// names gives each name a slot.
type names struct {
	at    map[string]int32
	spare []int32 // slots whose names were dropped
}

// slot finds or makes the slot of a name; list holds the names by slot.
func (n *names) slot(list *[]string, name string) int32 {
	i, ok := n.at[name]
	if ok {
		return i
	}
	if last := len(n.spare) - 1; last >= 0 {
		i = n.spare[last]
		n.spare = n.spare[:last]
		(*list)[i] = name
	} else {
		i = int32(len(*list))
		*list = append(*list, name)
	}
	n.at[name] = i
	return i
}

// drop forgets a name, so that another can have its slot.
func (n *names) drop(name string) {
	if i, ok := n.at[name]; ok {
		delete(n.at, name)
		n.spare = append(n.spare, i)
	}
}

// Compile prepares a program that prog.Validate accepts. Debug options that the debug
// library does not know are an error with the place in the file.
func Compile(p *prog.Program) (*Compiled, error) {
	k := newCompiler(p)
	if err := k.machine(); err != nil {
		return nil, err
	}
	for i := range p.Lines {
		k.line(&p.Lines[i], []int{i}, -1)
	}
	k.p.ops = 0
	for i := range k.p.Ctxs {
		k.p.ops = min(opsMax, k.p.ops+countOps(k.p.Ctxs[i].Code))
	}
	return k.p, nil
}

func newCompiler(p *prog.Program) *compiler {
	k := &compiler{p: &Compiled{Prog: p}, slots: names{at: map[string]int32{}},
		store: names{at: map[string]int32{}}, ctx: map[prog.Ctx]int{}}
	for i := range p.Caches {
		c := &p.Caches[i]
		k.cache(c.Name)
		k.p.Caches = append(k.p.Caches, spec(c.Name, &c.Spec))
	}
	return k
}

func (k *compiler) machine() error {
	m := k.p.Prog.Machine.Resolve()
	k.p.Config = machine.Config{CPUs: m.CPUs, Pages: m.Pages, PageSize: m.PageSize, Word: m.Word,
		Base: m.Base, SeqBits: m.SeqBits, Seq0: m.Seq0, Preempt: machine.Preempt(m.Preempt),
		TSO: m.TSO, Merge: m.Merge}
	if err := k.boot(&m); err != nil {
		return err
	}
	if err := k.p.Config.Validate(); err != nil {
		return fmt.Errorf("%s: machine: %w", k.p.Prog.File, err)
	}
	return nil
}

// boot takes the boot parameters over. Their syntax is the debug library's: a fault in
// them is reported here, at its character.
func (k *compiler) boot(m *prog.Machine) error {
	if m.Rules != prog.RulesOwn {
		k.p.Config.Rules = m.Rules.String()
	}
	if m.Debug == "" {
		return nil
	}
	_, err := debugcheck.ParseOptions(m.Debug)
	if err == nil {
		k.p.Config.Debug = m.Debug
		return nil
	}
	p := k.p.Prog
	at := &prog.Error{File: p.File, Pos: p.DebugAt, Msg: "machine: debug: " + err.Error()}
	var bad *debugcheck.OptionError
	if errors.As(err, &bad) {
		at.Msg = "machine: debug: " + bad.Msg + "; expected " + bad.Want
		if p.DebugAt.Line > 0 {
			at.Pos.Col += bad.Col - 1
		}
	}
	return at
}

func spec(name string, s *prog.CacheSpec) impls.CacheSpec {
	o := s.Objects
	if o == 0 {
		o = -1
	}
	return impls.CacheSpec{Name: name, Size: uint64(s.Size), Align: uint64(s.Align), Ctor: s.Ctor,
		Flags: s.Flags, Objects: o, Order: s.Order, MinPartial: s.MinPartial,
		CPUPartial: s.CPUPartial, Limit: s.Limit, Batch: s.Batch}
}

func (k *compiler) slot(name string) int32  { return k.slots.slot(&k.p.Slots, name) }
func (k *compiler) cache(name string) int32 { return k.store.slot(&k.p.Stores, name) }

// context numbers the context of a line, in the order of first lines.
func (k *compiler) context(x prog.Ctx, pos int) int {
	i, ok := k.ctx[x]
	if ok {
		return i
	}
	i = len(k.p.Ctxs)
	k.ctx[x] = i
	c := Context{Ctx: x, Name: x.String(), CPU: x.CPU, First: pos}
	if x.Kind == prog.TaskCtx {
		for _, t := range k.p.Prog.Tasks {
			if t.Name == x.Name {
				c.CPU = t.CPU
			}
		}
	}
	k.p.Ctxs = append(k.p.Ctxs, c)
	return i
}

// line adds a line; inside a repeat owner is the context of the repeat and the
// node is returned instead of being added to the context.
func (k *compiler) line(l *prog.Line, path []int, owner int) node {
	pos := k.base + len(k.p.Lines)
	at := Line{Src: l, Path: path, Ctx: -1}
	if l.Verb == prog.Check {
		k.p.Lines = append(k.p.Lines, at)
		k.p.Checks = append(k.p.Checks, pos)
		return node{}
	}
	at.Ctx = owner
	if owner < 0 {
		at.Ctx = k.context(l.Ctx, pos)
	}
	n := node{line: pos}
	if l.Verb == prog.Repeat {
		k.p.Lines = append(k.p.Lines, at)
		n.count = l.Count
		for i := range l.Body {
			sub := append(append([]int{}, path...), i)
			n.body = append(n.body, k.line(&l.Body[i], sub, at.Ctx))
		}
	} else {
		at.Op = k.op(l)
		k.p.wide = max(k.p.wide, len(at.Op.Slots))
		k.p.pages = k.p.pages || at.Op.Code == impls.OpPages
		k.p.Lines = append(k.p.Lines, at)
	}
	if owner < 0 {
		c := &k.p.Ctxs[at.Ctx]
		c.Code = append(c.Code, n)
	}
	return n
}

func countOps(code []node) int {
	total := 0
	for i := range code {
		n := 1
		if code[i].count > 0 {
			n = min(opsMax, code[i].count*countOps(code[i].body))
		}
		total = min(opsMax, total+n)
	}
	return total
}

// codes maps verbs to operations of the contract: all but repeat and check.
var codes = map[prog.Verb]impls.Code{
	prog.Alloc: impls.OpAlloc, prog.Free: impls.OpFree, prog.Malloc: impls.OpMalloc,
	prog.Calloc: impls.OpCalloc, prog.Realloc: impls.OpRealloc, prog.Memalign: impls.OpMemalign,
	prog.Usable: impls.OpUsable, prog.FreeSized: impls.OpFreeSized, prog.Pages: impls.OpPages,
	prog.PagesFree: impls.OpPagesFree, prog.Create: impls.OpCreate, prog.Destroy: impls.OpDestroy,
	prog.Shrink: impls.OpShrink, prog.Drain: impls.OpDrain, prog.Fill: impls.OpFill,
	prog.Verify: impls.OpVerify, prog.ValidateCache: impls.OpValidate,
	prog.Overrun: impls.OpOverrun, prog.Underrun: impls.OpUnderrun,
	prog.WriteFreed: impls.OpWriteFreed, prog.FreeAgain: impls.OpFreeAgain,
	prog.FreeInside: impls.OpFreeInside, prog.FreeForeign: impls.OpFreeForeign,
	prog.FreeWrong: impls.OpFreeWrong, prog.Flip: impls.OpFlip,
	prog.Flush: impls.OpFlush, prog.Offline: impls.OpOffline, prog.Tune: impls.OpTune,
	prog.Reap: impls.OpReap, prog.AllocBulk: impls.OpAllocBulk, prog.FreeBulk: impls.OpFreeBulk,
	prog.RCULock: impls.OpRCULock, prog.RCUUnlock: impls.OpRCUUnlock,
}

// nth is the number of a request that an option makes fail, 0 for none.
func nth(l *prog.Line, key string) uint16 { return uint16(min(l.Num(key, 0), 1<<16-1)) }

// names turns the names that a line binds and uses into slots.
func (k *compiler) names(l *prog.Line, op *impls.Op) {
	if op.Code.Bulk() {
		for _, name := range slices.Concat(l.Results, l.Slots) { // it has either
			op.Slots = append(op.Slots, k.slot(name))
		}
		return
	}
	for _, name := range l.Slots {
		if op.Slot = impls.NilSlot; name != prog.Nil {
			op.Slot = k.slot(name)
		}
	}
	for _, name := range l.Results {
		if l.Verb == prog.Create {
			op.Result = k.cache(name)
		} else {
			op.Result = k.slot(name)
		}
	}
}

// op turns one line into an operation.
func (k *compiler) op(l *prog.Line) (op impls.Op) {
	op = impls.Op{Cache: -1, Slot: -1, Result: -1, Fail: nth(l, "fail"),
		FailObject: nth(l, "failobj")}
	var known bool
	if op.Code, known = codes[l.Verb]; !known {
		panic("allocfuzz: no operation for " + l.Verb.String())
	}
	if l.HasFlag("zero") {
		op.Flags |= impls.FlagZero
	}
	if l.HasFlag("atomic") {
		op.Flags |= impls.FlagAtomic
	}
	if l.Cache != "" {
		op.Cache = k.cache(l.Cache)
	}
	k.names(l, &op)
	switch {
	case l.Verb == prog.Create:
		s := spec(l.Results[0], l.Spec)
		op.Spec = &s
	case l.Verb == prog.Calloc:
		op.Arg, op.Size = l.Nums[0], l.Nums[1]
	case l.Verb == prog.Memalign:
		op.Arg, op.Size = l.Nums[0], l.Nums[1]
	case l.Verb == prog.Flip:
		op.Region, _ = debugcheck.ParseRegion(l.Region) // one of prog's, which are the same
		op.Size, op.Arg = l.Num("byte", 0), l.Num("bits", 1)
	case l.Verb == prog.Offline:
		op.Size = l.Num("cpu", 0)
	case l.Verb == prog.Tune:
		op.Size, op.Arg = l.Num("limit", 0), l.Num("batch", 0)
	case len(l.Nums) > 0:
		op.Size = l.Nums[0]
	}
	return op
}
