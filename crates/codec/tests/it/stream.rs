//! Streams: every message must come out whole at its own flush, through decoders that are not the encoder's library.

use std::io::Read as _;

use flate2::{Decompress, FlushDecompress};
use guildhall_codec::{
    CodecError, StreamCompressor, StreamDecompressor, ZlibParams, ZstdParams, deflate_once, inflate_once,
};
use proptest::prelude::*;

const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Bytes no compressor can shorten.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    bytes.take(length).collect()
}

fn chat(author: u64, content: &str) -> Vec<u8> {
    let id = 1_100_000_000_000_000_000 + author * 7_919;
    format!(
        r#"{{"t":"MESSAGE_CREATE","s":{author},"op":0,"d":{{"id":"{id}","channel_id":"1100000000000000010","author":{{"id":"{author}","username":"user{author}","avatar":null}},"content":"{content}","timestamp":"2024-05-01T12:00:00.123000+00:00","mentions":[],"tts":false}}}}"#
    )
    .into_bytes()
}

/// One message and where it is cut into parts.
fn message() -> impl Strategy<Value = (Vec<u8>, Vec<prop::sample::Index>)> {
    let bytes = prop_oneof![
        6 => (0u64..1_000, "[ -!#-~]{0,200}").prop_map(|(author, content)| chat(author, &content)),
        2 => (0u64..1_000, "\\PC{0,80}").prop_map(|(author, content)| chat(author, &content)),
        2 => any::<u8>().prop_map(|byte| vec![byte]),
        2 => Just(Vec::new()),
        1 => any::<u64>().prop_map(|seed| noise(seed, 300_000)),
        1 => (any::<u64>(), 0usize..5_000).prop_map(|(seed, length)| noise(seed, length)),
        1 => (0usize..200_000).prop_map(|length| vec![b'a'; length]),
    ];
    (bytes, prop::collection::vec(any::<prop::sample::Index>(), 0..4))
}

fn cut<'a>(message: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(message.len() + 1)).collect();
    ends.push(message.len());
    ends.sort_unstable();
    let mut start = 0;
    let cut_to = |end| &message[std::mem::replace(&mut start, end)..end];
    ends.into_iter().map(cut_to).collect()
}

/// Feeds `stream` to miniz_oxide and returns its output.
fn miniz(decoder: &mut Decompress, mut stream: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        out.reserve(32 << 10);
        let before = decoder.total_in();
        decoder.decompress_vec(stream, &mut out, FlushDecompress::Sync).unwrap();
        stream = &stream[(decoder.total_in() - before) as usize..];
        if stream.is_empty() && out.len() < out.capacity() {
            return out;
        }
    }
}

fn zlib_params() -> impl Strategy<Value = ZlibParams> {
    prop_oneof![
        Just(ZlibParams::default()),
        (0u8..=9, 9u8..=15, 1u8..=9).prop_map(|(level, window_bits, mem_level)| ZlibParams {
            level,
            window_bits,
            mem_level
        }),
    ]
}

