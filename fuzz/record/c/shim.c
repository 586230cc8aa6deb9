// The recorder that "allocfuzz record" preloads into a program: it writes down every
// allocation into a file that is mapped and shared. C11, no library but libc.
//
// There is no lock and no buffer. A record takes its place in the file by one atomic
// addition, so that the order of places is an order in which it happened: a free takes
// its place before it frees, an allocation after it has the memory, a resize two, one
// before and one after. A signal handler or another thread can come between any two
// instructions; what a handler does that came inside of the allocator, where it must not
// allocate, is left out. What was written stays when the process is killed, and the descriptor
// is closed as soon as the file is mapped, so that the program cannot close it, or
// write to it.
//
// A child of fork does not record: the word that says where to, is wiped in it. After
// an exec the recording begins anew. Other processes that inherit the environment see
// that the file is not theirs.
//
// The layout of the file is that of corpus/trace/record.go.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum kind { MALLOC = 1, CALLOC, MEMALIGN, FREE, MOVE_FROM, MOVE_TO };

struct header {
	char magic[16];
	uint32_t order; // 0x01020304 as this machine stores it
	_Atomic uint32_t pid; // of the process that is recorded; 0: nobody came
	_Atomic uint32_t threads;
	_Atomic uint32_t execs;
	uint64_t capacity; // of records
	_Atomic uint64_t next; // place of the next record
	_Atomic uint64_t lost; // records that did not fit any more
	uint64_t unused;
};

struct record {
	_Atomic uint32_t kind; // written last: 0 in a place that was never filled
	uint32_t thread;
	uint64_t object;
	uint64_t size;
	uint64_t arg; // elements of a calloc, alignment
};

// A guard lies on a page of its own, which is wiped in the children of fork.
struct guard {
	struct header *file;
	pid_t pid; // set where the kernel does not wipe
};

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	size_t (*malloc_usable_size)(void *);
} real;

static atomic_int resolved;
static atomic_int attached; // 0 not tried, 1 trying or tried
static _Atomic(struct guard *) guard;

#define PER_THREAD static __thread __attribute__((tls_model("initial-exec")))

PER_THREAD int resolving;
PER_THREAD int nested; // in a real function, which may call others by their public names
PER_THREAD uint32_t self;

// Memory for what dlsym asks for while the real functions are looked up. Each block has
// its size in front. It is never given back.
static _Alignas(16) char early[1 << 16];
static atomic_size_t early_used;

static void *early_alloc(size_t n)
{
	if (n > sizeof early)
		return NULL;
	size_t need = 16 + ((n + 15) & ~(size_t)15);
	size_t at = atomic_fetch_add(&early_used, need);
	if (at + need > sizeof early)
		return NULL;
	memcpy(early + at, &n, sizeof n);
	return early + at + 16;
}

static int is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)early < sizeof early;
}

static size_t early_size(const void *p)
{
	size_t n;
	memcpy(&n, (const char *)p - 16, sizeof n);
	return n;
}

// look sets *f, whatever its type, without the cast that C forbids.
static void look(void *f, const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);
	memcpy(f, &p, sizeof p);
}

// ready looks the real functions up; 0 when it is being called out of that.
static int ready(void)
{
	if (atomic_load_explicit(&resolved, memory_order_acquire))
		return 1;
	if (resolving)
		return 0;
	resolving = 1;
	look(&real.calloc, "calloc");
	look(&real.malloc, "malloc");
	look(&real.realloc, "realloc");
	look(&real.free, "free");
	look(&real.posix_memalign, "posix_memalign");
	look(&real.aligned_alloc, "aligned_alloc");
	look(&real.memalign, "memalign");
	look(&real.valloc, "valloc");
	look(&real.pvalloc, "pvalloc");
	look(&real.malloc_usable_size, "malloc_usable_size");
	resolving = 0;
	atomic_store_explicit(&resolved, 1, memory_order_release);
	return 1;
}

extern char **environ;

// recording is the name of the file; NULL when nothing is to be recorded.
static const char *recording(void)
{
	static const char name[] = "ALLOCFUZZ_RECORD=";
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, name, sizeof name - 1))
			return *e + sizeof name - 1;
	return NULL;
}

static struct header *map(const char *name)
{
	struct header *h = MAP_FAILED;
	struct stat st;
	int fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && st.st_size > (off_t)sizeof *h)
		h = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (h == MAP_FAILED)
		return NULL;
	uint32_t nobody = 0, me = getpid();
	if (memcmp(h->magic, "allocfuzz record", 16) ||
	    (!atomic_compare_exchange_strong(&h->pid, &nobody, me) && nobody != me)) {
		munmap(h, st.st_size);
		return NULL;
	}
	if (nobody == me) { // another program was here before an exec
		uint64_t n = atomic_load(&h->next);
		memset(h + 1, 0, (n < h->capacity ? n : h->capacity) * sizeof(struct record));
		atomic_store(&h->next, 0);
		atomic_store(&h->lost, 0);
		atomic_store(&h->threads, 0);
		atomic_fetch_add(&h->execs, 1);
	}
	madvise(h, st.st_size, MADV_DONTFORK);
	return h;
}

