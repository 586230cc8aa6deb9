package remote

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// report is a report with everything that is sent.
func report() *debugcheck.Report {
	return &debugcheck.Report{Rules: debugcheck.SLAB26, Kind: debugcheck.Fatal, Cache: "c",
		Title: "Poison overwritten", Detail: "0x1-0x2", Object: math.MaxUint64, Slab: 4096,
		Region: debugcheck.NrSlabs, From: 1, To: 2, Got: 255, Want: 0x6b,
		Fixes: []string{"Restoring", ""}}
}

// ward is a subject with one debugged cache that has something to say.
type ward struct {
	impls.Instance // never used for what is not below
	c              *wardCache
}

func (w *ward) Memory() impls.Memory          { return w.c }
func (w *ward) Objects() impls.Objects        { return w }
func (w *ward) Snapshot(*impls.Snapshot) bool { return false }
func (w *ward) Close()                        {}

func (w *ward) NewCache(*machine.Ctx, impls.CacheSpec) (impls.Cache, error) { return w.c, nil }

// wardCache hands out the three slots of its one slab. It reports every free and every
// validation, and a free of the second object halts the machine.
type wardCache struct {
	impls.Memory
	mem    [256]byte
	next   int
	layout debugcheck.Layout
	debug  string
}

const wardAt = 0x1000

func newWard(m *machine.Machine) impls.Instance {
	l, err := debugcheck.NewLayout(debugcheck.Spec{Size: 32, Word: 8,
		Flags: debugcheck.RedZone | debugcheck.Poison})
	if err != nil || l.Pad != 8 || l.Stride != 64 {
		panic(fmt.Sprint(l, err))
	}
	return &ward{c: &wardCache{debug: m.Debug + m.Rules, layout: l}}
}

func (k *wardCache) Alloc(*machine.Ctx, impls.AllocFlags) impls.Addr {
	k.next++
	return wardAt + 8 + 64*uint64(k.next-1)
}

func (k *wardCache) Free(c *machine.Ctx, a impls.Addr) {
	r := report()
	r.Object = a
	c.Note(r)
	if a == wardAt+8+64 {
		c.Halt()
	}
}

func (k *wardCache) Validate(c *machine.Ctx) (int, error) {
	c.Note(report())
	c.Note(&debugcheck.Report{Title: k.debug})
	return 1, nil
}

func (k *wardCache) Shrink(*machine.Ctx) int    { return 0 }
func (k *wardCache) Destroy(*machine.Ctx) error { return nil }
func (k *wardCache) Size() uint64               { return 32 }
func (k *wardCache) Align() uint64              { return 8 }

func (k *wardCache) Layout() *debugcheck.Layout { return &k.layout }
func (k *wardCache) Slab(a impls.Addr) (debugcheck.Slab, bool) {
	return debugcheck.Slab{Addr: wardAt, Bytes: 256, First: wardAt, Max: 3, Objects: 3},
		k.Contains(a, 1)
}
func (k *wardCache) Damage(*machine.Ctx, debugcheck.Region, impls.Addr, uint64) bool { return true }

func (k *wardCache) Fill(a impls.Addr, n uint64, p impls.Pattern) {
	p.Fill(k.mem[a-wardAt : a-wardAt+n])
}
func (k *wardCache) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	return p.Verify(k.mem[a-wardAt : a-wardAt+n])
}
func (k *wardCache) Flip(a impls.Addr, mask byte) { k.mem[a-wardAt] ^= mask }
func (k *wardCache) Contains(a impls.Addr, n uint64) bool {
	return a >= wardAt && n <= 256 && a-wardAt <= 256-n
}

// wardBatch has every operation of misuse, and reports.
func wardBatch() *impls.Batch {
	on := func(code impls.Code, cache, slot int32, size uint64) impls.Op {
		return impls.Op{Code: code, Cache: cache, Slot: slot, Result: -1, Size: size}
	}
	b := &impls.Batch{Caches: []impls.CacheSpec{impls.NewSpec("c", 32)}, Slots: 3, Debug: "FZ"}
	for i := range int32(3) {
		a := on(impls.OpAlloc, 0, -1, 0)
		a.Result = i
		b.Ops = append(b.Ops, a)
	}
	flip := on(impls.OpFlip, -1, 1, 1)
	flip.Region, flip.Arg = debugcheck.RightRed, 0x4001
	field := on(impls.OpFlip, -1, 1, 0)
	field.Region, field.Arg = debugcheck.SlabInuse, 7
	b.Ops = append(b.Ops, on(impls.OpOverrun, -1, 0, 8), on(impls.OpUnderrun, -1, 0, 8), flip,
		field, on(impls.OpFree, 0, 0, 0), on(impls.OpWriteFreed, -1, 0, 0),
		on(impls.OpFreeAgain, 0, 0, 0), on(impls.OpFreeInside, 0, 2, 4),
		on(impls.OpValidate, 0, -1, 0), on(impls.OpFreeForeign, 0, 2, 0),
		on(impls.OpFreeWrong, 0, 2, 0))
	return b
}

func wardVariant() *impls.Variant {
	return &impls.Variant{Name: "ward", Caps: impls.CapObjects | impls.CapDebug, New: newWard}
}

// TestReports demands that misuse and reports, those of a free too, are the same from
// the other side.
func TestReports(t *testing.T) {
	v := wardVariant()
	b := wardBatch()
	p, done := start(t, v, Options{})
	for range 2 {
		got, err := p.Play(b)
		if err != nil {
			t.Fatal(err)
		}
		want := direct(t, v, b)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("remote and direct differ: %s", diff)
		}
		var frees, skipped int
		for i := range got.Events {
			ev := &got.Events[i]
			frees += len(ev.Reports)
			if ev.Outcome != impls.OK {
				skipped++
			}
		}
		// Two frees that are misuse, one that is not, and two of validate.
		if frees != 5 || skipped != 2 {
			t.Errorf("%d reports, %d operations skipped, want 5 and 2", frees, skipped)
		}
	}
	p.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestBoot demands that the other side's machine has the boot parameters of each batch.
