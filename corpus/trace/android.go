package trace

// What Android's malloc debug writes with record_allocs, and memory_replay reads: a thread, a
// function, the address that it returned or was given, its numbers.

const androidExample = "7: malloc 0xb6f1a000 24"

func androidOpen(r *lineReader) decoder {
	return &textDecoder{lines: r, example: androidExample, parse: androidLine}
}

func androidDetect(prefix []byte) bool { return detectLines(prefix, androidLine) }

func androidLine(line []byte, ev *Event) bool {
	s := scanner{b: line}
	if tid := s.upTo(':'); s.bad || !isNumber(tid) {
		return false
	}
	what := string(s.word())
	ev.ID = s.number()
	switch what {
	case "malloc":
		ev.Kind, ev.Size = Malloc, s.number()
	case "calloc":
		ev.Kind, ev.Count, ev.Size = Calloc, s.number(), s.number()
	case "realloc":
		ev.Kind, ev.Old, ev.Size = Realloc, s.number(), s.number()
	case "memalign":
		ev.Kind, ev.Align, ev.Size = Memalign, s.number(), s.number()
	case "free":
		ev.Kind = Free
	case "thread_done":
		ev.skip(Mark, "")
	default:
		return false
	}
	s.skip()
	for !s.bad && len(s.b) > 0 { // newer ones write two times behind
		s.number()
		s.skip()
	}
	return s.end()
}
