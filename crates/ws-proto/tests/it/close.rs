//! Close frames end the stream. Autobahn group 7.

use crate::wire::*;
use guildhall_ws_proto::{WsError, close_code_is_valid};

fn close_payload(code: u16, reason: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes(), reason].concat()
}

#[test]
fn payloads() {
    check(&[masked(FIN | CLOSE, b"")], &[Seen::Close(None, String::new())]); // 7.3.1
    check_error(&[masked(FIN | CLOSE, b"\x03")], &[], WsError::CloseCodeCut); // 7.3.2
    check(&[masked(FIN | CLOSE, &close_payload(1000, b""))], &[Seen::Close(Some(1000), String::new())]); // 7.3.3
    let reason = "*".repeat(123);
    for reason in ["Hello World!", "κόσμε", &reason] {
        let payload = close_payload(4000, reason.as_bytes()); // 7.3.4, 7.3.5
        check(&[masked(FIN | CLOSE, &payload)], &[Seen::Close(Some(4000), reason.to_owned())]);
    }
    check_error(&[masked(FIN | CLOSE, &close_payload(1000, &[b'*'; 124]))], &[], WsError::ControlTooLong); // 7.3.6
    for reason in [&b"\xce\xba\xed\xa0\x80"[..], b"cut \xc3"] {
        let input = masked(FIN | CLOSE, &close_payload(1000, reason)); // 7.5.1
        check_error(&[input], &[], WsError::CloseReasonNotUtf8);
    }
}

#[test]
fn codes() {
    for code in 0..=u16::MAX {
        let frame = masked(FIN | CLOSE, &code.to_be_bytes());
        let outcome = feed(&mut server(), [&frame[..]]);
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => {
                assert_eq!(outcome.seen, [Seen::Close(Some(code), String::new())]); // 7.7.*
                assert!(close_code_is_valid(code));
            }
            _ => assert_eq!(outcome.error, Some(WsError::CloseCodeInvalid(code))), // 7.9.*, 7.13.*
        }
    }
}

#[test]
fn nothing_after_a_close() {
    let close = masked(FIN | CLOSE, &close_payload(1000, b""));
    let closed = Seen::Close(Some(1000), String::new());
    for after in [masked(FIN | TEXT, b"x"), masked(FIN | PING, b""), close.clone(), vec![0xff; 40]] {
        let input = [masked(FIN | TEXT, b"before"), close.clone(), after]; // 7.1.2 to 7.1.6
        check(&input, &[text("before"), closed.clone()]);
    }
    let mut decoder = server();
    let mut bytes = [close, masked(FIN | TEXT, b"x")].concat();
    let mut events = decoder.handle(&mut bytes);
    assert!(matches!(events.poll(), Ok(Some(_))));
    assert!(matches!(events.poll(), Ok(None)));
    assert_eq!(events.unread_bytes(), 0);
    assert!(decoder.is_done());
}

#[test]
fn nothing_after_an_error() {
    let input = [masked(FIN | 3, b""), masked(FIN | TEXT, b"x"), masked(FIN | 3, b"")];
    check_error(&input, &[], WsError::ReservedOpcode(3));
    let mut decoder = server();
    assert!(!decoder.is_done());
    feed(&mut decoder, [&[FIN | 3][..]]);
    assert!(decoder.is_done());
    assert_eq!(feed(&mut decoder, [&masked(FIN | TEXT, b"x")[..]]), Outcome::default());
}
