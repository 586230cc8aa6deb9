// Package exam is the suite's examination of itself: each patch of corpus/bugs is
// built into the allocators by overlay, and the program that ships with it must
// be silent on the clean tree and speak on the mutant, at one departure from line
// order. Fuzzing must find the mutant too, from the committed seeds.
package exam

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"allocfuzz/corpus/bugs"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// A Case is one patch with the program that kills it.
type Case struct {
	Patch  *bugs.Patch
	Killer *oracle.Compiled
	Clean  *impls.Variant // what the patch is made for
	Mutant *impls.Variant // the same under the name of the mutant, which must be found
}

// Load prepares the case of a patch. The program names the mutant by its schedule
// block, as NAME+PATCH; where it has none the patch says by its key On which
// subject it is made for. A patch that says it in neither place, or in both with
// different names, is an error.
func Load(p *bugs.Patch) (*Case, error) {
	text, err := fs.ReadFile(bugs.Embedded(), p.Killer())
	if err != nil {
		return nil, err
	}
	src, err := prog.Parse("corpus/bugs/"+p.Killer(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	v, err := subject(p, src)
	if err != nil {
		return nil, err
	}
	c, err := oracle.Compile(src)
	if err != nil {
		return nil, err
	}
	m := *v
	m.Name, m.Alias, m.Sound = v.Name+"+"+p.Name, "", false
	m.Finds = impls.Finds{Step: p.Finds[0]}
	if len(p.Finds) > 1 {
		m.Finds.Consequence = p.Finds[1]
	}
	return &Case{Patch: p, Killer: c, Clean: v, Mutant: &m}, nil
}

// subject finds the variant that a patch is made for.
func subject(p *bugs.Patch, src *prog.Program) (*impls.Variant, error) {
	name := p.On
	for i := range src.Scheds {
		base, patch, ok := strings.Cut(src.Scheds[i].Subject, "+")
		switch {
		case !ok || patch != p.Name:
			continue
		case name != "" && name != base:
			return nil, fmt.Errorf("%s: block for %s, but %s is made for %s: keep one of them",
				src.File, base, p.Name, name)
		}
		name = base
	}
	if name == "" {
		return nil, fmt.Errorf("%s: no subject for %s: add \"On: SUBJECT\" to the patch or a "+
			"block \"sched subject=SUBJECT+%s\"", src.File, p.Name, p.Name)
	}
	v, ok := all.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("%s: no subject %q to patch", src.File, name)
	}
	return v, nil
}

// Names says whether f has a title that the patch states.
func (c *Case) Names(f *oracle.Finding) bool {
	for _, t := range c.Patch.Finds {
		if f.Matches(t) {
			return true
		}
	}
	return false
}
