package prog

import (
	"slices"
	"strings"
)

// badProgram is a program with one fault, and the whole message that it must give.
type badProgram struct{ name, text, want string }

// Beginnings of the programs.
const (
	first = "allocfuzz 1\n"
	cache = first + "cache c size=64\n"
	objs  = cache + "cpu0 a = alloc c\n"
)

var faults = slices.Concat(faultsDecl, faultsLine, faultsSched)

// faultsDecl concern the first line, the head and the declarations.
var faultsDecl = []badProgram{
	{"cache nil",
		first + "cache nil size=64\n",
		"2:7: cache: the name nil is reserved; expected another name; nil is the address of " +
			"nothing"},
	{"empty",
		"",
		`1:1: empty file; expected "allocfuzz 1" on the first line`},
	{"not a program",
		"hello\n",
		`1:1: not a program; expected "allocfuzz 1" on the first line; begin the file with: ` +
			"allocfuzz 1"},
	{"binary",
		"\x7fELF\x00\x01\n",
		"1:1: not a program: byte 0x7f; expected UTF-8 text without control characters"},
	{"other version",
		"allocfuzz 2\n",
		"1:11: version 2 of the format; expected version 1; use the allocfuzz that wrote it"},
	{"no version",
		"allocfuzz x\n",
		`1:11: version: "x" is no number; expected a number such as 64, 0x40 or 4K; begin the ` +
			"file with: allocfuzz 1"},
	{"more after the version",
		"allocfuzz 1 2\n",
		`1:13: first line: unexpected "2"; expected end of line`},
	{"unknown head",
		first + "author: me\n",
		"2:1: author: unknown head line; expected title:, also:, class:, found: or date:"},
	{"head twice",
		first + "title: a\ntitle: b\n",
		"3:1: title: given twice; expected one title line"},
	{"head without text",
		first + "title:\n",
		"2:7: title: no text; expected text after the colon"},
	{"machine twice",
		first + "machine cpus=2\nmachine cpus=2\n",
		"3:1: machine: given twice; expected one machine line"},
	{"machine late",
		cache + "machine cpus=2\n",
		"3:1: machine: after a declaration; expected the machine line first; move it above the " +
			"caches and tasks"},
	{"machine key",
		first + "machine cores=2\n",
		"2:9: machine: unknown key cores; expected base, cpus, debug, merge, pages, " +
			"pagesize, preempt, rules, seq0, seqbits, tso or word"},
	{"machine no key",
		first + "machine 2\n",
		`2:9: machine: unexpected "2"; expected key=value, with a key of base, cpus, debug, ` +
			"merge, pages, pagesize, preempt, rules, seq0, seqbits, tso or word"},
	{"machine key twice",
		first + "machine cpus=2 cpus=2\n",
		"2:16: machine: cpus given twice; expected each key once"},
	{"cpus",
		first + "machine cpus=17\n",
		"2:14: machine: cpus: 17 is out of range; expected 1 to 16"},
	{"cpus zero",
		first + "machine cpus=0\n",
		"2:14: machine: cpus: 0 is out of range; expected 1 to 16"},
	{"pages",
		first + "machine pages=2M\n",
		"2:15: machine: pages: 2097152 is out of range; expected 1 to 1048576"},
	{"pagesize",
		first + "machine pagesize=100\n",
		"2:18: machine: pagesize: 100 is out of range; expected a power of two, 16 to 16777216"},
	{"word",
		first + "machine word=24\n",
		"2:14: machine: word: 24 is out of range; expected a power of two, 16 to 64"},
	{"word 128",
		first + "machine word=128\n",
		"2:14: machine: word: 128 is out of range; expected a power of two, 16 to 64"},
	{"seqbits",
		first + "machine word=16 seqbits=9\n",
		"2:17: machine: seqbits=9; expected 2 to 8, half of word=16"},
	{"seqbits small",
		first + "machine seqbits=1\n",
		"2:17: machine: seqbits: 1 is out of range; expected 2 to 32"},
	{"seq0",
		first + "machine seqbits=2 seq0=4\n",
		"2:19: machine: seq0=4; expected a number of 2 bits"},
	{"base unaligned",
		first + "machine base=0x10001\n",
		"2:9: machine: base=0x10001; expected a multiple of pagesize=4096"},
	{"does not fit",
		first + "machine pages=1K word=16\n",
		"2:9: machine: 1024 pages of 128 bytes at 0x100 do not fit word=16; expected an end of " +
			"the arena of at most 1<<16; use fewer or smaller pages, a lower base, or a wider " +
			"word"},
	{"does not fit 64",
		first + "machine base=0xfffffffffffff000 pages=2\n",
		"2:33: machine: 2 pages of 4096 bytes at 0xfffffffffffff000 do not fit word=64; expected " +
			"an end of the arena of at most 1<<64; use fewer or smaller pages, a lower base, or " +
			"a wider word"},
	{"preempt",
		first + "machine preempt=some\n",
		`2:17: machine: preempt: unknown word "some"; expected none, full or rt`},
	{"tso two",
		first + "machine tso=off,on\n",
		"2:13: machine: tso=off,on; expected one word of off or on"},
	{"debug bare",
		first + "machine debug=FZ\n",
		`2:15: machine: debug: unexpected "FZ"; expected a string in double quotes`},
	{"debug empty",
		first + "machine debug=\"\"\n",
		"2:15: machine: debug: empty string; expected at least one character"},
	{"debug open",
		first + "machine cpus=2 debug=\"FZ\n",
		"2:22: machine: debug: string without an end; expected a closing double quote"},
	{"debug byte",
		first + "machine debug=\"FZ\tP\"\n",
		`2:18: machine: debug: byte "\t"; expected printable ASCII without double quotes and ` +
			"backslashes"},
	{"debug escape",
		first + "machine debug=\"F\\x5a\"\n",
		`2:17: machine: debug: byte "\\"; expected printable ASCII without double quotes and ` +
			"backslashes"},
	{"debug beyond ASCII",
		first + "machine debug=\"F\u00e9\"\n",
		`2:17: machine: debug: byte "\xc3"; expected printable ASCII without double quotes and ` +
			"backslashes"},
	{"debug long",
		first + "machine debug=\"" + strings.Repeat("F", 257) + "\"\n",
		"2:272: machine: debug: 257 bytes; expected at most 256"},
	{"debug glued",
		first + "machine debug=\"F\"Z\n",
		`2:18: machine: unexpected "Z"; expected a blank after debug=…`},
	{"debug twice",
		first + "machine debug=\"F\" debug=\"F\"\n",
		"2:19: machine: debug given twice; expected each key once"},
	{"rules unknown",
		first + "machine rules=6.2\n",
		`2:15: machine: rules: unknown word "6.2"; expected 6.1, 6.12, 2.4 or 2.6`},
	{"rules whole",
		first + "machine rules=6\n",
		`2:15: machine: rules: unknown word "6"; expected 6.1, 6.12, 2.4 or 2.6`},
	{"rules two",
		first + "machine rules=2.4,6.1\n",
		"2:15: machine: rules=2.4,6.1; expected one word of 6.1, 6.12, 2.4 or 2.6"},
	{"rules with a tail",
		first + "machine rules=6.1x\n",
		`2:18: machine: unexpected "x"; expected a blank after rules=…`},
	{"cache name",
		first + "cache 9 size=64\n",
		`2:7: cache: unexpected "9"; expected a name; write: cache c size=64`},
	{"cache twice",
		cache + "cache c size=32\n",
		"3:7: cache c: declared twice; expected one declaration a name; the first is on line 2"},
	{"cache no size",
		first + "cache c align=8\n",
		"2:16: cache c: no size; expected size=n"},
	{"cache size 0",
		first + "cache c size=0\n",
		"2:14: cache c: size: 0 is out of range; expected 1 to 1073741824"},
	{"cache huge",
		first + "cache c size=2048M\n",
		"2:14: cache c: size: 2147483648 is out of range; expected 1 to 1073741824"},
	{"cache align",
		first + "cache c align=24 size=64\n",
		"2:15: cache c: align: 24 is out of range; expected a power of two, 1 to 1073741824"},
	{"cache flag",
		first + "cache c flags=purple size=64\n",
		`2:15: cache c: flags: unknown word "purple"; expected failslab, hwalign, nomerge, ` +
			"panic, poison, rcu, reclaim, redzone, sanity, trace or user"},
	{"cache flag letters",
		first + "cache c flags=FZ size=64\n",
		`2:15: cache c: flags: unknown word "FZ"; expected failslab, hwalign, nomerge, ` +
			"panic, poison, rcu, reclaim, redzone, sanity, trace or user; " +
			"letters are words here: F sanity, Z redzone, P poison, U user, T trace, A failslab; " +
			`for all caches write: machine debug="FZ"`},
	{"cache flag no letters",
		first + "cache c flags=FQ size=64\n",
		`2:15: cache c: flags: unknown word "FQ"; expected failslab, hwalign, nomerge, ` +
			"panic, poison, rcu, reclaim, redzone, sanity, trace or user"},
	{"create flag letter",
		first + "cpu0 c = create flags=user,u size=64\n",
		`2:28: create: flags: unknown word "u"; expected failslab, hwalign, nomerge, ` +
			"panic, poison, rcu, reclaim, redzone, sanity, trace or user; " +
			"letters are words here: F sanity, Z redzone, P poison, U user, T trace, A failslab; " +
			`for all caches write: machine debug="u"`},
	{"allocation flag letter",
		first + "cache c size=64\ncpu0 a = alloc c flags=Z\n",
		`3:24: alloc: flags: unknown word "Z"; expected atomic or zero`},
	{"cache flag twice",
		first + "cache c flags=user,user size=64\n",
		"2:15: cache c: flags: user given twice; expected each word once"},
	{"cache key",
		first + "cache c colour=2 size=64\n",
		"2:9: cache c: unknown key colour; expected align, batch, cpu_partial, ctor, flags, " +
			"limit, min_partial, objects, order or size"},
	{"task no cpu",
		first + "task t\n",
		"2:7: task t: no cpu; expected cpu=n"},
	{"task bad cpu",
		first + "task t cpu=1\n",
		"2:8: task t: cpu=1: no such cpu; expected 0 to 0; raise cpus= on the machine line"},
	{"task named cpu",
		first + "task cpu0 cpu=0\n",
		"2:6: task cpu0: not a name for a task; expected a name that is neither cpuN nor irqN"},
	{"task reserved",
		first + "task fail cpu=0\n",
		"2:6: task fail: reserved word; expected a name other than machine, cache, task, sched, " +
			"at, check, move, fail, none, hold or drain"},
	{"task twice",
		first + "task t cpu=0\ntask t cpu=0\n",
		"3:6: task t: declared twice; expected one declaration a name"},
	{"bom",
		"\xef\xbb\xbfallocfuzz 1\n",
		`1:1: not a program; expected "allocfuzz 1" on the first line; begin the file with: ` +
			"allocfuzz 1"},
	{"option without a key",
		first + "cache c =4\n",
		`2:9: cache c: unexpected "=4"; expected key=value, with a key of align, batch, ` +
			"cpu_partial, ctor, flags, limit, min_partial, objects, order or size"},
}
