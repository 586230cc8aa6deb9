package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/libraries"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/clib"
	"allocfuzz/impls/kmalloc"
)

// root is the command with its subcommands.
func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "allocfuzz",
		Short: "differential and fuzz testing of memory allocators",
		Long: "Allocfuzz runs programs on many memory allocators at once, under chosen\n" +
			"schedules, and holds what they do against one obviously right model and\n" +
			"against each other.\n\n" +
			"Exit status: 0 nothing was found, 1 something was, 2 wrong usage, a file that\n" +
			"cannot be used, or a fault of allocfuzz itself; 130 interrupted with nothing\n" +
			"found.",
		Example: "  allocfuzz run --for 30s\n" +
			"  allocfuzz replay --subject slub-2008-cmpxchg corpus/regress/*.prog\n" +
			"  allocfuzz subjects --json",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.SetIn(a.in)
	c.SetOut(a.out)
	c.SetErr(a.err)
	c.PersistentFlags().BoolVar(&a.json, "json", false,
		fmt.Sprintf("write the results to standard output as JSON (\"schema\": %d)", schema))
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	c.AddCommand(a.runCommand(), a.nightlyCommand(), a.replayCommand(), a.exploreCommand(),
		a.stressCommand(), a.minimizeCommand(), a.corpusCommand(), a.importCommand(),
		a.recordCommand(), a.libsCommand(),
		a.subjectsCommand(), a.reproduceCommand(), a.reportCommand(),
		a.fmtCommand())
	return c
}

// begin names the command in the results.
func (a *app) begin(cmd *cobra.Command) {
	a.doc.Command, a.doc.Complete = cmd.Name(), true
}

// needFiles demands at least one file.
func needFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no file given: expected FILE…, \"-\" for standard input; see %s --help",
			cmd.CommandPath())
	}
	return nil
}

// needOneFile demands exactly one.
func needOneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d files given: expected one, \"-\" for standard input; see %s --help",
			len(args), cmd.CommandPath())
	}
	return nil
}

// noArguments demands none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: %s takes none; see %s --help", args[0],
			cmd.Name(), cmd.CommandPath())
	}
	return nil
}

// A selection says which subjects a command is for.
type selection struct {
	names   []string
	libs    []string
	here    bool // every known library that is here
	unsound bool
}

// flags adds --subject and --unsound to a command.
func (s *selection) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.names, "subject", nil,
		"subjects by name or alias, joined by commas (default: the sound ones)")
	cmd.Flags().StringSliceVar(&s.libs, "lib", nil,
		"libraries of malloc as subjects: files, or names that the loader finds")
	cmd.Flags().BoolVar(&s.here, "libs", false,
		"every known library of malloc that is here; see allocfuzz libs")
	cmd.Flags().BoolVar(&s.unsound, "unsound", false, "take the unsound subjects too")
	must(cmd.RegisterFlagCompletionFunc("subject", completeList(all.Names)))
}

