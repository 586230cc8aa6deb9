package fuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"

	"allocfuzz/impls/fault"
)

// EnvLimit is how long one input or program may take, as time.ParseDuration reads
// it. It must be below the ten seconds after which the Go fuzz engine kills a
// worker without a word.
const EnvLimit = "ALLOCFUZZ_LIMIT"

// EnvMemory is how many bytes of memory a process may have while an input runs.
const EnvMemory = "ALLOCFUZZ_MEMORY"

// What EnvLimit and EnvMemory are where nothing is said.
const (
	limitDefault  = 8 * time.Second
	memoryDefault = 4 << 30
)

func limit() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(EnvLimit)); err == nil && d > 0 {
		return d
	}
	return limitDefault
}

func memoryLimit() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(EnvMemory), 10, 64); err == nil && n > 0 {
		return n
	}
	return memoryDefault
}

// Watch ends the process when done is not called in time, or when its memory grows without
// bound: an allocator that never returns cannot be stopped, and without a word nobody would know
// which program hung it. program gives the text of what runs; the stacks of all goroutines
// follow it. Simulated allocators have a limit of steps, and never get here.
func Watch(program func() []byte) (done func()) {
	return watch(&watched{program: program, subject: func() string { return "" }})
}

// watch is Watch for an input of the session: it also says which subject runs.
func (s *Session) watch(program func() []byte) (done func()) {
	return watch(&watched{program: program, subject: func() string {
		if v := s.at.Load(); v != nil {
			return v.Name
		}
		return ""
	}})
}

// watched is something that runs.
type watched struct {
	program func() []byte
	subject func() string
}

// watching holds what runs in this process.
var watching struct {
	sync.Mutex
	started bool
	now     map[*watched]bool
}

func watch(w *watched) (done func()) {
	d := limit()
	watching.Lock()
	if !watching.started {
		watching.started, watching.now = true, map[*watched]bool{}
		go watchMemory(memoryLimit())
	}
	watching.now[w] = true
	watching.Unlock()
	t := time.AfterFunc(d, func() {
		w.end(fault.Hung, fmt.Sprintf("the allocator has not returned in %s", d))
	})
	return func() {
		t.Stop()
		watching.Lock()
		delete(watching.now, w)
		watching.Unlock()
	}
}

// memoryEvery is the time between two looks at the memory of the process.
const memoryEvery = 100 * time.Millisecond

// watchMemory ends the process when it has more memory than the limit while something runs.
func watchMemory(most uint64) {
	have := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		time.Sleep(memoryEvery)
		metrics.Read(have)
		n := have[0].Value.Uint64()
		if n <= most {
			continue
		}
		watching.Lock()
		//tidy:maporder any one that runs will do
		for w := range watching.now {
			w.end(fault.MemoryBlowUp, fmt.Sprintf("the process has %d bytes of memory, the "+
				"limit is %d", n, most))
		}
		watching.Unlock()
	}
}

// end writes down what ran, says so, and ends the process.
func (w *watched) end(title fault.Title, what string) {
	text := w.program()
	at := string(title)
	if s := w.subject(); s != "" {
		at = s + ": " + at
	}
	if err := saveEnd(at, title, text); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", NotSaved, err)
	}
	fmt.Fprintf(os.Stderr, "\nTITLE: %s\nFOUND: %s\n\nPROGRAM\n%s\n", at, what, text)
	debug.SetTraceback("all")
	panic(string(title) + ": see PROGRAM above, and the goroutine that is running below")
}

// saveEnd writes the program that ended the process to the folder of findings, where there is
// one: nobody reads what a fuzz worker prints.
func saveEnd(identity string, title fault.Title, text []byte) error {
	if dir := os.Getenv(EnvStats); dir != "" {
		_ = WriteBytes(filepath.Join(dir, fmt.Sprintf("ended-%d", os.Getpid())),
			[]byte("ended "+title+"\n")) // without it the death is taken for another kind
	}
	dir := os.Getenv(EnvFindings)
	if dir == "" {
		return nil
	}
	name := findingFile(dir, identity, text)
	if err := WriteBytes(name+".prog", text); err != nil {
		return err
	}
	subject := ""
	if n := len(identity) - len(title) - len(": "); n > 0 {
		subject = " --subject " + identity[:n]
	}
	head := DeathHead(identity, "allocfuzz replay"+subject+" "+Argument(name+".prog"))
	return WriteBytes(name+".txt", append(head, "PROGRAM\n"+string(text)...))
}

// DeathHead is the head of the report of what ended its process, which no run can explain, with
// the command that repeats it.
func DeathHead(identity, command string) []byte {
	return fmt.Appendf(nil, "TITLE: %s\nCLASS: %s\nIDENTITY: %s\nREPLAY: %s\n\n", identity,
		fault.Process, identity, command)
}
