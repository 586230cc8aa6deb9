package remote

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/golib"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// batch is a deterministic batch of n operations.
func batch(n int) *impls.Batch {
	codes := []impls.Code{impls.OpMalloc, impls.OpAlloc, impls.OpCalloc, impls.OpFree,
		impls.OpRealloc, impls.OpMemalign, impls.OpUsable, impls.OpFreeSized, impls.OpPages,
		impls.OpFree, impls.OpCreate, impls.OpDestroy, impls.OpShrink, impls.OpDrain,
		impls.OpFill, impls.OpVerify, impls.OpMalloc, impls.OpPagesFree, impls.OpAllocBulk,
		impls.OpFreeBulk}
	spec := impls.NewSpec("c", 40)
	spec.Flags = []string{"poison"}
	plain := impls.NewSpec("plain", 24)
	b := &impls.Batch{Caches: []impls.CacheSpec{plain, spec}, Slots: 16}
	seed := uint64(n)
	for i := range n {
		seed = seed*6364136223846793005 + 1442695040888963407
		r := seed >> 20
		slot := int32(r % 16)
		op := impls.Op{Code: codes[r>>6%uint64(len(codes))], Cache: int32(r>>12%4) - 1,
			Slot: slot, Result: slot, Size: r >> 16 % 700, Arg: 1 << (r >> 24 % 4),
			Pattern: impls.Pattern(i), Fail: uint16(r >> 30 % 3),
			Flags: impls.AllocFlags(r >> 34 % 2)}
		if op.Code == impls.OpCreate {
			op.Spec, op.Result = &plain, int32(r>>12%3)
		}
		if op.Code.Bulk() {
			op.Slot, op.Result = -1, -1
			op.Slots = []int32{slot, (slot + 5) % 16, (slot + 6) % 16}[:1+r>>40%3]
		}
		b.Ops = append(b.Ops, op)
	}
	return b
}

// eventsOf is the number of events of a batch.
func eventsOf(b *impls.Batch) int {
	n := 0
	for i := range b.Ops {
		n += max(1, len(b.Ops[i].Slots))
	}
	return n
}

// direct plays b in this process.
func direct(t *testing.T, v *impls.Variant, b *impls.Batch) *impls.Transcript {
	t.Helper()
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.Debug, cfg.Rules = true, b.Debug, b.Rules
	m := machine.New(cfg)
	defer m.Close()
	c := m.NativeCtx(0, "cpu0")
	defer c.Release()
	in := v.New(m)
	defer in.Close()
	e := play.New(play.Setup{Instance: in, Caps: v.Caps, Profile: v.Profile,
		PageSize: uint64(m.PageSize), Slots: b.Slots, Caches: play.CacheSlots(b)})
	for i := range b.Caches {
		e.Open(c, i, &b.Caches[i])
	}
	tr := &impls.Transcript{Last: -1}
	for i := range b.Ops {
		ev := impls.Event{Op: int32(i), Seq: uint64(i) + 1}
		if b.Ops[i].Code.Bulk() {
			var many play.BulkStep
			e.DoBulk(c, &b.Ops[i], &ev, &many)
			tr.Events = append(tr.Events, many.Events...)
			continue
		}
		e.Do(c, &b.Ops[i], &ev)
		tr.Events = append(tr.Events, ev)
	}
	return tr
}

// start serves v behind a pipe and returns the player and the end of Serve.
func start(t *testing.T, v *impls.Variant, opts Options) (*Player, chan error) {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() {
		defer there.Close()
		defer func() {
			if r := recover(); r != nil {
				done <- errors.New("died")
			}
		}()
		done <- Serve(there, v, opts.Journal)
	}()
	p := NewPlayer(here, opts)
	t.Cleanup(func() { p.Close() })
	return p, done
}

