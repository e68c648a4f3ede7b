/*
 * Runtime of the C libraries in WebAssembly: the memory of an instance, and what else they use of libc.
 *
 * Invariants  an instance serves one connection, and its memory goes with it. One freed block is kept for the next one,
 *             the largest: zstd frees a buffer only to take another of its kind. Other freed blocks are lost.
 * Limits      BLOCK_BYTES_MAX for one block; the module's maximum of memory for all, then NULL.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define BLOCK_BYTES_MAX (64u << 20)

/* Makes a block larger where it is. Returns 0 if another one is behind it, -1 if there is no memory. */
int extend(void *at, size_t size);
