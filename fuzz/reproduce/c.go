package reproduce

import (
	_ "embed" // the checks
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"allocfuzz/corpus/prog"
)

// checks carry a program out in C.
//
//go:embed c/checks.c
var checks string

// ErrNoC says that a program cannot be carried out in C as it is.
var ErrNoC = errors.New("no C program does this: hand on the program or the Go test")

// C is the text of a C11 program with POSIX threads that carries p out on an allocator with the
// interface of malloc, or of the kernel's object caches, and holds it against the rules of
// ownership and contents, by their titles. It ends with status 0 when nothing is wrong and with 1
// after saying what is. A context is a thread, and they take turns in line order. A misuse is
// done, whatever comes of it. Lines that have no call in C are left out, which the text notes and
// left tells. A program with departures, or in which a task waits for a name, is ErrNoC.
func C(identity string, p *prog.Program) (text []byte, left []string, err error) {
	for i := range p.Scheds {
		if n := len(p.Scheds[i].Departures); n != 0 {
			return nil, nil, fmt.Errorf("threads cannot be made to follow the schedule, "+
				"%d departures: %w", n, ErrNoC)
		}
	}
	w := &cWriter{p: p, threads: map[prog.Ctx]int{}, declared: map[string]bool{},
		bound: map[string]bool{}, done: map[prog.Ctx]bool{}}
	b := &strings.Builder{}
	fmt.Fprintf(b, "/*\n * %s\n *\n", cComment(identity))
	listing := *p
	listing.Head, listing.Scheds = prog.Head{}, nil
	for line := range strings.Lines(string(prog.Format(&listing))) {
		b.WriteString(strings.TrimRight(" * "+cComment(line), " ") + "\n")
	}
	b.WriteString(cUse)
	w.caches()
	if err := w.all(); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(b, "#define THREADS %d\n\n%s\n%s\nint main(void)\n{\n%s", max(len(w.threads), 1),
		checks, w.decls.String(), w.body.String())
	b.WriteString("\trun(&(struct op){.text = \"end\", .verb = THE_END, .thread = 1});\n" +
		"\tsay(\"nothing wrong\\n\");\n\treturn 0;\n}\n")
	return []byte(b.String()), w.left, nil
}

const cUse = ` *
 *   cc -std=c11 -Wall -Wextra -pthread bug.c -o bug && ./bug
 *   LD_PRELOAD=libother.so ./bug
 *
 * The exit status is 0 when nothing is wrong and 1 after a line that says what is.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

`

// A cWriter turns the lines of a program into calls.
type cWriter struct {
	p       *prog.Program
	decls   strings.Builder
	body    strings.Builder
	threads map[prog.Ctx]int // thread of each task, from 1

	declared map[string]bool
	bound    map[string]bool   // names that a line written so far binds
	done     map[prog.Ctx]bool // handlers that are written
	left     []string          // lines that are left out
	calls    int
	loops    int
}

// cVerbs are the verbs that have calls in C, by their names in the checks.
var cVerbs = map[prog.Verb]string{
	prog.Create: "CREATE", prog.Destroy: "DESTROY", prog.Shrink: "SHRINK", prog.Alloc: "ALLOC",
	prog.AllocBulk: "ALLOCBULK", prog.FreeBulk: "FREEBULK", prog.Malloc: "MALLOC",
	prog.Calloc: "CALLOC", prog.Realloc: "REALLOC", prog.Memalign: "MEMALIGN", prog.Free: "FREE",
	prog.FreeSized: "FREESIZED", prog.Usable: "USABLE_SIZE", prog.Fill: "FILL",
	prog.Verify: "VERIFY", prog.Overrun: "OVERRUN", prog.Underrun: "UNDERRUN",
	prog.WriteFreed: "WRITEFREED", prog.FreeAgain: "FREEAGAIN", prog.FreeInside: "FREEINSIDE",
}

// caches makes the caches that exist from the start.
func (w *cWriter) caches() {
	for i := range w.p.Caches {
		c := &w.p.Caches[i]
		w.bound[c.Name] = true
		w.op("cache "+c.Name, 1, "CREATE", ".cache = "+w.cache(c.Name)+w.spec(&c.Spec))
	}
}

// declare writes a declaration the first time.
func (w *cWriter) declare(text string) {
	if !w.declared[text] {
		w.declared[text] = true
		w.decls.WriteString(text)
	}
}

// cache and block spell a name of the program, which is declared with its first use. No name of C
// or of the checks begins as these do.
func (w *cWriter) cache(name string) string {
	w.declare(fmt.Sprintf("static struct cache *c_%s;\n", name))
	return "&c_" + name
}

func (w *cWriter) block(name string) string {
	if name == prog.Nil {
		return "&nothing"
	}
	w.declare(fmt.Sprintf("static struct block o_%s = {.name = %[1]q};\n", name))
	return "&o_" + name
}

// spec is the description of a cache for its CREATE, with the constructor that it needs.
func (w *cWriter) spec(s *prog.CacheSpec) string {
	text := fmt.Sprintf(", .n = %d, .m = %d", s.Size, s.Align)
	if !s.Ctor {
		return text
	}
	w.declare(fmt.Sprintf("static void construct_%d(void *p)\n{\n\tfill(p, %[1]d, CTOR);\n}\n",
		s.Size))
	return text + fmt.Sprintf(", .ctor = construct_%d", s.Size)
}