func variant(t *testing.T, name string) *impls.Variant {
	t.Helper()
	for _, v := range golib.Variants() {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no variant %s", name)
	return nil
}

func TestRemoteAsDirect(t *testing.T) {
	for _, name := range []string{"go-wasm2go-tlsf", "go-wasm2go-sbrk"} {
		v := variant(t, name)
		p, done := start(t, v, Options{})
		for _, n := range []int{0, 1, 300, 2000} {
			b := batch(n)
			want := direct(t, v, b)
			got, err := p.Play(b)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Events) != eventsOf(b) {
				t.Errorf("%d events of %d operations", len(got.Events), n)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: remote and direct differ: %s", name, diff)
			}
		}
		p.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
}

// mortal dies in its n-th call: by a panic, or by never coming back.
type mortal struct {
	impls.Instance
	left  int
	hang  chan struct{}
	stuck chan struct{}
}

func (m *mortal) Sizes() impls.Allocator { return &mortalSizes{m.Instance.Sizes(), m} }

type mortalSizes struct {
	impls.Allocator
	m *mortal
}

func (s *mortalSizes) step() {
	if s.m.left--; s.m.left > 0 {
		return
	}
	if s.m.hang == nil {
		panic("killed")
	}
	close(s.m.stuck)
	<-s.m.hang
}

func (s *mortalSizes) Malloc(c *machine.Ctx, n uint64, f impls.AllocFlags) impls.Addr {
	s.step()
	return s.Allocator.Malloc(c, n, f)
}

func (s *mortalSizes) Free(c *machine.Ctx, p impls.Addr) {
	s.step()
	s.Allocator.Free(c, p)
}

func mallocs(frees bool, n int) *impls.Batch {
	b := &impls.Batch{Slots: n}
	for i := range int32(n) {
		op := impls.Op{Code: impls.OpMalloc, Cache: -1, Slot: -1, Result: i, Size: 16, Pattern: 9}
		if frees && i%2 == 1 {
			op = impls.Op{Code: impls.OpFree, Cache: -1, Slot: i - 1, Result: -1}
		}
		b.Ops = append(b.Ops, op)
	}
	return b
}

func TestDeath(t *testing.T) {
	base := variant(t, "go-wasm2go-tlsf")
	for _, test := range []struct {
		name  string
		left  int // calls until it dies
		frees bool
		why   string
		death string
	}{
		{"in the first call", 1, false, "", DeathExited},
		{"in a malloc", 5, false, "killed by a signal", "killed by a signal"},
		{"in a free", 6, true, "", DeathExited},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := *base
			v.New = func(m *machine.Machine) impls.Instance {
				return &mortal{Instance: base.New(m), left: test.left}
			}
			p, done := start(t, &v, Options{Why: func() string { return test.why }})
			b := mallocs(test.frees, 10)
			want := direct(t, base, b)
			got, err := p.Play(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-done; err == nil || err.Error() != "died" {
				t.Errorf("serve ended with %v", err)
			}
			last := test.left - 1
			if got.Last != int32(last) || got.Death != test.death {
				t.Errorf("last %d and death %q, want %d and %q", got.Last, got.Death, last,
					test.death)
			}
			if diff := cmp.Diff(want.Events[:last], got.Events[:len(got.Events)-1]); diff != "" {
				t.Errorf("events before: %s", diff)
			}
			end := got.Events[len(got.Events)-1]
			if end.Op != got.Last || end.Outcome != impls.Died || end.Code != b.Ops[last].Code {
				t.Errorf("last event %+v", end)
			}
			if test.frees && end.Addr != want.Events[last].Addr {
				t.Errorf("address of the free %#x, want %#x", end.Addr, want.Events[last].Addr)
			}
			if _, err := p.Play(b); err == nil {
				t.Error("a dead subject played")
			}
		})
	}
}

