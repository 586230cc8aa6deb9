package debugcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"allocfuzz/impls/fault"
)

// overrun is a report about an object of 8 bytes with red zones and no more: two bytes
// behind it were written.
func overrun(t *testing.T) *Report {
	t.Helper()
	l, err := NewLayout(Spec{Name: "small", Size: 8, Flags: RedZone, Word: 8, End: 1})
	if err != nil {
		t.Fatal(err)
	}
	slot := []byte("\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc" + "ABC~ \x7f\x1f\x80" +
		"3\x12\xcc\xcc\xcc\xcc\xcc\xcc" + "padding.")
	return &Report{Cache: "small", Title: TitleRightRedzone, Object: 0x1008, Slab: 0x1000,
		Region: RightRed, From: 0x1010, To: 0x1012, Got: 0x33, Want: 0xcc, Layout: &l, Slot: slot,
		Alloc:  Track{Line: 4, Task: 1, CPU: 2, Step: 30, Set: true},
		Free:   Track{Line: -1, Task: 3, CPU: 0, Step: 7, Set: true},
		Stored: Slab{Max: 4, Objects: 4, Inuse: 3, Freelist: 0x1048},
		Fixes: []string{"Restoring Right Redzone 0x1010-0x1011=0xcc",
			"Object at 0x1008 not freed"},
		Where: fault.Where{Line: 5, Step: 42, CPU: 1, Task: "t0"}}
}

const overrunSpan = "0x1010-0x1011 @offset=16. First byte 0x33 instead of 0xcc\n"

const overrunTracks = `Allocated in operation 4 age=12 step=30 cpu=2 task=1
Freed in no operation age=35 step=7 cpu=0 task=3
`

const overrunDump = `Slab 0x1000 objects=4 used=3 fp=0x1048
Object 0x1008 @offset=8 fp=0x801f7f207e434241

Redzone  0x1000: cc cc cc cc cc cc cc cc                          ........
Object   0x1008: 41 42 43 7e 20 7f 1f 80                          ABC~ ...
Redzone  0x1010: 33 12 cc cc cc cc cc cc                          3.......
Padding  0x1018: 70 61 64 64 69 6e 67 2e                          padding.
`

const overrunFixes = `FIX small: Restoring Right Redzone 0x1010-0x1011=0xcc
FIX small: Object at 0x1008 not freed
`

// heading is the frame of the kernel around a line.
func heading(line string) string {
	return strings.Repeat("=", 77) + "\n" + line + "\n" + strings.Repeat("-", 77) + "\n\n"
}

