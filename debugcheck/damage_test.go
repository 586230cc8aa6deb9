package debugcheck

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// A stretch of a slot is a run of bytes whose damage has one name: while the object is
// allocated, and while it is free. No name: nothing looks there.
type stretch struct {
	n            int // bytes
	region       Region
	active, free string
}

// A plan is a slot, stretch by stretch, of which 5 bytes were asked for.
type plan struct {
	name  string
	spec  Spec
	slots []stretch
}

const (
	saysLeft   = "Left Redzone overwritten"
	saysRight  = "Right Redzone overwritten"
	saysTail   = "kmalloc Redzone overwritten"
	saysAlign  = "Alignment padding overwritten"
	saysPoison = "Poison overwritten"
	saysLast   = "End Poison overwritten"
	saysPad    = "Object padding overwritten"
	saysLink   = "Freepointer corrupt"
)

var plans = []plan{
	{"FZPU kmalloc 6.12", Spec{Size: 12, Flags: Default, Kmalloc: true, Rules: SLUB612},
		[]stretch{{8, LeftRed, saysLeft, saysLeft}, {5, Object, "", saysPoison},
			{6, Object, saysTail, saysPoison}, {1, Object, saysTail, saysLast},
			{4, RightRed, saysRight, saysRight}, {8, FreePtr, saysLink, saysLink},
			{32, AllocTrack, "", ""}, {32, FreeTrack, "", ""}, {8, OrigSize, "", ""},
			{8, Padding, saysPad, saysPad}}},
	{"FZPU kmalloc 6.1", Spec{Size: 12, Flags: Default, Kmalloc: true},
		[]stretch{{8, LeftRed, saysLeft, saysLeft}, {11, Object, "", saysPoison},
			{1, Object, "", saysLast}, {4, RightRed, saysRight, saysRight},
			{8, FreePtr, saysLink, saysLink}, {32, AllocTrack, "", ""},
			{32, FreeTrack, "", ""}, {4, OrigSize, "", ""}, {12, Padding, saysPad, saysPad}}},
	{"FZU kmalloc 6.12", Spec{Size: 12, Flags: Sanity | RedZone | StoreUser, Kmalloc: true,
		Rules: SLUB612},
		[]stretch{{8, LeftRed, saysLeft, saysLeft}, {5, Object, "", ""},
			{7, Object, saysTail, ""}, {4, RightRed, saysRight, saysRight},
			{8, FreePtr, saysLink, saysLink}, {32, AllocTrack, "", ""},
			{32, FreeTrack, "", ""}, {8, OrigSize, "", ""}, {8, Padding, "", ""}}},
	{"FZ", Spec{Size: 20, Flags: Sanity | RedZone},
		[]stretch{{8, LeftRed, saysLeft, saysLeft}, {8, Object, "", ""},
			{8, Object, "", saysLink}, {4, Object, "", ""}, {4, RightRed, saysRight, saysRight},
			{8, Padding, "", ""}}},
	{"FP", Spec{Size: 12, Flags: Sanity | Poison},
		[]stretch{{11, Object, "", saysPoison}, {1, Object, "", saysLast},
			{4, RightRed, saysAlign, saysAlign}, {8, FreePtr, saysLink, saysLink}}},
	{"FP aligned to 32", Spec{Size: 12, Align: 32, Flags: Sanity | Poison},
		[]stretch{{11, Object, "", saysPoison}, {1, Object, "", saysLast},
			{4, RightRed, saysAlign, saysAlign}, {8, FreePtr, saysLink, saysLink},
			{8, Padding, saysPad, saysPad}}},
	{"FZP with a constructor", Spec{Size: 12, Flags: Sanity | RedZone | Poison, Ctor: true},
		[]stretch{{8, LeftRed, saysLeft, saysLeft}, {12, Object, "", ""},
			{4, RightRed, saysRight, saysRight}, {8, FreePtr, saysLink, saysLink},
			{8, Padding, saysPad, saysPad}}},
	{"FU", Spec{Size: 12, Flags: Sanity | StoreUser},
		[]stretch{{8, Object, "", saysLink}, {4, Object, "", ""}, {4, RightRed, "", ""},
			{32, AllocTrack, "", ""}, {32, FreeTrack, "", ""}}},
}

// A moment is when damage is looked at: what it does, and which title a broken link
// has then.
type moment struct {
	name string
	live bool // the object is allocated
	look func(b *bank, a uint64) bool
	cut  string // title of a broken link
}