func TestHung(t *testing.T) {
	base := variant(t, "go-wasm2go-tlsf")
	hung := &mortal{Instance: base.New(nil), left: 3, hang: make(chan struct{}),
		stuck: make(chan struct{})}
	v := *base
	v.New = func(*machine.Machine) impls.Instance { return hung }
	var p *Player
	fired := make(chan struct{})
	p, done := start(t, &v, Options{Watch: func() func() bool {
		go func() {
			<-hung.stuck
			close(fired)
			p.rw.Close()
		}()
		return func() bool {
			<-fired
			return true
		}
	}})
	got, err := p.Play(mallocs(false, 10))
	if err != nil {
		t.Fatal(err)
	}
	if got.Death != DeathHung || got.Last != 2 || len(got.Events) != 3 {
		t.Errorf("death %q, last %d, %d events, want hung, 2 and 3", got.Death, got.Last,
			len(got.Events))
	}
	close(hung.hang)
	<-done
}

// answers is a subject that takes what it is sent and answers fixed bytes.
type answers struct{ io.Reader }

func (answers) Write(b []byte) (int, error) { return len(b), nil }
func (answers) Close() error                { return nil }

func frameOf(kind byte, payload ...byte) []byte {
	return finish(append(begun(nil, kind), payload...))
}

func TestGarbage(t *testing.T) {
	good := appendEvent(nil, &impls.Event{Op: 0, Code: impls.OpMalloc, Bad: -1})
	other := appendEvent(nil, &impls.Event{Op: 0, Code: impls.OpFree, Bad: -1})
	again := appendEvent(nil, &impls.Event{Op: 0, Code: impls.OpMalloc, Bad: -1,
		Reports: []*debugcheck.Report{{}}})
	one := func(event []byte, rest ...byte) []byte {
		return append(append([]byte{1}, event...), rest...)
	}
	for _, test := range []struct {
		name   string
		answer []byte
		want   string
	}{
		{"text", []byte("hello, world"), "remote: byte 4: frame of kind 'o': expected one of"},
		{"long", []byte{255, 255, 255, 255, 'P'}, "remote: byte 0: frame of 4294967294 bytes"},
		{"empty", []byte{0, 0, 0, 0, 'P'}, "remote: byte 0: frame of -1 bytes"},
		{"no events", frameOf('P'), "remote: byte 5: events: expected a number"},
		{"too many", frameOf('P', 200, 1), "remote: byte 5: 200 events: more than"},
		{"operation", frameOf('P', 0, 40), "remote: byte 6: operation begun 20: expected 0 to 3"},
		{"again", append(frameOf('P', 0, 2), frameOf('P', 0, 2)...),
			"remote: byte 13: operation begun 1: expected 2 to 3"},
		{"more", frameOf('E', 0, 9), "remote: byte 6: 1 bytes more than expected"},
		{"code", frameOf('P', one(other, 0)...),
			"remote: byte 6: event of operation 0 is free: expected malloc"},
		{"twice", append(frameOf('P', one(good, 0)...), frameOf('E', one(good)...)...),
			"event of operation 0: expected 1 to 3"},
		{"reports of an allocation", append(frameOf('P', one(good, 0)...),
			frameOf('E', one(again)...)...), "event of operation 0: expected 1 to 3"},
		{"said no", frameOf('X', []byte("too large")...),
			"remote: the subject refused the batch: too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := NewPlayer(answers{bytes.NewReader(test.answer)}, Options{})
			tr, err := p.Play(mallocs(false, 4))
			if err == nil {
				t.Fatalf("no error, death %q", tr.Death)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want %q", err, test.want)
			}
		})
	}
	p := NewPlayer(answers{bytes.NewReader([]byte{9, 0, 0})}, Options{})
	tr, err := p.Play(mallocs(false, 4))
	if err != nil || tr.Death != DeathExited || tr.Last != -1 {
		t.Errorf("stream that ends in a frame: %+v, %v", tr, err)
	}
}

