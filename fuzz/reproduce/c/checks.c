/*
 * What follows carries a program out on an allocator and checks every answer. The program itself
 * is at the end. It keeps its own notes outside the allocator: nothing but the calls of the
 * program reaches that, save what the C library asks for itself.
 *
 *   -DMALLOC_PREFIX=mi_     another family of names: mi_malloc, mi_free, ...
 *   -DUSABLE=mi_usable_size the name of malloc_usable_size there, if it is another
 *   -DFREE_SIZED=free_sized the C23 call, if there is one; else free is called
 *   -DCACHES='"mine.h"'     kmem_cache_create and its kin; else they are made of malloc and free
 *   -DMIN_ALIGN=16          what every address is a multiple of; else what the C standard says
 *   -DLIMIT=1000000         bytes of which less may not be refused
 */
#ifndef MALLOC_PREFIX
#define MALLOC_PREFIX
#endif
#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define CALL(f) NAME(MALLOC_PREFIX, f)
#ifndef USABLE
#define USABLE CALL(malloc_usable_size)
#endif
#ifndef MIN_ALIGN
#define MIN_ALIGN 0
#endif
#ifndef LIMIT
#define LIMIT ((size_t)64 << 20)
#endif

extern void *CALL(malloc)(size_t);
extern void *CALL(calloc)(size_t, size_t);
extern void *CALL(realloc)(void *, size_t);
extern int CALL(posix_memalign)(void **, size_t, size_t);
extern void *CALL(aligned_alloc)(size_t, size_t);
extern size_t USABLE(void *);
extern void CALL(free)(void *);

/* Calls that the compiler cannot know: it believes what the standard says of malloc. */
static void *(*volatile do_malloc)(size_t) = CALL(malloc);
static void *(*volatile do_calloc)(size_t, size_t) = CALL(calloc);
static void *(*volatile do_realloc)(void *, size_t) = CALL(realloc);
static int (*volatile do_posix_memalign)(void **, size_t, size_t) = CALL(posix_memalign);
static void *(*volatile do_aligned_alloc)(size_t, size_t) = CALL(aligned_alloc);
static size_t (*volatile do_usable)(void *) = USABLE;
static void (*volatile do_free)(void *) = CALL(free);
#ifdef FREE_SIZED
extern void FREE_SIZED(void *, size_t);
static void (*volatile do_free_sized)(void *, size_t) = FREE_SIZED;
#endif

/* Contents: a pattern is a number, and 0 is all zero bytes. */
static unsigned char byte_of(uint32_t pattern, size_t i)
{
	uint64_t word = pattern * UINT64_C(0xd6e8feb86659fd93);

	if (pattern != 0)
		word += i / 8 * UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned char)(word >> (8 * (i % 8)));
}

static void fill(unsigned char *p, size_t n, uint32_t pattern)
{
	for (size_t i = 0; i < n; i++)
		p[i] = byte_of(pattern, i);
}

/* differs is the first byte that is not the pattern's, n when all are. */
static size_t differs(const unsigned char *p, size_t n, uint32_t pattern)
{
	size_t i = 0;

	while (i < n && p[i] == byte_of(pattern, i))
		i++;
	return i;
}

static void *aligned(size_t align, size_t n)
{
	void *p = NULL;

	if (align % sizeof(void *) != 0)
		return do_aligned_alloc(align, n);
	return do_posix_memalign(&p, align, n) == 0 ? p : NULL;
}

#ifdef CACHES
#include CACHES
#else
struct kmem_cache {
	size_t size, align;
	void (*ctor)(void *);
};

static struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align,
					    unsigned long flags, void (*ctor)(void *))
{
	struct kmem_cache *c = do_malloc(sizeof(*c));

	(void)name;
	(void)flags;
	if (c != NULL)
		*c = (struct kmem_cache){size, align, ctor};
	return c;
}