// all writes every line. A handler runs where its first line stands.
func (w *cWriter) all() error {
	for i := range w.p.Lines {
		l := &w.p.Lines[i]
		if l.Ctx.Kind != prog.IRQCtx {
			if err := w.line(l); err != nil {
				return err
			}
			continue
		}
		if w.done[l.Ctx] {
			continue
		}
		w.done[l.Ctx] = true
		for j := i; j < len(w.p.Lines); j++ {
			if w.p.Lines[j].Ctx != l.Ctx {
				continue
			}
			if err := w.line(&w.p.Lines[j]); err != nil {
				return err
			}
		}
	}
	if w.calls == 0 {
		return fmt.Errorf("no line has a call in C: %w", ErrNoC)
	}
	return nil
}

// line writes one line, a repeat with its body.
func (w *cWriter) line(l *prog.Line) error {
	if l.Verb != prog.Repeat {
		return w.call(l)
	}
	w.loops++
	fmt.Fprintf(&w.body, "%sfor (long i%[2]d = 0; i%[2]d < %[3]d; i%[2]d++) {\n", w.indent(-1),
		w.loops, l.Count)
	for i := range l.Body {
		if err := w.line(&l.Body[i]); err != nil {
			return err
		}
	}
	w.loops--
	fmt.Fprintf(&w.body, "%s}\n", w.indent(0))
	return nil
}

// indent is the indentation inside the loops that are open, and some more.
func (w *cWriter) indent(more int) string { return strings.Repeat("\t", 1+w.loops+more) }

// call writes the operation of a line.
func (w *cWriter) call(l *prog.Line) error {
	text := string(prog.AppendLine(nil, l))
	if err := w.follow(l, text); err != nil {
		return err
	}
	verb, ok := cVerbs[l.Verb]
	zeroes := l.HasFlag("zero") && (l.Verb == prog.Memalign || l.Verb == prog.Realloc)
	if !ok || zeroes {
		w.left = append(w.left, text)
		fmt.Fprintf(&w.body, "%s/* left out: %s */\n", w.indent(0), cComment(text))
		return nil
	}
	if l.Num("fail", 0)|l.Num("failobj", 0) != 0 {
		w.left = append(w.left, "the failure in "+text)
	}
	w.calls++
	w.op(text, w.thread(l.Ctx), verb, w.operands(l))
	return nil
}

// thread is that of a context; a handler runs on its CPU's.
func (w *cWriter) thread(c prog.Ctx) int {
	if c.Kind == prog.IRQCtx {
		c = prog.Ctx{Kind: prog.CPUCtx, CPU: c.CPU}
	}
	if w.threads[c] == 0 {
		w.threads[c] = len(w.threads) + 1
	}
	return w.threads[c]
}

// op writes one operation.
func (w *cWriter) op(text string, thread int, verb, operands string) {
	in := w.indent(0)
	fmt.Fprintf(&w.body, "%srun(&(struct op){.text = %s, .thread = %d, .verb = %s,\n%s\t%s});\n",
		in, cString(text), thread, verb, in, strings.TrimPrefix(operands, ", "))
}

// operands are the fields of an operation.
func (w *cWriter) operands(l *prog.Line) string {
	if l.Verb == prog.Create {
		return ".cache = " + w.cache(l.Results[0]) + w.spec(l.Spec)
	}
	b := &strings.Builder{}
	if l.Cache != "" {
		b.WriteString(", .cache = " + w.cache(l.Cache))
	}
	if l.Verb == prog.AllocBulk || l.Verb == prog.FreeBulk {
		var list []string
		for _, name := range slices.Concat(l.Results, l.Slots) {
			list = append(list, w.block(name))
		}
		fmt.Fprintf(b, ", .count = %d, .many = (struct block *[]){%s}", len(list),
			strings.Join(list, ", "))
		return b.String()
	}
	for _, name := range l.Results {
		b.WriteString(", .to = " + w.block(name))
	}
	for _, name := range l.Slots {
		b.WriteString(", .of = " + w.block(name))
	}
	// Two numbers are count and size, or alignment and size.
	for i, n := range l.Nums {
		fmt.Fprintf(b, ", .%s = %d", [...]string{"m", "n"}[i+2-len(l.Nums)], n)
	}
	if l.HasFlag("zero") {
		b.WriteString(", .zero = 1")
	}
	return b.String()
}

// follow demands that a task has its names bound: it would wait for them.
func (w *cWriter) follow(l *prog.Line, text string) error {
	for _, name := range append(slices.Clone(l.Slots), l.Cache) {
		if name == "" || name == prog.Nil || w.bound[name] || l.Ctx.Kind == prog.IRQCtx ||
			!w.later(name, l.Ctx) {
			continue
		}
		return fmt.Errorf("%s waits for another context to bind %s; write the lines in the order "+
			"in which they run: %w", text, name, ErrNoC)
	}
	for _, name := range l.Results {
		w.bound[name] = true
	}
	return nil
}

// later says whether a line of another context binds a name.
func (w *cWriter) later(name string, c prog.Ctx) (yes bool) {
	w.p.Walk(func(l *prog.Line, _ []int) {
		yes = yes || l.Ctx != c && slices.Contains(l.Results, name)
	})
	return yes
}

// cComment is a line of a text inside a comment.
func cComment(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) || c == ' ' {
			return c
		}
		return -1
	}, strings.ReplaceAll(text, "\t", "  "))
	return strings.NewReplacer("*/", "* /", "/*", "/ *", "??", "? ?").Replace(text)
}

// cString is a string of C.
func cString(text string) string {
	b := &strings.Builder{}
	b.WriteByte('"')
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || strings.IndexByte(`"\?`, c) >= 0 {
			fmt.Fprintf(b, "\\%03o", c)
			continue
		}
		b.WriteByte(c)
	}
	b.WriteByte('"')
	return b.String()
}
