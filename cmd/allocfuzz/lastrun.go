package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
)

// A lastRun is what run leaves behind for subjects to tell: what each subject did.
type lastRun struct {
	Schema   int                      `json:"schema"`
	Ended    string                   `json:"ended"`   // RFC 3339
	Seconds  float64                  `json:"seconds"` // of fuzzing
	Complete bool                     `json:"complete"`
	Findings int                      `json:"findings"` // that nobody expected
	Subjects map[string]engine.Counts `json:"subjects"`
}

// lastRunFile is its name in the folder of the fuzzer's corpora.
const lastRunFile = "last-run.json"

// cacheFolder is the folder of the fuzzer's corpora where none is named.
func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for caches: %w; give --cache", err)
	}
	return filepath.Join(base, "allocfuzz", "fuzzcache"), nil
}

// remember writes down what the subjects of a run did. That it cannot is no reason to call
// the run a failure.
func (s *session) remember() {
	a := s.app
	r := lastRun{Schema: schema, Ended: time.Now().Format(time.RFC3339), Seconds: a.doc.FuzzSeconds,
		Complete: a.doc.Complete, Subjects: map[string]engine.Counts{}}
	for _, v := range s.subjects {
		r.Subjects[v.Name] = *s.tally[v.Name]
	}
	for i := range a.doc.Findings {
		if !a.doc.Findings[i].Known {
			r.Findings++
		}
	}
	name := filepath.Join(s.flags.cache, lastRunFile)
	err := fuzz.WriteFile(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(&r)
	})
	if err != nil {
		a.sayf("allocfuzz subjects will not know of this run: %v", err)
	}
}

// recall reads what the last run left; nil when there was none.
func recall(cache string) (*lastRun, error) {
	if cache == "" {
		var err error
		if cache, err = cacheFolder(); err != nil {
			return nil, nil // nobody can have run with the usual folder
		}
	}
	name := filepath.Join(cache, lastRunFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	var r lastRun
	if err := json.Unmarshal(text, &r); err != nil || r.Schema != schema {
		return nil, fmt.Errorf("%s: not the counts of a run of this version; remove it, or run "+
			"allocfuzz run", name)
	}
	return &r, nil
}
