package nightly

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"allocfuzz/fuzz"
)

// A Report is what a night leaves behind: its state, and how it ended.
type Report struct {
	*State
	End   *Ending `json:"end"`
	Share float64 `json:"fuzzing_share"`
}

// write writes the summary to the folder of what was found, for programs and for people.
func (w *work) write(s *State) error {
	err := fuzz.WriteFile(filepath.Join(w.out, "summary.json"), func(to io.Writer) error {
		e := json.NewEncoder(to)
		e.SetIndent("", " ")
		return e.Encode(Report{s, &w.Summary, s.Share()})
	})
	if err != nil {
		return err
	}
	return fuzz.WriteBytes(filepath.Join(w.out, "summary.md"), []byte(Markdown(s, &w.Summary)))
}

// Markdown is the summary of a night for people.
func Markdown(s *State, end *Ending) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# The night of %s\n\n", s.Started)
	fmt.Fprintf(b, "| arm | slices | execs | new | time |\n|---|---|---|---|---|\n")
	for _, a := range s.Arms {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %.0f s |\n", a.Name, a.Slices, a.Execs, a.New,
			a.Seconds)
	}
	fmt.Fprintf(b, "\n%s\n", s.Split())
	for _, f := range s.Filed {
		if f.New() {
			fmt.Fprintf(b, "\n* **%s**: %s%s\n", f.Identity, f.Fate, f.where())
		}
	}
	for _, line := range end.Broken {
		fmt.Fprintf(b, "\n* no longer holds: %s\n", line)
	}
	return b.String()
}

// where says in which file a finding is.
func (f *Filed) where() string {
	s := ""
	if f.File != "" {
		s = ", " + f.File
	} else if f.Program != "" {
		s = ", " + f.Program
	}
	if f.Commit != "" {
		s += ", commit " + f.Commit
	}
	if f.Why != "" {
		s += " (" + f.Why + ")"
	}
	return s
}

// Split says in a line on what the time was spent.
func (s *State) Split() string {
	var parts []string
	for _, k := range kinds {
		if s.Spent[k] >= 0.05 {
			parts = append(parts, fmt.Sprintf("%s %.1f s", k, s.Spent[k]))
		}
	}
	return fmt.Sprintf("%.0f %% of %.0f s fuzzing and exploring: %s", 100*s.Share(),
		s.Total().Seconds(), strings.Join(parts, ", "))
}
