package trace

import "bytes"

// The raw data of heaptrack, in which an allocation is its size, the place of its stack in a table
// and its address, all in hexadecimal. Lines of other letters are tables, times and the head. What
// heaptrack_interpret makes of it has no addresses and cannot be imported.

const heaptrackExample = "+ 18 3f 55e0c12a02a0"

func heaptrackOpen(r *lineReader) decoder {
	return &textDecoder{lines: r, example: heaptrackExample, parse: heaptrackLine}
}

// heaptrackDetect needs the head: other formats have lines that begin with a plus sign.
func heaptrackDetect(prefix []byte) bool {
	return bytes.HasPrefix(prefix, []byte("v ")) && detectLines(prefix, heaptrackLine)
}

func heaptrackLine(line []byte, ev *Event) bool {
	s := scanner{b: line}
	switch what := s.word(); string(what) {
	case "+":
		ev.Kind, ev.Size = Malloc, s.hex()
		s.hex() // of its stack
		ev.ID = s.hex()
		return s.end()
	case "-":
		ev.Kind, ev.ID = Free, s.hex()
		return s.end()
	case "v", "x", "X", "I", "s", "t", "i", "a", "c", "R", "A", "S", "m", "#":
		ev.skip(Mark, "")
		return true
	}
	return false
}