fn zstd_params() -> impl Strategy<Value = ZstdParams> {
    let any = (-7i32..=12, 10u32..=18, 6u32..=16, 6u32..=16, 1024u32..=(128 << 10));
    let any = any.prop_map(|(level, window_log, chain_log, hash_log, block_bytes_max)| ZstdParams {
        level,
        window_log,
        chain_log,
        hash_log,
        block_bytes_max,
    });
    prop_oneof![Just(ZstdParams::default()), any]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn z1_zlib_messages_decode_one_by_one(
        params in zlib_params(),
        messages in prop::collection::vec(message(), 1..30),
        stored_count in 0usize..4,
    ) {
        let mut compressor = StreamCompressor::zlib(params).unwrap();
        let mut ours = StreamDecompressor::zlib().unwrap();
        let mut theirs = Decompress::new(true);
        for (index, (message, cuts)) in messages.iter().enumerate() {
            let mut wire = b"kept".to_vec();
            if index < stored_count {
                compressor.store(message, &mut wire).unwrap();
                prop_assert_eq!(compressor.memory_bytes(), 0);
            } else {
                compressor.compress(&cut(message, cuts), &mut wire).unwrap();
            }
            let wire = &wire[4..];
            prop_assert!(wire.ends_with(&[0, 0, 0xff, 0xff]));
            if index == 0 {
                prop_assert_eq!(wire[0], 0x08 | (params.window_bits - 8) << 4);
                prop_assert_eq!(u16::from_be_bytes([wire[0], wire[1]]) % 31, 0);
            }
            prop_assert!(miniz(&mut theirs, wire) == *message);
            let mut out = b"kept".to_vec();
            ours.decompress(wire, &mut out, message.len()).unwrap();
            prop_assert!(out[4..] == *message);
        }
    }

    #[test]
    fn zstd_messages_decode_one_by_one(
        params in zstd_params(),
        messages in prop::collection::vec(message(), 1..30),
        stored_count in 0usize..4,
    ) {
        let mut compressor = StreamCompressor::zstd(params).unwrap();
        let mut decompressor = StreamDecompressor::zstd(params.window_log).unwrap();
        let mut stream = Vec::new();
        for (index, (message, cuts)) in messages.iter().enumerate() {
            let mut wire = b"kept".to_vec();
            if index < stored_count {
                compressor.store(message, &mut wire).unwrap();
                prop_assert_eq!(compressor.memory_bytes(), 0);
            } else {
                compressor.compress(&cut(message, cuts), &mut wire).unwrap();
            }
            let wire = &wire[4..];
            let mut out = b"kept".to_vec();
            decompressor.decompress(wire, &mut out, message.len()).unwrap();
            prop_assert!(out[4..] == *message);
            stream.extend_from_slice(wire);
        }
        // An independent decoder cannot deliver at a flush, but it can read the whole once an empty last block is
        // added.
        let whole: Vec<u8> = messages.iter().flat_map(|(message, _)| message.clone()).collect();
        if !whole.is_empty() {
            stream.extend_from_slice(&[1, 0, 0]);
            let mut out = Vec::new();
            ruzstd::decoding::StreamingDecoder::new(stream.as_slice())
                .unwrap()
                .read_to_end(&mut out)
                .unwrap();
            prop_assert!(out == whole);
        }
    }

    #[test]
    fn chunks_need_not_be_messages(messages in prop::collection::vec(message(), 1..8), step in 1usize..4_000) {
        for kind in [0, 1] {
            let (mut compressor, mut decompressor) = pair(kind);
            let mut wire = Vec::new();
            for (message, cuts) in &messages {
                compressor.compress(&cut(message, cuts), &mut wire).unwrap();
            }
            let mut out = Vec::new();
            for chunk in wire.chunks(step) {
                decompressor.decompress(chunk, &mut out, MESSAGE_BYTES_MAX).unwrap();
            }
            let whole: Vec<u8> = messages.iter().flat_map(|(message, _)| message.clone()).collect();
            prop_assert!(out == whole);
        }
    }

    #[test]
    fn payload_compression_is_one_whole_stream((message, _) in message()) {
        let mut wire = b"kept".to_vec();
        deflate_once(&message, &mut wire).unwrap();
        let wire = &wire[4..];
        let mut theirs = Vec::new();
        flate2::read::ZlibDecoder::new(wire).read_to_end(&mut theirs).unwrap();
        prop_assert!(theirs == message);
        let mut out = Vec::new();
        inflate_once(wire, &mut out, message.len()).unwrap();
        prop_assert!(out == message);

        let mut theirs = Vec::new();
        flate2::read::ZlibEncoder::new(message.as_slice(), flate2::Compression::new(6))
            .read_to_end(&mut theirs)
            .unwrap();
        out.clear();
        inflate_once(&theirs, &mut out, MESSAGE_BYTES_MAX).unwrap();
        prop_assert!(out == message);
    }

    #[test]
    fn nonsense_is_an_error_or_bounded(bytes in prop::collection::vec(any::<u8>(), 0..400), damage in any::<prop::sample::Index>()) {
        for kind in [0, 1] {
            let (mut compressor, mut decompressor) = pair(kind);
            let mut out = Vec::new();
            let _ = decompressor.decompress(&bytes, &mut out, 1_000);
            prop_assert!(out.len() <= 1_000);

            let (_, mut decompressor) = pair(kind);
            let mut wire = Vec::new();
            compressor.compress(&[&chat(1, "hello hello hello")], &mut wire).unwrap();
            let at = damage.index(wire.len());
            wire[at] ^= bytes.first().copied().unwrap_or(1);
            out.clear();
            let _ = decompressor.decompress(&wire, &mut out, 1_000);
            prop_assert!(out.len() <= 1_000);
        }
        let mut out = Vec::new();
        let _ = inflate_once(&bytes, &mut out, 1_000);
        prop_assert!(out.len() <= 1_000);
    }
}

