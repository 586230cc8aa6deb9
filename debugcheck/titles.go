package debugcheck

// A title is what a report is called: fixed text in the words of the kernel. Numbers,
// addresses and names of caches are cut out of it and stand in Report.Detail, since
// titles are compared and counted. Where the sentence says nothing without its number,
// the shortest words that keep the sense take its place ("inuse %u > max %u" is "inuse
// exceeds max"). Full stops at the end and names of functions in front are cut too.
// BUG() of SLAB prints a line number only: its titles are those of the reports that
// later kernels print for the same thing, or are ours.

// Titles of SLUB for bytes of an object's slot or of the padding of its slab.
const (
	TitleLeftRedzone    = "Left Redzone overwritten"
	TitleRightRedzone   = "Right Redzone overwritten"
	TitleKmallocRedzone = "kmalloc Redzone overwritten"
	TitleAlignPadding   = "Alignment padding overwritten"
	TitlePoison         = "Poison overwritten"
	TitleEndPoison      = "End Poison overwritten"
	TitleObjectPadding  = "Object padding overwritten"
	TitlePadding        = "Padding overwritten"
	TitleObjectCorrupt  = "Object corrupt"
)

// Titles of SLUB for a slab, its freelist and its counters.
const (
	TitleNotSlabPage  = "Not a valid slab page"
	TitleObjectsMax   = "objects exceeds max"
	TitleInuseMax     = "inuse exceeds max"
	TitleSlabDisabled = "Slab disabled since SLUB metadata consistency check failed"
	TitleFreepointer  = "Freepointer corrupt"
	TitleFreechain    = "Freechain corrupt"
	TitleFreelistHead = "Freelist Pointer check fails"
	TitleObjectsWrong = "Wrong number of objects"
	TitleCountWrong   = "Wrong object count"
	TitleNrPartial    = "partial slabs counted but counter differs"
	TitleNrSlabs      = "slabs counted but counter differs"
)

// Titles of calls that are refused or wrong. Both families use some of them.
const (
	TitleInvalidPointer = "Invalid object pointer"
	TitleAlreadyFree    = "Object already free"
	TitleTooFew         = "Slab has fewer allocated objects than are to be freed"
	TitleBulkCount      = "Bulk free found another number of objects"
	TitleOutsideSlab    = "Attempt to free object outside of slab"
	TitleNoSlabCache    = "No slab cache for object"
	TitleSlabPointer    = "page slab pointer corrupt"
	TitleWrongCache     = "Wrong slab cache"
	TitleNotSlab        = "Object is not a Slab page"
	TitleRemaining      = "Objects remaining on __kmem_cache_shutdown()"
)

// Titles of SLAB.
const (
	TitleSlabEither    = "double free, or memory outside object was overwritten"
	TitleSlabDouble    = "double free detected"
	TitleSlabOutside   = "memory outside object was overwritten"
	TitleSlabStart     = "start of a freed object was overwritten"
	TitleSlabEnd       = "end of a freed object was overwritten"
	TitleSlabCtorStart = "constructor overwrote the start of an object"
	TitleSlabCtorEnd   = "constructor overwrote the end of an object"
	TitleSlabPoison    = "Slab corruption"
	TitleSlabOnChain   = "slab: double free detected in cache"
	TitleSlabChain     = "Internal list corruption detected"
	TitleSlabOrder     = "slabs of the list are out of order"
	TitleSlabRemaining = "Can't free all objects"
)

// A RuleSet is a set of rule sets.
type RuleSet uint8

// Has says whether r is among them.
func (s RuleSet) Has(r Rules) bool { return r < nRules && s&(1<<r) != 0 }

// The sets that occur in the table.
const (
	bySLUB   RuleSet = 1<<SLUB61 | 1<<SLUB612
	by612    RuleSet = 1 << SLUB612
	byGuard  RuleSet = bySLUB | 1<<Guard
	bySLAB   RuleSet = 1<<SLAB24 | 1<<SLAB26
	by24     RuleSet = 1 << SLAB24
	by26     RuleSet = 1 << SLAB26
	byKernel RuleSet = bySLUB | bySLAB
	byAll    RuleSet = byKernel | 1<<Guard
)

// A TitleEntry is a row of the table of titles.
type TitleEntry struct {
	Title  string
	Rules  RuleSet // the rule sets that have it
	Kernel string  // the function of the kernel that says it
	Means  string  // one sentence
	// Unreachable is why no program can cause the report, "" when one can.
	Unreachable string
}

// Why some reports are out of reach.
const (
	noTypeDamage = "no operation of a program changes what a page is or whose slab it is, " +
		"and a free to another cache goes to the cache that owns the slab"
	noCtor = "the one constructor that there is writes its object and nothing else"
)

