package input

import (
	"math/bits"

	"allocfuzz/corpus/prog"
)

// This file holds the tables from bytes to values, and back. Where a table repeats a value, that
// is its weight; Encode takes the first place.

// The tables of the machine. Their lengths divide 256, so that the weights are exact.
var (
	cpusTable     = []int{1, 2, 1, 2, 3, 1, 2, 3, 1, 2, 1, 2, 3, 2, 1, 4}
	pagesTable    = []int{16, 4, 2, 3, 6, 5, 8, 4, 3, 6, 2, 12, 16, 4, 32, 1}
	wordTable     = []int{64, 64, 32, 16}
	pageSizeTable = []int{0, 0, 0, 0, 128, 256, 512, 1024, 0, 0, 0, 128, 64, 256, 2048, 8192}
	seqBitsTable  = []int{0, 2, 3, 2, 3, 4, 2, 3, 8, 2, 3, 0, 4, 2, 3, 8}
	tasksTable    = []int{0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4}
	declaredTable = []int{1, 2, 1, 3, 1, 2, 1, 0}
	preemptTable  = []int{
		int(prog.PreemptNone), int(prog.PreemptFull), int(prog.PreemptNone), int(prog.PreemptRT),
	}
	// Low is frequent: only there is an end marker in the same half-word as the objects, so that a
	// fast path with a sequence number serves the last object of a slab and an empty list.
	baseTable = []int{baseDefault, baseLow, baseStraddle, baseLow, baseDefault, baseTop, baseLow,
		baseHigh}
)

// The ways to say where the arena is; each takes a number of pages k.
const (
	baseDefault  = iota // one half-word's span
	baseLow             // k+1 pages from address 0
	baseStraddle        // k+1 pages below the default, so that the arena spans it
	baseTop             // k pages from the end of the address space
	baseHigh            // k+1 pages above the default
)

// The tables of a cache. Small slabs and short lists are the rule.
var (
	cacheSizes   = []int{64, 16, 32, 24, 8, 48, 96, 128, 40, 20, 12, 192, 256, 1, 100, 33}
	objectsTable = []int{0, 2, 3, 4, 2, 3, 1, 2}
	minTable     = []int{prog.NotGiven, 0, 1, 0, 2, 0, 3, 0}
	keptTable    = []int{prog.NotGiven, 1, 2, 0, 1, 2, 1, 3}
	orderTable   = []int{prog.NotGiven, 0, 1, prog.NotGiven}
	alignTable   = []int{0, 8, 16, 64, 256, 0, 0, 0}
	limitTable   = []int{prog.NotGiven, 2, 1, 3, 4, 2, 2, 8}
	batchTable   = []int{prog.NotGiven, 1, 2, 3, prog.NotGiven, 1, 2, 1}
	flagsTable   = []int{0, 0, 0, 0, flagsOf("poison"), flagsOf("redzone"),
		flagsOf("poison", "redzone"), flagsOf("poison", "redzone", "sanity"),
		0, flagsOf("rcu"), 0, flagsOf("sanity"), flagsOf("poison", "redzone", "sanity", "user"),
		flagsOf("hwalign"), flagsOf("nomerge"), flagsOf("reclaim")}
)

// The tables of the boot parameters: the options of all caches as bits of debugLetters, mostly
// none, and the rules.
var (
	debugTable = []int{0, 0, 0, debugMask("FZPU"), 0, debugMask("FZP"), 0, debugMask("ZP"), 0,
		debugMask("F"), 0, debugMask("Z"), 0, debugMask("P"), debugMask("FZ"), debugMask("FU")}
	rulesTable = []int{int(prog.RulesOwn), int(prog.Rules612), int(prog.RulesOwn),
		int(prog.Rules26), int(prog.RulesOwn), int(prog.Rules612), int(prog.Rules24),
		int(prog.RulesOwn)}
)

// debugLetters are the letters of a machine's debug options.
const debugLetters = "FZPUTA"

// debugStrings are the options by their bits; the first is none.
var debugStrings = spellDebug()

func spellDebug() (names [1 << len(debugLetters)]string) {
	for mask := range names {
		for i := range len(debugLetters) {
			if mask>>i&1 != 0 {
				names[mask] += debugLetters[i : i+1]
			}
		}
	}
	return names
}

// debugMask is the bits of a string of options, -1 for one that bits do not spell.
func debugMask(s string) int {
	for mask, name := range debugStrings {
		if name == s {
			return mask
		}
	}
	return -1
}

