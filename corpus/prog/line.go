package prog

import (
	"io"
	"slices"
	"strings"
)

// This file reads one operation.

// parseLine reads a line that begins an operation; text is the line. For a repeat it reads on to
// the closing brace.
func (r *Reader) parseLine(l *Line, text string) error {
	x := &r.x
	x.reset(text, r.line)
	x.skip()
	l.Pos = x.pos(x.i)
	if e := r.label(x, l); e != nil {
		return r.passOver(text, e)
	}
	start := x.i
	word := x.dotted()
	switch word {
	case "check":
		l.Verb = Check
		if e := r.checkLine(x, l); e != nil {
			return e
		}
		r.takeDoc(&l.Doc, &l.Blank)
		return nil
	case "machine", "cache", "task":
		return fault("%s: a declaration after an operation", word).
			want("declarations first").at(x.pos(start)).hint("move it above the first operation")
	case "at":
		return fault("at: a departure outside a schedule").want("an operation").
			at(x.pos(start)).hint("put a sched line above it")
	case "":
		e := x.unexpected("line").want("who runs it: cpuN, irqN, a declared task, or check")
		return r.passOver(text, e)
	}
	ctx, ok := ParseCtx(word)
	if !ok {
		e := fault("%s: not a context", word).want("cpuN, irqN or a declared task").
			at(x.pos(start))
		return r.passOver(text, e)
	}
	if e := checkCtx(ctx, &r.p.Machine, r.known); e != nil {
		if c := x.skip(); ctx.Kind == TaskCtx && (c == '=' || c == ',') {
			e.hint("a line begins with who runs it: cpu0 %s = …", word)
		}
		return r.passOver(text, e.at(x.pos(start)))
	}
	l.Ctx = ctx
	if ctx.Kind == IRQCtx && !r.known[ctx] {
		r.known[ctx] = true
	}
	return r.afterCtx(x, l, text)
}

// passOver makes sure that the body of a repeat whose head is wrong is not read as operations.
func (r *Reader) passOver(text string, e *Error) error {
	if !r.repair || !strings.HasSuffix(text, "{") || !strings.Contains(text, "repeat") {
		return e
	}
	for depth := 1; depth > 0; {
		body, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(body, "{"):
			depth++
		case trimLeft(body) == "}":
			depth--
		}
		r.dropped = append(r.dropped, Dropped{Text: trimLeft(body), Err: e})
	}
	return e
}

func (r *Reader) label(x *lexer, l *Line) *Error {
	if !x.take('@') {
		return nil
	}
	l.Label = x.name()
	if l.Label == "" {
		return x.unexpected("label").want("a name after @")
	}
	x.skip()
	return nil
}

func (r *Reader) checkLine(x *lexer, l *Line) *Error {
	if l.Label != "" {
		return fault("check: label %s", l.Label).want("no label: a check has no points").
			at(l.Pos)
	}
	if r.depth > 0 {
		return fault("check: inside a repeat").want("lines of the repeat's context").
			at(l.Pos).hint("put the check outside")
	}
	return x.end("check")
}

// afterCtx reads results and verb, then the rest.
func (r *Reader) afterCtx(x *lexer, l *Line, text string) error {
	c := &r.at
	*c = cols{x: x, line: l.Pos, results: c.results[:0], buf: c.buf, nums: c.nums[:0]}
	c.slots = c.buf[:0]
	x.skip()
	start := x.i
	word := x.name()
	next := x.skip()
	if word != "" && (next == ',' || next == '=' && !x.atArrow()) {
		x.i = start
		if e := r.results(x, l); e != nil {
			return e
		}
		start = x.i
		word = x.name()
		x.skip()
	}
	c.verb = start
	verb, ok := verbs[word]
	if !ok {
		if word == "" {
			x.i = start
			return x.unexpected("line").want("an operation")
		}
		e := fault("unknown operation %s", word).at(x.pos(start)).want("one of %s", verbList())
		return r.passOver(text, e)
	}
	l.Verb = verb
	switch verb {
	case Repeat:
		if len(l.Results) > 0 {
			return r.passOver(text, shape(&Ops[Repeat], "binds names").at(x.pos(start)))
		}
		return r.repeat(x, l, text)
	case Check:
		return fault("check: has a context").want("check alone on its line").at(x.pos(start))
	}
	if e := r.operation(x, l); e != nil {
		if e.Pos.Line == 0 {
			e.Pos = l.Pos
		}
		return e
	}
	r.takeDoc(&l.Doc, &l.Blank)
	if r.binds != nil {
		if e := r.binds.line(l, c); e != nil {
			return e
		}
	}
	return nil
}

// results reads names joined by commas and the equals sign.
func (r *Reader) results(x *lexer, l *Line) *Error {
	names := r.names[:0]
	for {
		x.skip()
		r.at.results = append(r.at.results, x.i)
		n := x.name()
		if n == "" {
			return x.unexpected("results").want("a name")
		}
		names = append(names, n)
		if x.skip() != ',' {
			break
		}
		x.i++
	}
	r.names = names
	if x.atArrow() || !x.take('=') {
		return x.unexpected("results").want("= and an operation")
	}
	x.skip()
	l.Results = r.arena.strings(names)
	return nil
}

