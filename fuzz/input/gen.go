package input

import (
	"math/rand/v2"

	"allocfuzz/corpus/prog"
)

// GenerateOptions says what Generate makes.
type GenerateOptions struct {
	// Decode says which programs are wanted.
	Decode DecodeOptions
	// Lines is the number of operation records; 0: 12.
	Lines int
}

// Generate returns a random program, the same for the same state of rng: what GenerateBytes makes,
// decoded.
func Generate(rng *rand.Rand, opt GenerateOptions) *prog.Program {
	return Decode(GenerateBytes(rng, opt), opt.Decode)
}

// GenerateBytes returns a random input: a head half of whose bytes are zero, so that programs
// differ from the default in some respects only, and records of operations, with a departure
// behind one of five. Each input leaves some of the contexts out (swarm testing), so that there
// are programs of one context too, and one of six is mostly about pages.
func GenerateBytes(rng *rand.Rand, opt GenerateOptions) []byte {
	n := opt.Lines
	if n <= 0 {
		n = 12
	}
	g := generator{rng: rng, misuse: opt.Decode.Misuse, debug: opt.Decode.Debug,
		smp: opt.Decode.SMP}
	data := make([]byte, HeadSize, HeadSize+2*n*RecordSize)
	for i := range data[:headEdits] {
		if rng.IntN(2) == 0 {
			data[i] = byte(rng.Uint32())
		}
	}
	if g.debug {
		g.debugHead(data)
	}
	for i := 1 + rng.IntN(6); i > 0; i-- {
		g.contexts = append(g.contexts, byte(rng.IntN(len(ctxCodes))))
	}
	if g.smp { // some of few, and whoever is there already
		few := [...]byte{0, ctxByte(ctxCPU + 1), ctxByte(ctxTask), ctxByte(ctxIRQ),
			ctxByte(ctxIRQ + 1)}
		g.contexts = append(g.contexts[:1], few[g.rng.IntN(2)])
		for range 1 + g.rng.IntN(4) {
			g.contexts = append(g.contexts, few[g.rng.IntN(len(few))])
		}
	}
	g.pages = rng.IntN(6) == 0
	sched := !opt.Decode.Sequential && rng.IntN(3) > 0
	for range n {
		data = g.append(data, g.operation())
		if rng.IntN(40) == 0 {
			data = g.append(data, g.value())
		}
		if sched && (rng.IntN(5) == 0 || g.smp && rng.IntN(2) == 0) {
			data = g.append(data, g.departure())
		}
	}
	return data
}

// generator makes single records.
type generator struct {
	rng      *rand.Rand
	misuse   bool
	debug    bool
	smp      bool   // departures are more frequent, and of all kinds
	pages    bool   // most operations are on pages
	contexts []byte // to choose from, as first bytes
}

// pageVerbs are what a program about pages does, as often as they stand here.
var pageVerbs = [...]prog.Verb{prog.Pages, prog.Pages, prog.Pages, prog.PagesFree,
	prog.PagesFree, prog.PagesFree, prog.Drain, prog.Offline}

func (g *generator) append(data []byte, r record) []byte { return append(data, r[:]...) }

func (g *generator) byte() byte { return byte(g.rng.Uint32()) }

// debugHead gives most declared caches debug flags, and one machine of four debug options.
func (g *generator) debugHead(data []byte) {
	var flags, options []byte
	for i := range flagsTable {
		if flagsTable[i]&checkedFlags != 0 {
			flags = append(flags, byte(i))
		}
	}
	for i := range debugTable {
		if debugTable[i] != 0 {
			options = append(options, byte(i))
		}
	}
	for i := range declaredMax {
		if at := headCache + cacheBytes*i + headFlags; g.rng.IntN(8) > 0 {
			data[at] = flags[g.rng.IntN(len(flags))]
		}
	}
	data[headBasePages] &= 15
	if g.rng.IntN(4) == 0 {
		data[headBasePages] |= options[g.rng.IntN(len(options))] << 4
	}
}

// operation returns a random operation. Flags and failures are rarer than in random bytes.
func (g *generator) operation() record {
	var r record
	for i := range r {
		r[i] = g.byte()
	}
	r[0] = g.contexts[g.rng.IntN(len(g.contexts))]
	if r[1] >= misuseFrom && !g.misuse {
		r[1] -= verbPlaces
	}
	if g.pages && g.rng.IntN(5) > 0 {
		r[1] = verbByte[pageVerbs[g.rng.IntN(len(pageVerbs))]]
	}
	if g.smp && g.rng.IntN(2) == 0 {
		if r[1] = verbByte[smpVerbs[g.rng.IntN(len(smpVerbs))]]; r[1] == verbByte[prog.Alloc] {
			r[3] = 0 // of the first cache
		}
	}
	if g.debug {
		switch n := g.rng.IntN(24); {
		case n == 0:
			r[1] = verbByte[prog.ValidateCache]
		case n == 1 && g.misuse:
			r[1] = g.misuseByte()
		}
	}
	if g.rng.IntN(4) > 0 {
		r[2] %= 8
	}
	if g.rng.IntN(4) > 0 {
		r[6] = 0
	}
	if g.rng.IntN(2) > 0 {
		r[7] = 0
	}
	return r
}

// departure returns a departure at or near the line in front of it.
func (g *generator) departure() record {
	r := record{tagDeparture, 0, g.byte(), g.byte(), g.byte(), g.byte(), g.byte(), g.byte()}
	switch g.rng.IntN(8) {
	case 0:
		r[1] = byte(g.rng.IntN(8))
	case 1:
		r[0] = tagMore
	}
	if g.smp {
		r[6] = r[6]&^7 | smpActions[g.rng.IntN(len(smpActions))]
		r[4] %= 1 << (1 + g.rng.IntN(5)) // few lines have many points of any kind
	}
	return r
}

