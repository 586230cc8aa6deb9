package input

import "allocfuzz/corpus/prog"

// Canonical returns p as bytes can carry it: names in the order in which they occur, only the
// first schedule block, of no subject and expecting nothing, and no head, comments, labels, notes
// or stated outcomes. Two programs mean the same to a decoder when their canonical forms are
// equal. p is not changed.
func Canonical(p *prog.Program) *prog.Program {
	c := &canon{slots: map[string]string{}, caches: map[string]string{},
		tasks: map[string]string{}, irqs: map[prog.Ctx]string{}, lines: map[*prog.Line]*prog.Line{}}
	out := &prog.Program{Machine: p.Machine.Resolve()}
	for i := range p.Caches {
		name := c.cache(p.Caches[i].Name)
		out.Caches = append(out.Caches, prog.Cache{Name: name, Spec: p.Caches[i].Spec})
	}
	for i := range p.Tasks {
		name := taskNames[i%tasksMax]
		if i >= tasksMax {
			name = "t" + p.Tasks[i].Name
		}
		c.tasks[p.Tasks[i].Name] = name
		out.Tasks = append(out.Tasks, prog.Task{Name: name, CPU: p.Tasks[i].CPU})
	}
	out.Lines = c.copy(p.Lines)
	if len(p.Scheds) > 0 && len(p.Scheds[0].Departures) > 0 {
		out.Scheds = []prog.Sched{{Blank: true, Departures: c.departures(p)}}
	}
	return out
}

// canon maps the names of one program.
type canon struct {
	slots, caches, tasks map[string]string
	irqs                 map[prog.Ctx]string
	lines                map[*prog.Line]*prog.Line
}

func (c *canon) cache(name string) string {
	if name == "" {
		return ""
	}
	if _, ok := c.caches[name]; !ok {
		c.caches[name] = numbered(cacheNames[:], len(c.caches))
	}
	return c.caches[name]
}

func (c *canon) slot(name string) string {
	if name == prog.Nil {
		return name
	}
	if _, ok := c.slots[name]; !ok {
		c.slots[name] = numbered(slotNames[:], len(c.slots))
	}
	return c.slots[name]
}

// numbered returns a name of the table, or one made of its last for what does not fit.
func numbered(table []string, i int) string {
	if i < len(table) {
		return table[i]
	}
	return table[len(table)-1] + "_" + prog.Ctx{Kind: prog.CPUCtx, CPU: i}.String()
}

func (c *canon) ctx(x prog.Ctx) prog.Ctx {
	switch {
	case x.Kind == prog.TaskCtx:
		x.Name = c.tasks[x.Name]
	case x.Kind == prog.IRQCtx && x.Name != "":
		x.Name = c.handler(x)
	}
	return x
}

// handler returns the name of a handler that has one, by the order of the CPU's handlers.
func (c *canon) handler(x prog.Ctx) string {
	if name, ok := c.irqs[x]; ok {
		return name
	}
	n := 0
	for other := range c.irqs {
		if other.CPU == x.CPU {
			n++
		}
	}
	c.irqs[x] = numbered(handlerNames[1:], n)
	return c.irqs[x]
}

func (c *canon) copy(lines []prog.Line) []prog.Line {
	if len(lines) == 0 {
		return nil
	}
	out := make([]prog.Line, len(lines))
	for i := range lines {
		l := &lines[i]
		out[i] = prog.Line{Ctx: c.ctx(l.Ctx), Verb: l.Verb, Nums: l.Nums, Region: l.Region,
			KV: l.KV, Spec: l.Spec, Count: l.Count}
		for _, s := range l.Slots {
			out[i].Slots = append(out[i].Slots, c.slot(s))
		}
		out[i].Cache = c.cache(l.Cache)
		for _, s := range l.Results {
			if l.Verb == prog.Create {
				s = c.cache(s)
			} else {
				s = c.slot(s)
			}
			out[i].Results = append(out[i].Results, s)
		}
		out[i].Body = c.copy(l.Body)
		c.lines[l] = &out[i]
	}
	return out
}

func (c *canon) departures(p *prog.Program) []prog.Departure {
	index := prog.NewIndex(p)
	var out []prog.Departure
	for i := range p.Scheds[0].Departures {
		d := &p.Scheds[0].Departures[i]
		l, _, err := index.Target(&d.Where)
		if err != nil {
			continue
		}
		to := prog.Departure{Kind: d.Kind, Field: d.Field, N: d.N}
		to.Where = prog.Where{Delivery: d.Where.Delivery, Iter: d.Where.Iter, Line: c.lines[l]}
		if d.Where.IRQ != "" {
			to.Where.IRQ = c.ctx(l.Ctx).String()
		}
		for _, a := range d.Actions {
			if x, ok := a.Ctx(); ok {
				a.Name = c.ctx(x).Name
			}
			to.Actions = append(to.Actions, a)
		}
		out = append(out, to)
	}
	return out
}
