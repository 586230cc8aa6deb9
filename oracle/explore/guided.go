package explore

import (
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// Bytes is a chooser that is steered by a string of bytes: pairs of a gap, the number of
// questions to go on for, and the number of the departure to take then, of those possible. When
// the bytes end the run goes on without any: a short string is a schedule of few departures.
type Bytes struct {
	Bounds  Bounds
	data    []byte
	next    int
	gap     int
	left    Bounds
	binding sched.Binding
	acts    []machine.Action
}

// Set gives the bytes of the next runs.
func (y *Bytes) Set(data []byte) { y.data = data }

// Bind starts a run.
func (y *Bytes) Bind(b *sched.Binding) {
	y.binding, y.left, y.next = *b, y.Bounds, 0
	y.binding.Deliveries = y.Bounds.Deliveries
	y.load()
}

// load takes the next gap.
func (y *Bytes) load() {
	if y.gap = -1; y.next+1 < len(y.data) {
		y.gap = int(y.data[y.next])
	}
}

// Choose takes the departure of the bytes.
func (y *Bytes) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if y.gap != 0 {
		y.gap = max(y.gap-1, -1)
		return machine.Action{}
	}
	y.acts = y.binding.Departures(y.acts[:0], c, p)
	which := int(y.data[y.next+1])
	if len(y.acts) == 0 {
		return machine.Action{} // at the next point where something is
	}
	y.next += 2
	y.load()
	a := y.acts[which%len(y.acts)]
	if cost := chargeOf(c, p, &a); !y.left.spend(cost) {
		return machine.Action{}
	}
	return a
}

// A Guided search changes strings of bytes by chance and keeps those that made something new
// happen: a context that touched what another had touched before it, in a way not seen yet.
type Guided struct {
	Bounds Bounds
	bytes  Bytes
	chance source
	corpus [][]byte
	seen   map[uint64]bool
	fresh  int // of the last run
	last   map[uint64]touched
	input  []byte
}

// touched is who touched an object last, and where.
type touched struct {
	who     *machine.Ctx
	handler *machine.Handler
	at      uint64
}

// NewGuided starts a search with an empty string.
func NewGuided(seed uint64, bounds Bounds) *Guided {
	return &Guided{Bounds: bounds, chance: source(seed), seen: map[uint64]bool{},
		last: map[uint64]touched{}, corpus: [][]byte{{}}}
}

// Bind starts a run of the next string.
func (g *Guided) Bind(b *sched.Binding) {
	clear(g.last)
	g.fresh = 0
	g.bytes.Bounds = g.Bounds
	g.bytes.Set(g.input)
	g.bytes.Bind(b)
}

// Choose is that of the string.
func (g *Guided) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	return g.bytes.Choose(c, p)
}

// Begin is not looked at.
func (g *Guided) Begin(*machine.Ctx) {}

// Touch notes who touched an object before whom, and where both were.
func (g *Guided) Touch(c *machine.Ctx, a machine.Access) {
	line, _, _ := c.At()
	now := touched{who: c, handler: c.Running(),
		at: (uint64(line+1)<<8|uint64(c.Kind()))<<4 | uint64(a.Kind)}
	before, ok := g.last[a.Object]
	g.last[a.Object] = now
	if !ok || before.who == now.who && before.handler == now.handler {
		return
	}
	pair := a.Object ^ before.at*0x9e3779b97f4a7c15 ^ now.at*0xbf58476d1ce4e5b9
	if !g.seen[pair] {
		g.seen[pair] = true
		g.fresh++
	}
}

// Next makes the string of the next run, and first keeps that of the last one when it was new.
func (g *Guided) Next() {
	if g.fresh > 0 {
		g.corpus = append(g.corpus, append([]byte(nil), g.input...))
	}
	from := g.corpus[g.chance.below(len(g.corpus))]
	g.input = append(g.input[:0], from...)
	for range 1 + g.chance.below(3) {
		g.change()
	}
}

// pairsMax is the number of departures of a string.
const pairsMax = 16

// change makes one change to the string.
func (g *Guided) change() {
	n := len(g.input) / 2
	gap, which := byte(g.chance.below(64)), byte(g.chance.below(8))
	if g.chance.below(4) == 0 {
		gap = byte(g.chance.below(256))
	}
	switch k := g.chance.below(4); {
	case n == 0 || k == 0 && n < pairsMax:
		at := 2 * g.chance.below(n+1)
		g.input = append(g.input, 0, 0)
		copy(g.input[at+2:], g.input[at:])
		g.input[at], g.input[at+1] = gap, which
	case k == 1:
		at := 2 * g.chance.below(n)
		g.input = append(g.input[:at], g.input[at+2:]...)
	case k == 2:
		g.input[2*g.chance.below(n)] = gap
	default:
		g.input[2*g.chance.below(n)+1] = which
	}
}
