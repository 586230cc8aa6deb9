package trace

import "bytes"

// repHead is how many lines of one number stand in front of a .rep file.
const repHead = 4

// The .rep traces of malloc labs.
func repOpen(r *lineReader) decoder {
	d := &textDecoder{lines: r, want: `one such as "a 0 512", "r 0 640" or "f 0"`}
	d.parse = func(line []byte, ev *Event) bool {
		return repParse(line, ev) || ev.Line <= repHead && repNumber(line, ev)
	}
	return d
}

// repDetect accepts four lines of a number and the first of the others.
func repDetect(prefix []byte) bool {
	var ev Event
	for i := 0; i <= repHead; i++ {
		line, rest, whole := bytes.Cut(prefix, []byte{'\n'})
		if !whole {
			return false
		}
		line = trimEnd(line)
		if i == repHead {
			return repParse(line, &ev)
		}
		if !repNumber(line, &ev) {
			return false
		}
		prefix = rest
	}
	return false
}

// repNumber reads a line of the head.
func repNumber(line []byte, ev *Event) bool {
	s := scan(line)
	_, ok := s.dec()
	ev.skip(Mark, "")
	return ok && s.end()
}

// repParse reads an operation. The ids count from 0, so one is added.
func repParse(line []byte, ev *Event) bool {
	if len(line) < 3 || !isBlank(line[1]) {
		return false
	}
	s := scan(line[2:])
	id, ok := s.dec()
	if line[0] == 'f' && !ok {
		ev.Kind = Free
		return s.lit("-1") && s.end()
	}
	if !ok || id >= 1<<63 {
		return false
	}
	ev.ID = id + 1
	switch line[0] {
	case 'f':
		ev.Kind = Free
		return s.end()
	case 'a':
		ev.Kind = Malloc
	case 'r':
		ev.Kind, ev.Old = Realloc, ev.ID
	default:
		return false
	}
	ev.Size, ok = s.dec()
	return ok && s.end()
}
