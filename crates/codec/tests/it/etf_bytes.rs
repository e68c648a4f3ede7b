//! The exact bytes of each shape, by hand from the format's description.

use std::collections::BTreeMap;
use std::fmt;

use guildhall_codec::{
    DecodeLimits, EncodeError, decode_etf_from_gateway, encode_etf, encode_etf_to_gateway, encode_json, transcode_json,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{nested, versioned};

#[track_caller]
fn check<T: Serialize + ?Sized>(value: &T, expected: &[u8]) {
    let mut out = b"kept".to_vec();
    encode_etf(value, &mut out).unwrap();
    assert_eq!(out.escape_ascii().to_string(), [b"kept", expected].concat().escape_ascii().to_string());
}

#[test]
fn scalars() {
    check(&(), b"d\0\x03nil");
    check(&None::<u8>, b"d\0\x03nil");
    check(&true, b"d\0\x04true");
    check(&false, b"d\0\x05false");
    check(&Some("é"), b"m\0\0\0\x02\xc3\xa9");
    check("", b"m\0\0\0\0");
    check(&'x', b"m\0\0\0\x01x");
    check(&1.5f64, b"F\x3f\xf8\0\0\0\0\0\0");
    check(&1.5f32, b"F\x3f\xf8\0\0\0\0\0\0");
    check(&f64::NAN, b"d\0\x03nil");
    check(&f32::INFINITY, b"d\0\x03nil");
}

#[test]
fn integers() {
    check(&0u8, b"a\0");
    check(&255u64, b"a\xff");
    check(&256u64, b"b\0\0\x01\0");
    check(&-1i8, b"b\xff\xff\xff\xff");
    check(&i32::MAX, b"b\x7f\xff\xff\xff");
    check(&(i32::MAX as u64), b"b\x7f\xff\xff\xff");
    check(&i64::from(i32::MIN), b"b\x80\0\0\0");
    check(&(i32::MAX as u64 + 1), b"n\x04\0\0\0\0\x80");
    check(&(i64::from(i32::MIN) - 1), b"n\x04\x01\x01\0\0\x80");
    check(&(1u64 << 32), b"n\x05\0\0\0\0\0\x01");
    check(&u64::MAX, b"n\x08\0\xff\xff\xff\xff\xff\xff\xff\xff");
    check(&i64::MIN, b"n\x08\x01\0\0\0\0\0\0\0\x80");
    check(&i128::from(u64::MAX), b"n\x08\0\xff\xff\xff\xff\xff\xff\xff\xff");
    check(&-5i128, b"b\xff\xff\xff\xfb");
    check(&7u128, b"a\x07");
}

#[test]
fn lists() {
    check(&[0u8; 0], b"j");
    check(&(), b"d\0\x03nil");
    check(&[1u8, 2], b"l\0\0\0\x02a\x01a\x02j");
    check(&(1u8, "a"), b"l\0\0\0\x02a\x01m\0\0\0\x01aj");
    let unknown_length = (0u8..3).filter(|n| n % 2 == 0);
    struct Iter<I>(I);
    impl<I: Iterator<Item = u8> + Clone> Serialize for Iter<I> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(self.0.clone())
        }
    }
    check(&Iter(unknown_length.clone()), b"l\0\0\0\x02a\0a\x02j");
    check(&Iter(unknown_length.filter(|_| false)), b"j");

    struct Bytes;
    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&[9, 8])
        }
    }
    check(&Bytes, b"l\0\0\0\x02a\x09a\x08j");
}

#[derive(Serialize)]
enum Kind {
    Unit,
    New(u8),
    Tuple(u8, u8),
    Struct { a: u8 },
}

#[test]
fn structs_and_variants() {
    #[derive(Serialize)]
    struct Wrapper(u8);
    #[derive(Serialize)]
    struct Fields {
        id: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        nick: Option<u8>,
        #[serde(rename = "7")]
        digit: u8,
    }
    check(&Wrapper(3), b"a\x03");
    check(&Fields { id: 1, nick: None, digit: 2 }, b"t\0\0\0\x02d\0\x02ida\x01d\0\x017a\x02");
    check(&Fields { id: 1, nick: Some(5), digit: 2 }, b"t\0\0\0\x03d\0\x02ida\x01d\0\x04nicka\x05d\0\x017a\x02");
    check(&Kind::Unit, b"m\0\0\0\x04Unit");
    check(&Kind::New(1), b"t\0\0\0\x01d\0\x03Newa\x01");
    check(&Kind::Tuple(1, 2), b"t\0\0\0\x01d\0\x05Tuplel\0\0\0\x02a\x01a\x02j");
    check(&Kind::Struct { a: 1 }, b"t\0\0\0\x01d\0\x06Structt\0\0\0\x01d\0\x01aa\x01");
}

