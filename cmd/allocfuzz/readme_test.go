package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/all"
)

// TestDetectionTable: the README's table of misuse is what the command above it prints.
func TestDetectionTable(t *testing.T) {
	page, _ := readme(t)
	const command = "\n    go run ./cmd/allocfuzz "
	_, after, ok := strings.Cut(page, command+"subjects --misuse")
	if !ok {
		t.Fatal("the README has no command subjects --misuse")
	}
	line, after, _ := strings.Cut(after, "\n")
	_, block, _ := strings.Cut(after, "```text\n")
	block, _, ok = strings.Cut(block, "```\n")
	if !ok {
		t.Fatal("no block of text follows the command")
	}
	var out, errs bytes.Buffer
	args := append([]string{"subjects", "--misuse"}, strings.Fields(line)...)
	if status := start(args, strings.NewReader(""), &out, &errs); status != statusClean {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	if out.String() != block {
		t.Errorf("the README's table is stale; put this in its place:\n%s", out.String())
	}
}

// readme returns the README and the folder that it lies in.
func readme(t *testing.T) (page, root string) {
	t.Helper()
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), root
}

// finding are the commands of the pages that find something, as they say.
var finding = map[string][]string{
	"README.md": {
		"replay --subject slub-2008-cmpxchg corpus/regress/slub-2008-cmpxchg-aba.prog",
		"replay --subject slub-2022-debug-racy corpus/regress/slub-2022-debug-racy-validate.prog",
		"explore --subject slub-2008-cmpxchg corpus/seeds/aba-interrupt.prog",
		"minimize corpus/regress/slub-2008-cmpxchg-bulk.prog",
		"reproduce corpus/regress/slub-2008-cmpxchg-aba.prog",
		"stress --subject slub-2008-seq-slowpath --for 1m --out /tmp/stress",
	},
	"docs/patches.md": {"explore --subject slub-2008-cmpxchg corpus/seeds/aba-interrupt.prog"},
}

// TestReadmeCommands: what the README and the pages of docs write and run with the tool works as
// printed. Nothing is found but by the commands of which they say so.
func TestReadmeCommands(t *testing.T) {
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 3 {
		t.Fatalf("pages %q, error %v", pages, err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			t.Chdir(root)
			commands(t, page, finding[filepath.ToSlash(name)])
		})
	}
}

// commands runs the commands of a page, of which some find something.
func commands(t *testing.T, page string, show []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	found := map[string]bool{}
	for _, line := range show {
		found[line] = true
	}
	steps := regexp.MustCompile(`(?m)^    cat > /tmp/(\S+) <<'END'\n((?:    .*\n)*?)    END$` +
		`|^    go run \./cmd/allocfuzz (.*)$`)
	wrote, ran := 0, 0
	for _, m := range steps.FindAllStringSubmatch(string(text), -1) {
		name, text, line := m[1], m[2], m[3]
		if name != "" {
			wrote++
			text = strings.ReplaceAll(text[len("    "):], "\n    ", "\n")
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ran++
		want := statusClean
		if found[line] {
			want = statusFound
			delete(found, line)
		}
		var out, errs bytes.Buffer
		args := strings.Fields(strings.ReplaceAll(line, "/tmp/", dir+"/"))
		if got := start(args, strings.NewReader(""), &out, &errs); got != want {
			t.Errorf("%s: exit status %d, want %d: %s", line, got, want, errs.String())
		}
	}
	main := filepath.Base(page) == "README.md"
	if main && (wrote < 3 || ran < 10) || ran < 1 || len(found) > 0 {
		t.Errorf("%d programs and %d commands, and without %v: the page or this test is "+
			"another than it was", wrote, ran, found)
	}
}

// TestSubjectTable: the README's table names every subject, with its row and whether it is
// sound, and nothing else.
func TestSubjectTable(t *testing.T) {
	page, _ := readme(t)
	_, page, _ = strings.Cut(page, "| subject | row | design | |\n")
	page, _, _ = strings.Cut(page, "\n\n")
	quoted := regexp.MustCompile("`([^`]+)`")
	named := map[string]bool{}
	for _, line := range strings.Split(page, "\n")[1:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) == 3 { // a subject without a row
			cells = []string{cells[0], "", cells[1], cells[2]}
		}
		names, _, _ := strings.Cut(cells[0], " (")
		for _, m := range quoted.FindAllStringSubmatch(names, -1) {
			v, ok := all.Lookup(m[1])
			if !ok {
				t.Errorf("%s is no subject", m[1])
				continue
			}
			named[v.Name] = true
			row := strings.ReplaceAll(v.Row, "S2c, S2d, S2e, S2f, S2g", "S2c–S2g")
			if row != cells[1] || strings.HasPrefix(cells[3], "sound") != v.Sound {
				t.Errorf("%s: got row %q and %q, want %q and sound: %v", v.Name, cells[1],
					cells[3], row, v.Sound)
			}
		}
	}
	for _, v := range all.Variants() {
		if !named[v.Name] {
			t.Errorf("the table does not name %s", v.Name)
		}
	}
}
