//! Terms from a peer: every accepted tag, every refusal, and lengths that lie.

use guildhall_codec::{DecodeLimits, EtfError, decode_etf, decode_etf_from_gateway};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{value, versioned};

fn decode(term: &[u8]) -> Result<Value, EtfError> {
    decode_etf(&versioned(term), DecodeLimits::default())
}

#[track_caller]
fn check(term: &[u8], expected: Value) {
    assert_eq!(decode(term), Ok(expected), "{}", term.escape_ascii());
}

#[track_caller]
fn check_error(term: &[u8], expected: EtfError) {
    assert_eq!(decode(term), Err(expected), "{}", term.escape_ascii());
}

#[test]
fn accepts_every_listed_tag() {
    check(b"a\xff", json!(255));
    check(b"b\0\0\0\x07", json!(7));
    check(b"b\xff\xff\xff\xff", json!(-1));
    check(b"n\0\0", json!(0));
    check(b"n\0\x01", json!(0));
    check(b"n\x01\x01\x05", json!(-5));
    check(b"n\x08\0\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX));
    check(b"n\x08\x01\0\0\0\0\0\0\0\x80", json!(i64::MIN));
    check(b"o\0\0\0\x02\0\0\x01", json!(256));
    check(b"F\x3f\xf8\0\0\0\0\0\0", json!(1.5));
    check(b"c1.50000000000000000000e+00\0\0\0\0\0", json!(1.5));
    check(b"c-2.50000000000000000000e-01\0\0\0\0", json!(-0.25));
    check(b"d\0\x06online", json!("online"));
    check(b"d\0\x01\xe9", json!("é"));
    check(b"s\x01\xe9", json!("é"));
    check(b"v\0\x02\xc3\xa9", json!("é"));
    check(b"w\x02\xc3\xa9", json!("é"));
    for null in [&b"nil"[..], b"null", b"undefined"] {
        check(&[b"w", &[null.len() as u8][..], null].concat(), json!(null));
    }
    check(b"w\x04true", json!(true));
    check(b"d\0\x05false", json!(false));
    check(b"m\0\0\0\x02\xc3\xa9", json!("é"));
    check(b"m\0\0\0\x04true", json!("true"));
    check(b"k\0\x02\0\x01", json!([0, 1]));
    check(b"k\0\0", json!([]));
    check(b"l\0\0\0\x02a\x01a\x02j", json!([1, 2]));
    check(b"l\0\0\0\0j", json!([]));
    check(b"j", json!([]));
    check(b"t\0\0\0\0", json!({}));
    check(b"t\0\0\0\x02m\0\0\0\x02opa\x01m\0\0\0\x01dj", json!({"op": 1, "d": []}));
    check(b"t\0\0\0\x02m\0\0\0\x01aa\x01m\0\0\0\x01aa\x02", json!({"a": 2}));
    check(b"h\x02a\0w\x03nil", json!([0, null]));
    check(b"h\0", json!([]));
    check(b"i\0\0\0\x01h\x01a\x05", json!([[5]]));
}

#[test]
fn refuses_the_rest() {
    assert_eq!(decode_etf(b"", DecodeLimits::default()), Err(EtfError::Version));
    assert_eq!(decode_etf(b"\x82a\x01", DecodeLimits::default()), Err(EtfError::Version));
    assert_eq!(decode_etf(b"{}", DecodeLimits::default()), Err(EtfError::Version));
    check_error(b"", EtfError::Truncated);
    check_error(b"a\x01a", EtfError::TrailingBytes { trailing_bytes: 1 });
    check_error(b"\x83a\x01", EtfError::UnknownTag { tag: 131 });
    check_error(b"P\0\0\0\x02x\x9c", EtfError::Compressed);
    check_error(b"gw\x01n", EtfError::UnknownTag { tag: b'g' });
    check_error(b"l\0\0\0\x01a\x01a\x02", EtfError::ImproperList);
    check_error(b"m\0\0\0\x01\xff", EtfError::NotUtf8);
    check_error(b"w\x01\xff", EtfError::NotUtf8);
    check_error(b"n\x09\0\0\0\0\0\0\0\0\0\x01", EtfError::IntegerRange);
    check_error(b"n\x08\x01\x01\0\0\0\0\0\0\x80", EtfError::IntegerRange);
    check_error(b"n\x01\x02\x05", EtfError::IntegerRange);
    check_error(b"o\xff\xff\xff\xff\0", EtfError::IntegerRange);
    check_error(b"F\x7f\xf8\0\0\0\0\0\0", EtfError::Float);
    check_error(b"F\x7f\xf0\0\0\0\0\0\0", EtfError::Float);
    check_error(&[b"cinf".as_slice(), &[0; 28]].concat(), EtfError::Float);
    check_error(&[b"c".as_slice(), &[0; 31]].concat(), EtfError::Float);
    check_error(&[b"c".as_slice(), &[0xff; 31]].concat(), EtfError::Float);
    check_error(b"t\0\0\0\x01a\x01a\x01", EtfError::KeyType { tag: b'a' });
}

#[test]
fn atom_keys_are_for_clients_only() {
    for key in [&b"d\0\x02op"[..], b"s\x02op", b"v\0\x02op", b"w\x02op"] {
        let term = [b"t\0\0\0\x01", key, b"a\x01"].concat();
        check_error(&term, EtfError::AtomKey);
        let term = versioned(&term);
        let value = decode_etf_from_gateway(&term, DecodeLimits::default());
        assert_eq!(value, Ok(json!({"op": 1})));
    }
}

#[test]
fn lengths_are_checked_before_they_are_believed() {
    for term in [
        &b"l\xff\xff\xff\xffa\x01j"[..],
        b"i\xff\xff\xff\xffa\x01",
        b"t\xff\xff\xff\xffm\0\0\0\0a\x01",
        b"m\xff\xff\xff\xffabc",
        b"k\xff\xffabc",
        b"h\xffa\x01",
        b"v\xff\xffabc",
        b"w\xffabc",
    ] {
        check_error(term, EtfError::Truncated);
    }
    // Each list alone could have its declared length, both together cannot: refused before their content is read.
    check_error(b"l\0\0\0\x05l\0\0\0\x05\xff\xff\xff\xff\xff\xff\xff", EtfError::Truncated);
    // A list's tail counts as well.
    check_error(b"l\0\0\0\x01", EtfError::Truncated);
    check_error(b"l\0\0\0\x01\xff", EtfError::Truncated);
}

#[test]
fn depth_is_bounded() {
    let term = |depth: usize| versioned(&[[b'h', 1].repeat(depth), b"a\x05".to_vec()].concat());
    let limits = DecodeLimits { depth_max: 3 };
    assert_eq!(decode_etf(&term(3), limits), Ok(json!([[[5]]])));
    assert_eq!(decode_etf(&term(4), limits), Err(EtfError::TooDeep { depth_max: 3 }));
    assert!(decode_etf(&term(256), DecodeLimits::default()).is_ok());
    let too_deep = Err(EtfError::TooDeep { depth_max: 256 });
    assert_eq!(decode_etf(&term(257), DecodeLimits::default()), too_deep);
    assert_eq!(decode_etf(&term(1_000_000), DecodeLimits::default()), too_deep);
    for leaf in [&b"j"[..], b"k\0\x01\x05", b"h\0"] {
        let around = |depth: usize| versioned(&[[b'h', 1].repeat(depth), leaf.to_vec()].concat());
        assert!(decode_etf(&around(255), DecodeLimits::default()).is_ok());
        assert_eq!(decode_etf(&around(256), DecodeLimits::default()), too_deep);
    }
    let empty_map = b"t\0\0\0\0";
    let wide = versioned(&[&b"i\0\0\x01\x2c"[..], &empty_map.repeat(300)].concat());
    assert!(decode_etf(&wide, DecodeLimits::default()).is_ok());
    let maps = versioned(&b"t\0\0\0\x01m\0\0\0\0".repeat(300));
    assert_eq!(decode_etf(&maps, DecodeLimits::default()), too_deep);
}

proptest! {
    /// No input panics, and each prefix of a good term is an error.
    #[test]
    fn survives_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn survives_damage(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut term = Vec::new();
        guildhall_codec::encode_etf_to_gateway(&value, &mut term).unwrap();
        let at = at.index(term.len());
        prop_assert!(decode(&term[..at]).is_err());
        term[at] = byte;
        let _ = decode(&term);
    }
}