func TestBoot(t *testing.T) {
	p, done := start(t, wardVariant(), Options{})
	validate := impls.Op{Code: impls.OpValidate, Cache: 0, Slot: -1, Result: -1}
	for _, boot := range [][2]string{{"FZ", "6.12"}, {"", ""}, {"P;-,c", "2.4"}} {
		got, err := p.Play(&impls.Batch{Debug: boot[0], Rules: boot[1],
			Caches: []impls.CacheSpec{impls.NewSpec("c", 32)}, Ops: []impls.Op{validate}})
		if err != nil {
			t.Fatal(err)
		}
		if r := got.Events[0].Reports; len(r) != 2 || r[1].Title != boot[0]+boot[1] {
			t.Errorf("booted with %q: reports %+v", boot, r)
		}
	}
	for _, bad := range []impls.Batch{{Debug: "F Z"}, {Rules: "6.2"}, {Rules: "guard"}} {
		if _, err := p.Play(&bad); err == nil || !strings.Contains(err.Error(), "not valid") {
			t.Errorf("a batch with %q and %q: %v", bad.Debug, bad.Rules, err)
		}
	}
	p.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestHalted demands that a machine that halts ends its batch with the report, in a
// free and elsewhere, and that the next batch finds a fresh one.
func TestHalted(t *testing.T) {
	p, done := start(t, wardVariant(), Options{})
	b := wardBatch()
	b.Ops = b.Ops[:3]
	b.Ops = append(b.Ops, impls.Op{Code: impls.OpFree, Slot: 1, Result: -1},
		impls.Op{Code: impls.OpValidate, Slot: -1, Result: -1})
	inside := wardBatch()
	inside.Ops = append(inside.Ops[:3:3],
		impls.Op{Code: impls.OpFreeInside, Slot: 0, Result: -1, Size: 64 - 1},
		impls.Op{Code: impls.OpFreeInside, Slot: 0, Result: -1, Size: 64})
	for range 2 {
		got, err := p.Play(b)
		if err != nil || got.Death != "" || len(got.Events) != 4 {
			t.Fatalf("transcript %+v, %v, want the end at the fourth operation", got, err)
		}
		end := got.Events[3]
		if end.Outcome != impls.Reported || len(end.Reports) != 1 || end.Slot != 1 ||
			end.Reports[0].Object != wardAt+8+64 || end.Addr != wardAt+8+64 {
			t.Errorf("last event %+v", end)
		}
		got, err = p.Play(wardBatch())
		if err != nil || len(got.Events) != len(wardBatch().Ops) {
			t.Fatalf("batch after it: %+v, %v", got, err)
		}
	}
	got, err := p.Play(inside)
	if err != nil || len(got.Events) != 5 || got.Events[4].Outcome != impls.Skipped {
		t.Errorf("transcript %+v, %v, want the free of an object skipped", got, err)
	}
	p.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLongReports demands that a report that is too long is cut and not refused.
func TestLongReports(t *testing.T) {
	long := strings.Repeat("x", textMax+9)
	r := &debugcheck.Report{Title: long, Fixes: make([]string, fixesMax+9)}
	r.Fixes[0] = long
	ev := impls.Event{Reports: make([]*debugcheck.Report, reportsMax+9), Bad: -1}
	for i := range ev.Reports {
		ev.Reports[i] = r
	}
	tr, err := DecodeTranscript(AppendTranscript(nil,
		&impls.Transcript{Events: []impls.Event{ev}}))
	if err != nil {
		t.Fatal(err)
	}
	got := tr.Events[0].Reports
	if len(got) != reportsMax || len(got[0].Title) != textMax || len(got[0].Fixes) != fixesMax ||
		len(got[0].Fixes[0]) != textMax {
		t.Errorf("%d reports, %d bytes of a title, %d repairs", len(got), len(got[0].Title),
			len(got[0].Fixes))
	}
}

// TestReportGarbage demands that every byte of a report that has a range is held
// against it.
func TestReportGarbage(t *testing.T) {
	ev := appendEvent(nil, &impls.Event{Bad: -1})
	enc := func(report ...byte) []byte {
		b := append([]byte{1}, ev[:len(ev)-1]...)
		return append(append(b, 1), report...)
	}
	good := appendReport(nil, &debugcheck.Report{})
	if len(good) != reportBytes || len(ev) != eventBytes {
		t.Errorf("%d bytes of an empty report, %d of an event, want %d and %d", len(good),
			len(ev), reportBytes, eventBytes)
	}
	for i, want := range map[int]string{0: "rules", 1: "kind", 2: "region", 9: "text",
		12: "repairs"} {
		bad := append([]byte(nil), good...)
		bad[i] = 0x7f
		_, err := DecodeTranscript(append(enc(bad...), 1, 0))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d: %v, want an error about %s", i, err, want)
		}
	}
	if _, err := DecodeTranscript(append(enc(good...), 1, 0)); err != nil {
		t.Error(err)
	}
	many := append([]byte{1}, ev[:len(ev)-1]...)
	many = binary.AppendUvarint(many, reportsMax+1)
	many = append(many, bytes.Repeat(good, reportsMax+1)...)
	_, err := DecodeTranscript(append(many, 1, 0))
	if err == nil || !strings.Contains(err.Error(), "expected at most 1024") {
		t.Errorf("a report too many: %v", err)
	}
}
