package debugcheck

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// String is the report as Text writes it.
func (r *Report) String() string { return string(r.text(nil)) }

// Text writes the report in the form of the kernel:
//
//	=============================================================================
//	BUG kmalloc-64 (6.1): Right Redzone overwritten
//	-----------------------------------------------------------------------------
//
//	0x1048-0x104a @offset=72. First byte 0x33 instead of 0xcc
//	Allocated in operation 4 age=12 step=30 cpu=0 task=1
//	Slab 0x1000 objects=16 used=3 fp=0x1100
//	Object 0x1008 @offset=8 fp=0x0
//
//	Redzone  0x1000: bb bb …
//	Object   0x1008: …
//	FIX kmalloc-64: Restoring Right Redzone 0x1048-0x104a=0xcc
//
// What the kernel calls taint is the rule set here. The wrong bytes of an object come
// under the heading as in 6.1; 6.12 has them first, in brackets, and one heading
// "Object corrupt" an object. Slab and object are shown as they were found, before any
// repair, with fp=0x0 for the link that ends a freelist. A warning has a line and tracks,
// a counter of the cache only a line; a fatal report says "kernel BUG". What a report
// does not know is left out, so that every report, an empty one too, can be written.
func (r *Report) Text(w io.Writer) error { return r.Print(w, nil) }

// Print is Text with operations named by name, which turns the index of an operation
// into, say, a line of the program.
func (r *Report) Print(w io.Writer, name func(op int) string) error {
	_, err := w.Write(r.text(name))
	return err
}

const (
	doubleLine = "============================================================================="
	singleLine = "-----------------------------------------------------------------------------"
)

// text is the report in the form of the kernel.
func (r *Report) text(name func(op int) string) []byte {
	if name == nil {
		name = operation
	}
	b := &bytes.Buffer{}
	switch {
	case r.Kind == Warn && r.counter() != "":
		fmt.Fprintln(b, r.counter())
	case r.Kind == Warn:
		fmt.Fprintf(b, "WARNING %s (%s): %s\n", r.Cache, r.rules(), r.sentence())
		r.tracks(b, name)
	case r.Kind == Fatal:
		fmt.Fprintf(b, "kernel BUG %s (%s): %s\n", r.Cache, r.rules(), r.sentence())
		r.evidence(b, name)
	case r.bracketed():
		fmt.Fprintf(b, "[%s] %s\n", r.Title, r.span())
		if !r.Again {
			r.heading(b, TitleObjectCorrupt)
			r.evidence(b, name)
		}
	case r.spanned():
		r.heading(b, r.Title)
		fmt.Fprintln(b, r.span())
		r.evidence(b, name)
	default:
		r.heading(b, r.sentence())
		r.evidence(b, name)
	}
	for _, f := range r.Fixes {
		fmt.Fprintf(b, "FIX %s: %s\n", r.Cache, f)
	}
	return b.Bytes()
}

func operation(op int) string { return fmt.Sprintf("operation %d", op) }

// rules is the spelling of the rule set, of any value.
func (r *Report) rules() string {
	if r.Rules < nRules {
		return r.Rules.String()
	}
	return "?"
}

// spanned says whether the report is about wrong bytes of an object.
func (r *Report) spanned() bool { return r.From < r.To && r.Region.InSlot() }

// bracketed says whether 6.12 prints a heading of its own over the title.
func (r *Report) bracketed() bool {
	return r.Rules == SLUB612 && r.spanned() && strings.HasSuffix(r.Title, "overwritten")
}

// counter is the line about a counter of the cache, which has no heading; "" for other
// reports. The kernel has two forms.
func (r *Report) counter() string {
	switch {
	case r.Detail == "":
	case r.Title == TitleNrPartial:
		return fmt.Sprintf("SLUB %s: %s", r.Cache, r.Detail)
	case r.Title == TitleNrSlabs:
		return fmt.Sprintf("SLUB: %s %s", r.Cache, r.Detail)
	}
	return ""
}

// sentence is title and evidence on one line. Where the kernel has the numbers inside
// the title, the evidence is the whole line.
func (r *Report) sentence() string {
	d := r.span()
	switch {
	case r.Title == TitleRemaining && r.Rules == SLUB61:
		return fmt.Sprintf("Objects remaining in %s on __kmem_cache_shutdown()", r.Cache)
	case d == "" || r.Title == TitleRemaining:
		return r.Title
	case r.Title == TitleTooFew, r.Title == TitleBulkCount, r.Title == TitleObjectsMax,
		r.Title == TitleInuseMax:
		return d
	case r.Title == TitleInvalidPointer:
		return r.Title + " " + d
	}
	return r.Title + ". " + d
}

// span is the rest of the line: the detail, or the wrong bytes when there is none.
func (r *Report) span() string {
	if r.Detail != "" || r.From >= r.To {
		return r.Detail
	}
	return fmt.Sprintf("0x%x-0x%x @offset=%d. First byte 0x%x instead of 0x%x",
		r.From, r.To-1, int64(r.From-r.Slab), r.Got, r.Want)
}

func (r *Report) heading(b *bytes.Buffer, title string) {
	fmt.Fprintf(b, "%s\nBUG %s (%s): %s\n%s\n\n",
		doubleLine, r.Cache, r.rules(), title, singleLine)
}

