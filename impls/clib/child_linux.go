//go:build linux

package clib

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"allocfuzz/impls/remote"
)

// The environment of a child, and its descriptors.
const (
	envLibrary = "ALLOCFUZZ_CHILD_LIBRARY"
	envSubject = "ALLOCFUZZ_CHILD_SUBJECT"
	envMisuse  = "ALLOCFUZZ_CHILD_MISUSE" // what to do instead of playing batches
	envSize    = "ALLOCFUZZ_CHILD_SIZE"
	socketFD   = 3
	journalFD  = 4
	// descriptors that a library is unlikely to close or to write to
	highFD = 500
)

// A hello is the first line that a child writes.
type hello struct {
	Family    string   `json:"family,omitempty"`
	Functions []string `json:"functions,omitempty"`
	Lacking   []string `json:"lacking,omitempty"`
	File      string   `json:"file,omitempty"` // as the loader found it
	Version   string   `json:"version,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// TakeOver makes this process a child that serves a library, when it was started as one, and
// does not return then. Call it first thing in main, and in TestMain of tests that use
// subjects of this package.
func TakeOver() {
	file := os.Getenv(envLibrary)
	if file == "" {
		return
	}
	if err := serve(file, os.Getenv(envSubject)); err != nil {
		fmt.Fprintln(os.Stderr, "allocfuzz:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(file, subject string) error {
	os.Unsetenv(envLibrary) // what the library starts is no child
	runtime.LockOSThread()
	debug.SetGCPercent(400)
	socket, journal, err := connections()
	if err != nil {
		return err
	}
	l, err := open(file)
	if err != nil {
		return tell(socket, hello{Error: err.Error()})
	}
	l.profile = profileOf(subject)
	signal.Ignore(syscall.SIGINT, syscall.SIGPIPE) // whoever started the child ends it
	debug.SetPanicOnFault(true)
	h := hello{Family: l.family.name, Functions: l.names(), Lacking: l.lacking(),
		File: loadedFile(l.addr[fnMalloc]), Version: l.version}
	if err := tell(socket, h); err != nil {
		return err
	}
	if os.Getenv(envMisuse) != "" {
		return misused(socket, l)
	}
	defer func() {
		if v := recover(); v != nil { // the library does not panic
			remote.Refuse(socket, fmt.Errorf("a fault of allocfuzz itself: %v\n%s", v,
				debug.Stack()))
			os.Exit(1)
		}
	}()
	return remote.Serve(socket, l.variant(subject), journal)
}

// goMemory is how much memory the runtime of Go has of the system.
func goMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// misused does to the library what the environment names.
func misused(socket *os.File, l *library) error {
	kind := slices.IndexFunc(misuses, func(m Misuse) bool { return m.Name == os.Getenv(envMisuse) })
	size, err := strconv.ParseUint(os.Getenv(envSize), 10, 32)
	if err != nil || kind < 0 {
		return fmt.Errorf("misuse %q of %q bytes", os.Getenv(envMisuse), os.Getenv(envSize))
	}
	misuse(socket, l, &misuses[kind], size)
	return nil
}

// connections moves the descriptors of the connection out of a library's way and maps the
// journal.
func connections() (*os.File, *remote.Journal, error) {
	fd, err := unix.FcntlInt(socketFD, unix.F_DUPFD_CLOEXEC, highFD)
	if err != nil {
		return nil, nil, fmt.Errorf("the socket of a child: %w", err)
	}
	b, err := unix.Mmap(journalFD, 0, remote.JournalSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("the journal of a child: %w", err)
	}
	unix.Close(socketFD)
	unix.Close(journalFD)
	j := remote.NewJournal(b)
	base := resident(os.Getpid()) - goMemory() // of the program and the library, which begin so
	j.Measure = func() uint64 { return base + goMemory() }
	return os.NewFile(uintptr(fd), "socket"), j, nil
}

func tell(socket *os.File, h hello) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = socket.Write(append(line, '\n'))
	return err
}

// fell ends the process as a fault of its memory does: a block that the library handed out is
// none. A fault in the library itself is for the runtime, which says so and exits.
func fell(v any) {
	if f, ok := v.(interface{ Addr() uintptr }); ok {
		fmt.Fprintf(os.Stderr, "%s: address %#x of a block\n", unix.SignalName(unix.SIGSEGV),
			f.Addr())
		os.Exit(faultStatus)
	}
	panic(v)
}
