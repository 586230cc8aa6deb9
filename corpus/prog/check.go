package prog

import (
	"strconv"
	"strings"
)

// This file holds the rules for one line or declaration by itself. The parser applies them with
// the columns of the words (cols); Validate applies the same rules to programs built in memory.

// cols are the offsets of the words of a line that was parsed, or nil slices for one that was not.
type cols struct {
	x       *lexer // nil: not parsed
	line    Pos
	ctx     int
	verb    int
	cache   int
	results []int
	slots   []int
	buf     []int // the memory of slots
	nums    []int
	option  int // the one read last
}

// pos returns the place of a word, or of the line when columns are not known.
func (c *cols) pos(offset int) Pos {
	if c.x == nil {
		return c.line
	}
	return c.x.pos(offset)
}

// item returns the place of word i of a list.
func (c *cols) item(list []int, i int) Pos {
	if i < len(list) {
		return c.pos(list[i])
	}
	return c.pos(c.verb)
}

// checkCtx demands a context that the machine has.
func checkCtx(c Ctx, m *Machine, known map[Ctx]bool) *Error {
	switch c.Kind {
	case CPUCtx, IRQCtx:
		if c.CPU < 0 || c.CPU >= m.CPUs {
			return fault("%s: no such cpu", c).want("0 to %d", m.CPUs-1).
				hint("raise cpus= on the machine line")
		}
		if c.Name == "" || c.Kind == IRQCtx && isName(c.Name) {
			return nil
		}
	case TaskCtx:
		if known[c] {
			return nil
		}
		e := fault("unknown context %s", c.Name).want("cpuN, irqN, a declared task or check")
		if _, ok := verbs[c.Name]; ok {
			return e.hint("a line begins with who runs it: cpu0 %s …", c.Name)
		}
		return e.hint("declare it with: task %s cpu=0", c.Name)
	}
	return fault("%q: not a context", c.String()).want("cpuN, irqN or a declared task")
}

// checkTask demands a task of a free and usable name on a CPU of the machine.
func checkTask(t *Task, known map[Ctx]bool, cpus int) *Error {
	c, ok := ParseCtx(t.Name)
	switch {
	case !ok || c.Kind != TaskCtx:
		return fault("task %s: not a name for a task", t.Name).
			want("a name that is neither cpuN nor irqN")
	case indexOf(reserved, t.Name) >= 0:
		return fault("task %s: reserved word", t.Name).
			want("a name other than %s", orList(reserved))
	case known[c]:
		return fault("task %s: declared twice", t.Name).want("one declaration a name")
	case t.CPU < 0 || t.CPU >= cpus:
		return fault("task %s: cpu=%d: no such cpu", t.Name, t.CPU).want("0 to %d", cpus-1).
			hint("raise cpus= on the machine line").on("cpu")
	}
	return nil
}

// checkKV demands an option that the verb or declaration takes, with a value in range.
func checkKV(where string, keys []KeyArg, kv *KV) *Error {
	k := findKey(keys, kv.Key)
	switch {
	case k == nil:
		return unknownKey(where, keys, kv.Key)
	case kv.IsNum != (len(k.Words) == 0 && k.Text == 0):
		return fault("%s: %s: wrong type of value", where, k.Name)
	case k.Text > 0:
		_, e := plainText(where+": "+k.Name, kv.Word, k.Text)
		return e
	case kv.IsNum:
		return checkRange(where+": "+k.Name, kv.Num, k.Min, k.Max, k.Pow2)
	}
	last := ""
	for _, w := range strings.Split(kv.Word, ",") {
		if indexOf(k.Words, w) < 0 {
			return unknownWord(where, k, strconv.Quote(w))
		}
		if w == last {
			return fault("%s: %s: %s given twice", where, k.Name, w).want("each word once")
		}
		if last != "" && (k.One || w < last) {
			return fault("%s: %s=%s", where, k.Name, kv.Word).
				want("one word of %s", orList(k.Words))
		}
		last = w
	}
	return nil
}

