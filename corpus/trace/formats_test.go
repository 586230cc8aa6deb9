package trace

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"allocfuzz/corpus/prog"
)

// samples are a recording in each format of lines, and the program that it is.
var samples = []struct {
	format  string
	in      string
	want    string // lines of the program
	machine string // "" for one CPU
	skipped string // what was left out beside marks
}{
	{format: "rep", in: `20000
3
6
1
a 0 512
a 1 128
r 0 640
f 1
f -1
f 0
`, want: `cpu0 a0 = malloc 512
cpu0 a1 = malloc 128
cpu0 a2 = realloc a0 640
cpu0 free a1
cpu0 free a2
`, skipped: "1 frees of null"},
	{format: "valgrind", in: `==4711== Memcheck, a memory error detector
--4711-- malloc(24) = 0x4A5B040
the program's own line
--4711-- calloc(3, 8) = 0x4A5B0A0
--4712-- malloc(99) = 0x5A5B0A0
--4711-- realloc(0x4A5B040, 100) = 0x4A5B100
--4711-- memalign(al 64, size 100) = 0x4A5B180
--4711-- _Znwm(40) = 0x4A5B200
--4711-- _ZdlPv(0x4A5B200)
--4711-- free(0x4A5B100)
--4711-- free(0x0)
--4711-- malloc(9223372036854775808) = 0x0
`, want: `cpu0 a0 = malloc 24
cpu0 a1 = calloc 3 8
cpu0 a2 = realloc a0 100
cpu0 a0 = memalign 64 100
cpu0 a3 = malloc 40
cpu0 free a3
cpu0 free a2
`, skipped: "1 failed requests, 1 frees of null, 1 lines of other processes"},
	{format: "android", in: `7: malloc 0xb6f1a000 24
8: calloc 0xb6f1b000 3 8
7: realloc 0xb6f1c000 0xb6f1a000 100
8: memalign 0xb6f1d000 64 100
7: free 0xb6f1c000
8: free 0xb6f1ffff 12 13
8: thread_done 0x0
`, want: `cpu0 a0 = malloc 24
cpu0 a1 = calloc 3 8
cpu0 a2 = realloc a0 100
cpu0 a0 = memalign 64 100
cpu0 free a2
`, skipped: "1 frees and reallocs of objects from before"},
	{format: "heaptrack", in: `v 10400 3
x /usr/bin/ls
t 1 0
+ 18 1 55e0c12a02a0
+ 200 2 55e0c12a0300
c 5
- 55e0c12a02a0
+ 18 1 55e0c12a0300
`, want: `cpu0 a0 = malloc 24
cpu0 a1 = malloc 512
cpu0 free a0
cpu0 free a1
cpu0 a1 = malloc 24
`, skipped: "1 objects whose free is lost"},
	{format: "kmem", in: `# tracer: nop
 cat-812 [000] ..... 77.000001: kmalloc: call_site=f ptr=00000000a1 bytes_req=24
 cat-812 [001] ..... 77.000002: kmem_cache_alloc: ptr=00000000b1 name=dentry bytes_req=192
 <idle>-0 [001] ..s1. 77.000003: kfree: call_site=h ptr=00000000a1
 <idle>-0 [001] d.h2. 77.000004: kmalloc: call_site=h ptr=00000000c1 bytes_req=8
 cat-812 [001] ..... 77.000005: kmem_cache_free: ptr=00000000b1 name=dentry
 <idle>-0 [001] ..s1. 77.000006: kfree: call_site=h ptr=00000000c1
 cat-812 [001] ..... 77.000007: sched_switch: prev_comm=cat
`, want: `cpu0 a0 = malloc 24
cpu1 a1 = alloc dentry
irq1.k1 free a0
irq1.k2 a0 = malloc 8
cpu1 free dentry a1
irq1.k3 free a0
`, machine: "cpus=2"},
}