// operation reads what follows the verb of a plain operation.
func (r *Reader) operation(x *lexer, l *Line) *Error {
	op := &Ops[l.Verb]
	if op.Spec {
		spec := NewCacheSpec(0)
		l.Spec = &spec
	}
	if l.Verb == Flip {
		if e := r.region(x, l); e != nil {
			return e
		}
	}
	if e := r.operands(x, l, op); e != nil {
		return e
	}
	if e := checkOp(l, &r.at); e != nil {
		return e
	}
	if op.Spec && l.Spec.Size == 0 {
		return fault("create: no size").want("size=n").at(x.pos(x.i))
	}
	if e := checkNeeded(op.Name, op.Keys, l.KV); e != nil {
		return e.at(x.pos(x.i))
	}
	if l.Verb == Offline && int(l.KV[0].Num) >= r.p.Machine.CPUs {
		return checkOffline(l, &r.p.Machine).at(x.pos(r.at.option))
	}
	return r.trailer(x, l)
}

func checkOffline(l *Line, m *Machine) *Error {
	if n := l.Num("cpu", 0); n >= uint64(m.CPUs) {
		return fault("offline: cpu=%d: no such cpu", n).want("0 to %d", m.CPUs-1).
			hint("raise cpus= on the machine line")
	}
	return nil
}

// region reads what a flip damages.
func (r *Reader) region(x *lexer, l *Line) *Error {
	at := x.i
	l.Region = x.dotted()
	if indexOf(FlipRegions, l.Region) < 0 {
		if indexOf(FlipCacheFields, l.Region) < 0 {
			return unknownRegion(l.Region).at(x.pos(at))
		}
		return nil
	}
	x.skip()
	at = x.i
	if x.name() != "of" {
		x.i = at
		return x.unexpected("flip").want("of and a slot: flip %s of x", l.Region)
	}
	return nil
}

// operands reads names, numbers and options up to the outcome, the note or the end of the line.
func (r *Reader) operands(x *lexer, l *Line, op *Op) *Error {
	names := r.names[:0]
	var numbers [4]uint64
	nums := numbers[:0]
	for {
		c := x.skip()
		at := x.i
		switch {
		case c == 0 || c == ';' || c == '=' && x.atArrow():
			r.names, r.at.buf = names, r.at.slots
			r.assign(l, op, names)
			l.Nums = r.arena.numbers(nums)
			return nil
		case isNameStart(c):
			word := x.name()
			option, e := r.mayOption(x, l, op, at)
			switch {
			case e != nil:
				return e
			case option:
				continue
			case len(nums) > 0:
				return shape(op, "name %s after a number", word).at(x.pos(at))
			}
			names = append(names, word)
			r.at.slots = append(r.at.slots, at)
		default:
			n, e := x.number(op.Name)
			if e != nil {
				return e
			}
			nums = append(nums, n)
			r.at.nums = append(r.at.nums, at)
		}
		if c := x.peek(); c != 0 && c != ' ' && c != '\t' && c != ';' && !x.atArrow() {
			return x.unexpected(op.Name).want("%s", op.Usage())
		}
	}
}

// assign tells the cache operand from the slots.
func (r *Reader) assign(l *Line, op *Op, names []string) {
	takes := op.Cache == NeedCache && len(names) > 0
	switch {
	case l.Verb == Flip:
		takes = strings.HasPrefix(l.Region, "cache.") && len(names) > 0
	case op.Cache == MayCache:
		takes = len(names) > 1
	}
	if takes {
		l.Cache, names = names[0], names[1:]
		r.at.cache, r.at.slots = r.at.slots[0], r.at.slots[1:]
	}
	l.Slots = r.arena.strings(names)
}

// mayOption reads the rest of key=value when the word just read, from at, is a key.
func (r *Reader) mayOption(x *lexer, l *Line, op *Op, at int) (option bool, e *Error) {
	if x.peek() != '=' || x.atArrow() {
		return false, nil
	}
	x.i++
	return true, r.lineOption(x, l, op, at)
}

// lineOption reads one key=value of a line, the next byte being the one after "=".
func (r *Reader) lineOption(x *lexer, l *Line, op *Op, at int) *Error {
	key := x.s[at : x.i-1]
	r.at.option = at
	if op.Spec && findKey(SpecKeys, key) != nil {
		kv, e := x.option(op.Name, SpecKeys, key, at)
		if e != nil {
			return e
		}
		if l.Spec.has(kv.Key) {
			return fault("%s: %s given twice", op.Name, key).want("each key once").at(x.pos(at))
		}
		l.Spec.set(&kv)
		return nil
	}
	kv, e := x.option(op.Name, op.Keys, key, at)
	if e != nil {
		if op.Spec && findKey(op.Keys, key) == nil {
			e = unknownKey(op.Name, slices.Concat(SpecKeys, op.Keys), key).at(x.pos(at))
		}
		return e
	}
	i := len(l.KV)
	for i > 0 && l.KV[i-1].Key > key {
		i--
	}
	if i > 0 && l.KV[i-1].Key == key {
		return fault("%s: %s given twice", op.Name, key).want("each key once").at(x.pos(at))
	}
	l.KV = insert(l.KV, i, kv)
	return nil
}

