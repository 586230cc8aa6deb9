package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// Counts say how much a subject did. The names of their JSON form are public.
type Counts struct {
	Programs    int `json:"programs"`
	Operations  int `json:"operations"`
	Unsupported int `json:"unsupported"`
	Skipped     int `json:"skipped"`
	Refused     int `json:"refused"` // no memory, or turned down
}

// Add sums two counts.
func (c *Counts) Add(d Counts) {
	c.Programs += d.Programs
	c.Operations += d.Operations
	c.Unsupported += d.Unsupported
	c.Skipped += d.Skipped
	c.Refused += d.Refused
}

// Share is the part of the operations that the subject does not support, from 0
// to 1.
func (c *Counts) Share() float64 {
	if c.Operations == 0 {
		return 0
	}
	return float64(c.Unsupported) / float64(c.Operations)
}

// CountsOf are the counts of programs that an oracle counted.
func CountsOf(programs int, c *oracle.Counts) Counts {
	return Counts{Programs: programs, Operations: c.Operations, Unsupported: c.Unsupported,
		Skipped: c.Skipped, Refused: c.Refused}
}

// A Tally holds the counts of subjects by name.
type Tally map[string]*Counts

// NewTally starts the counts of subjects at zero.
func NewTally(subjects []*impls.Variant) Tally {
	t := Tally{}
	for _, v := range subjects {
		t[v.Name] = &Counts{}
	}
	return t
}

// Add sums counts of a subject.
func (t Tally) Add(name string, c Counts) {
	if t[name] == nil {
		t[name] = &Counts{}
	}
	t[name].Add(c)
}

// stats are what the processes of a target wrote down.
type stats struct {
	inputs, points uint64
	tally          Tally
	known          map[string]int // findings of known bugs: subject, tab, title
	ended          string         // why a process ended itself, "" when none did
}

// Points is how many points the targets made whose counts are in a folder (fuzz.EnvStats).
func Points(dir string) uint64 {
	s := readStats(dir)
	return s.points
}

// readStats sums the files of a folder, in the form that package fuzz writes. A
// line of another form is left out: the file may be of other sources.
func readStats(dir string) stats {
	s := stats{tally: Tally{}, known: map[string]int{}}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || strings.HasPrefix(filepath.Base(name), ".") {
			continue // gone, or not yet whole
		}
		for line := range strings.Lines(string(text)) {
			s.line(line)
		}
	}
	return s
}

func (s *stats) line(line string) {
	var n uint64
	var name string
	var c Counts
	if title, ok := strings.CutPrefix(line, "ended "); ok {
		s.ended = strings.TrimSpace(title)
	} else if known, ok := strings.CutPrefix(line, "known "); ok {
		count, key, _ := strings.Cut(strings.TrimSpace(known), " ")
		if times, err := strconv.Atoi(count); err == nil && key != "" {
			s.known[key] += times
		}
	} else if _, err := fmt.Sscanf(line, "inputs %d", &n); err == nil {
		s.inputs += n
	} else if _, err := fmt.Sscanf(line, "points %d", &n); err == nil {
		s.points += n
	} else if _, err := fmt.Sscanf(line, "subject %s %d %d %d %d %d", &name, &c.Programs,
		&c.Operations, &c.Unsupported, &c.Skipped, &c.Refused); err == nil {
		s.tally.Add(name, c)
	}
}
