//! Contexts of a node: in slots, bounded together, some of them larger.

use guildhall_codec::{
    ContextParams, ContextPool, Dictionary, StreamCompressor, StreamDecompressor, ZlibParams, ZstdParams,
};
use guildhall_stdx::Rng;
use std::{sync::Arc, thread};
use zstd_safe::{CCtx, CParameter, FrameFormat, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};

fn contexts(bytes_max: u64) -> ContextPool {
    ContextPool::new(ContextParams { bytes_max, ..ContextParams::default() }).unwrap()
}

/// A session's message: one of a few shapes with random words.
fn message(rng: &mut Rng) -> Vec<u8> {
    let (id, author, words) = (rng.next_u64(), rng.below(50), rng.below(40));
    let text: Vec<String> = (0..words).map(|_| format!("word{}", rng.below(3_000))).collect();
    let d = format!(r#"{{"id":"{id}","author":{{"id":"{author}"}},"content":"{}","tts":false}}"#, text.join(" "));
    format!(r#"{{"t":"MESSAGE_CREATE","s":{},"op":0,"d":{d}}}"#, rng.below(9_999)).into_bytes()
}

fn compress(stream: &mut StreamCompressor, message: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    stream.compress(&[&message[..message.len() / 2], &message[message.len() / 2..]], &mut wire).unwrap();
    wire
}

#[track_caller]
fn decodes(reader: &mut StreamDecompressor, wire: &[u8], message: &[u8]) {
    let mut out = Vec::new();
    reader.decompress(wire, &mut out, message.len()).unwrap();
    assert!(out == message);
}

/// The library's own context with its defaults for rows and long distances.
fn library_context(params: ZstdParams) -> CCtx<'static> {
    let mut context = CCtx::create();
    for parameter in [
        CParameter::Format(FrameFormat::Magicless),
        CParameter::CompressionLevel(params.level),
        CParameter::WindowLog(params.window_log),
        CParameter::ChainLog(params.chain_log),
        CParameter::HashLog(params.hash_log),
        CParameter::MaxBlockSize(params.block_bytes_max),
        CParameter::ContentSizeFlag(false),
    ] {
        context.set_parameter(parameter).unwrap();
    }
    context
}

#[test]
fn a_slot_changes_no_byte() {
    let base = ZstdParams::default();
    let others = [1, 3, 9, 13].map(|level| ZstdParams { level, ..base });
    for params in [base, base.upgraded().unwrap()].into_iter().chain(others) {
        let mut ours = StreamCompressor::zstd(params).unwrap();
        let mut theirs = library_context(params);
        let mut rng = Rng::new(3);
        for nth in 0..1_500 {
            let message = message(&mut rng);
            let mut wire = Vec::new();
            ours.compress(&[&message], &mut wire).unwrap();
            let mut expected = Vec::with_capacity(message.len() * 2 + 1_000);
            let (mut input, mut output) = (InBuffer::around(&message), OutBuffer::around(&mut expected));
            let left = theirs.compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush).unwrap();
            assert!(left == 0 && input.pos() == message.len());
            // Ours begins with the magic number.
            assert!(wire[if nth == 0 { 4 } else { 0 }..] == expected, "message {nth} at {params:?}");
        }
    }
}

/// traps.md 5: "one compressor" must be one context and one slot, whatever happens around it.
#[test]
fn a_connection_has_one_slot_from_its_first_compressed_message_to_its_end() {
    let contexts = contexts(u64::MAX);
    let used = || {
        let stats = contexts.stats();
        let pools = [stats.zlib, stats.zstd, stats.zstd_upgraded];
        assert_eq!(stats.resident_bytes, pools.iter().map(|pool| pool.resident_bytes).sum::<u64>());
        (stats.zlib.slots_used, stats.zstd.slots_used, stats.zstd_upgraded.slots_used)
    };
    let mut rng = Rng::new(5);
    let mut zlib = contexts.zlib();
    let mut zstd = contexts.zstd();
    for stream in [&mut zlib, &mut zstd] {
        stream.store(b"hello", &mut Vec::new()).unwrap();
        stream.compress(&[], &mut Vec::new()).unwrap();
    }
    assert_eq!(used(), (0, 0, 0));
    for _ in 0..2_000 {
        let message = message(&mut rng);
        compress(&mut zlib, &message);
        compress(&mut zstd, &message);
        zstd.compress(&[&vec![7; 20_000]], &mut Vec::new()).unwrap();
        assert_eq!(used(), (1, 1, 0));
    }
    let stats = contexts.stats();
    assert_eq!(zlib.memory_bytes() as u64 / stats.zlib.slot_bytes, 1);
    assert_eq!(zstd.memory_bytes() as u64, stats.zstd.slot_bytes);
    drop(zlib);
    assert_eq!(used(), (0, 1, 0));
    drop(zstd);
    assert_eq!((used(), contexts.stats().resident_bytes), ((0, 0, 0), 0));
}