static struct guard *attach(void)
{
	if (!environ || atomic_exchange(&attached, 1))
		return NULL;
	int err = errno;
	const char *name = recording();
	struct header *h = name ? map(name) : NULL;
	struct guard *g = NULL;
	if (h) {
		g = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (g == MAP_FAILED) {
			g = NULL;
		} else {
			g->file = h;
			g->pid = madvise(g, 4096, MADV_WIPEONFORK) ? getpid() : 0;
			atomic_store(&guard, g);
		}
	}
	errno = err;
	return g;
}

static void note(enum kind k, const void *p, size_t size, size_t arg)
{
	if (nested)
		return;
	struct guard *g = atomic_load_explicit(&guard, memory_order_acquire);
	if (!g && !(g = attach()))
		return;
	struct header *h = g->file;
	if (!h || (g->pid && g->pid != getpid()))
		return;
	uint64_t i = h->capacity;
	if (atomic_load_explicit(&h->next, memory_order_relaxed) < i)
		i = atomic_fetch_add(&h->next, 1);
	if (i >= h->capacity) {
		atomic_fetch_add_explicit(&h->lost, 1, memory_order_relaxed);
		return;
	}
	if (!self)
		self = 1 + atomic_fetch_add(&h->threads, 1);
	struct record *r = (struct record *)(h + 1) + i;
	r->thread = self;
	r->object = (uintptr_t)p;
	r->size = size;
	r->arg = arg;
	atomic_store_explicit(&r->kind, k, memory_order_release);
}

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t n)
{
	if (!ready())
		return early_alloc(n);
	nested++;
	void *p = real.malloc(n);
	nested--;
	note(MALLOC, p, n, 0);
	return p;
}

EXPORT void *calloc(size_t count, size_t n)
{
	size_t all;
	if (!ready()) // the memory is zero as it is
		return __builtin_mul_overflow(count, n, &all) ? NULL : early_alloc(all);
	nested++;
	void *p = real.calloc(count, n);
	nested--;
	note(CALLOC, p, n, count);
	return p;
}

EXPORT void free(void *p)
{
	if (!p || is_early(p) || !ready())
		return;
	note(FREE, p, 0, 0);
	nested++;
	real.free(p);
	nested--;
}

static void *early_realloc(void *p, size_t n)
{
	size_t old = early_size(p);
	void *q = malloc(n);
	if (q)
		memcpy(q, p, old < n ? old : n);
	return q;
}

EXPORT void *realloc(void *p, size_t n)
{
	if (!p)
		return malloc(n);
	if (is_early(p))
		return early_realloc(p, n);
	if (!ready())
		return NULL;
	note(MOVE_FROM, p, 0, 0);
	nested++;
	void *q = real.realloc(p, n);
	nested--;
	note(MOVE_TO, q, n, 0);
	return q;
}

EXPORT void *reallocarray(void *p, size_t count, size_t n)
{
	size_t all;
	if (__builtin_mul_overflow(count, n, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, all);
}

// ALIGNED is one way to ask for an alignment.
#define ALIGNED(call, align, size) \
	if (!ready()) \
		return NULL; \
	nested++; \
	void *p = call; \
	nested--; \
	note(MEMALIGN, p, size, align); \
	return p

EXPORT void *aligned_alloc(size_t align, size_t n)
{
	ALIGNED(real.aligned_alloc(align, n), align, n);
}

EXPORT void *memalign(size_t align, size_t n)
{
	ALIGNED(real.memalign(align, n), align, n);
}

EXPORT void *valloc(size_t n)
{
	size_t page = sysconf(_SC_PAGESIZE);
	ALIGNED(real.valloc(n), page, n);
}

EXPORT void *pvalloc(size_t n)
{
	size_t page = sysconf(_SC_PAGESIZE);
	ALIGNED(real.pvalloc(n), page, (n + page - 1) & ~(page - 1));
}

EXPORT int posix_memalign(void **into, size_t align, size_t n)
{
	if (!ready())
		return ENOMEM;
	nested++;
	int err = real.posix_memalign(into, align, n);
	nested--;
	note(MEMALIGN, err ? NULL : *into, n, align);
	return err;
}

EXPORT size_t malloc_usable_size(void *p)
{
	if (is_early(p))
		return early_size(p);
	return ready() ? real.malloc_usable_size(p) : 0;
}

// begin claims the file even if the program never allocates.
__attribute__((constructor)) static void begin(void)
{
	ready();
	if (!atomic_load(&guard))
		attach();
}
