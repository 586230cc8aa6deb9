package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/gofuzz"
	"allocfuzz/impls/fault"
)

// An Ending is how a slice ended. Its spelling is public.
type Ending string

// The endings.
const (
	Clean       Ending = "clean"
	Interrupted Ending = "interrupted"
	Hang        Ending = "hang"          // an input did not return
	OutOfMemory Ending = "out of memory" // a worker had too much
	WorkerDeath Ending = "worker death"  // an input ended the worker
	Flake       Ending = "flake"         // the fuzz engine gave up, without an input
	Broken      Ending = "fault"         // of this project or of the fuzz engine
)

// Death says whether a worker ended that should not have.
func (e Ending) Death() bool { return e == Hang || e == OutOfMemory || e == WorkerDeath }

// GoesOn says whether another slice of the same target may bring more before its time is over.
func (e Ending) GoesOn() bool { return e == Flake || e.Death() }

// ended is how a start of a target ended: what it left behind.
type ended struct {
	run         *sliceRun
	res         *SliceResult
	failure     error    // of the process
	output      []string // its last lines
	overrun     bool     // it had to be ended
	interrupted bool     // the user ended it
}

// has tells whether the output has a text.
func (e *ended) has(texts ...string) bool {
	for _, l := range e.output {
		for _, t := range texts {
			if strings.Contains(l, t) {
				return true
			}
		}
	}
	return false
}

// Texts of the fuzz engine, the Go runtime and this project in the output of a target.
const (
	textHung   = "hung or terminated unexpectedly"
	textKilled = "terminated by unexpected signal"
	textFlake  = "context deadline exceeded"
	textFault  = "allocfuzz: "
)

// judge tells the endings apart by what was left behind: exit status and output alone prove
// nothing, since some releases of Go fail at the end of a clean run.
func (e *ended) judge() (Ending, error) {
	inputs := len(e.res.Inputs)
	switch {
	case e.has(fuzz.NotSaved):
		return Broken, e.fault("a finding could not be saved")
	case e.has(textFault) && inputs > 0, e.has("panic: " + textFault):
		return Broken, e.fault("a fault of allocfuzz")
	case e.overrun:
		return Broken, e.fault("the process did not end in time and was killed")
	case e.interrupted:
		return Interrupted, nil
	case e.run.ended == string(fault.Hung):
		return Hang, nil
	case e.run.ended == string(fault.MemoryBlowUp):
		return OutOfMemory, nil
	case e.has("out of memory", "cannot allocate memory"):
		return OutOfMemory, e.died(fault.MemoryBlowUp)
	case e.has(textKilled):
		e.run.job.Log("%s: a worker was killed from outside, most likely for its memory",
			e.run.slice.Target)
		return OutOfMemory, nil
	case e.has(textHung) && inputs > 0 && fuzz.TargetNamed(e.run.slice.Target) != nil:
		return WorkerDeath, e.died(e.manner())
	case inputs > 0:
		return Broken, e.fault("a failure without a finding: a fault of allocfuzz")
	case e.failure != nil && e.has(textFlake):
		e.run.job.Log("%s: the fuzz engine gave up (%s) without an input: not counted",
			e.run.slice.Target, textFlake)
		return Flake, nil
	case e.failure != nil:
		return Broken, e.fault("the process failed: " + e.failure.Error())
	}
	return Clean, nil
}

// manner is how a worker died that left no word.
func (e *ended) manner() fault.Title {
	if e.has(textHung + ": signal") {
		return fault.Killed
	}
	return fault.Exited
}

// fault is the error of an ending that proves nothing.
func (e *ended) fault(what string) error {
	text := what
	for _, name := range e.res.Inputs {
		text += "\ninput: " + name
	}
	const most = 60
	out := e.output[max(0, len(e.output)-most):]
	return fmt.Errorf("%s\n%s", text, strings.Join(out, "\n"))
}

// died makes a finding of the input that ended a worker. Its subject is not known, its program is.
func (e *ended) died(title fault.Title) error {
	t, j := fuzz.TargetNamed(e.run.slice.Target), e.run.job
	if t == nil || len(e.res.Inputs) == 0 {
		return nil
	}
	saved := e.res.Inputs[0]
	data, err := readInput(saved)
	if err != nil {
		return err
	}
	text := prog.Format(t.Program(data))
	file := filepath.Join(j.Out, slug(title)+"-"+filepath.Base(saved)+".prog")
	f := Finding{Title: string(title), Also: []string{}, Class: fault.Process.String(),
		Identity: t.Name + ": " + string(title), File: file,
		Command: "allocfuzz replay " + fuzz.Argument(file), Target: t.Name}
	if fresh, _ := j.Buckets.Add(f, int64(len(text))); !fresh {
		return nil
	}
	e.res.Fresh = append(e.res.Fresh, f)
	j.Log("%s: an input ended its process (%s): %s", t.Name, title, file)
	return fuzz.WriteBytes(file, text)
}

// slug is a title as part of a file name.
func slug(title fault.Title) string { return strings.ReplaceAll(string(title), " ", "-") }

// badSeed is what the fuzz engine says of an input of its corpus that fails.
var badSeed = regexp.MustCompile(`while testing seed corpus entry: (\w+)/([0-9a-f]+)`)

// keepInputs copies the inputs that the fuzz engine saved in the working folder of
// a start to the findings. One of its own corpus that fails goes there from the corpus, or
// no start would get past it.
func (r *sliceRun) keepInputs(output []string) ([]string, error) {
	var from []string
	found := filepath.Join(r.work, "testdata", "fuzz", r.slice.Target)
	entries, err := os.ReadDir(found)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		from = append(from, filepath.Join(found, e.Name()))
	}
	var gone []string
	for _, line := range output {
		if m := badSeed.FindStringSubmatch(line); m != nil && m[1] == r.slice.Target {
			gone = append(gone, filepath.Join(r.job.Cache, m[1], m[2]))
		}
	}
	if len(from)+len(gone) == 0 {
		return nil, nil
	}
	dir := filepath.Join(r.job.Out, "inputs", r.slice.Target)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var out []string
	for i, name := range append(from, gone...) {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && i >= len(from) {
			continue // it is one that the sources add
		}
		if err != nil {
			return out, err
		}
		to := filepath.Join(dir, filepath.Base(name))
		if err := fuzz.WriteBytes(to, text); err != nil {
			return out, err
		}
		if i >= len(from) {
			if err := os.Remove(name); err != nil {
				return out, err
			}
		}
		out = append(out, to)
	}
	return out, nil
}

// readInput reads a file of the go command's corpus.
func readInput(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	data, err := gofuzz.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	return data, nil
}
