/*
 * Compressors of the meter, for WebAssembly: zstd and zlib, from their C libraries, as the node's classic streams use them.
 *
 * Doors       `input` is where the caller writes up to INPUT_BYTES; `zstd_push` and `zlib_push` compress them, flush if it is
 *             the end of a message, and return the bytes that came out, or -1. `alone_push` compresses each message without the
 *             others, as permessage-deflate without takeover does. `output` holds the bytes, if they are fewer than
 *             OUTPUT_BYTES: the meter wants their number only, its tests the bytes.
 * Invariants  one instance is one connection: its streams keep their history.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include "runtime.h"
#include "zlib.h"
#include "zstd.h"

#define INPUT_BYTES (64 << 10)
#define OUTPUT_BYTES (128 << 10)

/* Texts of zlib's errors: nobody reads them. */
z_const char *const z_errmsg[10] = { "", "", "", "", "", "", "", "", "", "" };

static unsigned char in_bytes[INPUT_BYTES];
static unsigned char out_bytes[OUTPUT_BYTES];
static ZSTD_CCtx *zstd;
static z_stream zlib, alone;

EXPORT("input") unsigned char *input(void) { return in_bytes; }
EXPORT("output") unsigned char *output(void) { return out_bytes; }

/* Level 6, a window of 2^18 bytes, tables of 2^16 entries, as `ZstdParams::default` of the crate codec; but the library's own blocks of
 * 128 KiB. */
EXPORT("start") int start(void) {
    zstd = ZSTD_createCCtx();
    if (!zstd) return -1;
    struct { ZSTD_cParameter name; int value; } params[] = {
        { ZSTD_c_compressionLevel, 6 }, { ZSTD_c_windowLog, 18 }, { ZSTD_c_chainLog, 16 }, { ZSTD_c_hashLog, 16 },
        { ZSTD_c_useRowMatchFinder, ZSTD_ps_enable },
        { ZSTD_c_enableLongDistanceMatching, ZSTD_ps_disable }, { ZSTD_c_contentSizeFlag, 0 }, { ZSTD_c_checksumFlag, 0 },
        { ZSTD_c_dictIDFlag, 0 },
    };
    for (unsigned i = 0; i < sizeof params / sizeof *params; i++) {
        if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd, params[i].name, params[i].value))) return -1;
    }
    if (deflateInit2(&zlib, 6, Z_DEFLATED, 15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return -1;
    return deflateInit2(&alone, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK ? 0 : -1;
}

EXPORT("zstd_push") int zstd_push(size_t size, int is_last) {
    ZSTD_inBuffer in = { in_bytes, size, 0 };
    int length = 0;
    for (;;) {
        ZSTD_outBuffer out = { out_bytes, OUTPUT_BYTES, 0 };
        size_t left = ZSTD_compressStream2(zstd, &out, &in, is_last ? ZSTD_e_flush : ZSTD_e_continue);
        if (ZSTD_isError(left)) return -1;
        length += (int)out.pos;
        if (in.pos == in.size && (!is_last || left == 0)) return length;
    }
}

static int deflate_push(z_stream *stream, size_t size, int flush) {
    int length = 0;
    stream->next_in = in_bytes;
    stream->avail_in = (uInt)size;
    for (;;) {
        stream->next_out = out_bytes;
        stream->avail_out = OUTPUT_BYTES;
        int result = deflate(stream, flush);
        if (result != Z_OK && result != Z_BUF_ERROR) return -1;
        length += OUTPUT_BYTES - (int)stream->avail_out;
        if (stream->avail_out) return length;
    }
}

EXPORT("zlib_push") int zlib_push(size_t size, int is_last) {
    return deflate_push(&zlib, size, is_last ? Z_SYNC_FLUSH : Z_NO_FLUSH);
}

/* A full flush forgets the history. */
EXPORT("alone_push") int alone_push(size_t size, int is_last) {
    return deflate_push(&alone, size, is_last ? Z_FULL_FLUSH : Z_NO_FLUSH);
}
