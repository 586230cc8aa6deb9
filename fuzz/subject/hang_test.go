package subject

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allocfuzz/fuzz"
)

// envHang makes TestHang run an allocator that never returns.
const envHang = "ALLOCFUZZ_TEST_HANG"

// stuck is an allocator whose second allocation never returns. It loops where the runtime
// can stop it, also when each access to memory is instrumented.
type stuck struct{ n int }

func (s *stuck) Malloc(n int) []byte {
	if s.n++; s.n > 1 {
		for {
			continue
		}
	}
	return make([]byte, n)
}

func (s *stuck) Free([]byte) {}

// TestHang: an allocator that never returns ends the process with the program that
// hung it, instead of standing still.
func TestHang(t *testing.T) {
	if os.Getenv(envHang) != "" {
		Replay(t, func() any { return &stuck{} }, os.Getenv(envHang))
		return
	}
	file := t.TempDir() + "/two.prog"
	const text = "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 b = malloc 24\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHang$")
	found := t.TempDir()
	cmd.Env = append(os.Environ(), envHang+"="+file, fuzz.EnvLimit+"=100ms",
		fuzz.EnvFindings+"="+found)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("a process with a hung allocator ended well:\n%s", out)
	}
	for _, want := range []string{"TITLE: hung", "cpu0 b = malloc 24", "stuck).Malloc"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	list, err := filepath.Glob(filepath.Join(found, "hung-*.prog"))
	if err != nil || len(list) != 1 {
		t.Fatalf("programs %q, error %v", list, err)
	}
	program := list[0]
	report, err := os.ReadFile(strings.TrimSuffix(program, ".prog") + ".txt")
	want := "TITLE: hung\nCLASS: process\nIDENTITY: hung\nREPLAY: allocfuzz replay " + program +
		"\n\nPROGRAM\n" + text
	if err != nil || string(report) != want {
		t.Errorf("the report is %q, error %v, want %q", report, err, want)
	}
}
