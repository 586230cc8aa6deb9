package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/trace"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/record"
)

// importFlags are the flags of import.
type importFlags struct {
	format, output string
	slice          string
	limit          int
	strict, force  bool
	doc            []string
}

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	formats := strings.Join(trace.Formats(), ", ")
	c := &cobra.Command{
		Use:   "import [-o FILE] TRACE",
		Short: "make a program of a recorded allocation trace",
		Long: "Make a program of the allocations that a real program made. Formats:\n" +
			formats + ".\n" +
			"What a program cannot hold is left out; what and how often is said on standard\n" +
			"error. Traces may be compressed by gzip or zstd.",
		Example: "  allocfuzz import -o ls.prog ls.mtrace\n" +
			"  allocfuzz import -o boot.prog trace.txt.gz\n" +
			"  allocfuzz import --slice 100001:110000 -o window.prog long.trace.zst\n" +
			"  allocfuzz import --format mtrace --limit 10000 - < ls.mtrace",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("expected one trace, got %d; see %s --help", len(args),
					cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.begin(cmd)
			return a.importTrace(args[0], f)
		},
	}
	c.Flags().StringVar(&f.format, "format", "", "format of the trace: "+formats+
		" (default: told by its first bytes)")
	c.Flags().StringVarP(&f.output, "output", "o", "",
		"file for the program (default: standard output)")
	c.Flags().BoolVar(&f.force, "force", false, "replace an output that exists")
	c.Flags().IntVar(&f.limit, "limit", 0, "end after so many operations (default: no limit)")
	c.Flags().StringVar(&f.slice, "slice", "",
		"import the operations `FROM:TO`, counted from 1, both included; either may be left out")
	c.Flags().BoolVar(&f.strict, "strict", false,
		"make an error of lines that the format does not have")
	c.Flags().StringArrayVar(&f.doc, "doc", nil, "line of the comment on top; may be given again")
	must(c.RegisterFlagCompletionFunc("format", completeList(trace.Formats)))
	return c
}

// importTrace imports one trace.
func (a *app) importTrace(file string, f importFlags) error {
	if f.limit < 0 {
		return fmt.Errorf("--limit %d: expected a number of operations above 0", f.limit)
	}
	from, to, err := parseSlice(f.slice)
	if err != nil {
		return err
	}
	if err := mayWrite(f.output, f.force); err != nil {
		return err
	}
	in, name, err := a.open(file, "TRACE")
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, done := interruptible()
	defer done()
	lines := untilDone(ctx, in)
	opt := trace.Options{File: name, Strict: f.strict, Limit: f.limit, From: from, To: to,
		Doc: f.doc}
	res, err := a.convert(lines, f.format, opt, f.output)
	if ctx.Err() != nil {
		a.interrupted()
		return nil
	}
	if err != nil {
		return importError(f.output, err)
	}
	a.imported(&res, f.output)
	return nil
}

// parseSlice reads FROM:TO; 0 is what is left out.
func parseSlice(s string) (from, to int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	first, last, ok := strings.Cut(s, ":")
	for _, end := range []struct {
		text string
		n    *int
	}{{first, &from}, {last, &to}} {
		if end.text == "" {
			continue
		}
		n, err := strconv.Atoi(end.text)
		ok = ok && err == nil && n > 0
		*end.n = n
	}
	if !ok || first == "" && last == "" || to > 0 && from > to {
		return 0, 0, fmt.Errorf("--slice %s: expected FROM:TO, two numbers of operations from 1, "+
			"the first not above the second; as in --slice 1001:2000", s)
	}
	return from, to, nil
}

// convert writes the program of a trace to a file, or to standard output where none is named.
func (a *app) convert(in io.Reader, format string, opt trace.Options, output string) (
	res trace.Result, err error) {
	write := func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<16)
		var err error
		if res, err = trace.Write(b, format, in, opt); err != nil {
			return err
		}
		return b.Flush()
	}
	switch {
	case output != "":
		err = fuzz.WriteFile(output, write)
	case a.json:
		err = write(io.Discard)
	default:
		err = write(a.out)
	}
	return res, err
}

// importError names the output in an error of the file system.
func importError(output string, err error) error {
	if _, ok := err.(*trace.Error); ok || output == "" {
		return err
	}
	return fileError(output, err)
}

// mayWrite refuses an output that would overwrite something.
func mayWrite(output string, force bool) error {
	info, err := os.Stat(output)
	if output == "" || err != nil {
		return nil
	}
	if info.IsDir() {
		return fmt.Errorf("%s: is a directory; name a file in it with -o", output)
	}
	if info.Mode().IsRegular() && !force {
		return fmt.Errorf("%s: exists already; choose another name or give --force", output)
	}
	return nil
}