// TestReportText holds the text of every kind of report against one made by hand.
func TestReportText(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *Report)
		want   string
	}{
		{"6.1", func(*Report) {}, heading("BUG small (6.1): Right Redzone overwritten") +
			overrunSpan + overrunTracks + overrunDump + overrunFixes},
		{"6.12", func(r *Report) { r.Rules = SLUB612 },
			"[Right Redzone overwritten] " + overrunSpan +
				heading("BUG small (6.12): Object corrupt") +
				overrunTracks + overrunDump + overrunFixes},
		{"6.12, not the first of the object", func(r *Report) { r.Rules, r.Again = SLUB612, true },
			"[Right Redzone overwritten] " + overrunSpan + overrunFixes},
		{"6.12, no bytes of an object", func(r *Report) {
			*r = Report{Rules: SLUB612, Cache: "c", Title: TitlePadding, Region: SlabPad,
				Detail: "0x1ff0-0x1fff @offset=4080", From: 0x1ff0, To: 0x2000, Slab: 0x1000}
		}, heading("BUG c (6.12): Padding overwritten. 0x1ff0-0x1fff @offset=4080") +
			"Slab 0x1000\n"},
		{"count", func(r *Report) {
			*r = Report{Cache: "c", Title: TitleCountWrong, Slab: 0x1000,
				Detail: "Counter is 3 but counted were 2", Fixes: []string{"Object count adjusted"},
				Stored: Slab{Max: 8, Objects: 8, Inuse: 3, Freelist: 1}}
		}, heading("BUG c (6.1): Wrong object count. Counter is 3 but counted were 2") +
			"Slab 0x1000 objects=8 used=3 fp=0x1\nFIX c: Object count adjusted\n"},
		{"warning", func(r *Report) {
			r.Kind, r.Title, r.Detail = Warn, TitleWrongCache, "a but object is from small"
			r.From, r.Fixes = r.To, nil
		}, "WARNING small (6.1): Wrong slab cache. a but object is from small\n" + overrunTracks},
		{"end mark", func(r *Report) { r.End, r.Stored.Freelist = 0x801f7f207e434241, 1 },
			heading("BUG small (6.1): Right Redzone overwritten") + overrunSpan + overrunTracks +
				strings.NewReplacer("fp=0x1048", "fp=0x1", "fp=0x801f7f207e434241", "fp=0x0").
					Replace(overrunDump) + overrunFixes},
		{"end mark of the slab", func(r *Report) {
			*r = Report{Cache: "c", Title: TitleSlabDisabled, Slab: 0x1000, End: 1,
				Stored: Slab{Max: 3, Objects: 3, Inuse: 3, Freelist: 1, Frozen: true}}
		}, heading("BUG c (6.1): Slab disabled since SLUB metadata consistency check failed") +
			"Slab 0x1000 objects=3 used=3 fp=0x0\n"},
		{"guard", func(r *Report) { r.Rules = Guard },
			heading("BUG small (guard): Right Redzone overwritten") + overrunSpan + overrunTracks +
				strings.NewReplacer(" objects=4 used=3 fp=0x1048", "",
					" fp=0x801f7f207e434241", "").Replace(overrunDump) + overrunFixes},
		{"fatal", func(r *Report) {
			*r = Report{Rules: SLAB24, Kind: Fatal, Cache: "c", Title: TitleSlabOnChain,
				Object: 0x1010, Slab: 0x1000, Alloc: Track{Line: 3, Set: true}}
		}, "kernel BUG c (2.4): slab: double free detected in cache\n" +
			"Last used in operation 3 cpu=0 task=0\n" +
			"Slab 0x1000\nObject 0x1010 @offset=16\n\n"},
		{"fatal, in no slab", func(r *Report) {
			*r = Report{Rules: SLAB24, Kind: Fatal, Cache: "c", Title: TitleNotSlab,
				Detail: "0x1010", Object: 0x1010}
		}, "kernel BUG c (2.4): Object is not a Slab page. 0x1010\nObject 0x1010\n\n"},
		{"fatal with bytes", func(r *Report) {
			*r = Report{Rules: SLAB24, Kind: Fatal, Cache: "c", Title: TitleSlabStart, Slab: 0x1000,
				From: 0x1010, To: 0x1011, Got: 1, Want: 2}
		}, "kernel BUG c (2.4): start of a freed object was overwritten. " +
			"0x1010-0x1010 @offset=16. First byte 0x1 instead of 0x2\nSlab 0x1000\n"},
		{"calls", func(r *Report) {
			*r = Report{Cache: "c", Title: TitleAlreadyFree, Alloc: Track{Line: 1, Set: true},
				AllocAt: []string{"f a.go:1", "g a.go:2"}}
		}, heading("BUG c (6.1): Object already free") +
			"Allocated in operation 1 cpu=0 task=0\nAllocated at f a.go:1\n  called at g a.go:2\n"},
		{"nothing", func(r *Report) { *r = Report{} }, heading("BUG  (6.1): ")},
	} {
		r := overrun(t)
		c.change(r)
		if got := r.String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		b := &bytes.Buffer{}
		if err := r.Text(b); err != nil || b.String() != c.want {
			t.Errorf("%s: Text writes %v\n%s", c.name, err, b)
		}
	}
}

