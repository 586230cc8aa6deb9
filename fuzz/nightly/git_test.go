package nightly

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/regress"
)

// repository makes a repository with one commit, in a folder with an odd name.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	root := filepath.Join(t.TempDir(), "ein Ordner ü")
	if err := os.MkdirAll(filepath.Join(root, regress.Folder), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, kv := range [][2]string{{"AUTHOR_NAME", "Night"}, {"AUTHOR_EMAIL", "night@example.com"},
		{"COMMITTER_NAME", "Night"}, {"COMMITTER_EMAIL", "night@example.com"},
		{"CONFIG_GLOBAL", os.DevNull}, {"CONFIG_NOSYSTEM", "1"}} {
		t.Setenv("GIT_"+kv[0], kv[1])
	}
	write(t, filepath.Join(root, "file"), "text\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."},
		{"commit", "-q", "-m", "first"}} {
		run(t, root, args...)
	}
	return root
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, root string, args ...string) string {
	t.Helper()
	out, err := git(t.Context(), root, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// regression is one of a subject with a title.
func regression(t *testing.T, subject, title string) (*prog.Program, *engine.Finding) {
	t.Helper()
	p, err := prog.ParseString("allocfuzz 1\ncpu0 a = malloc 8\n")
	if err != nil {
		t.Fatal(err)
	}
	f := &engine.Finding{Subject: subject, Title: title, Class: "structure",
		Identity: subject + ": " + title + " in malloc", Also: []string{"pages leaked"}}
	made, err := regress.Make(p, f, regress.Meta{Found: "a test", Date: "2026-12-01"})
	if err != nil {
		t.Fatal(err)
	}
	return made, f
}

// TestCommits: each bug is one commit on the branch, also when it is filed twice and when the
// worktree of a night that was killed is in the way; what the user has checked out stays.
func TestCommits(t *testing.T) {
	root := repository(t)
	head := run(t, root, "rev-parse", "HEAD")
	const name = BranchPrefix + "2026-12-01"
	p, f := regression(t, "slub-2008-seq", "slab lost")
	q, g := regression(t, "slab-percpu", "inuse wrong")
	first := ""
	for night := range 3 {
		tmp := t.TempDir()
		b, err := newBranch(t.Context(), root, name, tmp)
		if err != nil {
			t.Fatal(err)
		}
		file, commit, err := b.add(t.Context(), p, f)
		if err != nil || file != filepath.Join(regress.Folder, "slub-2008-seq-slab-lost.prog") {
			t.Fatalf("night %d: %s, error %v", night, file, err)
		}
		if first == "" {
			first = commit
		}
		if commit != first {
			t.Errorf("night %d: the same is commit %s, and was %s", night, commit, first)
		}
		if night == 1 {
			if _, other, err := b.add(t.Context(), q, g); err != nil || other == first {
				t.Errorf("another bug is commit %s, error %v", other, err)
			}
		}
		if night == 2 {
			b.close()
		} else if err := os.RemoveAll(tmp); err != nil { // a night that was killed leaves no word
			t.Fatal(err)
		}
	}
	if n := run(t, root, "rev-list", "--count", "main.."+name); n != "2" {
		t.Errorf("%s commits of two bugs", n)
	}
	message := run(t, root, "log", "-1", "--format=%B", first)
	if !strings.HasPrefix(message, "corpus/regress: slub-2008-seq: slab lost in malloc\n") {
		t.Errorf("message %q", message)
	}
	if run(t, root, "rev-parse", "HEAD") != head || run(t, root, "status", "--porcelain") != "" ||
		run(t, root, "branch", "--show-current") != "main" {
		t.Error("the checkout is not as it was")
	}
	if n := strings.Count(run(t, root, "worktree", "list"), "\n"); n != 0 {
		t.Errorf("%d worktrees are left", n)
	}
	known, err := branchExpectations(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{"slab lost", "pages leaked"} {
		if _, ok := known.Find("slub-2008-seq", title); !ok {
			t.Errorf("%s on the branch is not known", title)
		}
	}
	if _, ok := known.Find("slab-percpu", "slab lost"); ok {
		t.Error("known of a subject that does not show it")
	}
}

// TestNoCommits: a checkout with changes is refused with their names, and so is none at all.
func TestNoCommits(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "new"), "")
	write(t, filepath.Join(root, "file"), "other\n")
	_, err := newBranch(t.Context(), root, BranchPrefix+"x", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "?? new") ||
		!strings.Contains(err.Error(), " M file") {
		t.Errorf("a dirty tree: %v", err)
	}
	if _, err := newBranch(t.Context(), t.TempDir(), BranchPrefix+"x", t.TempDir()); err == nil {
		t.Error("a folder without a repository took a branch")
	}
	if k, err := branchExpectations(t.Context(), t.TempDir(), t.TempDir()); err != nil ||
		len(k.Text()) > 0 {
		t.Errorf("a folder without a repository expects %s, error %v", k.Text(), err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = newBranch(t.Context(), root, BranchPrefix+"x", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "no git in PATH") {
		t.Errorf("without git: %v", err)
	}
}
