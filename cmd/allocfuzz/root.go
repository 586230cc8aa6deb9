package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
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
	c.AddCommand(a.runCommand(), a.replayCommand(), a.exploreCommand(), a.stressCommand(),
		a.minimizeCommand(), a.importCommand(), a.subjectsCommand(), a.fmtCommand())
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
	unsound bool
}

// flags adds --subject and --unsound to a command.
func (s *selection) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.names, "subject", nil,
		"subjects by name or alias, joined by commas (default: the sound ones)")
	cmd.Flags().BoolVar(&s.unsound, "unsound", false, "take the unsound subjects too")
	must(cmd.RegisterFlagCompletionFunc("subject", completeList(all.Names)))
}

// subjects finds what was asked for, each once.
func (s *selection) subjects() ([]*impls.Variant, error) {
	if len(s.names) == 0 && s.unsound {
		return all.Variants(), nil
	}
	list, err := fuzz.Select(strings.Join(s.names, ","))
	if err != nil {
		return nil, fmt.Errorf("--subject: %w", err)
	}
	if s.unsound {
		list = append(list, all.Variants()...)
	}
	return unique(list), nil
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