// trailer reads stated outcomes and the note.
func (r *Reader) trailer(x *lexer, l *Line) *Error {
	for x.skip(); x.arrow(); x.skip() {
		if e := outcome(x, l); e != nil {
			return e
		}
	}
	if x.take(';') {
		l.Note = x.rest()
	}
	if e := x.end(l.Verb.String()); e != nil {
		return e
	}
	if len(x.s) > MaxLine/4 {
		return checkLength(len(AppendLine(nil, l)))
	}
	return nil
}

// checkLength demands that a line is still short enough when it is printed, which may write
// numbers and strings out in full.
func checkLength(n int) *Error {
	if n <= MaxLine {
		return nil
	}
	return fault("line too long: %d bytes when printed", n).want("at most %d bytes", MaxLine)
}

// outcome reads one stated outcome and puts it in its place.
func outcome(x *lexer, l *Line) *Error {
	x.skip()
	at := x.i
	word := x.name()
	o, ok := ParseOutcome(word)
	if !ok {
		x.i = at
		return fault("unknown outcome %s", x.word()).want("%s", orList(outcomeNames[:])).
			at(x.pos(at))
	}
	want := Expect{Outcome: o}
	if o == Report {
		x.skip()
		title, e := x.text("report")
		if e != nil {
			return e
		}
		want.Report = title
	}
	if x.skip(); x.take('@') {
		x.skip()
		if want.Subject = x.subject(); want.Subject == "" {
			return x.unexpected("outcome").want("the name of a subject after @")
		}
	}
	if e := checkExpect(l.Expect, &want); e != nil {
		return e.at(x.pos(at))
	}
	i := len(l.Expect)
	for i > 0 && l.Expect[i-1].Subject > want.Subject {
		i--
	}
	l.Expect = insert(l.Expect, i, want)
	return nil
}

// repeat reads the count and the body of a repeat.
func (r *Reader) repeat(x *lexer, l *Line, text string) error {
	x.skip()
	at := x.i
	n, e := x.number("repeat")
	if e == nil {
		e = checkRange("repeat: count", n, 1, MaxRepeat, false)
		if e != nil {
			e.at(x.pos(at))
		}
	}
	if e == nil && (x.skip() != '{' || !x.take('{')) {
		e = x.unexpected("repeat").want("{ at the end of the line")
	}
	if e == nil {
		e = x.end("repeat")
	}
	if e == nil && r.depth >= MaxNest {
		e = fault("repeat: nested too deep").want("at most %d repeats around a line", MaxNest).
			at(l.Pos)
	}
	if e != nil {
		return r.passOver(text, e)
	}
	l.Count = int(n)
	r.takeDoc(&l.Doc, &l.Blank)
	r.depth++
	r.binds.enter()
	err := r.body(l)
	r.binds.leave()
	r.depth--
	return err
}

// body reads the lines of a repeat up to its brace.
func (r *Reader) body(l *Line) error {
	for {
		text, err := r.next()
		if err == io.EOF {
			e := fault("repeat: no closing brace").want("} for the repeat on line %d", l.Pos.Line).
				at(Pos{Line: r.line, Col: 1}).hint("is the file cut short?")
			if err := r.bad(e, ""); err != nil {
				return err
			}
			text = "}"
		} else if err != nil {
			return err
		}
		if trimLeft(text) == "}" {
			break
		}
		var in Line
		err = r.bodyLine(l, &in, text)
		if err == nil {
			l.Body = append(l.Body, in)
			continue
		}
		if err := r.bad(err, text); err != nil {
			return err
		}
	}
	l.Tail = r.tail()
	if len(l.Body) == 0 {
		return fault("repeat: empty body").want("at least one line").at(l.Pos)
	}
	return nil
}

func (r *Reader) bodyLine(l, in *Line, text string) error {
	if isSched(text) {
		return fault("sched: inside a repeat").want("} for the repeat on line %d", l.Pos.Line).
			at(Pos{Line: r.line, Col: len(text) - len(trimLeft(text)) + 1})
	}
	if err := r.parseLine(in, text); err != nil {
		return err
	}
	if in.Ctx != l.Ctx {
		return fault("%s: another context inside a repeat", in.Ctx).
			want("lines of %s", l.Ctx).at(in.Pos).hint("give each context a repeat of its own")
	}
	return nil
}

func verbList() string {
	names := make([]string, len(Ops))
	for i := range Ops {
		names[i] = Ops[i].Name
	}
	return orList(names)
}
