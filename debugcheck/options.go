package debugcheck

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options is the value of the parameter slab_debug, which older kernels call
// slub_debug: which debug options caches get when the kernel starts.
//
// The value is a row of blocks, separated by semicolons. A block is letters of options,
// and may go on with a comma and the names of caches, separated by commas:
//
//	FZ               F and Z for every cache
//	FZ;-,zspage      F and Z for every cache but one
//	,kmalloc-*       the default options, FZPU, for the caches whose names begin so
//	slab_debug       the default options for every cache
//
// The letters are those of Letters, of either case, and two more: - takes back the
// letters in front of it in its block, and O leaves Z, P and U out of every cache whose
// smallest slab would need more pages with them. O is said once for all caches, wherever
// it stands; a - does not take it back. A name that ends in * stands for every name that
// begins like it. Empty blocks mean nothing, but where there are only such every option
// is off, as after -.
//
// Of the blocks without names the last one counts. A cache that a block names gets the
// options of the first such block instead, not as well; those that its creator asked for
// it keeps in any case. Where there are only blocks with names the other caches get none.
type Options struct {
	Blocks []Block
}

// A Block is one block of Options.
type Block struct {
	Flags  Flags
	NoGrow bool     // the letter O
	Names  []string // caches, as names or as prefixes that end in *; none: every cache
}

// An OptionError says what is wrong with a value of slab_debug, and where.
type OptionError struct {
	Col  int    // the byte at fault, counted from 1
	Msg  string // what is wrong
	Want string // what may stand there
}

// Error gives it all on one line.
func (e *OptionError) Error() string {
	return fmt.Sprintf("column %d: %s, expected %s", e.Col, e.Msg, e.Want)
}

// The two spellings of the parameter, of one length.
const (
	newName = "slab_debug"
	oldName = "slub_debug"
)

// What may stand where something else was found.
const (
	wantLetter = "a letter of " + Letters + "O, or -"
	wantName   = "the name of a cache or a prefix and *"
)

// ParseOptions reads a value of slab_debug, or the whole parameter with its name in
// front, which may stand alone. Where the kernel skips what it does not know, this is
// strict, as a mistyped letter would silently check less: letters that mean nothing,
// blanks, empty names and a * that ends no name are refused. So is a value of no bytes,
// since "no parameter" and "every option" are opposites; slab_debug and slab_debug=
// are how to say the latter. The error is an *OptionError.
func ParseOptions(s string) (Options, error) {
	p := optionParser{s: s}
	if strings.HasPrefix(s, newName) || strings.HasPrefix(s, oldName) {
		p.i = len(newName)
		switch {
		case p.done():
			return Options{Blocks: []Block{{Flags: Default}}}, nil
		case !p.at('='):
			return Options{}, p.fault("", `"="`)
		}
		if p.i++; p.done() {
			return Options{Blocks: []Block{{Flags: Default}}}, nil
		}
	}
	if p.done() {
		return Options{}, p.fault("no options",
			wantLetter+", or "+newName+" alone for "+Default.String())
	}
	return p.blocks()
}

// An optionParser reads a value from left to right.
type optionParser struct {
	s string
	i int // the next byte
}

// done says whether everything was read.
func (p *optionParser) done() bool { return p.i >= len(p.s) }

// at says whether the next byte is c.
func (p *optionParser) at(c byte) bool { return !p.done() && p.s[p.i] == c }

// fault is an error at the next byte: msg, or by default that the character which begins
// there is unexpected.
func (p *optionParser) fault(msg, want string) error {
	switch {
	case msg != "":
	case p.done():
		msg = "unexpected end"
	case p.s[p.i] == ' ' || p.s[p.i] == '\t':
		msg = "a blank"
	default:
		_, n := utf8.DecodeRuneInString(p.s[p.i:])
		msg = fmt.Sprintf("unexpected %q", p.s[p.i:p.i+n])
	}
	return &OptionError{Col: p.i + 1, Msg: msg, Want: want}
}

