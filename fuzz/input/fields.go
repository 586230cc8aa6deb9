package input

// fields is the table of the public names of points' fields that a departure record can spell. A
// name's place in it is its byte, so names are only ever appended, never moved or removed: a
// corpus of bytes then keeps its meaning. Place 0 is the point without a field.
var fields = []string{
	"-",
	"cpu_slab.freelist",
	"cpu_slab.base",
	"cpu_slab.page",
	"slab.freelist",
	"slab.inuse",
	"slab.lock",
	"object.link",
	"node.list_lock",
	"node.partial",
	"cache.lock",
	"zone.lock",
	"zone.pages",
	"cpu.call",
	"prog.slot",
	"program.slot",
	"program.cache",
	"cpu_slab.partial",
	"cpu_slab.partial_count",
	"node.nr_partial",
	"node.nr_slabs",
	"cache.colour_next",
	"cpu_array.avail",
	"slab.frozen",
	"slab.next",
	"page.next",
	"page.prev",
	"local.lock",
	"cache_chain.lock",
	"cache.live",
	"object.track",
	"cpu_pages.head",
	"cpu_pages.count",
	"page.pool_next",
	"zone.short",
	"slab.pages",
	"slab.pobjects",
	"cpu_slab.tid",
	"cpu.work",
	"cpu_slab.lock",
	"rcu.section",
	"rcu.callback",
	"cache.object_size",
	"cpu.store_buffer",
}

// fieldIndex finds the byte of a field's name; it is read only.
var fieldIndex = indexFields()

func indexFields() map[string]int {
	m := make(map[string]int, len(fields))
	for i, f := range fields {
		m[f] = i
	}
	return m
}

// Fields returns the names of fields that departure records can spell, in the order of their
// bytes. Programs that name another field do not fit into bytes.
func Fields() []string { return append([]string(nil), fields...) }

// HasField reports whether a departure record can spell the field.
func HasField(name string) bool {
	_, ok := fieldIndex[name]
	return ok
}
