package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/store"
)

// open opens a file for reading; "-" is standard input. A folder is an error that
// says what to do instead. The name is for messages.
func (a *app) open(file, pattern string) (in io.ReadCloser, name string, err error) {
	if file == "-" {
		return io.NopCloser(a.in), engine.Stdin, nil
	}
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		return nil, file, fmt.Errorf("%s: is a directory; name its files, e.g. %s", file,
			filepath.Join(file, pattern))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, file, fileError(file, err)
	}
	return f, file, nil
}

// fileError says in plain words why a file cannot be used.
func fileError(file string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("%s: cannot %s: %w", file, at.Op, at.Err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// read reads a whole program file.
func (a *app) read(file string) (text []byte, name string, err error) {
	in, name, err := a.open(file, "*.prog")
	if err != nil {
		return nil, name, err
	}
	defer in.Close()
	text, err = io.ReadAll(in)
	if err != nil {
		err = fileError(name, err)
	}
	return text, name, err
}

// program reads and parses a program file. One that ends within a line may be cut,
// and what is left of it another program: it is refused.
func (a *app) program(file string) (*prog.Program, error) {
	text, name, err := a.read(file)
	if err != nil {
		return nil, err
	}
	p, err := prog.Parse(name, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if text[len(text)-1] != '\n' {
		at := prog.Pos{Line: bytes.Count(text, []byte("\n")) + 1,
			Col: len(text) - bytes.LastIndexByte(text, '\n')}
		return nil, &prog.Error{File: name, Pos: at,
			Msg:  "the last line has no end; expected a newline",
			Hint: "the file may be cut: if it is not, allocfuzz fmt -w completes it"}
	}
	return p, nil
}

// usable is program, or with repair what of a file can be used, with what cannot: each is told.
func (a *app) usable(file string, repair bool) (*prog.Program, []string, error) {
	if !repair {
		p, err := a.program(file)
		return p, nil, err
	}
	text, name, err := a.read(file)
	if err != nil {
		return nil, nil, err
	}
	p, dropped, err := prog.ParseRepair(name, bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	var lines []string
	for _, d := range dropped {
		a.sayf("left out: %v", d.Err)
		lines = append(lines, d.Text)
	}
	return p, lines, nil
}

// A stoppable reader reads until its context ends, even while it waits for a pipe or
// a terminal: what it reads from is then left to wait. It reads nothing before it is
// asked.
type stoppable struct {
	ctx    context.Context
	in     io.Reader
	pieces chan piece
	rest   piece
}

// A piece is what one read gave.
type piece struct {
	data     []byte
	err      error
	panicked string
}

// untilDone makes a reader of in that ends when ctx does.
func untilDone(ctx context.Context, in io.Reader) io.Reader { return &stoppable{ctx: ctx, in: in} }

// readOn hands on pieces of the input to its end.
func (s *stoppable) readOn() {
	for {
		p := readPiece(s.in)
		select {
		case s.pieces <- p:
		case <-s.ctx.Done():
			return
		}
		if p.err != nil || p.panicked != "" {
			return
		}
	}
}

func readPiece(in io.Reader) (p piece) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		}
	}()
	p.data = make([]byte, 1<<16)
	n, err := in.Read(p.data)
	p.data, p.err = p.data[:n], err
	return p
}

// Read returns what is there, or the context's error once it has ended.
func (s *stoppable) Read(b []byte) (int, error) {
	if s.pieces == nil {
		s.pieces = make(chan piece)
		go s.readOn()
	}
	if len(s.rest.data) == 0 && s.rest.err == nil {
		select {
		case s.rest = <-s.pieces:
		case <-s.ctx.Done():
			s.rest = piece{err: s.ctx.Err()}
		}
	}
	if s.rest.panicked != "" {
		panic(s.rest.panicked)
	}
	n := copy(b, s.rest.data)
	s.rest.data = s.rest.data[n:]
	if len(s.rest.data) > 0 {
		return n, nil
	}
	return n, s.rest.err
}

// fmtFlags say what becomes of a formatted program.
type fmtFlags struct{ write, list, diff bool }

func (a *app) fmtCommand() *cobra.Command {
	var f fmtFlags
	c := &cobra.Command{
		Use:   "fmt [-w | -l | -d] FILE…",
		Short: "the one formatter of programs",
		Long: "Print programs in their one canonical spelling. A file that does not parse is\n" +
			"an error and is never written.\n\n" +
			"With -l and -d the exit status is 1 when a file is not canonical.",
		Example: "  allocfuzz fmt new.prog\n  allocfuzz fmt -w corpus/seeds/*.prog\n" +
			"  allocfuzz fmt -l corpus/*/*.prog",
		Args:              needFiles,
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, files []string) error {
			a.begin(cmd)
			if f.write && (f.list || f.diff) || f.list && f.diff {
				return fmt.Errorf("-w, -l and -d exclude each other: give one of them; "+
					"see %s --help", cmd.CommandPath())
			}
			for _, name := range files {
				if err := a.format(name, f); err != nil {
					a.fail(err)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&f.write, "write", "w", false, "write files back, those that change only")
	c.Flags().BoolVarP(&f.list, "list", "l", false, "list files that are not canonical")
	c.Flags().BoolVarP(&f.diff, "diff", "d", false, "print the differences")
	return c
}

// format formats one file.
func (a *app) format(file string, f fmtFlags) error {
	if file == "-" && f.write {
		return errors.New("fmt -w: standard input cannot be written back; leave -w out")
	}
	if info, err := os.Stat(file); f.write && err == nil && !info.IsDir() &&
		!info.Mode().IsRegular() {
		return fmt.Errorf("%s: is no regular file: -w cannot write it back; leave -w out", file)
	}
	text, name, err := a.read(file)
	if err != nil {
		return err
	}
	p, err := prog.Parse(name, bytes.NewReader(text))
	if err != nil {
		return err
	}
	formatted := prog.Format(p)
	changed := !bytes.Equal(text, formatted)
	a.noteFormatted(name, changed)
	switch {
	case f.write && changed:
		if err := fuzz.WriteBytes(file, formatted); err != nil {
			return fileError(file, err)
		}
	case f.write:
	case f.list, f.diff:
		a.tellFormatted(name, f, text, formatted)
	case !a.json:
		a.out.Write(formatted)
	}
	return nil
}

func (a *app) noteFormatted(name string, changed bool) {
	a.doc.Files = append(a.doc.Files, file{File: filepath.ToSlash(name), Changed: changed,
		Subjects: []replay{}})
}

// tellFormatted says of a file whether it is canonical.
func (a *app) tellFormatted(name string, f fmtFlags, text, formatted []byte) {
	if bytes.Equal(text, formatted) {
		return
	}
	a.found()
	switch {
	case a.json:
	case f.list:
		fmt.Fprintln(a.out, name)
	default:
		a.out.Write(diff.Diff(name+".orig", text, name, formatted))
	}
}

// unusable tells of a file that is no input: it is skipped, or an error when it was named.
func (a *app) unusable(name string, named bool, err error) {
	switch {
	case !named:
		a.skipped([]store.Problem{{File: name, Why: err.Error()}})
	case strings.HasPrefix(err.Error(), name):
		a.fail(err)
	default:
		a.fail(fmt.Errorf("%s: %w", name, err))
	}
}

// within says whether a folder, which need not be there yet, is another or lies below it, by
// whatever name.
func within(dir, other string) (bool, error) {
	whole, err := os.Stat(other)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	real, err := filepath.EvalSymlinks(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		real, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return false, err
	}
	for {
		info, err := os.Stat(real)
		if err != nil || os.SameFile(info, whole) {
			return err == nil, err
		}
		if real == filepath.Dir(real) {
			return false, nil
		}
		real = filepath.Dir(real)
	}
}
