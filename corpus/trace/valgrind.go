package trace

import "bytes"

// A valgrindDecoder reads what valgrind --trace-malloc=yes prints, of the process seen first.
type valgrindDecoder struct {
	textDecoder
	pid uint64
}

func valgrindOpen(r *lineReader) decoder {
	d := &valgrindDecoder{}
	d.textDecoder = textDecoder{lines: r, parse: d.line,
		want: `one such as "--77-- malloc(32) = 0x4A40040"`}
	return d
}

// valgrindDetect accepts a line of valgrind's own.
func valgrindDetect(prefix []byte) bool {
	return anyLine(prefix, func(line []byte) bool {
		_, _, _, ok := valgrindPID(line)
		return ok
	})
}

// valgrindPID takes a line of valgrind apart: --PID-- text, or ==PID== text.
func valgrindPID(line []byte) (pid uint64, mark byte, text scan, ok bool) {
	if len(line) < 5 || line[0] != line[1] || line[0] != '-' && line[0] != '=' {
		return 0, 0, nil, false
	}
	s := scan(line[2:])
	if isBlank(s[0]) {
		return 0, 0, nil, false
	}
	pid, ok = s.dec()
	if !ok || len(s) < 2 || s[0] != line[0] || s[1] != line[0] {
		return 0, 0, nil, false
	}
	return pid, line[0], s[2:], true
}

// line reads one line.
func (d *valgrindDecoder) line(line []byte, ev *Event) bool {
	pid, mark, s, ok := valgrindPID(line)
	if !ok { // the program's own words
		ev.skip(Mark, "")
		return true
	}
	if d.pid == 0 {
		d.pid = pid
	}
	switch {
	case pid != d.pid:
		ev.skip(OtherProcess, "")
		return true
	case mark == '=':
		ev.skip(Mark, "")
		return true
	}
	return valgrindCall(s, ev)
}

// A valgrindArgs is what stands in parentheses.
type valgrindArgs struct {
	n     int
	value [2]uint64
	align [2]bool // called al or alignment
}

// valgrindCall reads a call and its result. A realloc of null, or to 0, prints the malloc or the
// free that it becomes behind it, and that is what counts.
func valgrindCall(s scan, ev *Event) bool {
	s.blanks()
	open := bytes.IndexByte(s, '(')
	if open < 0 {
		ev.skip(Mark, "")
		return true
	}
	name := s[:open]
	kind := valgrindKind(name)
	if kind == Skipped {
		ev.skip(Mark, "")
		return true
	}
	s = s[open+1:]
	args, ok := s.args()
	if !ok {
		return false
	}
	if kind == Realloc && len(s) > 0 && s[0] != ' ' {
		return valgrindCall(s, ev)
	}
	if kind == Free {
		ev.Kind, ev.ID = Free, args.value[0]
		return args.n >= 1 && ev.ID != tooLarge
	}
	if s.lit("Argument ") { // a warning that the size is absurd: the result comes a line later
		ev.skip(Failed, "")
		return true
	}
	if !s.lit(" = ") {
		return false
	}
	ev.ID, ok = s.pointer()
	return ok && s.end() && args.fill(ev, kind)
}

// valgrindKind returns what a function does, by its name; Skipped is nothing that counts.
func valgrindKind(name []byte) Kind {
	switch string(name) {
	case "malloc":
		return Malloc
	case "free", "cfree":
		return Free
	case "calloc":
		return Calloc
	case "realloc":
		return Realloc
	case "memalign", "posix_memalign", "aligned_alloc", "valloc", "pvalloc":
		return Memalign
	}
	if len(name) < 5 || name[0] != '_' {
		return Skipped
	}
	switch string(name[:4]) {
	case "_Znw", "_Zna":
		return Malloc
	case "_Zdl", "_Zda":
		return Free
	}
	return Skipped
}

// args takes what stands in parentheses, and the closing one: numbers, of which some have a name in
// front. Only the first two count.
func (s *scan) args() (a valgrindArgs, ok bool) {
	for {
		s.blanks()
		align := false
		if len(*s) > 0 && 'a' <= (*s)[0] && (*s)[0] <= 'z' {
			align = (*s)[0] == 'a'
			s.word()
		}
		var n uint64
		if n, ok = s.number(); !ok {
			return a, false
		}
		if a.n < len(a.value) {
			a.value[a.n], a.align[a.n] = n, align
		}
		a.n++
		if !s.lit(",") {
			return a, s.lit(")")
		}
	}
}

// fill makes an event of a call.
func (a *valgrindArgs) fill(ev *Event, kind Kind) bool {
	ev.Kind, ev.Size = kind, a.value[0]
	switch {
	case kind == Memalign && a.n == 1: // valloc
		ev.Align = 4096
		return true
	case a.n >= 2 && (kind == Malloc || kind == Memalign):
		// An aligned new has the size in front.
		ev.Kind, ev.Align, ev.Size = Memalign, a.value[0], a.value[1]
		if a.align[1] {
			ev.Align, ev.Size = ev.Size, ev.Align
		}
		return a.align[0] != a.align[1]
	case kind == Calloc:
		ev.Count, ev.Size = a.value[0], a.value[1]
		return a.n == 2
	case kind == Realloc:
		ev.Old, ev.Size = a.value[0], a.value[1]
		return a.n == 2 && ev.Old != tooLarge
	}
	return a.n == 1
}
