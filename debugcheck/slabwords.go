package debugcheck

import (
	"bytes"
	"fmt"
	"math/bits"
)

// SLAB debugs in its own way. What differs from SLUB:
//
//   - A red zone is one word on each side with a magic number for either state, not a
//     run of equal bytes. The number of 2.4 has 32 bits and that of 2.6 has 64: where
//     a word is smaller the low bytes are kept, where it is bigger zeros follow.
//   - Free objects of 2.4 hold 0x5a and then 0xa5, and the check asks only whether the
//     first 0xa5 is the last byte: any other damage goes unseen. 2.6 fills with 0x6b
//     and 0xa5 and looks at every byte. It also fills what it hands out, with 0x5a.
//   - One word keeps the last user (U), whether it allocated or freed, and nothing
//     checks it.
//   - The links are indexes outside the objects. Memory.Link reaches them by address:
//     it gives the next free object, Layout.End behind the last.
//   - Red words are checked with Z, poison with P, at allocation, free and when a slab
//     goes back. F adds what the kernel does with the index: an object that is freed
//     must be one, and must not be on the chain already.
//   - Nothing is repaired and no slab is retired. 2.4 stops at whatever it finds, 2.6
//     reports damaged bytes, goes on and frees all the same; it stops at a wrong index.
//   - An object that is allocated must be one of its slab whatever the flags: nobody
//     could go on from there.
//   - Neither kernel has a validation. Here it checks that the chain stays inside the
//     slab, is no ring and fits the count, and then all objects by their state: on the
//     chain free, else allocated. It stops nothing.

// magic is the number in the red words of an object.
func (r Rules) magic(st State) uint64 {
	switch {
	case r == SLAB24 && st == Active:
		return 0x170fc2a5
	case r == SLAB24:
		return 0x5a2cf071
	case st == Active:
		return 0xd84156c5635688c0
	}
	return 0x09f911029d74e35b
}

// poison is the byte that fills objects in state st.
func (r Rules) poison(st State) byte {
	if r == SLAB24 || st == Active {
		return poisonInuse
	}
	return poisonFree
}

// kind is how SLAB reports damaged bytes.
func (r Rules) kind() Kind {
	if r == SLAB24 {
		return Fatal
	}
	return Bug
}

// slabSetUp makes every object of a new slab inactive, with no last user.
func (k *Checker) slabSetUp(s *Slab) {
	l := k.Layout
	for i := range k.objects(s) {
		a := l.objectAt(s, i)
		k.slabDeactivate(a)
		if l.Tracks != 0 {
			clear(k.bytes(AllocTrack, a+l.Track, l.Tracks))
		}
	}
}

// slabActivate is what an allocation writes. 2.4 leaves the poison of the free object
// in the one that it hands out.
func (k *Checker) slabActivate(a uint64) {
	if k.Layout.Rules != SLAB24 {
		k.putPoison(a, Active)
	}
	k.putMagic(a, Active)
}

// slabDeactivate is what a free writes.
func (k *Checker) slabDeactivate(a uint64) {
	k.putMagic(a, Inactive)
	k.putPoison(a, Inactive)
}

// putMagic writes both red words.
func (k *Checker) putMagic(a uint64, st State) {
	for _, r := range [...]Region{LeftRed, RightRed} {
		v := k.Layout.Rules.magic(st)
		b := k.magicWord(r, a)
		for i := range b {
			b[i] = byte(v)
			v >>= 8
		}
	}
}

// putPoison fills the object.
func (k *Checker) putPoison(a uint64, st State) {
	l := k.Layout
	if b := k.body(a); len(b) > 0 {
		fill(b[:len(b)-1], l.Rules.poison(st))
		b[len(b)-1] = poisonEnd
	}
}

// magicWord is a red word of the object at a: nil without Z or memory.
func (k *Checker) magicWord(r Region, a uint64) []byte {
	l := k.Layout
	from, to := l.At(r)
	if !l.Flags.Has(RedZone) || from >= to {
		return nil
	}
	return k.bytes(r, a+uint64(from), uint64(to-from))
}

// body is the object at a where it is poisoned when it is free: nil otherwise and where
// there is no memory.
func (k *Checker) body(a uint64) []byte {
	if !k.Layout.Body {
		return nil
	}
	return k.bytes(Object, a, k.Layout.Size)
}

// slabFound opens a report of some kind.
func (k *Checker) slabFound(s *Slab, kind Kind, title, detail string, a uint64) *Report {
	r := k.found(s, title, detail, a)
	r.Kind = kind
	return r
}

// slabAllocOK checks an object that was taken off the chain. Only 2.4, and an address
// that is no object, keep it from being handed out.
func (k *Checker) slabAllocOK(s *Slab, a uint64) bool {
	ok := k.slabTakeOK(s, a)
	k.flush()
	return ok
}

