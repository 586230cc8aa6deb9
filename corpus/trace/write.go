package trace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"allocfuzz/corpus/prog"
)

// Write imports a trace, as Import does, and writes the whole program to w: a comment, which is
// opt.Doc and a count of what is in the program and what was left out, the machine, and the lines.
// Nothing is written to w when the import fails. opt.Emit, when set, gets the lines too.
//
// The lines wait in a temporary file, since the machine's size is known only behind the last one.
// Errors in writing it, or w, are returned wrapped.
func Write(w io.Writer, format string, r io.Reader, opt Options) (Result, error) {
	spool, err := os.CreateTemp("", "allocfuzz-import-*")
	if err != nil {
		return Result{}, fmt.Errorf("keep the imported lines: %w", err)
	}
	defer os.Remove(spool.Name())
	defer spool.Close()

	s := &spooler{w: bufio.NewWriter(spool), next: opt.Emit}
	opt.Emit = s.emit
	res, err := Import(format, r, opt)
	if err != nil {
		return res, err
	}
	if err := s.w.Flush(); err != nil {
		return res, fmt.Errorf("keep the imported lines: %w", err)
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return res, fmt.Errorf("keep the imported lines: %w", err)
	}
	if _, err := w.Write(prog.Format(head(&res, opt.Doc))); err != nil {
		return res, fmt.Errorf("write the program: %w", err)
	}
	if _, err := io.Copy(w, spool); err != nil {
		return res, fmt.Errorf("write the program: %w", err)
	}
	return res, nil
}

// A spooler prints the lines of a program to a file, behind the blank line that parts them from the
// head.
type spooler struct {
	w     *bufio.Writer
	next  func(*prog.Line) error
	buf   []byte
	begun bool
}

// emit prints one line.
func (s *spooler) emit(l *prog.Line) error {
	s.buf = s.buf[:0]
	if !s.begun {
		s.buf = append(s.buf, '\n')
		s.begun = true
	}
	s.buf = append(prog.AppendLine(s.buf, l), '\n')
	if _, err := s.w.Write(s.buf); err != nil {
		return fmt.Errorf("keep the imported lines: %w", err)
	}
	if s.next != nil {
		return s.next(l)
	}
	return nil
}

// Program imports a trace, as Import does, into memory. The program is the one that Write prints.
// opt.Emit, when set, gets the lines too.
func Program(format string, r io.Reader, opt Options) (*prog.Program, Result, error) {
	next := opt.Emit
	var lines []prog.Line
	opt.Emit = func(l *prog.Line) error {
		lines = append(lines, keep(l))
		if next != nil {
			return next(l)
		}
		return nil
	}
	res, err := Import(format, r, opt)
	if err != nil {
		return nil, res, err
	}
	lines[0].Blank = true
	p := head(&res, opt.Doc)
	p.Lines = lines
	return p, res, nil
}

// keep copies a line, whose slices are about to be used again.
func keep(l *prog.Line) prog.Line {
	k := *l
	k.Results = append([]string(nil), l.Results...)
	k.Slots = append([]string(nil), l.Slots...)
	k.Nums = append([]uint64(nil), l.Nums...)
	return k
}

// head returns the program of an import without its lines.
func head(res *Result, doc []string) *prog.Program {
	p := &prog.Program{Machine: prog.Machine{Pages: res.Pages, CPUs: max(res.CPUs, 1)}.Resolve()}
	for i := range res.Caches {
		c := &res.Caches[i]
		p.Caches = append(p.Caches, prog.Cache{Name: c.Name,
			Spec: prog.NewCacheSpec(int(c.Size))})
	}
	for _, text := range append(append([]string(nil), doc...), res.describe()...) {
		for line := range strings.SplitSeq(text, "\n") {
			p.Doc = append(p.Doc, comment(line))
		}
	}
	return p
}

// comment makes a comment line of any text: what a program cannot hold is left out.
func comment(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	return strings.TrimRight("# "+text, " ")
}

// describe returns the counts of an import as lines of prose.
func (r *Result) describe() []string {
	out := []string{
		fmt.Sprintf("%d operations imported from a trace of format %s.", r.Operations, r.Format),
		fmt.Sprintf("Live at most: %d objects, %d bytes. Live at the end: %d objects, %d bytes.",
			r.PeakObjects, r.PeakBytes, r.LiveObjects, r.LiveBytes),
	}
	switch {
	case r.From > 1:
		out = append(out, fmt.Sprintf("This is what a longer trace does from operation %d on.",
			r.From))
	case r.Cut:
		out = append(out, "This is the beginning of a longer trace.")
	}
	var left []string
	for why, n := range r.Skipped {
		if n > 0 && Skip(why) != Mark {
			left = append(left, fmt.Sprintf("%d %v", n, Skip(why)))
		}
	}
	if len(left) > 0 {
		out = append(out, "Left out or changed: "+strings.Join(left, ", ")+".")
	}
	return out
}
