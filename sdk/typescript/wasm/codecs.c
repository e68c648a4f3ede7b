/*
 * Decompressors of one connection, for WebAssembly: zstd and zlib, from their C libraries.
 *
 * Doors       `input` is where the caller writes up to INPUT_BYTES; `zstd_push` and `zlib_push` decompress them behind what
 *             `output` holds already, and return the length of the output or a negative number. The caller sets the
 *             output back with `reset_output` before each message.
 * Invariants  one instance serves one stream, and its memory goes with it. zstd frees a buffer only to take another of its
 *             kind, so one freed block is kept for that. The output buffer is the last allocation once the stream has
 *             begun, and grows in place.
 * Limits      a window of 2^WINDOW_LOG_MAX bytes; output of OUTPUT_BYTES_MAX, then FULL; memory as `build` sets it, then
 *             NO_MEMORY or BROKEN.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "zlib.h"
#include "zstd.h"

#define EXPORT(name) __attribute__((export_name(name)))
#define WINDOW_LOG_MAX 23
#define INPUT_BYTES (64 << 10)
#define OUTPUT_BYTES_FIRST (64 << 10)
#define OUTPUT_BYTES_MAX (64u << 20)
#define PAGE 65536u

enum { BROKEN = -1, FULL = -2, NO_MEMORY = -3 };

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
    if (size > OUTPUT_BYTES_MAX || !reserve(start + size)) return NULL;
    heap_end = start + size;
    head_of((void *)start)->room = size;
    return (void *)start;
}

void *calloc(size_t count, size_t size) {
    if (size && count > OUTPUT_BYTES_MAX / size) return NULL;
    void *at = malloc(count * size);
    return at ? __builtin_memset(at, 0, count * size) : NULL;
}

/* Keeps the larger one of two. */
void free(void *at) {
    if (at && (!spare || head_of(at)->room > head_of(spare)->room)) spare = at;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) { return __builtin_memcpy(to, from, size); }
void *memmove(void *to, const void *from, size_t size) { return __builtin_memmove(to, from, size); }
void *memset(void *to, int value, size_t size) { return __builtin_memset(to, value, size); }

/* What zlib allocates with. */
voidpf zcalloc(voidpf opaque, unsigned items, unsigned size) {
    (void)opaque;
    return calloc(items, size);
}

void zcfree(voidpf opaque, voidpf at) {
    (void)opaque;
    (void)at;
}

static unsigned char in_bytes[INPUT_BYTES];
static unsigned char *out_bytes;
static size_t out_room, out_length;
static ZSTD_DCtx *zstd;
static z_stream zlib;

EXPORT("input") unsigned char *input(void) { return in_bytes; }
EXPORT("output") unsigned char *output(void) { return out_bytes; }
EXPORT("reset_output") void reset_output(void) { out_length = 0; }

static int grow(void) {
    size_t room = out_room ? out_room * 2 : OUTPUT_BYTES_FIRST;
    if (room > OUTPUT_BYTES_MAX) return FULL;
    if (out_bytes && (uintptr_t)out_bytes + out_room == heap_end) {
        if (!reserve((uintptr_t)out_bytes + room)) return NO_MEMORY;
        heap_end = (uintptr_t)out_bytes + room;
        head_of(out_bytes)->room = room;
    } else {
        unsigned char *bytes = malloc(room);
        if (!bytes) return NO_MEMORY;
        memcpy(bytes, out_bytes, out_length);
        free(out_bytes);
        out_bytes = bytes;
    }
    out_room = room;
    return 0;
}

EXPORT("alloc") void *alloc(size_t size) { return malloc(size); }

EXPORT("zstd_start") int zstd_start(const void *dictionary, size_t size) {
    zstd = ZSTD_createDCtx();
    if (!zstd) return NO_MEMORY;
    ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    if (size && ZSTD_isError(ZSTD_DCtx_loadDictionary_byReference(zstd, dictionary, size))) return BROKEN;
    return grow();
}

EXPORT("zstd_push") int zstd_push(size_t size) {
    ZSTD_inBuffer in = { in_bytes, size, 0 };
    for (;;) {
        ZSTD_outBuffer out = { out_bytes, out_room, out_length };
        size_t result = ZSTD_decompressStream(zstd, &out, &in);
        out_length = out.pos;
        if (ZSTD_isError(result)) return BROKEN;
        if (out_length < out_room) {
            if (in.pos == in.size) return (int)out_length;
        } else {
            int error = grow();
            if (error) return error;
        }
    }
}

EXPORT("zlib_start") int zlib_start(void) {
    if (inflateInit2(&zlib, 15) != Z_OK) return NO_MEMORY;
    return grow();
}

EXPORT("zlib_push") int zlib_push(size_t size) {
    zlib.next_in = in_bytes;
    zlib.avail_in = (uInt)size;
    for (;;) {
        zlib.next_out = out_bytes + out_length;
        zlib.avail_out = (uInt)(out_room - out_length);
        int result = inflate(&zlib, Z_SYNC_FLUSH);
        out_length = out_room - zlib.avail_out;
        if (result == Z_STREAM_END) return zlib.avail_in ? BROKEN : (int)out_length;
        if (result != Z_OK && result != Z_BUF_ERROR) return BROKEN;
        if (zlib.avail_out) {
            if (!zlib.avail_in) return (int)out_length;
            if (result == Z_BUF_ERROR) return BROKEN;
        } else {
            int error = grow();
            if (error) return error;
        }
    }
}