// imported tells what was made and what was left out.
func (a *app) imported(res *trace.Result, output string) {
	i := &imported{Format: res.Format, Lines: res.Lines, Operations: res.Operations, Cut: res.Cut,
		Skipped: map[string]int{}, Peak: res.PeakBytes, Objects: res.PeakObjects, Pages: res.Pages,
		Output: output}
	a.doc.Import = i
	a.sayf("%d operations from %d lines of format %s", res.Operations, res.Lines, res.Format)
	a.sayf("live at most: %d objects, %d bytes; machine of %d pages", res.PeakObjects,
		res.PeakBytes, res.Pages)
	for why, n := range res.Skipped {
		if n == 0 {
			continue
		}
		i.Skipped[trace.Skip(why).String()] = n
		if trace.Skip(why) != trace.Mark {
			a.sayf("left out or changed: %d %s", n, trace.Skip(why))
		}
	}
	for _, w := range res.Warnings {
		if w.Line > 0 {
			a.sayf("line %d: %s", w.Line, w.Text)
		} else {
			a.sayf("%s", w.Text)
		}
	}
	if res.WarningsMore > 0 {
		a.sayf("… and %d more", res.WarningsMore)
	}
	if res.Cut {
		a.sayf("the limit ended the import before the trace ended")
	}
}

// recordFlags are the flags of record.
type recordFlags struct {
	output, cache string
	limit         int
	force         bool
	doc           []string
}

// limitMax is the largest limit of a recording: its file has room for two records an operation
// from the start.
const limitMax = 1 << 28

func (a *app) recordCommand() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:   "record [-o FILE] [--limit N] -- COMMAND [ARG…]",
		Short: "make a program of what a command allocates",
		Long: "Run a command and make a program of its allocations. It runs as it would\n" +
			"without: its input and its messages are its own; what it prints goes to standard\n" +
			"error when the program goes to standard output. However it ends, by a signal\n" +
			"too, what it did before is kept. Children that it starts are not recorded, and\n" +
			"threads become the order in which things happened.\n\n" +
			"Linux, dynamically linked commands, and a C compiler (cc or $CC), needed once.\n" +
			"Others: docs/recording.md.",
		Example: "  allocfuzz record -o sort.prog -- sort /etc/passwd\n" +
			"  allocfuzz record --limit 10000 -- python3 -c 'print(1)' > python.prog",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("expected a command to record, as in %s -- ls -l; see %s --help",
					cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.begin(cmd)
			return a.record(args, f)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().StringVarP(&f.output, "output", "o", "",
		"file for the program (default: standard output)")
	c.Flags().BoolVar(&f.force, "force", false, "replace an output that exists")
	c.Flags().IntVar(&f.limit, "limit", 1000000, "record so many operations, and no more")
	c.Flags().StringVar(&f.cache, "cache", "",
		"folder of the compiled recorder (default: in the user's cache)")
	c.Flags().StringArrayVar(&f.doc, "doc", nil, "line of the comment on top; may be given again")
	return c
}

// record runs a command and imports what was recorded.
func (a *app) record(command []string, f recordFlags) error {
	if f.limit < 1 || f.limit > limitMax {
		return fmt.Errorf("--limit %d: expected a number of operations from 1 to %d", f.limit,
			limitMax)
	}
	if err := mayWrite(f.output, f.force); err != nil {
		return err
	}
	if f.cache == "" {
		var err error
		if f.cache, err = usualFolder("record", "cache"); err != nil {
			return err
		}
	}
	ctx, done := interruptible()
	defer done()
	o := record.Options{Command: command, Folder: f.cache, Records: 2 * f.limit, Stdin: a.in,
		Stdout: a.err, Stderr: a.err}
	if f.output != "" && !a.json {
		o.Stdout = os.Stdout
	}
	r, err := record.Run(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Ended != "" {
		a.sayf("%s %s; what it did before is recorded", command[0], r.Ended)
	}
	if r.Head.Execs > 0 {
		a.sayf("%s became another program; the last of them is recorded", command[0])
	}
	if err := a.recorded(r, command, f); err != nil {
		return err
	}
	if ctx.Err() != nil {
		a.interrupted()
	}
	return nil
}

// recorded writes the program of a recording.
func (a *app) recorded(r *record.Recording, command []string, f recordFlags) error {
	in, err := r.Reader()
	if err != nil {
		return err
	}
	doc := f.doc
	if len(doc) == 0 {
		doc = []string{"What " + strings.Join(command, " ") + " allocated."}
	}
	opt := trace.Options{File: command[0], Limit: f.limit, Doc: doc}
	res, err := a.convert(in, "record", opt, f.output)
	if err != nil {
		return importError(f.output, err)
	}
	a.imported(&res, f.output)
	if r.Head.Lost > 0 && !res.Cut {
		a.sayf("the recording was full: %d more records are left out; give a larger --limit",
			r.Head.Lost)
	}
	return nil
}
