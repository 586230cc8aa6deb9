package trace

// The raw files of heaptrack: a letter and hexadecimal numbers.
func heaptrackOpen(r *lineReader) decoder {
	d := &textDecoder{lines: r, want: `one such as "+ 20 1f 5560" or "- 5560"`}
	d.parse = d.heaptrack
	return d
}

// heaptrackDetect accepts a first line with a version.
func heaptrackDetect(prefix []byte) bool {
	first := true
	return anyLine(prefix, func(line []byte) bool {
		ok := first && len(line) > 2 && line[0] == 'v' && line[1] == ' '
		first = false
		s := scan(line[1:])
		_, digits := s.hex()
		return ok && digits
	})
}

// heaptrack reads one line. What is interpreted has the place of an allocation's description
// instead of size and address.
func (d *textDecoder) heaptrack(line []byte, ev *Event) bool {
	if len(line) > 1 && line[1] != ' ' {
		return false
	}
	s := scan(line[1:])
	var sizes, ptrs bool
	switch line[0] {
	case '+':
		ev.Kind = Malloc
		ev.Size, sizes = s.hex()
		if sizes && s.end() {
			d.interpreted()
			return true
		}
		_, traced := s.hex()
		ev.ID, ptrs = s.pointer()
		return sizes && traced && ptrs && s.end()
	case '-':
		ev.Kind = Free
		ev.ID, ptrs = s.pointer()
		return ptrs && s.end()
	case 'a':
		d.interpreted()
	}
	ev.skip(Mark, "")
	c := line[0] | 0x20
	return 'a' <= c && c <= 'z' || c == '#'|0x20
}

// interpreted ends the import: without addresses nobody knows which object is freed.
func (d *textDecoder) interpreted() {
	d.stop = &Error{Msg: "this is what heaptrack has interpreted, where objects have no " +
		"addresses; record with heaptrack --raw and import the file that it names"}
}
