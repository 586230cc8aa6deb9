package engine

import (
	"slices"
	"testing"
)

// TestBuckets: findings with a title in common are one bug, of which the smallest program stays,
// and those of other subjects are not.
func TestBuckets(t *testing.T) {
	var b Buckets
	add := func(subject, title, file string, size int64, also ...string) (bool, string) {
		fresh, lost := b.Add(Finding{Subject: subject, Title: title, Also: also, File: file,
			Identity: subject + ": " + title}, size)
		if lost == nil {
			return fresh, ""
		}
		return fresh, lost.File
	}
	for _, step := range []struct {
		subject, title, file string
		size                 int64
		also                 []string
		fresh                bool
		lost                 string
	}{
		{"s", "twice", "large", 90, []string{"live"}, true, ""},
		{"s", "live", "medium", 50, []string{"leaked"}, false, "large"}, // by its title
		{"s", "leaked", "same", 50, nil, false, "same"},                 // by another of one
		{"s", "cycle", "small", 10, []string{"twice"}, false, "medium"}, // by another of its own
		{"r", "twice", "other", 70, nil, true, ""},
		{"s", "lost", "apart", 5, nil, true, ""},
	} {
		fresh, lost := add(step.subject, step.title, step.file, step.size, step.also...)
		if fresh != step.fresh || lost != step.lost {
			t.Errorf("%s: fresh %v, lost %q; want %v and %q", step.file, fresh, lost, step.fresh,
				step.lost)
		}
	}
	if !b.Count("s\ttwice", 40) || b.Count("s\tlive", 1) || b.Count("q\ttwice", 1) {
		t.Error("counted under the wrong title")
	}
	list := b.Findings()
	var files []string
	for _, f := range list {
		files = append(files, f.File)
	}
	if want := []string{"other", "small", "apart"}; !slices.Equal(files, want) {
		t.Fatalf("files %v, want %v", files, want)
	}
	small := list[1]
	if want := []string{"twice", "live", "leaked"}; small.Title != "cycle" ||
		!slices.Equal(small.Also, want) || small.Count != 44 {
		t.Errorf("%+v, want cycle with %v, met 44 times", small, want)
	}
}
