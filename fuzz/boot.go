package fuzz

import (
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
)

// A Boot holds boot parameters for machines whose programs give none, as the flags
// --debug and --rules of the command say. The zero Boot changes nothing.
type Boot struct {
	Debug string     // debug options in their canonical spelling, "" for none
	Rules prog.Rules // of the debug checks
}

// ParseBoot reads the values of the two flags, "" for one that was not given. An error
// says at which character the options are wrong.
func ParseBoot(debug, rules string) (b Boot, err error) {
	if rules != "" {
		var ok bool
		if b.Rules, ok = prog.ParseRules(rules); !ok {
			return Boot{}, fmt.Errorf("--rules %s: expected one of %s, %s, %s or %s", rules,
				prog.Rules61, prog.Rules612, prog.Rules24, prog.Rules26)
		}
	}
	if debug == "" {
		return b, nil
	}
	o, err := debugcheck.ParseOptions(debug)
	if err != nil {
		return Boot{}, fmt.Errorf("--debug %q: %w", debug, err)
	}
	b.Debug = o.String()
	m := prog.DefaultMachine()
	m.Debug = b.Debug
	if err := m.Check(); err != nil {
		return Boot{}, fmt.Errorf("--debug %q: %w", debug, err)
	}
	return b, nil
}

// Apply gives the parameters to the machine of a program that gives none.
func (b Boot) Apply(p *prog.Program) {
	if p.Machine.Debug == "" {
		p.Machine.Debug = b.Debug
	}
	if p.Machine.Rules == prog.RulesOwn {
		p.Machine.Rules = b.Rules
	}
}

// Flags are the flags of the command that say the same, each with a blank in front.
func (b Boot) Flags() string {
	s := ""
	if b.Debug != "" {
		s += " --debug " + Argument(b.Debug)
	}
	if b.Rules != prog.RulesOwn {
		s += " --rules " + b.Rules.String()
	}
	return s
}
