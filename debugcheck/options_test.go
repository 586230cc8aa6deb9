package debugcheck

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	all := func(f Flags) Options { return Options{Blocks: []Block{{Flags: f}}} }
	tests := []struct {
		in   string
		want Options
		text string
	}{
		{"slab_debug", all(Default), "FZPU"},
		{"slub_debug", all(Default), "FZPU"},
		{"slab_debug=", all(Default), "FZPU"},
		{"slub_debug=", all(Default), "FZPU"},
		{"slub_debug=z", all(RedZone), "Z"},
		{"FZPUTA", all(Default | Trace | Failslab), "FZPUTA"},
		{"atupzf", all(Default | Trace | Failslab), "FZPUTA"},
		{"FF", all(Sanity), "F"},
		{"-", all(0), "-"},
		{"FZ-P", all(Poison), "P"},
		{"FZ-", all(0), "-"},
		{"O", Options{[]Block{{NoGrow: true}}}, "-O"},
		{"oP", Options{[]Block{{Flags: Poison, NoGrow: true}}}, "PO"},
		{"FO-U", Options{[]Block{{Flags: StoreUser, NoGrow: true}}}, "UO"},
		{";", all(0), "-"},
		{"slab_debug=;;", all(0), "-"},
		{";;F;;Z;", Options{[]Block{{Flags: Sanity}, {Flags: RedZone}}}, "F;Z"},
		{",a", Options{[]Block{{Flags: Default, Names: []string{"a"}}}}, "FZPU,a"},
		{"-,a,b*", Options{[]Block{{Names: []string{"a", "b*"}}}}, "-,a,b*"},
		{"U,*", Options{[]Block{{Flags: StoreUser, Names: []string{"*"}}}}, "U,*"},
		{"F,slab_debug=1", Options{[]Block{{Flags: Sanity, Names: []string{"slab_debug=1"}}}},
			"F,slab_debug=1"},
		{"FZ;-,zs_handle,zspage", Options{[]Block{{Flags: Sanity | RedZone},
			{Names: []string{"zs_handle", "zspage"}}}}, "FZ;-,zs_handle,zspage"},
	}
	for _, tt := range tests {
		got, err := ParseOptions(tt.in)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseOptions(%q) = %+v, %v, want %+v", tt.in, got, err, tt.want)
		}
		if got.String() != tt.text {
			t.Errorf("ParseOptions(%q) prints %q, want %q", tt.in, got, tt.text)
		}
	}
	if s := (Options{}).String(); s != "" {
		t.Errorf("the zero Options print %q", s)
	}
}

// Each mistake is pointed at, byte by byte from 1.
func TestOptionErrors(t *testing.T) {
	tests := []struct {
		in  string
		col int
		msg string // part of the message
	}{
		{"", 1, "no options"},
		{"Q", 1, `unexpected "Q"`},
		{"FZq", 3, `unexpected "q"`},
		{" FZ", 1, "a blank"},
		{"F Z", 2, "a blank"},
		{"FZ\t", 3, "a blank"},
		{"FZ\n", 3, `"\n"`},
		{"F\x00", 2, `"\x00"`},
		{"ü", 1, `"ü"`},
		{"FüZ", 2, `"ü"`},
		{"Zü€", 2, `"ü"`},
		{"FZ€", 3, `"€"`},
		{"F\xc3Z", 2, `"\xc3"`},
		{"F\xe2\x82", 2, `"\xe2"`},
		{"F\u200b", 2, `"\u200b"`},
		{"F\ufffd", 2, "\"\ufffd\""},
		{"F,aü", 4, `"ü"`},
		{"ü,Ü", 1, `"ü"`},
		{"\xff", 1, `"\xff"`},
		{"F*", 2, `"*"`},
		{"F;X", 3, `"X"`},
		{"F,", 3, "an empty name"},
		{",", 2, "an empty name"},
		{"F,;Z", 3, "an empty name"},
		{"F,a,,b", 5, "an empty name"},
		{"F,a,", 5, "an empty name"},
		{"F,a b", 4, "a blank"},
		{"F, a", 3, "a blank"},
		{"F,a\"", 4, `"\""`},
		{"F,a\x7f", 4, `"\x7f"`},
		{"F,*a", 3, `"*" inside`},
		{"F,a*b", 4, `"*" inside`},
		{"F,a**", 4, `"*" inside`},
		{"F,a* ", 5, "a blank"},
		{"slab_debugF", 11, `"F"`},
		{"slab_debug F", 11, "a blank"},
		{"slub_debug=Y", 12, `"Y"`},
		{"slub_debug=slub_debug", 12, `"s"`},
		{"=FZ", 1, `"="`},
		{"Slab_debug", 1, `"S"`},
	}
	for _, tt := range tests {
		got, err := ParseOptions(tt.in)
		var e *OptionError
		if !errors.As(err, &e) {
			t.Errorf("ParseOptions(%q) = %+v, %v, want an *OptionError", tt.in, got, err)
			continue
		}
		if e.Col != tt.col || !strings.Contains(e.Msg, tt.msg) || e.Want == "" {
			t.Errorf("ParseOptions(%q): %v, want column %d and %q", tt.in, e, tt.col, tt.msg)
		}
		if len(got.Blocks) != 0 {
			t.Errorf("ParseOptions(%q) gives an error and %+v", tt.in, got)
		}
	}
	_, err := ParseOptions("FZq")
	want := `column 3: unexpected "q", expected a letter of FZPUTAO, or -`
	if err == nil || err.Error() != want {
		t.Errorf("the error reads %v, want %s", err, want)
	}
}

