//! Fragmented messages, with control frames between. Autobahn group 5.

use crate::wire::*;
use guildhall_ws_proto::WsError;

#[test]
fn messages_in_pieces() {
    let (a, b) = (masked(TEXT, b"fragment1"), masked(FIN, b"fragment2"));
    let whole = text("fragment1fragment2");
    let ping = || masked(FIN | PING, b"ping");
    let pinged = Seen::Ping(b"ping".to_vec());
    check(&[a.clone(), b.clone()], std::slice::from_ref(&whole)); // 5.3 to 5.5
    check(&[a.clone(), ping(), b.clone()], &[pinged.clone(), whole.clone()]); // 5.6 to 5.8
    check(&[masked(TEXT, b""), masked(CONTINUATION, b""), masked(FIN, b"")], &[text("")]); // 6.1.2
    check(&[masked(TEXT, b""), masked(CONTINUATION, b"middle"), masked(FIN, b"")], &[text("middle")]); // 6.1.3
    check(&[masked(BINARY, &[0xff]), masked(CONTINUATION, &[]), masked(FIN, &[0xfe])], &[binary(&[0xff, 0xfe])]);

    // 5.19, 5.20: pings between all of five fragments, and the next message is unaffected.
    let pieces: Vec<_> = [TEXT, CONTINUATION, CONTINUATION, CONTINUATION, FIN]
        .into_iter()
        .zip(["one", "two", "three", "four", "five"])
        .flat_map(|(first, part)| [masked(first, part.as_bytes()), ping()])
        .chain([masked(FIN | BINARY, b"next")])
        .collect();
    let seen: Vec<_> =
        std::iter::repeat_n(pinged.clone(), 4).chain([text("onetwothreefourfive"), pinged, binary(b"next")]).collect();
    check(&pieces, &seen);
}

#[test]
fn a_message_in_pieces_may_be_closed_upon() {
    let close = masked(FIN | CLOSE, &[0x03, 0xe8]);
    check(&[masked(TEXT, b"half a"), close, masked(FIN, b" message")], &[Seen::Close(Some(1000), String::new())]);
}

#[test]
fn control_frames_come_whole() {
    for opcode in [PING, PONG, CLOSE] {
        check_error(&[masked(opcode, b"")], &[], WsError::ControlFragmented); // 5.1, 5.2
        check_error(&[masked(TEXT, b"x"), masked(opcode, b"")], &[], WsError::ControlFragmented);
    }
}

#[test]
fn continuation_needs_a_beginning() {
    let hello = || masked(FIN | TEXT, b"Hello");
    for first in [FIN, CONTINUATION] {
        check_error(&[masked(first, b"x"), hello()], &[], WsError::NothingToContinue); // 5.9 to 5.12
        check_error(&[hello(), masked(first, b"x")], &[text("Hello")], WsError::NothingToContinue); // 5.13, 5.14
        let ended = [masked(TEXT, b"a"), masked(FIN, b"b"), masked(first, b"c")]; // 5.15
        check_error(&ended, &[text("ab")], WsError::NothingToContinue);
    }
}

#[test]
fn messages_do_not_interleave() {
    for first in [TEXT, BINARY, FIN | TEXT, FIN | BINARY] {
        for begin in [TEXT, BINARY] {
            let input = [masked(begin, b"a"), masked(FIN | PING, b""), masked(first, b"b")]; // 5.16 to 5.18
            check_error(&input, &[Seen::Ping(vec![])], WsError::MessageInterrupted);
        }
    }
}
