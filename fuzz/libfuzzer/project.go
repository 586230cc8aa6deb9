package libfuzzer

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/store"
)

// Allocators are the packages whose coverage counts: the allocators and their debug checks. What
// carries them (the machine, the adapters of Go libraries) is left out, since what that does
// depends on what a process has done before.
var Allocators = []string{"allocfuzz/impls/slab", "allocfuzz/impls/slub", "allocfuzz/impls/page",
	"allocfuzz/impls/kmalloc", "allocfuzz/debugcheck"}

// packages are those whose coverage leads the fuzzing of a target.
func packages(target string) []string {
	if target == fuzz.Prog {
		return []string{"allocfuzz/corpus/prog"}
	}
	return Allocators
}

// inputMost is the length of the longest input that is tried: as many records of operations and
// departures as a target looks at.
const inputMost = 4096

// Environment is a build of the sources at root into a folder, which is made, with the compiler and
// the engine that the environment of OSS-Fuzz names; clang and libFuzzer otherwise.
func Environment(root, dir string) (*Build, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	b := &Build{Root: root, Dir: dir, Clang: os.Getenv("CC"),
		Linker: os.Getenv("CXX"), Engine: os.Getenv("LIB_FUZZING_ENGINE"),
		Flags: strings.Fields(os.Getenv("CXXFLAGS"))}
	if b.Clang == "" {
		if b.Clang, err = Clang(); err != nil {
			return nil, err
		}
	}
	return b, os.MkdirAll(dir, 0o777)
}

// Project builds a target with what an engine wants beside it.
func (b *Build) Project(ctx context.Context, target string) error {
	bin, err := b.Target(ctx, target)
	if err != nil {
		return err
	}
	for _, made := range []string{bin + ".a", bin + ".h"} {
		if err := os.Remove(made); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return beside(bin, target)
}

// beside writes what an engine wants beside the binary of a target: TARGET_seed_corpus.zip,
// TARGET.options and, where inputs are text, TARGET.dict.
func beside(bin, target string) error {
	err := fuzz.WriteFile(bin+"_seed_corpus.zip", func(w io.Writer) error {
		return seeds(w, fuzz.SeedsOf(target))
	})
	if err != nil {
		return err
	}
	options := fmt.Sprintf("[libfuzzer]\nmax_len = %d\ntimeout = 25\nrss_limit_mb = 4096\n",
		inputMost)
	if target == fuzz.Prog {
		options += "dict = " + target + ".dict\n"
		if err := fuzz.WriteBytes(bin+".dict", []byte(Dictionary())); err != nil {
			return err
		}
	}
	return fuzz.WriteBytes(bin+".options", []byte(options))
}

// seeds writes inputs as a zip file, the same each time, under the names of a working corpus.
func seeds(w io.Writer, list [][]byte) error {
	z := zip.NewWriter(w)
	done := map[string]bool{}
	for _, data := range list {
		name := store.Name(data)
		if done[name] {
			continue
		}
		done[name] = true
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// Dictionary is the words of the program format, for fuzzing its parser.
func Dictionary() string {
	words := []string{"allocfuzz 1", "title:", "also:", "class:", "found:", "date:", "machine",
		"cache", "task", "sched", "subject=", "=>", "bug", "at", "repeat", "check", "of", "nil",
		"cpu0", "cpu1", "irq0", "irq0.", "move cpu1", "fail", "none", "cpus=", "pages=",
		"pagesize=", "word=", "base=", "seqbits=", "seq0=", "preempt=", "full", "rt", "tso=on"}
	add := func(list ...string) {
		for _, w := range list {
			if w != "" && w != "?" && !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	keys := func(list []prog.KeyArg) {
		for _, k := range list {
			add(k.Name + "=")
			add(k.Words...)
		}
	}
	for v := range prog.Verbs {
		add(prog.Verb(v).String())
		keys(prog.Verb(v).Op().Keys)
	}
	keys(prog.SpecKeys)
	add(prog.FlipRegions...)
	add(prog.FlipCacheFields...)
	for o := range prog.Outcomes {
		add(prog.Outcome(o).String())
	}
	for k := range prog.ActionKinds {
		add(prog.ActionKind(k).String())
	}
	b := &strings.Builder{}
	b.WriteString("# Words of the program format.\n")
	for _, w := range words {
		b.WriteString(strconv.QuoteToASCII(w) + "\n")
	}
	return b.String()
}
