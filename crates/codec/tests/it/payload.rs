//! Client messages, in both encodings.

use guildhall_codec::{DecodeError, Encoding, EtfError, Inbound, decode_payload, encode_payload_to_gateway};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{nested, value_of_exact_floats};

fn json_payload(text: &str) -> Result<Inbound, DecodeError> {
    decode_payload(Encoding::Json, text.as_bytes())
}

#[track_caller]
fn check(text: &str, op: u64, d: Value) {
    assert_eq!(json_payload(text).unwrap(), Inbound { op, d });
}

#[test]
fn accepts_what_clients_send() {
    check(r#"{"op":1,"d":251}"#, 1, json!(251));
    check(r#" {"d":null,"op":1} "#, 1, json!(null));
    check(r#"{"op":4}"#, 4, json!(null));
    check(r#"{"op":6,"d":{"seq":5},"s":1,"t":"X","unknown":[{"op":9}]}"#, 6, json!({"seq": 5}));
    check(r#"{"op":1,"op":2,"d":1,"d":[2]}"#, 2, json!([2]));
    check(r#"{"op":"1","op":2}"#, 2, json!(null));
    check(r#"{"\u006fp":3}"#, 3, json!(null));
    check(r#"{"op":18446744073709551615}"#, u64::MAX, json!(null));
    let etf = b"\x83t\0\0\0\x03m\0\0\0\x02opa\x02m\0\0\0\x01dw\x06onlinem\0\0\0\x01xj";
    let inbound = decode_payload(Encoding::Etf, etf).unwrap();
    assert_eq!(inbound, Inbound { op: 2, d: json!("online") });
}

#[test]
fn refuses_what_is_no_payload() {
    for text in ["", "{", "null", "[]", "1", "\"x\"", "{\"op\":1}x", "{op:1}", "{\"op\":1,\"d\":\"\u{1}\"}"] {
        assert!(matches!(json_payload(text), Err(DecodeError::Json(_))), "{text}");
    }
    assert!(matches!(decode_payload(Encoding::Json, b"{\"op\":1,\"d\":\"\xff\"}"), Err(DecodeError::Json(_))));
    for text in [
        r#"{"op":-1}"#,
        r#"{"op":1.5}"#,
        r#"{"op":-1.0}"#,
        r#"{"op":1e300}"#,
        r#"{"op":"1"}"#,
        r#"{"op":null}"#,
        r#"{"op":[]}"#,
        r#"{"op":18446744073709551616}"#,
    ] {
        assert!(matches!(json_payload(text), Err(DecodeError::OpType)), "{text}");
    }
    assert!(matches!(json_payload("{}"), Err(DecodeError::OpMissing)));
    assert!(matches!(json_payload(r#"{"d":1}"#), Err(DecodeError::OpMissing)));

    let etf = |term: &[u8]| decode_payload(Encoding::Etf, term);
    assert!(matches!(etf(b"\x83j"), Err(DecodeError::NotAMap)));
    assert!(matches!(etf(b"\x83t\0\0\0\0"), Err(DecodeError::OpMissing)));
    assert!(matches!(etf(b"\x83t\0\0\0\x01m\0\0\0\x02opd\0\x01x"), Err(DecodeError::OpType)));
    assert!(matches!(etf(b"\x83t\0\0\0\x01d\0\x02opa\x01"), Err(DecodeError::Etf(EtfError::AtomKey))));
    assert!(matches!(etf(br#"{"op":1}"#), Err(DecodeError::Etf(EtfError::Version))));
}

#[test]
fn p3_a_zero_fraction_makes_an_integer() {
    check(
        r#"{"op":2.0,"d":{"intents":5.13e2,"a":[0.0,-1.0,1.5,1e300]}}"#,
        2,
        json!({"intents": 513, "a": [0, -1, 1.5, 1e300]}),
    );
    check(r#"{"op":1e0,"d":562949953421311.0}"#, 1, json!(562_949_953_421_311u64));
    // From here on a float may be another integer than was written.
    check(r#"{"op":1,"d":562949953421312.0}"#, 1, json!(562_949_953_421_312.0));
    let float = |value: f64| [&b"F"[..], &value.to_be_bytes()].concat();
    let etf = [b"\x83t\0\0\0\x02m\0\0\0\x02op", &float(2.0)[..], b"m\0\0\0\x01d", &float(1.5)].concat();
    assert_eq!(decode_payload(Encoding::Etf, &etf).unwrap(), Inbound { op: 2, d: json!(1.5) });
    let etf = [b"\x83t\0\0\0\x01m\0\0\0\x02op", &float(1.5)[..]].concat();
    assert!(matches!(decode_payload(Encoding::Etf, &etf), Err(DecodeError::OpType)));
}

#[test]
fn p3_half_a_surrogate_pair_is_replaced() {
    check(
        r#"{"op":3,"d":{"\udc4d":"x\ud83d","whole":"\ud83d\udc4d"}}"#,
        3,
        json!({"\u{fffd}": "x\u{fffd}", "whole": "👍"}),
    );
    // Anything else that is wrong stays wrong.
    assert!(matches!(json_payload(r#"{"op":3,"d":"\ud83d"#), Err(DecodeError::Json(_))));
    assert!(matches!(json_payload(r#"{"op":3,"d":"\ud83"}"#), Err(DecodeError::Json(_))));
}

/// The value with its floats as payloads have them.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => match guildhall_stdx::whole_number(number.as_f64().unwrap()) {
            Some(whole) => whole.into(),
            None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, whole(value))).collect(),
        other => other,
    }
}

#[test]
fn json_depth_is_bounded() {
    let text = |depth: usize| format!("{{\"op\":1,\"d\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(json_payload(&text(120)).is_ok());
    assert!(matches!(json_payload(&text(130)), Err(DecodeError::Json(_))));
    assert!(matches!(json_payload(&text(1_000_000)), Err(DecodeError::Json(_))));
    let ignored = format!("{{\"x\":{}{},\"op\":1}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    // Whether ignored keys may be deep is serde_json's business; that it neither panics nor overflows is ours.
    let _ = json_payload(&ignored);
}

#[test]
fn a_failed_message_leaves_nothing_behind() {
    let bad = std::collections::BTreeMap::from([(vec![1], 2)]);
    for encoding in [Encoding::Json, Encoding::Etf] {
        let mut out = b"kept".to_vec();
        assert!(encode_payload_to_gateway(encoding, 1, &bad, &mut out).is_err());
        assert_eq!(out, b"kept");
    }
    let mut out = Vec::new();
    assert!(encode_payload_to_gateway(Encoding::Etf, 1, &nested(256), &mut out).is_err());
}

proptest! {
    #[test]
    fn p1_both_encodings_mean_the_same(op in any::<u64>(), d in value_of_exact_floats()) {
        let (mut json, mut etf) = (Vec::new(), Vec::new());
        encode_payload_to_gateway(Encoding::Json, op, &d, &mut json).unwrap();
        encode_payload_to_gateway(Encoding::Etf, op, &d, &mut etf).unwrap();
        let expected = Inbound { op, d: whole(d) };
        prop_assert_eq!(decode_payload(Encoding::Json, &json).unwrap(), expected.clone());
        prop_assert_eq!(decode_payload(Encoding::Etf, &etf).unwrap(), expected);
    }

    #[test]
    fn survives_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_payload(Encoding::Json, &bytes);
        let _ = decode_payload(Encoding::Etf, &bytes);
        let _ = decode_payload(Encoding::Etf, &[b"\x83t\0\0\0\x02", bytes.as_slice()].concat());
    }
}
