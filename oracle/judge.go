package oracle

import (
	"fmt"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/live"
)

// judge is the obviously right allocator: it knows which bytes are live and
// nothing else. It holds every event against that (checks 1 and 2).
type judge struct {
	live    live.Bytes
	mem     impls.Memory
	align   uint64 // of every address
	weak    bool   // small memory is aligned for its size only, as small says
	small   impls.Profile
	arena   bool   // the subject lives in the machine's arena
	base    uint64 // of the arena
	checks  Checks
	faults  []fault.Fault
	at      []int        // events that were noted when each was raised
	now     int          // events noted so far
	where   fault.Where  // used while ctx is nil
	ctx     *machine.Ctx // whose operation is judged
	inCache []*kin       // what is known of the caches by slot
	merge   merging
	first   func() // called before the first fault is noted; nil when nobody asks
	relics  relics // what readers may look at
	objects int    // live
	peak    int    // the most objects that were live at once
	bytes   uint64
	most    uint64 // the most bytes that were live at once
	// counts of what was judged, by rule
	judged [2]uint64
}

// faultsMax bounds what one run notes.
const faultsMax = 256

func (j *judge) reset(mem impls.Memory, align uint64, shift uint, checks Checks) {
	if align == 0 {
		align = 1
	}
	j.mem, j.align, j.checks = mem, align, checks
	j.live.Reset(shift)
	j.faults, j.at, j.now = j.faults[:0], j.at[:0], 0
	j.objects, j.peak, j.bytes, j.most, j.judged = 0, 0, 0, 0, [2]uint64{}
	j.arena, j.weak = false, false
	j.relics.reset()
	j.ctx, j.where = nil, fault.Where{Line: -1, CPU: -1}
	for _, k := range j.inCache {
		if k != nil {
			*k = kin{names: 1}
		}
	}
	if j.merge.on { // slots may share what is known of a cache
		clear(j.inCache)
	}
	j.merge = merging{}
}

func (j *judge) fault(t fault.Title, format string, args ...any) {
	e, _ := fault.Lookup(t)
	if len(j.faults) == faultsMax || !j.checks.On(e.Rule) {
		return
	}
	w := j.where
	if j.ctx != nil {
		w = j.ctx.Where()
	}
	if j.first != nil && len(j.faults) == 0 {
		j.first()
	}
	j.at = append(j.at, j.now)
	j.faults = append(j.faults, fault.Fault{Title: t, Detail: fmt.Sprintf(format, args...),
		Where: w})
}

// event judges one operation that ended, or for a free began.
func (j *judge) event(ev *impls.Event) {
	if ev.Broke != "" {
		j.fault(ev.Broke, "%s", ev.Evidence)
	}
	switch ev.Code {
	case impls.OpAlloc, impls.OpMalloc, impls.OpCalloc, impls.OpMemalign, impls.OpPages:
		j.allocated(ev)
	case impls.OpFree, impls.OpFreeSized, impls.OpPagesFree:
		if ev.Outcome == impls.OK {
			j.freed(ev)
		}
	case impls.OpRealloc:
		j.reallocated(ev)
	case impls.OpUsable:
		j.judged[0]++
		if ev.Outcome == impls.OK && ev.Usable < ev.Size {
			j.fault(fault.UsableTooSmall, "%d bytes asked for, %d usable", ev.Size, ev.Usable)
		}
	case impls.OpFill, impls.OpVerify:
		if ev.Outcome == impls.OK {
			j.contents(ev)
		}
	case impls.OpDestroy:
		j.destroyed(ev)
	case impls.OpCreate:
		if ev.Outcome != impls.Skipped && ev.Cache >= 0 {
			j.named(ev.Cache, ev.Outcome == impls.OK)
		}
		if ev.Outcome == impls.NoMem && !ev.Legit {
			j.fault(fault.RefusedNoReason, "%s", ev.Code)
		}
	}
}

func (j *judge) allocated(ev *impls.Event) {
	j.judged[0]++
	switch ev.Outcome {
	case impls.NoMem:
		if !ev.Legit {
			j.fault(fault.RefusedNoReason, "%s of %d bytes", ev.Code, ev.Size)
		}
		return
	case impls.OK:
	default:
		return
	}
	if ev.Cache >= 0 {
		*j.cacheCount(ev.Cache)++
	}
	j.place(ev)
	if off := ev.Addr - j.base; ev.Code == impls.OpPages && j.arena && off&(ev.Size-1) != 0 {
		j.fault(fault.Misaligned, "%d bytes of pages at %#x, %d from the start of the arena",
			ev.Size, ev.Addr, off)
	}
	switch {
	case ev.Bad >= 0 && ev.Ctor:
		j.judged[1]++
		j.fault(fault.CtorLost, "byte %d of %d at %#x", ev.Bad, ev.Size, ev.Addr)
	case ev.Bad >= 0:
		j.judged[1]++
		j.fault(fault.NotZeroed, "byte %d of %d at %#x", ev.Bad, ev.Size, ev.Addr)
	}
}