// TestFormats: every format is told by its first bytes, and means its program; it can be parsed.
func TestFormats(t *testing.T) {
	for _, s := range samples {
		t.Run(s.format, func(t *testing.T) {
			var out bytes.Buffer
			res, err := Write(&out, "", strings.NewReader(s.in), Options{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if res.Format != s.format {
				t.Errorf("format %s", res.Format)
			}
			p, err := prog.Parse("out", bytes.NewReader(out.Bytes()))
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			var lines []byte
			for i := range p.Lines {
				p.Lines[i].Blank, p.Lines[i].Doc = false, nil
				lines = append(prog.AppendLine(lines, &p.Lines[i]), '\n')
			}
			if diff := cmp.Diff(s.want, string(lines)); diff != "" {
				t.Errorf("program (-want +got):\n%s", diff)
			}
			if s.machine != "" && !strings.Contains(out.String(), s.machine) {
				t.Errorf("no %s in\n%s", s.machine, out.String())
			}
			if got := leftOut(&res); got != s.skipped {
				t.Errorf("left out %q, want %q", got, s.skipped)
			}
		})
	}
}

// leftOut spells what was skipped beside marks.
func leftOut(r *Result) string {
	var out []string
	for why, n := range r.Skipped {
		if n > 0 && Skip(why) != Mark {
			out = append(out, string(appendCount(n))+" "+Skip(why).String())
		}
	}
	return strings.Join(out, ", ")
}

func appendCount(n int) []byte {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return b
}

// TestPrefixes: what is left of a recording that is cut anywhere is a program, in every format.
func TestPrefixes(t *testing.T) {
	for _, s := range samples {
		for n := range s.in {
			p, _, err := Program(s.format, strings.NewReader(s.in[:n]), Options{})
			if err != nil {
				continue // no operation yet
			}
			if _, err := prog.ParseString(string(prog.Format(p))); err != nil {
				t.Fatalf("%s, %d bytes: %v", s.format, n, err)
			}
		}
	}
}

// TestUnknownLines: a line that a format does not have is named with its number, and an error when
// asked for.
func TestUnknownLines(t *testing.T) {
	for _, s := range samples {
		bad := "@ nothing of the kind\n"
		switch s.format {
		case "valgrind":
			bad = "--4711-- malloc(24 = 7\n"
		case "kmem":
			bad = "cat kmalloc: ptr=1 bytes_req=zz\n"
		}
		in := s.in + bad
		res, err := Import(s.format, strings.NewReader(in), Options{File: "f"})
		if err != nil || res.Skipped[UnknownLine] != 1 || len(res.Warnings) == 0 {
			t.Errorf("%s: %v, %+v", s.format, err, res)
		}
		at := strings.Count(in, "\n")
		if w := res.Warnings[len(res.Warnings)-1]; w.Line != at {
			t.Errorf("%s: line %d, want %d", s.format, w.Line, at)
		}
		if _, err := Import(s.format, strings.NewReader(in), Options{Strict: true}); err == nil {
			t.Errorf("%s: no error though strict", s.format)
		}
	}
}

// TestCompressed: what is compressed is told and unpacked; what is cut keeps what was good.
func TestCompressed(t *testing.T) {
	in := strings.Repeat("= Start\n@ x:[0x1] + 0x10 0x20\n@ x:[0x1] - 0x10\n", 20_000)
	var gz, zs bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write([]byte(in))
	w.Close()
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write([]byte(in))
	z.Close()
	for _, packed := range []*bytes.Buffer{&gz, &zs} {
		res, err := Import("", bytes.NewReader(packed.Bytes()), Options{})
		if err != nil || res.Operations != 40_000 || res.Format != "mtrace" {
			t.Errorf("%d operations of format %q, %v", res.Operations, res.Format, err)
		}
		half := packed.Bytes()[:packed.Len()/2]
		if res, err = Import("mtrace", bytes.NewReader(half), Options{}); err != nil ||
			res.Operations == 0 || res.Operations == 40_000 {
			t.Errorf("half: %d operations, %v", res.Operations, err)
		}
	}
	if _, err := Import("", bytes.NewReader(gz.Bytes()[:5]), Options{File: "f"}); err == nil ||
		!strings.HasPrefix(err.Error(), "f: cannot unpack the trace") {
		t.Errorf("error %v", err)
	}
}

// BenchmarkFormats reads a long recording in each format of lines.
func BenchmarkFormats(b *testing.B) {
	for _, s := range samples {
		head, body := "", s.in
		if s.format == "rep" {
			head, body = s.in[:12], s.in[12:]
		}
		in := []byte(head + strings.Repeat(body, 20_000))
		lines := bytes.Count(in, []byte("\n"))
		b.Run(s.format, func(b *testing.B) {
			for b.Loop() {
				if _, err := Import(s.format, bytes.NewReader(in), Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(lines)/b.Elapsed().Seconds()/1e6, "Mlines/s")
		})
	}
}
