//go:build linux

package clib

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Score is what comes of a misuse of blocks of size bytes in the library of a subject that Lookup
// made, and the message if there was one.
func Score(name string, kind *Misuse, size uint64) (Response, string, error) {
	f, ok := lookup(name)
	if !ok || f.err != nil {
		return 0, "", errors.Join(errors.New(name+" is no library here"), f.err)
	}
	if f.syms.addr[kind.needs] == 0 {
		return NotPossible, "", nil
	}
	p := &process{exited: make(chan struct{})}
	defer p.release()
	if err := p.launch(f.file, f.as, envMisuse+"="+kind.Name,
		envSize+"="+strconv.FormatUint(size, 10)); err != nil {
		return 0, "", err
	}
	in := bufio.NewReader(p.socket)
	if line, err := p.first(in); err != nil {
		return 0, "", err
	} else if err := p.greeted(line); err != nil {
		return 0, "", err
	}
	if err := p.socket.SetReadDeadline(time.Now().Add(limit(0))); err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(in)
	said := strings.Fields(string(text))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.end("hung")
		return ResponseHung, "", nil
	}
	r, words := p.response(said)
	return r, words, nil
}

// response makes one word of what a child said and how it ended.
func (p *process) response(said []string) (Response, string) {
	switch {
	case slices.Contains(said, saidTwice), slices.Contains(said, saidBroken):
		return HandedTwice, ""
	case slices.Contains(said, saidEnd):
		return NothingSeen, ""
	}
	_, words, told := strings.Cut(p.why(), "it said: ")
	switch {
	case slices.Contains(said, saidAfter):
		return Late, words
	case told:
		return Told, words
	}
	return Stopped, ""
}
