/*
 * Decompressors of one connection, for WebAssembly: zstd and zlib, from their C libraries.
 *
 * Doors       `input` is where the caller writes up to INPUT_BYTES; `zstd_push` and `zlib_push` decompress them behind what
 *             `output` holds already, and return the length of the output or a negative number. The caller sets the
 *             output back with `reset_output` before each message.
 * Invariants  one instance serves one stream. The output buffer is the last allocation once the stream has begun, and
 *             grows in place.
 * Limits      a window of 2^WINDOW_LOG_MAX bytes; output of OUTPUT_BYTES_MAX, then FULL; memory as `build` sets it, then
 *             NO_MEMORY or BROKEN.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include "runtime.h"
#include "zlib.h"
#include "zstd.h"

#define WINDOW_LOG_MAX 23
#define INPUT_BYTES (64 << 10)
#define OUTPUT_BYTES_FIRST (64 << 10)
#define OUTPUT_BYTES_MAX BLOCK_BYTES_MAX

enum { BROKEN = -1, FULL = -2, NO_MEMORY = -3 };

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
    int extended = out_bytes ? extend(out_bytes, room) : 0;
    if (extended < 0) return NO_MEMORY;
    if (!extended) {
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
