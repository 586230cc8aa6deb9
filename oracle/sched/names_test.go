package sched_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// TestNamesAgree: the language and the machine know nothing of each other, and the
// oracle turns the numbers of the one into those of the other.
func TestNamesAgree(t *testing.T) {
	for i := range prog.Kinds {
		if p, m := prog.Kind(i).String(), machine.Kind(i).String(); p != m {
			t.Errorf("kind %d is %s in programs, %s on the machine", i, p, m)
		}
	}
	if more := machine.Kind(prog.Kinds).String(); more != "number 16" {
		t.Errorf("the machine has a kind %s that programs cannot spell", more)
	}
	for p := prog.PreemptNone; p <= prog.PreemptRT; p++ {
		if m := machine.Preempt(p).String(); p.String() != m {
			t.Errorf("preempt %d is %s in programs, %s on the machine", p, p, m)
		}
	}
	for i := range prog.Outcomes {
		if p, o := prog.Outcome(i).String(), impls.Outcome(i).String(); p != o {
			t.Errorf("outcome %d is %s in programs, %s in transcripts", i, p, o)
		}
	}
	for c := range impls.LastCode + 1 {
		if _, ok := prog.ParseVerb(c.String()); !ok {
			t.Errorf("operation %s of the contract is no verb", c)
		}
	}
}

// TestMachinesAgree: the machine of a program that says nothing is the default one,
// and both sides accept the same parameters.
func TestMachinesAgree(t *testing.T) {
	if diff := cmp.Diff(machine.DefaultConfig(), config(prog.DefaultMachine())); diff != "" {
		t.Errorf("default machine (-machine +program):\n%s", diff)
	}
	for name, change := range map[string]func(*prog.Machine){
		"no CPU":              func(m *prog.Machine) { m.CPUs = -1 },
		"most CPUs":           func(m *prog.Machine) { m.CPUs = prog.MaxCPUs },
		"one CPU more":        func(m *prog.Machine) { m.CPUs = prog.MaxCPUs + 1 },
		"most pages":          func(m *prog.Machine) { m.Pages, m.PageSize = prog.MaxPages, 16 },
		"one page more":       func(m *prog.Machine) { m.Pages, m.PageSize = prog.MaxPages+1, 16 },
		"largest page":        func(m *prog.Machine) { m.PageSize = prog.MaxPageSize },
		"page too large":      func(m *prog.Machine) { m.PageSize = 2 * prog.MaxPageSize },
		"page too small":      func(m *prog.Machine) { m.PageSize = prog.MinPageSize / 2 },
		"page no power":       func(m *prog.Machine) { m.PageSize = 3000 },
		"most memory":         func(m *prog.Machine) { m.Pages, m.PageSize = 1024, 1<<24 },
		"too much memory":     func(m *prog.Machine) { m.Pages, m.PageSize = 1025, 1<<24 },
		"word of 24 bits":     func(m *prog.Machine) { m.Word, m.SeqBits = 24, 8 },
		"one bit of sequence": func(m *prog.Machine) { m.SeqBits = 1 },
		"more than half":      func(m *prog.Machine) { m.SeqBits = 33 },
		"sequence too large":  func(m *prog.Machine) { m.SeqBits, m.Seq0 = 4, 16 },
		"largest sequence":    func(m *prog.Machine) { m.SeqBits, m.Seq0 = 4, 15 },
		"base between pages":  func(m *prog.Machine) { m.Base = 4097 },
		"ends at the top":     func(m *prog.Machine) { m.Base = 1<<64 - 16*4096 },
		"ends above":          func(m *prog.Machine) { m.Base = 1<<64 - 15*4096 },
		"no such preemption":  func(m *prog.Machine) { m.Preempt = prog.PreemptRT + 1 },
	} {
		m := prog.DefaultMachine()
		change(&m)
		if p, c := m.Check(), config(m).Validate(); (p == nil) != (c == nil) {
			t.Errorf("%s: programs say %v, the machine %v", name, p, c)
		}
	}
}

// config is the machine of a program, as the oracle builds it.
func config(m prog.Machine) machine.Config {
	return machine.Config{CPUs: m.CPUs, Pages: m.Pages, PageSize: m.PageSize, Word: m.Word,
		Base: m.Base, SeqBits: m.SeqBits, Seq0: m.Seq0, Preempt: machine.Preempt(m.Preempt),
		TSO: m.TSO}
}