// smpVerbs are what half of the operations are with SMP.
var smpVerbs = [...]prog.Verb{prog.Alloc, prog.Alloc, prog.Alloc, prog.Free, prog.Free}

// smpActions are the places in actionTable of what departs with SMP, as often as they stand
// here: an interrupt (or, with store buffers, what is done with them), another CPU and another
// task, a move, a page request that fails.
var smpActions = [...]byte{0, 2, 4, 1, 1, 3, 3, 5, 5, 6}

// value returns a value that is mostly small.
func (g *generator) value() record {
	r := record{tagValue, g.byte(), g.byte()}
	for i := 3; i < 2+g.rng.IntN(RecordSize-1); i++ {
		r[i] = g.byte()
	}
	return r
}

// Mutate returns an input that differs from data by one to four changes: a byte, a record put in,
// taken out, copied or exchanged with its neighbour, a departure behind some line, a handler's
// pair of allocation and free repeated nearly a power of two times, another context for some
// lines. With opt.Debug it may also be a misuse with a validation behind it, with opt.SMP half
// of the changes are departures. The change is the
// same for the same state of rng; data is left alone.
func Mutate(rng *rand.Rand, data []byte, opt DecodeOptions) []byte {
	out := make([]byte, max(len(data), HeadSize), len(data)+HeadSize+16*RecordSize)
	copy(out, data)
	for len(out) > HeadSize && (len(out)-HeadSize)%RecordSize != 0 {
		out = append(out, 0)
	}
	g := newMutator(rng)
	g.debug, g.smp = opt.Debug, opt.SMP
	for i := 1 + rng.IntN(4); i > 0; i-- {
		out = g.mutate(out)
	}
	return out
}

// newMutator makes a generator for changes: new records are of few contexts.
func newMutator(rng *rand.Rand) *generator {
	return &generator{rng: rng, misuse: true,
		contexts: []byte{0, ctxByte(ctxIRQ), ctxByte(1)}}
}

// mutate makes one change.
func (g *generator) mutate(data []byte) []byte {
	n := (len(data) - HeadSize) / RecordSize
	if n == 0 {
		return g.append(data, g.operation())
	}
	i := g.rng.IntN(n)
	at := HeadSize + i*RecordSize
	if g.smp && g.rng.IntN(2) == 0 {
		return insert(data, at+RecordSize, g.departure())
	}
	kinds := 12
	if g.debug {
		kinds++
	}
	switch g.rng.IntN(kinds) {
	case 0:
		places := headEdits
		if g.rng.IntN(2) == 0 {
			places = headTasks // what the machine is matters more than any one cache
		}
		data[g.rng.IntN(places)] = g.byte()
	case 1, 2:
		data[at+g.rng.IntN(RecordSize)] = g.byte()
	case 3:
		return insert(data, at, g.operation())
	case 4:
		return append(data[:at], data[at+RecordSize:]...)
	case 5:
		return insert(data, HeadSize+g.rng.IntN(n+1)*RecordSize, record(data[at:at+RecordSize]))
	case 6:
		if i+1 < n {
			r := record(data[at : at+RecordSize])
			copy(data[at:], data[at+RecordSize:at+2*RecordSize])
			copy(data[at+RecordSize:], r[:])
		}
	case 7, 10, 11: // most races are one departure away from a program without
		return insert(data, at+RecordSize, g.departure())
	case 8:
		return g.churn(data, at)
	case 9:
		g.recontext(data, i)
	case 12:
		return g.damage(data, at+RecordSize)
	}
	return data
}

// damage puts a misuse in, and often a validation of some cache: what nothing looks at is not
// found.
func (g *generator) damage(data []byte, at int) []byte {
	if g.rng.IntN(2) == 0 {
		data = insert(data, at, record{0, verbByte[prog.ValidateCache], 0, g.byte()})
	}
	r := g.operation()
	if g.misuse {
		r[1] = g.misuseByte()
	}
	return insert(data, at, r)
}

// misuseByte returns some byte of a misuse verb.
func (g *generator) misuseByte() byte { return misuseFrom + g.byte()%(1<<8-misuseFrom) }

// churn puts a repeat of one allocation and its free in front of a record, in that record's
// context when it is an operation: what a sequence counter needs to come round.
func (g *generator) churn(data []byte, at int) []byte {
	ctx := data[at]
	if ctx >= tagDeparture {
		ctx = ctxByte(ctxIRQ)
	}
	slot := byte(g.rng.IntN(SlotsMax))
	data = insert(data, at, record{ctx, verbByte[prog.Free], 0, slot})
	data = insert(data, at, record{ctx, verbByte[prog.Alloc], slot})
	return insert(data, at, record{ctx, verbByte[prog.Repeat], 1, 0, g.byte()})
}

// recontext gives a run of operations to another context.
func (g *generator) recontext(data []byte, i int) {
	ctx := byte(g.rng.IntN(len(ctxCodes)))
	for range 1 + g.rng.IntN(4) {
		at := HeadSize + i*RecordSize
		if at >= len(data) {
			return
		}
		if data[at] < tagDeparture {
			data[at] = ctx
		}
		i++
	}
}

// insert puts a record in at an offset.
func insert(data []byte, at int, r record) []byte {
	data = append(data, r[:]...)
	copy(data[at+RecordSize:], data[at:])
	copy(data[at:], r[:])
	return data
}
