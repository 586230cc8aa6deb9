package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/impls/fault"
)

// An ending is how one start of a target ended.
type ending struct {
	failure     error     // of the process
	output      []string  // its last lines
	fresh       []Finding // that it wrote down, of new identities
	inputs      []string  // inputs that made it fail, as kept beside the findings
	overrun     bool      // it had to be ended
	interrupted bool      // the user ended it
}

// has tells whether the output has a text.
func (e *ending) has(text string) bool {
	for _, l := range e.output {
		if strings.Contains(l, text) {
			return true
		}
	}
	return false
}

// Texts of the fuzz engine and of this project in the output of a target.
const (
	textHung  = "hung or terminated unexpectedly"
	textFlake = "context deadline exceeded"
	textFault = "allocfuzz: "
)

// ended judges a start by what it left behind. again says that another start may
// find more; the error is a fault of this project or of the fuzz engine.
func (r *targetRun) ended(e *ending) (again bool, err error) {
	switch {
	case e.has(fuzz.NotSaved):
		return false, e.fault("a finding could not be saved")
	case len(e.fresh) > 0:
		return true, nil
	case e.has(textFault) && len(e.inputs) > 0, e.has("panic: " + textFault):
		return false, e.fault("a fault of allocfuzz")
	case e.has(textHung) && len(e.inputs) > 0 && r.runsSubjects():
		return true, r.died(e)
	case e.has("TITLE: "):
		return false, nil // a finding that was met before
	case len(e.inputs) > 0:
		return false, e.fault("a failure without a finding: a fault of allocfuzz")
	case e.interrupted:
		return false, nil
	case e.overrun:
		return false, e.fault("the process did not end in time and was killed")
	case e.failure != nil && e.has(textFlake):
		r.sum.Flakes++
		r.job.Log("%s: the fuzz engine gave up (%s) without an input: not counted", r.name,
			textFlake)
		return true, nil
	case e.failure != nil:
		return false, e.fault("the process failed: " + e.failure.Error())
	}
	return false, nil
}

// fault is the error of an ending that proves nothing.
func (e *ending) fault(what string) error {
	text := what
	for _, name := range e.inputs {
		text += "\ninput: " + name
	}
	const most = 60
	out := e.output[max(0, len(e.output)-most):]
	return fmt.Errorf("%s\n%s", text, strings.Join(out, "\n"))
}

// runsSubjects tells whether the target's inputs are programs for subjects.
func (r *targetRun) runsSubjects() bool {
	return r.target() != nil
}

// target is the fuzz target when its inputs are programs, else nil.
func (r *targetRun) target() *fuzz.Target {
	for _, t := range fuzz.Targets() {
		if t.Name == r.name {
			return t
		}
	}
	return nil
}

// died tells of an input that hung the worker or ended it, which the fuzz engine
// does not tell apart. The subject is not known, the program is.
func (r *targetRun) died(e *ending) error {
	saved := e.inputs[0]
	id := r.name + ": " + string(fault.Hung)
	if _, ok := r.job.met[id]; ok {
		return nil
	}
	r.job.met[id] = r.name
	data, err := readInput(saved)
	if err != nil {
		return err
	}
	p := r.target().Program(data)
	file := filepath.Join(r.job.Out, "hung-"+filepath.Base(saved)+".prog")
	r.res.Findings = append(r.res.Findings, Finding{Title: string(fault.Hung),
		Also: []string{string(fault.Exited)}, Class: fault.Process.String(), Identity: id,
		File: file, Command: "allocfuzz replay " + fuzz.Argument(file), Target: r.name})
	r.job.Log("%s: an input hung the target or ended its process: %s", r.name, file)
	return fuzz.WriteBytes(file, prog.Format(p))
}

// keepInputs copies the inputs that the fuzz engine saved in the working folder of
// a start to the findings.
func (r *targetRun) keepInputs(work string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(work, "testdata", "fuzz", r.name, "*"))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	dir := filepath.Join(r.job.Out, "inputs", r.name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return out, err
		}
		to := filepath.Join(dir, filepath.Base(name))
		if err := fuzz.WriteBytes(to, text); err != nil {
			return out, err
		}
		out = append(out, to)
	}
	return out, nil
}

// readInput reads a file of the go command's corpus: a version and one []byte.
func readInput(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	head, value, _ := strings.Cut(string(text), "\n")
	value, isBytes := strings.CutPrefix(strings.TrimSpace(value), "[]byte(")
	value, closed := strings.CutSuffix(value, ")")
	if !strings.HasPrefix(head, "go test fuzz v1") || !isBytes || !closed {
		return nil, errors.New(name + ": expected \"go test fuzz v1\" and one []byte")
	}
	data, err := strconv.Unquote(value)
	if err != nil {
		return nil, fmt.Errorf("%s: the []byte is no Go string: %w", name, err)
	}
	return []byte(data), nil
}