// checkedFlags are the words that make a cache look for damage.
var checkedFlags = flagsOf("poison", "redzone", "sanity", "user")

// readersFlag is the word of caches whose objects may be read after their free.
var readersFlag = uint64(flagsOf("rcu"))

// flagsOf returns words of prog.CacheFlags as bits.
func flagsOf(words ...string) int {
	mask := 0
	for _, w := range words {
		for i, f := range prog.CacheFlags {
			if f == w {
				mask |= 1 << i
			}
		}
	}
	return mask
}

// place returns the first place of v in the table, -1 when it is not there.
func place(table []int, v int) int {
	for i, t := range table {
		if t == v {
			return i
		}
	}
	return -1
}

// pick returns the value of a byte.
func pick(table []int, b byte) int { return table[int(b)%len(table)] }

// bytesOf returns how many bytes a misuse damages, or how far inside it frees: mostly up to 16, at
// most 112.
func bytesOf(b byte) int {
	if b < 160 {
		return 1 + int(b&15)
	}
	return 17 + int(b-160)
}

func bytesCode(n uint64) (b byte, ok bool) {
	switch {
	case n == 0 || n > 112:
		return 0, false
	case n <= 16:
		return byte(n - 1), true
	}
	return byte(160 + n - 17), true
}

// offsetOf returns the byte of a region that a flip begins at, -1 when the program does not say:
// mostly one of the first eight, at most the 136th.
func offsetOf(b byte) int {
	switch {
	case b == 0:
		return -1
	case b < 128:
		return int(b-1) & 7
	}
	return 8 + int(b-128)
}

func offsetCode(n uint64) (b byte, ok bool) {
	switch {
	case n < 8:
		return byte(n + 1), true
	case n < 136:
		return byte(128 + n - 8), true
	}
	return 0, false
}

// freeSize is the verb free for an allocation by size; prog.Free is the one for objects. They
// differ only in which operand they prefer.
const freeSize = prog.Verb(prog.Verbs)

// verbWeights says how often random bytes mean a verb, out of 128. Allocation and free come
// first; what empties or ends a cache is rare.
var verbWeights = []struct {
	verb   prog.Verb
	weight int
}{
	{prog.Alloc, 19}, {prog.Free, 19}, {prog.Malloc, 12}, {freeSize, 12}, {prog.Repeat, 8},
	{prog.Realloc, 6}, {prog.Pages, 4}, {prog.PagesFree, 4}, {prog.Shrink, 4}, {prog.Calloc, 3},
	{prog.Memalign, 3}, {prog.FreeSized, 2}, {prog.Destroy, 2}, {prog.Create, 2}, {prog.Drain, 2},
	{prog.Fill, 2}, {prog.Verify, 2}, {prog.Check, 2}, {prog.Usable, 1}, {prog.Flush, 1},
	{prog.ValidateCache, 1}, {prog.AllocBulk, 2}, {prog.FreeBulk, 2}, {prog.Offline, 1},
	{prog.Overrun, 1}, {prog.Underrun, 1}, {prog.WriteFreed, 1}, {prog.FreeAgain, 1},
	{prog.FreeInside, 1}, {prog.FreeForeign, 1}, {prog.FreeWrong, 1}, {prog.Flip, 1},
	{prog.Tune, 1}, {prog.Reap, 1}, {prog.RCULock, 1}, {prog.RCUUnlock, 1},
}

const verbPlaces = 128

// verbTable maps a byte below verbPlaces to its verb, verbByte back.
var verbTable, verbByte = spreadVerbs()

func spreadVerbs() (table [verbPlaces]prog.Verb, back [prog.Verbs + 1]byte) {
	n := 0
	for _, w := range verbWeights {
		back[w.verb] = byte(n)
		for range w.weight {
			table[n] = w.verb
			n++
		}
	}
	return table, back
}

// misuseVerbs are what the last bytes of a verb mean when misuse is wanted.
var misuseVerbs = [...]prog.Verb{
	prog.Overrun, prog.Underrun, prog.WriteFreed, prog.FreeAgain, prog.FreeInside,
	prog.FreeForeign, prog.FreeWrong, prog.Flip,
}

const misuseFrom = 224

