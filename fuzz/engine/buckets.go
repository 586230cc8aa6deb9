package engine

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"allocfuzz/fuzz"
)

// Buckets sort findings by bug. Findings of a subject whose titles, or other titles of the run,
// have one in common are the same bug: the deeper a fault is, the more consequences it has, and
// which of them is met first is a matter of chance. Of each bug the smallest program is kept.
type Buckets struct {
	known fuzz.Known
	list  map[string]*bucket // by subject, a tab and the title that counts
}

// A bucket is one bug.
type bucket struct {
	best Finding
	size int64 // of its program
	met  int
}

// Add sorts a finding in, whose program has so many bytes. It says whether that is a new bug, and
// which finding lost: the one whose program is larger, if any.
func (b *Buckets) Add(f Finding, size int64) (fresh bool, lost *Finding) {
	if b.list == nil {
		b.list, b.known.Loose = map[string]*bucket{}, true
	}
	b.known.Add(f.Subject, f.Title, f.Also...)
	key := b.key(&f)
	k := b.list[key]
	if k == nil {
		b.list[key] = &bucket{best: f, size: size, met: 1}
		return true, nil
	}
	k.met++
	loser := f
	if size < k.size {
		f.Target = k.best.Target // that met the bug first
		loser, k.best, k.size = k.best, f, size
	}
	k.best.Merge(&loser)
	return false, &loser
}

// key is that of the bug of a finding that was added.
func (b *Buckets) key(f *Finding) string {
	first, _ := b.known.Find(f.Subject, f.Title)
	return f.Subject + "\t" + first
}

// Met notes which target met a bug first.
func (b *Buckets) Met(f *Finding) { b.list[b.key(f)].best.Target = f.Target }

// Count notes that a bug was met so often besides: one that was added, by subject, a tab and
// the title that counts. It says whether there is one.
func (b *Buckets) Count(key string, times int) bool {
	k := b.list[key]
	if k != nil {
		k.met += times
	}
	return k != nil
}

// Known is the set of the bugs.
func (b *Buckets) Known() *fuzz.Known { return &b.known }

// Findings are the bugs, each by its smallest program, in the order of their identities.
func (b *Buckets) Findings() []Finding {
	out := make([]Finding, 0, len(b.list))
	//tidy:maporder they are sorted
	for _, k := range b.list {
		f := k.best
		f.Count = k.met
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y Finding) int { return cmp.Compare(x.Identity, y.Identity) })
	return out
}

// Gather sorts in what the targets wrote to a folder, but for the reports in before, which has
// then all. What is not the smallest of its bug is removed. It returns the findings of new bugs.
func (b *Buckets) Gather(dir string, before map[string]bool) ([]Finding, error) {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(reports(dir))) {
		if before[name] {
			continue
		}
		f, err := ReadReport(name)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(f.File)
		if err != nil || f.Identity == "" {
			continue // its program is not there yet
		}
		before[name] = true
		fresh, lost := b.Add(f, info.Size())
		if fresh {
			out = append(out, f)
		}
		if lost == nil {
			continue
		}
		for _, file := range []string{lost.File, lost.Report} {
			if err := os.Remove(file); err != nil {
				return out, fmt.Errorf("a larger program of a bug: %w", err)
			}
		}
	}
	for i := range out { // a smaller program may have come since
		out[i] = b.list[b.key(&out[i])].best
	}
	return out, nil
}

// reports is the set of reports that a folder has.
func reports(dir string) map[string]bool {
	entries, _ := os.ReadDir(dir) // one that is not there has none
	set := make(map[string]bool, len(entries))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".txt") && !strings.HasPrefix(e.Name(), ".") {
			set[filepath.Join(dir, e.Name())] = true
		}
	}
	return set
}
