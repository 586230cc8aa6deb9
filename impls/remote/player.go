package remote

import (
	"errors"
	"fmt"
	"io"

	"allocfuzz/impls"
	"allocfuzz/impls/play"
)

// How a subject died, where whoever started it does not know better.
const (
	DeathHung   = "hung"
	DeathExited = "exited"
)

// Options are what a Player needs from whoever started the subject. Every field may
// be left out.
type Options struct {
	// Watch is called when a batch begins. It may set a clock that closes the stream
	// when the subject takes too long. What it returns is called once the batch is
	// over and says whether that happened.
	Watch func() (stop func() bool)
	// Journal is shared with a subject that keeps one; nil when it sends progress.
	Journal *Journal
	// Why says how the subject died, after the stream ended too early: "" for
	// DeathExited.
	Why func() string
}

// A Player plays batches on the subject at the other end of a stream.
type Player struct {
	rw   io.ReadWriteCloser
	in   frames
	out  []byte
	sent uint8 // frames of events in this batch, of a subject with a journal
	opts Options
	gone bool
}

var _ impls.Player = (*Player)(nil)

// NewPlayer is a Player over rw, which it closes in Close.
func NewPlayer(rw io.ReadWriteCloser, opts Options) *Player {
	return &Player{rw: rw, in: frames{r: rw}, opts: opts}
}

// Close closes the stream.
func (p *Player) Close() error {
	p.gone = true
	return p.rw.Close()
}

// Play sends b and collects its transcript, whose Last is -1 when the subject
// lives. A subject that dies is no error: the transcript then says how and in which
// operation, and the Player is of no more use. Errors are a batch with slots out of
// range, a *FormatError when the subject answers with something else than frames,
// and its own refusal of the batch.
func (p *Player) Play(b *impls.Batch) (*impls.Transcript, error) {
	if p.gone {
		return nil, errors.New("remote: the subject is gone, expected a new player")
	}
	p.out = AppendBatch(begun(p.out, kindBatch), b)
	if len(p.out) > frameMax {
		return nil, fmt.Errorf("remote: batch of %d bytes: expected at most %d, split it",
			len(p.out), frameMax)
	}
	if _, err := decodeBatch(p.out[frameHead:], 0); err != nil {
		return nil, fmt.Errorf("batch not valid: %w", err)
	}
	stop := func() bool { return false }
	if p.opts.Watch != nil {
		stop = p.opts.Watch()
	}
	t := &impls.Transcript{Last: -1, Events: make([]impls.Event, 0, len(b.Ops))}
	if p.opts.Journal != nil {
		p.opts.Journal.reset()
		p.sent = 0
	}
	_, err := p.rw.Write(finish(p.out))
	if err == nil {
		err = p.collect(b, t)
	}
	hung := stop()
	if err == nil {
		t.Last = -1
		return t, nil
	}
	p.gone = true
	var malformed *FormatError
	var refused refusal
	if errors.As(err, &malformed) || errors.As(err, &refused) {
		return nil, err
	}
	t.Death = p.why(hung)
	if err := p.last(b, t); err != nil {
		return nil, err
	}
	died(b, t)
	return t, nil
}

// last reads what a subject with a journal left there.
func (p *Player) last(b *impls.Batch, t *impls.Transcript) error {
	if p.opts.Journal == nil {
		return nil
	}
	if err := p.journal(b, t); err != nil {
		return err
	}
	for i := range max(b.Threads, 1) {
		if op := p.opts.Journal.begins(i); op >= 0 && int(op) < len(b.Ops) {
			t.Last = op
			break
		}
	}
	return nil
}

// journal reads the events that came by no frame.
func (p *Player) journal(b *impls.Batch, t *impls.Transcript) error {
	events, n, emptied := p.opts.Journal.written()
	if emptied != p.sent {
		return nil // they came by the last frame
	}
	r := &reader{b: events, base: p.in.off}
	p.some(r, n, b, t)
	return r.end()
}

func (p *Player) why(hung bool) string {
	if hung {
		return DeathHung
	}
	if p.opts.Why != nil {
		if why := p.opts.Why(); why != "" {
			return why
		}
	}
	return DeathExited
}

