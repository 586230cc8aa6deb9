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

// unpacked is r, unpacked when it is compressed; done ends that. What is cut in the middle of
// compressed data ends there, like a trace that is cut.
func unpacked(r io.Reader) (plain io.Reader, done func(), err error) {
	b := bufio.NewReaderSize(r, lineMax)
	magic, _ := b.Peek(len(zstdMagic)) // whoever reads on meets an error again
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, err
		}
		return cutReader{z}, func() { z.Close() }, nil
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return cutReader{z}, z.Close, nil
	}
	return b, func() {}, nil
}

// A cutReader ends where compressed data was cut.
type cutReader struct{ r io.Reader }

func (c cutReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
