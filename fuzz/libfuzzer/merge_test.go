package libfuzzer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/fuzz"
)

// envFake makes the test binary something that merges as libFuzzer does: an input whose first
// letter it has seen covers nothing new, and one that begins with d ends the process.
const envFake = "ALLOCFUZZ_TEST_MERGES"

func TestMain(m *testing.M) {
	fake := os.Getenv(envFake)
	switch {
	case fake != "" && slices.Contains(os.Args, "-merge=1"):
		fakeMerge()
		return
	case fake != "":
		fakeFuzz(fake)
	}
	os.Exit(m.Run())
}

func fakeMerge() {
	control := ""
	var dirs []string
	for _, arg := range os.Args[1:] {
		if name, ok := strings.CutPrefix(arg, "-merge_control_file="); ok {
			control = name
		} else if !strings.HasPrefix(arg, "-") {
			dirs = append(dirs, arg)
		}
	}
	if os.Getenv(fuzz.EnvGoOn) == "" {
		fmt.Println("a finding would end the merge")
		os.Exit(1)
	}
	var names, lines []string
	seen, fresh := map[byte]bool{}, 0
	for i, dir := range dirs {
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			lines = append(lines, fmt.Sprintf("STARTED %d %d", len(names), len(text)))
			if text[0] != 'd' {
				lines = append(lines, fmt.Sprintf("FT %d 1 2", len(names)),
					fmt.Sprintf("COV %d", len(names)))
			}
			names = append(names, filepath.Join(dir, e.Name()))
			if i == 1 && text[0] != 'd' && !seen[text[0]] {
				fresh++
				_ = os.WriteFile(filepath.Join(dirs[0], fmt.Sprintf("hash%d", fresh)), text, 0o666)
			}
			seen[text[0]] = true
		}
	}
	text := fmt.Sprintf("%d\n0\n%s\n%s\n", len(names), strings.Join(names, "\n"),
		strings.Join(lines, "\n"))
	_ = os.WriteFile(control, []byte(text), 0o666)
	fmt.Printf("MERGE-OUTER: %d new files with %d new features added; 1 new coverage edges\n",
		fresh, 2*fresh)
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files { //tidy:maporder files do not touch each other
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMerge: what is kept and what dies is told by the names it was offered by, and neither folder
// is written to.
func TestMerge(t *testing.T) {
	t.Setenv(envFake, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	have := folder(t, map[string]string{"h": "a"})
	offered := folder(t, map[string]string{"1": "a, known", "2": "b", "3": "dies", "4": "b again",
		"5": "c", "6": "c"})
	m, err := Merge(t.Context(), self, have, offered, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Kept, []string{"2", "5"}) || !slices.Equal(m.Dead, []string{"3"}) ||
		m.Features != 4 {
		t.Errorf("%+v, want 2 and 5 kept, 3 dead, 4 features", m)
	}
	for dir, want := range map[string]int{have: 1, offered: 6} { //tidy:maporder independent
		if list, err := os.ReadDir(dir); err != nil || len(list) != want {
			t.Errorf("%s has %v, error %v", dir, list, err)
		}
	}
	_, err = Merge(t.Context(), filepath.Join(have, "h"), have, offered, t.TempDir())
	if err == nil {
		t.Error("a binary that does not run is no error")
	}
}

// TestDead: what was begun and not finished in any attempt is dead, and a control file of another
// form is an error.
func TestDead(t *testing.T) {
	text := "3\n1\nin/a\nin/b\nin/c\nSTARTED 0 5\nFT 0\nCOV 0\nSTARTED 1 7\nSTARTED 2 9\n" +
		"FT 2 7 8\n"
	if got, err := dead(strings.NewReader(text)); err != nil || !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q, error %v, want b", got, err)
	}
	for _, text := range []string{"", "x\n", "3\n1\na\n", "1\n0\na\nSTARTED 1 5\n",
		"1\n0\na\nhm\n"} {
		if got, err := dead(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

// TestReal: the binary of a target, under clang where that is there, keeps inputs that cover the
// same as all, and fewer.
func TestReal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary")
	}
	clang, err := Clang()
	if err != nil {
		t.Skip(err)
	}
	b := Build{Root: "../..", Dir: t.TempDir(), Clang: clang}
	if err := Links(t.Context(), clang, b.Dir); err != nil {
		t.Skip(err)
	}
	bin, err := b.Target(t.Context(), "FuzzInterrupts")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for i, data := range fuzz.Seeds(false) {
		files[fmt.Sprintf("%04d", i)] = string(data)
	}
	offered, empty := folder(t, files), t.TempDir()
	all, err := Merge(t.Context(), bin, empty, offered, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Kept) == 0 || len(all.Kept) >= len(files) || len(all.Dead) > 0 ||
		all.Features < 100 {
		t.Fatalf("%d of %d kept, %d dead, %d features", len(all.Kept), len(files), len(all.Dead),
			all.Features)
	}
	small := map[string]string{}
	for _, name := range all.Kept {
		small[name] = files[name]
	}
	kept := folder(t, small)
	again, err := Merge(t.Context(), bin, empty, kept, t.TempDir())
	if err != nil || again.Features != all.Features {
		t.Errorf("what is kept covers %d features, all cover %d; error %v", again.Features,
			all.Features, err)
	}
	rest, err := Merge(t.Context(), bin, kept, offered, t.TempDir())
	if err != nil || len(rest.Kept) != 0 {
		t.Errorf("%d of all cover something else, error %v", len(rest.Kept), err)
	}
}