// handlerVerbs are what an interrupt handler may do; the rest may sleep or call other CPUs.
var handlerVerbs = verbSet(
	prog.Alloc, prog.Free, prog.AllocBulk, prog.FreeBulk, prog.Malloc, prog.Calloc, prog.Realloc,
	prog.Memalign, prog.Usable, prog.FreeSized, prog.Pages, prog.PagesFree, prog.Fill, prog.Verify,
	prog.Repeat, freeSize, prog.Overrun, prog.Underrun, prog.WriteFreed, prog.FreeAgain,
	prog.FreeInside, prog.FreeForeign, prog.FreeWrong, prog.Flip, prog.ValidateCache,
	prog.RCULock, prog.RCUUnlock,
)

func verbSet(list ...prog.Verb) uint64 {
	var set uint64
	for _, v := range list {
		set |= 1 << v
	}
	return set
}

// The flags of an operation take two bits each, both of which must be set: so random bytes set
// each of them in one of four.
const (
	flagZero    = 0x03
	flagAtomic  = 0x0c
	flagExact   = 0x30 // the result takes this very slot, live or not
	flagForward = 0xc0 // the operand is bound further down, by somebody else
)

// sizeClasses are the sizes around which allocators change.
var sizeClasses = [...]int{128, 192, 256, 512, 1024, 2048, 4096, 8192}

// The pieces of the code of a size.
const (
	sizeSmall   = 97             // below: 8 to 96, then 0 to 7
	sizeClass   = sizeSmall      // eight classes, one byte less, exact, one more
	sizePage    = sizeClass + 24 // half a page to four pages, the same
	sizeAgain   = sizePage + 12  // small ones again
	sizeLiteral = 224            // five bits and a second byte
	sizePower   = 248            // a power of two in a second byte, less 0 to 7
)

// sizeOf returns the size in bytes that a byte and its extension mean.
func sizeOf(b, ext byte, page int) uint64 {
	n := int(b)
	switch {
	case n < sizeSmall:
		return uint64((n + 8) % sizeSmall)
	case n < sizePage:
		n -= sizeClass
		return uint64(sizeClasses[n/3] + n%3 - 1)
	case n < sizeAgain:
		n -= sizePage
		return uint64((page/2)<<(n/3) + n%3 - 1)
	case n < sizeLiteral:
		return uint64(n - sizeAgain)
	case n < sizePower:
		return uint64((n-sizeLiteral)<<8 | int(ext))
	}
	power, less := uint64(1)<<(ext%48), uint64(n-sizePower)
	return power - min(less, power)
}

// sizeCode is the inverse of sizeOf; ok is false for sizes that it cannot say.
func sizeCode(size uint64) (b, ext byte, ok bool) {
	if size < sizeSmall {
		return byte((size + sizeSmall - 8) % sizeSmall), 0, true
	}
	for i, c := range sizeClasses {
		if d := int64(size) - int64(c); d >= -1 && d <= 1 {
			return byte(sizeClass + 3*i + int(d) + 1), 0, true
		}
	}
	if size < (sizePower-sizeLiteral)<<8 {
		return byte(sizeLiteral + size>>8), byte(size), true
	}
	for less := uint64(0); less < 8; less++ {
		if p := size + less; p&(p-1) == 0 && p <= 1<<47 {
			return byte(sizePower + less), byte(bits.TrailingZeros64(p)), true
		}
	}
	return 0, 0, false
}

// shortCode is sizeCode for a number that has no byte of extension of its own.
func shortCode(size uint64) (b byte, ok bool) {
	if b, _, ok = sizeCode(size); b >= sizeLiteral {
		return 0, false
	}
	return b, ok
}

// objectSize returns the size of a cache's objects.
func objectSize(b, ext byte, page int) int {
	n := int(b)
	switch {
	case n < 128:
		return cacheSizes[n&15]
	case n < 160:
		steps := [8]int{page / 8, page / 4, page / 2, page/2 + 8, page, 2 * page, page - 8, 16}
		return steps[n&7]
	case n < 240:
		return n - 160 + 1
	}
	return (n-240)<<8 | int(ext) + 1
}

// objectCode is the inverse of objectSize.
func objectCode(size int) (b, ext byte, ok bool) {
	if i := place(cacheSizes, size); i >= 0 {
		return byte(i), 0, true
	}
	switch {
	case size <= 80:
		return byte(160 + size - 1), 0, true
	case size <= 16<<8:
		return byte(240 + (size-1)>>8), byte(size - 1), true
	}
	return 0, 0, false
}

// bodyTable maps three bits to the number of lines in a repeat.
var bodyTable = []int{1, 2, 2, 3, 2, 4, 3, 6}

// bodyLength returns the number of lines in a repeat: mostly two, seldom up to 32.
func bodyLength(b byte) int {
	if b < 224 {
		return pick(bodyTable, b&7)
	}
	return 1 + int(b-224)
}

