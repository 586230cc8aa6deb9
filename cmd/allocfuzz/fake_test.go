package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"allocfuzz/fuzz"
)

// fakeGo is a go command that builds nothing: what it is asked for is the test
// binary itself. $FAKE=unbuildable makes it fail.
func fakeGo() {
	if os.Getenv("FAKE") == "unbuildable" {
		fmt.Println("# allocfuzz/impls/slub\nimpls/slub/slab.go:1:1: expected 'package'")
		os.Exit(1)
	}
	for i, arg := range os.Args {
		if arg != "-o" {
			continue
		}
		self, err := os.Executable()
		if err == nil {
			err = os.Symlink(self, os.Args[i+1])
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// fakeFuzz behaves as a fuzz binary does when what $FAKE says happens.
func fakeFuzz() {
	target := ""
	for _, arg := range os.Args {
		if name, ok := strings.CutPrefix(arg, "-test.fuzz=^"); ok {
			target = strings.TrimSuffix(name, "$")
		}
	}
	fmt.Println("fuzz: elapsed: 0s, gathering baseline coverage: 3/3 completed, " +
		"now fuzzing with 2 workers")
	fmt.Println("fuzz: elapsed: 1s, execs: 1200 (1200/sec), new interesting: 7 (total: 20)")
	fakeStats(target)
	switch os.Getenv("FAKE") {
	case "found":
		fakeFinding("long", "cpu0 p = malloc 10\ncpu0 q = malloc 10\n")
		fakeFinding("short", "cpu0 p = malloc 10\n")
		fakeKnown(target)
	case "aba":
		fakeABA()
	case "held":
		untilEnded()
		fail("interrupted")
	case "shown":
		at := filepath.Join(os.Getenv(fuzz.EnvFindings), "shown")
		write(at+".txt", "TITLE: slub-2008-seq: outcomes differ\nCLASS: difference\n"+
			"IDENTITY: slub-2008-seq: outcomes differ in malloc\nREPLAY: allocfuzz replay "+
			"--subject slub-2008-seq "+at+".prog\n\n")
		write(at+".prog", "allocfuzz 1\ncpu0 x = malloc 10\n"+
			"cpu0 p = malloc 10 => enomem @slub-2008-seq\ncpu0 free x\n")
	case "unsaved":
		fakeInput(target)
		fail("TITLE: slub-2008-seq: inuse wrong\n(" + fuzz.NotSaved + ": disk full)")
	case "boot":
		boot := os.Getenv(fuzz.EnvDebug) + " " + os.Getenv(fuzz.EnvRules)
		if boot != "FZ 6.12" {
			fail("boot parameters: " + boot)
		}
	case "interrupted":
		untilAsked(os.Interrupt)
		fakeFinding("short", "cpu0 p = malloc 10\n")
		fail("interrupted")
	case "cut":
		untilAsked(os.Interrupt)
		fail("interrupted")
	case "hangup":
		untilAsked(syscall.SIGHUP)
		fail("interrupted")
	case "unheard":
		untilAsked(syscall.SIGPIPE)
		fail("interrupted")
	case "flake":
		fail("context deadline exceeded")
	case "fault":
		fakeInput(target)
		fail("panic: allocfuzz: the model is lost")
	case "died":
		fakeInput(target)
		fail("fuzzing process hung or terminated unexpectedly: exit status 2")
	case "hung":
		write(filepath.Join(os.Getenv(fuzz.EnvFindings), "hung.txt"), "TITLE: slub-2008-seq: "+
			"hung\nCLASS: process\nIDENTITY: slub-2008-seq: hung\nREPLAY: allocfuzz replay\n\n")
		write(filepath.Join(os.Getenv(fuzz.EnvFindings), "hung.prog"), "allocfuzz 1\n"+
			"cpu0 p = malloc 10\n")
		write(filepath.Join(os.Getenv(fuzz.EnvStats), "ended-1"), "ended hung\n")
		fakeInput(target)
		fail("fuzzing process hung or terminated unexpectedly: exit status 2")
	case "killed":
		fail("fuzzing process terminated by unexpected signal; no crash will be recorded: " +
			"signal: killed")
	case "seed":
		fakeSeed(target)
	case "broken":
		fail("signal: segmentation fault")
	}
	fmt.Println("PASS")
	os.Exit(0)
}

// toy is an allocator that hangs or exits, as $TOY says, when a program allocates 48 bytes behind
// 8: a replay on it in a process of its own ends so.
func toy() {
	how := os.Getenv("TOY")
	args := strings.Join(os.Args[1:], " ")
	if how == "" || !strings.HasPrefix(args, "replay ") || !strings.HasSuffix(args, " -") {
		return
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err.Error())
	}
	_, rest, eight := strings.Cut(string(text), "malloc 8\n")
	on := strings.Contains(args, "go-modernc-memory")
	if on && eight && strings.Contains(rest, "malloc 48\n") {
		if how == "exit" {
			os.Exit(3)
		}
		time.Sleep(time.Hour)
	}
	fmt.Printf("{\"schema\": %d}\n", schema)
	os.Exit(0)
}

func fail(text string) {
	fmt.Printf("--- FAIL: Fuzz (1.00s)\n%s\nFAIL\n", text)
	os.Exit(1)
}

// untilAsked sends allocfuzz a signal, as a user or a terminal does, and returns when
// it asks this process to end.
func untilAsked(s os.Signal) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	parent, err := os.FindProcess(os.Getppid())
	if err == nil {
		err = parent.Signal(s)
	}
	if err != nil {
		fail(err.Error())
	}
	<-asked
}

// untilEnded says by the file $HELD that it is there, and returns when this process is asked to
// end.
func untilEnded() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	write(os.Getenv("HELD"), "")
	<-asked
}