#[test]
fn dynamic_keys() {
    check(&json!({}), b"t\0\0\0\0");
    check(&json!({"name": 1}), b"t\0\0\0\x01d\0\x04namea\x01");
    check(&json!({"12": 1}), b"t\0\0\0\x01m\0\0\0\x0212a\x01");
    check(&json!({"": 1}), b"t\0\0\0\x01m\0\0\0\0a\x01");
    check(&json!({"é": 1}), b"t\0\0\0\x01d\0\x01\xe9a\x01");
    check(&json!({"日": 1}), b"t\0\0\0\x01m\0\0\0\x03\xe6\x97\xa5a\x01");
    let (longest, too_long) = ("k".repeat(255), "k".repeat(256));
    check(&json!({ longest.as_str(): 1 }), &[b"t\0\0\0\x01d\0\xff", longest.as_bytes(), b"a\x01"].concat());
    check(&json!({ too_long.as_str(): 1 }), &[b"t\0\0\0\x01m\0\0\x01\0", too_long.as_bytes(), b"a\x01"].concat());
    // 255 characters of latin-1 fit, although they are 510 bytes of UTF-8.
    check(&json!({ "é".repeat(255): 1 }), &[b"t\0\0\0\x01d\0\xff".as_slice(), &[0xe9; 255], b"a\x01"].concat());

    check(&BTreeMap::from([(5u64, ())]), b"t\0\0\0\x01m\0\0\0\x015d\0\x03nil");
    check(&BTreeMap::from([(-5i8, ())]), b"t\0\0\0\x01m\0\0\0\x02-5d\0\x03nil");
    check(&BTreeMap::from([(true, ())]), b"t\0\0\0\x01d\0\x04trued\0\x03nil");
    check(&BTreeMap::from([('c', ())]), b"t\0\0\0\x01d\0\x01cd\0\x03nil");
    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    enum Platform {
        #[serde(rename = "desktop")]
        Desktop,
    }
    check(&BTreeMap::from([(Platform::Desktop, "idle")]), b"t\0\0\0\x01d\0\x07desktopm\0\0\0\x04idle");
}

#[test]
fn keys_to_the_gateway_are_binaries() {
    let mut out = Vec::new();
    encode_etf_to_gateway(&(json!({"op": 1}), Kind::Struct { a: 1 }), &mut out).unwrap();
    assert_eq!(
        out,
        b"l\0\0\0\x02t\0\0\0\x01m\0\0\0\x02opa\x01t\0\0\0\x01m\0\0\0\x06Structt\0\0\0\x01m\0\0\0\x01aa\x01j"
    );
}

/// An id as the model writes it: a number here, a string in JSON.
struct Id(u64);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(&self.0) } else { serializer.serialize_u64(self.0) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<@{}>", self.0)
    }
}

#[test]
fn ids_are_integers_in_etf_and_strings_in_json() {
    check(&Id(1 << 40), b"n\x06\0\0\0\0\0\0\x01");
    let mut json = Vec::new();
    encode_json(&Id(1 << 40), &mut json).unwrap();
    assert_eq!(json, b"\"1099511627776\"");
}

#[test]
fn displayed_values_are_binaries() {
    struct Shown(Id);
    impl Serialize for Shown {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&self.0)
        }
    }
    check(&Shown(Id(12)), b"m\0\0\0\x05<@12>");
}