static void *kmem_cache_alloc(struct kmem_cache *c, unsigned int flags)
{
	void *p = c->align != 0 ? aligned(c->align, c->size) : do_malloc(c->size);

	(void)flags;
	if (p != NULL && c->ctor != NULL)
		c->ctor(p);
	return p;
}

static void *kmem_cache_zalloc(struct kmem_cache *c, unsigned int flags)
{
	void *p = kmem_cache_alloc(c, flags);

	return p != NULL ? memset(p, 0, c->size) : NULL;
}

static void kmem_cache_free(struct kmem_cache *c, void *p)
{
	(void)c;
	do_free(p);
}

static int kmem_cache_alloc_bulk(struct kmem_cache *c, unsigned int flags, size_t n, void **into)
{
	for (size_t i = 0; i < n; i++) {
		into[i] = kmem_cache_alloc(c, flags);
		if (into[i] == NULL) {
			while (i-- > 0)
				do_free(into[i]);
			return 0;
		}
	}
	return (int)n;
}

static void kmem_cache_free_bulk(struct kmem_cache *c, size_t n, void **objects)
{
	for (size_t i = 0; i < n; i++)
		kmem_cache_free(c, objects[i]);
}

static int kmem_cache_shrink(struct kmem_cache *c)
{
	(void)c;
	return 0;
}

static void kmem_cache_destroy(struct kmem_cache *c)
{
	do_free(c);
}
#endif

/* What a constructor writes, and most objects at once. */
#define CTOR UINT32_MAX
#define BULK_MAX 4096

enum verb {
	CREATE, DESTROY, SHRINK, ALLOC, ALLOCBULK, FREEBULK, MALLOC, CALLOC, REALLOC, MEMALIGN,
	FREE, FREESIZED, USABLE_SIZE, FILL, VERIFY, OVERRUN, UNDERRUN, WRITEFREED, FREEAGAIN,
	FREEINSIDE, THE_END
};

struct cache {
	size_t size, align;
	void (*ctor)(void *);
	size_t live; /* objects */
	struct kmem_cache *c;
};

/* A block is what a name of the program holds. */
struct block {
	const char *name;
	enum { UNBOUND, GIVEN, LIVE } state;
	unsigned char *p;
	size_t size;
	uint32_t pattern;
	struct cache *from; /* NULL: by size */
};

struct op {
	const char *text;
	enum verb verb;
	int thread; /* from 1 */
	struct cache **cache; /* NULL: by size */
	struct block *to, *of, **many;
	size_t count;         /* of many */
	size_t n, m;          /* numbers; of CREATE size and alignment */
	void (*ctor)(void *); /* of CREATE */
	int zero;
};

static struct block nothing = {.name = "nil", .state = LIVE};
static struct block *live; /* everything that is live, lost names too */
static size_t lives, room, bytes;
static uint32_t patterns;
static int misused;

static void fail(const struct op *o, const char *title, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

static void say(const char *text)
{
	if (write(2, text, strlen(text)) < 0)
		_exit(2);
}

static void fail(const struct op *o, const char *title, const char *format, ...)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%.400s: %s: ", o->text, title);
	va_list args;

	va_start(args, format);
	vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
	va_end(args);
	say(text);
	say(misused ? " (after a misuse)\n" : "\n");
	_exit(1);
}

/* notes is memory of our own. */
static void *notes(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		say("no memory for the notes of this program\n");
		_exit(2);
	}
	return p;
}

static void add(const struct block *b)
{
	if (lives == room) {
		size_t more = room != 0 ? 2 * room : 4096;
		void *p = notes(more * sizeof(*live));

		if (lives != 0)
			memcpy(p, live, lives * sizeof(*live));
		if (room != 0)
			munmap(live, room * sizeof(*live));
		live = p;
		room = more;
	}
	live[lives++] = *b;
	bytes += b->size;
}

/* take removes what begins at p from what is live. */
static void take(const unsigned char *p)
{
	for (size_t i = lives; i-- > 0;) {
		if (live[i].p == p) {
			bytes -= live[i].size;
			live[i] = live[--lives];
			return;
		}
	}
}

