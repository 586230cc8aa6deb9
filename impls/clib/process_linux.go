//go:build linux

package clib

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"allocfuzz/impls"
	"allocfuzz/impls/remote"
)

// Limits of a child.
const (
	startMost = 20 * time.Second // until it has loaded the library
	batchMost = 5 * time.Second  // for a batch, and a second more for every opsSecond operations
	opsSecond = 100_000
	rssMost   = 3 << 30 // bytes of resident memory
	watchTime = 10 * time.Millisecond
	saidMost  = 8 << 10 // bytes kept of the end of what it printed
	grace     = time.Second
)

// EnvLimit is how long a batch may take, as time.ParseDuration reads it, and EnvMemory how many
// bytes of memory a child may have meanwhile.
const (
	EnvLimit  = "ALLOCFUZZ_CHILD_LIMIT"
	EnvMemory = "ALLOCFUZZ_CHILD_MEMORY"
)

func memoryLimit() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(EnvMemory), 10, 64); err == nil && n > 0 {
		return n
	}
	return rssMost
}

// limit is how long a batch of so many operations may take.
func limit(ops int) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(EnvLimit)); err == nil && d > 0 {
		return d
	}
	return batchMost + time.Duration(ops/opsSecond)*time.Second
}

// A process is a child with its library loaded.
type process struct {
	*remote.Player
	cmd     *exec.Cmd
	socket  *os.File
	said    *os.File
	mapped  []byte
	shared  *remote.Journal // in mapped
	hello   hello
	ops     int           // of the batch that is played
	exited  chan struct{} // closed when it ended
	state   *os.ProcessState
	mu      sync.Mutex
	verdict string // why it was ended from here, "" when it was not
}

// start starts a child for a library.
func start(file, subject string) (*process, error) {
	if os.Getenv(envLibrary) != "" {
		return nil, errors.New("a child was asked to start a child: its program does not begin " +
			"with clib.TakeOver")
	}
	p := &process{exited: make(chan struct{})}
	if err := p.launch(file, subject); err != nil {
		p.release()
		return nil, err
	}
	in := bufio.NewReader(p.socket)
	line, err := p.first(in)
	if err == nil {
		err = p.greeted(line)
	}
	if err != nil {
		p.end("")
		p.release()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p.shared = remote.NewJournal(p.mapped)
	p.Player = remote.NewPlayer(&stream{in, p}, remote.Options{Watch: p.watch, Why: p.why,
		Journal: p.shared})
	return p, nil
}

// A stream is the socket behind what was read of it already; closing it ends the child.
type stream struct {
	io.Reader
	p *process
}

func (s *stream) Write(b []byte) (int, error) { return s.p.socket.Write(b) }

func (s *stream) Close() error {
	s.p.end("")
	s.p.release()
	return nil
}

// launch makes the connections and starts the process.
func (p *process) launch(file, subject string, env ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket for a child: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return err
	}
	p.socket = os.NewFile(uintptr(pair[0]), "socket")
	journal, err := memoryFile("journal", remote.JournalSize)
	if err != nil {
		return err
	}
	defer journal.Close()
	p.mapped, err = unix.Mmap(int(journal.Fd()), 0, remote.JournalSize,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("journal of a child: %w", err)
	}
	if p.said, err = memoryFile("said", 0); err != nil {
		return err
	}
	p.cmd = exec.Command(program)
	p.cmd.Env = append(os.Environ(), envLibrary+"="+file, envSubject+"="+subject,
		tunables(os.Getenv("GLIBC_TUNABLES")), "GOTRACEBACK=none")
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.ExtraFiles = []*os.File{theirs, journal}
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	adopt()
	if err := startFixed(p.cmd); err != nil {
		p.cmd = nil
		return fmt.Errorf("start a child: %w", err)
	}
	born(p.cmd.Process.Pid)
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		p.mu.Lock()
		p.state = p.cmd.ProcessState
		p.mu.Unlock()
		close(p.exited)
	}()
	return nil
}

// tunables lets libraries with much static TLS be loaded, beside what is asked for already.
func tunables(have string) string {
	const room = "glibc.rtld.optional_static_tls=65536"
	if have != "" {
		have += ":"
	}
	return "GLIBC_TUNABLES=" + have + room
}

// startFixed starts a process whose addresses are not randomised, where the system allows.
func startFixed(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const ask, noRandom = 0xffffffff, 0x0040000
	had, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, ask, 0, 0)
	if errno == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_PERSONALITY, had|noRandom, 0, 0)
		defer func() { _, _, _ = unix.RawSyscall(unix.SYS_PERSONALITY, had, 0, 0) }()
	}
	return cmd.Start()
}

