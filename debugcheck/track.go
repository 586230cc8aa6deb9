package debugcheck

import (
	"encoding/binary"
	"math"
)

// A Track says who did something to an object.
type Track struct {
	Line int    // index of the program's operation, -1 when none ran
	Task int    // number of the task or handler
	CPU  int    // where it ran
	Step uint64 // point of the run
	Set  bool   // somebody did
}

// A Track lies in memory as four numbers, low byte first: line, task, CPU and step.
// The line comes first and is stored 2 higher, so that 0 says that nobody did
// anything yet and 1 that no operation was running. A number that is too big for its
// place becomes the biggest that fits: it must not look like another one.

// trackForms are the bytes of the four numbers by the bytes of a track. A SLUB track
// has a word for each number, and with small words a second one for the step. SLAB
// has one word for its last user, as big as the address of a caller; at 16 bits only
// the line fits.
var trackForms = [...]struct {
	bytes  uint64
	widths [4]int // line, task, CPU, step
}{
	{32, [4]int{8, 8, 8, 8}},
	{20, [4]int{4, 4, 4, 8}},
	{10, [4]int{2, 2, 2, 4}},
	{8, [4]int{3, 1, 1, 3}},
	{4, [4]int{2, 1, 1, 0}},
	{2, [4]int{2, 0, 0, 0}},
}

// trackForm finds the form of the tracks of l: the biggest that fits.
func (l *Layout) trackForm() (widths [4]int) {
	for i := range trackForms {
		if l.Tracks >= trackForms[i].bytes {
			return trackForms[i].widths
		}
	}
	return widths
}

// tells says which numbers the tracks of l have beside the line. All of them where there
// is no layout to ask, or none of a cache with tracks.
func (l *Layout) tells() (task, cpu, step bool) {
	if l == nil || l.Tracks == 0 {
		return true, true, true
	}
	w := l.trackForm()
	return w[1] > 0, w[2] > 0, w[3] > 0
}

// encodeTrack writes t over all of b, which are the bytes of one track.
func (l *Layout) encodeTrack(b []byte, t Track) {
	clear(b)
	if !t.Set || uint64(len(b)) < l.Tracks {
		return
	}
	line, task, cpu := uint64(max(t.Line, -1))+2, natural(t.Task), natural(t.CPU)
	if l.Tracks == 32 { // the usual one, at every allocation and free
		binary.LittleEndian.PutUint64(b, line)
		binary.LittleEndian.PutUint64(b[8:], task)
		binary.LittleEndian.PutUint64(b[16:], cpu)
		binary.LittleEndian.PutUint64(b[24:], t.Step)
		return
	}
	values := [4]uint64{line, task, cpu, t.Step}
	for i, w := range l.trackForm() {
		v := values[i]
		if w < 8 {
			v = min(v, 1<<(8*w)-1)
		}
		for j := range w {
			b[j] = byte(v >> (8 * j))
		}
		b = b[w:]
	}
}

// decodeTrack reads what encodeTrack wrote. Damaged bytes give some track or other.
func (l *Layout) decodeTrack(b []byte) Track {
	var values [4]uint64
	if uint64(len(b)) < l.Tracks {
		return Track{}
	}
	for i, w := range l.trackForm() {
		for j := range w {
			values[i] |= uint64(b[j]) << (8 * j)
		}
		b = b[w:]
	}
	if values[0] == 0 {
		return Track{}
	}
	line := number(values[0]) - 2
	return Track{Line: line, Task: number(values[1]), CPU: number(values[2]), Step: values[3],
		Set: true}
}

// natural is n as a stored number: 0 stands for what is below it.
func natural(n int) uint64 { return uint64(max(n, 0)) }

// number is a stored number as an int.
func number(v uint64) int { return int(min(v, math.MaxInt)) }

// trackPlace finds the track of r, AllocTrack or FreeTrack, of the object at a. SLAB
// has one, the last user, for both.
func (l *Layout) trackPlace(r Region, a uint64) (at, n uint64, ok bool) {
	if l.Track == 0 || l.Tracks == 0 || (r != AllocTrack && r != FreeTrack) {
		return 0, 0, false
	}
	at = a + l.Track
	if r == FreeTrack && !l.Rules.SLAB() {
		at += l.Tracks
	}
	return at, l.Tracks, true
}

// SetTrack writes who allocated (AllocTrack) or freed (FreeTrack) the object at a;
// without option U nothing. SLAB keeps only the last user: both regions are that one.
func (k *Checker) SetTrack(r Region, a uint64, t Track) {
	at, n, ok := k.Layout.trackPlace(r, a)
	if !ok {
		return
	}
	if b := k.bytes(k.trackRegion(r), at, n); b != nil {
		k.Layout.encodeTrack(b, t)
	}
}

// Track reads what SetTrack wrote: not Set when nobody did or when there is no memory.
func (k *Checker) Track(r Region, a uint64) Track {
	at, n, ok := k.Layout.trackPlace(r, a)
	if !ok {
		return Track{}
	}
	return k.Layout.decodeTrack(k.bytes(k.trackRegion(r), at, n))
}

// viewedTrack is Track of what lies in View, and not Set elsewhere: nothing is reached
// through Mem.
func (k *Checker) viewedTrack(r Region, a uint64) Track {
	at, n, ok := k.Layout.trackPlace(r, a)
	from := at - k.ViewAt
	if !ok || from >= uint64(len(k.View)) || n > uint64(len(k.View))-from {
		return Track{}
	}
	return k.Layout.decodeTrack(k.View[from : from+n])
}

// trackRegion is the region that holds the track of r.
func (k *Checker) trackRegion(r Region) Region {
	if k.Layout.Rules.SLAB() {
		return AllocTrack
	}
	return r
}