// unknownWord is the error for a word of option k, quoted with what stands behind it. Debug
// options of a cache may have been meant as letters, as slab_debug has them.
func unknownWord(where string, k *KeyArg, shown string) *Error {
	w, _, _ := strings.Cut(strings.Trim(shown, `"`), ",")
	e := fault("%s: %s: unknown word %s", where, k.Name, shown).want("%s", orList(k.Words))
	if w != "" && strings.Trim(w, "FZPUTAfzputa") == "" && indexOf(k.Words, "sanity") >= 0 {
		e.hint("letters are words here: F sanity, Z redzone, P poison, U user, T trace, "+
			"A failslab; for all caches write: machine debug=%q", w)
	}
	return e
}

func checkRange(what string, n, least, most uint64, pow2 bool) *Error {
	if n >= least && n <= most && (!pow2 || n&(n-1) == 0) {
		return nil
	}
	e := fault("%s: %d is out of range", what, n)
	if pow2 {
		return e.want("a power of two, %d to %d", least, most)
	}
	return e.want("%d to %d", least, most)
}

// checkNeeded demands the options that must be given.
func checkNeeded(where string, keys []KeyArg, kvs []KV) *Error {
	for i := range keys {
		k := &keys[i]
		if !k.Need {
			continue
		}
		found := false
		for j := range kvs {
			found = found || kvs[j].Key == k.Name
		}
		if !found {
			return fault("%s: no %s", where, k.Name).want("%s=n", k.Name)
		}
	}
	return nil
}

// checkOp demands operands of the shape that the verb's row states. Options were checked when they
// were read; checkKVs does it for lines that never were.
func checkOp(l *Line, c *cols) *Error {
	op := &Ops[l.Verb]
	if e := checkCounts(l, op, c); e != nil {
		return e
	}
	if e := distinct(op.Name, l.Results, c, c.results); e != nil {
		return e
	}
	if e := distinct(op.Name, l.Slots, c, c.slots); e != nil {
		return e
	}
	for i := range op.Nums {
		a := &op.Nums[i]
		if n := l.Nums[i]; n < a.Min || n > a.Max || a.Pow2 && n&(n-1) != 0 {
			return checkRange(op.Name+": "+a.Name, n, a.Min, a.Max, a.Pow2).
				at(c.item(c.nums, i))
		}
	}
	if l.Verb == Flip {
		return checkFlip(l, c)
	}
	return nil
}

// checkCounts demands the right number of results, operands and numbers.
func checkCounts(l *Line, op *Op, c *cols) *Error {
	flipCache := l.Verb == Flip && strings.HasPrefix(l.Region, "cache.")
	slots := op.Slots
	if flipCache {
		slots = 0
	}
	switch {
	case op.Results == Many && len(l.Results) > MaxBulk:
		return tooMany(op, "names bound", len(l.Results)).at(c.item(c.results, MaxBulk))
	case slots == Many && len(l.Slots) > MaxBulk:
		return tooMany(op, "slot operands", len(l.Slots)).at(c.item(c.slots, MaxBulk))
	case !fits(len(l.Results), op.Results):
		return shape(op, "names bound: %d", len(l.Results)).at(c.item(c.results, 0))
	case (op.Cache == NeedCache || flipCache) && l.Cache == "":
		return shape(op, "names no cache").at(c.pos(c.verb))
	case l.Cache != "" && (op.Cache == NoCache || l.Verb == Flip && !flipCache):
		return shape(op, "takes no cache").at(c.pos(c.cache))
	case len(l.Nums) > len(op.Nums):
		return shape(op, "number %d too many", l.Nums[len(op.Nums)]).
			at(c.item(c.nums, len(op.Nums)))
	case !fits(len(l.Slots), slots):
		return shape(op, "slot operands: %d", len(l.Slots)).at(c.item(c.slots, max(slots, 0)))
	case len(l.Nums) != len(op.Nums):
		return shape(op, "numbers: %d", len(l.Nums)).at(c.item(c.nums, len(op.Nums)))
	}
	return nil
}

func fits(n, want int) bool { return n == want || want == Many && n > 0 }

