package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// Serve plays the batches that come on rw on fresh instances of v, one after the
// other, until the stream ends: nil when that is between two batches. A panic of
// the subject goes through, so that the process dies of it. A stream that holds
// something else, and a fault of this project, are answered with the reason and are
// an error: the subject is not to blame.
//
// With a journal, what happens is written there and not sent; nil is none.
func Serve(rw io.ReadWriter, v *impls.Variant, journal *Journal) (err error) {
	s := &server{w: rw, v: v, journal: journal}
	defer s.close()
	defer func() {
		if p := recover(); p != nil {
			err = s.harnessFault(p)
		}
	}()
	in := &frames{r: rw}
	for {
		_, payload, err := in.next("B")
		if errors.Is(err, io.EOF) {
			return nil
		}
		var b *impls.Batch
		if err == nil {
			b, err = decodeBatch(payload, in.off-int64(len(payload)))
		}
		if err != nil {
			s.refuse(err)
			return err
		}
		if err := s.play(b, len(payload)); err != nil {
			return err
		}
	}
}

// A server is one end of a stream with the machine that instances are made on.
type server struct {
	w       io.Writer
	v       *impls.Variant
	m       *machine.Machine
	c       *machine.Ctx
	exec    play.Exec
	bulk    play.BulkStep
	journal *Journal // nil when what happens is sent
	frame   []byte   // being written
	body    []byte   // events since the last frame; with a journal, the one being added
	n       int      // how many
}

// harnessFault answers with a panic of this project; any other goes on.
func (s *server) harnessFault(p any) error {
	text := fmt.Sprint(p)
	if !strings.HasPrefix(text, "allocfuzz:") {
		panic(p)
	}
	err := errors.New(text)
	s.refuse(err)
	return err
}

func (s *server) refuse(err error) { Refuse(s.w, err) }

// Refuse tells the player why the batch that it waits for is not played. The stream is of no
// more use then.
func Refuse(w io.Writer, err error) {
	frame := append(begun(nil, kindError), err.Error()...)
	_, _ = w.Write(finish(frame))
}

// boot makes a machine as the batch wants it, or resets one that is so.
func (s *server) boot(b *impls.Batch) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.Debug, cfg.Rules, cfg.Merge = true, b.Debug, b.Rules, b.Merge
	cfg.CPUs = max(cfg.CPUs, b.Threads)
	if s.m != nil && s.m.Config == cfg && !s.m.Halted() {
		s.m.Reset()
		return
	}
	s.close()
	s.m = machine.New(cfg)
}

func (s *server) close() {
	if s.m != nil {
		s.m.Close()
	}
}

// play plays one batch, which came in so many bytes, in the order of its operations.
func (s *server) play(b *impls.Batch, size int) error {
	s.boot(b)
	in := s.v.New(s.m)
	defer in.Close()
	s.exec.Reset(play.Setup{Instance: in, Caps: s.v.Caps, Profile: s.v.Profile,
		PageSize: uint64(s.m.PageSize), Slots: b.Slots, Caches: play.CacheSlots(b)})
	s.body, s.n = s.body[:0], 0
	if err := s.carryOut(b); err != nil {
		return err
	}
	s.journal.measure(size)
	return s.flush(kindEnd, 0)
}

// carryOut makes the caches and carries the operations out.
func (s *server) carryOut(b *impls.Batch) error {
	s.c = s.m.NativeCtx(0, "cpu0")
	defer func() {
		if s.c != nil {
			s.c.Release()
		}
	}()
	for i := range b.Caches {
		s.exec.Open(s.c, i, &b.Caches[i])
	}
	if b.Threads > 1 {
		s.c.Release()
		s.c = nil
		return s.threads(b)
	}
	for i := range b.Ops {
		if err := s.one(b, i); err != nil {
			return err
		}
		if s.m.Halted() {
			break
		}
	}
	return nil
}

