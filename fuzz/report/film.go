package report

import (
	"encoding/json"
	"fmt"

	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// A reel is a film as the page has it: each value once, and the frames by numbers into those lists.
type reel struct {
	CPUs     int      `json:"cpus"`
	PageSize int      `json:"pageSize"`
	Lines    []string `json:"lines"`
	Slabs    list     `json:"slabs"`
	Caches   list     `json:"caches"`
	Words    list     `json:"words"`
	Looks    list     `json:"looks"`
	Arrays   list     `json:"arrays"`
	Pools    list     `json:"pools"`
	Counts   list     `json:"counts"`
	Texts    list     `json:"texts"`
	// A frame: task, CPU, depth, line, point, what was chosen, faults, looks, caches, slabs,
	// words, arrays, free pages, pools, counts.
	Frames [][]any `json:"frames"`
	Cut    bool    `json:"cut"`
}

// A list holds different values in the order in which they came.
type list struct {
	values []json.RawMessage
	at     map[string]int
}

// MarshalJSON is the values.
func (l *list) MarshalJSON() ([]byte, error) {
	if l.values == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(l.values)
}

// number is that of a value.
func (l *list) number(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("allocfuzz: a value of a film: %v", err))
	}
	if i, ok := l.at[string(text)]; ok {
		return i
	}
	if l.at == nil {
		l.at = map[string]int{}
	}
	l.at[string(text)] = len(l.values)
	l.values = append(l.values, text)
	return len(l.values) - 1
}

// The values of a film as the page has them: short names, and numbers that a browser cannot hold
// as text.
type (
	pageLook struct {
		Task     string   `json:"t"`
		Handlers []string `json:"h,omitempty"`
		IRQsOff  bool     `json:"i,omitempty"`
		Preempt  int      `json:"p,omitempty"`
		Held     []string `json:"l,omitempty"`
		Stores   int      `json:"s,omitempty"`
	}
	pageSlab struct {
		Cache   int          `json:"c"`
		Page    int          `json:"p"`
		Order   int          `json:"o"`
		First   string       `json:"a"`
		Inuse   int          `json:"u"`
		Frozen  bool         `json:"z,omitempty"`
		Retired bool         `json:"r,omitempty"`
		On      []string     `json:"on,omitempty"`
		Objects []pageObject `json:"x"`
		Free    []int        `json:"f,omitempty"`
		FreeEnd int          `json:"fe,omitempty"`
		CPUFree []int        `json:"g,omitempty"`
		CPUEnd  int          `json:"ge,omitempty"`
	}
	pageObject struct {
		State string `json:"s"`           // live, free (by no owner) or own
		Names string `json:"n,omitempty"` // of the program
		Bad   int64  `json:"b,omitempty"` // first byte that is not its owner's, from 1
		Dump  *dump  `json:"d,omitempty"`
		Red   string `json:"r,omitempty"` // what its red zones hold
	}
	// A dump is some bytes of an object and what they should be.
	dump struct {
		From int64    `json:"from"`
		Is   []string `json:"is"`
		Want []string `json:"want"`
	}
	pageWord struct {
		Cache int         `json:"c"`
		CPU   int         `json:"u"`
		Name  string      `json:"n"`
		Value string      `json:"v"`
		Parts [][2]string `json:"p,omitempty"`
	}
)

// newReel writes a film down.
func newReel(f *oracle.Film) *reel {
	r := &reel{CPUs: f.CPUs, PageSize: f.PageSize, Lines: f.Lines, Frames: [][]any{}, Cut: f.Cut}
	if r.Lines == nil {
		r.Lines = []string{}
	}
	for i := range f.Frames {
		r.Frames = append(r.Frames, r.frame(&f.Frames[i]))
	}
	return r
}

func (r *reel) frame(f *oracle.Frame) []any {
	looks := []int{}
	for _, l := range f.CPUs {
		looks = append(looks, r.Looks.number(pageLook{l.Task, l.Handlers, l.IRQsOff, l.Preempt,
			l.Held, l.Stores}))
	}
	slabs := []int{}
	for i := range f.Slabs {
		slabs = append(slabs, r.Slabs.number(slabOf(&f.Slabs[i])))
	}
	words := []int{}
	for i := range f.Words {
		words = append(words, r.Words.number(wordOf(&f.Words[i])))
	}
	faults := []int{}
	for _, text := range f.Faults {
		faults = append(faults, r.Texts.number(text))
	}
	return []any{r.Texts.number(f.Task), f.CPU, f.Depth, f.Line, r.Texts.number(f.Point),
		r.Texts.number(f.Chosen), faults, looks, r.Caches.number(f.Caches), slabs, words,
		r.Arrays.number(f.Arrays), f.Free, r.Pools.number(f.Pools), r.Counts.number(f.Counts)}
}

func slabOf(s *oracle.FilmSlab) pageSlab {
	out := pageSlab{Cache: s.Cache, Page: s.Page, Order: s.Order, First: hex(s.First),
		Inuse: s.Inuse, Frozen: s.Frozen, Retired: s.Retired, On: s.On, Free: s.Free,
		FreeEnd: int(s.FreeEnd), CPUFree: s.CPUFree, CPUEnd: int(s.CPUEnd)}
	for _, o := range s.Objects {
		state := "free"
		switch {
		case o.Live:
			state = "live"
		case o.Own:
			state = "own"
		}
		out.Objects = append(out.Objects, pageObject{state, o.Names, o.Bad + 1, dumpOf(&o), o.Red})
	}
	return out
}

func dumpOf(o *oracle.FilmObject) *dump {
	if o.Bad < 0 {
		return nil
	}
	d := &dump{From: o.From}
	for i := range o.Is {
		d.Is = append(d.Is, fmt.Sprintf("%02x", o.Is[i]))
		d.Want = append(d.Want, fmt.Sprintf("%02x", o.Want[i]))
	}
	return d
}

func wordOf(w *impls.Word) pageWord {
	out := pageWord{Cache: w.Cache, CPU: w.CPU, Name: w.Name, Value: hex(w.Value)}
	if w.Page {
		out.Value = "none"
		if w.Value != 0 {
			out.Value = fmt.Sprintf("page %d", w.Value-1)
		}
	}
	for _, p := range w.Parts {
		out.Parts = append(out.Parts, [2]string{p.Name, hex(p.Value)})
	}
	return out
}

func hex(v uint64) string { return fmt.Sprintf("%#x", v) }
