/* A malloc that works until BAD says how it is to go wrong. It is loaded by tests. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEAP (1ul << 40)
#define ALIGN 16ul

static char *heap, *top;
static const char *bad = "";
static int frees, calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is(const char *how) { return strcmp(bad, how) == 0; }

static void *crash_later(void *unused)
{
	usleep(20000);
	*(volatile int *)16 = 1;
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	if (getenv("BAD"))
		bad = getenv("BAD");
	if (is("constructor exits"))
		_exit(3);
	if (is("constructor hangs"))
		for (;;)
			pause();
	if (is("constructor crashes"))
		abort();
	heap = top = mmap(0, HEAP, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (is("a thread crashes")) {
		pthread_t t;
		pthread_create(&t, 0, crash_later, 0);
	}
}

/* the size stands in front of every block */
static void *take(size_t align, size_t size)
{
	char *p;
	if (size > HEAP / 2 || align > HEAP / 2) {
		errno = is("no errno") ? 0 : ENOMEM;
		return 0;
	}
#ifndef UNLOCKED
	pthread_mutex_lock(&lock);
#endif
	p = (char *)(((uintptr_t)top + ALIGN + align - 1) & ~(align - 1));
#ifdef UNLOCKED
	usleep(1000);
#endif
	top = p + size + (is("overlap") && size > 64 ? -32 : 0);
	((size_t *)p)[-1] = size;
#ifndef UNLOCKED
	pthread_mutex_unlock(&lock);
#endif
	return p;
}

static void misbehave(void)
{
	if (++calls != 3)
		return;
	if (is("segv"))
		*(volatile int *)8 = 1;
	if (is("recursion")) {
		volatile char deep[1 << 16];
		deep[0] = 0;
		calls = 2;
		misbehave();
		deep[1] = 0;
	}
	if (is("abort")) {
		fprintf(stderr, "bad: free list of the arena is corrupt\n");
		abort();
	}
	if (is("exit"))
		exit(7);
	if (is("_exit 0"))
		_exit(0);
	if (is("hang"))
		for (;;)
			;
	if (is("hang with signals blocked")) {
		sigset_t all;
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, 0);
		for (;;)
			pause();
	}
	if (is("kill"))
		kill(getpid(), SIGTERM);
	if (is("memory"))
		for (;;)
			memset(take(ALIGN, 1 << 26), 1, 1 << 26);
	if (is("close"))
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	if (is("garbage"))
		for (int fd = 3; fd < 1024; fd++)
			(void)!write(fd, "what is this?", 13);
	if (is("fork") && fork() == 0)
		for (;;)
			pause();
	if (is("fork and die")) {
		if (fork() == 0) {
			setsid();
			for (;;)
				pause();
		}
		abort();
	}
	if (is("ill"))
		__builtin_trap();
}

static void *freed, *again;

static void freed_twice(void *p)
{
	if (is("double free told")) {
		fprintf(stderr, "bad: freed twice\n");
		abort();
	}
	if (is("double free stops"))
		abort();
	if (is("double free hangs"))
		for (;;)
			pause();
	again = p;
}

void *malloc(size_t size)
{
	misbehave();
	if (again && is("double free late")) {
		fprintf(stderr, "bad: the heap is damaged\n");
		abort();
	}
	if (again && is("double free twice"))
		return again;
	if (is("no block"))
		return (void *)0x100000;
	if (is("null"))
		return 0;
	return take(ALIGN, size);
}

void free(void *p)
{
	if (!p)
		return;
	frees++;
	if (frees > 1 && p == freed)
		freed_twice(p);
	freed = p;
	if (is("reuse") && frees == 1)
		top = (char *)p - ALIGN;
	else if (!is("leak")) { /* whole pages of it are given back, the room never */
		uintptr_t from = ((uintptr_t)p + 4095) & ~4095ul;
		uintptr_t to = ((uintptr_t)p + ((size_t *)p)[-1]) & ~4095ul;
		if (from < to)
			madvise((void *)from, to - from, MADV_DONTNEED);
	}
	if (is("free clears"))
		memset((char *)p + ((size_t *)p)[-1], 0, 64);
}

void *calloc(size_t n, size_t size)
{
	char *p = take(ALIGN, n * size);
	if (p && is("calloc dirty") && n * size > 8)
		p[n * size - 1] = 1;
	if (__builtin_mul_overflow_p(n, size, (size_t)0) && !is("overflow")) {
		errno = ENOMEM;
		return 0;
	}
	return p;
}

void *realloc(void *p, size_t size)
{
	char *q;
	size_t old = p ? ((size_t *)p)[-1] : 0;
	if (size > HEAP / 2 && is("realloc failure"))
		memset(p, 0, old);
	q = take(ALIGN, size);
	if (q && p)
		memcpy(q, p, (old < size ? old : size) - (is("prefix") && old > 8 ? 1 : 0));
	return q;
}

void *memalign(size_t align, size_t size)
{
	return take(is("align") && align > 64 ? align / 2 : align < ALIGN ? ALIGN : align, size);
}

size_t malloc_usable_size(void *p)
{
	if (!p)
		return 0;
	if (is("usable"))
		return ((size_t *)p)[-1] - 1;
	if (is("usable lies"))
		return ((size_t *)p)[-1] + 64;
	return ((size_t *)p)[-1];
}

size_t nallocx(size_t size, int flags)
{
	(void)flags;
	return is("promise") ? size + 16 : size;
}
