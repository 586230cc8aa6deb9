package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
)

// nightly is the text of the nightly workflow.
func nightly(t *testing.T) (text, root string) {
	t.Helper()
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "nightly.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data), root
}

// TestNightly: the nightly workflow has a job for every target, which ends in time, keeps what it
// made and fails at its end when something new was found.
func TestNightly(t *testing.T) {
	text, _ := nightly(t)
	night, propose, ok := strings.Cut(text, "\n  propose:\n")
	if !ok {
		t.Fatal("no job propose")
	}
	for _, want := range []string{
		"target: [" + strings.Join(fuzz.Entries(), ", ") + "]\n",
		"steps.night.outputs.status == '1'",
		"key: ${{ env.NIGHT }}-${{ github.run_id }}-${{ github.run_attempt }}\n",
	} {
		if !strings.Contains(night, want) {
			t.Errorf("no %q", want)
		}
	}
	last := night[strings.LastIndex(night, "\n      - "):]
	if !strings.Contains(last, "outputs.status == '1'") || !strings.Contains(last, "exit 1\n") {
		t.Errorf("the last step does not fail when something new was found:\n%s", last)
	}
	if strings.Contains(propose, "merge-multiple") {
		t.Error("the regressions of shards are put into one folder: they overwrite each other")
	}
	if strings.Count(text, "upload-artifact@") != strings.Count(text, "overwrite: true") {
		t.Error("an artifact cannot be written when the night is run again")
	}
	limit := number(t, night, `timeout-minutes: (\d+)\n`)
	options := regexp.MustCompile(`type: choice\n +options: \[(.*)\]`).FindStringSubmatch(night)
	if options == nil {
		t.Fatal("hours can be any")
	}
	hours := strings.Split(options[1]+", '"+strconv.Itoa(number(t, night,
		`inputs.hours \|\| '(\d+)'`))+"'", ", ")
	for _, word := range hours {
		const around = 40 // minutes for what stands around the night
		h, err := strconv.Atoi(strings.Trim(word, "'"))
		if err != nil || h*60+around > limit {
			t.Errorf("%s hours in %d minutes, error %v", word, limit, err)
		}
	}
}

func number(t *testing.T, text, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s", pattern)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// files writes files, which are named below a folder.
func files(t *testing.T, dir string, list map[string]string) {
	t.Helper()
	for name, text := range list { //tidy:maporder files do not touch each other
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// shards are the regressions of two shards: one the same, one of the same name, one by itself.
var shards = map[string]string{
	"found/regressions-FuzzSMP-0/a.prog":   "one\n",
	"found/regressions-FuzzSMP-1/a.prog":   "two\n",
	"found/regressions-FuzzDebug-0/b.prog": "b\n",
	"found/regressions-FuzzSMP-1/b.prog":   "b\n",
	"found/regressions-FuzzSMP-1/c c.prog": "c\n",
	"found/regressions-FuzzSMP-1/notes":    "no program\n",
}

// holds compares the files of a folder.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != len(want) {
		t.Errorf("%s has %v, error %v, want %d files", dir, list, err, len(want))
	}
	for name, text := range want { //tidy:maporder each by itself
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %q, error %v, want %q", name, got, err, text)
		}
	}
}

// TestPropose runs the step that proposes regressions, with the commands gh and go replaced: no
// shard overwrites what another found, or what is committed; run again it finds its branch, and a
// pull request is made once.
func TestPropose(t *testing.T) {
	for _, name := range []string{"bash", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	text, root := nightly(t)
	_, script, ok := strings.Cut(text, "      - name: propose the regressions\n")
	_, script, run := strings.Cut(script, "        run: |\n")
	if !ok || !run {
		t.Fatal("no step that proposes")
	}
	gather, err := os.ReadFile(filepath.Join(root, ".github", "gather.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "first")
	files(t, dir, map[string]string{
		"bin/go": "#!/bin/sh\n",
		"bin/gh": "#!/bin/sh\nif [ \"$2\" = create ]; then echo made >> \"$GH_MADE\"; else " +
			"grep -c made \"$GH_MADE\"; fi; true\n",
		"made": "", "gitconfig": "[init]\ndefaultBranch = main\n",
		"first/corpus/regress/a.prog": "committed\n", "first/.github/gather.sh": string(gather),
	})
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("GH_MADE", filepath.Join(dir, "made"))
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "gitconfig"))
	t.Setenv("BRANCH", "nightly/7")
	t.Setenv("BASE", "main")
	bash := func(in, script string) {
		t.Helper()
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", script)
		cmd.Dir = in
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	bash(work, "git init -q --bare ../origin && git init -q && git add . && git -c user.name=a "+
		"-c user.email=a@b commit -qm a && git push -q ../origin HEAD:main && "+
		"git remote add origin ../origin")
	want := map[string]string{"a.prog": "committed\n", "a-2.prog": "one\n", "a-3.prog": "two\n",
		"b.prog": "b\n", "c c.prog": "c\n"}
	more := map[string]string{}
	for i, name := range []string{"second", "third", "fourth"} {
		if i == 2 { // a shard that failed before finds something
			more["found/regressions-FuzzDebug-1/d.prog"] = "d\n"
			want["d.prog"] = "d\n"
		}
		bash(dir, "git clone -q origin "+name)
		work := filepath.Join(dir, name)
		files(t, work, shards)
		files(t, work, more)
		bash(work, script)
		bash(dir, "git clone -q -b nightly/7 origin "+name+"-got")
		holds(t, filepath.Join(dir, name+"-got", "corpus", "regress"), want)
		if made, err := os.ReadFile(filepath.Join(dir, "made")); string(made) != "made\n" {
			t.Errorf("%s: pull requests: %q, error %v", name, made, err)
		}
	}
}