fn pair(kind: u8) -> (StreamCompressor, StreamDecompressor) {
    match kind {
        0 => (StreamCompressor::zlib(ZlibParams::default()).unwrap(), StreamDecompressor::zlib().unwrap()),
        _ => (StreamCompressor::zstd(ZstdParams::default()).unwrap(), StreamDecompressor::zstd(18).unwrap()),
    }
}

#[test]
fn streaming_really_streams() {
    for kind in [0, 1] {
        let (mut compressor, _) = pair(kind);
        let message = chat(5, &String::from_utf8_lossy(&noise(9, 600)).escape_default().to_string());
        let mut sizes = Vec::new();
        for _ in 0..3 {
            let mut wire = Vec::new();
            compressor.compress(&[&message], &mut wire).unwrap();
            sizes.push(wire.len());
        }
        assert!(sizes[0] > 500, "{sizes:?}");
        assert!(sizes[1] < sizes[0] / 8 && sizes[2] < sizes[0] / 8, "{sizes:?}");
    }
}

#[test]
fn a_long_life_passes_the_window_many_times() {
    for kind in [0, 1] {
        let (mut compressor, mut decompressor) = pair(kind);
        let (mut wire, mut out) = (Vec::new(), Vec::new());
        for index in 0..4_000 {
            let message = chat(index, &String::from_utf8_lossy(&noise(index, 200)).escape_default().to_string());
            wire.clear();
            out.clear();
            compressor.compress(&[&message], &mut wire).unwrap();
            decompressor.decompress(&wire, &mut out, MESSAGE_BYTES_MAX).unwrap();
            assert!(out == message);
        }
    }
}

