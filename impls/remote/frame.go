package remote

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The kinds of frames.
const (
	kindBatch    = 'B'
	kindProgress = 'P'
	kindEvents   = 'V'
	kindEnd      = 'E'
	kindError    = 'X'
)

const (
	frameHead = 5
	frameMax  = 1 << 28 // bytes of a payload
)

// A frames reads frames and knows the offset in its stream.
type frames struct {
	r    io.Reader
	off  int64 // bytes read
	buf  bytes.Buffer
	head [frameHead]byte
}

// next reads one frame. io.EOF means that the stream ended between two frames; any
// other end is io.ErrUnexpectedEOF. The payload is good until the next call.
func (f *frames) next(kinds string) (kind byte, payload []byte, err error) {
	start := f.off
	n, err := io.ReadFull(f.r, f.head[:])
	f.off += int64(n)
	if err != nil {
		return 0, nil, err
	}
	size := int64(binary.LittleEndian.Uint32(f.head[:])) - 1
	kind = f.head[4]
	if bytes.IndexByte([]byte(kinds), kind) < 0 {
		return 0, nil, &FormatError{start + 4,
			fmt.Sprintf("frame of kind %q: expected one of %q", kind, kinds)}
	}
	if size < 0 || size > frameMax {
		return 0, nil, &FormatError{start,
			fmt.Sprintf("frame of %d bytes: expected 0 to %d", size, frameMax)}
	}
	f.buf.Reset()
	got, err := io.CopyN(&f.buf, f.r, size) // grows as bytes come, not as promised
	f.off += got
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return kind, f.buf.Bytes(), err
}

// begun is dst with the head of a frame, whose length finish fills in.
func begun(dst []byte, kind byte) []byte { return append(dst[:0], 0, 0, 0, 0, kind) }

func finish(frame []byte) []byte {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead+1))
	return frame
}
