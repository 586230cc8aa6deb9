package input

import (
	"math/bits"
	"strconv"

	"allocfuzz/corpus/prog"
)

// This file follows what the names of a program hold, so that operands are mostly live and of the
// kind that the operation wants. A name keeps the kind of its first use: whatever order a schedule
// makes of the program, no object then reaches the wrong cache by accident.

// Kinds of slots: objects of a cache by its number, and the two others.
const (
	kindSize  = CachesMax
	kindPages = CachesMax + 1
	kinds     = CachesMax + 2
)

// slots is what is known of the names of slots, one bit or entry each.
type slots struct {
	seen    uint64        // has a name in the text
	known   uint64        // bound by a line above
	live    uint64        // bound, and not given back since
	typed   uint64        // has a kind
	once    uint64        // bound by one line only
	sealed  uint64        // given back by size: must not be bound again
	early   uint64        // used before it was bound
	inner   uint64        // bound in the repeat being read
	repeats bool          // a repeat is being read
	many    uint64        // bound by several contexts
	of      [kinds]uint64 // by kind
	objs    uint64        // of a kind of object
	shown   int           // names in the text
	name    [SlotsMax]string
	kind    [SlotsMax]uint8
	size    [SlotsMax]uint64 // bytes asked for, where kind is kindSize
	ctx     [SlotsMax]prog.Ctx
	round   [SlotsMax]int32
	waits   []waiting
}

// waiting is the use of a slot that no line above binds.
type waiting struct {
	slot  int
	line  *prog.Line
	round int32
}

// reset forgets the masks; the tables are valid under the masks only.
func (s *slots) reset() {
	s.seen, s.known, s.live, s.typed, s.once, s.sealed, s.early, s.many = 0, 0, 0, 0, 0, 0, 0, 0
	s.inner, s.repeats = 0, false
	s.of, s.objs, s.shown, s.waits = [kinds]uint64{}, 0, 0, s.waits[:0]
}

// show returns the name of a slot; names are given in the order in which they occur.
func (s *slots) show(i int) string {
	if bit := uint64(1) << i; s.seen&bit == 0 {
		s.seen |= bit
		s.name[i] = slotNames[s.shown]
		s.shown++
	}
	return s.name[i]
}

func (s *slots) setKind(i, kind int) {
	bit := uint64(1) << i
	if s.typed&bit != 0 {
		return
	}
	s.typed |= bit
	s.kind[i] = uint8(kind)
	s.of[kind] |= bit
	if kind < CachesMax {
		s.objs |= bit
	}
}

// choose returns the slot that a result of the kind goes to: the very one that b says when exact
// is set and the kind allows it, else the next one that holds nothing. ok is false when every slot
// is of another kind.
func (s *slots) choose(b byte, exact bool, kind int) (slot int, ok bool) {
	i := int(b % SlotsMax)
	fits := (^s.typed | s.of[kind]) &^ s.sealed
	if exact && fits>>i&1 != 0 {
		return i, true
	}
	free := fits &^ s.live
	switch {
	case free>>i != 0:
		return i + bits.TrailingZeros64(free>>i), true
	case free != 0:
		return bits.TrailingZeros64(free), true
	case fits != 0:
		return nth(fits, i), true
	}
	return 0, false
}

// bind notes that a line of a context binds the slot.
func (s *slots) bind(i, kind int, ctx prog.Ctx, round int32) {
	bit := uint64(1) << i
	s.setKind(i, kind)
	if s.known&bit == 0 {
		s.once |= bit
		s.many &^= bit
		s.ctx[i], s.round[i] = ctx, round
	} else {
		s.once &^= bit
		if s.ctx[i] != ctx {
			s.many |= bit
		}
	}
	s.known |= bit
	s.live |= bit
	if s.repeats {
		s.inner |= bit
	}
}

// find returns the slot that an operand means: the one that b says when a line above binds it and
// it is among fits, else one that is live, of first or, failing that, of fits.
func (s *slots) find(b byte, first, fits uint64) (slot int, ok bool) {
	if s.exact(b, fits) {
		return int(b), true
	}
	for _, set := range [...]uint64{first & s.live, fits & s.live} {
		if set != 0 {
			return nth(set, int(b)), true
		}
	}
	return 0, false
}

