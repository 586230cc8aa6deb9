// Allocfuzz tests memory allocators: it runs programs on many of them at once,
// under chosen schedules, against one obviously right model.
//
//	allocfuzz run --for 30s                  the main job
//	allocfuzz replay corpus/regress/*.prog   run programs
//	allocfuzz --help                         everything else
//
// Exit status: 0 nothing was found, 1 something was, 2 wrong usage, a file that
// cannot be used, or a fault of allocfuzz itself. An interrupted command that had
// found nothing ends with 130.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/corpus/trace"
	reports "allocfuzz/fuzz/report"
	"allocfuzz/impls/clib"
)

// The exit statuses.
const (
	statusClean       = 0
	statusFound       = 1
	statusWrong       = 2
	statusInterrupted = 130
)

func main() {
	clib.TakeOver()
	os.Exit(start(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// An app is one run of the command: its streams and what it has to say at the end.
type app struct {
	in     io.Reader
	out    *bufio.Writer // results; flushed at the end
	err    io.Writer     // progress and errors
	json   bool
	doc    document
	status int

	targets []reports.Target // and samples, for the source of a report
	samples []reports.Sample
	shown   []reports.Program
}

// start carries out one command line and returns the exit status.
func start(args []string, in io.Reader, out, errs io.Writer) (status int) {
	a := &app{in: in, out: bufio.NewWriter(out), err: errs}
	defer func() {
		if p := recover(); p != nil {
			text := faultText(p)
			fmt.Fprintf(errs, "%s\n\n%s", text, debug.Stack())
			line, _, _ := strings.Cut(text, "\n")
			a.doc.Errors = append(a.doc.Errors, failure{Message: line})
			a.finish()
			status = statusWrong
		}
	}()
	root := a.root()
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		a.json = a.json || asksJSON(args) // the flag may stand behind the one that is wrong
		if strings.HasPrefix(err.Error(), "unknown command") {
			err = fmt.Errorf("%w; see allocfuzz --help", err)
		}
		a.fail(err)
	}
	return a.finish()
}

// asksJSON tells whether --json is among the words of a command line.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// faultText is the message of a panic. One of this project says so itself.
func faultText(p any) string {
	text := fmt.Sprint(p)
	if err, ok := p.(error); ok {
		text = err.Error()
	}
	text = strings.TrimPrefix(text, "allocfuzz: ")
	return "allocfuzz: a fault of allocfuzz itself, please report it: " + text
}

// fail notes an error: it is told at once and decides the exit status. Errors of
// programs begin with their place, so that editors find it.
func (a *app) fail(err error) {
	a.status = statusWrong
	a.doc.Errors = append(a.doc.Errors, errorOf(err))
	var at *prog.Error
	var in *trace.Error
	if errors.As(err, &at) || errors.As(err, &in) && in.File != "" {
		fmt.Fprintln(a.err, err)
		return
	}
	fmt.Fprintln(a.err, "allocfuzz:", err)
}

// found notes that something was found. An error outweighs it.
func (a *app) found() {
	if a.status == statusClean || a.status == statusInterrupted {
		a.status = statusFound
	}
}

// interrupted notes that the user ended the command.
func (a *app) interrupted() {
	a.doc.Complete = false
	if a.status == statusClean {
		a.status = statusInterrupted
	}
}

// finish writes what is left to say and returns the exit status.
func (a *app) finish() int {
	err := error(nil)
	if a.json && (a.doc.Command != "" || len(a.doc.Errors) > 0) {
		err = a.doc.write(a.out)
	}
	if e := a.out.Flush(); err == nil {
		err = e
	}
	if err != nil {
		fmt.Fprintln(a.err, "allocfuzz: write the results:", err)
		return statusWrong
	}
	return a.status
}

// sayf writes a line of progress or advice.
func (a *app) sayf(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
