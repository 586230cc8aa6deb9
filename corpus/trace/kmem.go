package trace

import (
	"bytes"

	"allocfuzz/corpus/prog"
)

// The tracepoints of the kernel's allocators as ftrace, trace-cmd report and perf script print
// them: "TASK-PID [CPU] FLAGS TIME: kmalloc: call_site=… ptr=… bytes_req=… …". The CPU and the
// flags say in which context the call was: a line with h or s in its third flag is of a handler.
// Objects of caches are asked for by the size of their request.

const kmemExample = "cat-812 [001] ..s1. 77.1: kfree: call_site=f ptr=00000000a1"

func kmemOpen(r *lineReader) decoder {
	return &textDecoder{lines: r, example: kmemExample, parse: kmemLine}
}

func kmemDetect(prefix []byte) bool { return detectLines(prefix, kmemLine) }

// kmemKinds are the tracepoints by what they tell.
var kmemKinds = []struct {
	name string
	kind Kind
}{
	{"kmalloc:", Malloc}, {"kmalloc_node:", Malloc}, {"kmem_cache_alloc:", Malloc},
	{"kmem_cache_alloc_node:", Malloc}, {"kfree:", Free}, {"kmem_cache_free:", Free},
}

func kmemLine(line []byte, ev *Event) bool {
	kind, at := kmemPoint(line)
	if at < 0 {
		ev.skip(Mark, "") // another tracepoint, or a head
		return true
	}
	if !kmemContext(line[:at], ev) {
		return false
	}
	ev.Kind = kind
	s := scanner{}
	ev.ID = s.value(kmemField(line[at:], "ptr="), 16)
	if kind == Malloc {
		ev.Size = s.value(kmemField(line[at:], "bytes_req="), 10)
	}
	return !s.bad
}

// kmemPoint finds the tracepoint of a line and where it stands.
func kmemPoint(line []byte) (kind Kind, at int) {
	for i := range kmemKinds {
		k := &kmemKinds[i]
		at := bytes.Index(line, []byte(k.name))
		if at > 0 && (line[at-1] == ' ' || line[at-1] == ':') {
			return k.kind, at
		}
	}
	return 0, -1
}

// kmemField is the word behind a key, up to the next blank.
func kmemField(line []byte, key string) []byte {
	i := bytes.Index(line, []byte(key))
	if i < 0 || i > 0 && line[i-1] != ' ' {
		return nil
	}
	w := line[i+len(key):]
	if j := bytes.IndexByte(w, ' '); j >= 0 {
		w = w[:j]
	}
	return w
}

// flagsMin is the number of flags of a line: interrupts off, need to schedule, in which kind of
// interrupt, and the depth of preemption.
const flagsMin = 4

// kmemContext reads the CPU and, where there are flags, whether an interrupt was served.
func kmemContext(head []byte, ev *Event) bool {
	open := bytes.IndexByte(head, '[')
	if open < 0 {
		return false
	}
	s := scanner{b: head[open+1:]}
	cpu := s.value(s.upTo(']'), 10)
	if s.bad || cpu > 255 {
		return false
	}
	ev.CPU = uint8(cpu % prog.MaxCPUs) // what machine here has as many
	s.skip()
	flags := s.word()
	if len(flags) >= flagsMin && bytes.IndexByte(flags, ':') < 0 {
		ev.IRQ = bytes.IndexByte([]byte("hHsZz"), flags[2]) >= 0
	}
	return true
}