#[test]
fn raw_values_become_the_terms_they_stand_for() {
    #[derive(Serialize)]
    struct Event {
        id: u8,
        raw: Box<RawValue>,
        after: u8,
    }
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    check(
        &Event { id: 1, raw: raw(r#" {"a" : ["\u00e9", null, -7, true]} "#), after: 2 },
        b"t\0\0\0\x03d\0\x02ida\x01d\0\x03rawt\0\0\0\x01d\0\x01al\0\0\0\x04m\0\0\0\x02\xc3\xa9d\0\x03nil\
          b\xff\xff\xff\xf9d\0\x04truejd\0\x05aftera\x02",
    );
    check(&*raw("[]"), b"j");
    check(&vec![raw("1"), raw("2.0")], b"l\0\0\0\x02a\x01F\x40\0\0\0\0\0\0\0j");
    // The text is only checked for its form when it is taken in; half a surrogate pair shows here.
    let mut out = b"kept".to_vec();
    let result = encode_etf(&(1, raw(r#""\ud800""#)), &mut out);
    assert!(matches!(result, Err(EncodeError::Json(_))));
    assert_eq!(out, b"kept");
}

#[test]
fn of_equal_keys_the_last_wins() {
    #[derive(Serialize)]
    struct Message {
        id: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }
    let rest = BTreeMap::from([("id".to_owned(), json!(2)), ("x".to_owned(), json!({}))]);
    check(&Message { id: 1, rest }, b"t\0\0\0\x02d\0\x02ida\x02d\0\x01xt\0\0\0\0");

    let check_text = |json: &str, expected: &[u8]| {
        let mut out = Vec::new();
        transcode_json(json.as_bytes(), &mut out).unwrap();
        assert_eq!(out, expected, "{json}");
    };
    check_text(
        r#"{"a":1,"b":{"c":1,"c":2},"a":{"d":3,"d":4}}"#,
        b"t\0\0\0\x02d\0\x01bt\0\0\0\x01d\0\x01ca\x02d\0\x01at\0\0\0\x01d\0\x01da\x04",
    );
    // Keys that only differ in the middle are different keys.
    let alike = |middle: char| format!("long_start_{middle}_long_end");
    check(
        &json!({ alike('a'): 1, alike('b'): 2 }),
        b"t\0\0\0\x02d\0\x15long_start_a_long_enda\x01d\0\x15long_start_b_long_enda\x02",
    );
    // Enough entries for the sorted search, one pair far apart.
    let entries: Vec<_> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
    let text = format!("{{\"k7\":99,{},\"k39\":100}}", entries.join(","));
    let mut out = Vec::new();
    transcode_json(text.as_bytes(), &mut out).unwrap();
    assert_eq!(out[..5], *b"t\0\0\0\x28");
    let value = decode_etf_from_gateway(&versioned(&out), DecodeLimits::default()).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(&text).unwrap());
}

#[test]
fn refusals_leave_nothing_behind() {
    #[track_caller]
    fn check_error<T: Serialize>(value: T, is_expected: impl FnOnce(&EncodeError) -> bool) {
        let mut out = b"kept".to_vec();
        let error = encode_etf(&("written first", value), &mut out).unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        assert_eq!(out, b"kept");
    }
    let is_key_type = |error: &EncodeError| matches!(error, EncodeError::KeyType);
    let is_range = |error: &EncodeError| matches!(error, EncodeError::IntegerRange);
    check_error(BTreeMap::from([(vec![1], 1)]), is_key_type);
    check_error(BTreeMap::from([((), 1)]), is_key_type);
    check_error(BTreeMap::from([(Some(1), 1)]), is_key_type);
    check_error(u128::from(u64::MAX) + 1, is_range);
    check_error(i128::from(i64::MIN) - 1, is_range);

    struct Refuses;
    impl Serialize for Refuses {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }
    check_error(Refuses, |error| error.to_string() == "no");
}

#[test]
fn depth_is_bounded() {
    let is_too_deep = |result: Result<(), EncodeError>| matches!(result, Err(EncodeError::TooDeep { depth_max: 256 }));
    let mut out = Vec::new();
    encode_etf(&nested(256), &mut out).unwrap();
    assert!(decode_etf_from_gateway(&versioned(&out), DecodeLimits::default()).is_ok());
    out.clear();
    assert!(is_too_deep(encode_etf(&nested(257), &mut out)));

    // Neighbours are no levels.
    let wide = json!(vec![json!({"a": [{}]}); 300]);
    out.clear();
    encode_etf(&wide, &mut out).unwrap();
    let decoded = decode_etf_from_gateway(&versioned(&out), DecodeLimits::default());
    assert_eq!(decoded, Ok(wide));
    out.clear();

    let text = |depth: usize| format!("{}null{}", "[".repeat(depth), "]".repeat(depth));
    let mut from_text = Vec::new();
    transcode_json(text(256).as_bytes(), &mut from_text).unwrap();
    encode_etf(&nested(256), &mut out).unwrap();
    assert_eq!(from_text, out);
    assert!(is_too_deep(transcode_json(text(257).as_bytes(), &mut out)));
    assert!(is_too_deep(transcode_json(text(1_000_000).as_bytes(), &mut out)));
    // The levels around a raw value count.
    let raw = RawValue::from_string(text(256)).unwrap();
    assert!(is_too_deep(encode_etf(&[raw], &mut out)));
    let objects = format!("{}1{}", "{\"a\":".repeat(257), "}".repeat(257));
    assert!(is_too_deep(transcode_json(objects.as_bytes(), &mut out)));
    assert_eq!(out, from_text);
}

#[test]
fn text_that_is_no_json_is_refused() {
    for text in ["", "{", "[1,]", "nul", "1 2", "{1:2}", "\"\\ud800\"", "\"\u{1}\"", "1e999", "{\"a\":1}x"] {
        let mut out = b"kept".to_vec();
        let result = transcode_json(text.as_bytes(), &mut out);
        assert!(matches!(result, Err(EncodeError::Json(_))), "{text}");
        assert_eq!(out, b"kept");
    }
    let mut out = Vec::new();
    assert!(matches!(transcode_json(b"\"\xff\"", &mut out), Err(EncodeError::Json(_))));
}
