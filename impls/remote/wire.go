package remote

import (
	"encoding/binary"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// AppendBatch appends the bytes of b to dst.
func AppendBatch(dst []byte, b *impls.Batch) []byte {
	dst = append(appendString(appendString(dst, b.Debug), b.Rules), flag(b.Merge, 1))
	dst = binary.AppendUvarint(dst, uint64(len(b.Caches)))
	for i := range b.Caches {
		dst = appendSpec(dst, &b.Caches[i])
	}
	dst = append(binary.AppendUvarint(dst, uint64(b.Slots)), byte(b.Threads))
	dst = binary.AppendUvarint(dst, uint64(len(b.Ops)))
	for i := range b.Ops {
		dst = appendOp(dst, &b.Ops[i])
	}
	return dst
}

func appendOp(dst []byte, op *impls.Op) []byte {
	dst = append(dst, byte(op.Code), byte(op.Flags), byte(op.Region), op.Thread)
	for _, v := range [...]uint64{uint64(op.Fail), uint64(op.FailObject), op.Size, op.Arg,
		uint64(op.Pattern)} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, v := range [...]int32{op.Cache, op.Slot, op.Result} {
		dst = binary.AppendVarint(dst, int64(v))
	}
	dst = binary.AppendUvarint(dst, uint64(len(op.Slots)))
	for _, v := range op.Slots {
		dst = binary.AppendVarint(dst, int64(v))
	}
	if op.Spec == nil {
		return append(dst, 0)
	}
	return appendSpec(append(dst, 1), op.Spec)
}

func appendSpec(dst []byte, s *impls.CacheSpec) []byte {
	dst = appendString(dst, s.Name)
	dst = binary.AppendUvarint(dst, s.Size)
	dst = binary.AppendUvarint(dst, s.Align)
	dst = append(dst, flag(s.Ctor, 1)|flag(s.Kmalloc, 2))
	dst = binary.AppendUvarint(dst, uint64(len(s.Flags)))
	for _, f := range s.Flags {
		dst = appendString(dst, f)
	}
	for _, v := range [...]int{s.Objects, s.Order, s.MinPartial, s.CPUPartial, s.Limit, s.Batch} {
		dst = binary.AppendVarint(dst, int64(v))
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// AppendTranscript appends the bytes of t to dst.
func AppendTranscript(dst []byte, t *impls.Transcript) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(t.Events)))
	for i := range t.Events {
		dst = appendEvent(dst, &t.Events[i])
	}
	dst = binary.AppendVarint(dst, int64(t.Last))
	return appendString(dst, t.Death)
}

func appendEvent(dst []byte, ev *impls.Event) []byte {
	dst = binary.AppendVarint(dst, int64(ev.Op))
	dst = append(dst, byte(ev.Code), byte(ev.Outcome), ev.Ctx, ev.CPU,
		flag(ev.Irq, 1)|flag(ev.Legit, 2)|flag(ev.Ctor, 4)|flag(ev.Broke != "", 8))
	for _, v := range [...]int64{int64(ev.Cache), int64(ev.Slot), ev.Bad} {
		dst = binary.AppendVarint(dst, v)
	}
	for _, v := range [...]uint64{uint64(ev.Part), uint64(ev.Fresh), uint64(ev.Want), ev.Align,
		ev.Addr, ev.Old, ev.Size, ev.Usable, ev.Seq, ev.Began, ev.Mask} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = append(dst, byte(ev.Region))
	n := min(len(ev.Reports), reportsMax)
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, r := range ev.Reports[:n] {
		dst = appendReport(dst, r)
	}
	if ev.Broke != "" {
		dst = appendString(dst, string(ev.Broke))
		dst = appendString(dst, ev.Evidence[:min(len(ev.Evidence), textMax)])
	}
	return dst
}

// appendReport writes what a report says. Its layout, tracks and dump stay where they
// are; what is longer than a decoder takes is cut.
func appendReport(dst []byte, r *debugcheck.Report) []byte {
	dst = append(dst, byte(r.Rules), byte(r.Kind), byte(r.Region), r.Got, r.Want)
	for _, v := range [...]uint64{r.Object, r.Slab, r.From, r.To} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, s := range [...]string{r.Cache, r.Title, r.Detail} {
		dst = appendString(dst, s[:min(len(s), textMax)])
	}
	n := min(len(r.Fixes), fixesMax)
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, s := range r.Fixes[:n] {
		dst = appendString(dst, s[:min(len(s), textMax)])
	}
	return dst
}
