package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz/engine"
)

// TestDetectionTable: the README's table of misuse is what the command above it prints.
func TestDetectionTable(t *testing.T) {
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const command = "\n    go run ./cmd/allocfuzz "
	_, after, ok := strings.Cut(string(page), command+"subjects --misuse")
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
