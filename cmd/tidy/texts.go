package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A rule is something that no text of the repository may hold.
type rule struct {
	pattern *regexp.Regexp
	why     string
}

// rules are the patterns that texts must not match. They are put together from
// pieces, so that this file does not match them.
var rules = []rule{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b(?:[^(]|$|\(\))`),
		"a note of work to do needs a name: TO" + "DO(name): what"},
	{regexp.MustCompile(`(?:^|[\s"'(=:\x60])/(?:ho` + `me|Us` + `ers|ro` + `ot|wo` + `rk)/\w`),
		"a path of one machine: make it relative"},
	{regexp.MustCompile(`\b[A-Z]:\\(?:Us` + `ers|wo` + `rk)`),
		"a path of one machine: make it relative"},
	{regexp.MustCompile(`\.\./sha` + `red\b`),
		"a path outside the repository: say it here instead"},
}

// checkTexts looks for notes nobody owns and for paths that exist on one machine.
func checkTexts(t *tree) []problem {
	var problems []problem
	for _, text := range t.texts {
		for i, line := range text.lines {
			problems = append(problems, broken(text.path, i+1, line)...)
		}
	}
	return problems
}

// broken gives a problem for every rule that one line breaks.
func broken(path string, n int, line string) []problem {
	var problems []problem
	for _, r := range rules {
		if found := r.pattern.FindString(line); found != "" {
			problems = append(problems, problem{path, n,
				fmt.Sprintf("got %q: %s", strings.TrimSpace(found), r.why)})
		}
	}
	return problems
}
