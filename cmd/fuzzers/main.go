// Fuzzers builds every fuzz target as a program of libFuzzer, or of an engine that takes its place,
// and runs them.
//
//	go run ./cmd/fuzzers build -o FOLDER       the programs, with seeds, dictionary and options
//	go run ./cmd/fuzzers run -o FOLDER         build them, and fuzz with each
//
// Build keeps to the conventions of OSS-Fuzz and ClusterFuzzLite: the environment says which
// compiler ($CC), which linker and flags ($CXX, $CXXFLAGS) and which engine ($LIB_FUZZING_ENGINE)
// to use, and the files are called TARGET, TARGET_seed_corpus.zip, TARGET.dict and TARGET.options.
// Without them it is clang and its libFuzzer.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/libfuzzer"
)

// The exit statuses: 1 is a finding of this run, whatever lay in the folder before.
const (
	clean       = 0
	found       = 1
	wrong       = 2
	interrupted = 130 // and nothing was found until then
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := start(ctx, os.Args[1:], os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzers:", err)
		status = wrong
	}
	stop()
	os.Exit(status)
}

// usage is what a wrong command line is told.
const usage = "expected build or run, then flags: go run ./cmd/fuzzers build -h lists them"

// start carries out a command line.
func start(ctx context.Context, args []string, errs io.Writer) (int, error) {
	if len(args) == 0 || args[0] != "build" && args[0] != "run" {
		return wrong, fmt.Errorf("%s", usage)
	}
	var opt libfuzzer.RunOptions
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(errs)
	out := flags.String("o", "", "folder for the programs, which is made if need be")
	names := flags.String("target", "", "targets, joined by commas (default: all)")
	flags.DurationVar(&opt.For, "for", time.Minute, "run: time for each target")
	flags.IntVar(&opt.Fork, "fork", 2, "run: processes of a target")
	flags.StringVar(&opt.Corpus, "corpus", "", "run: folder of corpora, a folder a target "+
		"(default: corpus below that of the programs)")
	if err := flags.Parse(args[1:]); err != nil {
		if err == flag.ErrHelp {
			return clean, nil
		}
		return wrong, err
	}
	targets, err := chosen(*names)
	switch {
	case err != nil:
		return wrong, err
	case flags.NArg() > 0:
		return wrong, fmt.Errorf("%q: %s", flags.Arg(0), usage)
	case *out == "":
		return wrong, fmt.Errorf("-o: expected a folder for the programs")
	case opt.For < time.Second || opt.Fork < 1:
		return wrong, fmt.Errorf("-for %v -fork %d: expected 1s and 1 or more", opt.For, opt.Fork)
	}
	log := func(format string, a ...any) { fmt.Fprintf(errs, format+"\n", a...) }
	root, err := engine.FindRoot(".")
	if err != nil {
		return wrong, err
	}
	b, err := libfuzzer.Environment(root, *out)
	if err != nil {
		return wrong, err
	}
	for _, t := range targets {
		err := b.Project(ctx, t)
		switch {
		case ctx.Err() != nil:
			log("interrupted")
			return interrupted, nil
		case err != nil:
			return wrong, err
		}
		log("%s: built", t)
	}
	if args[0] == "build" {
		return clean, nil
	}
	return run(ctx, b, targets, &opt, log)
}

// run fuzzes with each target until ctx ends.
func run(ctx context.Context, b *libfuzzer.Build, targets []string, opt *libfuzzer.RunOptions,
	log func(format string, a ...any)) (int, error) {
	status := clean
	for _, t := range targets {
		res, err := b.Run(ctx, t, opt)
		if res != nil {
			log("%s", res)
			if len(res.Crashes) > 0 || res.Findings > 0 {
				status = found
			}
		}
		if err != nil {
			return wrong, err
		}
		if ctx.Err() == nil {
			continue
		}
		log("interrupted")
		if status == clean {
			status = interrupted
		}
		break
	}
	return status, nil
}

// chosen finds targets by name.
func chosen(names string) ([]string, error) {
	if names == "" {
		return fuzz.Entries(), nil
	}
	list, err := engine.SelectTargets(fuzz.Entries(), strings.Split(names, ","))
	if err != nil {
		return nil, fmt.Errorf("-target: %w", err)
	}
	slices.Sort(list)
	return list, nil
}
