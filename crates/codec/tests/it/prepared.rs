//! Prepared frames and the prepared cache. Trap 4 of the codec.

use super::deflate::noise;
use flate2::{Decompress, FlushDecompress};
use guildhall_codec::{BodyDeflater, DispatchFrame, Encoding, Framing, PreparedCache, SharedWindow, ZlibParams};
use guildhall_ws_proto::Opcode;
use serde_json::json;
use std::sync::{Arc, Barrier};
use std::thread;

const RSV1: u8 = 0x40;
const WINDOWS: [SharedWindow; 2] = [SharedWindow::Full, SharedWindow::Least];

fn deflater() -> BodyDeflater {
    BodyDeflater::new(ZlibParams::default()).unwrap()
}

/// A client's view of a frame: first byte and payload, inflated if RSV1 is set.
fn read(frame: &[u8]) -> (u8, Vec<u8>) {
    let (length, header_bytes) = match frame[1] {
        126 => (usize::from(u16::from_be_bytes([frame[2], frame[3]])), 4),
        127 => (u64::from_be_bytes(frame[2..10].try_into().unwrap()) as usize, 10),
        length => (usize::from(length), 2),
    };
    assert_eq!(frame.len(), header_bytes + length, "one frame, and all of it");
    let payload = &frame[header_bytes..];
    if frame[0] & RSV1 == 0 {
        return (frame[0], payload.to_vec());
    }
    let mut out = Vec::with_capacity(4 << 20);
    let whole = [payload, &[0, 0, 0xff, 0xff]].concat();
    let mut decoder = Decompress::new(false);
    decoder.decompress_vec(&whole, &mut out, FlushDecompress::Sync).expect("it decodes");
    assert_eq!(decoder.total_in() as usize, whole.len(), "nothing is left");
    (frame[0], out)
}

fn bodies() -> Vec<serde_json::Value> {
    let text = "over and over ".repeat(40);
    let hex: String = noise(7, 400).iter().map(|byte| format!("{byte:02x}")).collect();
    vec![
        json!(null),
        json!({"id": "1"}),
        json!({"content": text}),
        json!({"content": "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich 🥊".repeat(9)}),
        json!({"content": hex}),
        json!({"members": (0..5_000).map(|n| json!({"id": n.to_string(), "roles": ["1", "2"]})).collect::<Vec<_>>()}),
    ]
}

#[test]
fn p1_a_message_inflates_to_what_is_sent_uncompressed() {
    for encoding in [Encoding::Json, Encoding::Etf] {
        for body in bodies() {
            let mut frame = DispatchFrame::new(encoding, "MESSAGE_CREATE", &body).unwrap();
            let mut deflater = deflater();
            for window in WINDOWS {
                frame.prepare(window, &mut deflater);
                for seq in [1, 9, 10, 99, 255, 256, 65_535, 1 << 31, u64::MAX, 3] {
                    let plain = frame.write_for(seq, Framing::None).to_vec();
                    let prepared = frame.write_prepared(seq, window).to_vec();
                    let (first, got) = read(&prepared);
                    assert!(got == plain, "{encoding:?} {window:?} {seq}");
                    let opcode = if encoding == Encoding::Json { 1 } else { 2 };
                    assert_eq!(first & !RSV1, 0x80 | opcode);
                    assert!(prepared.len() <= plain.len() + 10, "never longer than without");
                    // In pieces, from anywhere on.
                    let parts = frame.prepared_parts(seq, window);
                    assert_eq!(parts.len(), prepared.len());
                    for skip in [0, 1, 5, prepared.len() / 2, prepared.len() - 1] {
                        assert!(parts.slices(skip).concat() == prepared[skip..]);
                    }
                }
            }
        }
    }
}

