package trace

import (
	"fmt"
	"strings"
	"testing"
)

// long is a recording of many lines in a format: a few objects come and go, two lines each.
func long(format string, rounds int) string {
	line := map[string]string{
		"mtrace":    "@ /usr/bin/ls:[0x4025d4] + %#[1]x 0x20\n@ /usr/bin/ls:[0x4025d4] - %#[1]x\n",
		"rep":       "a %[1]d 512\nf %[1]d\n",
		"valgrind":  "--4711-- malloc(24) = %#[1]X\n--4711-- free(%#[1]X)\n",
		"android":   "4711: malloc %#[1]x 24\n4711: free %#[1]x\n",
		"heaptrack": "+ 18 3f %[1]x\n- %[1]x\n",
		"kmem": "  cat-812  [001] .....  77.000002: kmem_cache_alloc: call_site=d_alloc+0x1/0x9 " +
			"ptr=00000000%[1]x name=dentry bytes_req=192 bytes_alloc=192 gfp_flags=GFP_KERNEL\n" +
			"  cat-812  [001] .....  77.000003: kmem_cache_free: call_site=d_free+0x1/0x9 " +
			"ptr=00000000%[1]x name=dentry\n",
		"malloc-bench": "\x0a\x06\x0a\x04\x08%c\x10\x18\x0a\x04\x12\x02\x08%[1]c",
	}[format]
	if format == "valgrind" {
		line = strings.ReplaceAll(line, "%#[1]X", "0x%[1]X")
	}
	var b strings.Builder
	if format == "rep" {
		b.WriteString("1\n1\n1\n1\n")
	}
	for i := range rounds {
		n := i % 1000 << 4
		if format == "malloc-bench" {
			n = i % 100
		} else if format != "rep" {
			n += 0x55e0c000
		}
		at := line
		if i%8 == 0 { // of the kernel's, every eighth pair begins in an interrupt
			at = strings.Replace(line, ".....", "..s1.", 1)
		}
		fmt.Fprintf(&b, at, n)
	}
	return b.String()
}

// BenchmarkFormats reads a long recording in each format.
func BenchmarkFormats(b *testing.B) {
	for _, s := range samples {
		const rounds = 100_000
		in := long(s.format, rounds)
		b.Run(s.format, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				res, err := Import(s.format, strings.NewReader(in), Options{})
				if err != nil || res.Operations != 2*rounds {
					b.Fatal(res.Operations, err)
				}
			}
			b.ReportMetric(float64(b.N)*2*rounds/b.Elapsed().Seconds()/1e6, "Mlines/s")
		})
	}
}