// Names that stand for no cache, each once.
func TestOptionsUnused(t *testing.T) {
	caches := []string{"a", "kmalloc-64", "b"}
	for in, want := range map[string][]string{
		"FZ":                   nil,
		"FZ,a;-,kmalloc-64":    nil,
		"F,c":                  {"c"},
		"F,c,a;-,d,c":          {"c", "d"},
		"F,kmalloc-*":          nil,
		"F,*":                  nil,
		"F,kmaloc-*,kmalloc-6": {"kmaloc-*", "kmalloc-6"},
		"F,A":                  {"A"},
	} {
		o, err := ParseOptions(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Unused(caches); !slices.Equal(got, want) {
			t.Errorf("%q: unused are %q, want %q", in, got, want)
		}
	}
	o, _ := ParseOptions("F,*")
	if got := o.Unused(nil); !slices.Equal(got, []string{"*"}) {
		t.Errorf("without caches unused are %q", got)
	}
}

// Precedence, by the rules and the examples of the kernel's documentation.
func TestOptionsFor(t *testing.T) {
	const fz = Sanity | RedZone
	tests := []struct {
		in      string
		name    string
		creator Creator
		want    Flags
		off     bool
	}{
		{"FZ", "a", Creator{}, fz, false},
		{"FZ", "a", Creator{Flags: Poison}, fz | Poison, false},
		{"F;Z", "a", Creator{}, RedZone, false},
		{"FZ;-", "a", Creator{Flags: Trace}, Trace, false},
		{"FZ;-,zs_handle,zspage", "zspage", Creator{}, 0, false},
		{"FZ;-,zs_handle,zspage", "zs_handle", Creator{Flags: Poison}, Poison, false},
		{"FZ;-,zs_handle,zspage", "zs_handles", Creator{}, fz, false},
		{"FZ;-,zs_handle,zspage", "zs", Creator{}, fz, false},
		{"-,a;FZ", "a", Creator{}, 0, false},
		{"P,a;U,a;FZ", "a", Creator{}, Poison, false},
		{"P,a*;U,ab;FZ", "ab", Creator{}, Poison, false},
		{"P,a*;U,ab;FZ", "a", Creator{}, Poison, false},
		{"P,ab*;FZ", "a", Creator{}, fz, false},
		{"U,ab;P,a*", "abc", Creator{}, Poison, false},
		{",dentry", "dentry", Creator{}, Default, false},
		{",dentry", "inode", Creator{}, 0, false},
		{",dentry", "inode", Creator{Flags: Trace}, Trace, false},
		{"Z,*", "", Creator{}, RedZone, false},
		{"Z,a", "A", Creator{}, 0, false},
		{"slab_debug", "a", Creator{}, Default, false},
		{"O", "a", Creator{Flags: RedZone}, RedZone, true},
		{"FZ;PO,b", "a", Creator{}, fz, true},
		{"PO,b;FZ", "b", Creator{}, Poison, true},
		{"O;FZ", "a", Creator{}, fz, true},
		{"FZPUO", "a", Creator{Flags: Trace, NoUser: true}, Trace, true},
		{"U,a;F", "a", Creator{NoUser: true}, 0, false},
		{"FU", "a", Creator{NoLeakTrace: true}, Sanity, false},
		{"FU", "a", Creator{Flags: StoreUser, NoLeakTrace: true}, Sanity | StoreUser, false},
		{"FU;UZ,a", "a", Creator{NoLeakTrace: true}, StoreUser | RedZone, false},
	}
	for _, tt := range tests {
		o, err := ParseOptions(tt.in)
		if err != nil {
			t.Errorf("ParseOptions(%q): %v", tt.in, err)
			continue
		}
		if f, off := o.ForCreator(tt.name, tt.creator); f != tt.want || off != tt.off {
			t.Errorf("%q for %q, %+v: %v, O %v, want %v, O %v",
				tt.in, tt.name, tt.creator, f, off, tt.want, tt.off)
		}
	}
	if f, off := (Options{}).For("a", Poison); f != Poison || off {
		t.Errorf("no parameter: %v, O %v, want P", f, off)
	}
}

// plainOptions reads a value that is known to be right in the most direct way: blocks
// and names by splitting, each question answered from the text.
func plainOptions(s, name string, creator Flags) (f Flags, off bool) {
	if s == newName || s == oldName || s == newName+"=" || s == oldName+"=" {
		return creator | Default, false
	}
	s = strings.TrimPrefix(strings.TrimPrefix(s, newName+"="), oldName+"=")
	var all Flags
	listed := -1
	for _, block := range strings.Split(s, ";") {
		if block == "" {
			continue
		}
		words := strings.Split(block, ",")
		letters := strings.ToUpper(words[0])
		off = off || strings.Contains(letters, "O")
		flags := Flags(0)
		for i, c := range "FZPUTA" {
			if strings.LastIndex(letters, string(c)) > strings.LastIndex(letters, "-") {
				flags |= 1 << i
			}
		}
		if letters == "" {
			flags = Sanity | RedZone | Poison | StoreUser
		}
		if len(words) == 1 {
			all = flags
		}
		for _, w := range words[1:] {
			fits := w == name || strings.HasSuffix(w, "*") &&
				len(name) >= len(w)-1 && name[:len(w)-1] == w[:len(w)-1]
			if fits && listed < 0 {
				listed = int(flags)
			}
		}
	}
	if listed >= 0 {
		return creator | Flags(listed), off
	}
	return creator | all, off
}

// FuzzOptions demands of any bytes that an error points into them or right behind them,
// and that what is read prints canonically and means what the plain reading says.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{"", "slab_debug", "slub_debug=", "FZ;-,zs_handle,zspage",
		"fzputao", ",kmalloc-*,x", "F-ZO;;U,a*;P,a", ";", "F,a*b", "F \x00", "-,*", "O-;o,a"} {
		f.Add(s, "kmalloc-64", byte(0))
	}
	f.Add("P,a*;U,ab;FZ", "ab", byte(Trace))
	f.Fuzz(func(t *testing.T, s, name string, creator byte) {
		o, err := ParseOptions(s)
		var e *OptionError
		if errors.As(err, &e) {
			if e.Col < 1 || e.Col > len(s)+1 || e.Msg == "" || e.Want == "" {
				t.Fatalf("ParseOptions(%q): %#v points at nothing", s, e)
			}
			return
		}
		text := o.String()
		again, err := ParseOptions(text)
		if err != nil || !reflect.DeepEqual(again, o) || again.String() != text {
			t.Fatalf("%q prints %q and reads back %+v, %v, want %+v", s, text, again, err, o)
		}
		names := []string{name, ""}
		for _, b := range o.Blocks {
			for _, n := range b.Names {
				names = append(names, n, strings.TrimSuffix(n, "*"), n+"x")
			}
		}
		c := Flags(creator) & (1<<len(Letters) - 1)
		for _, n := range names {
			got, off := o.For(n, c)
			if want, o := plainOptions(s, n, c); got != want || off != o {
				t.Fatalf("%q for %q: %v, O %v, want %v, O %v", s, n, got, off, want, o)
			}
		}
	})
}