func memoryFile(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("allocfuzz-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory shared with a child: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// first reads the line that a child begins with. Nothing else reads meanwhile.
func (p *process) first(in *bufio.Reader) ([]byte, error) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-p.exited:
			p.hangUp()
		case <-done:
		}
	}()
	if err := p.socket.SetReadDeadline(time.Now().Add(startMost)); err != nil {
		return nil, err
	}
	line, err := in.ReadBytes('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.ended() {
		return nil, fmt.Errorf("the library was not loaded in %s: does one of its constructors "+
			"hang, or does this program not begin with clib.TakeOver?", startMost)
	}
	if err != nil {
		<-p.exited
		return nil, fmt.Errorf("the process ended while it loaded the library: %s", p.why())
	}
	return line, p.socket.SetReadDeadline(time.Time{})
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// greeted reads the child's first line.
func (p *process) greeted(line []byte) error {
	if err := json.Unmarshal(line, &p.hello); err != nil {
		return fmt.Errorf("the child said %.60q, expected what it found in the library", line)
	}
	if p.hello.Error != "" {
		return errors.New(p.hello.Error)
	}
	if familyNamed(p.hello.Family) == nil {
		return fmt.Errorf("the child named family %q", p.hello.Family)
	}
	return nil
}

// hangUp makes whoever reads from a child that ended stop, though what it forked may hold the
// socket. What the child wrote is read first.
func (p *process) hangUp() {
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.socket.SetReadDeadline(time.Now().Add(grace))
}

// watch looks at a batch while it is played: it ends a child that takes too long or too much
// memory, and hangs up when it has ended, though what it left behind may hold the socket.
func (p *process) watch() (stop func() bool) {
	done, finished := make(chan struct{}), make(chan struct{})
	hung := false
	go func() {
		defer close(finished)
		tick := time.NewTicker(watchTime)
		defer tick.Stop()
		late := time.NewTimer(limit(p.ops))
		defer late.Stop()
		for {
			select {
			case <-done:
				return
			case <-p.exited:
				p.hangUp()
				return
			case <-late.C:
				hung = true
				p.end(remote.DeathHung)
			case <-tick.C:
				if n, most := resident(p.cmd.Process.Pid), memoryLimit(); n > most {
					p.end(fmt.Sprintf("memory: %d MiB resident, the limit is %d", n>>20,
						most>>20))
				}
			}
		}
	}()
	return func() bool {
		close(done)
		<-finished
		return hung
	}
}

// end ends the child and all that it started; why is kept.
func (p *process) end(why string) {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	p.mu.Lock()
	if p.verdict == "" {
		p.verdict = why
	}
	p.mu.Unlock()
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.cmd.Process.Kill()
}

// release gives up what the connection holds.
func (p *process) release() {
	if p.cmd != nil {
		<-p.exited
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
		buried(p.cmd.Process.Pid)
	}
	if p.socket != nil {
		p.socket.Close()
	}
	if p.said != nil {
		p.said.Close()
	}
	if p.mapped != nil {
		_ = unix.Munmap(p.mapped)
		p.mapped = nil
	}
}

// why says how the child died, in the words that a finding's title is found by.
func (p *process) why() string {
	select {
	case <-p.exited:
	case <-time.After(grace):
		p.end("exited: it closed its connection and went on")
		<-p.exited
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verdict != "" {
		return p.verdict
	}
	said := p.lastWords()
	signal, said := p.signal(said)
	how := "exited: " + p.state.String()
	switch signal {
	case "":
	case "SIGABRT":
		how = "aborted: SIGABRT"
	default:
		how = "killed: " + signal
	}
	if said = strings.Join(strings.Fields(said), " "); said != "" {
		how += ", it said: " + said
	}
	return how
}

// faultStatus is what a process of Go exits with that a fault ended.
const faultStatus = 2

// wordsOfGo begin what the runtime of Go says of a signal that ends its process.
var wordsOfGo = regexp.MustCompile(`(?m)^(?:fatal error: .*\n\[signal )?(SIG[A-Z]+): `)

// signal is the name of the signal that ended the child, "" when none did, and what it had said
// before: a fault in the library is caught by the runtime, which says so and exits.
func (p *process) signal(said string) (name, before string) {
	status, ok := p.state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
	case status.Signaled():
		return unix.SignalName(status.Signal()), said
	case status.ExitStatus() == faultStatus:
		if at := wordsOfGo.FindStringSubmatchIndex(said); at != nil {
			return said[at[2]:at[3]], said[:at[0]]
		}
	}
	return "", said
}

// lastWords is the end of what the child printed.
func (p *process) lastWords() string {
	info, err := p.said.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(info.Size(), saidMost))
	n, _ := p.said.ReadAt(b, info.Size()-int64(len(b)))
	return strings.ToValidUTF8(string(bytes.TrimSpace(b[:n])), "?")
}

// Play plays a batch. What is no answer of the protocol most likely comes of the library.
func (p *process) Play(b *impls.Batch) (*impls.Transcript, error) {
	p.ops = len(b.Ops)
	t, err := p.Player.Play(b)
	var malformed *remote.FormatError
	if errors.As(err, &malformed) {
		return nil, fmt.Errorf("%w; the library may write to descriptors that are not its own", err)
	}
	return t, err
}

// Footprint is the resident memory of the child that is the library's.
func (p *process) Footprint() uint64 {
	n := resident(p.cmd.Process.Pid)
	return n - min(n, p.shared.Own())
}

var (
	_ impls.Player      = (*process)(nil)
	_ impls.Footprinter = (*process)(nil)
)
