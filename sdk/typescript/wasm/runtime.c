#include "runtime.h"
#include "zlib.h"

#define PAGE 65536u

extern unsigned char __heap_base;
static uintptr_t heap_end;

static int reserve(uintptr_t end) {
    uintptr_t have = __builtin_wasm_memory_size(0) * PAGE;
    if (end <= have) return 1;
    return __builtin_wasm_memory_grow(0, (end - have + PAGE - 1) / PAGE) != (size_t)-1;
}

/* In front of each block; HEAD_BYTES keep the block aligned. */
struct head { size_t room; };
#define HEAD_BYTES 64

static void *spare;

static struct head *head_of(void *at) { return (struct head *)((uintptr_t)at - HEAD_BYTES); }

void *malloc(size_t size) {
    if (spare && head_of(spare)->room >= size) {
        void *at = spare;
        spare = NULL;
        return at;
    }
    if (!heap_end) heap_end = (uintptr_t)&__heap_base;
    uintptr_t start = ((heap_end + 63) & ~(uintptr_t)63) + HEAD_BYTES;
    if (size > BLOCK_BYTES_MAX || !reserve(start + size)) return NULL;
    heap_end = start + size;
    head_of((void *)start)->room = size;
    return (void *)start;
}

void *calloc(size_t count, size_t size) {
    if (size && count > BLOCK_BYTES_MAX / size) return NULL;
    void *at = malloc(count * size);
    return at ? __builtin_memset(at, 0, count * size) : NULL;
}

void free(void *at) {
    if (at && (!spare || head_of(at)->room > head_of(spare)->room)) spare = at;
}

int extend(void *at, size_t size) {
    if ((uintptr_t)at + head_of(at)->room != heap_end) return 0;
    if (!reserve((uintptr_t)at + size)) return -1;
    heap_end = (uintptr_t)at + size;
    head_of(at)->room = size;
    return 1;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) { return __builtin_memcpy(to, from, size); }
void *memmove(void *to, const void *from, size_t size) { return __builtin_memmove(to, from, size); }
void *memset(void *to, int value, size_t size) { return __builtin_memset(to, value, size); }

int memcmp(const void *left, const void *right, size_t size) {
    const unsigned char *a = left, *b = right;
    for (size_t i = 0; i < size; i++) if (a[i] != b[i]) return a[i] - b[i];
    return 0;
}

/* What zlib allocates with. It frees only at the end of a stream, which is the end of the instance. */
voidpf zcalloc(voidpf opaque, unsigned items, unsigned size) {
    (void)opaque;
    return calloc(items, size);
}

void zcfree(voidpf opaque, voidpf at) {
    (void)opaque;
    (void)at;
}