static size_t extent(size_t n)
{
	return n != 0 ? n : 1;
}

/* placed judges the place of what an allocation returned. */
static void placed(const struct op *o, const unsigned char *p, size_t n, size_t align)
{
	size_t natural = _Alignof(max_align_t);

	while (natural > extent(n))
		natural /= 2;
	if (o->verb == ALLOC || o->verb == ALLOCBULK)
		natural = 1;
	if (MIN_ALIGN != 0)
		natural = MIN_ALIGN;
	if (align < natural)
		align = natural;
	if ((uintptr_t)p % align != 0)
		fail(o, "object misaligned", "%p is no multiple of %zu", (const void *)p, align);
	for (size_t i = 0; i < lives; i++) {
		const struct block *b = &live[i];

		if (p == b->p)
			fail(o, "object handed out twice", "%p is live as %s, %zu bytes",
			     (const void *)p, b->name, b->size);
		if (p < b->p + extent(b->size) && b->p < p + extent(n))
			fail(o, "object overlaps a live object", "%p, %zu bytes; %s is %p, %zu bytes",
			     (const void *)p, n, b->name, (const void *)b->p, b->size);
	}
}

/* bind gives a name what an allocation returned. */
static void bind(const struct op *o, struct block *to, struct block made, size_t align)
{
	made.name = to->name;
	made.state = LIVE;
	placed(o, made.p, made.size, align);
	made.pattern = made.from != NULL && made.from->ctor != NULL ? CTOR : ++patterns;
	fill(made.p, made.size, made.pattern);
	add(&made);
	*to = made;
}

/* refused judges an allocation that returned nothing. */
static void refused(const struct op *o, struct block *to, size_t n)
{
	if (n != 0 && n < LIMIT && bytes + n < LIMIT)
		fail(o, "refused without reason", "%zu bytes, %zu are live", n, bytes);
	*to = (struct block){.name = to->name, .state = GIVEN};
}

static void check_zero(const struct op *o, const unsigned char *p, size_t n)
{
	size_t bad = differs(p, n, 0);

	if (bad != n)
		fail(o, "not zeroed", "byte %zu of %zu at %p", bad, n, (const void *)p);
}

static void check_contents(const struct op *o, const struct block *b)
{
	size_t bad = differs(b->p, b->size, b->pattern);

	if (bad != b->size)
		fail(o, "contents changed", "byte %zu of %zu at %p, %s", bad, b->size,
		     (const void *)b->p, b->name);
}

static void refill(struct block *b)
{
	b->pattern = ++patterns;
	fill(b->p, b->size, b->pattern);
	take(b->p);
	add(b);
}

/* of_op says whether a block is live and came from where the operation gives it back. */
static int of_op(const struct op *o, const struct block *b)
{
	const struct cache *from = o->cache != NULL ? *o->cache : NULL;

	return b->state == LIVE && b->from == from && (o->cache == NULL) == (from == NULL);
}

static void by_size(const struct op *o)
{
	size_t n = o->n, align = o->verb == MEMALIGN ? o->m : 0;
	int zero = o->zero || o->verb == CALLOC;
	unsigned char *p;

	if (o->verb == CALLOC) {
		p = do_calloc(o->m, n);
		if (n != 0 && o->m > SIZE_MAX / n) {
			if (p != NULL)
				fail(o, "usable size below the request", "%zu times %zu overflows",
				     o->m, n);
			*o->to = (struct block){.name = o->to->name, .state = GIVEN};
			return;
		}
		n *= o->m;
	} else if (o->verb == MEMALIGN) {
		p = aligned(align, n);
	} else {
		p = zero ? do_calloc(1, n) : do_malloc(n);
	}
	if (p == NULL) {
		refused(o, o->to, n);
		return;
	}
	if (zero)
		check_zero(o, p, n);
	bind(o, o->to, (struct block){.p = p, .size = n}, align);
}

