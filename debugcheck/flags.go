package debugcheck

import (
	"fmt"
	"strings"
)

// Flags are the debug options of a cache, as the letters of slab_debug name them.
type Flags uint8

// The options.
const (
	Sanity    Flags = 1 << iota // F: consistency checks on allocation, free and discard
	RedZone                     // Z: red zones around objects
	Poison                      // P: free objects and padding are filled
	StoreUser                   // U: who allocated and freed, and a list of full slabs
	Trace                       // T: every allocation and free is traced
	Failslab                    // A: injected failures may strike here
)

// Default is what a bare slab_debug turns on.
const Default = Sanity | RedZone | Poison | StoreUser

// Letters are the letters of the options, in the order of their bits.
const Letters = "FZPUTA"

// words are the names of the options in programs and in sysfs, by bit.
var words = [len(Letters)]string{"sanity", "redzone", "poison", "user", "trace", "failslab"}

// String gives the letters in order, "-" for none.
func (f Flags) String() string {
	b := &strings.Builder{}
	for i := range Letters {
		if f&(1<<i) != 0 {
			b.WriteByte(Letters[i])
		}
	}
	if b.Len() == 0 {
		return "-"
	}
	return b.String()
}

// Has says whether every option of g is among f.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Debugs says whether f makes a cache one that is debugged: failures that are injected
// are no debugging.
func (f Flags) Debugs() bool { return f&^Failslab != 0 }

// ParseWord finds the option that programs spell so: sanity, redzone, poison, user,
// trace, failslab.
func ParseWord(s string) (f Flags, ok bool) {
	for i, w := range words {
		if w == s {
			return 1 << i, true
		}
	}
	return 0, false
}

// Words lists the options of f as programs spell them, sorted as programs sort them.
func (f Flags) Words() []string {
	var out []string
	for _, i := range [...]int{5, 2, 1, 0, 4, 3} { // alphabetical
		if f&(1<<i) != 0 {
			out = append(out, words[i])
		}
	}
	return out
}

// Rules names the rules of one kernel.
type Rules uint8

// The rule sets.
const (
	SLUB61  Rules = iota // Linux 6.1, the default
	SLUB612              // Linux 6.12
	SLAB24               // Linux 2.4
	SLAB26               // Linux 2.6 to 6.7
	Guard                // the wrapper around other allocators: 6.1 with a quarantine
	nRules
)

var rulesNames = [nRules]string{"6.1", "6.12", "2.4", "2.6", "guard"}

// String gives the spelling of programs: 6.1, 6.12, 2.4, 2.6, guard.
func (r Rules) String() string { return rulesNames[r] }

// SLAB says whether the rules are SLAB's.
func (r Rules) SLAB() bool { return r == SLAB24 || r == SLAB26 }

// linked says whether free objects are on a list, by links that can be damaged. A guard
// has one object a slab.
func (r Rules) linked() bool { return r != Guard }

// counted says whether a slab keeps counts of its objects that can be damaged.
func (r Rules) counted() bool { return r != Guard }

// located says whether an address is known to be in a slab or in none before it is
// looked at. To a guard it is one pointer like any other that begins no object.
func (r Rules) located() bool { return r != Guard }

// ParseRules finds a rule set by its spelling. The guard's is nobody's choice.
func ParseRules(s string) (Rules, error) {
	for i, n := range rulesNames[:Guard] {
		if n == s {
			return Rules(i), nil
		}
	}
	last := Guard - 1
	return 0, fmt.Errorf("rules %q: expected one of %s or %s", s,
		strings.Join(rulesNames[:last], ", "), rulesNames[last])
}
