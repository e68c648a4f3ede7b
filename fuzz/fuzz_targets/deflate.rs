//! permessage-deflate input of a client: offers, and any bytes as compressed messages, with and without takeover.
//!
//! Input       one byte: windows and takeover; the rest as messages, each with a length prefix, and whole as a header.
//! Oracle      no panic; no more output than the limit, and none after an error. With context takeover the result
//!             equals that of one zlib stream with unlimited history (as long as no message has a final block or an
//!             error). An answer parses back.
// max_len: 4096
#![no_main]

use guildhall_codec::{InflateHistory, MessageInflater, StreamDecompressor};
use guildhall_ws_proto::{DeflateNegotiation, DeflateParams, DeflatePolicy};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 16 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((control, mut rest)) = data.split_first() else { return };
    negotiate(*control, rest);

    let mut inflater = MessageInflater::new().expect("there is memory");
    let mut history = InflateHistory::default();
    // A zlib header, then raw blocks: the same stream for a reader that keeps everything.
    let mut whole = StreamDecompressor::zlib().expect("there is memory");
    whole.decompress(&[0x78, 0x9c], &mut Vec::new(), 0).expect("a header");
    let mut is_comparable = control & 1 == 0;
    while let Some((length, next)) = rest.split_first() {
        let (message, next) = next.split_at(next.len().min(usize::from(*length)));
        rest = next;
        let mut out = Vec::new();
        let result = inflater.inflate(&history, message, &mut out, BYTES_MAX);
        assert!(out.len() <= BYTES_MAX);
        assert!(result.is_ok() || out.is_empty());
        if is_comparable && !message.is_empty() {
            let mut expected = Vec::new();
            let flushed = [message, &[0, 0, 0xff, 0xff]].concat();
            match whole.decompress(&flushed, &mut expected, BYTES_MAX) {
                Ok(()) if result.is_ok() => assert_eq!(out, expected),
                // A truncated block (an error only for us) or a final block (an end only for zlib): the
                // results differ here.
                _ => is_comparable = false,
            }
        }
        if result.is_ok() && control & 1 == 0 {
            history.remember(&out, 15);
        }
    }
});

fn negotiate(control: u8, header: &[u8]) {
    let policy = DeflatePolicy {
        server_no_context_takeover: control & 2 != 0,
        client_no_context_takeover: control & 4 != 0,
        server_window_bits: 8 + (control >> 3) % 8,
        client_window_bits: 8 + (control >> 5),
    };
    let mut negotiation = DeflateNegotiation::new(Some(policy));
    if negotiation.handle_header(header).is_ok()
        && let Some(agreed) = negotiation.agreed()
    {
        assert!(agreed.server_no_context_takeover || !policy.server_no_context_takeover);
        assert!(agreed.client_no_context_takeover || !policy.client_no_context_takeover);
        assert!((8..=policy.server_window_bits).contains(&agreed.server_window_bits));
        assert_eq!(DeflateParams::from_answer(&agreed.to_header()), Ok(Some(agreed)));
    }
}