static void by_realloc(const struct op *o)
{
	struct block was = *o->of;
	size_t common = was.size < o->n ? was.size : o->n;
	unsigned char *p;

	if (!of_op(o, &was)) {
		o->to->state = o->to == o->of ? o->to->state : GIVEN;
		return;
	}
	check_contents(o, &was);
	p = do_realloc(was.p, o->n);
	if (p == NULL && o->n != 0) {
		struct block none = {.name = o->to->name, .state = GIVEN};

		refused(o, &none, o->n);
		check_contents(o, &was);
		if (o->to != o->of)
			*o->to = none;
		return;
	}
	take(was.p);
	if (o->of != &nothing)
		o->of->state = GIVEN;
	if (p == NULL) {
		o->to->state = GIVEN;
		return;
	}
	if (differs(p, common, was.pattern) != common)
		fail(o, "prefix lost at realloc", "byte %zu of %zu at %p, before at %p",
		     differs(p, common, was.pattern), common, (void *)p, (void *)was.p);
	bind(o, o->to, (struct block){.p = p, .size = o->n}, 0);
}

static void object(const struct op *o, struct block *to, unsigned char *p)
{
	struct cache *c = *o->cache;

	if (c->ctor != NULL && differs(p, c->size, CTOR) != c->size)
		fail(o, "constructor state lost", "byte %zu of %zu at %p",
		     differs(p, c->size, CTOR), c->size, (void *)p);
	if (o->zero)
		check_zero(o, p, c->size);
	bind(o, to, (struct block){.p = p, .size = c->size, .from = c}, c->align);
	c->live++;
}

/* objects allocates: all or none. */
static void objects(const struct op *o)
{
	void *got[BULK_MAX] = {NULL};
	size_t count = o->verb == ALLOC ? 1 : o->count;
	struct cache *c = *o->cache;

	if (c != NULL && c->ctor != NULL && o->zero)
		c = NULL; /* the two do not go together */
	if (c == NULL)
		;
	else if (o->verb == ALLOC)
		got[0] = o->zero ? kmem_cache_zalloc(c->c, 0) : kmem_cache_alloc(c->c, 0);
	else if (kmem_cache_alloc_bulk(c->c, 0, count, got) == 0)
		got[0] = NULL;
	for (size_t i = 0; i < count; i++) {
		struct block *to = o->verb == ALLOC ? o->to : o->many[i];

		if (c == NULL)
			*to = (struct block){.name = to->name, .state = GIVEN};
		else if (got[0] == NULL)
			refused(o, to, c->size);
		else
			object(o, to, got[i]);
	}
}

static void gone(const struct op *o, struct block *b)
{
	check_contents(o, b);
	take(b->p);
	if (b->from != NULL)
		b->from->live--;
	if (b->from != NULL && b->from->ctor != NULL)
		b->from->ctor(b->p);
	if (b != &nothing)
		b->state = GIVEN;
}

static void give(const struct op *o, struct block *b)
{
	if (o->verb != THE_END && !of_op(o, b))
		return;
	gone(o, b);
	if (b->from != NULL)
		kmem_cache_free(b->from->c, b->p);
#ifdef FREE_SIZED
	else if (o->verb == FREESIZED)
		do_free_sized(b->p, o->n);
#endif
	else
		do_free(b->p);
}

static void give_bulk(const struct op *o)
{
	void *objects[BULK_MAX];
	size_t n = 0;

	for (size_t i = 0; i < o->count; i++) {
		if (!of_op(o, o->many[i]))
			continue;
		gone(o, o->many[i]);
		objects[n++] = o->many[i]->p;
	}
	if (n != 0)
		kmem_cache_free_bulk((*o->cache)->c, n, objects);
}

static void invert(unsigned char *p, size_t n)
{
	volatile unsigned char *q = p;

	misused = 1;
	for (size_t i = 0; i < n; i++)
		q[i] = (unsigned char)~q[i];
}

