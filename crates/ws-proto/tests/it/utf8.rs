//! Text is UTF-8, and text that is not fails at the first byte that proves it. Autobahn group 6.

use crate::wire::*;
use guildhall_ws_proto::WsError;

/// Text with the index of the first invalid byte, or `None` if only the end of the message shows it.
const INVALID: &[(&[u8], Option<usize>)] = &[
    (b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", Some(12)), // 6.3: a surrogate
    (b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited", Some(12)), // 6.4: over U+10FFFF
    (b"\x80", Some(0)),                                                            // 6.14.1: lone continuation
    (b"\xbf\x80", Some(0)),
    (b"a\xc3(", Some(2)),
    (b"\xc0\xaf", Some(0)), // 6.17: overlong
    (b"\xc1\xbf", Some(0)),
    (b"\xe0\x80\xaf", Some(1)),
    (b"\xe0\x9f\xbf", Some(1)),
    (b"\xf0\x80\x80\xaf", Some(1)),
    (b"\xf0\x8f\xbf\xbf", Some(1)),
    (b"\xf8\x88\x80\x80\x80", Some(0)), // five and six bytes
    (b"\xfc\x84\x80\x80\x80\x80", Some(0)),
    (b"\xfe", Some(0)), // 6.16: impossible bytes
    (b"\xff", Some(0)),
    (b"\xed\xa0\x80", Some(1)), // 6.20, 6.21: surrogates, alone and paired
    (b"\xed\xbf\xbf", Some(1)),
    (b"\xed\xa0\x80\xed\xb0\x80", Some(1)),
    (b"\xf4\x90\x80\x80", Some(1)),
    (b"\xf5\x80\x80\x80", Some(0)),
    (b"\xc3", None), // 6.6: cut off
    (b"\xe1\xbd", None),
    (b"\xf0\x9f\x98", None),
    (b"ok \xf0", None),
];

const VALID: &[&str] = &[
    "",
    "Hello-µ@ßöäüàá-UTF-8!!", // 6.2
    "κόσμε",                  // 6.5
    "\u{0}",
    "\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}", // 6.7, 6.9: ends of ranges
    "\u{d7ff}\u{e000}\u{fffd}",                              // 6.11
    "\u{fdd0}\u{fffe}\u{1fffe}\u{10fffe}",                   // 6.22: non-characters are characters
    "😀 emoji over several words of eight bytes 😀",
];

#[test]
fn valid_text_in_any_pieces() {
    for valid in VALID {
        check(&[masked(FIN | TEXT, valid.as_bytes())], &[text(valid)]);
        for cut in 0..=valid.len() {
            let (a, b) = valid.as_bytes().split_at(cut); // in the middle of characters too: 6.2.3
            check(&[masked(TEXT, a), masked(FIN, b)], &[text(valid)]);
        }
        let bytes: Vec<_> = valid.bytes().map(|byte| masked(CONTINUATION, &[byte])).collect(); // 6.2.4
        check(&[vec![masked(TEXT, b"")], bytes, vec![masked(FIN, b"")]].concat(), &[text(valid)]);
    }
}

#[test]
fn invalid_text_in_any_pieces() {
    for (invalid, _) in INVALID {
        check_error(&[masked(FIN | TEXT, invalid)], &[], WsError::TextNotUtf8);
        for cut in 0..=invalid.len() {
            let (a, b) = invalid.split_at(cut);
            check_error(&[masked(TEXT, a), masked(FIN, b)], &[], WsError::TextNotUtf8);
        }
        // The same bytes are valid in a binary message.
        check(&[masked(FIN | BINARY, invalid)], &[binary(invalid)]);
    }
}

#[test]
fn invalid_text_fails_at_the_byte() {
    let check = |wire: &[u8], fails_at: usize| {
        let mut decoder = server();
        for (at, byte) in wire.iter().enumerate() {
            let error = feed(&mut decoder, [&[*byte][..]]).error;
            let expected = (at == fails_at).then_some(WsError::TextNotUtf8);
            assert_eq!(error, expected, "byte {at} of {wire:02x?}");
        }
    };
    for &(invalid, at) in INVALID {
        let header = masked(FIN | TEXT, &[]).len();
        // 6.4.3, 6.4.4: one frame, arriving in pieces.
        check(&masked(FIN | TEXT, invalid), header + at.unwrap_or(invalid.len() - 1));
        // 6.4.1, 6.4.2: one byte per fragment; the message never even ends.
        let mut wire = masked(TEXT, &[]);
        invalid.iter().for_each(|&byte| wire.extend(masked(CONTINUATION, &[byte])));
        let per_byte = masked(CONTINUATION, &[0]).len();
        match at {
            Some(at) => check(&wire, header + (at + 1) * per_byte - 1),
            None => {
                wire.extend(masked(FIN, &[]));
                check(&wire, wire.len() - 1);
            }
        }
    }
}