/// traps.md 5, its other half: contexts of several threads, given to and dropped by each other.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn threads_leave_nothing_behind() {
    let contexts = contexts(u64::MAX);
    contexts.gate().set(500, u64::MAX);
    let (sender, receiver) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (contexts, sender) = (contexts.clone(), sender.clone());
            thread::spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..40 {
                    let mut stream = if rng.chance(0.5) { contexts.zlib() } else { contexts.zstd() };
                    for _ in 0..rng.below(8) {
                        compress(&mut stream, &message(&mut rng));
                    }
                    sender.send(stream).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut kept: Vec<StreamCompressor> = Vec::new();
    for stream in receiver {
        kept.push(stream);
        if kept.len() > 10 {
            kept.swap_remove(3);
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let held: usize = kept.iter().filter(|stream| stream.memory_bytes() > 0).count();
    let stats = contexts.stats();
    assert_eq!(stats.zlib.slots_used + stats.zstd.slots_used + stats.zstd_upgraded.slots_used, held as u64);
    assert_eq!(stats.upgrades.living_count, stats.zstd_upgraded.slots_used);
    assert!(stats.upgrades.granted_total > 0 && stats.zlib.opened_total > 0);
    drop(kept);
    let stats = contexts.stats();
    assert_eq!((stats.resident_bytes, stats.upgrades.extra_bytes, stats.upgrades.living_count), (0, 0, 0));
    assert_eq!(stats.zlib.mapped_bytes + stats.zstd.mapped_bytes + stats.zstd_upgraded.mapped_bytes, 0);
}

#[test]
fn without_room_messages_are_stored_until_there_is() {
    let contexts = contexts(1 << 20);
    let mut rng = Rng::new(9);
    let mut first = contexts.zstd();
    compress(&mut first, &message(&mut rng));
    let streams = [
        (contexts.zstd(), StreamDecompressor::zstd(18).unwrap()),
        (contexts.zlib(), StreamDecompressor::zlib().unwrap()),
    ];
    let mut blocker = contexts.zlib();
    compress(&mut blocker, &message(&mut rng));
    let mut others = streams;
    for (stream, reader) in &mut others {
        for _ in 0..5 {
            let message = message(&mut rng);
            let wire = compress(stream, &message);
            assert!(wire.len() >= message.len() && wire.len() < message.len() + 40, "it is stored");
            decodes(reader, &wire, &message);
        }
        stream.compress(&[], &mut Vec::new()).unwrap();
        assert_eq!(stream.memory_bytes(), 0);
    }
    let stats = contexts.stats();
    assert_eq!((stats.stored_total, stats.zstd.slots_used), (10, 1));
    assert!(stats.resident_bytes <= stats.bytes_max);
    drop((first, blocker));
    for (stream, reader) in &mut others {
        let mut sizes = Vec::new();
        for _ in 0..20 {
            let message = message(&mut rng);
            let wire = compress(stream, &message);
            decodes(reader, &wire, &message);
            sizes.push(wire.len() as f64 / message.len() as f64);
        }
        assert!(sizes[19] < 0.6, "it is compressed again: {sizes:?}");
        assert!(stream.memory_bytes() > 0);
    }
    assert_eq!(contexts.stats().stored_total, 10);
}

/// Streams that could go on without a context get none past their share of the room; others do.
#[test]
fn movable_streams_have_a_bound_of_their_own() {
    let contexts = contexts(u64::MAX);
    assert!(contexts.has_movable_room() && contexts.excess_bytes() == 0);
    let mut first = contexts.zstd_movable(21);
    assert!(first.open().unwrap());
    contexts.set_movable_bytes_max(contexts.stats().resident_bytes);
    assert!(!contexts.has_movable_room() && contexts.excess_bytes() == 0);
    for mut stream in [contexts.zstd_movable(21), contexts.zlib_movable()] {
        assert!(!stream.open().unwrap());
        assert_eq!(stream.memory_bytes(), 0);
    }
    assert!(contexts.zstd().open().unwrap() && contexts.zlib().open().unwrap());
    contexts.set_movable_bytes_max(0);
    assert_eq!(contexts.excess_bytes(), contexts.stats().resident_bytes);
    assert!(first.open().unwrap(), "a stream with a context keeps it");
}

#[test]
fn upgraded_connections_see_further_back() {
    let contexts = contexts(u64::MAX);
    contexts.gate().set(1_000, u64::MAX);
    let mut upgraded = contexts.zstd();
    contexts.gate().set(0, u64::MAX);
    let mut base = contexts.zstd();
    let mut readers = [19, 18].map(|window_log| StreamDecompressor::zstd(window_log).unwrap());
    let mut rng = Rng::new(1);
    // Content repeated after 300 KiB is in reach of one of them only.
    let noise: Vec<u8> = (0..300 << 10).map(|_| rng.next_u64() as u8).collect();
    let mut sizes = [0, 0];
    for _ in 0..2 {
        for (nth, stream) in [&mut upgraded, &mut base].into_iter().enumerate() {
            let wire = compress(stream, &noise);
            decodes(&mut readers[nth], &wire, &noise);
            sizes[nth] = wire.len();
        }
    }
    assert!(sizes[0] < noise.len() / 50 && sizes[1] > noise.len() * 9 / 10, "{sizes:?}");
    assert!(upgraded.is_upgraded() && !base.is_upgraded());
    let stats = contexts.stats();
    assert_eq!(stats.upgrades.extra_bytes, stats.zstd_upgraded.slot_bytes - stats.zstd.slot_bytes);
    assert_eq!(stats.upgrades.extra_bytes, contexts.extra_bytes().unwrap());
    assert_eq!((stats.upgrades.living_count, stats.upgrades.granted_total), (1, 1));
}

/// Its frame header went out with HELLO; by IDENTIFY the room was gone.
#[test]
fn an_upgrade_that_comes_too_late_is_a_usual_context_in_a_wider_frame() {
    let contexts = contexts(u64::MAX);
    contexts.gate().set(1_000, u64::MAX);
    let mut stream = contexts.zstd();
    let mut reader = StreamDecompressor::zstd(19).unwrap();
    let mut wire = Vec::new();
    stream.store(b"hello", &mut wire).unwrap();
    assert_eq!(wire[4..6], [0, (19 - 10) << 3]);
    decodes(&mut reader, &wire, b"hello");
    contexts.gate().set(1_000, contexts.extra_bytes().unwrap() - 1);
    let mut rng = Rng::new(2);
    for _ in 0..3_000 {
        let message = message(&mut rng);
        let wire = compress(&mut stream, &message);
        decodes(&mut reader, &wire, &message);
    }
    assert!(!stream.is_upgraded());
    let stats = contexts.stats();
    assert_eq!((stats.upgrades.denied_total, stats.upgrades.extra_bytes, stats.zstd.slots_used), (1, 0, 1));
}

#[test]
fn parameters_are_checked_before_anybody_connects() {
    let check = |params: ContextParams| ContextPool::new(params).and_then(|contexts| contexts.check());
    let fine = ContextParams::default();
    check(fine).unwrap();
    assert!(check(ContextParams { zlib: ZlibParams { level: 10, ..fine.zlib }, ..fine }).is_err());
    let error = check(ContextParams { zstd: ZstdParams { hash_log: 30, ..fine.zstd }, ..fine }).unwrap_err();
    assert_eq!(error.to_string(), "zstd hash_log is 30, allowed is 6 to 28");
    // Nothing is left upwards: contexts are all alike then.
    let zstd = ZstdParams { level: 1, window_log: 27, chain_log: 6, hash_log: 6, block_bytes_max: 1 << 10 };
    assert_eq!(zstd.upgraded(), None);
    let contexts = ContextPool::new(ContextParams { zstd, ..fine }).unwrap();
    contexts.gate().set(1_000, u64::MAX);
    let mut stream = contexts.zstd();
    stream.store(b"x", &mut Vec::new()).unwrap();
    assert_eq!((contexts.extra_bytes(), stream.is_upgraded()), (None, false));
}

/// Stored messages would be between the dictionary and the start assumed by a later context.
#[test]
fn a_dictionary_stream_has_a_slot_too_or_is_stored_to_its_end() {
    let mut rng = Rng::new(4);
    let samples: Vec<Vec<u8>> = (0..600).map(|_| message(&mut rng)).collect();
    let dictionary = Arc::new(Dictionary::train(&samples, 8 << 10).unwrap());
    let contexts = contexts(750_000);
    let mut first = contexts.zstd_with(dictionary.clone());
    let mut second = contexts.zstd_with(dictionary.clone());
    let mut readers = [(); 2].map(|()| StreamDecompressor::zstd_with(18, &dictionary).unwrap());
    for nth in 0..30 {
        let message = message(&mut rng);
        let wire = compress(&mut first, &message);
        decodes(&mut readers[0], &wire, &message);
        assert!(wire.len() < message.len(), "it is compressed from the first on");
        let wire = compress(&mut second, &message);
        decodes(&mut readers[1], &wire, &message);
        assert!(wire.len() > message.len(), "it is stored");
        assert_eq!((contexts.stats().zstd.slots_used, contexts.stats().stored_total), (1, nth + 1));
    }
    drop(first);
    // There is room again, but not for this one.
    let last = message(&mut rng);
    decodes(&mut readers[1], &compress(&mut second, &last), &last);
    assert_eq!((second.memory_bytes(), contexts.stats().resident_bytes), (0, 0));
}