#[test]
fn the_zstd_frame_header_comes_once_and_says_little() {
    let mut compressor = StreamCompressor::zstd(ZstdParams::default()).unwrap();
    let mut wire = Vec::new();
    compressor.compress(&[b"hello ", b"", b"world"], &mut wire).unwrap();
    // Magic; no content size, checksum or dictionary id; window 2^18.
    assert_eq!(wire[..6], [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x40]);
    let first_bytes = wire.len();
    compressor.compress(&[b"hello world"], &mut wire).unwrap();
    assert!(!wire[first_bytes..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    let before = wire.len();
    compressor.compress(&[], &mut wire).unwrap();
    compressor.compress(&[b"", b""], &mut wire).unwrap();
    assert_eq!(wire.len(), before);
}

#[test]
fn empty_zlib_messages_still_end_in_a_marker() {
    let mut compressor = StreamCompressor::zlib(ZlibParams::default()).unwrap();
    let mut decoder = Decompress::new(true);
    for message in [&b""[..], b"", b"x", b"", b"", b"x"] {
        let mut wire = Vec::new();
        compressor.compress(&[message], &mut wire).unwrap();
        assert!(wire.ends_with(&[0, 0, 0xff, 0xff]), "{wire:?}");
        assert_eq!(miniz(&mut decoder, &wire), message);
    }
}

#[test]
fn output_is_bounded_and_a_broken_stream_stays_broken() {
    for kind in [0, 1] {
        let bomb = vec![b'a'; 1_000_000];
        let (mut compressor, mut decompressor) = pair(kind);
        let mut wire = Vec::new();
        compressor.compress(&[&bomb], &mut wire).unwrap();
        assert!(wire.len() < 20_000);

        let mut out = b"kept".to_vec();
        decompressor.decompress(&wire, &mut out, bomb.len()).unwrap();
        assert_eq!(out.len(), 4 + bomb.len());

        for bytes_max in [0, 1, 999, 999_999] {
            let (_, mut decompressor) = pair(kind);
            let mut out = b"kept".to_vec();
            let error = decompressor.decompress(&wire, &mut out, bytes_max).unwrap_err();
            assert!(matches!(error, CodecError::TooLarge { bytes_max: max } if max == bytes_max));
            assert_eq!(out, b"kept");
            // Allocations are bounded by the limit, not by the bomb.
            assert!(out.capacity() < 2 * bytes_max + (64 << 10));
            let error = decompressor.decompress(b"", &mut out, MESSAGE_BYTES_MAX).unwrap_err();
            assert!(matches!(error, CodecError::Broken));
        }
    }
    let mut wire = Vec::new();
    deflate_once(&vec![0; 100_000], &mut wire).unwrap();
    let mut out = b"kept".to_vec();
    assert!(matches!(inflate_once(&wire, &mut out, 99_999), Err(CodecError::TooLarge { .. })));
    assert_eq!(out, b"kept");
    inflate_once(&wire, &mut out, 100_000).unwrap();
}

#[test]
fn a_stream_that_ends_is_corrupt() {
    let mut wire = Vec::new();
    deflate_once(b"whole", &mut wire).unwrap();
    let mut out = Vec::new();
    let mut decompressor = StreamDecompressor::zlib().unwrap();
    assert!(matches!(decompressor.decompress(&wire, &mut out, 100), Err(CodecError::Corrupt)));

    let mut frame = Vec::with_capacity(100);
    zstd_safe::compress(&mut frame, b"whole", 3).unwrap();
    let mut decompressor = StreamDecompressor::zstd(27).unwrap();
    assert!(matches!(decompressor.decompress(&frame, &mut out, 100), Err(CodecError::Corrupt)));

    let half = &wire[..wire.len() - 1];
    assert!(matches!(inflate_once(half, &mut out, 100), Err(CodecError::Corrupt)));
    let more = [&wire, &b"x"[..]].concat();
    assert!(matches!(inflate_once(&more, &mut out, 100), Err(CodecError::Corrupt)));
    assert!(out.is_empty());
}

#[test]
fn a_reader_bounds_the_window_of_a_stream() {
    let params = ZstdParams { window_log: 20, ..ZstdParams::default() };
    let mut compressor = StreamCompressor::zstd(params).unwrap();
    let mut wire = Vec::new();
    compressor.compress(&[b"hello"], &mut wire).unwrap();
    let mut out = Vec::new();
    let mut narrow = StreamDecompressor::zstd(19).unwrap();
    assert!(matches!(narrow.decompress(&wire, &mut out, 100), Err(CodecError::Zstd { .. })));
    let mut wide = StreamDecompressor::zstd(20).unwrap();
    wide.decompress(&wire, &mut out, 100).unwrap();
    assert_eq!(out, b"hello");
}

#[test]
fn parameters_are_checked() {
    #[track_caller]
    fn refuses(result: Result<StreamCompressor, CodecError>, param: &str) {
        let error = result.unwrap_err();
        assert!(matches!(error, CodecError::Param { name, .. } if name == param), "{error}");
    }
    let zlib = ZlibParams::default();
    refuses(StreamCompressor::zlib(ZlibParams { level: 10, ..zlib }), "zlib level");
    for window_bits in [0, 8, 16, 31] {
        refuses(StreamCompressor::zlib(ZlibParams { window_bits, ..zlib }), "zlib window_bits");
    }
    for mem_level in [0, 10] {
        refuses(StreamCompressor::zlib(ZlibParams { mem_level, ..zlib }), "zlib mem_level");
    }
    let zstd = ZstdParams::default();
    for level in [-8, 23] {
        refuses(StreamCompressor::zstd(ZstdParams { level, ..zstd }), "zstd level");
    }
    for window_log in [9, 28] {
        refuses(StreamCompressor::zstd(ZstdParams { window_log, ..zstd }), "zstd window_log");
    }
    for log in [5, 29] {
        refuses(StreamCompressor::zstd(ZstdParams { chain_log: log, ..zstd }), "zstd chain_log");
        refuses(StreamCompressor::zstd(ZstdParams { hash_log: log, ..zstd }), "zstd hash_log");
    }
    for block_bytes_max in [0, 1_023, (128 << 10) + 1] {
        refuses(StreamCompressor::zstd(ZstdParams { block_bytes_max, ..zstd }), "zstd block_bytes_max");
    }
    assert!(StreamDecompressor::zstd(28).is_err());
    // The ends of every range are usable.
    for zlib in
        [ZlibParams { level: 0, window_bits: 9, mem_level: 1 }, ZlibParams { level: 9, window_bits: 15, mem_level: 9 }]
    {
        StreamCompressor::zlib(zlib).unwrap();
    }
    for (level, log, block_bytes_max) in [(-7, 10, 1 << 10), (22, 27, 128 << 10)] {
        let params = ZstdParams { level, window_log: log, chain_log: 6, hash_log: 6, block_bytes_max };
        let mut wire = Vec::new();
        StreamCompressor::zstd(params).unwrap().compress(&[b"x"], &mut wire).unwrap();
    }
}

#[test]
fn memory_is_what_the_parameters_say() {
    let zlib = |window_bits, mem_level| {
        let params = ZlibParams { level: 6, window_bits, mem_level };
        let mut stream = StreamCompressor::zlib(params).unwrap();
        stream.store(&chat(1, "hello"), &mut Vec::new()).unwrap();
        assert_eq!(stream.memory_bytes(), 0);
        stream.compress(&[b"x"], &mut Vec::new()).unwrap();
        stream.memory_bytes()
    };
    for (window_bits, mem_level) in [(15, 8), (13, 5), (10, 3)] {
        let tables = (1 << (window_bits + 2)) + (1 << (mem_level + 9));
        let memory = zlib(window_bits, mem_level);
        // With its own state, in whole pages.
        assert!((tables..tables + 8_000 + 4_096).contains(&memory), "{memory} for {tables}");
    }
    let zstd = |block_bytes_max| {
        let params = ZstdParams { block_bytes_max, ..ZstdParams::default() };
        let mut stream = StreamCompressor::zstd(params).unwrap();
        stream.store(&chat(1, "hello"), &mut Vec::new()).unwrap();
        assert_eq!(stream.memory_bytes(), 0);
        stream.compress(&[&chat(1, "hello")], &mut Vec::new()).unwrap();
        let after_first = stream.memory_bytes();
        for author in 0..200 {
            stream.compress(&[&chat(author, "hello")], &mut Vec::new()).unwrap();
        }
        assert_eq!(stream.memory_bytes(), after_first);
        after_first
    };
    let (small_blocks, large_blocks) = (zstd(4 << 10), zstd(128 << 10));
    assert!(small_blocks < 700_000, "{small_blocks}");
    assert!(small_blocks * 2 < large_blocks, "{small_blocks} {large_blocks}");
    let mut decompressor = StreamDecompressor::zlib().unwrap();
    let before = decompressor.memory_bytes();
    let (mut compressor, _) = pair(0);
    let mut wire = Vec::new();
    compressor.compress(&[b"x"], &mut wire).unwrap();
    decompressor.decompress(&wire, &mut Vec::new(), 10).unwrap();
    assert!(decompressor.memory_bytes() >= before + (32 << 10));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn contexts_may_change_threads() {
    let (mut compressor, mut decompressor) = pair(0);
    let mut wire = Vec::new();
    compressor.compress(&[b"before "], &mut wire).unwrap();
    let wire = std::thread::spawn(move || {
        compressor.compress(&[b"after"], &mut wire).unwrap();
        wire
    })
    .join()
    .unwrap();
    let mut out = Vec::new();
    decompressor.decompress(&wire, &mut out, 100).unwrap();
    assert_eq!(out, b"before after");
}
