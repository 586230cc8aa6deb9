package prog

import (
	"io"
	"sort"
	"strings"
)

// This file reads head and declarations, and the options of the form key=value.

// machineKeys are the options of the machine line, sorted; Machine.Check has the finer rules.
var machineKeys = []KeyArg{
	{Name: "base", Min: 1, Max: 1<<64 - 1},
	{Name: "cpus", Min: 1, Max: MaxCPUs},
	{Name: "debug", Text: MaxDebug},
	{Name: "merge", One: true, Words: onOff},
	{Name: "pages", Min: 1, Max: MaxPages},
	{Name: "pagesize", Min: MinPageSize, Max: MaxPageSize, Pow2: true},
	{Name: "preempt", One: true, Words: preemptNames[:]},
	{Name: "rules", One: true, Words: rulesNames[:]},
	{Name: "seq0", Max: 1<<32 - 1},
	{Name: "seqbits", Min: 2, Max: 32},
	{Name: "tso", One: true, Words: onOff},
	{Name: "word", Min: 16, Max: 64, Pow2: true},
}

var (
	onOff    = []string{"off", "on"}
	taskKeys = []KeyArg{{Name: "cpu", Max: MaxCPUs - 1, Need: true}}
	reserved = []string{
		"machine", "cache", "task", "sched", "at", "check", "move", "fail", "none", "hold", "drain",
	}
)

// prologue reads up to the first operation, which it leaves for NextLine.
func (r *Reader) prologue() error {
	for {
		text, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		done, bad := r.declare(text)
		if bad != nil {
			if err := r.bad(bad, text); err != nil {
				return err
			}
		}
		if done {
			r.hold(text)
			break
		}
	}
	r.settle()
	return nil
}

// declare takes one line of the prologue; done is true for a line that begins the operations.
func (r *Reader) declare(text string) (done bool, bad error) {
	x := &r.x
	x.reset(text, r.line)
	x.skip()
	start := x.i
	word := x.name()
	var e *Error
	switch {
	case x.peek() == ':' && word != "":
		e = r.headLine(x, word, start)
	case word == "machine":
		e = r.machineLine(x, start)
	case word == "cache":
		e = r.cacheLine(x, start)
	case word == "task":
		e = r.taskLine(x, start)
	default:
		return true, nil
	}
	if e != nil {
		return false, e
	}
	return false, nil
}

// settle moves the comments of the first declaration to the program when nothing is printed in
// between, as reading the printed text again would.
func (r *Reader) settle() {
	if r.p.Machine.printed() || len(r.p.Caches)+len(r.p.Tasks) == 0 {
		return
	}
	var doc *[]string
	var blank *bool
	if len(r.p.Caches) > 0 {
		doc, blank = &r.p.Caches[0].Doc, &r.p.Caches[0].Blank
	} else {
		doc, blank = &r.p.Tasks[0].Doc, &r.p.Tasks[0].Blank
	}
	waitDoc, waitBlank := r.doc, r.blank
	r.doc, r.blank = *doc, *blank
	r.toProgram()
	*doc, *blank = nil, r.blank
	r.doc, r.blank = waitDoc, waitBlank
}

func (r *Reader) headLine(x *lexer, word string, start int) *Error {
	h := &r.p.Head
	var field *string
	switch word {
	case "title":
		field = &h.Title
	case "also":
		field = &h.Also
	case "class":
		field = &h.Class
	case "found":
		field = &h.Found
	case "date":
		field = &h.Date
	default:
		return fault("%s: unknown head line", word).
			want("title:, also:, class:, found: or date:").at(x.pos(start))
	}
	if *field != "" {
		return fault("%s: given twice", word).want("one %s line", word).at(x.pos(start))
	}
	x.i++
	at := x.i
	text := x.rest()
	if text == "" {
		return fault("%s: no text", word).want("text after the colon").at(x.pos(at))
	}
	*field = text
	r.docToProgram()
	return nil
}

