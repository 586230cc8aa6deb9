package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/fuzz"
	"allocfuzz/impls/kmalloc"
)

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
