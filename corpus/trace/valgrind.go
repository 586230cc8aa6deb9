package trace

import (
	"bytes"
	"strings"
)

// What valgrind prints with --trace-malloc=yes: "--PID-- name(arguments) = 0xADDRESS", and the
// addresses in arguments bare. Of several processes the first one that is seen is imported.

const valgrindExample = "--4711-- malloc(24) = 0x4A5B040"

// valgrindNames are the functions by what they do. The names of C++ are those of the ABI.
var valgrindNames = map[string]Kind{
	"malloc": Malloc, "calloc": Calloc, "realloc": Realloc, "free": Free, "cfree": Free,
	"memalign": Memalign, "posix_memalign": Memalign, "aligned_alloc": Memalign,
}

func valgrindOpen(r *lineReader) decoder {
	var pid []byte
	return &textDecoder{lines: r, example: valgrindExample,
		parse: func(line []byte, ev *Event) bool { return valgrindLine(line, ev, &pid) }}
}

func valgrindDetect(prefix []byte) bool {
	var pid []byte
	return detectLines(prefix, func(line []byte, ev *Event) bool {
		return valgrindLine(line, ev, &pid)
	})
}

func valgrindLine(line []byte, ev *Event, pid *[]byte) bool {
	s := scanner{b: line}
	if bytes.HasPrefix(line, []byte("==")) || !bytes.HasPrefix(line, []byte("--")) {
		ev.skip(Mark, "") // valgrind's own words, and the program's
		return true
	}
	s.have("--")
	who := s.upTo('-')
	s.have("-")
	s.skip()
	name := string(s.upTo('('))
	kind, ok := valgrindKind(name)
	if s.bad || !isNumber(who) || !ok {
		ev.skip(Mark, "")
		return true
	}
	if *pid == nil {
		*pid = bytes.Clone(who)
	}
	if !bytes.Equal(*pid, who) {
		ev.skip(Mark, "") // another process
		return true
	}
	return valgrindCall(&s, kind, ev)
}

// valgrindKind is what a function does; new and delete by their first letters in the ABI.
func valgrindKind(name string) (Kind, bool) {
	if k, ok := valgrindNames[name]; ok {
		return k, true
	}
	switch {
	case strings.HasPrefix(name, "_Znw"), strings.HasPrefix(name, "_Zna"),
		strings.HasPrefix(name, "__builtin_new"), strings.HasPrefix(name, "__builtin_vec_new"):
		if strings.Contains(name, "align_val") {
			return Memalign, true
		}
		return Malloc, true
	case strings.HasPrefix(name, "_Zdl"), strings.HasPrefix(name, "_Zda"),
		strings.HasPrefix(name, "__builtin_delete"):
		return Free, true
	}
	return 0, false
}

// valgrindCall reads the arguments and what came of them.
func valgrindCall(s *scanner, kind Kind, ev *Event) bool {
	args := s.upTo(')')
	if s.bad {
		return false
	}
	var n [2]uint64
	count := 0
	for count < len(n) && len(args) > 0 {
		arg, rest, _ := bytes.Cut(args, []byte{','})
		base := uint64(10)
		if count == 0 && (kind == Realloc || kind == Free) {
			base = 16
		}
		arg = bytes.TrimSpace(arg)
		if i := bytes.LastIndexByte(arg, ' '); i >= 0 {
			arg = arg[i+1:] // "al 16", "size 24"
		}
		n[count] = s.value(arg, base)
		count++
		args = rest
	}
	ev.Kind = kind
	if kind == Free {
		ev.ID = n[0]
		return count > 0 && !s.bad
	}
	s.skip()
	s.have("= ")
	ev.ID = s.hex()
	if !s.end() || count == 0 {
		return false
	}
	valgrindFill(ev, n)
	return true
}

func valgrindFill(ev *Event, n [2]uint64) {
	switch ev.Kind {
	case Calloc:
		ev.Count, ev.Size = n[0], n[1]
	case Memalign:
		ev.Align, ev.Size = n[0], n[1]
	case Realloc:
		ev.Old, ev.Size = n[0], n[1]
	default:
		ev.Size = n[0]
	}
}
