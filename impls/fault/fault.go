// Package fault names everything that can be found wrong with an allocator.
//
// It is a leaf: the machine, the allocators and the oracle raise faults, and all of
// them take their titles from the table here. Reports of debug checks have titles of
// their own, in package debugcheck. A title is the stable
// name of a rule: no numbers, addresses or function names, since those move
// with the schedule. They belong in Fault.Detail.
package fault

// A Title is the text of a rule that was broken. Its spelling is public: files
// expect it, reports are keyed by it. Use the constants of this package.
type Title string

// A Rule is the check that raises a title.
type Rule uint8

// The checks, in the order in which a run applies them.
const (
	Step       Rule = iota // the machine: a wrong step, before its consequence
	Ownership              // who may have which address
	Contents               // what a live object holds
	Reports                // debug reports expected and not, or the reverse
	Structure              // slabs, lists and counters at quiet points
	Difference             // one subject against another or the model
	History                // real time order of concurrent operations
	Process                // how a subject died: a panic, a signal, an exit
	nRules
)

var ruleNames = [nRules]string{
	"step", "ownership", "contents", "reports", "structure", "difference", "history", "process",
}

// String gives the name that --checks uses.
func (r Rule) String() string {
	if r < nRules {
		return ruleNames[r]
	}
	return "unknown"
}

// ruleAbouts are in the order of ruleNames.
var ruleAbouts = [nRules]string{
	"a step of the simulated machine that is wrong whatever comes of it",
	"where an allocation lies: aligned, in its place, and overlapping nothing that is live",
	"the bytes of live memory are their owner's, and zeroed or constructed where promised",
	"the reports of debug checks: each misuse is reported as the rules say, and nothing else",
	"slabs, lists and counters at quiet points, and what comes back in the end",
	"outcomes of one subject against the model and another, and pairs equal by design",
	"the order in real time of what several contexts did",
	"how a subject ended that should have gone on",
}

// About says in a clause what the checks of the rule are about.
func (r Rule) About() string {
	if r < nRules {
		return ruleAbouts[r]
	}
	return "unknown"
}

// Rules returns every rule in order.
func Rules() []Rule {
	rules := make([]Rule, nRules)
	for i := range rules {
		rules[i] = Rule(i)
	}
	return rules
}

// RuleNamed finds a rule by its name; ok is false when there is none.
func RuleNamed(name string) (r Rule, ok bool) {
	for i, n := range ruleNames {
		if n == name {
			return Rule(i), true
		}
	}
	return 0, false
}

// A Fault is one broken rule as it was seen: a value, raised by the machine,
// the debug checks or the oracle, and turned into a finding by the oracle.
type Fault struct {
	Title  Title
	Detail string // evidence: addresses, counts, names; never compared
	Where  Where
}

// Where says at which place of a run a fault was seen.
type Where struct {
	Line int    // index of the program's operation, -1 when none was running
	Step uint64 // number of the point, from 1; 0 when unknown
	CPU  int    // CPU that ran, -1 when none
	Task string // task or handler that ran
}

// String is title and evidence on one line.
func (f Fault) String() string {
	if f.Detail == "" {
		return string(f.Title)
	}
	return string(f.Title) + ": " + f.Detail
}