/* misuse does what a program must not do. What comes of it is the allocator's answer. */
static void misuse(const struct op *o)
{
	struct block *b = o->of;
	size_t inside = o->verb == FREEINSIDE ? o->n : 0;

	if (o->verb == WRITEFREED || o->verb == FREEAGAIN ? b->state != GIVEN || b->p == NULL
							  : b->state != LIVE)
		return;
	switch (o->verb) {
	case OVERRUN:
		invert(b->p + b->size, o->n);
		return;
	case UNDERRUN:
		invert(b->p - o->n, o->n);
		return;
	case WRITEFREED:
		invert(b->p, b->size);
		return;
	default:
		misused = 1;
		if (b->from != NULL)
			kmem_cache_free(b->from->c, b->p + inside);
		else
			do_free(b->p + inside);
	}
}

static void cache_op(const struct op *o)
{
	struct cache *c = *o->cache;

	switch (o->verb) {
	case CREATE:
		c = notes(sizeof(*c));
		*c = (struct cache){.size = o->n, .align = o->m, .ctor = o->ctor};
		c->c = kmem_cache_create(o->text, o->n, o->m, 0, o->ctor);
		if (c->c == NULL)
			fail(o, "refused without reason", "a cache of %zu bytes", o->n);
		*o->cache = c;
		return;
	case DESTROY:
		if (c == NULL || c->live != 0)
			return;
		kmem_cache_destroy(c->c);
		*o->cache = NULL;
		return;
	default:
		if (c != NULL)
			kmem_cache_shrink(c->c);
	}
}

/* carry_out is one operation. What it needs and is not live makes it do nothing. */
static void carry_out(const struct op *o)
{
	switch (o->verb) {
	case CREATE:
	case DESTROY:
	case SHRINK:
		cache_op(o);
		return;
	case ALLOC:
	case ALLOCBULK:
		objects(o);
		return;
	case FREEBULK:
		give_bulk(o);
		return;
	case MALLOC:
	case CALLOC:
	case MEMALIGN:
		by_size(o);
		return;
	case REALLOC:
		by_realloc(o);
		return;
	case FREE:
	case FREESIZED:
		give(o, o->of);
		return;
	case USABLE_SIZE:
		if (of_op(o, o->of) && do_usable(o->of->p) < o->of->size)
			fail(o, "usable size below the request", "%zu of %zu bytes at %p",
			     do_usable(o->of->p), o->of->size, (void *)o->of->p);
		return;
	case FILL:
	case VERIFY:
		if (o->of->state == LIVE)
			check_contents(o, o->of);
		if (o->of->state == LIVE && o->verb == FILL)
			refill(o->of);
		return;
	case THE_END:
		while (lives != 0) {
			struct block b = live[lives - 1];

			give(o, &b);
		}
		return;
	default:
		misuse(o);
	}
}

#if THREADS > 1
/* One thread a context; each operation is handed to its own, in the order of the program. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static const struct op *next;

static void *context(void *number)
{
	int self = *(const int *)number;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (next == NULL || next->thread != self)
			pthread_cond_wait(&turn, &lock);
		carry_out(next);
		next = NULL;
		pthread_cond_broadcast(&turn);
	}
	return NULL;
}

static void run(const struct op *o)
{
	static int numbers[THREADS + 1];
	pthread_t thread;

	pthread_mutex_lock(&lock);
	if (numbers[o->thread] == 0) {
		numbers[o->thread] = o->thread;
		if (pthread_create(&thread, NULL, context, &numbers[o->thread]) != 0) {
			say("no thread\n");
			_exit(2);
		}
	}
	next = o;
	pthread_cond_broadcast(&turn);
	while (next != NULL)
		pthread_cond_wait(&turn, &lock);
	pthread_mutex_unlock(&lock);
}
#else
static void run(const struct op *o)
{
	carry_out(o);
}
#endif
