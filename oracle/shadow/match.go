package shadow

import (
	"fmt"
	"slices"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// A want is one report that must be made.
type want struct {
	title  string
	cache  *cache
	slab   impls.Addr // 0 for none
	object impls.Addr // 0 for none
	fatal  bool       // the kernel stops there
	bytes  bool       // about bytes: from and behind, the first wrong one, the right one
	from   impls.Addr
	to     impls.Addr
	got    byte
	byte   byte
	blots  blots // of the tracks of the object
}

// A group is a part of want whose place among the groups is open: slabs go back in
// whatever order the allocator likes.
type group struct{ from, to int }

func (s *Shadow) add(w want) {
	if w.object != 0 && w.cache.l.Flags.Has(debugcheck.StoreUser) {
		w.blots = blotted(w.cache, w.object)
	}
	s.want = append(s.want, w)
}

// stop says that the kernel stops at what was added last, and is false.
func (s *Shadow) stop() bool {
	s.want[len(s.want)-1].fatal = true
	return false
}

// is says whether r is the report that w wants.
func (w *want) is(r *debugcheck.Report) bool {
	switch {
	case r.Title != w.title || r.Cache != w.cache.l.Name:
		return false
	case r.Object != w.object || r.Slab != w.slab:
		return false
	case w.bytes:
		return r.From == w.from && r.To == w.to && r.Got == w.got && r.Want == w.byte
	}
	return true
}

// match holds the reports of an operation against what is wanted. After the first
// difference nothing more is judged: what follows from it is no news.
func (s *Shadow) match(reports []*debugcheck.Report) {
	s.order(reports)
	for i := 0; i < len(reports) || i < len(s.want); i++ {
		switch {
		case i == len(s.want):
			s.accuse(reports[i])
		case i == len(reports):
			s.miss(&s.want[i])
		case s.want[i].is(reports[i]):
			w := &s.want[i]
			if s.tracked(w.cache, reports[i], w.blots, always); !s.lost {
				continue
			}
		case !s.wanted(reports[i].Title, i):
			s.accuse(reports[i])
		case !told(reports[i:], s.want[i].title):
			s.miss(&s.want[i])
		default:
			r, w := reports[i], &s.want[i]
			s.raise(fault.WrongReport, r.Title, "%s; the rules say: %s", brief(r), w)
		}
		return
	}
}

func always(impls.Addr) bool { return true }

// stopped holds whether the kernel stopped against what is wanted.
func (s *Shadow) stopped(halted bool) {
	for i := range s.want {
		w := &s.want[i]
		if last := i == len(s.want)-1; !s.lost && w.fatal != (halted && last) {
			s.raise(fault.WrongReport, w.title, "stopped: %v; the rules say: %s", halted, w)
		}
	}
}

// order puts the groups of want in the order in which the reports have them.
func (s *Shadow) order(reports []*debugcheck.Report) {
	if len(s.groups) < 2 {
		return
	}
	at := s.groups[0].from
	sorted := make([]want, 0, len(s.want)-at)
	left := append([]group(nil), s.groups...)
	for len(left) > 0 {
		pick := 0
		for i, g := range left {
			n := at + len(sorted)
			if n < len(reports) && s.want[g.from].is(reports[n]) {
				pick = i
				break
			}
		}
		sorted = append(sorted, s.want[left[pick].from:left[pick].to]...)
		left = append(left[:pick], left[pick+1:]...)
	}
	copy(s.want[at:], sorted)
}

// wanted says whether a title is wanted at i or later.
func (s *Shadow) wanted(title string, i int) bool {
	return slices.ContainsFunc(s.want[i:], func(w want) bool { return w.title == title })
}

// told says whether a title is among reports.
func told(reports []*debugcheck.Report, title string) bool {
	return slices.ContainsFunc(reports, func(r *debugcheck.Report) bool { return r.Title == title })
}

// accuse raises a report that nothing explains.
func (s *Shadow) accuse(r *debugcheck.Report) {
	s.raise(fault.FalseReport, r.Title, "%s", brief(r))
}

// miss raises a report that did not come.
func (s *Shadow) miss(w *want) { s.raise(fault.MissedMisuse, w.title, "the rules say: %s", w) }

func (s *Shadow) raise(head fault.Title, title, format string, args ...any) {
	s.lost = true
	s.Raise(head+": "+fault.Title(title), format, args...)
}

// mend notes that a field of v was repaired, after a report.
func (s *Shadow) mend(v *view, title string) {
	if v.said == "" {
		s.mended = append(s.mended, v)
	}
	v.said = title
}

// mends looks whether the fields that were repaired are what they should be.
func (s *Shadow) mends() {
	for i := range s.after.Slabs {
		b, d := &s.after.Slabs[i], &s.storedAfter[i]
		for _, v := range s.mended {
			if s.lost || v.b.Addr != b.Addr {
				continue
			}
			retired := s.retired[b.Page]
			inuse := v.d.Inuse & inuseMost
			if d.Objects == v.d.Objects && d.Inuse == inuse && d.Frozen == v.d.Frozen &&
				slices.Equal(b.Free, v.chain) && !(retired && len(b.On) > 0) {
				continue
			}
			s.raise(fault.WrongRepair, v.said, "slab %#x has %d of %d objects in use, frozen %v, "+
				"free %#x, on %d lists; the rules say: %d of %d, frozen %v, free %#x, retired %v",
				b.Addr, d.Inuse, d.Objects, d.Frozen, b.Free, len(b.On), inuse, v.d.Objects,
				v.d.Frozen, v.chain, retired)
		}
	}
}

// inuseMost is the largest count of objects in use, a field of 16 bits.
const inuseMost = 1<<16 - 1

// repaired looks whether what was reported is right again.
func (s *Shadow) repaired() {
	if s.lost {
		return
	}
	var b [1]byte
	for i := range s.want {
		w := &s.want[i]
		if w.cache.l.Rules.SLAB() || !s.there(w) {
			continue
		}
		if w.title == freePointer && w.object != 0 { // else of the slab, see mends
			s.unlinked(w)
		}
		for a := w.from; a != w.to; a++ {
			if s.Memory.Read(a, b[:]) == 1 && b[0] != w.byte {
				s.raise(fault.WrongRepair, w.title, "byte at %#x is %#02x; the rules say: %s", a,
					b[0], w)
				return
			}
		}
	}
}

// unlinked looks whether the free pointer that a report was about ends the chain now.
func (s *Shadow) unlinked(w *want) {
	l := w.cache.l
	if link, ok := s.word(w.cache, w.object+l.Link); ok && link != l.End {
		s.raise(fault.WrongRepair, w.title, "link %#x; the rules say: %s", link, w)
	}
}

// there says whether the slab that a report was about is there after the operation.
func (s *Shadow) there(w *want) bool {
	if s.Blind {
		_, ok := w.cache.Slab(w.object)
		return ok
	}
	for i := range s.after.Slabs {
		if s.after.Slabs[i].Addr == w.slab {
			return true
		}
	}
	return false
}

// settle forgets what was noted of slabs whose pages went back.
func (s *Shadow) settle() {
	if len(s.odd) == 0 {
		return
	}
	for i := range s.before.Slabs {
		if b := &s.before.Slabs[i]; !s.remains(b) {
			delete(s.odd, b.Page)
			delete(s.shaky, b.Page)
		}
	}
}

// brief is a report on one line.
func brief(r *debugcheck.Report) string {
	out := fmt.Sprintf("%s: %s", r.Cache, r.Title)
	if r.Detail != "" {
		out += ": " + r.Detail
	}
	if r.Object != 0 {
		out += fmt.Sprintf(", object %#x", r.Object)
	}
	return out
}

// String says what is wanted, for the evidence of a finding.
func (w *want) String() string {
	out := fmt.Sprintf("%s of %s", w.title, w.cache.l.Name)
	if w.object != 0 {
		out += fmt.Sprintf(", object %#x", w.object)
	} else if w.slab != 0 {
		out += fmt.Sprintf(", slab %#x", w.slab)
	}
	if w.bytes {
		out += fmt.Sprintf(", %#x-%#x, first byte %#02x instead of %#02x", w.from, w.to-1, w.got,
			w.byte)
	}
	if w.fatal {
		out += ", and a stop"
	}
	return out
}
