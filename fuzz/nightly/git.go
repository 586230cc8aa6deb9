package nightly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/regress"
)

// BranchPrefix is how branches of nights are called; a date follows.
const BranchPrefix = "nightly/"

// A branch takes commits, one a bug, in a worktree of its own: the user's files, index and branch
// stay as they are. Nothing is ever pushed.
type branch struct {
	root, name, tree string
	prefix           string // from the top of the repository to the sources
}

// ofRepository says whether a variable of the environment makes git work on another repository than
// that of its folder, as those do that a hook is started with.
func ofRepository(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX",
		"GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES"}, name)
}

// git runs git in a folder and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), ofRepository), "GIT_TERMINAL_PROMPT=0")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err,
			bytes.TrimSpace(errs.Bytes()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// newBranch makes the branch from what is checked out at root, or takes it up. A checkout with
// changes is refused, since what was tested would not be what was committed on.
func newBranch(ctx context.Context, root, name, tmp string) (*branch, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, errors.New("--commit: no git in PATH: install it, or leave --commit out")
	}
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, fmt.Errorf("--commit: %w", err)
	}
	if changed != "" {
		return nil, fmt.Errorf("--commit: the checkout has changes: commit them, put them aside, "+
			"or leave --commit out\n%s", changed)
	}
	if _, err := git(ctx, root, "var", "GIT_COMMITTER_IDENT"); err != nil {
		return nil, fmt.Errorf("--commit: %w", err)
	}
	prefix, err := git(ctx, root, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, fmt.Errorf("--commit: %w", err)
	}
	b := &branch{root: root, name: name, tree: filepath.Join(tmp, "tree"), prefix: prefix}
	if _, err := git(ctx, root, "worktree", "prune"); err != nil { // of a night that was killed
		return nil, err
	}
	// Twice --force: also over one that was half made and is locked. It is this night's own folder.
	args := []string{"worktree", "add", "--quiet", "--force", "--force", b.tree, name}
	_, err = git(ctx, root, "rev-parse", "--verify", "--quiet", "refs/heads/"+name)
	if err != nil {
		args = []string{"worktree", "add", "--quiet", "--force", "--force", "-b", name, b.tree,
			"HEAD"}
	}
	if _, err := git(ctx, root, args...); err != nil {
		return nil, fmt.Errorf("--commit: %w", err)
	}
	return b, nil
}

// add commits a regression. One whose text is committed already makes no commit; the name of the
// one that has it is returned.
func (b *branch) add(ctx context.Context, p *prog.Program, f *engine.Finding) (file, commit string,
	err error) {
	at, err := regress.Write(filepath.Join(b.tree, b.prefix, regress.Folder), p, f)
	if err != nil {
		return "", "", err
	}
	file, err = filepath.Rel(b.tree, at)
	if err != nil {
		return "", "", err
	}
	if _, err := git(ctx, b.tree, "add", "--", file); err != nil {
		return file, "", err
	}
	if _, err := git(ctx, b.tree, "diff", "--cached", "--quiet", "--", file); err != nil {
		message := fmt.Sprintf("corpus/regress: %s\n\n%s.\nClass %s, %s; the program is minimised "+
			"and replays strictly.\n", f.Identity, p.Head.Found, f.Class, p.Head.Date)
		// Hooks and signatures are for people: nobody is there to be asked.
		if _, err := git(ctx, b.tree, "-c", "commit.gpgsign=false", "commit", "--quiet",
			"--no-verify", "-m", message, "--", file); err != nil {
			return file, "", err
		}
	}
	commit, err = git(ctx, b.tree, "log", "-n", "1", "--format=%h", "--", file)
	return file, commit, err
}

// close takes the worktree away; the branch stays.
func (b *branch) close() {
	_, _ = git(context.Background(), b.root, "worktree", "remove", "--force", b.tree)
}

// branchExpectations are the bugs that regressions on branches of other nights expect.
func branchExpectations(ctx context.Context, root, tmp string) (*fuzz.Known, error) {
	k := &fuzz.Known{}
	if _, err := exec.LookPath("git"); err != nil {
		return k, nil
	}
	if _, err := git(ctx, root, "rev-parse", "HEAD"); err != nil {
		return k, nil // sources without a repository
	}
	names, err := git(ctx, root, "for-each-ref", "--format=%(refname)", "refs/heads/"+BranchPrefix)
	if err != nil || names == "" {
		return k, err
	}
	for _, ref := range strings.Fields(names) {
		files, err := git(ctx, root, "diff", "--name-only", "--relative", "--diff-filter=A", "-z",
			"HEAD..."+ref, "--", regress.Folder)
		if err != nil {
			return k, err
		}
		for _, file := range strings.Split(strings.Trim(files, "\x00"), "\x00") {
			if filepath.Ext(file) != ".prog" {
				continue
			}
			text, err := git(ctx, root, "show", ref+":./"+file)
			if err != nil {
				return k, err
			}
			dir := filepath.Join(tmp, "branches", "regress")
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return k, err
			}
			err = fuzz.WriteLoose(filepath.Join(dir, filepath.Base(file)), []byte(text+"\n"))
			if err != nil {
				return k, err
			}
		}
	}
	return fuzz.Expected(os.DirFS(filepath.Join(tmp, "branches")))
}