// docToProgram gives the waiting comments, with a blank line after them, to the program.
func (r *Reader) docToProgram() {
	r.p.Doc = joinDoc(r.p.Doc, r.blank, r.doc)
	r.doc, r.blank = nil, false
}

func (r *Reader) machineLine(x *lexer, start int) *Error {
	if r.machine {
		return fault("machine: given twice").want("one machine line").at(x.pos(start))
	}
	if len(r.p.Caches)+len(r.p.Tasks) > 0 {
		return fault("machine: after a declaration").want("the machine line first").
			at(x.pos(start)).hint("move it above the caches and tasks")
	}
	kvs, at, e := r.options(x, "machine", machineKeys)
	if e != nil {
		return e
	}
	var m Machine
	for i := range kvs {
		m.set(&kvs[i])
	}
	m = m.Resolve()
	if e := m.check(); e != nil {
		e.Pos = x.pos(start)
		for i := range kvs {
			if kvs[i].Key == e.key {
				e.Pos = x.pos(at[i])
			}
		}
		return e
	}
	for i := range kvs {
		if kvs[i].Key == "debug" {
			r.p.DebugAt = x.pos(at[i] + len(`debug="`))
		}
	}
	r.p.Machine, r.machine = m, true
	r.docToProgram()
	return nil
}

func (m *Machine) set(kv *KV) {
	switch kv.Key {
	case "base":
		m.Base = kv.Num
	case "cpus":
		m.CPUs = int(kv.Num)
	case "debug":
		m.Debug = kv.Word
	case "pages":
		m.Pages = int(kv.Num)
	case "pagesize":
		m.PageSize = int(kv.Num)
	case "preempt":
		m.Preempt = Preempt(indexOf(preemptNames[:], kv.Word))
	case "rules":
		m.Rules, _ = ParseRules(kv.Word)
	case "seq0":
		m.Seq0 = kv.Num
	case "merge":
		m.Merge = kv.Word == "on"
	case "seqbits":
		m.SeqBits = int(kv.Num)
	case "tso":
		m.TSO = kv.Word == "on"
	case "word":
		m.Word = int(kv.Num)
	}
}

func (r *Reader) cacheLine(x *lexer, start int) *Error {
	x.skip()
	at := x.i
	name := x.name()
	if name == "" {
		return x.unexpected("cache").want("a name").hint("write: cache c size=64")
	}
	if name == Nil {
		return nilBound("cache").at(x.pos(at))
	}
	for i := range r.p.Caches {
		if r.p.Caches[i].Name == name {
			return fault("cache %s: declared twice", name).want("one declaration a name").
				at(x.pos(at)).hint("the first is on line %d", r.p.Caches[i].Pos.Line)
		}
	}
	kvs, _, e := r.options(x, "cache "+name, SpecKeys)
	if e != nil {
		return e
	}
	c := Cache{Pos: x.pos(start), Name: name, Spec: NewCacheSpec(0)}
	for i := range kvs {
		c.Spec.set(&kvs[i])
	}
	c.Doc, c.Blank = r.doc, r.blank
	r.doc, r.blank, r.first = nil, false, false
	r.p.Caches = append(r.p.Caches, c)
	return nil
}

func (r *Reader) taskLine(x *lexer, start int) *Error {
	x.skip()
	at := x.i
	name := x.name()
	if name == "" {
		return x.unexpected("task").want("a name").hint("write: task t1 cpu=0")
	}
	kvs, kvAt, e := r.options(x, "task "+name, taskKeys)
	if e != nil {
		return e
	}
	t := Task{Pos: x.pos(start), Name: name, CPU: int(kvs[0].Num)}
	if e := checkTask(&t, r.known, r.p.Machine.CPUs); e != nil {
		if e.key == "cpu" {
			return e.at(x.pos(kvAt[0]))
		}
		return e.at(x.pos(at))
	}
	t.Doc, t.Blank = r.doc, r.blank
	r.doc, r.blank, r.first = nil, false, false
	r.p.Tasks = append(r.p.Tasks, t)
	r.known[Ctx{Kind: TaskCtx, Name: name}] = true
	return nil
}