// spend is find for an operation that gives the operand back. In a repeat it takes, of its own
// choice, only what the repeat binds: the next round would find anything else gone.
func (s *slots) spend(b byte, first, fits uint64) (slot int, ok bool) {
	if s.repeats && !s.exact(b, fits) {
		first, fits = first&s.inner, fits&s.inner
	}
	return s.find(b, first, fits)
}

// exact reports whether b says a slot that a line above binds and that is among fits.
func (s *slots) exact(b byte, fits uint64) bool {
	return b < SlotsMax && (s.known&fits)>>b&1 != 0
}

// waitFor returns the slot that b says as an operand that is bound further down, and is of a kind.
func (s *slots) waitFor(b byte, kind int) (slot int, ok bool) {
	i := int(b % SlotsMax)
	bit := uint64(1) << i
	if (s.known|s.sealed)&bit != 0 || s.typed&bit != 0 && s.of[kind]&bit == 0 {
		return 0, false
	}
	s.setKind(i, kind)
	s.early |= bit
	return i, true
}

// caches is what is known of the names of caches.
type caches struct {
	known   uint16
	checked uint16 // have debug flags
	shown   int
	name    [CachesMax]string
}

// checks notes the flags of a cache.
func (c *caches) checks(i int, flags []string) {
	c.checked &^= 1 << i
	if flagsOf(flags...)&checkedFlags != 0 {
		c.checked |= 1 << i
	}
}

func (c *caches) show(i int) string {
	if c.name[i] == "" {
		c.name[i] = cacheNames[c.shown]
		c.shown++
	}
	return c.name[i]
}

// find returns the cache that b means, ok is false when there is none.
func (c *caches) find(b byte) (cache int, ok bool) {
	if b < CachesMax && c.known>>b&1 != 0 {
		return int(b), true
	}
	if c.known == 0 {
		return 0, false
	}
	return nth(uint64(c.known), int(b)), true
}

// choose returns the cache that create binds.
func (c *caches) choose(b byte, exact bool) int {
	i := int(b % CachesMax)
	if free := ^c.known; !exact && free != 0 {
		if free>>i != 0 {
			return i + bits.TrailingZeros16(free>>i)
		}
		return bits.TrailingZeros16(free)
	}
	return i
}

// slotNames are the names of slots in the order in which a program uses them: c is a cache.
var slotNames = spellSlots()

func spellSlots() (names [SlotsMax]string) {
	for i := range names {
		if letter := "abdefghijklmnopqrstuvwxyz"; i < len(letter) {
			names[i] = letter[i : i+1]
		} else {
			names[i] = "x" + strconv.Itoa(i)
		}
	}
	return names
}

// cacheNames are the names of caches: c, c1, c2 and so on.
var cacheNames = spellCaches()

func spellCaches() (names [CachesMax]string) {
	names[0] = "c"
	for i := 1; i < CachesMax; i++ {
		names[i] = "c" + strconv.Itoa(i)
	}
	return names
}

// settleWaits makes sure that every name that was used too early is bound by somebody for whom the
// user can wait. The first line for which that is not so binds the name itself, which serves all
// further down.
func (d *Decoder) settleWaits() {
	s := &d.slots
	var done uint64
	for i := range s.waits {
		w := &s.waits[i]
		bit := uint64(1) << w.slot
		if done&bit != 0 || s.known&bit != 0 && s.waitable(w) {
			continue
		}
		if l := w.line; l.Verb == prog.Realloc {
			l.Verb, l.Slots = prog.Malloc, nil // it binds its result still, and not the operand
			continue
		}
		done |= bit
		d.becomes(w.line, int(s.kind[w.slot]))
		w.line.Results = d.one(s.show(w.slot))
	}
}

// waitable reports whether the text may use the slot where it does: another context binds it, or
// the same repeat does further down.
func (s *slots) waitable(w *waiting) bool {
	return s.many>>w.slot&1 != 0 || s.ctx[w.slot] != w.line.Ctx ||
		w.round != 0 && w.round == s.round[w.slot]
}

// becomes turns a line into an allocation of a kind, without its result.
func (d *Decoder) becomes(l *prog.Line, kind int) {
	*l = prog.Line{Ctx: l.Ctx}
	switch {
	case kind == kindPages:
		l.Verb, l.Nums = prog.Pages, d.numbers(0)
	case kind == kindSize:
		l.Verb, l.Nums = prog.Malloc, d.numbers(8)
	default:
		l.Verb, l.Cache = prog.Alloc, d.caches.show(kind)
	}
}
