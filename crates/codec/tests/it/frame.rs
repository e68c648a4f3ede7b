//! Frames: both ways of writing one, at every length where something changes.

use guildhall_codec::{
    DecodeLimits, DispatchFrame, EVENT_NAME_BYTES_MAX, EncodeError, Encoding, Framing, control_payload,
    decode_etf_from_gateway,
};
use guildhall_ws_proto::Opcode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Etf];

/// Splits a frame by hand, as a client does: opcode and payload.
fn parse_websocket(frame: &[u8]) -> (u8, &[u8]) {
    assert_eq!(frame[0] & 0xf0, 0x80, "FIN, no extension bits");
    let (length, header_bytes) = match frame[1] {
        length @ 0..126 => (u64::from(length), 2),
        126 => {
            let length = u16::from_be_bytes(frame[2..4].try_into().unwrap());
            assert!(length >= 126, "shortest form");
            (length.into(), 4)
        }
        127 => {
            let length = u64::from_be_bytes(frame[2..10].try_into().unwrap());
            assert!(length > 0xffff, "shortest form");
            (length, 10)
        }
        _ => panic!("masked"),
    };
    let payload = &frame[header_bytes..];
    assert_eq!(payload.len() as u64, length);
    (frame[0] & 0x0f, payload)
}

fn parse_payload(encoding: Encoding, payload: &[u8]) -> Value {
    match encoding {
        Encoding::Json => serde_json::from_slice(payload).unwrap(),
        Encoding::Etf => decode_etf_from_gateway(payload, DecodeLimits::default()).unwrap(),
    }
}

/// 1 to 20 digits, and both sides of every change of an integer's width.
fn seqs() -> Vec<u64> {
    let mut seqs: Vec<u64> = (0..20).map(|digits| 10u64.pow(digits)).collect();
    for edge in [9, 99, 255, 256, 9_999, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, 1 << 56, u64::MAX] {
        seqs.extend([edge - 1, edge]);
    }
    seqs
}

#[test]
fn json_is_the_documented_text() {
    let d = json!({"channel_id": "1100000000000000010", "timestamp": 1714564800});
    let mut frame = DispatchFrame::new(Encoding::Json, "TYPING_START", &d).unwrap();
    let expected =
        r#"{"t":"TYPING_START","s":42,"op":0,"d":{"channel_id":"1100000000000000010","timestamp":1714564800}}"#;
    assert_eq!(frame.write_for(42, Framing::None), expected.as_bytes());
    assert_eq!(frame.body(), &expected.as_bytes()[38..expected.len() - 1]);
    assert_eq!(frame.name(), b"TYPING_START");
    let text = Framing::WebSocket { opcode: Opcode::Text };
    assert_eq!(frame.write_for(42, text), [&[0x81, expected.len() as u8], expected.as_bytes()].concat());
}

#[test]
fn etf_is_the_documented_order() {
    let mut frame = DispatchFrame::new(Encoding::Etf, "READY", &()).unwrap();
    let expected = b"\x83t\0\0\0\x04d\0\x01dd\0\x03nild\0\x02opa\0d\0\x01sa\x01d\0\x01td\0\x05READY";
    assert_eq!(frame.write_for(1, Framing::None), expected);
    assert_eq!(
        frame.write_for(1, Framing::websocket(Encoding::Etf)),
        [&[0x82, expected.len() as u8], expected.as_slice()].concat()
    );
}

#[test]
fn f1_any_seq_any_length_decodes_and_the_body_stays_in_place() {
    for encoding in ENCODINGS {
        // Around the envelopes' own 30 to 80 bytes this covers payloads on both sides of 125, 126, 65535 and 65536.
        let lengths = (20..140).chain(65_420..65_540).chain([0, 1_000_000]);
        for length in lengths {
            let d = Value::from("x".repeat(length));
            let mut frame = DispatchFrame::new(encoding, "MESSAGE_CREATE", &d).unwrap();
            let body_at = frame.body().as_ptr();
            let seq = seqs()[length % seqs().len()];
            let (opcode, payload) = parse_websocket(frame.write_for(seq, Framing::websocket(encoding)));
            assert_eq!(opcode, if encoding == Encoding::Json { 1 } else { 2 });
            let expected = json!({"op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": d});
            assert_eq!(parse_payload(encoding, payload), expected);
            assert_eq!(frame.body().as_ptr(), body_at);
        }
    }
}