func (k *Checker) slabTakeOK(s *Slab, a uint64) bool {
	rules := k.Layout.Rules
	if !k.isObject(s, a) {
		k.slabFound(s, Fatal, TitleSlabChain, offChain(a), 0)
		return false
	}
	if !k.poisonOK(s, a, rules.kind()) && rules == SLAB24 {
		return false
	}
	left, right := k.magicOf(s, LeftRed, a), k.magicOf(s, RightRed, a)
	if left.is(rules, Inactive) && right.is(rules, Inactive) {
		return true
	}
	k.slabRed(s, a, TitleSlabEither, Inactive).Kind = rules.kind()
	return rules != SLAB24
}

// slabFreeOK checks objects that are to be freed. Like the kernel it has done with each
// before it looks at the next. How many were announced counts for nothing.
func (k *Checker) slabFreeOK(s *Slab, list []uint64, _ int) bool {
	ok := true
	for i, a := range list {
		if i > 0 {
			k.slabDeactivate(list[i-1])
		}
		if ok = k.slabGiveOK(s, a); !ok {
			break
		}
	}
	k.flush()
	return ok
}

// slabGiveOK checks one of them.
func (k *Checker) slabGiveOK(s *Slab, a uint64) bool {
	l := k.Layout
	if !k.activeOK(s, a, l.Rules.kind()) && l.Rules == SLAB24 {
		return false
	}
	if !l.Flags.Has(Sanity) {
		return true
	}
	if !k.isObject(s, a) {
		k.slabFound(s, Fatal, TitleInvalidPointer, fmt.Sprintf("0x%x", a), a)
		return false
	}
	switch _, met, wrong := k.chain(s, a); {
	case met:
		k.slabFound(s, Fatal, TitleSlabOnChain, "", a)
		return false
	case wrong != "":
		k.slabFound(s, Fatal, TitleSlabChain, wrong, 0)
		return false
	}
	return true
}

// slabDiscard checks a slab whose pages are about to go back: 2.4 the red words of an
// object first, 2.6 its poison.
func (k *Checker) slabDiscard(s *Slab) {
	kind := k.Layout.Rules.kind()
	for i := range k.objects(s) {
		if !k.inactiveOK(s, k.Layout.objectAt(s, i), kind) && kind == Fatal {
			break
		}
	}
	k.flush()
}

// slabValidate checks the chain and the objects of a slab.
func (k *Checker) slabValidate(s *Slab) {
	defer k.flush()
	n, _, wrong := k.chain(s, 0)
	if wrong != "" {
		k.slabFound(s, Bug, TitleSlabChain, wrong, 0)
		return
	}
	if n != s.Objects-s.Inuse {
		k.slabFound(s, Bug, TitleSlabChain,
			fmt.Sprintf("%d objects on the chain but inuse=%d of %d", n, s.Inuse, s.Objects), 0)
	}
	k.mark(s)
	for i := range k.objects(s) {
		a := k.Layout.objectAt(s, i)
		if k.free[i/64]>>(i%64)&1 != 0 {
			k.inactiveOK(s, a, Bug)
		} else {
			k.activeOK(s, a, Bug)
		}
	}
}

// chain follows the chain of s to the object sought, 0 for none, or to its end, and
// counts; wrong says why it cannot be followed.
func (k *Checker) chain(s *Slab, sought uint64) (n int, met bool, wrong string) {
	for a := s.Freelist; a != k.Layout.End; a = k.link(a) {
		switch {
		case !k.isObject(s, a):
			return n, false, offChain(a)
		case a == sought:
			return n, true, ""
		case n == k.objects(s):
			return n, false, "the chain is a ring"
		}
		n++
	}
	return n, false, ""
}

func offChain(a uint64) string { return fmt.Sprintf("0x%x on the chain is no object", a) }

// activeOK checks the red words of an object that is allocated. 2.6 tells a second free
// from a write beside the object; in 2.4 either is all that is known.
func (k *Checker) activeOK(s *Slab, a uint64, kind Kind) bool {
	rules := k.Layout.Rules
	left, right := k.magicOf(s, LeftRed, a), k.magicOf(s, RightRed, a)
	if left.is(rules, Active) && right.is(rules, Active) {
		return true
	}
	switch {
	case rules == SLAB24:
		k.slabRed(s, a, TitleSlabEither, Active).Kind = kind
	case left.is(rules, Inactive) && right.is(rules, Inactive):
		k.slabFound(s, kind, TitleSlabDouble, redDetail(left, right), a)
	default:
		k.slabRed(s, a, TitleSlabOutside, Active).Kind = kind
	}
	return false
}

// inactiveOK checks an object that is free.
func (k *Checker) inactiveOK(s *Slab, a uint64, kind Kind) bool {
	if k.Layout.Rules == SLAB24 {
		ok := k.endsOK(s, a, kind)
		if !ok && kind == Fatal {
			return false
		}
		return k.poisonOK(s, a, kind) && ok
	}
	ok := k.poisonOK(s, a, kind)
	return k.endsOK(s, a, kind) && ok
}