// tooMany is the error for a bulk line of more than MaxBulk names.
func tooMany(op *Op, what string, n int) *Error {
	return fault("%s: %s: %d", op.Name, what, n).want("at most %d", MaxBulk).
		hint("write several lines")
}

// shape is the error for a line of the wrong form.
func shape(op *Op, format string, args ...any) *Error {
	return fault(op.Name+": "+format, args...).want("%s", op.Usage())
}

// distinct demands that no name of a list occurs twice.
func distinct(where string, names []string, c *cols, at []int) *Error {
	if len(names) < 2 {
		return nil
	}
	if len(names) > 16 {
		seen := make(map[string]bool, len(names))
		for i, n := range names {
			if seen[n] {
				return twice(where, n).at(c.item(at, i))
			}
			seen[n] = true
		}
		return nil
	}
	for i := range names {
		if indexOf(names[:i], names[i]) >= 0 {
			return twice(where, names[i]).at(c.item(at, i))
		}
	}
	return nil
}

func twice(where, name string) *Error {
	return fault("%s: name %s given twice", where, name).want("different names")
}

func checkFlip(l *Line, c *cols) *Error {
	regions := FlipRegions
	if l.Cache != "" {
		regions = FlipCacheFields
	}
	if indexOf(regions, l.Region) >= 0 {
		return nil
	}
	return unknownRegion(l.Region).at(c.pos(c.verb))
}

func unknownRegion(region string) *Error {
	return fault("flip: unknown region %q", region).
		want("%s, %s", strings.Join(FlipRegions, ", "), orList(FlipCacheFields))
}

// checkExpect demands at most one outcome a subject, several reports aside.
func checkExpect(list []Expect, e *Expect) *Error {
	switch {
	case int(e.Outcome) >= Outcomes:
		return fault("unknown outcome %d", e.Outcome).want("%s", orList(outcomeNames[:]))
	case (e.Outcome == Report) != (e.Report != ""):
		return fault("outcome %s: report title %q", e.Outcome, e.Report).
			want("a title with report, and only there")
	case e.Subject != "" && !isSubject(e.Subject):
		return fault("outcome %s: subject %q", e.Outcome, e.Subject).want("the name of a subject")
	}
	for i := range list {
		same := list[i].Subject == e.Subject
		if same && (list[i] == *e || list[i].Outcome != Report || e.Outcome != Report) {
			return fault("outcome %s: second outcome for the same subject", e.Outcome).
				want("one outcome a subject, or several different reports")
		}
	}
	return nil
}

// Usage returns how a line with the operation is written after its context.
func (o *Op) Usage() string {
	var b strings.Builder
	switch o.Results {
	case 1:
		b.WriteString("x = ")
	case Many:
		b.WriteString("x,y,… = ")
	}
	b.WriteString(o.Name)
	if o.Name == "flip" {
		b.WriteString(" REGION of x | cache.FIELD c")
	} else {
		o.operands(&b)
	}
	if o.Name == "repeat" {
		b.WriteString(" n {")
	}
	if o.Spec {
		keyUsage(&b, SpecKeys)
	}
	keyUsage(&b, o.Keys)
	return b.String()
}

func (o *Op) operands(b *strings.Builder) {
	switch o.Cache {
	case MayCache:
		b.WriteString(" [CACHE]")
	case NeedCache:
		b.WriteString(" CACHE")
	}
	switch o.Slots {
	case 1:
		b.WriteString(" x")
	case Many:
		b.WriteString(" x y …")
	}
	for i := range o.Nums {
		b.WriteString(" " + strings.ToUpper(o.Nums[i].Name))
	}
}

func keyUsage(b *strings.Builder, keys []KeyArg) {
	for i := range keys {
		value := "n"
		if len(keys[i].Words) > 0 {
			value = "…"
		}
		if keys[i].Need {
			b.WriteString(" " + keys[i].Name + "=" + value)
		} else {
			b.WriteString(" [" + keys[i].Name + "=" + value + "]")
		}
	}
}
