package prog

import "strings"

// Validate returns nil for a program that Format prints so that Parse reads it back, or the first
// *Error. Parse has done the same for what it returns; Validate is for programs built in memory.
// Positions are those of the lines, where they have any.
func Validate(p *Program) error {
	v := validator{p: p, known: map[Ctx]bool{}}
	e := v.declarations()
	if e == nil {
		v.known = p.contexts()
		e = v.lines(p.Lines, nil)
	}
	if e == nil {
		e = v.schedules()
	}
	if e == nil {
		e = text("tail", p.Tail...)
	}
	if e != nil {
		e.File = p.File
		return e
	}
	if problems := append(names(p, false), globals(p, false)...); len(problems) > 0 {
		return earliest(problems, p.File)
	}
	return nil
}

type validator struct {
	p     *Program
	known map[Ctx]bool
}

func (v *validator) declarations() *Error {
	p := v.p
	if e := p.Machine.check(); e != nil {
		return e
	}
	h := &p.Head
	if e := text("head", h.Title, h.Also, h.Class, h.Found, h.Date); e != nil {
		return e
	}
	if e := comments(p.Doc); e != nil {
		return e
	}
	seen := map[string]bool{}
	for i := range p.Caches {
		c := &p.Caches[i]
		if !isName(c.Name) {
			return badName("cache", c.Name).at(c.Pos)
		}
		if c.Name == Nil {
			return nilBound("cache").at(c.Pos)
		}
		if seen[c.Name] {
			return fault("cache %s: declared twice", c.Name).
				want("one declaration a name").at(c.Pos)
		}
		seen[c.Name] = true
		if e := firstOf(c.Spec.check("cache "+c.Name), comments(c.Doc)); e != nil {
			return e.at(c.Pos)
		}
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if e := firstOf(checkTask(t, v.known, p.Machine.CPUs), comments(t.Doc)); e != nil {
			return e.at(t.Pos)
		}
		v.known[Ctx{Kind: TaskCtx, Name: t.Name}] = true
	}
	return nil
}

// firstOf returns the first error that is one.
func firstOf(list ...*Error) *Error {
	for _, e := range list {
		if e != nil {
			return e
		}
	}
	return nil
}

func badName(what, name string) *Error {
	return fault("%s: %q is not a name", what, name).want("[a-z_][a-z0-9_]*")
}

// text demands one line of clean text each.
func text(what string, list ...string) *Error {
	for _, s := range list {
		if i := badByte(s); i >= 0 {
			return fault("%s: byte %#02x", what, s[i]).
				want("one line of UTF-8 without control characters")
		}
		if len(s) > MaxLine/2 {
			return fault("%s: %d bytes", what, len(s)).want("at most %d", MaxLine/2)
		}
	}
	return nil
}

// comments demands lines that begin with "#", or are empty.
func comments(doc []string) *Error {
	for _, s := range doc {
		if s != "" && s[0] != '#' {
			return fault("comment %q", s).want("# at its start")
		}
	}
	return text("comment", doc...)
}

func (v *validator) lines(list []Line, around []*Line) *Error {
	for i := range list {
		l := &list[i]
		if e := v.line(l, around); e != nil {
			if e.Pos.Line == 0 {
				e.Pos = l.Pos
			}
			return e
		}
		if l.Verb != Repeat {
			continue
		}
		if e := v.lines(l.Body, append(around[:len(around):len(around)], l)); e != nil {
			return e
		}
	}
	return nil
}

func (v *validator) line(l *Line, around []*Line) *Error {
	if int(l.Verb) >= Verbs {
		return fault("unknown operation %d", l.Verb).want("0 to %d", Verbs-1)
	}
	if e := firstOf(comments(l.Doc), comments(l.Tail), text("note", l.Note)); e != nil {
		return e
	}
	if l.Label != "" && !isName(l.Label) {
		return badName("label", l.Label)
	}
	if len(around) > 0 && l.Ctx != around[0].Ctx {
		return fault("%s: another context inside a repeat", l.Ctx).
			want("lines of %s", around[0].Ctx)
	}
	switch l.Verb {
	case Check:
		return checkBare(l)
	case Repeat:
		return firstOf(checkCtx(l.Ctx, &v.p.Machine, v.known), checkRepeat(l, len(around)))
	}
	if len(l.Body) > 0 || l.Count != 0 || len(l.Tail) > 0 {
		return fault("%s: has a body", l.Verb).want("a body with repeat only")
	}
	return firstOf(checkCtx(l.Ctx, &v.p.Machine, v.known), checkOp(l, &cols{line: l.Pos}),
		checkWords(l), checkKVs(l), v.trailer(l), checkLength(len(AppendLine(nil, l))))
}

