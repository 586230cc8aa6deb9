package libfuzzer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"allocfuzz/fuzz"
)

// Merged is what merging gave, by the names of files.
type Merged struct {
	Kept     []string // of the offered ones: each covers something new
	Dead     []string // of all: they end the process that runs them, or do not return
	Features int      // that the kept ones added
}

// Merge has a target's binary say which files of the folder offered cover something that the files
// of have do not, and others of offered do not; have may be empty. It writes to neither: work is a
// folder of its own. What inputs find is no matter.
func Merge(ctx context.Context, bin, have, offered, work string) (*Merged, error) {
	into, control := filepath.Join(work, "merged"), filepath.Join(work, "control")
	if err := os.CopyFS(into, os.DirFS(have)); err != nil {
		return nil, err
	}
	args := []string{"-merge=1", "-merge_control_file=" + control, "-timeout=15",
		"-rss_limit_mb=8192", into, offered}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), fuzz.EnvGoOn+"=1", fuzz.EnvStats+"=",
		fuzz.EnvFindings+"="+filepath.Join(work, "findings"))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s -merge=1: %w\n%s", bin, err, tail(out))
	}
	return read(out, have, into, offered, control)
}

// tail is the end of what a process said.
func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

// total is how a merge ends.
var total = regexp.MustCompile(`MERGE-OUTER: (\d+) new files with (\d+) new features added`)

// read reads what a merge left behind.
func read(out []byte, have, into, offered, control string) (*Merged, error) {
	m := &Merged{}
	sum := total.FindSubmatch(out)
	if sum == nil {
		return nil, fmt.Errorf("libFuzzer did not say how the merge ended:\n%s", tail(out))
	}
	m.Features, _ = strconv.Atoi(string(sum[2])) // digits
	f, err := os.Open(control)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if m.Dead, err = dead(f); err != nil {
		return nil, fmt.Errorf("libFuzzer's control file: %w", err)
	}
	fresh, err := contents(into, have)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(offered)
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(offered, e.Name()))
		if err != nil {
			return nil, err
		}
		if fresh[string(text)] {
			delete(fresh, string(text)) // the same twice is one
			m.Kept = append(m.Kept, e.Name())
		}
	}
	if len(fresh) > 0 {
		return nil, fmt.Errorf("libFuzzer kept %d inputs that nobody offered", len(fresh))
	}
	return m, err
}

// contents are the contents of the files of a folder that are not in another by their names.
func contents(dir, but string) (map[string]bool, error) {
	list, err := os.ReadDir(dir)
	out := map[string]bool{}
	for _, e := range list {
		if _, err := os.Lstat(filepath.Join(but, e.Name())); err == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out[string(text)] = true
	}
	return out, err
}

// dead are the files of a control file that were started and never finished. It begins with the
// number of all files, the number of those there before, and their names; a line STARTED i follows
// for each that was begun, and FT i with its features when it was over.
func dead(r io.Reader) ([]string, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<24)
	number := func() int {
		n := -1
		if in.Scan() {
			n, _ = strconv.Atoi(in.Text())
		}
		return n
	}
	n := number()
	if number() < 0 || n < 0 {
		return nil, errors.New("expected two numbers")
	}
	names := make([]string, 0, n)
	for range n {
		if !in.Scan() {
			return nil, errors.New("fewer names than it says")
		}
		names = append(names, filepath.Base(in.Text()))
	}
	open := map[string]bool{}
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		first, _, _ := strings.Cut(rest, " ")
		i, err := strconv.Atoi(first)
		if err != nil || i < 0 || i >= n {
			return nil, fmt.Errorf("line %q", in.Text())
		}
		switch word {
		case "STARTED":
			open[names[i]] = true
		case "FT":
			delete(open, names[i])
		}
	}
	var out []string
	for name := range open { //tidy:maporder sorted below
		out = append(out, name)
	}
	slices.Sort(out)
	return out, in.Err()
}
