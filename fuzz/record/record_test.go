package record

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/corpus/trace"
)

var cache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "record-test-")
	if err != nil {
		panic(err)
	}
	cache = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build compiles a C program of the test's, or skips where that cannot be done.
func build(t *testing.T, source string, flags ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("recording works on Linux only")
	}
	compiler, err := Compiler()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	if err := os.WriteFile(in, []byte(heads+source), 0o666); err != nil {
		t.Fatal(err)
	}
	args := append(compiler[1:], "-O0", "-fno-builtin", "-pthread", "-w", "-o", out, in)
	text, err := exec.Command(compiler[0], append(args, flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

const heads = `#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
`

// record runs a program, with room for so many records.
func record(t *testing.T, room int, command ...string) *Recording {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said bytes.Buffer
	r, err := Run(ctx, Options{Command: command, Folder: cache, Records: room, Stdout: &said,
		Stderr: &said})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if said.Len() > 0 {
		t.Errorf("it said %q", said.String())
	}
	return r
}

// program imports a recording.
func program(t *testing.T, r *Recording) (string, trace.Result) {
	t.Helper()
	in, err := r.Reader()
	if err != nil {
		t.Fatal(err)
	}
	p, res, err := trace.Program("", in, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(prog.Format(p)), "\n\n")
	return lines, res
}

// between is what a program does between two allocations of 7777 bytes: what the C library does
// before and behind is its own.
func between(t *testing.T, lines string) string {
	t.Helper()
	parts := regexp.MustCompile(`(?m)^.* = malloc 7777\n`).Split(lines, -1)
	if len(parts) != 3 {
		t.Fatalf("%d marks, want 2:\n%s", len(parts)-1, lines)
	}
	return renamed(parts[1])
}

// renamed gives the objects of a program's part the names b0, b1, … in order.
func renamed(lines string) string {
	names := map[string]string{}
	return regexp.MustCompile(`\ba[0-9]+\b`).ReplaceAllStringFunc(lines, func(a string) string {
		if names[a] == "" {
			names[a] = "b" + string(rune('0'+len(names)))
		}
		return names[a]
	})
}

func TestEveryFunction(t *testing.T) {
	r := record(t, 1000, build(t, `int main(void) {
		malloc(7777);
		char *a = malloc(10), *b = calloc(3, 5);
		a = realloc(a, 1000);
		free(a);
		a = realloc(NULL, 20);
		free(NULL);
		b = reallocarray(b, 4, 100);
		void *c = 0;
		if (malloc_usable_size(b) < 400) return 1;
		if (fcntl(3, F_GETFD) >= 0) return 5; // one of the recorder's
		if (posix_memalign(&c, 64, 30) || (uintptr_t)c % 64) return 2;
		void *d = aligned_alloc(128, 256), *e = memalign(32, 5), *f = valloc(6), *g = pvalloc(6);
		if ((uintptr_t)d % 128 || (uintptr_t)e % 32 || (uintptr_t)g % 4096) return 3;
		free(c);
		free(g);
		a = realloc(a, 0);
		if (malloc(SIZE_MAX / 4) || calloc(SIZE_MAX / 2, 3) || posix_memalign(&c, 3, 1) == 0 ||
			reallocarray(b, SIZE_MAX / 2, 3) || realloc(b, SIZE_MAX / 4)) return 4;
		free(b);
		malloc(7777);
		return 0;
	}`))
	lines, res := program(t, r)
	const want = `cpu0 b0 = malloc 10
cpu0 b1 = calloc 3 5
cpu0 b2 = realloc b0 1000
cpu0 free b2
cpu0 b2 = malloc 20
cpu0 b0 = realloc b1 400
cpu0 b1 = memalign 64 30
cpu0 b3 = memalign 128 256
cpu0 b4 = memalign 32 5
cpu0 b5 = memalign 4096 6
cpu0 b6 = memalign 4096 4096
cpu0 free b1
cpu0 free b6
cpu0 free b2
cpu0 free b0
`
	if got := between(t, lines); got != want {
		t.Errorf("recorded\n%swant\n%s", got, want)
	}
	if r.Ended != "" || res.Skipped[trace.Failed] != 4 || res.SkippedOperations() != 4 ||
		r.Head.Threads != 1 || r.Head.Lost != 0 {
		t.Errorf("%q, %+v, %+v", r.Ended, r.Head, res)
	}
}

// Threads hand memory to each other as fast as they can. The order is right when no address is
// handed out while it is live, and nothing is freed that is not.
func TestThreads(t *testing.T) {
	r := record(t, 1<<20, build(t, `
	static void *_Atomic slots[64];
	static void *work(void *arg) {
		unsigned seed = (uintptr_t)arg;
		for (int i = 0; i < 20000; i++) {
			seed = seed * 1103515245 + 12345;
			void *p = malloc(seed >> 16 & 63);
			if (seed >> 30 == 1) p = realloc(p, seed >> 20 & 127 | 1);
			free(__atomic_exchange_n(&slots[seed >> 8 & 63], p, __ATOMIC_SEQ_CST));
		}
		return NULL;
	}
	int main(void) {
		pthread_t t[4];
		for (intptr_t i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
		for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
		return 0;
	}`))
	lines, res := program(t, r)
	if res.SkippedOperations() > 0 || len(res.Warnings) > 0 {
		t.Errorf("left out %d: %v", res.SkippedOperations(), res.Warnings)
	}
	if n := strings.Count(lines, "malloc"); n < 80000 || r.Head.Threads != 5 {
		t.Errorf("%d allocations of %d threads, want 80000 of 5", n, r.Head.Threads)
	}
}

// While a resize runs, the memory before it may be another thread's already. The allocator behind
// the recorder makes it so.
func TestResizeOrder(t *testing.T) {
	p := build(t, `
	static void *other(void *arg) { return malloc(4242); }
	int main(void) {
		malloc(7777);
		pthread_t t;
		void *p = malloc(10);
		pthread_create(&t, 0, other, 0);
		free(realloc(p, 11));
		pthread_join(t, 0);
		malloc(7777);
		return 0;
	}`)
	lib := build(t, `
	static _Alignas(16) char heap[1 << 20];
	static size_t used;
	static void *_Atomic given;
	static void *fresh(size_t n) {
		return heap + __atomic_fetch_add(&used, (n + 31) / 16 * 16, __ATOMIC_SEQ_CST);
	}
	void *malloc(size_t n) {
		if (n != 4242) return fresh(n);
		while (!given) ;
		return given;
	}
	void free(void *p) {}
	void *calloc(size_t m, size_t n) { return fresh(m * n); }
	void *realloc(void *p, size_t n) {
		given = p;
		usleep(20000); // for the other to be recorded; it changes no outcome that is right
		return fresh(n);
	}`, "-shared", "-fPIC")
	if _, err := Shim(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_PRELOAD", lib)
	lines, res := program(t, record(t, 1000, p))
	got := between(t, lines)
	for _, want := range []string{"b0 = malloc 10\n", " = malloc 4242\n", " = realloc b0 11\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if len(res.Warnings) > 0 {
		t.Errorf("warnings %v", res.Warnings)
	}
}

// What a child does is not recorded, whether by fork, by vfork and exec, or by a program that it
// becomes.
func TestFork(t *testing.T) {
	r := record(t, 1000, build(t, `int main(int n, char **args) {
		if (n > 1) { malloc(333); return 0; }
		malloc(7777);
		if (!fork()) {
			free(malloc(111));
			if (!fork()) { malloc(222); _exit(0); }
			wait(0);
			execl(args[0], args[0], "child", NULL);
		}
		wait(0);
		if (!vfork()) execl(args[0], args[0], "child", NULL);
		wait(0);
		free(malloc(55));
		malloc(7777);
		return 0;
	}`))
	lines, _ := program(t, r)
	if got := between(t, lines); got != "cpu0 b0 = malloc 55\ncpu0 free b0\n" {
		t.Errorf("recorded\n%s", got)
	}
}

// A program that becomes another is recorded from there on.
func TestExec(t *testing.T) {
	r := record(t, 1000, build(t, `int main(int n, char **args) {
		malloc(n);
		if (n < 4) execl(args[0], args[0], "x", n > 1 ? "y" : NULL, n > 2 ? "z" : NULL, NULL);
		return 0;
	}`))
	lines, res := program(t, r)
	if res.SkippedOperations() > 0 || !strings.HasSuffix(lines, " = malloc 4\n") ||
		strings.Contains(lines, "malloc 1\n") || r.Head.Execs != 3 {
		t.Errorf("%d programs before the last, recorded\n%s", r.Head.Execs, lines)
	}
}

// What was recorded stays, whatever the end.
func TestEndings(t *testing.T) {
	p := build(t, `int main(int n, char **args) {
		malloc(7777);
		free(malloc(99));
		malloc(7777);
		for (int fd = 0; fd < 1000; fd++) close(fd);
		free(malloc(98));
		switch (args[1][0]) {
		case 'k': raise(SIGKILL);
		case 's': *(volatile int *)16 = 1;
		case '_': _exit(5);
		}
		return 3;
	}`)
	for how, want := range map[string]string{"kill": "ended by signal: killed",
		"segv": "ended by signal: segmentation fault", "_exit": "ended with status 5",
		"return": "ended with status 3"} {
		r := record(t, 1000, p, how)
		lines, _ := program(t, r)
		if !strings.HasPrefix(r.Ended, want) {
			t.Errorf("%s: %q, want %q", how, r.Ended, want)
		}
		if got := between(t, lines); got != "cpu0 b0 = malloc 99\ncpu0 free b0\n" ||
			!strings.Contains(lines, "malloc 98") {
			t.Errorf("%s: recorded\n%s", how, lines)
		}
	}
}

// A signal may come anywhere, in the recorder too, and its handler allocate. The allocator behind
// the recorder must bear it, so it is one that does.
func TestSignals(t *testing.T) {
	p := build(t, `
	static volatile int done;
	static int handled;
	static void handle(int s) { handled++; free(realloc(malloc(5), 6)); }
	static void *kick(void *main) {
		while (!done) pthread_kill(*(pthread_t *)main, SIGUSR1);
		return NULL;
	}
	int main(void) {
		pthread_t t, self = pthread_self();
		signal(SIGUSR1, handle);
		pthread_create(&t, 0, kick, &self);
		for (int i = 0; i < 20000; i++) free(realloc(malloc(9), 10));
		while (handled < 1000) ;
		done = 1;
		pthread_join(t, 0);
		raise(SIGUSR1);
		return 0;
	}`)
	lib := build(t, `
	static _Alignas(16) char heap[1 << 28];
	static size_t used;
	void *malloc(size_t n) {
		size_t at = __atomic_fetch_add(&used, (n + 31) / 16 * 16, __ATOMIC_SEQ_CST);
		*(size_t *)(heap + at) = n;
		return heap + at + 16;
	}
	void free(void *p) {}
	void *calloc(size_t m, size_t n) { return malloc(m * n); }
	void *realloc(void *p, size_t n) {
		void *q = malloc(n);
		size_t old = ((size_t *)p)[-2];
		return memcpy(q, p, old < n ? old : n);
	}`, "-shared", "-fPIC")
	if _, err := Shim(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_PRELOAD", lib)
	r := record(t, 1<<22, p)
	lines, res := program(t, r)
	if n := strings.Count(lines, "malloc 9\n"); n != 20000 || res.SkippedOperations() > 0 ||
		!strings.Contains(lines, "malloc 5\n") || len(res.Warnings) > 0 {
		t.Errorf("%d allocations, %+v, %q", n, res, r.Ended)
	}
}

// A recording that is full says how much it lost.
func TestFull(t *testing.T) {
	r := record(t, 50, build(t, `int main(void) {
		for (int i = 0; i < 500; i++) malloc(1);
		return 0;
	}`))
	_, res := program(t, r)
	if res.Operations != 50 || r.Head.Records != 50 || r.Head.Lost < 450 {
		t.Errorf("%+v, %+v", r.Head, res)
	}
}

func TestRefused(t *testing.T) {
	dynamic := build(t, "int main(void) { return 0; }")
	dir := filepath.Dir(dynamic)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct{ name, command, want string }{
		{"missing", filepath.Join(dir, "nosuch"), "no command of this name can be run"},
		{"a folder", dir, "no command of this name can be run"},
		{"no program", write("text", "hello"), "no ELF program and no script"},
		{"script of none", write("s1", "#!\n"), "first line names no program"},
		{"script of itself", write("s2", "#!"+filepath.Join(dir, "s2")+"\n"), "more than 4 deep"},
		{"static", build(t, "int main(void) { return 0; }", "-static"), "is statically linked"},
	}
	for _, test := range tests {
		_, err := Run(t.Context(), Options{Command: []string{test.command}, Folder: cache,
			Records: 10})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	r := record(t, 1000, write("s3", "#!"+dynamic+"\n"))
	if r.Head.PID == 0 {
		t.Error("a script is not recorded")
	}
}

// A program with the bit and another's rights is refused before it runs; the owner's is not.
func TestPrivileged(t *testing.T) {
	p := build(t, "int main(void) { return 0; }")
	if err := os.Chmod(p, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if privileged(p) {
		t.Error("one's own program is refused")
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a program to another")
	}
	if err := os.Chown(p, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), Options{Command: []string{p}, Folder: cache, Records: 10})
	if err == nil || !strings.Contains(err.Error(), "is set-user-ID or set-group-ID") {
		t.Errorf("%v", err)
	}
}

func TestNoCompiler(t *testing.T) {
	t.Setenv("CC", "nosuch-cc -m64")
	_, err := Shim(t.Context(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "no C compiler: nosuch-cc is not found") ||
		!strings.Contains(err.Error(), "$CC") {
		t.Errorf("%v", err)
	}
	t.Setenv("CC", "false")
	if _, err := exec.LookPath("false"); err != nil {
		t.Skip("no command that fails")
	}
	dir := t.TempDir()
	_, err = Shim(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "cannot compile the recorder") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

// The recorder is compiled once, without a warning.
func TestShimKept(t *testing.T) {
	build(t, "int main(void) { return 0; }")
	dir := t.TempDir()
	first, err := Shim(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first, []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	second, err := Shim(t.Context(), dir)
	if text, _ := os.ReadFile(second); err != nil || string(text) != "kept" || second != first {
		t.Errorf("%s, then %s, %v: %q", first, second, err, text)
	}
	t.Setenv("CC", "nosuch-cc")
	if third, err := Shim(t.Context(), dir); err != nil || third != first {
		t.Errorf("without a compiler: %s, %v, want %s", third, err, first)
	}
	t.Setenv("CC", "")
	compiler, _ := Compiler()
	args := append(append(compiler[1:], flags...), "-Wall", "-Wextra", "-Werror", "-o",
		filepath.Join(dir, "x.so"), "c/shim.c", "-ldl")
	if text, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// A command that does not end is ended when the context is.
func TestStopped(t *testing.T) {
	p := build(t, `int main(void) {
		malloc(7777);
		write(1, "x", 1);
		for (;;) pause();
	}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := Run(ctx, Options{Command: []string{p}, Folder: cache, Records: 1000,
		Stdout: stopper(cancel)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if lines, _ := program(t, r); r.Ended != "ended by signal: terminated" ||
		!strings.Contains(lines, "malloc 7777") {
		t.Errorf("%q, recorded\n%s", r.Ended, lines)
	}
}

// A stopper cancels when it is written to.
type stopper context.CancelFunc

func (s stopper) Write(b []byte) (int, error) { s(); return len(b), nil }