// checkBare demands a check that is nothing more.
func checkBare(l *Line) *Error {
	if l.Ctx != (Ctx{}) || l.Label != "" || l.Note != "" || len(l.Body) > 0 || !noOperands(l) {
		return fault("check: has more than its name").want("check alone on its line")
	}
	return nil
}

func checkRepeat(l *Line, depth int) *Error {
	switch {
	case !noOperands(l) || l.Note != "":
		return fault("repeat: has operands, outcomes or a note").want("a count and a body")
	case depth >= MaxNest:
		return fault("repeat: nested too deep").want("at most %d repeats around a line", MaxNest)
	case l.Count < 1 || l.Count > MaxRepeat:
		return fault("repeat: count: %d is out of range", l.Count).want("1 to %d", MaxRepeat)
	case len(l.Body) == 0:
		return fault("repeat: empty body").want("at least one line")
	}
	return nil
}

// noOperands reports whether a line holds nothing that an operation has.
func noOperands(l *Line) bool {
	return len(l.Results)+len(l.Slots)+len(l.Nums)+len(l.KV)+len(l.Expect) == 0 &&
		l.Cache == "" && l.Region == "" && l.Spec == nil
}

// checkWords demands operands that are names.
func checkWords(l *Line) *Error {
	for _, list := range [][]string{l.Results, l.Slots} {
		for _, s := range list {
			if !isName(s) {
				return badName(l.Verb.String(), s)
			}
		}
	}
	if l.Cache != "" && !isName(l.Cache) {
		return badName(l.Verb.String(), l.Cache)
	}
	if l.Region != "" && l.Verb != Flip {
		return fault("%s: region %s", l.Verb, l.Region).want("a region with flip only")
	}
	return nil
}

// checkKVs demands options that the verb takes, sorted, and a description with create.
func checkKVs(l *Line) *Error {
	op := &Ops[l.Verb]
	for i := range l.KV {
		if e := checkKV(op.Name, op.Keys, &l.KV[i]); e != nil {
			return e
		}
		if i > 0 && l.KV[i-1].Key >= l.KV[i].Key {
			return fault("%s: %s after %s", op.Name, l.KV[i].Key, l.KV[i-1].Key).
				want("options sorted by key, each once")
		}
	}
	if e := checkNeeded(op.Name, op.Keys, l.KV); e != nil {
		return e
	}
	if (l.Spec != nil) != op.Spec {
		return fault("%s: description of a cache", op.Name).want("one with create, and only there")
	}
	if l.Spec != nil {
		return l.Spec.check(op.Name)
	}
	return nil
}

func (v *validator) trailer(l *Line) *Error {
	for i := range l.Expect {
		if e := checkExpect(l.Expect[:i], &l.Expect[i]); e != nil {
			return e
		}
		if i > 0 && l.Expect[i-1].Subject > l.Expect[i].Subject {
			return fault("%s: outcomes are not sorted", l.Verb).want("outcomes sorted by subject")
		}
	}
	if l.Verb == Offline {
		return checkOffline(l, &v.p.Machine)
	}
	return nil
}

func (v *validator) schedules() *Error {
	list := v.p.Scheds
	for i := range list {
		s := &list[i]
		if s.Subject != "" && !isSubject(s.Subject) {
			return fault("sched: subject %q", s.Subject).want("the name of a subject").at(s.Pos)
		}
		e := firstOf(subjectTwice(list[:i], s.Subject), comments(s.Doc),
			checkLength(len(appendSched(nil, s))))
		if e != nil {
			return e.at(s.Pos)
		}
		for j := range s.Departures {
			if e := v.departure(&s.Departures[j]); e != nil {
				return e.at(s.Departures[j].Pos)
			}
		}
	}
	return nil
}

func (v *validator) departure(d *Departure) *Error {
	switch {
	case int(d.Kind) >= Kinds:
		return fault("at: unknown kind %d", d.Kind).want("%s", orList(kindNames[:]))
	case !isField(d.Field):
		return fault("at: field %q", d.Field).want("object.member or -")
	case d.N < 1 || d.N > MaxN:
		return fault("at: attempt %d", d.N).want("1 to %d", MaxN)
	case len(d.Actions) == 0:
		return fault("at: no action").want("an action")
	case strings.ContainsAny(d.Where.Ref.Label, " \n#"):
		return badName("at", d.Where.Ref.Label)
	}
	for _, a := range d.Actions {
		if e := checkAction(a, &v.p.Machine, v.known); e != nil {
			return e
		}
	}
	return firstOf(comments(d.Doc), checkLength(len(AppendDeparture(nil, d))))
}
