package minimise

import (
	"strconv"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/edit"
)

// renamed gives everything the short names that people would choose, in the order in which a
// reader meets it: caches from c on, objects from a on, tasks from t on. A program with comments
// keeps its names, since they may speak of them.
func (m *minimiser) renamed() {
	if m.named {
		return
	}
	p := m.best.prog
	taken := map[string]bool{prog.Nil: true}
	caches, objects, tasks := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range p.Caches {
		give(caches, p.Caches[i].Name, 'c', taken)
	}
	for _, l := range edit.Lines(p) {
		if l.Verb == prog.Create {
			give(caches, l.Results[0], 'c', taken)
		}
	}
	for _, l := range edit.Lines(p) {
		if l.Verb == prog.Create {
			continue
		}
		for _, name := range l.Results {
			give(objects, name, 'a', taken)
		}
	}
	for i := range p.Tasks {
		give(tasks, p.Tasks[i].Name, 't', taken)
	}
	for _, names := range []*renaming{{caches, objects, tasks}, {nil, objects, tasks},
		{nil, objects, nil}} {
		if k := names.cut(); m.cut(&k) {
			return
		}
	}
}

// give finds the next name that nothing has, from a letter on.
func give(names map[string]string, old string, first byte, taken map[string]bool) {
	if _, ok := names[old]; ok || old == prog.Nil {
		return
	}
	for n := 0; ; n++ {
		name := string(first + byte(n%(int('z'-first)+1)))
		if round := n / (int('z'-first) + 1); round > 0 {
			name += strconv.Itoa(round + 1)
		}
		if !taken[name] {
			taken[name], names[old] = true, name
			return
		}
	}
}

// A renaming has the new name of each old one.
type renaming struct{ caches, objects, tasks map[string]string }

// to replaces a name that has a new one.
func to(names map[string]string, name *string) {
	if n, ok := names[*name]; ok {
		*name = n
	}
}

// cut renames everything at once.
func (r *renaming) cut() edit.Cut {
	return edit.Cut{Change: r.line, Whole: r.declared, Depart: r.departure}
}

func (r *renaming) line(l *prog.Line) {
	to(r.caches, &l.Cache)
	results := r.objects
	if l.Verb == prog.Create {
		results = r.caches
	}
	for i := range l.Results {
		to(results, &l.Results[i])
	}
	for i := range l.Slots {
		to(r.objects, &l.Slots[i])
	}
	if l.Ctx.Kind == prog.TaskCtx {
		to(r.tasks, &l.Ctx.Name)
	}
}

func (r *renaming) declared(p *prog.Program) {
	for i := range p.Caches {
		to(r.caches, &p.Caches[i].Name)
	}
	for i := range p.Tasks {
		to(r.tasks, &p.Tasks[i].Name)
	}
}

func (r *renaming) departure(_ int, d *prog.Departure) bool {
	for i := range d.Actions {
		if d.Actions[i].Kind == prog.ToTask {
			to(r.tasks, &d.Actions[i].Name)
		}
	}
	return true
}
