package trace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKmemLines: the spellings of a line, each as a kmalloc of 8 bytes and its context.
func TestKmemLines(t *testing.T) {
	tests := []struct{ line, want string }{
		{" cat-8 [003] .... 7.1: kmalloc: call_site=f ptr=a1 bytes_req=8", "cpu3 a0 = malloc 8"},
		{" cat-8 [003] ..s. 7.1: kmalloc: ptr=a1 bytes_req=8", "irq3.k1 a0 = malloc 8"},
		{" cat-8 [003] d.H1. 7.1: kmalloc_node: ptr=a1 bytes_req=8", "irq3.k1 a0 = malloc 8"},
		{" cat-8 [003] d.Z1. 7.1: kmalloc: ptr=a1 bytes_req=8", "irq3.k1 a0 = malloc 8"},
		{" cat-8 [003] dNb1. 7.1: kmalloc: ptr=a1 bytes_req=8", "cpu3 a0 = malloc 8"},
		{" [1] x-8 [003] ..s. 7.1: kmalloc:   (f+0x1) ptr=a1 bytes_req=8", "cpu1 a0 = malloc 8"},
		{" [k] x-8 [003] ..s. 7.1: kmalloc: ptr=a1 bytes_req=8", "irq3.k1 a0 = malloc 8"},
		{"cat 8/8 [003] 7.1:  1 kmem:kmalloc: call_site=f ptr=0xa1 bytes_req=8",
			"cpu3 a0 = malloc 8"},
		{"cat 8 7.1: kmem:kmalloc: call_site=f ptr=0xa1 bytes_req=8", "cpu0 a0 = malloc 8"},
		{" cat-8 [003] .... 7.1: kmalloc: ptr=0xa1 (5) bytes_req=0x8 (8)", "cpu3 a0 = malloc 8"},
		{" cat-8 [019] .... 7.1: kmalloc: ptr=a1 bytes_req=8", "cpu3 a0 = malloc 8"},
		{" c-8 [000] .... 7.1: kmem_cache_alloc: ptr=a1 name=a12 bytes_req=8",
			"cpu0 a0 = alloc a12_"},
		{" c-8 [000] .... 7.1: kmem_cache_alloc: ptr=a1 name=9-X(.) bytes_req=8",
			"cpu0 a0 = alloc __x___"},
		{" c-8 [000] .... 7.1: kmem_cache_alloc: ptr=a1 name=nil bytes_req=8",
			"cpu0 a0 = alloc nil_"},
		{" c-8 [000] .... 7.1: kmem_cache_alloc_node: ptr=a1 bytes_req=8",
			"cpu0 a0 = alloc size_8"},
	}
	for _, test := range tests {
		p, res, err := Program("", strings.NewReader(test.line+"\n"), Options{})
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		if diff := cmp.Diff([]string{test.want}, body(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
		if folded := strings.Contains(test.line, "[019]"); folded != (len(res.Warnings) == 1) {
			t.Errorf("%s: warnings %v", test.line, res.Warnings)
		}
		checkProgram(t, p, &res)
	}
}

// TestKmemCaches: names that become the same in a program stay apart, what is freed goes to the
// cache that it came from, and a cache that cannot be is left out.
func TestKmemCaches(t *testing.T) {
	in := text([]string{
		" c-8 [0] .... 7.1: kmem_cache_alloc: ptr=a1 name=x-y bytes_req=8",
		" c-8 [0] .... 7.1: kmem_cache_alloc: ptr=a2 name=x_y bytes_req=16",
		" c-8 [0] .... 7.1: kfree: ptr=a1",
		" c-8 [0] .... 7.1: kmem_cache_free: ptr=a2 name=other",
		" c-8 [0] .... 7.1: kmem_cache_alloc: ptr=a3 name=none bytes_req=0",
		" c-8 [0] .... 7.1: kmalloc: ptr=a4 bytes_req=5",
		" c-8 [0] .... 7.1: kmem_cache_free: ptr=a4 name=x-y",
	})
	p, res, err := Program("", strings.NewReader(in), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"cpu0 a0 = alloc x_y", "cpu0 a1 = alloc x_y_2", "cpu0 free x_y a0", "cpu0 free x_y_2 a1",
		"cpu0 a1 = malloc 5", "cpu0 free a1",
	}
	if diff := cmp.Diff(want, body(p)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if res.Skipped[Unfit] != 1 || len(res.Caches) != 2 || res.Caches[1].Size != 16 {
		t.Errorf("%+v", res)
	}
	checkProgram(t, p, &res)
}

// TestManyHandlers: interrupts beyond what can be replayed become tasks, and are counted.
func TestManyHandlers(t *testing.T) {
	line := func(flags string) string {
		return " c-8 [0] " + flags + " 7.1: kmalloc: ptr=a1 bytes_req=8"
	}
	var in []string
	for range handlersMax + 3 {
		in = append(in, line("...."), line("..s."))
	}
	p, res, err := Program("", strings.NewReader(text(in)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	handlers := map[string]bool{}
	for i := range p.Lines {
		if ctx := p.Lines[i].Ctx; ctx.IsIRQ() {
			handlers[ctx.Name] = true
		}
	}
	if len(handlers) != handlersMax || res.Skipped[Handlers] != 3 {
		t.Errorf("%d handlers, %d beyond them", len(handlers), res.Skipped[Handlers])
	}
	res, err = Import("", strings.NewReader(text(in)), Options{From: 100})
	if err != nil || res.Skipped[Handlers] != 0 {
		t.Errorf("slice: %v, %d beyond", err, res.Skipped[Handlers])
	}
}
