//! Dictionaries: properties of ids, and streams that refer to one, read by libzstd and by ruzstd.

use guildhall_codec::{
    CodecError, Dictionary, DictionaryId, StreamCompressor, StreamDecompressor, Training, ZstdParams,
};
use proptest::prelude::*;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::{io::Read as _, sync::Arc};

const MESSAGE_BYTES_MAX: usize = 1 << 20;

fn message(n: u64, text: &str) -> Vec<u8> {
    let name = ["MESSAGE_CREATE", "TYPING_START", "PRESENCE_UPDATE"][(n % 3) as usize];
    let id = 1_100_000_000_000_000_000 + n.wrapping_mul(7_919_777) % 1_000_000_000_000;
    format!(
        r#"{{"t":"{name}","s":{n},"op":0,"d":{{"id":"{id}","channel_id":"{}","author":{{"id":"{}","username":"user{}","discriminator":"0","global_name":null,"avatar":null,"public_flags":0}},"content":"{text}","timestamp":"2026-11-02T12:00:{:02}.123000+00:00","edited_timestamp":null,"tts":false,"mention_everyone":false,"mentions":[],"attachments":[],"embeds":[]}}}}"#,
        id / 7, id / 11, n % 40, n % 60,
    )
    .into_bytes()
}

fn samples(seed: u64) -> Vec<Vec<u8>> {
    let words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett"];
    let word = |n: u64| words[(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % words.len()];
    (0..1500).map(|n| message(seed + n, &format!("{} {} {}", word(n), word(n + seed), word(n * 3)))).collect()
}

/// Made once: it takes a second.
fn dictionary() -> Arc<Dictionary> {
    static MADE: std::sync::OnceLock<Arc<Dictionary>> = std::sync::OnceLock::new();
    MADE.get_or_init(|| Arc::new(Dictionary::train(&samples(1), 16 << 10).unwrap())).clone()
}

fn compressor() -> StreamCompressor {
    StreamCompressor::zstd_with(ZstdParams::default(), dictionary()).unwrap()
}

/// The trap: a server that comes back with another dictionary under the same id corrupts every stream. Here other bytes
/// have another id, and bytes that were tampered with are no dictionary.
#[test]
fn d1_trap_8_an_id_is_its_content() {
    let made = dictionary();
    assert_eq!(made.id(), DictionaryId::of(made.bytes()));
    let loaded = Dictionary::new(made.bytes().clone()).unwrap();
    assert_eq!((loaded.id(), loaded.number()), (made.id(), made.number()));
    let other = Dictionary::train(&samples(99), 16 << 10).unwrap();
    assert_ne!((other.id(), other.number()), (made.id(), made.number()));
    let again = Dictionary::train(&samples(1), 16 << 10).unwrap();
    assert_eq!(again.id(), made.id());
    for at in [4, 7, 200, made.bytes().len() - 1] {
        let mut changed = made.bytes().to_vec();
        changed[at] ^= 1;
        assert_ne!(DictionaryId::of(&changed), made.id());
        let error = Dictionary::new(changed).unwrap_err();
        assert!(matches!(error, CodecError::Dictionary { .. }), "byte {at}: {error}");
    }
    for bytes in [&b""[..], b"no dictionary at all", &made.bytes()[..20]] {
        assert!(matches!(Dictionary::new(bytes.to_vec()), Err(CodecError::Dictionary { .. })));
    }
    assert!(Dictionary::new(vec![0; 2 << 20]).unwrap_err().to_string().contains("1 MiB"));
    assert!(matches!(Dictionary::train(&[b"too few"], 16 << 10), Err(CodecError::Dictionary { .. })));
    assert!(matches!(Dictionary::train(&samples(1), 10), Err(CodecError::Param { .. })));
}

#[test]
fn ids_are_text_of_one_spelling() {
    let id = dictionary().id();
    let text = id.to_string();
    assert_eq!((text.len(), text.parse()), (32, Ok(id)));
    for wrong in ["", "0", &text[1..], &text.to_uppercase(), &format!("{text}0"), &text.replace(&text[..1], "g")] {
        // All digits: upper case is the same text.
        assert!(wrong == text || wrong.parse::<DictionaryId>().is_err(), "{wrong}");
    }
}

/// The decoder of a client with another dictionary reports it; it never returns other text.
#[test]
fn d2_the_wrong_dictionary_is_noticed() {
    let mut wire = Vec::new();
    compressor().compress(&[&message(1, "hello")], &mut wire).unwrap();
    let other = Dictionary::train(&samples(99), 16 << 10).unwrap();
    let (mut with_other, mut without) =
        (StreamDecompressor::zstd_with(18, &other).unwrap(), StreamDecompressor::zstd(18).unwrap());
    for reader in [&mut with_other, &mut without] {
        let mut out = Vec::new();
        assert!(reader.decompress(&wire, &mut out, MESSAGE_BYTES_MAX).is_err());
        assert!(out.is_empty());
    }
}

#[test]
fn d3_one_digested_form_for_all_contexts() {
    let dictionary = Arc::new(Dictionary::train(&samples(5), 16 << 10).unwrap());
    let digested = dictionary.digested_bytes();
    assert!(digested > 0);
    let mut without = StreamCompressor::zstd(ZstdParams::default()).unwrap();
    without.compress(&[b"x"], &mut Vec::new()).unwrap();
    let mut all = Vec::new();
    for n in 0..20 {
        let mut with = StreamCompressor::zstd_with(ZstdParams::default(), dictionary.clone()).unwrap();
        assert_eq!(with.memory_bytes(), 0);
        with.compress(&[&message(n, "hello")], &mut Vec::new()).unwrap();
        // The context is no larger for having a dictionary.
        let (with_bytes, without_bytes) = (with.memory_bytes(), without.memory_bytes());
        assert!(with_bytes.abs_diff(without_bytes) * 20 < without_bytes, "{with_bytes} and {without_bytes}");
        all.push(with);
    }
    assert_eq!(dictionary.digested_bytes(), digested);
    // Other parameters have another form, once.
    let smaller = ZstdParams { window_log: 17, hash_log: 14, chain_log: 14, ..ZstdParams::default() };
    for _ in 0..2 {
        let mut with = StreamCompressor::zstd_with(smaller, dictionary.clone()).unwrap();
        with.compress(&[b"x"], &mut Vec::new()).unwrap();
    }
    let both = dictionary.digested_bytes();
    assert!(both > digested && both < 2 * digested, "{both} and {digested}");
}

#[test]
fn the_first_messages_are_shorter() {
    let (mut with, mut without) = (compressor(), StreamCompressor::zstd(ZstdParams::default()).unwrap());
    let (mut with_wire, mut without_wire) = (Vec::new(), Vec::new());
    for n in 5000..5010 {
        with.compress(&[&message(n, "something that was never said")], &mut with_wire).unwrap();
        without.compress(&[&message(n, "something that was never said")], &mut without_wire).unwrap();
    }
    assert!(with_wire.len() * 10 < without_wire.len() * 8, "{} and {}", with_wire.len(), without_wire.len());
}

/// zstd sizes its tables by the dictionary, unless the expected length is set.
#[test]
fn a_short_dictionary_does_not_spoil_a_long_stream() {
    let short = Arc::new(Dictionary::train(&samples(1), 2 << 10).unwrap());
    let params = ZstdParams { level: 12, window_log: 20, chain_log: 18, hash_log: 18, ..ZstdParams::default() };
    let mut with = StreamCompressor::zstd_with(params, short.clone()).unwrap();
    let mut without = StreamCompressor::zstd(params).unwrap();
    let (mut with_bytes, mut without_bytes) = (0, 0);
    for n in 0..4000_u64 {
        // Texts that come again after some hundred kilobytes.
        let text: String = (0..12).map(|word| format!("{:x} ", (n % 700 + 3) * 0x9E37_79B9 * (word + 1))).collect();
        for (writer, bytes) in [(&mut with, &mut with_bytes), (&mut without, &mut without_bytes)] {
            let mut wire = Vec::new();
            writer.compress(&[&message(n, &text)], &mut wire).unwrap();
            *bytes += wire.len();
        }
    }
    assert!(with_bytes <= without_bytes * 101 / 100, "{with_bytes} and {without_bytes}");
    assert!(short.digested_bytes() > 1 << 20, "{}", short.digested_bytes());
}

/// HELLO is stored where there is no dictionary; here it must not be, or the dictionary would lie elsewhere.
#[test]
fn storing_first_does_not_shift_the_dictionary() {
    let (mut writer, mut reader) = (compressor(), StreamDecompressor::zstd_with(18, &dictionary()).unwrap());
    let (mut wire, mut out) = (Vec::new(), Vec::new());
    writer.store(br#"{"t":null,"s":null,"op":10,"d":{"heartbeat_interval":41250}}"#, &mut wire).unwrap();
    writer.store(b"", &mut wire).unwrap();
    writer.compress(&[&message(1, "hello"), &message(2, "there")], &mut wire).unwrap();
    reader.decompress(&wire, &mut out, MESSAGE_BYTES_MAX).unwrap();
    assert!(out.ends_with(&message(2, "there")));
}

#[test]
fn large_messages_and_levels() {
    for params in [
        ZstdParams::default(),
        ZstdParams { level: 19, window_log: 20, chain_log: 20, hash_log: 18, block_bytes_max: 128 << 10 },
        ZstdParams { level: 1, window_log: 17, chain_log: 14, hash_log: 14, block_bytes_max: 4 << 10 },
        ZstdParams { level: -5, window_log: 10, chain_log: 6, hash_log: 6, block_bytes_max: 1 << 10 },
    ] {
        let mut writer = StreamCompressor::zstd_with(params, dictionary()).unwrap();
        let mut reader = StreamDecompressor::zstd_with(params.window_log, &dictionary()).unwrap();
        for n in 0..40 {
            let text = "lorem ipsum dolor ".repeat(if n % 9 == 4 { 40_000 } else { n });
            let sent = message(n as u64, &text);
            let (mut wire, mut out) = (Vec::new(), Vec::new());
            writer.compress(&[&sent], &mut wire).unwrap();
            reader.decompress(&wire, &mut out, 4 << 20).unwrap();
            assert!(out == sent, "{params:?}, message {n}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Past the window too, where the dictionary is out of reach.
    #[test]
    fn independent_readers_read_it(
        messages in prop::collection::vec((0u64..10_000, "\\PC{0,200}", 1usize..20), 1..40),
        step in 1usize..3_000,
    ) {
        let mut writer = compressor();
        let (mut wire, mut whole) = (Vec::new(), Vec::new());
        for (n, text, times) in &messages {
            let message = message(*n, &text.replace(['"', '\\'], "").repeat(*times));
            writer.compress(&[&message], &mut wire).unwrap();
            whole.extend_from_slice(&message);
        }
        let mut reader = StreamDecompressor::zstd_with(18, &dictionary()).unwrap();
        let mut out = Vec::new();
        for chunk in wire.chunks(step) {
            reader.decompress(chunk, &mut out, MESSAGE_BYTES_MAX).unwrap();
        }
        prop_assert!(out == whole);

        // ruzstd wants an end.
        wire.extend_from_slice(&[1, 0, 0]);
        let mut decoder = FrameDecoder::new();
        decoder.add_dict(ruzstd::decoding::Dictionary::decode_dict(dictionary().bytes()).unwrap()).unwrap();
        let mut out = Vec::new();
        StreamingDecoder::new_with_decoder(wire.as_slice(), decoder).unwrap().read_to_end(&mut out).unwrap();
        prop_assert!(out == whole);
    }
}

#[test]
fn both_ways_of_training_make_dictionaries_that_streams_use() {
    let samples: Vec<Vec<u8>> = (0..2_000_u32)
        .map(|n| {
            format!("{{\"t\":\"MESSAGE_CREATE\",\"author\":{{\"id\":\"{}\"}},\"n\":{n}}}", n % 17 * 7_919).into_bytes()
        })
        .collect();
    for by in [Training::FastCover, Training::Cover] {
        let dictionary = Arc::new(Dictionary::train_by(by, &samples, 4 << 10).unwrap());
        assert!(dictionary.bytes().len() <= 4 << 10, "{by:?}");
        let mut out = Vec::new();
        let mut stream = StreamCompressor::zstd_with(ZstdParams::default(), dictionary.clone()).unwrap();
        stream.compress(&[&samples[3]], &mut out).unwrap();
        let mut plain = Vec::new();
        StreamCompressor::zstd(ZstdParams::default()).unwrap().compress(&[&samples[3]], &mut plain).unwrap();
        assert!(out.len() < plain.len(), "{by:?}: {} and {} bytes", out.len(), plain.len());
        let mut read = Vec::new();
        let mut reader = StreamDecompressor::zstd_with(18, &dictionary).unwrap();
        reader.decompress(&out, &mut read, 1 << 20).unwrap();
        assert_eq!(read, samples[3]);
        assert!(Dictionary::train_by(by, &samples[..1], 4 << 10).is_err(), "{by:?}: one sample");
    }
}
