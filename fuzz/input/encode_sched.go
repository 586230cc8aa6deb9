package input

import (
	"fmt"
	"slices"

	"allocfuzz/corpus/prog"
)

// This file writes departures. Each goes behind the line it belongs to; where the block is not in
// the order of the lines it goes further down and counts lines back, so that the order stays.

func (e *encoder) schedule() error {
	if e.block >= len(e.p.Scheds) || len(e.p.Scheds[e.block].Departures) == 0 {
		return nil
	}
	deps := e.p.Scheds[e.block].Departures
	index := prog.NewIndex(e.p)
	text := e.out
	e.out = make([]byte, 0, 2*len(text))
	copied, at, records := 0, 0, 0
	for i := range deps {
		l, path, err := index.Target(&deps[i].Where)
		if err != nil {
			return err
		}
		line := e.at[l]
		at = max(at, line)
		e.out = append(e.out, text[copied:e.ends[at]]...)
		copied = e.ends[at]
		records += len(deps[i].Actions)
		if err := e.departure(&deps[i], at-line, len(path)-1); err != nil {
			return fmt.Errorf("%q: %w", prog.AppendDeparture(nil, &deps[i]), err)
		}
	}
	if records > LinesMax {
		return fmt.Errorf("%d departures do not fit into bytes, expected at most %d",
			records, LinesMax)
	}
	e.out = append(e.out, text[copied:]...)
	return nil
}

// departure writes one departure, the actions behind the first as records of their own. The line
// is back lines up and has depth repeats around it.
func (e *encoder) departure(d *prog.Departure, back, depth int) error {
	field, ok := fieldIndex[d.Field]
	switch {
	case !ok:
		return fmt.Errorf("the field %s does not fit into bytes: append it to the table of fields",
			d.Field)
	case back > 255:
		return fmt.Errorf("a line %d lines back does not fit into bytes, expected at most 255",
			back)
	}
	r := record{tagDeparture, byte(back), byte(d.Kind), byte(field)}
	var more []extra
	if r[4], ok = attemptCode(d.N); !ok {
		more = append(more, extra{valueAttempt, uint64(d.N)})
	}
	if n := d.Where.Delivery; n > 0 {
		if i := place(deliveryTable, n); i >= 0 {
			r[2] |= byte(i) << 4
		} else {
			more = append(more, extra{valueDelivery, uint64(n)})
		}
	}
	more = append(more, iterCode(d.Where.Iter, depth, &r)...)
	for i, a := range d.Actions {
		if i > 0 {
			r, more = record{tagMore}, nil
		}
		var err error
		if r[6], err = e.action(a); err != nil {
			return err
		}
		e.record(r)
		if err := e.values(more); err != nil {
			return err
		}
	}
	return nil
}

// iterCode writes the rounds of the repeats around a line.
func iterCode(iter []int, depth int, r *record) []extra {
	var more []extra
	for i, n := range iter {
		switch {
		case n > 256:
			more = append(more, extra{byte(valueOuter + i), uint64(n)})
		case i == depth-1:
			r[5] = byte(n - 1)
		default:
			r[7] = byte(n - 1)
		}
	}
	return more
}

func (e *encoder) action(a prog.Action) (byte, error) {
	k := slices.Index(actionsOf(&e.p.Machine)[:], a.Kind)
	if k < 0 {
		return 0, fmt.Errorf("no such action on this machine")
	}
	what := a.CPU
	switch a.Kind {
	case prog.ToTask, prog.Interrupt:
		c, _ := a.Ctx()
		id, err := e.context(c)
		if err != nil {
			return 0, err
		}
		what = id - ctxTask
		if a.Kind == prog.Interrupt {
			what = id - ctxIRQ
		}
	}
	return byte(k | what<<3), nil
}
