//! Encoding against the byte layout of the RFC, and round trips in both directions.

use crate::wire::*;
use guildhall_ws_proto::{
    FrameHeader, HEADER_BYTES_MAX, Head, Opcode, append_frame, append_masked_frame, close_frame, frame, frame_header,
    frame_header_before, header_len, ping, pong,
};
use proptest::prelude::*;

#[test]
fn examples_of_the_rfc() {
    // RFC 6455 §5.7.
    assert_eq!(frame(Opcode::Text, b"Hello"), b"\x81\x05Hello");
    let mut masked = Vec::new();
    append_masked_frame(Opcode::Text, MASK, b"Hello", &mut masked);
    assert_eq!(masked, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
    let mut fragments = Vec::new();
    append_frame(Head { fin: false, ..Opcode::Text.into() }, b"Hel", &mut fragments);
    append_frame(Opcode::Continuation, b"lo", &mut fragments);
    assert_eq!(fragments, b"\x01\x03Hel\x80\x02lo");
    assert_eq!(*ping(b"Hello"), *b"\x89\x05Hello");
    assert_eq!(*pong(b"Hello"), *b"\x8a\x05Hello");
    assert_eq!(frame(Opcode::Binary, &[0; 256])[..4], *b"\x82\x7e\x01\x00");
    assert_eq!(frame(Opcode::Binary, &[0; 65_536])[..10], *b"\x82\x7f\0\0\0\0\0\x01\0\0");
    // RFC 7692 §7.2.3.1.
    let head = Head { compressed: true, ..Opcode::Text.into() };
    assert_eq!(frame(head, b"\xf2\x48\xcd\xc9\xc9\x07\x00")[..2], *b"\xc1\x07");
}

#[test]
fn headers_at_every_size() {
    for len in [0, 1, 125, 126, 127, 65_535, 65_536, 1 << 20] {
        let expected = plain(FIN | BINARY, &vec![0; len]);
        let header_bytes = expected.len() - len;
        assert_eq!(header_len(len), header_bytes);
        let mut header = [0xee; HEADER_BYTES_MAX];
        assert_eq!(frame_header(Opcode::Binary, len, &mut header), header_bytes);
        assert_eq!(*FrameHeader::new(Opcode::Binary, len), header[..header_bytes]);
        assert_eq!(header[..header_bytes], expected[..header_bytes]);
        assert!(header[header_bytes..].iter().all(|&byte| byte == 0xee), "writes only the header");
        let mut room = [0xee; HEADER_BYTES_MAX];
        let start = frame_header_before(Opcode::Binary, len, &mut room);
        assert_eq!(room[start..], expected[..header_bytes]);
        assert!(room[..start].iter().all(|&byte| byte == 0xee), "writes only the header");
    }
}

#[test]
fn close_reasons_are_cut_between_characters() {
    let check = |code, reason: &str, expected: &str| {
        let frame = close_frame(code, reason);
        let seen = [Seen::Close(code, expected.to_owned())];
        check_with(client, &[frame.to_vec()], (&seen, None));
        let mut masked = Vec::new();
        append_masked_frame(Opcode::Close, MASK, frame.payload(), &mut masked);
        check_with(server, &[masked], (&seen, None));
    };
    check(None, "", "");
    check(None, "has no place without a code", "");
    check(Some(4000), "", "");
    check(Some(1002), "short", "short");
    let ascii = "x".repeat(200);
    check(Some(4999), &ascii, &ascii[..123]);
    check(Some(3000), &ascii[..123], &ascii[..123]);
    let wide = "😀".repeat(40);
    check(Some(4000), &wide, &wide[..120]);
    check(Some(4000), &format!("x{wide}"), &format!("x{}", &wide[..120]));
    check(Some(4000), &format!("xxx{wide}"), &format!("xxx{}", &wide[..120]));
}

#[test]
#[should_panic(expected = "close code 1005")]
fn a_reserved_close_code_is_a_bug_of_ours() {
    let _ = close_frame(Some(1005), "");
}

#[test]
#[should_panic(expected = "ping of 126 bytes")]
fn a_long_ping_is_a_bug_of_ours() {
    let _ = ping(&[0; 126]);
}

proptest! {
    #[test]
    fn round_trip(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6), key: [u8; 4]) {
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        for payload in &payloads {
            append_frame(Opcode::Binary, payload, &mut to_client);
            append_masked_frame(Opcode::Binary, key, payload, &mut to_server);
        }
        let expected: Vec<_> = payloads.iter().map(|payload| binary(payload)).collect();
        prop_assert_eq!(feed(&mut client(), [&to_client[..]]).seen, expected.clone());
        prop_assert_eq!(feed(&mut server(), [&to_server[..]]).seen, expected);
    }
}