// blocks reads blocks to the end.
func (p *optionParser) blocks() (Options, error) {
	var o Options
	for {
		for p.at(';') {
			p.i++
		}
		if p.done() {
			break
		}
		b, err := p.block()
		if err != nil {
			return Options{}, err
		}
		o.Blocks = append(o.Blocks, b)
	}
	if len(o.Blocks) == 0 {
		o.Blocks = []Block{{}}
	}
	return o, nil
}

// block reads a block that is not empty, up to the semicolon behind it.
func (p *optionParser) block() (Block, error) {
	var b Block
	if p.at(',') {
		b.Flags = Default
	}
	for ; !p.done() && !p.at(',') && !p.at(';'); p.i++ {
		c := p.s[p.i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		switch n := strings.IndexByte(Letters, c); {
		case n >= 0:
			b.Flags |= 1 << n
		case c == 'O':
			b.NoGrow = true
		case c == '-':
			b.Flags = 0
		default:
			return b, p.fault("", wantLetter)
		}
	}
	for p.at(',') {
		p.i++
		name, err := p.name()
		if err != nil {
			return b, err
		}
		b.Names = append(b.Names, name)
	}
	return b, nil
}

// name reads a name, up to the comma or semicolon behind it.
func (p *optionParser) name() (string, error) {
	start := p.i
	for ; !p.done() && !p.at(',') && !p.at(';'); p.i++ {
		switch c := p.s[p.i]; {
		case c <= ' ' || c >= 0x7f || c == '"':
			return "", p.fault("", wantName)
		case p.i > start && p.s[p.i-1] == '*':
			p.i--
			return "", p.fault(`"*" inside a name`, `"*" at its end only`)
		}
	}
	if p.i == start {
		return "", p.fault("an empty name", wantName)
	}
	return p.s[start:p.i], nil
}

// String is the one canonical spelling: in each block the letters in order, - for none,
// then the names. ParseOptions reads it back as the same value. The zero Options, which
// is no parameter at all, gives "".
func (o Options) String() string {
	b := &strings.Builder{}
	for i := range o.Blocks {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(o.Blocks[i].String())
	}
	return b.String()
}

// String spells one block.
func (b *Block) String() string {
	s := b.Flags.String()
	if b.NoGrow {
		s += "O"
	}
	for _, n := range b.Names {
		s += "," + n
	}
	return s
}

// has says whether the block names the cache.
func (b *Block) has(name string) bool {
	for _, n := range b.Names {
		prefix, glob := strings.CutSuffix(n, "*")
		if n == name || glob && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// A Creator is what the creator of a cache asked for.
type Creator struct {
	Flags       Flags
	NoUser      bool // the parameter does not concern this cache (SLAB_NO_USER_FLAGS)
	NoLeakTrace bool // U only when a block names the cache (SLAB_NOLEAKTRACE)
}

// Unused lists the names in o that stand for none of caches, each once, in order.
func (o Options) Unused(caches []string) (out []string) {
	for i := range o.Blocks {
		for _, n := range o.Blocks[i].Names {
			one := Block{Names: []string{n}}
			if !slices.ContainsFunc(caches, one.has) && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// For gives the options of a cache whose creator asked for those of creator. With off
// the letter O was given: the options have still to go through DropGrowing.
func (o Options) For(name string, creator Flags) (f Flags, off bool) {
	return o.ForCreator(name, Creator{Flags: creator})
}

// ForCreator is For with everything that a creator can ask for.
func (o Options) ForCreator(name string, c Creator) (f Flags, off bool) {
	var all, listed Flags
	named := false
	for i := range o.Blocks {
		b := &o.Blocks[i]
		off = off || b.NoGrow
		switch {
		case len(b.Names) == 0:
			all = b.Flags
		case !named && b.has(name):
			named, listed = true, b.Flags
		}
	}
	if c.NoLeakTrace {
		all &^= StoreUser
	}
	switch {
	case c.NoUser:
		return c.Flags, off
	case named:
		return c.Flags | listed, off
	}
	return c.Flags | all, off
}