func bodyCode(n int) (b byte, ok bool) {
	if i := place(bodyTable, n); i >= 0 {
		return byte(i), true
	}
	return byte(224 + n - 1), n <= bodyMax
}

const bodyMax = 32

// powerTable maps four bits to a power of two: long repeats are worth their time only seldom.
var powerTable = []int{0, 1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 6, 2, 7, 8}

// repeatCount returns how often a repeat runs: half of the time a power of two less 0 to 3, else
// up to 16, seldom up to 48.
func repeatCount(how, b byte) int {
	switch {
	case how&1 == 0:
		return max(1, 1<<pick(powerTable, b>>2)-int(b&3))
	case b < 224:
		return 1 + int(b&15)
	}
	return 17 + int(b-224)
}

func countCode(n int) (how, b byte, ok bool) {
	for less := range 4 {
		k := bits.TrailingZeros(uint(n + less))
		if i := place(powerTable, k); n+less == 1<<k && i >= 0 {
			return 0, byte(i<<2 | less), true
		}
	}
	switch {
	case n <= 16:
		return 1, byte(n - 1), true
	case n <= 48:
		return 1, byte(224 + n - 17), true
	}
	return 0, 0, false
}

// failOf returns which page request of a line fails, 0 for none: the first four, seldom.
func failOf(b byte) int {
	if b < 224 {
		return 0
	}
	return 1 + int(b-224)>>3
}

// failObjectOf returns which object that a line asks for is refused, 0 for none: as seldom.
func failObjectOf(b byte) int {
	if b < 192 || b >= 224 {
		return 0
	}
	return 1 + int(b-192)>>3
}

func failObjectCode(n int) (b byte, ok bool) {
	if n < 1 || n > 4 {
		return 0, false
	}
	return byte(192 + (n-1)<<3), true
}

func failCode(n int) (b byte, ok bool) {
	switch {
	case n == 0:
		return 0, true
	case n <= 4:
		return byte(224 + (n-1)<<3), true
	}
	return 0, false
}

// attemptOf returns an attempt number: mostly 1 to 16, at most 128.
func attemptOf(b byte) int {
	if b < 128 {
		return 1 + int(b&15)
	}
	return 1 + int(b-128)
}

func attemptCode(n int) (b byte, ok bool) {
	switch {
	case n <= 16:
		return byte(n - 1), true
	case n <= 128:
		return byte(128 + n - 1), true
	}
	return 0, false
}

// deliveryTable maps four bits to the number of a delivery: mostly the first.
var deliveryTable = []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4}

// Numbers of contexts: four CPUs, their handlers without a name, with the names a and b, and four
// tasks.
const (
	ctxCPU   = 0
	ctxIRQ   = 4
	ctxTask  = 16
	ctxCount = 20
)

// ctxCodes maps five bits of an operation's first byte to a number of a context.
var ctxCodes = [32]byte{
	0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 0, 1, 2, 3,
	8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 1, 2, 3,
}

// handlerNames are the names of handlers; the first is none.
var handlerNames = [...]string{"", "a", "b"}

// ctxNames are the spellings of contexts by number.
var ctxNames = spellContexts()

func spellContexts() (names [ctxCount]string) {
	for i := range names {
		c := ctxOf(i)
		names[i] = c.String()
	}
	return names
}

// ctxOf returns the context of a number.
func ctxOf(id int) prog.Ctx {
	switch {
	case id >= ctxTask:
		return prog.Ctx{Kind: prog.TaskCtx, Name: taskNames[id-ctxTask]}
	case id >= ctxIRQ:
		return prog.Ctx{Kind: prog.IRQCtx, CPU: id & 3, Name: handlerNames[id/4-1]}
	}
	return prog.Ctx{Kind: prog.CPUCtx, CPU: id}
}

var taskNames = [tasksMax]string{"t0", "t1", "t2", "t3"}

// clampNum returns a value that the verb's number may have, v itself where that is one.
func clampNum(a *prog.NumArg, v uint64) uint64 {
	if a.Pow2 {
		if v >= a.Min && v <= a.Max && v&(v-1) == 0 {
			return v
		}
		return 1 << (v % uint64(bits.Len64(a.Max)))
	}
	return clamp(v, a.Min, a.Max)
}

// clamp returns v where it is from least to most, else a number there.
func clamp(v, least, most uint64) uint64 {
	if v >= least && v <= most {
		return v
	}
	return least + v%(most-least+1)
}
