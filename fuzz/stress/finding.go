package stress

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"allocfuzz/fuzz"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
)

// A Finding is a bug that a round showed.
type Finding struct {
	Fault    fault.Fault
	Subject  string
	Verb     string // kind of operation
	Workload Workload
	Pass     int // how many rounds of this kind came before
	Config   Config
	Stacks   string           // of goroutines, "" where they say nothing
	History  *history.History // of the round, nil when it had none

	part *history.History // that is worth a picture
}

// Identity names the bug, as everywhere: subject, title and kind of operation.
func (f *Finding) Identity() string {
	return f.Subject + ": " + string(f.Fault.Title) + " in " + f.Verb
}

// Class is the rule that raised the title.
func (f *Finding) Class() string {
	e, ok := fault.Lookup(f.Fault.Title)
	if !ok {
		panic("allocfuzz: title without an entry: " + string(f.Fault.Title))
	}
	return e.Rule.String()
}

// Command is what does the same again. Threads are not the same twice, so it may take more
// rounds or fewer, or find nothing.
func (f *Finding) Command() string {
	c := &f.Config
	return fmt.Sprintf("allocfuzz stress --subject %s --workload %s --threads %d --ops %d "+
		"--seed %d", f.Subject, f.Workload, c.Threads, c.Ops, c.Seed)
}

// Files are what was written about a finding; "" for what there is not.
type Files struct{ Report, History, Picture string }

// What is too much for a person, or a browser: operations of a picture, and of a report.
const (
	picturesMax = 2500
	listMax     = 200
)

// Save writes a finding into a folder: the report, the history and its picture. Their names
// are the identity, with a number where another finding has that name already.
func (f *Finding) Save(dir string) (Files, error) {
	base, err := free(dir, slug(f.Identity()))
	if err != nil {
		return Files{}, err
	}
	var out Files
	if f.History != nil {
		out.History = base + ".json"
		err = fuzz.WriteFile(out.History, func(w io.Writer) error {
			return linear.WriteJSON(w, f.History)
		})
	}
	if f.History != nil && len(f.part.Ops) <= picturesMax && err == nil {
		out.Picture = base + ".html"
		err = fuzz.WriteFile(out.Picture, func(w io.Writer) error {
			_, err := linear.Picture(w, f.part, f.Config.Limit)
			return err
		})
	}
	if err != nil {
		return out, err
	}
	out.Report = base + ".txt"
	return out, fuzz.WriteFile(out.Report, func(w io.Writer) error { return f.text(w, &out) })
}

// text writes the report.
func (f *Finding) text(w io.Writer, files *Files) error {
	e, _ := fault.Lookup(f.Fault.Title)
	b := &strings.Builder{}
	fmt.Fprintf(b, "TITLE: %s: %s\nCLASS: %s\nIDENTITY: %s\nMEANS: %s\n", f.Subject,
		f.Fault.Title, f.Class(), f.Identity(), e.Means)
	fmt.Fprintf(b, "FOUND: %s\nTHREAD: %s\nROUND: %s, number %d\nREPLAY: %s\n", f.Fault,
		f.Fault.Where.Task, f.Workload, f.Pass+1, f.Command())
	if files.History == "" {
		b.WriteString("HISTORY: none, the round took no stamps\n")
	} else {
		fmt.Fprintf(b, "HISTORY: %s\n", filepath.Base(files.History))
	}
	if files.Picture != "" {
		fmt.Fprintf(b, "PICTURE: %s\n", filepath.Base(files.Picture))
	}
	if f.part != nil && len(f.part.Ops) <= listMax {
		b.WriteString("\nOPERATIONS\n")
		for i := range f.part.Ops {
			fmt.Fprintf(b, "  %s\n", f.part.Text(i))
		}
	}
	if f.Stacks != "" {
		fmt.Fprintf(b, "\nSTACKS\n%s\n", strings.TrimRight(f.Stacks, "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// slug is a text as the name of a file.
func slug(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}), "-")
}

// free is the path of files that are not there yet.
func free(dir, name string) (string, error) {
	for n := 1; ; n++ {
		base := filepath.Join(dir, name)
		if n > 1 {
			base = fmt.Sprintf("%s-%d", base, n)
		}
		_, err := os.Stat(base + ".txt")
		if errors.Is(err, fs.ErrNotExist) {
			return base, nil
		}
		if err != nil {
			return "", err
		}
	}
}
