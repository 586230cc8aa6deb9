package impls_test

import (
	"errors"
	"strings"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// boot is what a machine with these parameters says to a family.
func boot(debug, rules string, usual debugcheck.Rules) impls.Boot {
	return impls.BootOf(&machine.Machine{Config: machine.Config{Debug: debug, Rules: rules}}, usual)
}

// TestBootRules: rules are for the family that they are of, and a guard has its own.
func TestBootRules(t *testing.T) {
	const s61, s612, s24, s26, guard = debugcheck.SLUB61, debugcheck.SLUB612, debugcheck.SLAB24,
		debugcheck.SLAB26, debugcheck.Guard
	for _, tt := range []struct {
		rules             string
		slub, slab, other debugcheck.Rules
	}{
		{"", s61, s24, guard},
		{"6.1", s61, s24, guard},
		{"6.12", s612, s24, guard},
		{"2.4", s61, s24, guard},
		{"2.6", s61, s26, guard},
	} {
		for usual, want := range map[debugcheck.Rules]debugcheck.Rules{
			s61: tt.slub, s24: tt.slab, guard: tt.other} {
			if b := boot("", tt.rules, usual); b.Rules != want {
				t.Errorf("rules=%s is %s, of %s want %s", tt.rules, b.Rules, usual, want)
			}
		}
	}
}

// TestBootFlags: what the machine says goes by the kernel's precedence with the words of
// a cache; where it says nothing these come before what is usual.
func TestBootFlags(t *testing.T) {
	for _, tt := range []struct {
		debug, words string
		usual        debugcheck.Flags
		want         string
		small        bool
		err          error
	}{
		{"", "", 0, "-", false, nil},
		{"", "", debugcheck.Default, "FZPU", false, nil},
		{"", "poison rcu nomerge", debugcheck.Default, "P", false, nil},
		{"", "panic reclaim", debugcheck.Trace, "T", false, nil},
		{"-", "", debugcheck.Default, "-", false, nil},
		{"FO", "poison", debugcheck.Default, "FP", true, nil},
		{"Z,abc;F", "user", 0, "ZU", false, nil},
		{"", "poison hwalign", 0, "P", false, nil},
		{"F", "nothing", 0, "-", false, impls.ErrInvalid},
	} {
		b := boot(tt.debug, "", debugcheck.SLUB61)
		b.Usual = tt.usual
		spec := impls.NewSpec("abc", 8)
		spec.Flags = strings.Fields(tt.words)
		f, small, err := b.Flags(&spec)
		if f.String() != tt.want || small != tt.small || !errors.Is(err, tt.err) {
			t.Errorf("%+v: %s, %v, %v", tt, f, small, err)
		}
		if rcu := strings.Contains(tt.words, "rcu"); spec.RCU() != rcu {
			t.Errorf("%s: rcu is %v", tt.words, spec.RCU())
		}
		spec.Ctor = true
		if with, _, err := b.Flags(&spec); with != f || !errors.Is(err, tt.err) {
			t.Errorf("%+v: with a constructor: %s, %v", tt, with, err)
		}
		spec.Kmalloc, spec.Flags = true, nil
		if _, _, err := b.Flags(&spec); !errors.Is(err, impls.ErrInvalid) {
			t.Errorf("a size class with a constructor: %v", err)
		}
	}
	if b := impls.BootOf(nil, debugcheck.Guard); b != (impls.Boot{Rules: debugcheck.Guard}) {
		t.Errorf("no machine says %+v", b)
	}
}

// TestBootBad: strings that nobody accepted are a fault of whoever set the machine up,
// in every family.
func TestBootBad(t *testing.T) {
	for _, usual := range []debugcheck.Rules{debugcheck.SLUB61, debugcheck.SLAB24,
		debugcheck.Guard} {
		for _, bad := range [][2]string{{"F Z", ""}, {"", "6.2"}, {"", "guard"}} {
			func() {
				defer func() {
					if s, _ := recover().(string); !strings.HasPrefix(s, "allocfuzz: ") {
						t.Errorf("%s, %q: panics with %q", usual, bad, s)
					}
				}()
				boot(bad[0], bad[1], usual)
			}()
		}
	}
}
