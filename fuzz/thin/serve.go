package thin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime/coverage"
)

// inputMax bounds the bytes of an input that is handed to a tracer.
const inputMax = 64 << 20

// Serve answers inputs with what they cover, in a binary that was built with -cover and
// -covermode=atomic: on in each input is its length as a varint and its bytes; on out the number of
// features and the features, eight bytes each. It returns when in ends.
func Serve(run func(data []byte), in io.Reader, out io.Writer) error {
	if err := coverage.WriteMeta(io.Discard); err != nil { // counters can be written after that
		return err
	}
	from, to := bufio.NewReader(in), bufio.NewWriter(out)
	var counters bytes.Buffer
	var list []Feature
	for {
		n, err := binary.ReadUvarint(from)
		if err == io.EOF {
			return nil
		}
		if err == nil && n > inputMax {
			err = fmt.Errorf("an input of %d bytes", n)
		}
		if err != nil {
			return err
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(from, data); err != nil {
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		run(data)
		counters.Reset()
		if err := coverage.WriteCounters(&counters); err != nil {
			return err
		}
		if list, err = Features(list[:0], counters.Bytes()); err != nil {
			return err
		}
		if err := answer(to, list); err != nil {
			return err
		}
	}
}

// answer writes features.
func answer(to *bufio.Writer, list []Feature) error {
	buf := binary.AppendUvarint(nil, uint64(len(list)))
	for _, f := range list {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(f))
	}
	if _, err := to.Write(buf); err != nil {
		return err
	}
	return to.Flush()
}
