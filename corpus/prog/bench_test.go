package prog

import (
	"bytes"
	"io"
	"strconv"
	"testing"
)

// trace returns a program of n lines as an importer writes them: many short operations whose
// names are used again once they are free.
func trace(n int) []byte {
	b := []byte("allocfuzz 1\nmachine pages=4096\n\n")
	for i := range n {
		b = append(b, "cpu0 "...)
		name := "p" + strconv.Itoa(i/2%1000)
		if i%2 == 0 {
			b = append(b, name+" = malloc "+strconv.Itoa(i%500)+"\n"...)
		} else {
			b = append(b, "free "+name+"\n"...)
		}
	}
	return b
}

func BenchmarkParse(b *testing.B)  { benchmarkLines(b, parseAll) }
func BenchmarkReader(b *testing.B) { benchmarkLines(b, readLines) }

func benchmarkLines(b *testing.B, read func(*testing.B, []byte) int) {
	const n = 100_000
	text := trace(n)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if got := read(b, text); got != n {
			b.Fatalf("%d lines, want %d", got, n)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func parseAll(b *testing.B, text []byte) int {
	p, err := Parse("", bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	return len(p.Lines)
}

func readLines(b *testing.B, text []byte) int {
	r, err := NewReader("", bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; ; n++ {
		if _, err := r.NextLine(); err == io.EOF {
			return n
		} else if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFormat(b *testing.B) {
	const n = 100_000
	p, err := Parse("", bytes.NewReader(trace(n)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Format(p)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
