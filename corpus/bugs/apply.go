package bugs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Apply gives the whole text of every file that p changes, after the change, by
// path relative to the root of the module. The function read gives the text of
// a file before. Nothing else is read and nothing written.
//
// Every hunk's context and removed lines must occur exactly once in its file,
// and no two hunks may meet. Each hunk that fails is an error of its own with
// the patch, the line of the hunk and the file.
func (p *Patch) Apply(read func(path string) ([]byte, error)) (map[string][]byte, error) {
	patched := make(map[string][]byte, len(p.Files))
	var errs []error
	for _, f := range p.Files {
		text, err := read(f.Path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.patch: read %s: %w", p.Name, f.Path, err))
			continue
		}
		lines, err := p.applyFile(f, strings.Split(string(text), "\n"))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		patched[f.Path] = []byte(strings.Join(lines, "\n"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return patched, nil
}

// applyFile gives the lines of one file after its hunks.
func (p *Patch) applyFile(f File, source []string) ([]string, error) {
	result := slices.Clone(source)
	taken := make([]int, len(source)) // line of the hunk that covers a line of the source
	var errs []error
	for _, h := range f.Hunks {
		at, err := h.locate(source)
		if err == nil {
			err = h.claim(taken[at : at+len(h.Old)])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.patch:%d: %s: %w", p.Name, h.Line, f.Path, err))
			continue
		}
		copy(result[at:], h.New)
	}
	return result, errors.Join(errs...)
}

// claim marks the lines under the hunk as its own.
func (h *Hunk) claim(taken []int) error {
	for i, other := range taken {
		if other != 0 {
			return fmt.Errorf("the hunk meets the one at line %d of the patch: join them", other)
		}
		taken[i] = h.Line
	}
	return nil
}

// locate gives the index of the only place in source where the hunk fits.
func (h *Hunk) locate(source []string) (int, error) {
	var places []int
	for i := 0; i+len(h.Old) <= len(source); i++ {
		if slices.Equal(source[i:i+len(h.Old)], h.Old) {
			places = append(places, i)
		}
	}
	switch len(places) {
	case 1:
		return places[0], nil
	case 0:
		return 0, h.missing(source)
	}
	numbers := make([]string, len(places))
	for i, at := range places {
		numbers[i] = fmt.Sprint(at + 1)
	}
	return 0, fmt.Errorf("the hunk fits at lines %s: give more context, so that it fits once",
		strings.Join(numbers, ", "))
}

// missing explains a hunk that fits nowhere, by the longest beginning of it that
// does, and where several do, by the one nearest to the hint.
func (h *Hunk) missing(source []string) error {
	best, at := 0, 0
	for i := range source {
		n := 0
		for n < len(h.Old) && i+n < len(source) && source[i+n] == h.Old[n] {
			n++
		}
		if n > best || n == best && n > 0 && distance(i, h.Hint-1) < distance(at, h.Hint-1) {
			best, at = n, i
		}
	}
	if best == 0 {
		return fmt.Errorf("the hunk fits nowhere: no line is %q; make the patch anew", h.Old[0])
	}
	got := "the end of the file"
	if at+best < len(source) {
		got = fmt.Sprintf("%q", source[at+best])
	}
	return fmt.Errorf("the hunk fits nowhere: at line %d got %s, want %q; make the patch anew",
		at+best+1, got, h.Old[best])
}

func distance(a, b int) int { return max(a-b, b-a) }
