package debugcheck

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"allocfuzz/impls/fault"
)

// Kind is how a report is printed.
type Kind uint8

// The kinds.
const (
	Bug   Kind = iota // a line BUG and what belongs to it; what was repaired in Fixes
	Warn              // a warning, without a dump
	Fatal             // the kernel stops there
)

// String gives the spelling of JSON: bug, warning, fatal.
func (k Kind) String() string {
	switch k {
	case Bug:
		return "bug"
	case Warn:
		return "warning"
	case Fatal:
		return "fatal"
	}
	return "?"
}

// A Report is one thing that the checks found: one region, one counter, one
// refused call. Its identity is cache and title; everything else is evidence.
type Report struct {
	Rules  Rules
	Kind   Kind
	Cache  string
	Title  string // from the table of titles: no numbers
	Detail string // the rest of the line: numbers, addresses
	Object uint64 // the object, 0 when it is about none
	Slab   uint64 // first byte of its slab, 0 when it is about none
	Region Region // what was damaged, when From is below To
	From   uint64 // first wrong byte
	To     uint64 // one behind the last wrong byte
	Got    byte   // the first wrong byte
	Want   byte   // what it should be
	Fixes  []string
	Layout *Layout // of the object, for the dump
	Alloc  Track   // zero without U; SLAB: the last user
	Free   Track
	// AllocAt and FreeAt are the calls that led to Alloc and Free, "function file:line",
	// innermost first: only a guard that keeps Go stacks has them.
	AllocAt, FreeAt []string

	Slot   []byte // the object's slot as it was found; nil when it could not be read
	Stored Slab   // the slab as it was described, before repairs; zero when it is about none
	End    uint64 // the link that ends a freelist there
	Again  bool   // 6.12: a further damaged region of an object, under the heading of the first
	Where  fault.Where

	// Remaining are the objects in use that keep a cache from being destroyed.
	Remaining []Leftover
}

// A Leftover is an object that was in use when its cache was to be destroyed.
type Leftover struct {
	Object      uint64
	Alloc, Free Track // zero without U
}

// Identity is what makes two reports the same: cache and title.
func (r *Report) Identity() string { return r.Cache + ": " + r.Title }

// The forms of JSON: names are in lower case with underscores and stay as they are,
// addresses and bytes are strings in hexadecimal, what is not known is left out.
type jsonTrack struct {
	Line int    `json:"op"`
	Task int    `json:"task"`
	CPU  int    `json:"cpu"`
	Step uint64 `json:"step"`
}

type jsonWhere struct {
	Line int    `json:"op"`
	Step uint64 `json:"step"`
	CPU  int    `json:"cpu"`
	Task string `json:"task"`
}

type jsonLeftover struct {
	Object string     `json:"object"`
	Alloc  *jsonTrack `json:"alloc,omitempty"`
	Free   *jsonTrack `json:"free,omitempty"`
}

type jsonReport struct {
	Rules   string     `json:"rules"`
	Kind    string     `json:"kind"`
	Cache   string     `json:"cache"`
	Title   string     `json:"title"`
	Detail  string     `json:"detail,omitempty"`
	Object  string     `json:"object,omitempty"`
	Slab    string     `json:"slab,omitempty"`
	Region  string     `json:"region,omitempty"`
	From    string     `json:"from,omitempty"`
	To      string     `json:"to,omitempty"`
	Got     string     `json:"got,omitempty"`
	Want    string     `json:"want,omitempty"`
	Fixes   []string   `json:"fixes,omitempty"`
	Alloc   *jsonTrack `json:"alloc,omitempty"`
	Free    *jsonTrack `json:"free,omitempty"`
	AllocAt []string   `json:"alloc_at,omitempty"`
	FreeAt  []string   `json:"free_at,omitempty"`
	Slot    string     `json:"slot,omitempty"`

	Remaining []jsonLeftover `json:"remaining,omitempty"`
	Where     jsonWhere      `json:"where"`
}

// MarshalJSON gives an object with the keys rules, kind (bug, warning, fatal), cache
// and title; detail, object, slab; region, from, to, got and want when bytes were
// damaged, to being one behind the last; fixes; alloc and free, each with op, task, cpu
// and step; alloc_at and free_at, the calls that led there where a guard kept them; slot,
// the bytes of the object's slot; remaining, the objects that keep a cache from being
// destroyed, each with object, alloc and free; and where, with op, step, cpu and the name
// of the task. op is the index of an operation in the program, counted from 0, where a
// repeat counts and each line of its body once; in alloc and free it is -1 when none ran,
// and where has -1 or what is no index behind the program's end. Addresses and bytes are
// strings such as "0x1048" and "0xcc", slot is a string of two digits a byte.
func (r *Report) MarshalJSON() ([]byte, error) {
	j := jsonReport{Rules: r.rules(), Kind: r.Kind.String(), Cache: r.Cache, Title: r.Title,
		Detail: r.Detail, Object: address(r.Object), Slab: address(r.Slab), Fixes: r.Fixes,
		Alloc: r.Alloc.json(), Free: r.Free.json(), AllocAt: r.AllocAt, FreeAt: r.FreeAt,
		Slot:  hex.EncodeToString(r.Slot),
		Where: jsonWhere(r.Where)}
	if r.From < r.To {
		j.Region = r.Region.String()
		j.From, j.To = fmt.Sprintf("0x%x", r.From), fmt.Sprintf("0x%x", r.To)
		j.Got, j.Want = fmt.Sprintf("0x%02x", r.Got), fmt.Sprintf("0x%02x", r.Want)
	}
	for _, o := range r.Remaining {
		j.Remaining = append(j.Remaining,
			jsonLeftover{fmt.Sprintf("0x%x", o.Object), o.Alloc.json(), o.Free.json()})
	}
	return json.Marshal(&j)
}

// address is an address as JSON has it; 0 is none.
func address(a uint64) string {
	if a == 0 {
		return ""
	}
	return fmt.Sprintf("0x%x", a)
}

// json is the track as JSON has it, nil when nobody did.
func (t Track) json() *jsonTrack {
	if !t.Set {
		return nil
	}
	return &jsonTrack{t.Line, t.Task, t.CPU, t.Step}
}
