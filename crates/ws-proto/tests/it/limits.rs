//! The message limit holds from the header on, across fragments, and can change while connected.

use crate::wire::*;
use guildhall_ws_proto::{Decoder, Limits, Role, WsError};

fn limited(message_bytes_max: u32) -> Decoder {
    Decoder::new(Role::Server, Limits { message_bytes_max })
}

fn too_big(got_bytes: u64, message_bytes_max: u32) -> WsError {
    WsError::MessageTooBig { got_bytes, message_bytes_max }
}

#[test]
fn at_the_limit_and_one_over() {
    for max in [0, 1, 125, 126, 4096, 15_360, 65_535, 65_536] {
        let payload = vec![b'x'; max as usize];
        check_with(|| limited(max), &[masked(FIN | BINARY, &payload)], (&[binary(&payload)], None));
        let error = too_big(u64::from(max) + 1, max);
        let over = vec![b'x'; max as usize + 1];
        check_with(|| limited(max), &[masked(FIN | BINARY, &over)], (&[], Some(error)));
        let over = [masked(BINARY, &payload), masked(FIN | PING, b"p"), masked(FIN, b"x")];
        check_with(|| limited(max), &over, (&[Seen::Ping(b"p".to_vec())], Some(error)));
    }
}

#[test]
fn the_header_alone_is_refused() {
    let frame = masked(FIN | TEXT, &[b'x'; 4097]);
    let mut decoder = limited(4096);
    assert_eq!(feed(&mut decoder, [&frame[..3]]), Outcome::default());
    assert_eq!(feed(&mut decoder, [&frame[3..4]]).error, Some(too_big(4097, 4096)));
    assert_eq!(decoder.heap_bytes(), 0);

    let huge = [FIN | BINARY, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    check_with(|| limited(u32::MAX), &[huge.to_vec()], (&[], Some(too_big(i64::MAX as u64, u32::MAX))));
}

#[test]
fn control_frames_do_not_count() {
    let input = [masked(BINARY, b"ab"), masked(FIN | PING, &[7; 125]), masked(FIN, b"cd")];
    check_with(|| limited(4), &input, (&[Seen::Ping(vec![7; 125]), binary(b"abcd")], None));
}

#[test]
fn a_new_limit_holds_from_the_next_header() {
    let big = masked(FIN | TEXT, &[b'x'; 5000]);
    let mut decoder = limited(15_360);
    assert_eq!(feed(&mut decoder, [&big[..]]).seen.len(), 1);
    assert_eq!(feed(&mut decoder, [&big[..2000]]), Outcome::default());
    decoder.set_limits(Limits { message_bytes_max: 4096 });
    assert_eq!(feed(&mut decoder, [&big[2000..]]).seen.len(), 1, "the header was admitted");
    assert_eq!(feed(&mut decoder, [&big[..]]).error, Some(too_big(5000, 4096)));
}

#[test]
fn a_new_limit_ends_a_fragmented_message_over_it() {
    let mut decoder = limited(15_360);
    feed(&mut decoder, [&masked(TEXT, &[b'x'; 5000])[..]]);
    decoder.set_limits(Limits { message_bytes_max: 4096 });
    assert_eq!(feed(&mut decoder, [&masked(FIN, b"")[..]]).error, Some(too_big(5000, 4096)));
}

#[test]
fn a_new_limit_between_two_events_of_one_read() {
    let mut decoder = limited(15_360);
    let mut bytes = [masked(FIN | TEXT, b"identify"), masked(FIN | TEXT, &[b'x'; 5000])].concat();
    let mut events = decoder.handle(&mut bytes);
    assert!(matches!(events.poll(), Ok(Some(_))));
    events.set_limits(Limits { message_bytes_max: 4096 });
    assert_eq!(events.poll(), Err(too_big(5000, 4096)));
}
