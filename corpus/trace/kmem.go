package trace

import (
	"bytes"
	"strconv"

	"allocfuzz/corpus/prog"
)

// A kmemDecoder reads the tracepoints of the kernel's allocators as ftrace, trace-cmd report and
// perf script print them: "TASK-PID [CPU] FLAGS TIME: kmalloc: call_site=… ptr=… bytes_req=… …".
type kmemDecoder struct {
	textDecoder
	caches map[string]*Cache // by the kernel's name
	taken  map[string]bool   // names in the program
	sized  map[uint64]*Cache // those without a name, by size
	// Older kernels name a cache where an object is freed, not where it is allocated. So what is
	// allocated at one site of the code goes to a nameless cache until the first of it was freed.
	sites   map[string]*kmemSite
	waiting map[uint64]*kmemSite // by object
}

// A kmemSite is a place in the code that allocates from a cache.
type kmemSite struct{ cache *Cache }

func kmemOpen(r *lineReader) decoder {
	d := &kmemDecoder{
		caches: make(map[string]*Cache), taken: make(map[string]bool),
		sized: make(map[uint64]*Cache), sites: make(map[string]*kmemSite),
		waiting: make(map[uint64]*kmemSite),
	}
	d.textDecoder = textDecoder{lines: r, parse: d.line, want: `one such as ` +
		`"cat-812 [001] ..s1. 77.1: kfree: call_site=f ptr=00000000a1"`}
	return d
}

// kmemDetect accepts the head of ftrace, and a tracepoint of an allocator.
func kmemDetect(prefix []byte) bool {
	return anyLine(prefix, func(line []byte) bool {
		var ev Event
		what, _ := kmemPoint(line, &ev)
		return what != kmemOther || bytes.HasPrefix(line, []byte("# tracer:"))
	})
}

// line reads one line.
func (d *kmemDecoder) line(line []byte, ev *Event) bool {
	point, s := kmemPoint(line, ev)
	if point == kmemOther {
		ev.skip(Mark, kmemLost(line))
		return true
	}
	var ok bool
	if ev.ID, ok = s.pointer(); !ok {
		return false
	}
	if ev.ID == prog.ZeroSize { // what the kernel gives for no bytes
		ev.skip(Null, "")
		return true
	}
	if ev.Kind == Free {
		d.learn(ev.ID, s)
		return true
	}
	var name []byte
	if s.lit(" name=") { // the usual place
		name = s.word()
	} else if point == kmemCache {
		name = s.name()
	}
	if !s.lit(" bytes_req=") && !s.behind(" bytes_req=") {
		return false
	}
	if ev.Size, ok = s.number(); ok && point == kmemCache {
		ev.Cache = d.cacheOf(line, name, ev)
	}
	return ok
}

// What a tracepoint is about.
type kmemWhat uint8

const (
	kmemOther kmemWhat = iota
	kmemSize           // objects by size
	kmemCache          // objects of caches
)

// kmemPoint finds the tracepoint of a line, and fills in what it does and in which context. rest is
// what follows behind ptr=.
func kmemPoint(line []byte, ev *Event) (what kmemWhat, rest scan) {
	const key = " ptr="
	at := bytes.Index(line, []byte(key))
	if at < 0 {
		return kmemOther, nil
	}
	s := scan(line[:at])
	if kmemCPU(&s, ev) {
		next := s
		if flags := next.word(); len(flags) > 2 && flags[len(flags)-1] != ':' {
			ev.IRQ = kmemLevel(flags[2])
			s = next
		}
	}
	for {
		end := bytes.IndexByte(s, ':')
		if end < 0 {
			return kmemOther, nil
		}
		word := s[:end]
		if what, kind := kmemName(word[1+bytes.LastIndexByte(word, ' '):]); what != kmemOther {
			ev.Kind = kind
			return what, line[at+len(key):]
		}
		s = s[end+1:]
	}
}

// kmemName tells tracepoints by their names.
func kmemName(name []byte) (kmemWhat, Kind) {
	if len(name) < 5 || name[0] != 'k' {
		return kmemOther, Skipped
	}
	switch string(name) {
	case "kmalloc", "kmalloc_node":
		return kmemSize, Malloc
	case "kfree":
		return kmemSize, Free
	case "kmem_cache_alloc", "kmem_cache_alloc_node":
		return kmemCache, Malloc
	case "kmem_cache_free":
		return kmemCache, Free
	}
	return kmemOther, Skipped
}