var moments = []moment{
	{"free", true, func(b *bank, a uint64) bool { return b.release(a) }, saysLink},
	{"validate, live", true, func(b *bank, _ uint64) bool {
		b.k.Validate(&b.slab)
		return true
	}, saysLink},
	{"alloc", false, func(b *bank, _ uint64) bool {
		return b.k.AllocOK(&b.slab, b.take())
	}, saysLink},
	{"validate, free", false, func(b *bank, _ uint64) bool {
		b.k.Validate(&b.slab)
		return true
	}, "Freechain corrupt"},
	{"discard", false, func(b *bank, _ uint64) bool {
		b.k.Discard(&b.slab)
		return true
	}, saysLink},
}

// Every byte of a slot, inverted, in both states, at every moment and under each rule
// set: exactly the report of the plan, and everything as it was.
func TestEveryByte(t *testing.T) {
	for _, p := range plans {
		for _, rules := range []Rules{SLUB61, SLUB612} {
			if p.spec.Kmalloc && rules != p.spec.Rules {
				continue
			}
			p.spec.Rules = rules
			for i := range moments {
				checkPlan(t, &p, &moments[i])
			}
		}
	}
}

// checkPlan damages each byte of a slot before one moment.
func checkPlan(t *testing.T, p *plan, m *moment) {
	at := 0
	for _, s := range p.slots {
		for range s.n {
			name := fmt.Sprintf("%s, %v, %s, byte %d", p.name, p.spec.Rules, m.name, at)
			title := s.free
			if m.live {
				title = s.active
			}
			checkByte(t, name, p, m, &damage{at: at, region: s.region, title: title})
			at++
		}
	}
	if b := newBank(t, p.spec, 1); at != int(b.l.Stride) {
		t.Errorf("%s: the plan has %d bytes, the slot %d", p.name, at, b.l.Stride)
	}
}

// damage is an inverted byte of a slot and what should be said about it.
type damage struct {
	at     int
	region Region
	title  string
}

// checkByte inverts one byte of the last free or of a live object and looks.
func checkByte(t *testing.T, name string, p *plan, m *moment, d *damage) {
	b := newBank(t, p.spec, 2)
	if m.name != "discard" {
		b.alloc(5) // object 0 is live in any case
	}
	a := b.object(1)
	if m.live {
		b.alloc(5)
	}
	b.expect()
	before := bytes.Clone(b.mem)
	spot := a - b.l.Pad + uint64(d.at)
	b.flip(spot, 1)
	ok := m.look(b, a)
	title := d.title
	if title == saysLink {
		title = m.cut
	}
	failed := title != "" && (b.l.Rules == SLUB612 || title != saysAlign && title != saysPad)
	if (m.name == "free" || m.name == "alloc") && ok == failed {
		t.Errorf("%s: ok %v", name, ok)
	}
	if title == "" {
		if len(b.found) != 0 {
			t.Errorf("%s: %q, expected nothing", name, b.found[0].Title)
		}
		return
	}
	if len(b.found) != 1 {
		t.Fatalf("%s: %q, expected %q", name, b.said(), title)
	}
	r := b.found[0]
	if r.Title != title || r.Object != a || r.Slab != b.base || r.Cache != "bank" ||
		r.Rules != b.l.Rules || r.Kind != Bug || r.Layout != b.l {
		t.Errorf("%s: %+v, expected %q", name, r, title)
	}
	before[spot-b.base] ^= 0xff
	if want := before[a-b.l.Pad-b.base:][:b.l.Stride]; !bytes.Equal(r.Slot, want) {
		t.Errorf("%s: the slot was %x, the report has %x", name, want, r.Slot)
	}
	if d.title == saysLink {
		if b.Link(a) != bankEnd {
			t.Errorf("%s: the link is %#x", name, b.Link(a))
		}
		return
	}
	checkRange(t, name, b, r, d.region)
	if ok && m.name == "free" {
		return // freed: its bytes are others now
	}
	before[spot-b.base] ^= 0xff
	if !bytes.Equal(b.mem, before) {
		t.Errorf("%s: not repaired", name)
	}
}

// checkRange holds what a report says about one wrong byte against that byte.
func checkRange(t *testing.T, name string, b *bank, r *Report, region Region) {
	if r.Region != region || r.To != r.From+1 || r.Got != ^r.Want {
		t.Errorf("%s: region %v %#x-%#x %#x instead of %#x", name, r.Region, r.From, r.To, r.Got,
			r.Want)
	}
	detail := fmt.Sprintf("0x%x-0x%x @offset=%d. First byte 0x%x instead of 0x%x", r.From, r.From,
		r.From-b.base, ^r.Want, r.Want)
	if r.Detail != detail {
		t.Errorf("%s: %q, expected %q", name, r.Detail, detail)
	}
	fix := fmt.Sprintf("Restoring %s 0x%x-0x%x=0x%x", strings.TrimSuffix(r.Title, " overwritten"),
		r.From, r.From, r.Want)
	if len(r.Fixes) == 0 || r.Fixes[0] != fix {
		t.Errorf("%s: fixes %q, expected %q first", name, r.Fixes, fix)
	}
}
