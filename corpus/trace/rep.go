package trace

// The traces of the CMU malloc lab: four lines with a number each (a suggested heap, how many ids,
// how many operations, a weight), and an operation a line on objects that go by number. The
// objects are numbered from 0, so one is added: 0 is no object here.

const repExample = "a 12 512"

func repOpen(r *lineReader) decoder {
	head := 4
	return &textDecoder{lines: r, example: repExample, parse: func(line []byte, ev *Event) bool {
		return repLine(line, ev, &head)
	}}
}

func repDetect(prefix []byte) bool {
	head := 4
	return detectLines(prefix, func(line []byte, ev *Event) bool {
		if head > 0 && !isNumber(line) {
			head = -1
		}
		return head >= 0 && repLine(line, ev, &head)
	})
}

// isNumber says whether a line is a number and nothing else.
func isNumber(line []byte) bool {
	s := scanner{b: line}
	s.number()
	return s.end()
}

func repLine(line []byte, ev *Event, head *int) bool {
	if *head > 0 {
		*head--
		ev.skip(Mark, "")
		return isNumber(line)
	}
	s := scanner{b: line}
	op := s.word()
	s.skip()
	if string(op) == "f" && string(s.b) == "-1" {
		ev.Kind = Free // of nothing
		return true
	}
	ev.ID = s.number() + 1
	switch string(op) {
	case "a":
		ev.Kind, ev.Size = Malloc, s.number()
	case "r":
		ev.Kind, ev.Old, ev.Size = Realloc, ev.ID, s.number()
	case "f":
		ev.Kind = Free
	default:
		return false
	}
	return s.end()
}