// kmemCPU goes behind the CPU in brackets. The name of the task in front may have brackets too.
// Without a CPU everything happened on the first.
func kmemCPU(s *scan, ev *Event) bool {
	for rest := *s; ; {
		open := bytes.IndexByte(rest, '[')
		if open < 0 {
			return false
		}
		rest = rest[open+1:]
		in := rest
		cpu, ok := in.dec()
		if ok && cpu < 1<<16 && in.lit("] ") {
			ev.CPU = uint16(cpu)
			*s = in
			return true
		}
	}
}

// kmemLevel reads the third flag, the kind of interrupt that is served.
func kmemLevel(flag byte) uint8 {
	switch flag {
	case 's':
		return 1
	case 'h', 'H':
		return 2
	case 'z', 'Z':
		return 3
	}
	return 0
}

// kmemLost is the note for a line that says that events were lost.
func kmemLost(line []byte) string {
	if bytes.Contains(line, []byte(" EVENTS")) && bytes.IndexByte(line, '[') >= 0 {
		return "events were lost: " + quote(line)
	}
	return ""
}

// name takes the value behind name=.
func (s scan) name() []byte {
	if !s.behind(" name=") {
		return nil
	}
	return s.word()
}

// cacheOf returns the cache that an object is of. name is nil where the line has none.
func (d *kmemDecoder) cacheOf(line, name []byte, ev *Event) *Cache {
	if name != nil {
		return d.named(name, ev.Size)
	}
	var site []byte
	if head := scan(line); head.behind("call_site=") {
		site = head.word()
	}
	at := d.sites[string(site)]
	if at == nil {
		at = &kmemSite{}
		d.sites[string(site)] = at
	}
	if at.cache != nil {
		return at.cache.sized(ev.Size)
	}
	d.waiting[ev.ID] = at
	c := d.sized[ev.Size]
	if c == nil {
		c = &Cache{Name: d.fresh("size_" + strconv.FormatUint(ev.Size, 10)), Size: ev.Size}
		d.sized[ev.Size] = c
	}
	return c
}

// learn gives the site that allocated an object the cache that the object goes back to. s is the
// line behind the address.
func (d *kmemDecoder) learn(id uint64, s scan) {
	if len(d.waiting) == 0 {
		return
	}
	at := d.waiting[id]
	if at == nil {
		return
	}
	delete(d.waiting, id)
	name := s.name()
	if name == nil {
		return
	}
	at.cache = d.named(name, 0) // its size comes with its first object
}

// named returns the cache that the kernel calls so.
func (d *kmemDecoder) named(name []byte, size uint64) *Cache {
	c := d.caches[string(name)]
	if c == nil {
		c = &Cache{Name: d.fresh(cacheName(name)), Size: size}
		d.caches[string(name)] = c
	}
	return c.sized(size)
}

// sized gives a cache the size of its first object, when that was not known with its name.
func (c *Cache) sized(size uint64) *Cache {
	if c.Size == 0 {
		c.Size = size
	}
	return c
}

// fresh makes a name different from all before.
func (d *kmemDecoder) fresh(name string) string {
	plain := name
	for i := 2; d.taken[name]; i++ {
		name = plain + "_" + strconv.Itoa(i)
	}
	d.taken[name] = true
	return name
}

// cacheNameMax is how much of a cache's name is kept.
const cacheNameMax = 60

// cacheName makes a name of a program of the name of a cache. What is a name of objects gets an
// end of its own.
func cacheName(name []byte) string {
	b := make([]byte, 0, len(name)+1)
	for _, c := range bytes.ToLower(name[:min(len(name), cacheNameMax)]) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' && len(b) > 0) {
			c = '_'
		}
		b = append(b, c)
	}
	if isObjectName(b) || string(b) == prog.Nil {
		b = append(b, '_')
	}
	return string(b)
}

// isObjectName tells whether takeName could make this name.
func isObjectName(b []byte) bool {
	s := scan(b)
	if !s.lit("a") {
		return false
	}
	_, digits := s.dec()
	return digits && len(s) == 0
}
