package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/fault"
)

var update = flag.Bool("update", false, "write docs/checks.md anew")

// checksPage is the page of every class of checks and every title, made of the one table.
func checksPage() []byte {
	b := &bytes.Buffer{}
	b.WriteString(`# Every check and every title

What a finding is called, and what that means. The table is that of impls/fault; a test holds
this page against it, and writes it anew when asked to:

    go test ./cmd/allocfuzz -run TestChecksPage -update

A class of checks can be switched off by its name, which shows what it is worth:

    go run ./cmd/allocfuzz replay --checks=-structure,-history corpus/seeds/alloc-free.prog
`)
	class := ""
	for _, e := range fault.Titles() {
		if c := e.Rule.String(); c != class {
			class = c
			about := e.Rule.About()
			fmt.Fprintf(b, "\n## %s\n\n%s%s.\n\n| title | means |\n|---|---|\n", class,
				strings.ToUpper(about[:1]), about[1:])
		}
		fmt.Fprintf(b, "| %s | %s |\n", e.Title, e.Means)
	}
	return b.Bytes()
}

// TestChecksPage: the page has every title, with what it means.
func TestChecksPage(t *testing.T) {
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	name, want := filepath.Join(root, "docs", "checks.md"), checksPage()
	if *update {
		if err := os.WriteFile(name, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("docs/checks.md is stale (%v): -update writes it anew", err)
	}
	if n := strings.Count(string(want), "\n## "); n < 6 {
		t.Errorf("%d classes", n)
	}
}

// TestHelpFiles: the programs of the corpus that the help of a command names are there.
func TestHelpFiles(t *testing.T) {
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	file, seen := regexp.MustCompile(`corpus/[a-z0-9/-]+\.prog`), 0
	a := &app{in: strings.NewReader(""), out: bufio.NewWriter(io.Discard), err: io.Discard}
	for todo := []*cobra.Command{a.root()}; len(todo) > 0; todo = todo[1:] {
		c := todo[0]
		todo = append(todo, c.Commands()...)
		for _, name := range file.FindAllString(c.Long+c.Example, -1) {
			seen++
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", c.CommandPath(), err)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d files are named", seen)
	}
}
