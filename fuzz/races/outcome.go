package races

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/cover"
)

// An Outcome is what the search showed of a race.
type Outcome struct {
	Race        *Race
	Bound       *Search // within the bounds, nil where no step shows
	Consequence *Search // the same with Off; nil where none is demanded
	Orders      *Search // all orders, of a sound one; nil when not asked for or refused
	Refused     string  // why there is none
	Lines       int     // of the allocators that ran, 0 when they were not counted
	Took        time.Duration
}

// Wrong says what is not as the table has it; "" when all is.
func (o *Outcome) Wrong() string {
	r := o.Race
	switch {
	case r.Sound() && o.Bound.First > 0:
		return "found " + o.Bound.Title
	case r.Sound() && !o.Bound.Complete:
		return "not complete"
	case r.Sound() && o.Orders != nil && o.Orders.First > 0:
		return "found " + o.Orders.Title + " by dpor"
	case r.Sound():
		return ""
	case o.Bound != nil && !o.Bound.Has(r.Step):
		return fmt.Sprintf("found %q %q, want %s", o.Bound.Title, o.Bound.Also, r.Step)
	case o.Consequence != nil && !o.Consequence.Has(r.Consequence):
		return fmt.Sprintf("found %q %q without step checks, want %s", o.Consequence.Title,
			o.Consequence.Also, r.Consequence)
	}
	return ""
}

// Run searches a race. orders bounds the time for the search of all orders; 0 leaves it out.
func (l *Lab) Run(ctx context.Context, r *Race, orders time.Duration) (*Outcome, error) {
	bin, err := l.binary(ctx, r.Patch)
	if err != nil {
		return nil, err
	}
	counters, err := os.MkdirTemp(l.Dir, "counters-*")
	if err != nil {
		return nil, err
	}
	o := &Outcome{Race: r}
	start := time.Now()
	args := []string{"--subject", r.Subject, "--preemptions", strconv.Itoa(r.Preemptions),
		"--interrupts", strconv.Itoa(r.Interrupts), r.Program}
	if r.Sound() || r.Step != "" {
		if o.Bound, err = l.explore(ctx, bin, counters, args...); err != nil {
			return nil, err
		}
	}
	if r.Consequence != "" {
		args = append(args, string(r.Off))
		if o.Consequence, err = l.explore(ctx, bin, counters, args...); err != nil {
			return nil, err
		}
	}
	if r.Sound() && orders > 0 {
		o.Orders, err = l.explore(ctx, bin, counters, "--subject", r.Subject, "--strategy", "dpor",
			"--for", orders.String(), r.Program)
		if err != nil {
			o.Orders, o.Refused = nil, reason(err)
		}
	}
	o.Took = time.Since(start)
	if l.Cover {
		o.Lines, err = l.lines(ctx, counters)
	}
	return o, err
}

// reason is the last line of an error: what the command said.
func reason(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return lines[len(lines)-1]
}

// lines counts the lines of the allocators that ran, by the counters in a folder.
func (l *Lab) lines(ctx context.Context, counters string) (int, error) {
	profile := filepath.Join(counters, "profile.txt")
	cmd := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+counters,
		"-o="+profile)
	cmd.Dir = l.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go tool covdata: %w\n%s", err, out)
	}
	files, err := cover.ParseProfiles(profile)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, f := range files {
		if !strings.Contains(f.FileName, "/impls/") {
			continue
		}
		ran := map[int]bool{}
		for _, b := range f.Blocks {
			for line := b.StartLine; b.Count > 0 && line <= b.EndLine; line++ {
				ran[line] = true
			}
		}
		n += len(ran)
	}
	return n, nil
}

// Head is the head of the table in Markdown.
const Head = "| row | program | subject | within | schedules | all orders | lines | time |\n" +
	"|---|---|---|---|---|---|---|---|\n"

// Markdown is the outcome as a row of that table.
func (o *Outcome) Markdown() string {
	orders := ""
	switch {
	case o.Orders != nil && o.Orders.Complete:
		orders = strconv.Itoa(o.Orders.Schedules)
	case o.Orders != nil:
		orders = fmt.Sprintf("> %d", o.Orders.Schedules)
	case o.Refused != "":
		orders = "refused"
	}
	return fmt.Sprintf("%s %s | %d | %.1f s |\n", o.Proved(), orders, o.Lines, o.Took.Seconds())
}

// Proved is the part of the row that is the same each time: the race and the schedules.
func (o *Outcome) Proved() string {
	r := o.Race
	subject := "`" + r.Subject + "`"
	if r.Patch != "" {
		subject += " with `" + r.Patch + "`"
	}
	var what []string
	switch {
	case r.Sound():
		what = append(what, fmt.Sprintf("%d, all silent", o.Bound.Schedules))
	case o.Bound != nil:
		what = append(what, fmt.Sprintf("%d to *%s*", o.Bound.First, r.Step))
	}
	if o.Consequence != nil {
		what = append(what, fmt.Sprintf("%d to *%s*", o.Consequence.First, r.Consequence))
	}
	name := strings.TrimSuffix(filepath.Base(r.Program), ".prog")
	return fmt.Sprintf("| %s | `%s` | %s | %d + %d | %s |", r.Row, name, subject, r.Preemptions,
		r.Interrupts, strings.Join(what, "; "))
}
