package trace

// The recordings of Android's malloc debug, which memory_replay runs again.
func androidOpen(r *lineReader) decoder {
	return &textDecoder{lines: r, parse: androidParse,
		want: `one such as "186: malloc 0xb6038060 20" or "186: free 0xb6038060"`}
}

func androidDetect(prefix []byte) bool {
	return anyLine(prefix, func(line []byte) bool {
		var ev Event
		return androidParse(line, &ev)
	})
}

// androidParse reads one line. Newer ones have two times at the end.
func androidParse(line []byte, ev *Event) bool {
	s := scan(line)
	if _, ok := s.dec(); !ok || !s.lit(": ") {
		return false
	}
	verb := s.word()
	var ok [3]bool
	ev.ID, ok[0] = s.pointer()
	ok[1], ok[2] = true, true
	switch string(verb) {
	case "malloc":
		ev.Kind = Malloc
		ev.Size, ok[1] = s.dec()
	case "calloc":
		ev.Kind = Calloc
		ev.Count, ok[1] = s.dec()
		ev.Size, ok[2] = s.dec()
	case "realloc":
		ev.Kind = Realloc
		ev.Old, ok[1] = s.pointer()
		ev.Size, ok[2] = s.dec()
	case "memalign", "aligned_alloc":
		ev.Kind = Memalign
		ev.Align, ok[1] = s.dec()
		ev.Size, ok[2] = s.dec()
	case "free":
		ev.Kind = Free
	case "thread_done":
		ev.skip(Mark, "")
	default:
		return false
	}
	if !ok[0] || !ok[1] || !ok[2] {
		return false
	}
	if s.end() {
		return true
	}
	_, ok[0] = s.dec()
	if !s.end() {
		_, ok[1] = s.dec()
	}
	return ok[0] && ok[1] && s.end()
}
