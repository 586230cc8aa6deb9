package minimise_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// envToy makes the test binary a child whose allocator dies in a way of its own, when a program
// has an allocation of 48 bytes behind one of 8.
const envToy = "ALLOCFUZZ_TEST_TOY"

func TestMain(m *testing.M) {
	if how := os.Getenv(envToy); how != "" {
		toy(how)
	}
	os.Exit(m.Run())
}

func toy(how string) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic("allocfuzz: " + err.Error())
	}
	_, rest, eight := strings.Cut(string(text), "malloc 8\n")
	if eight && strings.Contains(rest, "malloc 48\n") {
		die(how)
	}
	fmt.Println(`{"schema": 1}`)
	os.Exit(0)
}

func die(how string) {
	switch how {
	case "hangs":
		time.Sleep(time.Hour)
	case "exits":
		os.Exit(0)
	case "panics":
		panic("on purpose")
	case "killed":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Signal(syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "grows":
		for all := [][]byte{}; ; {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			_ = all
		}
	}
}

// TestChild: a program that ends the process, or never ends, is minimised with one child a try,
// and keeps its way of dying.
func TestChild(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := prog.ParseString("allocfuzz 1\nmachine cpus=2\ncpu0 z = malloc 5\n" +
		"cpu0 a = malloc 8\ncpu0 repeat 3 {\n\tcpu0 x = malloc 48\n\tcpu0 free x\n}\n" +
		"cpu0 free z\ncpu1 y = malloc 48\ncpu1 free y\ncpu0 free a\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "allocfuzz 1\n\ncpu0 a = malloc 8\ncpu0 b = malloc 48\n\n" +
		"sched subject=toy => bug %q\n"
	for how, title := range map[string]fault.Title{"exits": fault.Exited, "panics": fault.Aborted,
		"killed": fault.Killed, "grows": fault.MemoryBlowUp, "hangs": fault.Hung} {
		t.Run(how, func(t *testing.T) {
			if how == "grows" {
				if _, err := os.Stat("/proc/self/statm"); err != nil {
					t.Skip("the memory of a process is seen on Linux only")
				}
			}
			c := &minimise.Child{Path: self, Args: []string{self}, Subject: "toy",
				Env:   append(os.Environ(), envToy+"="+how),
				Limit: 20 * time.Second, Memory: 128 << 20}
			if how == "hangs" {
				c.Limit = 2 * time.Second
				if testing.Short() {
					t.Skip("waits for two seconds a try")
				}
			}
			res, err := minimise.Program(t.Context(), p, minimise.Bug{
				Subject: &impls.Variant{Name: "toy"}, Identity: "toy: " + string(title)},
				minimise.Options{Probe: c.Probe})
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Program.String(); got != fmt.Sprintf(want, title) || !res.Minimal {
				t.Errorf("minimal %v, got\n%s", res.Minimal, got)
			}
			if res.Report.Finding.Title != title || res.Report.Finding.Fault.Detail == "" {
				t.Errorf("finding %+v", res.Report.Finding)
			}
		})
	}
}
