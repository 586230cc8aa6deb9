/* A family of names over the C library's own, each with the defect whose number is in BUG. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	SOUND, TWICE, OVERLAP, MISALIGNED, MISALIGNED_SMALL, USABLE, REFUSED, CHANGED, NOT_ZEROED,
	PREFIX, MOVED_BACK, OVERFLOW, THREAD
};

static void *last;
static size_t last_size;
static _Thread_local int mine;
static int *owner;

void *broken_malloc(size_t n)
{
	void *p;

	if (BUG == REFUSED && n == 48)
		return NULL;
	if (BUG == TWICE && last != NULL && n == last_size)
		return last;
	if (BUG == OVERLAP && last != NULL)
		return (char *)last + last_size / 2;
	p = malloc(n);
	if (BUG == MISALIGNED_SMALL)
		return (char *)p + 2;
	last = p;
	last_size = n;
	owner = &mine;
	return p;
}

void *broken_calloc(size_t m, size_t n)
{
	unsigned char *p;

	if (BUG == OVERFLOW)
		return malloc(m * n);
	p = calloc(m, n);
	if (BUG == NOT_ZEROED && p != NULL)
		p[m * n - 1] = 1;
	return p;
}

int broken_posix_memalign(void **p, size_t align, size_t n)
{
	int wrong = posix_memalign(p, align, n);

	if (BUG == MISALIGNED && wrong == 0)
		*p = (char *)*p + align / 2;
	return wrong;
}

void *broken_aligned_alloc(size_t align, size_t n)
{
	return aligned_alloc(align, n);
}

void *broken_realloc(void *p, size_t n)
{
	unsigned char *moved = realloc(p, n);

	if (BUG == PREFIX && moved != NULL)
		moved[0] ^= 1;
	return moved;
}

size_t broken_malloc_usable_size(void *p)
{
	return BUG == USABLE ? 1 : malloc_usable_size(p);
}

void broken_free(void *p)
{
	if (BUG == CHANGED && last != NULL && last != p)
		((unsigned char *)last)[3] ^= 1;
	if (BUG == THREAD) {
		/* A free damages what another thread has. */
		if (owner != &mine && last != NULL && last != p)
			((unsigned char *)last)[0] ^= 1;
	}
	if (BUG != MISALIGNED && BUG != MISALIGNED_SMALL && BUG != OVERLAP)
		free(p);
}
