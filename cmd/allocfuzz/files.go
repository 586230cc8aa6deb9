package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"allocfuzz/corpus/prog"
)

// stdinName is what messages call standard input.
const stdinName = "<stdin>"

// open opens a file for reading; "-" is standard input. A folder is an error that
// says what to do instead. The name is for messages.
func (a *app) open(file, pattern string) (in io.ReadCloser, name string, err error) {
	if file == "-" {
		return io.NopCloser(a.in), stdinName, nil
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