// options reads key=value words to the end of the line; it returns them sorted with the offset of
// each.
func (r *Reader) options(x *lexer, where string, keys []KeyArg) ([]KV, []int, *Error) {
	var kvs []KV
	var at []int
	for x.skip() != 0 {
		start := x.i
		key := x.name()
		if key == "" || !x.take('=') {
			x.i = start
			return nil, nil, x.unexpected(where).want("key=value, with a key of %s", keyNames(keys))
		}
		kv, e := x.option(where, keys, key, start)
		if e != nil {
			return nil, nil, e
		}
		i := len(kvs)
		for i > 0 && kvs[i-1].Key > key {
			i--
		}
		if i > 0 && kvs[i-1].Key == key {
			return nil, nil, fault("%s: %s given twice", where, key).
				want("each key once").at(x.pos(start))
		}
		kvs, at = insert(kvs, i, kv), insert(at, i, start)
	}
	if e := checkNeeded(where, keys, kvs); e != nil {
		return nil, nil, e.at(x.pos(x.i))
	}
	return kvs, at, nil
}

// insert puts v at place i.
func insert[T any](s []T, i int, v T) []T {
	s = append(s, v)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}

// option reads the value of a key, the next byte being the one after "=".
func (x *lexer) option(where string, keys []KeyArg, key string, at int) (KV, *Error) {
	k := findKey(keys, key)
	if k == nil {
		return KV{}, unknownKey(where, keys, key).at(x.pos(at))
	}
	kv := KV{Key: k.Name}
	valueAt := x.i
	if k.Text > 0 {
		s, e := x.plain(where+": "+key, k.Text)
		if e != nil {
			return KV{}, e
		}
		kv.Word = s
	} else if len(k.Words) == 0 {
		n, e := x.number(where + ": " + key)
		if e != nil {
			return KV{}, e
		}
		kv.Num, kv.IsNum = n, true
	} else if e := x.words(where, k, &kv); e != nil {
		return KV{}, e
	}
	if e := checkKV(where, keys, &kv); e != nil {
		return KV{}, e.at(x.pos(valueAt))
	}
	if c := x.peek(); c != 0 && c != ' ' && c != '\t' && c != ';' && !x.atArrow() {
		return KV{}, x.unexpected(where).want("a blank after %s=…", key)
	}
	return kv, nil
}

// words reads words joined by commas and sorts them.
func (x *lexer) words(where string, k *KeyArg, kv *KV) *Error {
	start, n, sorted, last := x.i, 0, true, ""
	for {
		at := x.i
		w := x.name()
		if w == "" && '0' <= x.peek() && x.peek() <= '9' {
			w = x.release()
		}
		if indexOf(k.Words, w) < 0 {
			x.i = at
			return unknownWord(where, k, x.word()).at(x.pos(at))
		}
		sorted = sorted && last < w
		last = w
		n++
		if !x.take(',') {
			break
		}
	}
	kv.Word = x.s[start:x.i]
	if !sorted {
		ws := strings.Split(kv.Word, ",")
		sort.Strings(ws)
		kv.Word = strings.Join(ws, ",")
	}
	return nil
}

func findKey(keys []KeyArg, name string) *KeyArg {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func unknownKey(where string, keys []KeyArg, key string) *Error {
	if len(keys) == 0 {
		return fault("%s: unknown key %s", where, key).want("no keys")
	}
	return fault("%s: unknown key %s", where, key).want("%s", keyNames(keys))
}

func keyNames(keys []KeyArg) string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].Name
	}
	return orList(names)
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	switch n := len(words); n {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}
