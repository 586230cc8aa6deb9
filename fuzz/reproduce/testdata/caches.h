/* Object caches over one array each; with BUG 1 the constructor is forgotten. */
struct kmem_cache {
	size_t size;
	void (*ctor)(void *);
	unsigned char *memory;
	unsigned char taken[64];
};

static struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align,
					    unsigned long flags, void (*ctor)(void *))
{
	static struct kmem_cache caches[8];
	static unsigned char memory[8][64 * 64] __attribute__((aligned(64)));
	static int n;

	if (name == NULL || align > 64 || flags != 0 || size > 64 || n == 8)
		return NULL;
	caches[n] = (struct kmem_cache){.size = size, .ctor = ctor, .memory = memory[n]};
	return &caches[n++];
}

static void *kmem_cache_alloc(struct kmem_cache *c, unsigned int flags)
{
	for (int i = 0; flags == 0 && i < 64; i++) {
		if (c->taken[i])
			continue;
		c->taken[i] = 1;
		if (c->ctor != NULL && BUG != 1)
			c->ctor(c->memory + 64 * i);
		return c->memory + 64 * i;
	}
	return NULL;
}

static void *kmem_cache_zalloc(struct kmem_cache *c, unsigned int flags)
{
	void *p = kmem_cache_alloc(c, flags);

	return p != NULL ? memset(p, 0, c->size) : NULL;
}

static void kmem_cache_free(struct kmem_cache *c, void *p)
{
	c->taken[((unsigned char *)p - c->memory) / 64] = 0;
}

static int kmem_cache_alloc_bulk(struct kmem_cache *c, unsigned int flags, size_t n, void **into)
{
	for (size_t i = 0; i < n; i++)
		into[i] = kmem_cache_alloc(c, flags);
	return (int)n;
}

static void kmem_cache_free_bulk(struct kmem_cache *c, size_t n, void **objects)
{
	for (size_t i = 0; i < n; i++)
		kmem_cache_free(c, objects[i]);
}

static int kmem_cache_shrink(struct kmem_cache *c)
{
	return c == NULL;
}

static void kmem_cache_destroy(struct kmem_cache *c)
{
	c->size = 0;
}