// endsOK checks the red words of an object that is free, each by itself.
func (k *Checker) endsOK(s *Slab, a uint64, kind Kind) bool {
	rules := k.Layout.Rules
	left, right := k.magicOf(s, LeftRed, a), k.magicOf(s, RightRed, a)
	ok := true
	if !left.is(rules, Inactive) {
		left.mark(k.slabFound(s, kind, TitleSlabStart, redDetail(left, right), a), rules, Inactive)
		ok = false
	}
	if !right.is(rules, Inactive) && (ok || kind != Fatal) {
		right.mark(k.slabFound(s, kind, TitleSlabEnd, redDetail(left, right), a), rules, Inactive)
		ok = false
	}
	return ok
}

// slabRed reports red words of which at least one is wrong: the first that is.
func (k *Checker) slabRed(s *Slab, a uint64, title string, st State) *Report {
	rules := k.Layout.Rules
	left, right := k.magicOf(s, LeftRed, a), k.magicOf(s, RightRed, a)
	r := k.found(s, title, redDetail(left, right), a)
	if left.is(rules, st) {
		left = right
	}
	left.mark(r, rules, st)
	return r
}

// A redWord is a red word as it was found.
type redWord struct {
	region Region
	at     uint64
	n      int // bytes; 0 when there is none, or no memory there
	value  uint64
	beyond bool // it would not lie in the slab: only around what is no object
}

// magicOf reads a red word of the object at a.
func (k *Checker) magicOf(s *Slab, r Region, a uint64) redWord {
	from, to := k.Layout.At(r)
	w := redWord{region: r, at: a + uint64(from)}
	if !k.Layout.Flags.Has(RedZone) || from >= to {
		return w
	}
	n := uint64(to - from)
	if n > s.Bytes || w.at < s.Addr || w.at-s.Addr > s.Bytes-n {
		w.beyond = true
		return w
	}
	b := k.magicWord(r, a)
	w.n, w.value = len(b), littleEndian(b)
	return w
}

// is says whether the word is that of state st. One that is nowhere is right, unless
// it would have to be beside the slab.
func (w *redWord) is(r Rules, st State) bool {
	return !w.beyond && (w.value^r.magic(st))&w.mask() == 0
}

// mask has the bits of the word.
func (w *redWord) mask() uint64 {
	if w.n >= 8 {
		return ^uint64(0)
	}
	return 1<<(8*w.n) - 1
}

// mark notes in r which bytes of the word are not those of state st.
func (w *redWord) mark(r *Report, rules Rules, st State) {
	want := rules.magic(st)
	diff := (w.value ^ want) & w.mask()
	if diff == 0 {
		return
	}
	first := bits.TrailingZeros64(diff) / 8
	last := (bits.Len64(diff) - 1) / 8
	r.Region, r.From, r.To = w.region, w.at+uint64(first), w.at+uint64(last)+1
	r.Got, r.Want = byte(w.value>>(8*first)), byte(want>>(8*first))
}

func redDetail(left, right redWord) string {
	return fmt.Sprintf("redzone 1:0x%x, redzone 2:0x%x", left.value, right.value)
}

// poisonOK checks the body of an object that is free.
func (k *Checker) poisonOK(s *Slab, a uint64, kind Kind) bool {
	b := k.body(a)
	if len(b) == 0 {
		return true
	}
	from, to, want := fullCheck(b)
	if k.Layout.Rules == SLAB24 {
		from, to, want = weakCheck(b)
	}
	if from == to {
		return true
	}
	got := b[from]
	detail := fmt.Sprintf("start=0x%x, len=%d. First byte 0x%x instead of 0x%x",
		a, len(b), got, want)
	if to-from == 1 && bits.OnesCount8(got^want) == 1 {
		detail += ". Single bit error detected"
	}
	r := k.slabFound(s, kind, TitleSlabPoison, detail, a)
	r.Region, r.From, r.To, r.Got, r.Want = Object, a+uint64(from), a+uint64(to), got, want
	return false
}

// weakCheck is that of 2.4: the first 0xa5 must be the last byte. It gives the one byte
// that gave the damage away, from == to when none did, and what it should be.
func weakCheck(b []byte) (from, to int, want byte) {
	last := len(b) - 1
	switch i := bytes.IndexByte(b, poisonEnd); i {
	case last:
		return 0, 0, 0
	case -1:
		return last, last + 1, poisonEnd
	default:
		return i, i + 1, poisonInuse
	}
}

// fullCheck is that of 2.6: every byte. It gives the first that is wrong, one behind
// the last, and what the first should be.
func fullCheck(b []byte) (from, to int, want byte) {
	last := len(b) - 1
	from, to, want = firstNot(b[:last], poisonFree), lastNot(b[:last], poisonFree)+1, poisonFree
	if b[last] != poisonEnd {
		to = last + 1
		if from < 0 {
			from, want = last, poisonEnd
		}
	}
	if from < 0 {
		return 0, 0, 0
	}
	return from, to, want
}
