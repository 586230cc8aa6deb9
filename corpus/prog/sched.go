package prog

import "io"

// This file reads the schedules, which end a program.

// schedules reads from the first sched line, which is held, to the end of the input.
func (r *Reader) schedules() error {
	over := false // the block that departures belong to was dropped
	for {
		text, err := r.next()
		if err == io.EOF {
			return r.finish()
		}
		if err != nil {
			return err
		}
		x := &r.x
		x.reset(text, r.line)
		x.skip()
		start := x.i
		var e *Error
		switch word := x.dotted(); word {
		case "sched":
			e = r.schedLine(x, start)
			over = e != nil
		case "at":
			if over {
				e = fault("at: its sched line was dropped").at(x.pos(start))
				break
			}
			e = r.departure(x, start)
		default:
			x.i = start
			e = fault("unexpected %s after a schedule", x.word()).at(x.pos(start)).
				want("at or sched").hint("operations come before the schedules")
		}
		if e == nil {
			continue
		}
		if err := r.bad(e, text); err != nil {
			return err
		}
	}
}

func (r *Reader) schedLine(x *lexer, start int) *Error {
	s := Sched{Pos: x.pos(start)}
	x.skip()
	at := x.i
	if word := x.name(); word != "" {
		if word != "subject" || !x.take('=') {
			x.i = at
			return x.unexpected("sched").want("subject=name or => bug")
		}
		if s.Subject = x.subject(); s.Subject == "" {
			return x.unexpected("sched").want("the name of a subject")
		}
	}
	if x.skip(); x.arrow() {
		x.skip()
		bugAt := x.i
		if x.name() != "bug" {
			x.i = bugAt
			return x.unexpected("sched").want(`bug and a title in double quotes`)
		}
		x.skip()
		title, e := x.text("bug")
		if e != nil {
			return e
		}
		s.Bug = title
	}
	if e := x.end("sched"); e != nil {
		return e
	}
	if e := subjectTwice(r.p.Scheds, s.Subject); e != nil {
		return e.at(x.pos(at))
	}
	if e := checkLength(len(appendSched(nil, &s))); e != nil {
		return e.at(s.Pos)
	}
	r.takeDoc(&s.Doc, &s.Blank)
	r.p.Scheds = append(r.p.Scheds, s)
	return nil
}

func subjectTwice(scheds []Sched, subject string) *Error {
	for i := range scheds {
		if scheds[i].Subject != subject {
			continue
		}
		if subject == "" {
			return fault("sched: second block without a subject").want("one such block")
		}
		return fault("sched: second block for %s", subject).want("one block a subject")
	}
	return nil
}

// departure reads: where kind field n ":" action { "," action }.
func (r *Reader) departure(x *lexer, start int) *Error {
	d := Departure{Pos: x.pos(start)}
	if e := x.where(&d.Where); e != nil {
		return e
	}
	x.skip()
	at := x.i
	kind, ok := ParseKind(x.name())
	if !ok {
		x.i = at
		return fault("at: unknown kind of point %s", x.word()).at(x.pos(at)).
			want("%s", orList(kindNames[:]))
	}
	d.Kind = kind
	x.skip()
	at = x.i
	if !x.take('-') {
		x.dotted()
	}
	d.Field = x.s[at:x.i]
	if !isField(d.Field) {
		x.i = at
		return x.unexpected("at").want("a field such as cpu_slab.freelist, or -")
	}
	x.skip()
	n, e := x.count("attempt")
	if e != nil {
		return e
	}
	d.N = n
	if x.skip(); !x.take(':') {
		return x.unexpected("at").want(": and an action")
	}
	if e := r.actions(x, &d); e != nil {
		return e
	}
	if e := checkLength(len(AppendDeparture(nil, &d))); e != nil {
		return e.at(d.Pos)
	}
	r.takeDoc(&d.Doc, &d.Blank)
	s := &r.p.Scheds[len(r.p.Scheds)-1]
	s.Departures = append(s.Departures, d)
	return nil
}

// isField reports whether s is "-" or has the form object.member.
func isField(s string) bool {
	if s == "-" {
		return true
	}
	dot := indexByte(s, '.')
	return dot > 0 && isName(s[:dot]) && isName(s[dot+1:])
}

// count reads a number from 1 to MaxN.
func (x *lexer) count(what string) (int, *Error) {
	at := x.i
	n, e := x.number(what)
	if e != nil {
		return 0, e
	}
	if e := checkRange(what, n, 1, MaxN, false); e != nil {
		return 0, e.at(x.pos(at))
	}
	return int(n), nil
}

