//! Single frames: sizes, pings, reserved bits and opcodes, masks, lengths. Autobahn groups 1 to 4.

use crate::wire::*;
use guildhall_ws_proto::WsError;

#[test]
fn whole_messages_of_every_header_size() {
    for len in [0, 1, 125, 126, 127, 128, 65_535, 65_536] {
        let payload = "*".repeat(len);
        check(&[masked(FIN | TEXT, payload.as_bytes())], &[text(&payload)]); // 1.1.*
        check(&[masked(FIN | BINARY, payload.as_bytes())], &[binary(payload.as_bytes())]); // 1.2.*
        check_with(client, &[plain(FIN | TEXT, payload.as_bytes())], (&[text(&payload)], None));
    }
}

#[test]
fn pings_and_pongs() {
    check(&[masked(FIN | PING, b"")], &[Seen::Ping(vec![])]); // 2.1
    check(&[masked(FIN | PING, b"Hello, world!")], &[Seen::Ping(b"Hello, world!".to_vec())]); // 2.2
    let odd = [0x00, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0x00, 0xff]; // 2.3: not UTF-8, and need not be
    check(&[masked(FIN | PING, &odd)], &[Seen::Ping(odd.to_vec())]);
    check(&[masked(FIN | PING, &[0xfe; 125])], &[Seen::Ping(vec![0xfe; 125])]); // 2.4, 2.6
    check_error(&[masked(FIN | PING, &[0xfe; 126])], &[], WsError::ControlTooLong); // 2.5
    check(&[masked(FIN | PONG, b"unasked")], &[Seen::Pong(b"unasked".to_vec())]); // 2.7 to 2.9
    let many: Vec<_> = (0..10u8).map(|i| masked(FIN | PING, &[i])).collect(); // 2.10, 2.11
    check(&many, &(0..10u8).map(|i| Seen::Ping(vec![i])).collect::<Vec<_>>());
    for opcode in [CLOSE, PING, PONG] {
        check_error(&[masked(FIN | opcode, &[0; 65_536])], &[], WsError::ControlTooLong);
    }
}

#[test]
fn reserved_bits() {
    let hello = masked(FIN | TEXT, b"Hello, world!");
    for rsv in 1..8u8 {
        let error = WsError::ReservedBits(rsv << 4);
        check_error(&[hello.clone(), masked(FIN | rsv << 4 | TEXT, b"x")], &[text("Hello, world!")], error); // 3.1 to 3.3
        for opcode in [BINARY, CLOSE, PING, PONG] {
            check_error(&[masked(FIN | rsv << 4 | opcode, b"")], &[], error); // 3.4 to 3.7
        }
        check_error(&[masked(TEXT, b"x"), masked(FIN | rsv << 4, b"y")], &[], error);
    }
}

#[test]
fn rsv1_once_negotiated() {
    let new = || {
        let mut decoder = server();
        decoder.set_rsv1_allowed(true);
        decoder
    };
    let not_utf8 = [0xaa, 0xff, 0x00];
    let compressed = |text| Seen::Compressed { text, payload: not_utf8.to_vec() };
    check_with(new, &[masked(FIN | RSV1 | TEXT, &not_utf8)], (&[compressed(true)], None));
    check_with(new, &[masked(FIN | RSV1 | BINARY, &not_utf8)], (&[compressed(false)], None));
    let pieces = [masked(RSV1 | TEXT, &not_utf8[..1]), masked(FIN | PING, b"p"), masked(FIN, &not_utf8[1..])];
    check_with(new, &pieces, (&[Seen::Ping(b"p".to_vec()), compressed(true)], None));
    check_with(new, &[masked(FIN | TEXT, b"plain")], (&[text("plain")], None));
    check_with(new, &[masked(FIN | TEXT, &not_utf8)], (&[], Some(WsError::TextNotUtf8)));

    // Never on these, negotiated or not.
    for opcode in [CLOSE, PING, PONG] {
        check_with(new, &[masked(FIN | RSV1 | opcode, b"")], (&[], Some(WsError::ReservedBits(0x40))));
    }
    let pieces = [masked(RSV1 | TEXT, b"x"), masked(FIN | RSV1, b"y")];
    check_with(new, &pieces, (&[], Some(WsError::ReservedBits(0x40))));
    check_with(new, &[masked(FIN | RSV1 | 0x20 | TEXT, b"x")], (&[], Some(WsError::ReservedBits(0x60))));
}