// fakeStats writes counts for every subject that was asked for.
func fakeStats(target string) {
	text := "inputs 1200\npoints 600000\ncompared 10\nleftout 2\n"
	for _, name := range strings.Split(os.Getenv(fuzz.EnvSubjects), ",") {
		text += "subject " + name + " 1000 50000 500 20 3\n"
	}
	write(filepath.Join(os.Getenv(fuzz.EnvStats), target+"-1"), text)
}

// fakeFinding leaves a finding as a fuzz target does.
func fakeFinding(name, lines string) {
	at := filepath.Join(os.Getenv(fuzz.EnvFindings), "slub-2008-seq-inuse-wrong-"+name)
	write(at+".txt", "TITLE: slub-2008-seq: inuse wrong\nCLASS: structure\n"+
		"ALSO: slab lost; pages leaked\nIDENTITY: slub-2008-seq: inuse wrong in malloc\n"+
		"REPLAY: allocfuzz replay --subject slub-2008-seq "+at+".prog\nTRACE: 00\n\nPROGRAM\n")
	write(at+".prog", "allocfuzz 1\n"+lines)
}

// fakeABA leaves a finding that is real: of the plain compare and exchange.
func fakeABA() {
	at := filepath.Join(os.Getenv(fuzz.EnvFindings), "slub-2008-cmpxchg-aba")
	write(at+".txt", "TITLE: slub-2008-cmpxchg: object handed out twice\nCLASS: ownership\n"+
		"ALSO: live object on a freelist\n"+
		"IDENTITY: slub-2008-cmpxchg: object handed out twice in alloc\n"+
		"REPLAY: allocfuzz replay --subject slub-2008-cmpxchg "+at+".prog\n"+
		"TRACE: 00\n\nPROGRAM\n")
	write(at+".prog", `allocfuzz 1
cache c size=64

cpu0 w = alloc c
cpu0 a = alloc c
cpu0 b = alloc c
irq0 x = alloc c
irq0 y = alloc c
irq0 free c x
cpu0 free c b

sched subject=slub-2008-cmpxchg
at alloc(a) cmpxchg cpu_slab.freelist 1: irq0
`)
}

// fakeKnown counts findings as a fuzz target does: of a bug that was met before, and of one that
// a committed program expects.
func fakeKnown(target string) {
	write(filepath.Join(os.Getenv(fuzz.EnvStats), target+"-2"), "known 41 slub-2008-seq\t"+
		"inuse wrong\nknown 7 slub-2008-cmpxchg\tobject handed out twice\n")
}

// fakeSeed dies of an input of the fuzzer's corpus while that has one.
func fakeSeed(target string) {
	for _, arg := range os.Args {
		cache, ok := strings.CutPrefix(arg, "-test.fuzzcachedir=")
		bad := filepath.Join(cache, target, "00112233445566ff")
		if _, err := os.Stat(bad); ok && err == nil {
			fail("failure while testing seed corpus entry: " + target + "/00112233445566ff\n" +
				"fuzzing process hung or terminated unexpectedly: exit status 2")
		}
	}
}

// fakeInput leaves an input as the fuzz engine does.
func fakeInput(target string) {
	dir := filepath.Join("testdata", "fuzz", target)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		fail(err.Error())
	}
	write(filepath.Join(dir, "0123456789abcdef"), "go test fuzz v1\n[]byte(\"\\x00\\x01\")\n")
}

func write(name, text string) {
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		fail(err.Error())
	}
}