// died marks the operation that the subject died in. The event of a free is there
// already.
func died(b *impls.Batch, t *impls.Transcript) {
	if t.Last < 0 {
		return
	}
	for i := len(t.Events) - 1; i >= 0 && len(t.Events)-i <= impls.ThreadsMax; i-- {
		if t.Events[i].Op == t.Last {
			t.Events[i].Outcome = impls.Died
			return
		}
	}
	op := &b.Ops[t.Last]
	ev := impls.Event{Op: t.Last, Code: op.Code.Each(), Outcome: impls.Died,
		Cache: op.Cache, Slot: op.Slot, Bad: -1, Size: op.Size, Seq: uint64(t.Last) + 1}
	if len(op.Slots) > 0 {
		ev.Part, ev.Slot = 1, op.Slots[0]
	}
	t.Events = append(t.Events, ev)
}

// A refusal is what a subject that does not play a batch says.
type refusal string

func (r refusal) Error() string { return "remote: the subject refused the batch: " + string(r) }

// collect reads progress until the end of the batch.
func (p *Player) collect(b *impls.Batch, t *impls.Transcript) error {
	for {
		kind, payload, err := p.in.next("PVEX")
		if err != nil {
			return err
		}
		if kind == kindError {
			return refusal(payload[:min(len(payload), textMax)])
		}
		r := &reader{b: payload, base: p.in.off - int64(len(payload))}
		if kind == kindEnd && p.opts.Journal != nil {
			if err := p.journal(b, t); err != nil {
				return err
			}
		}
		p.some(r, r.count("events", eventBytes), b, t)
		if kind == kindEvents {
			p.sent++
		}
		if kind == kindProgress {
			last := r.int("operation begun", int64(t.Last)+1, int64(len(b.Ops))-1)
			if r.err == nil {
				t.Last = int32(last)
			}
		}
		if err := r.end(); err != nil {
			return err
		}
		if kind == kindEnd {
			return nil
		}
	}
}

// some reads n events and holds them against the batch.
func (p *Player) some(r *reader, n int, b *impls.Batch, t *impls.Transcript) {
	for range n {
		at := r.pos
		var ev impls.Event
		r.event(&ev)
		if r.err != nil {
			return
		}
		if again := reported(t.Events, &ev); again != nil {
			again.Outcome, again.Reports = ev.Outcome, ev.Reports
			continue
		}
		if why := misplaced(b, t.Events, &ev); why != "" {
			r.fail(at, "%s", why)
			return
		}
		t.Events = append(t.Events, ev)
	}
}

// misplaced says why ev cannot come behind the events before it; "" when it can. The events
// of a bulk operation come one after the other.
func misplaced(b *impls.Batch, before []impls.Event, ev *impls.Event) string {
	next, most, part := int32(0), int32(len(b.Ops))-1, uint16(1)
	if n := len(before); n > 0 && b.Threads < 2 {
		last := &before[n-1]
		next = last.Op + 1
		if int(last.Part) < len(b.Ops[last.Op].Slots) {
			next, most, part = last.Op, last.Op, last.Part+1
		}
	}
	if ev.Op < next || ev.Op > most {
		return fmt.Sprintf("event of operation %d: expected %d to %d", ev.Op, next, most)
	}
	op := &b.Ops[ev.Op]
	if ev.Code != op.Code.Each() {
		return fmt.Sprintf("event of operation %d is %s: expected %s", ev.Op, ev.Code,
			op.Code.Each())
	}
	switch {
	case !op.Code.Bulk():
		part = 0
	case b.Threads > 1 && ev.Part > 0 && int(ev.Part) <= len(op.Slots):
		part = ev.Part // threads come in any order
	}
	if ev.Part != part {
		return fmt.Sprintf("event of operation %d is part %d: expected %d", ev.Op, ev.Part, part)
	}
	return ""
}

// reported finds the event of a free that ev is once more with its reports; nil when it is
// none.
func reported(before []impls.Event, ev *impls.Event) *impls.Event {
	if !play.Frees(ev.Code) || len(ev.Reports) == 0 {
		return nil
	}
	for i := len(before) - 1; i >= 0 && before[i].Op == ev.Op; i-- {
		if was := &before[i]; was.Code == ev.Code && was.Part == ev.Part {
			if len(was.Reports) > 0 {
				return nil
			}
			return was
		}
	}
	return nil
}