#[test]
fn reserved_opcodes() {
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        check_error(&[masked(FIN | opcode, b"")], &[], WsError::ReservedOpcode(opcode)); // 4.1.1, 4.2.1
        let input = [masked(FIN | TEXT, b"Hello"), masked(FIN | opcode, b"x"), masked(FIN | PING, b"")];
        check_error(&input, &[text("Hello")], WsError::ReservedOpcode(opcode)); // 4.1.3, 4.2.3
    }
}

#[test]
fn only_clients_mask() {
    check_error(&[plain(FIN | TEXT, b"x")], &[], WsError::NotMasked);
    check_error(&[plain(FIN | PING, b"")], &[], WsError::NotMasked);
    check_with(client, &[masked(FIN | TEXT, b"x")], (&[], Some(WsError::Masked)));
}

#[test]
fn lengths_are_minimal() {
    check_error(&[vec![FIN | TEXT, 0xfe, 0, 125]], &[], WsError::LengthNotMinimal);
    check_error(&[vec![FIN | BINARY, 0xfe, 0, 0]], &[], WsError::LengthNotMinimal);
    check_error(&[vec![FIN | TEXT, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff]], &[], WsError::LengthNotMinimal);
    check_error(&[vec![FIN | TEXT, 0xff, 0, 0, 0, 0, 0, 0, 0, 1]], &[], WsError::LengthNotMinimal);
    check_error(&[vec![FIN | TEXT, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]], &[], WsError::LengthTopBit);
    check_error(&[vec![FIN | TEXT, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]], &[], WsError::LengthTopBit);
}

#[test]
fn faults_show_at_the_first_byte_that_has_them() {
    let check_at = |bytes: &[u8], error| {
        let mut decoder = server();
        let (last, before) = bytes.split_last().unwrap();
        assert_eq!(feed(&mut decoder, before.chunks(1)), Outcome::default(), "{bytes:02x?}");
        assert_eq!(feed(&mut decoder, [&[*last][..]]).error, Some(error), "{bytes:02x?}");
    };
    check_at(&[FIN | 3], WsError::ReservedOpcode(3));
    check_at(&[FIN | RSV1 | TEXT], WsError::ReservedBits(0x40));
    check_at(&[PING], WsError::ControlFragmented);
    check_at(&[FIN], WsError::NothingToContinue);
    check_at(&[FIN | TEXT, 5], WsError::NotMasked);
    check_at(&[FIN | PING, 0xfe], WsError::ControlTooLong);
    check_at(&[FIN | CLOSE, 0x81], WsError::CloseCodeCut);
    check_at(&[FIN | TEXT, 0xfe, 0, 125], WsError::LengthNotMinimal);
    let too_big = WsError::MessageTooBig { got_bytes: 1 << 32, message_bytes_max: 1 << 20 };
    check_at(&[FIN | TEXT, 0xff, 0, 0, 0, 1, 0, 0, 0, 0], too_big);
}

#[test]
fn every_error_has_its_close_code() {
    for (error, code) in [
        (WsError::ReservedOpcode(3), 1002),
        (WsError::NotMasked, 1002),
        (WsError::CloseCodeInvalid(1005), 1002),
        (WsError::TextNotUtf8, 1007),
        (WsError::CloseReasonNotUtf8, 1007),
        (WsError::MessageTooBig { got_bytes: 2, message_bytes_max: 1 }, 1009),
    ] {
        assert_eq!(error.close_code(), code, "{error}");
    }
}
