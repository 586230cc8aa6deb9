package prog

import "sort"

// binder follows which names exist. A name may be used after a line that binds it, in file order,
// and before it when another context binds it (the user waits) or when the binding comes round in
// the same outermost repeat. Caches and slots do not share names.
type binder struct {
	ids     map[string]int32
	infos   []nameInfo
	pending []use
	round   int // number of the outermost repeat begun last
	depth   int
	eager   bool // a use without a binding above is an error at once
}

// nameInfo is what is known about one name.
type nameInfo struct {
	ctx   Ctx  // who bound it first
	many  bool // bound by several contexts
	cache bool // a cache, else a slot
	round int  // outermost repeat of the first binding, 0 outside
}

// use is a use of a name that nothing has bound yet.
type use struct {
	name  string
	ctx   Ctx
	cache bool
	round int
	pos   Pos
	line  *Line
}

func newBinder(caches []Cache) *binder {
	b := &binder{ids: make(map[string]int32, 64)}
	for i := range caches {
		b.bind(caches[i].Name, Ctx{}, true)
	}
	return b
}

// enter and leave stand at the braces of a repeat. A nil binder follows nothing.
func (b *binder) enter() {
	if b == nil {
		return
	}
	if b.depth == 0 {
		b.round++
	}
	b.depth++
}

func (b *binder) leave() {
	if b != nil {
		b.depth--
	}
}

// inRound returns the number of the repeat around the line being followed, 0 for none.
func (b *binder) inRound() int {
	if b.depth == 0 {
		return 0
	}
	return b.round
}

// bind records a binding; it is false when the name is one of the other sort.
func (b *binder) bind(name string, c Ctx, cache bool) bool {
	id, ok := b.ids[name]
	if !ok {
		b.ids[name] = int32(len(b.infos))
		b.infos = append(b.infos, nameInfo{ctx: c, cache: cache, round: b.inRound()})
		return true
	}
	in := &b.infos[id]
	in.many = in.many || in.ctx != c
	return in.cache == cache
}

// line follows a plain operation: first what it uses, then what it binds.
func (b *binder) line(l *Line, c *cols) *Error {
	if l.Cache != "" {
		if e := b.use(l, l.Cache, true); e != nil {
			return e.at(c.pos(c.cache))
		}
		b.place(c.pos(c.cache))
	}
	for i, s := range l.Slots {
		if e := b.use(l, s, false); e != nil {
			return e.at(c.item(c.slots, i))
		}
		b.place(c.item(c.slots, i))
	}
	for i, s := range l.Results {
		if s == Nil {
			return nilBound(l.Verb.String()).at(c.item(c.results, i))
		}
		if !b.bind(s, l.Ctx, l.Verb == Create) {
			return mixed(s, l.Verb != Create).at(c.item(c.results, i))
		}
	}
	return nil
}

// use checks a use, or puts it among the pending ones.
func (b *binder) use(l *Line, name string, cache bool) *Error {
	switch {
	case name != Nil:
	case cache:
		return mixed(name, false)
	case l.Cache == "" && l.Verb.Op().Nil:
		return nil
	default:
		return fault("%s: nil is no object", l.Verb).
			want("a name that some line binds").
			hint("nil stands for the address 0 in free without a cache, freesized, realloc and " +
				"usable")
	}
	if id, ok := b.ids[name]; ok {
		if b.infos[id].cache != cache {
			return mixed(name, b.infos[id].cache)
		}
		return nil
	}
	u := use{name: name, ctx: l.Ctx, cache: cache, round: b.inRound(), line: l}
	if b.eager {
		return b.judge(&u)
	}
	b.pending = append(b.pending, u)
	return nil
}

// place sets the position of the use recorded last, if it has none.
func (b *binder) place(p Pos) {
	if n := len(b.pending); n > 0 && b.pending[n-1].pos == (Pos{}) {
		b.pending[n-1].pos = p
	}
}

// nilBound is the error for a name that would be bound and means something already.
func nilBound(where string) *Error {
	return fault("%s: the name nil is reserved", where).want("another name").
		hint("nil is the address of nothing")
}

// mixed is the error for a name that is both a cache and a slot.
func mixed(name string, isCache bool) *Error {
	if isCache {
		return fault("name %s is a cache", name).want("a slot here").
			hint("give slots and caches different names")
	}
	return fault("name %s is a slot", name).want("a cache here").
		hint("give slots and caches different names")
}

// finish returns the error of every pending use that nothing justifies, in file order.
func (b *binder) finish() []problem {
	var out []problem
	for i := range b.pending {
		u := &b.pending[i]
		if e := b.judge(u); e != nil {
			out = append(out, problem{err: e.at(u.pos), line: u.line})
		}
	}
	sort.SliceStable(out, func(i, j int) bool {
		return out[i].err.Pos.Line < out[j].err.Pos.Line
	})
	return out
}

func (b *binder) judge(u *use) *Error {
	id, ok := b.ids[u.name]
	switch {
	case !ok && u.cache:
		return fault("unknown cache %s", u.name).want("a declared or created cache").
			hint("declare it with: cache %s size=64", u.name)
	case !ok:
		return fault("name %s is never bound", u.name).want("a name that some line binds").
			hint("write a line such as: cpu0 %s = alloc c", u.name)
	}
	in := &b.infos[id]
	switch {
	case in.cache != u.cache:
		return mixed(u.name, in.cache)
	case in.many || in.ctx != u.ctx:
		return nil
	case u.round != 0 && u.round == in.round:
		return nil
	}
	return fault("name %s is used before it exists", u.name).
		want("a line of %s above that binds it", u.ctx).
		hint("move the binding up, or let another context bind it")
}
