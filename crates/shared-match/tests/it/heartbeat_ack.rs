//! The heartbeat ACK is a copy of the one before, for as long as that is in reach.

use guildhall_codec::{Encoding, StreamDecompressor, control_payload};
use guildhall_shared_match::{Container, DeflateStream, Form, Limits, Matcher, Tables, ZSTD_WINDOW_LOG, ZstdStream};

const HEARTBEAT_ACK: u8 = 11;
/// Bytes of an ACK that repeats the one before.
const REPEATED_MAX: usize = 12;

fn acks(form: Form, is_zstd: bool) {
    let encoding = if form == Form::Json { Encoding::Json } else { Encoding::Etf };
    let ack = control_payload(encoding, HEARTBEAT_ACK, &()).unwrap();
    let mut matcher = Matcher::new(form, Tables::built_in(form), Limits::default());
    let mut zstd = ZstdStream::default();
    let mut deflate = DeflateStream::new(Container::Zlib, 15);
    let reader = if is_zstd { StreamDecompressor::zstd(ZSTD_WINDOW_LOG) } else { StreamDecompressor::zlib() };
    let mut reader = reader.unwrap();
    let mut send = |message: &[u8]| {
        let mut wire = Vec::new();
        match is_zstd {
            true => matcher.zstd_standalone(&mut zstd, message, &mut wire),
            false => matcher.deflate_standalone(&mut deflate, message, &mut wire),
        }
        let mut read = Vec::new();
        reader.decompress(&wire, &mut read, 4 << 20).unwrap();
        assert!(read == message, "{form:?}, zstd {is_zstd}");
        wire.len()
    };
    send(b"hello, and welcome");
    let first = send(&ack);
    // The first sequence of a zstd stream brings its tables.
    send(&ack);
    for between in ["x", "something else", "{\"op\":9}"] {
        send(between.as_bytes());
        let bytes = send(&ack);
        assert!(bytes <= REPEATED_MAX && bytes < first, "{form:?}, zstd {is_zstd}: {bytes} bytes, at first {first}");
    }
    // Bytes without a pattern push it out of the window.
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..if is_zstd { 2 << 20 } else { 32 << 10 })
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    send(&noise);
    assert!(send(&ack) > REPEATED_MAX, "{form:?}, zstd {is_zstd}");
    assert!(send(&ack) <= REPEATED_MAX + 60, "{form:?}, zstd {is_zstd}");
}

#[test]
fn an_ack_repeats_the_one_before_it() {
    for form in [Form::Json, Form::Etf] {
        [true, false].into_iter().for_each(|is_zstd| acks(form, is_zstd));
    }
}
