package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// verbs are the targets that readers and CI count on.
var verbs = []string{"fuzz", "test", "race", "lint", "bench"}

var (
	target = regexp.MustCompile(`^([a-zA-Z][\w-]*):(.*)$`)
	phony  = regexp.MustCompile(`^\.PHONY:(.*)$`)
	// A use of a verb in a page, in a workflow or in a script.
	usedVerb = regexp.MustCompile("(?:`|run: |^\\s*)make ([a-z][a-z-]*)\\b")
)

// checkMakefile demands that every verb says what it does, is no file's name,
// and exists where it is used.
func checkMakefile(t *tree) []problem {
	i := slices.IndexFunc(t.texts, func(x text) bool { return x.path == "Makefile" })
	if i < 0 {
		return []problem{{path: "Makefile", text: "it is missing"}}
	}
	var problems []problem
	lines := t.texts[i].lines
	targets, phonies := make(map[string]int), make(map[string]bool)
	for i, line := range lines {
		if m := phony.FindStringSubmatch(line); m != nil {
			for _, name := range strings.Fields(m[1]) {
				phonies[name] = true
			}
		}
		if m := target.FindStringSubmatch(line); m != nil {
			targets[m[1]] = i + 1
			if _, says, ok := strings.Cut(m[2], "## "); !ok || strings.TrimSpace(says) == "" {
				problems = append(problems, problem{"Makefile", i + 1, fmt.Sprintf(
					"the verb %s does not say what it does: add \"## text\"", m[1])})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if !phonies[name] {
			problems = append(problems, problem{"Makefile", targets[name],
				fmt.Sprintf("the verb %s is not in .PHONY", name)})
		}
	}
	for _, name := range verbs {
		if targets[name] == 0 {
			problems = append(problems, problem{"Makefile", 0, "there is no verb " + name})
		}
	}
	return append(problems, t.usedVerbs(targets)...)
}

// usedVerbs finds verbs in pages and in CI that the Makefile does not have.
func (t *tree) usedVerbs(targets map[string]int) []problem {
	var problems []problem
	for _, text := range t.texts {
		if text.path != "README.md" && !under(text.path, ".ci") && !under(text.path, ".github") {
			continue
		}
		for i, line := range text.lines {
			problems = append(problems, unknownVerbs(text.path, i+1, line, targets)...)
		}
	}
	return problems
}

// unknownVerbs finds those of one line.
func unknownVerbs(path string, n int, line string, targets map[string]int) []problem {
	var problems []problem
	for _, m := range usedVerb.FindAllStringSubmatch(line, -1) {
		if targets[m[1]] == 0 {
			problems = append(problems, problem{path, n, "the Makefile has no verb " + m[1]})
		}
	}
	return problems
}