// one plays operation i: what is known when the call begins is written before it.
func (s *server) one(b *impls.Batch, i int) error {
	op := &b.Ops[i]
	ev := impls.Event{Op: int32(i), Seq: uint64(i) + 1}
	if op.Code.Bulk() {
		return s.many(op, &ev)
	}
	var step play.Step
	if !s.exec.Begin(s.c, op, &ev, &step) {
		s.add(&ev)
		return nil
	}
	frees := play.Frees(op.Code)
	if frees {
		s.add(&ev)
	}
	if err := s.flush(kindProgress, i); err != nil {
		return err
	}
	if s.call(func() { s.exec.Call(s.c, &step); s.exec.End(s.c, &step) }) {
		step.Collect(s.c)
		ev.Outcome = impls.Reported
		if p := impls.Panicked(s.m.LastWords()); p != nil {
			ev.Outcome = play.OutcomeOf(p.Err)
		}
	}
	if !frees || len(ev.Reports) > 0 {
		s.add(&ev)
	}
	return nil
}

// many is one for a bulk operation, the number of which is that of ev.
func (s *server) many(op *impls.Op, ev *impls.Event) error {
	list := &s.bulk.Events
	if !s.exec.BeginBulk(s.c, op, ev, &s.bulk) {
		s.addAll(*list)
		return nil
	}
	frees := op.Code == impls.OpFreeBulk
	if frees {
		s.addAll(*list)
	}
	if err := s.flush(kindProgress, int(ev.Op)); err != nil {
		return err
	}
	if s.call(func() { s.exec.CallBulk(s.c, &s.bulk); s.exec.EndBulk(s.c, &s.bulk) }) {
		s.bulk.Collect(s.c)
		for i := range *list {
			(*list)[i].Outcome = impls.Reported
		}
	}
	for i := range *list {
		if e := &(*list)[i]; !frees || len(e.Reports) > 0 {
			s.add(e)
		}
	}
	return nil
}

func (s *server) addAll(list []impls.Event) {
	for i := range list {
		s.add(&list[i])
	}
}

// call makes the call of an operation and ends it; true when the machine was halted
// meanwhile.
func (s *server) call(operation func()) (halted bool) {
	defer func() {
		if !s.m.Halted() {
			return // whatever there is goes on
		}
		if p := recover(); p != nil && !machine.Stopped(p) {
			panic(p)
		}
		halted = true
	}()
	operation()
	return false
}

func (s *server) add(ev *impls.Event) {
	if s.journal != nil {
		s.write(ev)
		return
	}
	s.body = appendEvent(s.body, ev)
	s.n++
}

// write adds an event to the journal. When that is full its events are sent first; one that is
// longer than the journal is sent by itself.
func (s *server) write(ev *impls.Event) {
	s.body = appendEvent(s.body[:0], ev)
	if !s.journal.add(s.body) {
		events, n, _ := s.journal.written()
		s.send(events, n)
		if !s.journal.add(s.body) {
			s.send(s.body, 1)
		}
	}
	s.body = s.body[:0]
}

// send sends events in a frame of their own and empties the journal.
func (s *server) send(events []byte, n int) {
	s.frame = binary.AppendUvarint(begun(s.frame, kindEvents), uint64(n))
	s.frame = append(s.frame, events...)
	_, _ = s.w.Write(finish(s.frame)) // the end of the batch says that it cannot be written
	s.journal.empty()
}

// flush writes the events since the last frame and, for progress, the operation
// that begins.
func (s *server) flush(kind byte, op int) error {
	if s.journal != nil && kind == kindProgress {
		s.journal.begin(0, int32(op))
		return nil
	}
	s.frame = binary.AppendUvarint(begun(s.frame, kind), uint64(s.n))
	s.frame = append(s.frame, s.body...)
	if kind == kindProgress {
		s.frame = binary.AppendVarint(s.frame, int64(op))
	}
	s.body, s.n = s.body[:0], 0
	_, err := s.w.Write(finish(s.frame))
	return err
}