// where reads: [ irq "#" delivery "/" ] lineref { "[" iteration "]" }.
func (x *lexer) where(w *Where) *Error {
	x.skip()
	at := x.i
	w.Pos = x.pos(at)
	word := x.dotted()
	if c := x.peek(); c == '#' || c == '/' {
		if ctx, ok := ParseCtx(word); !ok || ctx.Kind != IRQCtx {
			return fault("at: %s is no handler", word).want("irqN or irqN.name before /").
				at(x.pos(at))
		}
		w.IRQ, w.Delivery = word, 1
		if e := x.delivery(w); e != nil {
			return e
		}
		at = x.i
		word = x.dotted()
	}
	if !isName(word) {
		x.i = at
		return x.unexpected("at").want("a label or verb(name)")
	}
	w.Ref = LineRef{Label: word}
	if x.take('(') {
		verb, ok := verbs[word]
		if !ok {
			return fault("at: unknown operation %s", word).want("one of %s", verbList()).
				at(x.pos(at))
		}
		name := x.name()
		if name == "" || !x.take(')') {
			return x.unexpected("at").want("a name and ): %s(x)", word)
		}
		w.Ref = LineRef{Verb: verb, Name: name}
	}
	return x.iterations(w)
}

func (x *lexer) delivery(w *Where) *Error {
	if x.take('#') {
		n, e := x.count("delivery")
		if e != nil {
			return e
		}
		w.Delivery = n
	}
	if !x.take('/') {
		return x.unexpected("at").want("/ and a line of %s", w.IRQ)
	}
	return nil
}

// iterations reads the rounds; the first of every repeat is the same as none given.
func (x *lexer) iterations(w *Where) *Error {
	plain := true
	for x.take('[') {
		n, e := x.count("iteration")
		if e != nil {
			return e
		}
		if !x.take(']') {
			return x.unexpected("at").want("]")
		}
		if len(w.Iter) == MaxNest {
			return fault("at: too many iterations").want("at most %d", MaxNest).at(x.pos(x.i))
		}
		w.Iter = append(w.Iter, n)
		plain = plain && n == 1
	}
	if plain {
		w.Iter = nil
	}
	if c := x.peek(); c != ' ' && c != '\t' {
		return x.unexpected("at").want("a blank and a kind of point")
	}
	return nil
}

func (r *Reader) actions(x *lexer, d *Departure) *Error {
	for {
		x.skip()
		at := x.i
		a, e := x.action()
		if e != nil {
			return e
		}
		if e := checkAction(a, &r.p.Machine, r.known); e != nil {
			return e.at(x.pos(at))
		}
		d.Actions = append(d.Actions, a)
		if x.skip() != ',' {
			return x.end("at")
		}
		x.i++
	}
}

// anAction is what an action may be.
const anAction = "an action: cpuN, a task, irqN, move cpuN, fail, none, hold or drain cpuN"

func (x *lexer) action() (Action, *Error) {
	at := x.i
	switch word := x.dotted(); word {
	case "":
		return Action{}, x.unexpected("at").want(anAction)
	case "fail":
		return Action{Kind: Fail}, nil
	case "none":
		return Action{Kind: None}, nil
	case "hold":
		return Action{Kind: HoldStore}, nil
	case "move":
		return x.ofCPU(Move)
	case "drain":
		return x.ofCPU(DrainStore)
	default:
		c, ok := ParseCtx(word)
		if !ok {
			x.i = at
			return Action{}, x.unexpected("at").want(anAction)
		}
		kind := [...]ActionKind{CPUCtx: ToCPU, TaskCtx: ToTask, IRQCtx: Interrupt}[c.Kind]
		return Action{Kind: kind, CPU: c.CPU, Name: c.Name}, nil
	}
}

// ofCPU reads the CPU of an action.
func (x *lexer) ofCPU(kind ActionKind) (Action, *Error) {
	x.skip()
	at := x.i
	c, ok := ParseCtx(x.dotted())
	if !ok || c.Kind != CPUCtx {
		x.i = at
		return Action{}, x.unexpected(kind.String()).want("cpuN")
	}
	return Action{Kind: kind, CPU: c.CPU}, nil
}

// checkAction demands contexts that exist, a handler does when it has a line, and store buffers
// for what has to do with them.
func checkAction(a Action, m *Machine, known map[Ctx]bool) *Error {
	if (a.Kind == HoldStore || a.Kind == DrainStore) && !m.TSO {
		return fault("%s: no store buffers", a.Kind).want("a machine that has them").
			hint("write tso=on on the machine line")
	}
	if a.Kind == Move || a.Kind == DrainStore {
		return checkCtx(Ctx{Kind: CPUCtx, CPU: a.CPU}, m, known)
	}
	c, ok := a.Ctx()
	if !ok {
		if int(a.Kind) >= ActionKinds {
			return fault("unknown action %d", a.Kind)
		}
		return nil
	}
	if e := checkCtx(c, m, known); e != nil {
		return e
	}
	if c.Kind == IRQCtx && !known[c] {
		return fault("%s: handler without a line", c).want("a handler that has lines")
	}
	return nil
}
