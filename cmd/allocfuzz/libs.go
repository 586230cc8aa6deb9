package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"allocfuzz/fuzz/libraries"
	"allocfuzz/impls/clib"
)

// libsFlags are the flags of libs.
type libsFlags struct {
	pick          selection
	fetch, misuse bool
	verbose       bool
}

func (a *app) libsCommand() *cobra.Command {
	var f libsFlags
	c := &cobra.Command{
		Use:   "libs",
		Short: "the libraries of malloc that are here, and how they take misuse",
		Long: "List the libraries of malloc that have subjects of their own: where each was\n" +
			"found, its version, its functions. --fetch gets those that are missing from\n" +
			"Debian's packages, into the user's cache; nothing is installed. Any other\n" +
			"library is a subject by its file: --lib FILE, which every command takes.\n\n" +
			"--misuse does to each, in a process of its own, what no program may do, and\n" +
			"tells what came of it. Nothing is promised for any of that: it is no finding.",
		Example: "  allocfuzz libs\n" +
			"  allocfuzz libs --fetch\n" +
			"  allocfuzz libs --misuse --lib ./libmymalloc.so --subject c-glibc",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			ctx, done := interruptible()
			defer done()
			return a.libs(ctx, &f)
		},
	}
	f.pick.flags(c)
	must(c.Flags().MarkHidden("unsound"))
	c.Flags().BoolVar(&f.fetch, "fetch", false, "get the known libraries that are missing")
	c.Flags().BoolVar(&f.misuse, "misuse", false, "misuse each and tell what comes of it")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "list functions, or messages")
	return c
}

func (a *app) libs(ctx context.Context, f *libsFlags) error {
	if !clib.Supported {
		return errors.New("this build loads no libraries: expected Linux on amd64 or arm64, " +
			"without the tag nolibs")
	}
	var missing error
	if f.fetch {
		missing = libraries.Fetch(ctx, a.err)
	}
	if f.misuse {
		return errors.Join(a.scoreLibs(ctx, f), missing)
	}
	t := a.newTable("subject", "version", "file", "")
	for _, e := range libraries.List() {
		if e.Variant == nil {
			t.AppendRow(table.Row{e.Known.Name, "", "", "not here: package " + e.Package})
			continue
		}
		file, note := filepath.Base(e.File), e.About
		if f.verbose {
			file, note = e.File, strings.Join(e.Functions, " ")
		}
		t.AppendRow(table.Row{e.Known.Name, e.Version, file, note})
	}
	t.SetColumnConfigs([]table.ColumnConfig{wrapped("", 44)})
	t.Render()
	return missing
}

// scoreLibs misuses the subjects that were picked, else every known library that is here.
func (a *app) scoreLibs(ctx context.Context, f *libsFlags) error {
	names := f.pick.named()
	if len(names) == 0 {
		names = libraries.Names()
	}
	if len(names) == 0 {
		return errors.New("no library is here: --fetch gets some, --lib takes a file")
	}
	score, err := libraries.Misuse(ctx, names)
	if err != nil {
		return err
	}
	head := []any{"misuse", "bytes"}
	for _, name := range names {
		head = append(head, strings.TrimPrefix(name, "c-"))
	}
	t := a.newTable(head...)
	seen := map[clib.Response]bool{}
	for _, r := range score.Rows {
		row := table.Row{r.Kind.Name, r.Size}
		for _, c := range r.Cells {
			row = append(row, c.Response)
			seen[c.Response] = true
		}
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprintln(a.out)
	for r := clib.Told; r <= clib.ResponseHung; r++ {
		if seen[r] {
			fmt.Fprintf(a.out, "%-8s %s\n", r, r.Means())
		}
	}
	if f.verbose {
		a.tellMessages(score)
	}
	return nil
}

// tellMessages prints what the libraries said.
func (a *app) tellMessages(score *libraries.Score) {
	for _, r := range score.Rows {
		for i, c := range r.Cells {
			if c.Message != "" {
				fmt.Fprintf(a.out, "%s, %s of %d bytes: %.200s\n", score.Subjects[i], r.Kind.Name,
					r.Size, c.Message)
			}
		}
	}
}