// place checks the address that ev got and makes its bytes live.
func (j *judge) place(ev *impls.Event) {
	align := max(j.align, ev.Align)
	if j.weak {
		align = max(j.small.Alignment(ev.Size), ev.Align)
	}
	size := j.extent(ev.Addr, ev.Size)
	if size == 0 {
		return
	}
	if ev.Addr%align != 0 {
		j.fault(fault.Misaligned, "%#x, %d bytes to a multiple of %d", ev.Addr, ev.Size, align)
	}
	if !j.mem.Contains(ev.Addr, size) {
		j.fault(fault.OutsideArena, "%#x, %d bytes", ev.Addr, ev.Size)
		return
	}
	if at, clash := j.live.Add(ev.Addr, size); clash {
		if at == ev.Addr && j.live.Starts(at) {
			j.fault(fault.TwiceOut, "%#x, %d bytes", ev.Addr, ev.Size)
		} else {
			j.fault(fault.Overlap, "%#x, %d bytes, live from %#x", ev.Addr, ev.Size, at)
		}
	}
	j.read(ev, size)
	j.live.Start(ev.Addr)
	j.objects++
	j.peak = max(j.peak, j.objects)
	j.bytes += size
	j.most = max(j.most, j.bytes)
}

// extent is the number of bytes that an allocation of size bytes at a occupies:
// one where none were asked for and the address is a place of the arena, as
// memalign gives it; none where it stands for nothing, as malloc(0) does.
func (j *judge) extent(a impls.Addr, size uint64) uint64 {
	if size == 0 && j.arena && j.mem.Contains(a, 1) {
		return 1
	}
	return size
}

// vacate ends the life of n bytes at a.
func (j *judge) vacate(a impls.Addr, n uint64) {
	if n = j.extent(a, n); n == 0 {
		return
	}
	j.live.Remove(a, n)
	j.objects--
	j.bytes -= n
}

func (j *judge) freed(ev *impls.Event) {
	j.judged[0]++
	j.contents(ev)
	j.relics.freed(ev)
	if ev.Cache >= 0 {
		*j.cacheCount(ev.Cache)--
	}
	j.vacate(ev.Addr, ev.Size)
}

func (j *judge) contents(ev *impls.Event) {
	j.judged[1]++
	if ev.Bad >= 0 {
		j.fault(fault.ContentsChanged, "byte %d of %d at %#x", ev.Bad, ev.Size, ev.Addr)
	}
}

// reallocated judges the end of a realloc; its old bytes were vacated when it
// began and are live again when it was refused.
func (j *judge) reallocated(ev *impls.Event) {
	j.judged[0]++
	switch ev.Outcome {
	case impls.NoMem:
		if !ev.Legit {
			j.fault(fault.RefusedNoReason, "realloc to %d bytes", ev.Size)
		}
	case impls.OK:
		if ev.Addr == 0 {
			return
		}
		j.place(ev)
		j.judged[1]++
		switch {
		case ev.Bad >= int64(ev.Usable):
			j.fault(fault.NotZeroed, "byte %d of %d at %#x, %d before", ev.Bad, ev.Size, ev.Addr,
				ev.Usable)
		case ev.Bad >= 0:
			j.fault(fault.PrefixLost, "byte %d at %#x, before at %#x", ev.Bad, ev.Addr, ev.Old)
		}
	}
}

// revive makes bytes live again that vacate took: a refused realloc.
func (j *judge) revive(a impls.Addr, n uint64) {
	if n = j.extent(a, n); n == 0 {
		return
	}
	if at, clash := j.live.Add(a, n); clash {
		j.fault(fault.Overlap, "%#x, %d bytes kept by a refused realloc, live from %#x", a, n, at)
	}
	j.live.Start(a)
	j.objects++
	j.peak = max(j.peak, j.objects)
	j.bytes += n
}

// minAlign is the alignment that the subject promises for every address: at most a
// word where it lives on the machine.
func (r *Runner) minAlign() uint64 {
	if r.m.PageLayer() == nil {
		return max(r.v.Profile.MinAlign, 1)
	}
	return min(max(r.v.Profile.MinAlign, 1), uint64(r.m.WordBytes()))
}

// granule is the shift of the judge's unit of memory: the alignment of every
// address, at most 8 bytes.
func granule(align uint64) uint {
	shift := uint(0)
	for shift < 3 && uint64(2)<<shift <= align {
		shift++
	}
	return shift
}

// Checks is a set of rules that are applied.
type Checks uint16

// AllChecks applies every rule.
const AllChecks Checks = 1<<16 - 1

// On says whether rule r is applied.
func (c Checks) On(r fault.Rule) bool { return c&(1<<r) != 0 }

// Without leaves rule r out.
func (c Checks) Without(r fault.Rule) Checks { return c &^ (1 << r) }