// evidence writes tracks, slab, object and dump. The line of an invalid pointer has the
// address already, and nothing of an object is there to be shown. What a guard calls a
// slab is the object itself, without counts and links.
func (r *Report) evidence(b *bytes.Buffer, name func(op int) string) {
	r.tracks(b, name)
	linked := r.Rules.linked()
	if r.Slab != 0 {
		fmt.Fprintf(b, "Slab 0x%x", r.Slab)
		if s := &r.Stored; s.Max != 0 && linked {
			fmt.Fprintf(b, " objects=%d used=%d fp=0x%x", s.Objects, s.Inuse, r.link(s.Freelist))
		}
		fmt.Fprintln(b)
	}
	r.leftovers(b, name)
	if r.Object == 0 || r.Title == TitleInvalidPointer {
		return
	}
	fmt.Fprintf(b, "Object 0x%x", r.Object)
	if r.Slab != 0 {
		fmt.Fprintf(b, " @offset=%d", int64(r.Object-r.Slab))
	}
	if link := r.part(FreePtr); len(link) > 0 && linked {
		fmt.Fprintf(b, " fp=0x%x", r.link(littleEndian(link)))
	}
	fmt.Fprint(b, "\n\n")
	r.dump(b)
}

// link is a link as it is printed: the kernel's end mark is 0.
func (r *Report) link(a uint64) uint64 {
	if a == r.End {
		return 0
	}
	return a
}

// leftovers writes the objects that are still in use, each with its tracks.
func (r *Report) leftovers(b *bytes.Buffer, name func(op int) string) {
	for i := range r.Remaining {
		o := &r.Remaining[i]
		fmt.Fprintf(b, "Object 0x%x @offset=%d\n", o.Object, int64(o.Object-r.Slab))
		r.track(b, "Allocated", o.Alloc, name)
		r.track(b, "Freed", o.Free, name)
	}
}

// tracks writes who allocated and freed, or who used the object last.
func (r *Report) tracks(b *bytes.Buffer, name func(op int) string) {
	if r.Rules.SLAB() {
		r.track(b, "Last used", r.Alloc, name)
		return
	}
	r.track(b, "Allocated", r.Alloc, name)
	calls(b, "Allocated", r.AllocAt)
	r.track(b, "Freed", r.Free, name)
	calls(b, "Freed", r.FreeAt)
}

// calls writes the calls that led to a track.
func calls(b *bytes.Buffer, verb string, at []string) {
	for _, call := range at {
		fmt.Fprintf(b, "%s at %s\n", verb, call)
		verb = "  called"
	}
}

// track writes one. The age is in points of the run. What has no place in a track as
// small as a word is not told.
func (r *Report) track(b *bytes.Buffer, verb string, t Track, name func(op int) string) {
	if !t.Set {
		return
	}
	who := "no operation"
	if t.Line >= 0 {
		who = name(t.Line)
	}
	fmt.Fprintf(b, "%s in %s", verb, who)
	task, cpu, step := r.Layout.tells()
	if step && max(t.Step, r.Where.Step) > 0 { // natively there are no points
		if t.Step <= r.Where.Step {
			fmt.Fprintf(b, " age=%d", r.Where.Step-t.Step)
		}
		fmt.Fprintf(b, " step=%d", t.Step)
	}
	if cpu {
		fmt.Fprintf(b, " cpu=%d", t.CPU)
	}
	if task {
		fmt.Fprintf(b, " task=%d", t.Task)
	}
	fmt.Fprintln(b)
}

// maxDump is how many bytes of an object are printed: a page, as in the kernel. Of rows
// that are equal foldAfter are printed, and one row "*" for all that follow.
const (
	maxDump   = 4096
	foldAfter = 4
)

// dump writes the parts of the slot in rows of 16 bytes.
func (r *Report) dump(b *bytes.Buffer) {
	if r.Layout == nil {
		return
	}
	red := r.Layout.Flags.Has(RedZone)
	if red {
		r.section(b, "Redzone", LeftRed)
	}
	r.section(b, "Object", Object)
	if red {
		r.section(b, "Redzone", RightRed)
	}
	r.section(b, "Padding", Padding)
}

// section writes one part.
func (r *Report) section(b *bytes.Buffer, label string, of Region) {
	rows := r.part(of)
	if of == Object && len(rows) > maxDump {
		rows = rows[:maxDump]
	}
	from, _ := r.Layout.At(of)
	at := r.Object + uint64(from)
	var before []byte
	equal := 0 // rows like this one, with it
	for len(rows) > 0 {
		row := rows[:min(16, len(rows))]
		if equal++; !bytes.Equal(row, before) {
			equal = 1
		}
		switch {
		case equal <= foldAfter:
			fmt.Fprintf(b, "%-8s 0x%x: %-47s  %s\n", label, at, spaced(row), printable(row))
		case equal == foldAfter+1:
			fmt.Fprintln(b, "*")
		}
		before, rows, at = row, rows[len(row):], at+uint64(len(row))
	}
}

// part is a part of the slot as it was found: nil when there is none or when it was
// not read.
func (r *Report) part(of Region) []byte {
	if r.Layout == nil {
		return nil
	}
	from, to := r.Layout.At(of)
	pad := int64(r.Layout.Pad)
	if from >= to || from < -pad || to+pad > int64(len(r.Slot)) {
		return nil
	}
	return r.Slot[from+pad : to+pad]
}

// spaced is bytes in hexadecimal with blanks between them.
func spaced(row []byte) string {
	b := &strings.Builder{}
	for i, v := range row {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(b, "%02x", v)
	}
	return b.String()
}

// printable is bytes as ASCII, dots for what cannot be printed.
func printable(row []byte) string {
	out := make([]byte, len(row))
	for i, v := range row {
		out[i] = '.'
		if v >= ' ' && v <= '~' {
			out[i] = v
		}
	}
	return string(out)
}

// littleEndian is the number in b, of at most 8 bytes.
func littleEndian(b []byte) (v uint64) {
	for i, x := range b {
		if i < 8 {
			v |= uint64(x) << (8 * i)
		}
	}
	return v
}
