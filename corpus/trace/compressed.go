package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The first bytes of compressed data.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// windowMax bounds what unpacking zstd keeps in memory.
const windowMax = 128 << 20

// A packing is what an input is packed in.
type packing struct {
	plain *lineReader // unpacked
	raw   *rawReader
	cut   *cutReader // nil when the input is not compressed
	done  func()
}

// unpack tells by the first bytes whether r is compressed.
func unpack(r io.Reader) (*packing, error) {
	raw := &rawReader{r: r}
	b := bufio.NewReaderSize(raw, lineMax)
	magic, _ := b.Peek(len(zstdMagic)) // whoever reads on meets an error again
	p := &packing{raw: raw, done: func() {}}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		p.cut = &cutReader{r: z, raw: raw}
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(windowMax))
		if err != nil {
			return nil, err
		}
		p.cut, p.done = &cutReader{r: z, raw: raw}, z.Close
	default:
		p.plain = &lineReader{b: b}
		return p, nil
	}
	p.plain = newLineReader(p.cut)
	return p, nil
}

// damage is why unpacking ended early; nil when it did not.
func (p *packing) damage() error {
	if p.cut == nil {
		return nil
	}
	return p.cut.why
}

// A rawReader keeps the error of the input apart from those of unpacking.
type rawReader struct {
	r   io.Reader
	err error
}

func (r *rawReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if readFailed(err) {
		r.err = err
	}
	return n, err
}

// A cutReader ends where compressed data was cut or damaged, and keeps why.
type cutReader struct {
	r   io.Reader
	raw *rawReader
	why error
}

func (c *cutReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	switch {
	case c.raw.err != nil && err != nil:
		return n, c.raw.err
	case readFailed(err):
		c.why, err = err, io.EOF
	}
	return n, err
}