// TestReportLine: where the kernel has numbers inside its line, that line is printed and
// not the title. The first line behind the frame is compared, or the first one.
func TestReportLine(t *testing.T) {
	for _, c := range []struct {
		kind          Kind
		title, detail string
		v61, v612     string // "" where it is that of 6.1
	}{
		{Bug, TitleTooFew, "Slab has 0 allocated objects but 1 are to be freed",
			"BUG c (6.1): Slab has 0 allocated objects but 1 are to be freed",
			"BUG c (6.12): Slab has 0 allocated objects but 1 are to be freed"},
		{Bug, TitleBulkCount, "Bulk free expected 3 objects but found 2",
			"BUG c (6.1): Bulk free expected 3 objects but found 2", ""},
		{Bug, TitleObjectsMax, "objects 9 > max 3", "BUG c (6.1): objects 9 > max 3", ""},
		{Bug, TitleInuseMax, "inuse 5 > max 3", "BUG c (6.1): inuse 5 > max 3", ""},
		{Bug, TitleInvalidPointer, "0x1009", "BUG c (6.1): Invalid object pointer 0x1009", ""},
		{Bug, TitleRemaining, "1 of 3 are in use",
			"BUG c (6.1): Objects remaining in c on __kmem_cache_shutdown()",
			"BUG c (6.12): Objects remaining on __kmem_cache_shutdown()"},
		{Bug, TitleObjectsWrong, "Found 2 but should be 3",
			"BUG c (6.1): Wrong number of objects. Found 2 but should be 3", ""},
		{Warn, TitleNrPartial, "1 partial slabs counted but counter=0",
			"SLUB c: 1 partial slabs counted but counter=0",
			"SLUB c: 1 partial slabs counted but counter=0"},
		{Warn, TitleNrSlabs, "3 slabs counted but counter=2",
			"SLUB: c 3 slabs counted but counter=2", "SLUB: c 3 slabs counted but counter=2"},
		{Warn, TitleWrongCache, "a but object is from c",
			"WARNING c (6.1): Wrong slab cache. a but object is from c", ""},
	} {
		for rules, want := range map[Rules]string{SLUB61: c.v61, SLUB612: c.v612} {
			r := Report{Rules: rules, Kind: c.kind, Cache: "c", Title: c.title, Detail: c.detail}
			lines := strings.Split(r.String(), "\n")
			if c.kind == Bug {
				lines = lines[1:]
			}
			if want != "" && lines[0] != want {
				t.Errorf("%v prints %q, want %q", rules, lines[0], want)
			}
			if r.Detail = ""; !strings.Contains(r.String(), "): ") {
				t.Errorf("%s without evidence prints\n%s", c.title, &r)
			}
			if got := r.Identity(); got != "c: "+c.title {
				t.Errorf("identity %q, want the title %q", got, c.title)
			}
		}
	}
	r := Report{Cache: "c", Title: TitleInvalidPointer, Detail: "0x1009", Object: 0x1009,
		Slab: 0x1000, Stored: Slab{Max: 3, Objects: 3, Inuse: 2, Freelist: 0x1108}}
	if got, want := r.String(), heading("BUG c (6.1): Invalid object pointer 0x1009")+
		"Slab 0x1000 objects=3 used=2 fp=0x1108\n"; got != want {
		t.Errorf("an invalid pointer prints\n%s\nwant\n%s", got, want)
	}
}

// TestReportTrack: a run has a first point, of number 0; natively there are none; and what a
// track of one word does not hold is not told.
func TestReportTrack(t *testing.T) {
	word := func(w uint64) *Layout {
		l, err := NewLayout(Spec{Size: 8, Word: w, Flags: Default, Rules: SLAB26, End: 1})
		if err != nil {
			t.Fatal(err)
		}
		return &l
	}
	for _, c := range []struct {
		name   string
		layout *Layout
		now    uint64
		track  Track
		want   string
	}{
		{"first point", nil, 9, Track{Line: 2, Task: 3, CPU: 1, Set: true},
			" in operation 2 age=9 step=0 cpu=1 task=3\n"},
		{"no points", nil, 0, Track{Line: 2, Task: 3, CPU: 1, Set: true},
			" in operation 2 cpu=1 task=3\n"},
		{"a word of 8", word(8), 9, Track{Line: 2, Task: 3, CPU: 1, Step: 4, Set: true},
			" in operation 2 age=5 step=4 cpu=1 task=3\n"},
		{"a word of 4", word(4), 9, Track{Line: 2, Task: 3, CPU: 1, Set: true},
			" in operation 2 cpu=1 task=3\n"},
		{"a word of 2", word(2), 9, Track{Line: 2, Set: true}, " in operation 2\n"},
	} {
		for _, rules := range []Rules{SLUB61, SLAB26} {
			r := Report{Rules: rules, Kind: Warn, Layout: c.layout, Alloc: c.track,
				Where: fault.Where{Step: c.now}}
			if s := r.String(); !strings.HasSuffix(s, c.want) {
				t.Errorf("%s: %q, want %q", c.name, s, c.want)
			}
		}
	}
}

