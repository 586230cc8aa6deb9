package fuzz

import (
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
)

func TestBoot(t *testing.T) {
	for _, c := range []struct{ debug, rules, want, flags string }{
		{"", "", "", ""},
		{"fz", "", `debug="FZ"`, " --debug FZ"},
		{"slab_debug", "6.12", `debug="FZPU" rules=6.12`, " --debug FZPU --rules 6.12"},
		{"FZ;-,kmalloc-*", "2.6", `debug="FZ;-,kmalloc-*" rules=2.6`,
			" --debug 'FZ;-,kmalloc-*' --rules 2.6"},
		{"", "2.4", "rules=2.4", " --rules 2.4"},
		{"", "6.1", "rules=6.1", " --rules 6.1"},
	} {
		b, err := ParseBoot(c.debug, c.rules)
		if err != nil {
			t.Fatal(err)
		}
		p := &prog.Program{Machine: prog.DefaultMachine()}
		b.Apply(p)
		want := "allocfuzz 1\n"
		if c.want != "" {
			want += "machine " + c.want + "\n"
		}
		if p.String() != want || b.Flags() != c.flags {
			t.Errorf("%q and %q: %q and flags %q, want %q and %q", c.debug, c.rules, p, b.Flags(),
				want, c.flags)
		}
	}
	for _, c := range []struct{ debug, rules, want string }{
		{"FX", "", `--debug "FX": column 2: `},
		{"FZ;-,", "", `--debug "FZ;-,": column 6: `},
		{",a\\", "", "--debug "},
		{"," + strings.Repeat("a", 256), "", "expected at most 256"},
		{"FZ", "6.2", "--rules 6.2: expected one of 6.1, 6.12, 2.4 or 2.6"},
	} {
		_, err := ParseBoot(c.debug, c.rules)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: %v, want %s", c.debug, c.rules, err, c.want)
		}
	}
}

// TestBootApply demands that what a program gives stays.
func TestBootApply(t *testing.T) {
	p := &prog.Program{Machine: prog.DefaultMachine()}
	p.Machine.Debug, p.Machine.Rules = "P", prog.Rules612
	Boot{Debug: "FZ", Rules: prog.Rules24}.Apply(p)
	if p.Machine.Debug != "P" || p.Machine.Rules != prog.Rules612 {
		t.Errorf("%s, want what was there", p)
	}
}

// TestBootTarget demands that a target gives the parameters of its environment to the
// programs of its inputs.
func TestBootTarget(t *testing.T) {
	t.Setenv(EnvDebug, "FZ")
	t.Setenv(EnvRules, "6.12")
	data := make([]byte, input.HeadSize+input.RecordSize)
	if p := FuzzSequential.Program(data); p.Machine.Debug != "FZ" ||
		p.Machine.Rules != prog.Rules612 {
		t.Errorf("got\n%s\nwant debug=FZ and rules=6.12", p)
	}
	s := NewSession(Sound()[:1])
	defer s.Close()
	s.Boot = Boot{Debug: "nosuch"} // no valid options: the program must not compile
	if _, err := s.Sequential(data); err == nil || !strings.Contains(err.Error(), "debug") {
		t.Errorf("the session's parameters have no effect: %v", err)
	}
}