// subjects finds what was asked for, each once.
func (s *selection) subjects() ([]*impls.Variant, error) {
	names := s.named()
	if len(names) == 0 && s.unsound {
		return all.Variants(), nil
	}
	list, err := fuzz.Select(strings.Join(names, ","))
	if err != nil {
		flag := "--subject"
		if len(s.names) == 0 {
			flag = "--lib"
		}
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if s.unsound {
		list = append(list, all.Variants()...)
	}
	return unique(list), nil
}

// chosen says whether subjects were asked for by name.
func (s *selection) chosen() bool { return len(s.names)+len(s.libs) > 0 || s.here }

// named are the names of what was asked for.
func (s *selection) named() []string {
	names := slices.Clone(s.names)
	if s.here {
		names = append(names, libraries.Names()...)
	}
	for _, file := range s.libs {
		names = append(names, clib.Prefix+file)
	}
	return names
}

// unique keeps the first of every subject.
func unique(list []*impls.Variant) []*impls.Variant {
	seen := map[*impls.Variant]bool{}
	var out []*impls.Variant
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// completeList completes the last word of a list joined by commas.
func completeList(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		head := part[:strings.LastIndexByte(part, ',')+1]
		var out []string
		for _, w := range words() {
			out = append(out, head+w)
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completePrograms completes the names of programs.
func completePrograms(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"prog"}, cobra.ShellCompDirectiveFilterFileExt
}

// interruptible returns a context that ends at the first Ctrl-C, or other signal of
// more. The second one kills the command and its children.
func interruptible(more ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	for _, s := range more {
		if !signal.Ignored(s) { // as nohup does
			signal.Notify(signals, s)
		}
	}
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		fmt.Fprintln(os.Stderr, "interrupted: ending in good order; once more kills")
		cancel()
		if _, ok := <-signals; ok {
			engine.KillAll()
			os.Exit(statusInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// must is for what only a mistake in this program can make fail.
func must(err error) {
	if err != nil {
		panic("allocfuzz: " + err.Error())
	}
}

// bootFlags are the flags for the boot parameters of machines.
type bootFlags struct {
	debug, rules string
	cmd          *cobra.Command // knows which of them were given
}

func (f *bootFlags) flags(c *cobra.Command) {
	f.cmd = c
	c.Flags().StringVar(&f.debug, "debug", "", "debug options, as slab_debug takes them, for "+
		"programs that give none: FZPU, 'FZ;-,kmalloc-64' for caches by name, or - for none")
	c.Flags().StringVar(&f.rules, "rules", "", "kernel whose debug checks apply where programs "+
		"do not say: 6.1 (the default) or 6.12 for SLUB, 2.4 (the default) or 2.6 for SLAB")
	must(c.RegisterFlagCompletionFunc("debug", cobra.NoFileCompletions))
	must(c.RegisterFlagCompletionFunc("rules", cobra.FixedCompletions(
		kernels(), cobra.ShellCompDirectiveNoFileComp)))
}

// parse reads the values. An empty one is as likely every option as none: it is refused,
// as it is in a program.
func (f *bootFlags) parse() (fuzz.Boot, error) {
	if f.debug == "" && f.cmd.Flags().Changed("debug") {
		return fuzz.Boot{}, errors.New(`--debug "": no options: write --debug FZPU, or ` +
			"--debug - for none")
	}
	if f.rules == "" && f.cmd.Flags().Changed("rules") {
		last := len(kernels()) - 1
		return fuzz.Boot{}, fmt.Errorf(`--rules "": expected one of %s or %s`,
			strings.Join(kernels()[:last], ", "), kernels()[last])
	}
	return fuzz.ParseBoot(f.debug, f.rules)
}

// sizeCaches are the names of caches that no program declares: those of size classes,
// and what a guard calls all that it has by size.
func sizeCaches(page uint64) []string {
	names := []string{"malloc"}
	for _, t := range kmalloc.Tables() {
		names = append(names, t.Names(page)...)
	}
	return names
}

// adviseNames says which names in the debug options of a program's machine stand for no
// cache that it can have: a mistyped name silently checks nothing.
func (a *app) adviseNames(p *prog.Program) {
	o, err := debugcheck.ParseOptions(p.Machine.Debug)
	if err != nil {
		return // none were given: wrong ones do not come so far
	}
	caches := append(cachesOf(p.Lines, nil), sizeCaches(uint64(p.Machine.PageSize))...)
	for i := range p.Caches {
		caches = append(caches, p.Caches[i].Name)
	}
	for _, name := range o.Unused(caches) {
		a.sayf("%s: debug options are for %s, and no cache is called so: expected a cache of the "+
			"program or a size class, kmalloc-8 to kmalloc-8k or size-32 to size-131072", p.File,
			name)
	}
}

// cachesOf adds the names of the caches that lines create.
func cachesOf(lines []prog.Line, names []string) []string {
	for i := range lines {
		l := &lines[i]
		if l.Verb == prog.Create && l.Spec != nil {
			names = append(names, l.Results...)
		}
		names = cachesOf(l.Body, names)
	}
	return names
}