#[test]
fn p2_the_body_is_compressed_once_per_window() {
    let body = json!({"content": "over and over ".repeat(40)});
    let mut frame = DispatchFrame::new(Encoding::Json, "MESSAGE_CREATE", &body).unwrap();
    let mut deflater = deflater();
    for seq in 0..10_000 {
        frame.prepare(SharedWindow::Full, &mut deflater);
        assert_ne!(frame.write_prepared(seq, SharedWindow::Full)[0] & RSV1, 0);
    }
    assert_eq!(deflater.compressed_count(), 1);
    assert!(frame.prepared_bytes() < frame.body().len());
    frame.prepare(SharedWindow::Least, &mut deflater);
    frame.prepare(SharedWindow::Least, &mut deflater);
    assert_eq!(deflater.compressed_count(), 2);
}

#[test]
fn what_would_not_be_shorter_goes_as_it_is() {
    let mut deflater = deflater();
    for body in
        [json!(null), json!({"id": "1"}), json!("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")]
    {
        let mut frame = DispatchFrame::new(Encoding::Json, "READY", &body).unwrap();
        for _ in 0..3 {
            frame.prepare(SharedWindow::Full, &mut deflater);
            let plain = frame.write_for(5, Framing::websocket(Encoding::Json)).to_vec();
            assert_eq!(frame.write_prepared(5, SharedWindow::Full), plain);
        }
        assert_eq!(frame.prepared_bytes(), 0);
    }
    // Found out once.
    assert_eq!(deflater.compressed_count(), 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about threads")]
fn trap_4_one_of_many_threads_compresses_and_all_get_the_same() {
    const THREADS: usize = 8;
    let payload: Arc<[u8]> = "all at once ".repeat(2_000).into_bytes().into();
    for _ in 0..20 {
        let cache = Arc::new(PreparedCache::new(1 << 20, 1_000));
        let barrier = Arc::new(Barrier::new(THREADS));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (cache, barrier, payload) = (cache.clone(), barrier.clone(), payload.clone());
                // Nothing may fail before the barrier: the other threads would wait for ever.
                let mut deflater = deflater();
                thread::spawn(move || {
                    barrier.wait();
                    let frame = cache.frame(5, &payload, Opcode::Text, SharedWindow::Full, &mut deflater);
                    (frame, deflater.compressed_count())
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(results.iter().map(|(_, count)| count).sum::<u64>(), 1, "compressed once");
        assert!(results.iter().all(|(frame, _)| Arc::ptr_eq(frame, &results[0].0)));
        assert_eq!(read(&results[0].0).1, &payload[..]);
    }
}

#[test]
fn the_cache_forgets_in_time_and_stays_within_its_cost() {
    const COST_MAX: usize = 64 << 10;
    let cache = PreparedCache::new(COST_MAX, 1_000);
    let mut deflater = deflater();
    let mut ask = |now_ms: u64, payload: &[u8], opcode| {
        let before = deflater.compressed_count();
        let frame = cache.frame(now_ms, payload, opcode, SharedWindow::Full, &mut deflater);
        assert_eq!(read(&frame).1, payload);
        assert!(cache.cost_bytes() <= COST_MAX);
        deflater.compressed_count() - before
    };
    let payload = "again ".repeat(100);
    let payload = payload.as_bytes();
    assert_eq!(ask(10_000, payload, Opcode::Text), 1);
    assert_eq!(ask(10_999, payload, Opcode::Text), 0);
    // Another form is another frame.
    assert_eq!(ask(10_999, payload, Opcode::Binary), 1);
    // Its age counts from its creation, not from its last use.
    assert_eq!(ask(11_000, payload, Opcode::Text), 1);
    // Many others push it out; what does not fit at all is made all the same.
    for n in 0..200 {
        assert_eq!(ask(11_001, format!("{n} {}", "x".repeat(500)).as_bytes(), Opcode::Text), 1);
    }
    assert_eq!(ask(11_001, payload, Opcode::Text), 1);
    assert_eq!(ask(11_001, &[b'y'; COST_MAX], Opcode::Text), 1);
    assert_eq!(ask(11_001, payload, Opcode::Text), 0);
    // Nothing stays for ever.
    ask(20_000, b"short", Opcode::Text);
    assert!(cache.cost_bytes() < 1_000);
}