// TestReportNames has operations named by the caller, and an error handed on.
func TestReportNames(t *testing.T) {
	r := overrun(t)
	b := &bytes.Buffer{}
	if err := r.Print(b, func(op int) string { return fmt.Sprintf("line %d", 10*op) }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nAllocated in line 40 age=12") ||
		!strings.Contains(b.String(), "\nFreed in no operation age=35") {
		t.Errorf("names are not used:\n%s", b)
	}
	if err := r.Text(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("the error of the writer is lost: %v", err)
	}
	if got := r.Identity(); got != "small: Right Redzone overwritten" {
		t.Errorf("identity %q", got)
	}
	r.Where.Step = 29 // before the track: damaged, so it has no age
	if s := r.String(); !strings.Contains(s, "Allocated in operation 4 step=30 cpu=2") {
		t.Errorf("an age below 0:\n%s", s)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// TestReportDump cuts large objects and has rows of 16 bytes, the last one shorter.
func TestReportDump(t *testing.T) {
	l, err := NewLayout(Spec{Size: 5000, Word: 8, Flags: Poison, End: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Object: 0x2000, Slab: 0x2000, Layout: &l, Slot: make([]byte, l.Stride)}
	for i := range r.Slot {
		r.Slot[i] = byte(i / 16 % 2)
	}
	s := r.String()
	if n := strings.Count(s, "Object   0x"); n != 256 {
		t.Errorf("%d rows of the object, want 256: a page", n)
	}
	if strings.Contains(s, "Redzone") || strings.Contains(s, "Padding") {
		t.Errorf("parts that the slot does not have:\n%.300s", s)
	}
	l, _ = NewLayout(Spec{Size: 20, Word: 4, End: 1})
	r = &Report{Object: 0x2000, Slab: 0x2000, Layout: &l, Slot: []byte("abcdefghijklmnopqrst")}
	want := "Object 0x2000 @offset=0 fp=0x6c6b6a69\n\n" +
		"Object   0x2000: 61 62 63 64 65 66 67 68 69 6a 6b 6c 6d 6e 6f 70  abcdefghijklmnop\n" +
		"Object   0x2010: 71 72 73 74                                      qrst\n"
	if s := r.String(); !strings.HasSuffix(s, want) {
		t.Errorf("dump\n%s\nwant\n%s", s, want)
	}
}

// TestReportFold: of equal rows four are printed, and a star for the others. What differs
// is always there, in a row as long as the others or not.
func TestReportFold(t *testing.T) {
	l, err := NewLayout(Spec{Size: 12 * 16, Word: 8, Flags: RedZone, Align: 64, End: 1})
	if err != nil {
		t.Fatal(err)
	}
	const zeros = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................\n"
	row := func(label string, at uint64, text string) string {
		return fmt.Sprintf("%-8s 0x%x: %s", label, at, text)
	}
	object := func(from, to uint64) (out string) {
		for i := from; i < to; i++ {
			out += row("Object", 0x2040+16*i, zeros)
		}
		return out
	}
	r := &Report{Object: 0x2040, Slab: 0x2000, Layout: &l, Slot: make([]byte, l.Stride)}
	r.Slot[64+16*6] = 1 // row 6 of the object: 0 to 5 are equal, and 7 to 11
	want := "\n\n" + row("Redzone", 0x2000, zeros) + row("Redzone", 0x2010, zeros) +
		row("Redzone", 0x2020, zeros) + row("Redzone", 0x2030, zeros) + // four are not folded
		object(0, 4) + "*\n" +
		row("Object", 0x20a0, strings.Replace(zeros, "00", "01", 1)) +
		object(7, 11) + "*\n" + "Redzone  0x2100: 00 00 00 00 00 00 00 00 "
	if s := r.String(); !strings.Contains(s, want) {
		t.Errorf("dump\n%s\nwant\n%s", s, want)
	}
	l, _ = NewLayout(Spec{Size: 5*16 + 3, Word: 2, End: 1})
	r = &Report{Object: 0x2040, Slab: 0x2000, Layout: &l, Slot: make([]byte, l.Stride)}
	want = object(0, 4) + "*\nObject   0x2090: 00 00 00 "
	if s := r.String(); !strings.Contains(s, want) {
		t.Errorf("dump\n%s\nwant\n%s", s, want)
	}
}

// TestReportOdd writes reports whose fields do not fit each other.
func TestReportOdd(t *testing.T) {
	for name, change := range map[string]func(r *Report){
		"no slot":      func(r *Report) { r.Slot = nil },
		"short slot":   func(r *Report) { r.Slot = r.Slot[:9] },
		"no layout":    func(r *Report) { r.Layout = nil },
		"empty layout": func(r *Report) { r.Layout = &Layout{} },
		"huge layout": func(r *Report) {
			r.Layout.Size, r.Layout.Inuse = 1<<63, math.MaxUint64
		},
		"huge pad":       func(r *Report) { r.Layout.Pad = math.MaxUint64 },
		"no such rules":  func(r *Report) { r.Rules = 200 },
		"no such kind":   func(r *Report) { r.Kind = 200 },
		"no such region": func(r *Report) { r.Region = 200 },
		"object below":   func(r *Report) { r.Object, r.Slab = 1, math.MaxUint64 },
		"high addresses": func(r *Report) {
			r.Object, r.From, r.To = math.MaxUint64, 5, math.MaxUint64
		},
		"range upside":     func(r *Report) { r.From, r.To = r.To, r.From },
		"negative counts":  func(r *Report) { r.Stored.Inuse, r.Stored.Objects = -1, math.MinInt },
		"everything blank": func(r *Report) { *r = Report{} },
	} {
		r := overrun(t)
		change(r)
		if s := r.String(); s == "" {
			t.Errorf("%s: no text", name)
		}
		if j, err := json.Marshal(r); err != nil || !json.Valid(j) {
			t.Errorf("%s: JSON %s, %v", name, j, err)
		}
	}
}

func TestReportJSON(t *testing.T) {
	r := overrun(t)
	r.Slot = r.Slot[:4]
	r.Fixes = r.Fixes[:1]
	for _, c := range []struct {
		r    *Report
		want string
	}{
		{r, `{"rules":"6.1","kind":"bug","cache":"small","title":"Right Redzone overwritten",` +
			`"object":"0x1008","slab":"0x1000","region":"rightred","from":"0x1010","to":"0x1012",` +
			`"got":"0x33","want":"0xcc","fixes":["Restoring Right Redzone 0x1010-0x1011=0xcc"],` +
			`"alloc":{"op":4,"task":1,"cpu":2,"step":30},` +
			`"free":{"op":-1,"task":3,"cpu":0,"step":7},` +
			`"slot":"cccccccc","where":{"op":5,"step":42,"cpu":1,"task":"t0"}}`},
		{&Report{Rules: SLAB24, Kind: Fatal, Cache: "c", Title: "t", Detail: "d",
			Where: fault.Where{Line: -1}},
			`{"rules":"2.4","kind":"fatal","cache":"c","title":"t","detail":"d",` +
				`"where":{"op":-1,"step":0,"cpu":0,"task":""}}`},
		{&Report{Rules: SLAB26, Kind: Warn, From: 16, To: 17}, `{"rules":"2.6","kind":"warning",` +
			`"cache":"","title":"","region":"leftred","from":"0x10","to":"0x11","got":"0x00",` +
			`"want":"0x00","where":{"op":0,"step":0,"cpu":0,"task":""}}`},
		{&Report{Cache: "c", Title: "t", Remaining: []Leftover{{Object: 0x1008},
			{0x1048, Track{Line: 2, Task: 1, CPU: 3, Step: 4, Set: true}, Track{}}}},
			`{"rules":"6.1","kind":"bug","cache":"c","title":"t","remaining":[` +
				`{"object":"0x1008"},` +
				`{"object":"0x1048","alloc":{"op":2,"task":1,"cpu":3,"step":4}}],` +
				`"where":{"op":0,"step":0,"cpu":0,"task":""}}`},
		{nil, `null`},
	} {
		got, err := json.Marshal(c.r)
		if err != nil || string(got) != c.want {
			t.Errorf("JSON %v\n%s\nwant\n%s", err, got, c.want)
		}
	}
}

// TestReportAgain: 6.12 prints one heading for all damaged regions of an object, 6.1
// stops at the first.
func TestReportAgain(t *testing.T) {
	for rules, want := range map[Rules]string{
		SLUB61: "BUG c (6.1): Left Redzone overwritten",
		SLUB612: "[Left Redzone overwritten], BUG c (6.12): Object corrupt, " +
			"[Right Redzone overwritten]",
	} {
		l, err := NewLayout(Spec{Name: "c", Size: 8, Word: 8, Flags: RedZone, End: 1, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		m := &trackMem{base: 0x1000, b: make([]byte, 2*l.Stride)}
		var got []string
		k := &Checker{Layout: &l, Mem: m, Out: func(r *Report) {
			for _, line := range strings.Split(r.String(), "\n") {
				if name, _, ok := strings.Cut(line, "] "); ok {
					got = append(got, name+"]")
				} else if strings.HasPrefix(line, "BUG") {
					got = append(got, line)
				}
			}
		}}
		s := Slab{Addr: 0x1000, First: 0x1000, Bytes: 2 * l.Stride, Max: 2, Objects: 2, Inuse: 2,
			Freelist: 1}
		k.SetUp(&s)
		k.Activate(0x1008, 8)
		k.Activate(0x1008+l.Stride, 8)
		m.b[0] ^= 1
		m.b[16] ^= 1
		k.Validate(&s)
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%v prints\n%s\nwant\n%s", rules, got, want)
		}
	}
}
