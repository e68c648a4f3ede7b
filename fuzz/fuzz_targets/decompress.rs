//! Any bytes as a compressed stream, in any pieces.
//!
//! Input       one byte: zlib or zstd, and how the rest is cut; then the stream.
//! Oracle      no panic, no more output than the limit, and no output after an error.
// max_len: 4096
#![no_main]

use guildhall_codec::{StreamDecompressor, inflate_once};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 64 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((control, stream)) = data.split_first() else { return };
    let mut out = Vec::new();
    let _ = inflate_once(stream, &mut out, BYTES_MAX);
    assert!(out.len() <= BYTES_MAX);

    let decompressor = if control & 1 == 0 { StreamDecompressor::zlib() } else { StreamDecompressor::zstd(18) };
    let mut decompressor = decompressor.expect("a fresh stream");
    let piece = usize::from(control >> 1) + 1;
    let mut is_broken = false;
    for chunk in stream.chunks(piece) {
        let mut out = Vec::new();
        let result = decompressor.decompress(chunk, &mut out, BYTES_MAX);
        assert!(out.len() <= BYTES_MAX);
        assert!(result.is_ok() || out.is_empty());
        assert!(!is_broken || result.is_err());
        is_broken |= result.is_err();
    }
});
