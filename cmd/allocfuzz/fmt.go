package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
)

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