// titles is the one table of titles, in the order of the constants.
var titles = []TitleEntry{
	{TitleLeftRedzone, byGuard, "check_object",
		"The red zone in front of an object does not say what the object's state says.", ""},
	{TitleRightRedzone, byGuard, "check_object",
		"The red zone behind an object does not say what the object's state says.", ""},
	{TitleKmallocRedzone, by612, "check_object",
		"A byte between the size asked for and the end of the size class was written.", ""},
	{TitleAlignPadding, byGuard, "check_object",
		"A byte between the object and the next word was written (no red zones).", ""},
	{TitlePoison, byGuard, "check_object",
		"A free object was written, before its last byte.", ""},
	{TitleEndPoison, byGuard, "check_object",
		"The last byte of a free object was written.", ""},
	{TitleObjectPadding, byGuard, "check_pad_bytes",
		"A byte between the debug data of an object and the next slot was written.", ""},
	{TitlePadding, bySLUB, "slab_pad_check",
		"A byte behind the last slot of a slab was written.", ""},
	{TitleObjectCorrupt, by612, "object_err",
		"Something is wrong with the bytes of an object; lines before it say what.",
		"it is the heading that 6.12 prints over damaged bytes; the report is known by the " +
			"title of the region that was damaged"},

	{TitleNotSlabPage, bySLUB, "check_slab",
		"A page on a list of slabs is no slab.", noTypeDamage},
	{TitleObjectsMax, bySLUB, "check_slab",
		"A slab says that it has more objects than fit its pages.", ""},
	{TitleInuseMax, bySLUB, "check_slab",
		"A slab says that more objects are in use than it has.", ""},
	{TitleSlabDisabled, bySLUB, "check_slab",
		"The slab was retired after an earlier report, or its frozen bit was damaged.", ""},
	{TitleFreepointer, bySLUB, "check_object, on_freelist",
		"The link of an object, or the head of a freelist, is no object of the slab.", ""},
	{TitleFreechain, bySLUB, "on_freelist, freelist_corrupted",
		"A link inside a freelist is no object of the slab.", ""},
	{TitleFreelistHead, bySLUB, "alloc_consistency_checks",
		"The object that was taken from a freelist is no object of the slab.", ""},
	{TitleObjectsWrong, bySLUB, "on_freelist",
		"A slab says that it has fewer objects than fit its pages.", ""},
	{TitleCountWrong, bySLUB, "on_freelist",
		"A slab's count of objects in use does not fit the length of its freelist.", ""},
	{TitleNrPartial, bySLUB, "validate_slab_node",
		"The count of partial slabs is not the length of their list.", ""},
	{TitleNrSlabs, bySLUB, "validate_slab_node",
		"The count of slabs is not the length of both lists.", ""},

	{TitleInvalidPointer, byAll, "free_consistency_checks; 2.4: kmem_extra_free_checks; " +
		"2.6: cache_free_debugcheck",
		"An address was freed at which no object begins.", ""},
	{TitleAlreadyFree, byGuard, "free_consistency_checks",
		"An object was freed that is free.", ""},
	{TitleTooFew, bySLUB, "free_debug_processing",
		"More objects are freed than the slab says are in use.", ""},
	{TitleBulkCount, bySLUB, "free_debug_processing",
		"A list of objects to be freed is longer or shorter than announced.",
		"the list of a bulk free is made from the array that it counts"},
	{TitleOutsideSlab, bySLUB, "free_consistency_checks",
		"An address was freed that lies in no slab.",
		"the owner of the address is looked up before, which reports \"" + TitleNotSlab + "\""},
	{TitleNoSlabCache, bySLUB, "free_consistency_checks",
		"The slab of an object that is freed belongs to no cache.", noTypeDamage},
	{TitleSlabPointer, bySLUB, "free_consistency_checks",
		"The slab of an object that is freed belongs to another cache.", noTypeDamage},
	{TitleWrongCache, byAll, "cache_from_obj; 2.4: BUG in kmem_cache_free",
		"An object was freed to a cache that it is not from.", ""},
	{TitleNotSlab, byKernel, "virt_to_cache; 2.4: BUG in CHECK_PAGE",
		"An address was freed to a cache that lies in no slab.", ""},
	{TitleRemaining, bySLUB, "list_slab_objects",
		"A slab had objects in use when its cache was to be destroyed.", ""},

	{TitleSlabEither, bySLAB, "cache_alloc_debugcheck_after; 2.4: BUG at allocation and free",
		"The magic words around an object do not say what its state says.", ""},
	{TitleSlabDouble, by26, "verify_redzone_free",
		"Both magic words of an object that is freed say that it is free.", ""},
	{TitleSlabOutside, by26, "verify_redzone_free",
		"A magic word of an object that is freed was overwritten.", ""},
	{TitleSlabStart, bySLAB, "slab_destroy_debugcheck; 2.4: BUG in kmem_slab_destroy",
		"The magic word in front of a free object was overwritten.", ""},
	{TitleSlabEnd, bySLAB, "slab_destroy_debugcheck; 2.4: BUG in kmem_slab_destroy",
		"The magic word behind a free object was overwritten.", ""},
	{TitleSlabCtorStart, by26, "cache_init_objs_debug",
		"A constructor wrote in front of its object.", noCtor},
	{TitleSlabCtorEnd, by26, "cache_init_objs_debug",
		"A constructor wrote behind its object.", noCtor},
	{TitleSlabPoison, bySLAB, "check_poison_obj; 2.4: BUG after kmem_check_poison_obj",
		"A free object was written.", ""},
	{TitleSlabOnChain, bySLAB, "slab_put_obj; 2.4: BUG in kmem_extra_free_checks",
		"An object that is freed is on the chain of free objects.", ""},
	{TitleSlabChain, bySLAB, "check_slabp, of early 2.6",
		"The chain of free objects leaves the slab, is a ring, or does not fit the count.", ""},
	{TitleSlabOrder, by24, "kmem_slabchain_test",
		"The one list is not in the order full, partial, free, or its mark is wrong.", ""},
	{TitleSlabRemaining, by24, "kmem_cache_destroy",
		"A cache was to be destroyed while objects were live.", ""},
}

// Titles returns the table of titles, in a fixed order. It must not be changed.
func Titles() []TitleEntry { return titles }

// LookupTitle finds a title in the table.
func LookupTitle(title string) (e TitleEntry, ok bool) {
	for _, e := range titles {
		if e.Title == title {
			return e, true
		}
	}
	return TitleEntry{}, false
}
