package bugs

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds the numbers of a hunk's head: no source is longer.
const maxLine = 1 << 20

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// Parse reads a patch. The name is the path of its file below the folder of
// patches and stands in errors, which have the form "name:line: message". Any
// bytes are safe.
func Parse(name string, text []byte) (*Patch, error) {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return nil, fmt.Errorf("%s: a zero byte at offset %d: a patch is text", name, i)
	}
	p := &parser{name: name, patch: &Patch{Name: patchName(name)}}
	p.lines = strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if last := len(p.lines) - 1; p.lines[last] == "" {
		p.lines = p.lines[:last]
	}
	if err := p.head(); err != nil {
		return nil, err
	}
	for p.at < len(p.lines) {
		if err := p.file(); err != nil {
			return nil, err
		}
	}
	if len(p.patch.Files) == 0 {
		return nil, p.errorf(len(p.lines), "no diff: want a line \"--- a/PATH\" after the head")
	}
	return p.patch, nil
}

// A parser walks the lines of one patch.
type parser struct {
	name  string
	lines []string
	at    int // index of the next line
	patch *Patch
}

// errorf makes an error at the 1-based line.
func (p *parser) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", p.name, max(line, 1), fmt.Sprintf(format, args...))
}

// head reads the keys up to the first line of the diff and checks their values.
func (p *parser) head() error {
	seen := make(map[string]int)
	for ; p.at < len(p.lines) && !strings.HasPrefix(p.lines[p.at], "--- "); p.at++ {
		line := strings.TrimSpace(p.lines[p.at])
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return p.errorf(p.at+1, "got %q, want \"Key: value\" or \"--- a/PATH\"", line)
		}
		if first := seen[key]; first > 0 {
			return p.errorf(p.at+1, "%s is given twice, first at line %d", key, first)
		}
		seen[key] = p.at + 1
		if err := p.set(key, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	for _, key := range []string{"Subject", "Class", "Finds"} {
		if seen[key] == 0 {
			return p.errorf(p.at, "no %s in the head: add \"%s: …\" above the diff", key, key)
		}
	}
	return nil
}

// set stores the value of one key of the head.
func (p *parser) set(key, value string) error {
	if value == "" {
		return p.errorf(p.at+1, "%s has no value", key)
	}
	switch key {
	case "Subject":
		p.patch.Subject = value
	case "Class":
		if !slices.Contains(classes, value) {
			return p.errorf(p.at+1, "unknown class %q: want one of %s",
				value, strings.Join(classes, " "))
		}
		p.patch.Class = value
	case "Needs":
		p.patch.Needs = strings.Fields(value)
	case "On":
		p.patch.On = value
	case "Like":
		p.patch.Like = value
	case "From":
		p.patch.From = strings.Fields(value)
	case "Finds":
		p.patch.Finds = strings.Split(value, " / ")
		if len(p.patch.Finds) > 2 || slices.Contains(p.patch.Finds, "") {
			return p.errorf(p.at+1, "got Finds %q, want \"title\" or \"title / consequence\"",
				value)
		}
	default:
		return p.errorf(p.at+1, "unknown key %q: want Subject, Class, Needs, On, Like, From or "+
			"Finds", key)
	}
	return nil
}

// file reads the part of the diff that changes one file.
func (p *parser) file() error {
	if p.lines[p.at] == "" && p.blankToEnd() {
		p.at = len(p.lines)
		return nil
	}
	from, err := p.side("--- ", "a/")
	if err != nil {
		return err
	}
	to, err := p.side("+++ ", "b/")
	if err != nil {
		return err
	}
	if from != to {
		return p.errorf(p.at, "got %s and %s: both sides must name the same file", from, to)
	}
	if slices.Contains(p.patch.Paths(), from) {
		return p.errorf(p.at-1, "%s is changed twice: join its hunks", from)
	}
	f := File{Path: from}
	for p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "@@") {
		h, err := p.hunk()
		if err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, h)
	}
	if len(f.Hunks) == 0 {
		return p.errorf(p.at+1, "no hunk for %s: want a line beginning with @@", from)
	}
	p.patch.Files = append(p.patch.Files, f)
	return nil
}

// blankToEnd tells whether only blank lines are left.
func (p *parser) blankToEnd() bool {
	return strings.TrimSpace(strings.Join(p.lines[p.at:], "")) == ""
}

// side reads one of the two lines that name a file. What follows a tab is a
// date and is left out.
func (p *parser) side(mark, prefix string) (string, error) {
	if p.at >= len(p.lines) || !strings.HasPrefix(p.lines[p.at], mark) {
		return "", p.errorf(p.at+1, "want a line %q", mark+prefix+"PATH")
	}
	named, _, _ := strings.Cut(p.lines[p.at][len(mark):], "\t")
	file, ok := strings.CutPrefix(named, prefix)
	if !ok || !fs.ValidPath(file) || file == "." {
		return "", p.errorf(p.at+1, "got path %q, want %s and a path inside the module: "+
			"files are changed, never created or removed", named, prefix)
	}
	p.at++
	return file, nil
}

// hunk reads one hunk: its head and as many lines as that announces.
func (p *parser) hunk() (Hunk, error) {
	start := p.at + 1
	m := hunkHead.FindStringSubmatch(p.lines[p.at])
	if m == nil {
		return Hunk{}, p.errorf(start, "got %q, want \"@@ -LINE,COUNT +LINE,COUNT @@\"",
			p.lines[p.at])
	}
	h := Hunk{Line: start, Hint: number(m[1])}
	wantOld, wantNew := count(m[2]), count(m[4])
	p.at++
	removed, added := 0, 0
	for len(h.Old) < wantOld || len(h.New) < wantNew {
		if p.at >= len(p.lines) {
			return Hunk{}, p.errorf(start, "the patch ends inside this hunk: "+
				"got %d old and %d new lines, want %d and %d",
				len(h.Old), len(h.New), wantOld, wantNew)
		}
		kind, err := h.take(p.lines[p.at])
		if err != nil {
			return Hunk{}, p.errorf(p.at+1, "%v", err)
		}
		removed, added = removed+btoi(kind == '-'), added+btoi(kind == '+')
		p.at++
	}
	switch {
	case len(h.Old) != wantOld || len(h.New) != wantNew:
		return Hunk{}, p.errorf(start, "got %d old and %d new lines, the head announces %d and %d",
			len(h.Old), len(h.New), wantOld, wantNew)
	case removed != added:
		return Hunk{}, p.errorf(start, "%d lines removed and %d added: a patch must keep the "+
			"number of lines, so replace instead", removed, added)
	case slices.Equal(h.Old, h.New):
		return Hunk{}, p.errorf(start, "this hunk changes nothing")
	}
	return h, nil
}

// take adds one line of the patch to the hunk and tells its kind. A wholly
// empty line is an empty context line whose blank an editor took off.
func (h *Hunk) take(line string) (kind byte, err error) {
	if line == "" {
		line = " "
	}
	text := line[1:]
	switch line[0] {
	case ' ':
		h.Old, h.New = append(h.Old, text), append(h.New, text)
	case '-':
		h.Old = append(h.Old, text)
	case '+':
		h.New = append(h.New, text)
	default:
		return 0, fmt.Errorf("got %q inside a hunk, want a line that begins with blank, - or +",
			line)
	}
	return line[0], nil
}

// number reads the digits of a hunk's head; what is too large counts as maxLine.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return maxLine
	}
	return min(n, maxLine)
}

// count reads a number of lines, which is one where it is left out.
func count(digits string) int {
	if digits == "" {
		return 1
	}
	return number(digits)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
