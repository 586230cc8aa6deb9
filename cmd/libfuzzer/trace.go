//go:build libfuzzer_entry

package main

// The compiler, asked for coverage as libFuzzer wants it, has each comparison call a function of
// the runtime. With the build tag libfuzzer the runtime makes a call of C of it, which takes longer
// than everything else in a run of ours. Without the tag the functions are missing, and these,
// which do nothing, take their place; the counters are made known here, too, as the runtime would.

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

extern void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
extern void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop);

static void counters(void *start, size_t n)
{
	uintptr_t *pcs = calloc(2 * n, sizeof(*pcs));

	__sanitizer_cov_8bit_counters_init(start, (uint8_t *)start + n);
	if (pcs != NULL)
		__sanitizer_cov_pcs_init(pcs, pcs + 2 * n);
}
*/
import "C"

import "unsafe"

//go:linkname libfuzzerTraceCmp1 runtime.libfuzzerTraceCmp1
//go:linkname libfuzzerTraceCmp2 runtime.libfuzzerTraceCmp2
//go:linkname libfuzzerTraceCmp4 runtime.libfuzzerTraceCmp4
//go:linkname libfuzzerTraceCmp8 runtime.libfuzzerTraceCmp8
//go:linkname libfuzzerTraceConstCmp1 runtime.libfuzzerTraceConstCmp1
//go:linkname libfuzzerTraceConstCmp2 runtime.libfuzzerTraceConstCmp2
//go:linkname libfuzzerTraceConstCmp4 runtime.libfuzzerTraceConstCmp4
//go:linkname libfuzzerTraceConstCmp8 runtime.libfuzzerTraceConstCmp8
//go:linkname libfuzzerHookStrCmp runtime.libfuzzerHookStrCmp
//go:linkname libfuzzerHookEqualFold runtime.libfuzzerHookEqualFold

func libfuzzerTraceCmp1(_, _ uint8, _ uint)       {}
func libfuzzerTraceCmp2(_, _ uint16, _ uint)      {}
func libfuzzerTraceCmp4(_, _ uint32, _ uint)      {}
func libfuzzerTraceCmp8(_, _ uint64, _ uint)      {}
func libfuzzerTraceConstCmp1(_, _ uint8, _ uint)  {}
func libfuzzerTraceConstCmp2(_, _ uint16, _ uint) {}
func libfuzzerTraceConstCmp4(_, _ uint32, _ uint) {}
func libfuzzerTraceConstCmp8(_, _ uint64, _ uint) {}
func libfuzzerHookStrCmp(_, _ string, _ uint)     {}
func libfuzzerHookEqualFold(_, _ string, _ uint)  {}

// The ends of the counters, which the linker defines.
//
//go:linkname startCounters runtime.__start___sancov_cntrs
//go:linkname stopCounters runtime.__stop___sancov_cntrs
var startCounters, stopCounters byte

func init() {
	start := unsafe.Pointer(&startCounters)
	if n := uintptr(unsafe.Pointer(&stopCounters)) - uintptr(start); n > 0 {
		C.counters(start, C.size_t(n))
	}
}
