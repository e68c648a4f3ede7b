//! permessage-deflate message by message, through miniz_oxide and through our own reader. Trap 1 and 2 of the codec.

use flate2::{Decompress, FlushDecompress};
use guildhall_codec::{
    BodyDeflater, CodecError, DeflateCompressor, InflateHistory, MessageInflater, SharedWindow, ZlibParams,
};
use proptest::prelude::*;

const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Bytes no compressor can shorten.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    bytes.take(length).collect()
}

/// Text with repetitions near and far.
fn chat(seed: u64, length: usize) -> Vec<u8> {
    let words = ["guild ", "hall ", "{\"id\":\"", "1100000000000000010", "\",\"content\":\"", "zwölf Boxkämpfer ", "a"];
    let mut text = Vec::new();
    for byte in noise(seed, length) {
        text.extend_from_slice(words[usize::from(byte) % words.len()].as_bytes());
        if text.len() > length {
            break;
        }
    }
    text.truncate(length);
    text
}

/// A reader that knows nothing of ours: one raw stream for a whole connection, in steps of `step` bytes of output.
struct Reader {
    decoder: Decompress,
    step: usize,
}

impl Reader {
    fn new(step: usize) -> Self {
        Self { decoder: Decompress::new(false), step }
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        let whole = [payload, &TAIL].concat();
        let (mut input, mut out) = (&whole[..], Vec::new());
        loop {
            let mut piece = Vec::with_capacity(self.step);
            let before = self.decoder.total_in();
            self.decoder.decompress_vec(input, &mut piece, FlushDecompress::Sync).expect("it decodes");
            input = &input[(self.decoder.total_in() - before) as usize..];
            let is_full = piece.len() == piece.capacity();
            out.extend_from_slice(&piece);
            if input.is_empty() && !is_full {
                return out;
            }
        }
    }
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (any::<u64>(), 0usize..3_000).prop_map(|(seed, length)| chat(seed, length)),
        1 => (any::<u64>(), 0usize..80_000).prop_map(|(seed, length)| noise(seed, length)),
        1 => (0usize..200_000).prop_map(|length| vec![b'x'; length]),
        1 => Just(Vec::new()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any mix of messages that are compressed and messages that are sent as they are (trap 1): the window
    /// holds the former.
    #[test]
    fn trap_1_raw_messages_stay_out_of_the_window(
        messages in prop::collection::vec((message(), any::<bool>(), any::<bool>()), 1..20),
        bits in 8u8..=15,
        level in 0u8..=9,
        mem_level in 1u8..=9,
        step in 1usize..5_000,
    ) {
        let params = ZlibParams { level, window_bits: 15, mem_level };
        let mut gateway = DeflateCompressor::new(params, bits).unwrap();
        let mut theirs = Reader::new(step.max(8));
        let (mut ours, mut history) = (MessageInflater::new().unwrap(), InflateHistory::default());
        for (message, is_raw, is_cut) in messages {
            if is_raw {
                continue;
            }
            let (mut wire, mut read) = (Vec::new(), Vec::new());
            let cut = if is_cut { message.len() / 2 } else { 0 };
            gateway.compress(&[&message[..cut], &message[cut..]], &mut wire).unwrap();
            prop_assert!(!wire.is_empty());
            prop_assert_eq!(&theirs.message(&wire), &message);
            ours.inflate(&history, &wire, &mut read, MESSAGE_BYTES_MAX).unwrap();
            history.remember(&read, bits);
            prop_assert_eq!(&read, &message);
            prop_assert!(history.memory_bytes() <= 2 << bits);
        }
    }

    /// Self-contained messages, for windows of both sizes, in any order: no bytes of one are in the window of another.
    #[test]
    fn alone(messages in prop::collection::vec((message(), any::<bool>()), 1..12)) {
        let mut deflater = BodyDeflater::new(ZlibParams::default()).unwrap();
        let mut inflater = MessageInflater::new().unwrap();
        for (message, is_full) in messages {
            let window = if is_full { SharedWindow::Full } else { SharedWindow::Least };
            let (mut wire, mut read) = (Vec::new(), Vec::new());
            deflater.compress(window, &[&message], &mut wire).unwrap();
            prop_assert_eq!(&Reader::new(4096).message(&wire), &message);
            inflater.inflate(&InflateHistory::NONE, &wire, &mut read, message.len()).unwrap();
            prop_assert_eq!(&read, &message);
        }
    }

    /// For any client input, nothing panics and the output is bounded.
    #[test]
    fn trap_2_nonsense_is_bounded(payload in prop::collection::vec(any::<u8>(), 0..300), bytes_max in 0usize..2_000) {
        let mut inflater = MessageInflater::new().unwrap();
        let mut out = b"before".to_vec();
        match inflater.inflate(&InflateHistory::NONE, &payload, &mut out, bytes_max) {
            Ok(()) => prop_assert!(out.len() <= 6 + bytes_max),
            Err(_) => prop_assert_eq!(&out[..], b"before"),
        }
        prop_assert!(out.capacity() < 64 << 10);
    }
}

/// zlib has no window of 256 bytes. What we do instead must not look back further: read with a reader that has
/// forgotten everything older.
#[test]
fn trap_1_window_of_256_bytes() {
    for seed in 0..40 {
        for level in [1, 3, 6, 9] {
            let params = ZlibParams { level, window_bits: 15, mem_level: 8 };
            let mut gateway = DeflateCompressor::new(params, 8).unwrap();
            let (mut history, mut inflater) = (InflateHistory::default(), MessageInflater::new().unwrap());
            for message in 0..8 {
                // Each message is shorter than the window, so all of its past is in the history, which is cut at 256.
                let text = chat(seed * 8 + message, 200);
                let (mut wire, mut read) = (Vec::new(), Vec::new());
                gateway.compress(&[&text], &mut wire).unwrap();
                inflater.inflate(&history, &wire, &mut read, 200).unwrap();
                assert_eq!(read, text);
                history.remember(&read, 8);
                assert!(history.memory_bytes() <= 512, "{}", history.memory_bytes());
            }
        }
    }
    // And the other way round: what looks back further is found out by this reader.
    let mut gateway = DeflateCompressor::new(ZlibParams::default(), 9).unwrap();
    let (mut history, mut inflater) = (InflateHistory::default(), MessageInflater::new().unwrap());
    let old = noise(1, 200);
    let mut is_caught = false;
    for text in [old.clone(), noise(2, 20), old.clone(), noise(3, 240), old] {
        let (mut wire, mut read) = (Vec::new(), Vec::new());
        gateway.compress(&[&text], &mut wire).unwrap();
        is_caught |= inflater.inflate(&history, &wire, &mut read, 1000).is_err();
        history.remember(&text, 5);
    }
    assert!(is_caught);
}

/// `ws#68`: output space runs out when all input is taken already.
#[test]
fn trap_1_large_incompressible_messages_are_whole() {
    let mut gateway = DeflateCompressor::new(ZlibParams::default(), 15).unwrap();
    let mut reader = Reader::new(32 << 10);
    for length in [1, 63, 64, 65, 16_383, 16_384, 65_535, 65_536, 1 << 20, 3_000_001] {
        let message = noise(length as u64, length);
        let mut wire = Vec::new();
        gateway.compress(&[&message], &mut wire).unwrap();
        assert!(reader.message(&wire) == message, "{length} bytes");
    }
}

/// RFC 7692 §7.2.3: its examples, and what else a client may send.
#[test]
fn trap_1_examples_of_the_rfc_and_final_blocks() {
    let mut inflater = MessageInflater::new().unwrap();
    let mut history = InflateHistory::default();
    let mut check = |payload: &[u8], expected: &str| {
        let mut read = Vec::new();
        inflater.inflate(&history, payload, &mut read, 1000).unwrap_or_else(|error| panic!("{payload:02x?}: {error}"));
        assert_eq!(String::from_utf8_lossy(&read), expected, "{payload:02x?}");
        history.remember(&read, 15);
    };
    // One block; the same with takeover; stored; with a final block; two blocks; empty.
    check(&[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], "Hello");
    check(&[0xf2, 0x00, 0x11, 0x00, 0x00], "Hello");
    check(&[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00], "Hello");
    check(&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00], "Hello");
    check(&[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00], "Hello");
    check(&[0x00], "");
    check(&[], "");
    // A final block does not end what may be looked back at, nor the message; padding behind it may be missing.
    check(&[0xf3, 0x00, 0x11, 0x00, 0x00], "Hello");
    check(&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], "Hello");
    check(&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0xf2, 0x00, 0x11, 0x00, 0x00], "HelloHello");
}

