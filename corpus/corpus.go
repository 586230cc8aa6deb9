// Package corpus holds the committed programs: seeds/ (written by hand, one idea each), regress/
// (one file a bug, with the finding that it shows) and traces/ (recorded from real programs). They
// are embedded, so that every command has them wherever it runs.
package corpus

import (
	"bytes"
	"embed"
	"io/fs"
	"iter"
	"path"

	"allocfuzz/corpus/prog"
)

//go:embed seeds/*.prog regress/*.prog traces/*.prog
var embedded embed.FS

// Embedded returns the folders seeds, regress and traces as they were when the program was built.
func Embedded() fs.FS { return embedded }

// File is one committed program.
type File struct {
	Name string // from the root of the repository: corpus/seeds/lifo-reuse.prog
	Text []byte // not to be changed
}

// Program parses the file. An error names the file, the line and the column.
func (f File) Program() (*prog.Program, error) {
	return prog.Parse(f.Name, bytes.NewReader(f.Text))
}

// Seeds returns the hand-written programs in the order of their names.
func Seeds() iter.Seq[File] { return files(embedded, "seeds") }

// Regress returns the programs of known bugs in the order of their names.
func Regress() iter.Seq[File] { return files(embedded, "regress") }

// Traces returns the recorded programs in the order of their names. They have thousands of lines:
// read them as a stream where that is enough.
func Traces() iter.Seq[File] { return files(embedded, "traces") }

// Folders are those of the committed programs, below corpus.
func Folders() []string { return []string{"seeds", "regress", "traces"} }

// All returns seeds, regressions and traces, in this order.
func All() iter.Seq[File] {
	return func(yield func(File) bool) {
		for _, folder := range Folders() {
			for f := range files(embedded, folder) {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// files returns the programs of one folder of fsys. What was embedded can be read, so a failure is
// a fault of the build.
func files(fsys fs.FS, folder string) iter.Seq[File] {
	return func(yield func(File) bool) {
		list, err := fs.ReadDir(fsys, folder)
		if err != nil {
			panic("allocfuzz: embedded corpus: " + err.Error())
		}
		for _, entry := range list {
			if entry.IsDir() || path.Ext(entry.Name()) != ".prog" {
				continue
			}
			name := path.Join(folder, entry.Name())
			text, err := fs.ReadFile(fsys, name)
			if err != nil {
				panic("allocfuzz: embedded corpus: " + err.Error())
			}
			if !yield(File{Name: "corpus/" + name, Text: text}) {
				return
			}
		}
	}
}