// Serve answers what is no batch with the reason and gives up.
func TestServeGarbage(t *testing.T) {
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(there, variant(t, "go-wasm2go-tlsf"), nil); there.Close() }()
	bad := frameOf('B', 0, 0, 0, 0, 0, 0, 1, 99, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0)
	if _, err := here.Write(bad); err != nil {
		t.Fatal(err)
	}
	kind, payload, err := (&frames{r: here}).next("X")
	want := "remote: byte 12: operation 99: expected at most 32"
	if err != nil || kind != 'X' || string(payload) != want {
		t.Errorf("answer %c %q, %v, want %q", kind, payload, err, want)
	}
	var e *FormatError
	if err := <-done; !errors.As(err, &e) || e.Offset != 12 {
		t.Errorf("serve: %v", err)
	}
}

func TestRefusesInvalidBatch(t *testing.T) {
	b := mallocs(false, 2)
	b.Ops[1].Result = 77
	p := NewPlayer(answers{bytes.NewReader(nil)}, Options{})
	_, err := p.Play(b)
	if err == nil || !strings.Contains(err.Error(), "result 77: expected -1 to 1") {
		t.Errorf("error %v", err)
	}
	for _, op := range []impls.Op{{Code: impls.OpFree, Cache: 0}, {Code: impls.OpFill, Cache: -1}} {
		op.Slot, op.Result = impls.NilSlot, -1
		b.Caches, b.Ops[1] = []impls.CacheSpec{impls.NewSpec("c", 8)}, op
		_, err := NewPlayer(answers{bytes.NewReader(nil)}, Options{}).Play(b)
		if err == nil || !strings.Contains(err.Error(), "slot -2: expected -1 to 1") {
			t.Errorf("%s of nothing: error %v", op.Code, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	b := batch(500)
	b.Debug, b.Rules, b.Merge, b.Caches[0].Kmalloc = "FZ;-,c", "6.12", true, true
	got, err := DecodeBatch(AppendBatch(nil, b))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, got); diff != "" {
		t.Error(diff)
	}
	b.Ops[7] = impls.Op{Code: impls.OpRealloc, Cache: -1, Slot: impls.NilSlot, Result: 1, Size: 9}
	b.Ops[8] = impls.Op{Code: impls.OpFree, Cache: -1, Slot: impls.NilSlot, Result: -1}
	if got, err = DecodeBatch(AppendBatch(nil, b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, got); diff != "" {
		t.Error(diff)
	}
	tr := direct(t, variant(t, "go-modernc-memory"), b)
	tr.Last, tr.Death = 12, "aborted"
	tr.Events[3] = impls.Event{Op: 1<<31 - 1, Code: impls.OpVerify, Outcome: impls.Died, Ctx: 255,
		CPU: 255, Irq: true, Legit: true, Ctor: true, Fresh: 1<<32 - 1, Cache: 1<<31 - 1, Slot: -1,
		Want: 1<<32 - 1, Bad: 1<<63 - 1, Align: 1 << 63, Addr: 1<<64 - 1, Old: 1<<64 - 1,
		Size: 1<<64 - 1, Usable: 1<<64 - 1, Seq: 1<<64 - 1, Mask: 1<<64 - 1,
		Region: debugcheck.NrSlabs, Reports: []*debugcheck.Report{{}, report()}}
	enc := AppendTranscript(nil, tr)
	back, err := DecodeTranscript(enc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tr, back); diff != "" {
		t.Error(diff)
	}
	for i := range enc {
		if _, err := DecodeTranscript(enc[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", i, len(enc))
		}
	}
}

// Any bytes are an error or what they encode; nothing large is allocated for few.
func FuzzDecode(f *testing.F) {
	f.Add(AppendBatch(nil, batch(20)))
	events := make([]impls.Event, 3)
	f.Add(AppendTranscript(nil, &impls.Transcript{Events: events, Death: "hung"}))
	events[1].Reports = []*debugcheck.Report{report()}
	f.Add(AppendTranscript(nil, &impls.Transcript{Events: events}))
	warded := batch(20)
	warded.Debug, warded.Rules = "FZPU", "2.6"
	f.Add(AppendBatch(nil, warded))
	f.Add(AppendBatch(nil, wardBatch()))
	f.Add([]byte{255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, src []byte) {
		if b, err := DecodeBatch(src); err == nil {
			if b.Slots > len(src)+extraMax || play.CacheSlots(b) > len(src) {
				t.Errorf("%d and %d slots from %d bytes", b.Slots, play.CacheSlots(b), len(src))
			}
			again, err := DecodeBatch(AppendBatch(nil, b))
			if err != nil || !cmp.Equal(b, again) {
				t.Errorf("not the same again: %v", err)
			}
		}
		if tr, err := DecodeTranscript(src); err == nil {
			again, err := DecodeTranscript(AppendTranscript(nil, tr))
			if err != nil || !cmp.Equal(tr, again) {
				t.Errorf("not the same again: %v", err)
			}
		}
	})
}

// Any answer is an error or a transcript that fits the batch.
func FuzzAnswer(f *testing.F) {
	v := golib.Variants()[2]
	b := batch(30)
	var sent bytes.Buffer
	s := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(finish(AppendBatch(begun(nil, 'B'), b))), &sent}
	if err := Serve(s, v, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(sent.Bytes())
	f.Add([]byte("hello"))
	free := impls.Event{Op: 2, Code: b.Ops[2].Code, Bad: -1}
	withReports := free
	withReports.Reports = []*debugcheck.Report{report()}
	f.Add(frameOf('E', append(append([]byte{2}, appendEvent(nil, &free)...),
		appendEvent(nil, &withReports)...)...))
	f.Fuzz(func(t *testing.T, answer []byte) {
		p := NewPlayer(answers{bytes.NewReader(answer)}, Options{})
		tr, err := p.Play(b)
		if err != nil {
			return
		}
		if int(tr.Last) >= len(b.Ops) || len(tr.Events) > eventsOf(b) {
			t.Errorf("last %d, %d events of %d operations", tr.Last, len(tr.Events), len(b.Ops))
		}
		for i := range tr.Events {
			if tr.Events[i].Code != b.Ops[tr.Events[i].Op].Code.Each() {
				t.Errorf("event %d is not of its operation", i)
			}
		}
	})
}

// Any bytes sent to Serve leave the subject's process alive.
func FuzzServe(f *testing.F) {
	f.Add(finish(AppendBatch(begun(nil, 'B'), batch(10))))
	f.Add(finish(AppendBatch(begun(nil, 'B'), wardBatch())))
	v := golib.Variants()[2]
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(sent), io.Discard}
		_ = Serve(s, v, nil) // an error is fine, a panic is not
	})
}

func BenchmarkPlay(b *testing.B) {
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(there, golib.Variants()[1], nil) }()
	p := NewPlayer(here, Options{})
	ops := mallocs(true, 1000)
	for b.Loop() {
		if _, err := p.Play(ops); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mops/s")
	p.Close()
	<-done
}

// TestHarnessFault: a fault of this project on the other side is an error and no
// death of the subject, whose own panics are.
func TestHarnessFault(t *testing.T) {
	for text, dies := range map[string]bool{"allocfuzz: a broken table": false, "boom": true} {
		v := *variant(t, "go-wasm2go-tlsf")
		v.New = func(*machine.Machine) impls.Instance { panic(text) }
		p, done := start(t, &v, Options{})
		got, err := p.Play(batch(3))
		switch {
		case dies && (err != nil || got.Death != DeathExited):
			t.Errorf("%s: transcript %+v, error %v", text, got, err)
		case !dies && (err == nil || !strings.Contains(err.Error(), text)):
			t.Errorf("%s: transcript %+v, error %v", text, got, err)
		}
		if e := <-done; !dies && (e == nil || e.Error() != text) {
			t.Errorf("%s: Serve said %v", text, e)
		}
	}
}