#[test]
fn what_is_cut_off_or_nonsense_is_corrupt() {
    let mut inflater = MessageInflater::new().unwrap();
    for payload in [
        &[0xf2, 0x48, 0xcd][..],         // inside a block
        &[0xf2, 0x00, 0x11, 0x00, 0x00], // looks back at nothing
        &[0x00, 0x05, 0x00, 0xfa, 0xff], // a stored block without its bytes
        &[0x00, 0x05, 0x00, 0x00, 0x00], // lengths that disagree
        &[0x07],                         // a kind of block that does not exist
        &[0x78, 0x9c, 0xf3, 0x48],       // zlib's header
    ] {
        let mut out = Vec::new();
        let result = inflater.inflate(&InflateHistory::NONE, payload, &mut out, 1000);
        assert!(matches!(result, Err(CodecError::Corrupt)), "{payload:02x?}: {result:?} {out:02x?}");
        // The next message of another client is not harmed.
        inflater.inflate(&InflateHistory::NONE, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], &mut out, 5).unwrap();
        assert_eq!(out, b"Hello");
    }
}

/// Trap 2: what counts is what comes out, to the byte, and not what the last call left in zlib.
#[test]
fn trap_2_bombs() {
    let mut gateway = BodyDeflater::new(ZlibParams { level: 9, ..ZlibParams::default() }).unwrap();
    let mut inflater = MessageInflater::new().unwrap();
    for length in [1, 100, 4_096, 15_360, 65_536, 1 << 20, 64 << 20] {
        let (mut bomb, mut out) = (Vec::new(), Vec::new());
        gateway.compress(SharedWindow::Full, &[&vec![b' '; length]], &mut bomb).unwrap();
        for bytes_max in [0, length / 2, length - 1] {
            let result = inflater.inflate(&InflateHistory::NONE, &bomb, &mut out, bytes_max);
            assert!(matches!(result, Err(CodecError::TooLarge { .. })), "{length} with {bytes_max}: {result:?}");
            assert!(out.is_empty());
            assert!(out.capacity() <= 4 * bytes_max + (512 << 10), "{} for {bytes_max}", out.capacity());
        }
        inflater.inflate(&InflateHistory::NONE, &bomb, &mut out, length).unwrap();
        assert_eq!(out.len(), length);
    }
    assert!(inflater.memory_bytes() < 64 << 10, "{}", inflater.memory_bytes());
}

#[test]
fn contexts_are_made_when_they_are_needed() {
    let mut gateway = DeflateCompressor::new(ZlibParams::default(), 15).unwrap();
    assert_eq!(gateway.memory_bytes(), 0);
    gateway.compress(&[b"hello"], &mut Vec::new()).unwrap();
    assert!((200 << 10..300 << 10).contains(&gateway.memory_bytes()), "{}", gateway.memory_bytes());
    assert!(DeflateCompressor::new(ZlibParams::default(), 7).is_err());
    assert!(DeflateCompressor::new(ZlibParams::default(), 16).is_err());
    let deflater = BodyDeflater::new(ZlibParams::default()).unwrap();
    assert_eq!(deflater.memory_bytes(), 0);
}