#[test]
fn f2_parts_are_the_same_bytes() {
    let longest = "N".repeat(EVENT_NAME_BYTES_MAX);
    let framings =
        [Framing::None, Framing::WebSocket { opcode: Opcode::Text }, Framing::WebSocket { opcode: Opcode::Binary }];
    let mut payload_lengths = std::collections::BTreeSet::new();
    for encoding in ENCODINGS {
        for name in ["A", "GUILD_CREATE", &longest] {
            for length in (0..130).step_by(3).chain([65_450, 65_536, 70_000]) {
                let body = vec![b'x'; length];
                // One frame for all recipients, so that each write starts from what the one before left.
                let mut frame = DispatchFrame::from_body(encoding, name, &body).unwrap();
                for (index, &seq) in seqs().iter().enumerate() {
                    let framing = framings[index % framings.len()];
                    let parts = frame.parts(seq, framing);
                    let pieces = [&*parts.head, parts.body, &*parts.tail].concat();
                    assert_eq!(parts.len(), pieces.len());
                    assert_eq!(parts.slices(0).concat(), pieces);
                    let fresh =
                        DispatchFrame::from_body(encoding, name, &body).unwrap().write_for(seq, framing).to_vec();
                    assert!(fresh == pieces, "{encoding:?} {name} {length} {seq} {framing:?}");
                    assert!(frame.write_for(seq, framing) == pieces, "{encoding:?} {name} {length} {seq} {framing:?}");
                    assert_eq!(frame.payload_bytes(seq), frame.parts(seq, Framing::None).len());
                    if framing != Framing::None {
                        payload_lengths.insert(parse_websocket(&pieces).1.len());
                    }
                }
            }
        }
    }
    assert!([125, 126].iter().all(|length| payload_lengths.contains(length)));
}

#[test]
fn f2_lengths_where_the_header_grows() {
    for encoding in ENCODINGS {
        let envelope = DispatchFrame::from_body(encoding, "A", b"").unwrap().parts(1, Framing::None).len();
        for (payload, header) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let body = vec![b'x'; payload - envelope];
            let mut frame = DispatchFrame::from_body(encoding, "A", &body).unwrap();
            let framing = Framing::websocket(encoding);
            assert_eq!(frame.parts(1, framing).len(), header + payload);
            let written = frame.write_for(1, framing);
            assert_eq!(written.len(), header + payload);
            assert_eq!(parse_websocket(written).1.len(), payload);
        }
    }
}

#[test]
fn parts_resume_after_a_partial_write() {
    for encoding in ENCODINGS {
        let mut frame = DispatchFrame::new(encoding, "PRESENCE_UPDATE", "some body").unwrap();
        let framing = Framing::websocket(encoding);
        let whole = frame.write_for(12, framing).to_vec();
        for skip in 0..=whole.len() {
            assert_eq!(frame.parts(12, framing).slices(skip).concat(), whole[skip..]);
        }
        assert_eq!(frame.parts(12, framing).slices(whole.len() + 9).concat(), b"");
    }
}

#[test]
fn raw_bodies_fit_both_encodings() {
    let raw = RawValue::from_string(r#"{"a":[1,"t"]}"#.to_owned()).unwrap();
    for encoding in ENCODINGS {
        let mut frame = DispatchFrame::new(encoding, "X", &raw).unwrap();
        let payload = parse_payload(encoding, frame.write_for(7, Framing::None));
        assert_eq!(payload, json!({"op": 0, "s": 7, "t": "X", "d": {"a": [1, "t"]}}));
    }
}

#[test]
fn only_event_names_are_event_names() {
    let too_long = "N".repeat(EVENT_NAME_BYTES_MAX + 1);
    for name in ["", "ready", "A\"B", "A B", "É", "A\n", &too_long] {
        for encoding in ENCODINGS {
            let result = DispatchFrame::new(encoding, name, &());
            assert!(matches!(result, Err(EncodeError::EventName { .. })), "{name}");
        }
    }
}

#[test]
fn control_payloads() {
    assert_eq!(control_payload(Encoding::Json, 11, &()).unwrap(), br#"{"t":null,"s":null,"op":11,"d":null}"#);
    let ack = control_payload(Encoding::Etf, 11, &()).unwrap();
    let expected = b"\x83\x74\0\0\0\x04\x64\0\x01d\x64\0\x03nil\x64\0\x02op\x61\x0b\x64\0\x01s\x64\0\x03nil\
                     \x64\0\x01t\x64\0\x03nil";
    assert_eq!(ack, expected);
    assert_eq!(ack.len(), 43);

    let hello = json!({"heartbeat_interval": 41250, "_trace": ["[\"gw-1\"]"]});
    for encoding in ENCODINGS {
        let payload = control_payload(encoding, 10, &hello).unwrap();
        let expected = json!({"op": 10, "d": hello, "s": null, "t": null});
        assert_eq!(parse_payload(encoding, &payload), expected);
        let invalid = control_payload(encoding, 9, &false).unwrap();
        assert_eq!(parse_payload(encoding, &invalid)["d"], json!(false));
    }
}
