//! Terms against `eetf`, an independent implementation.
//!
//! Two of its own faults are kept out of the way: it reads latin-1 atoms as UTF-8, and it packs negative integers in
//! lists into byte strings.

use eetf::{Atom, BigInteger, Binary, ByteList, FixInteger, Float, List, Map as EtfMap, Term, Tuple};
use guildhall_codec::{
    DecodeLimits, decode_etf, decode_etf_from_gateway, encode_etf, encode_etf_to_gateway, encode_json, transcode_json,
};
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

use crate::support::{key, text, value, value_with_keys, versioned};

/// Value of a term as decoded by eetf.
fn value_of(term: &Term) -> Value {
    match term {
        Term::Atom(atom) => match atom.name.as_str() {
            "nil" | "null" | "undefined" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            name => name.into(),
        },
        Term::FixInteger(integer) => integer.value.into(),
        Term::BigInteger(integer) => match u64::try_from(&integer.value) {
            Ok(value) => value.into(),
            Err(_) => i64::try_from(&integer.value).unwrap().into(),
        },
        Term::Float(float) => Number::from_f64(float.value).unwrap().into(),
        Term::Binary(binary) => String::from_utf8(binary.bytes.clone()).unwrap().into(),
        Term::ByteList(list) => list.bytes.iter().copied().collect(),
        Term::List(list) => list.elements.iter().map(value_of).collect(),
        Term::Tuple(tuple) => tuple.elements.iter().map(value_of).collect(),
        Term::Map(map) => {
            Value::Object(map.map.iter().map(|(key, value)| (key_of(key), value_of(value))).collect::<Map<_, _>>())
        }
        other => panic!("not something we write: {other}"),
    }
}

/// The key, checked for the form it must have: names are atoms, data is binaries.
fn key_of(term: &Term) -> String {
    match term {
        Term::Atom(atom) => {
            assert!(atom.name.bytes().any(|byte| !byte.is_ascii_digit()), "{term}");
            atom.name.clone()
        }
        Term::Binary(binary) => String::from_utf8(binary.bytes.clone()).unwrap(),
        other => panic!("not a key: {other}"),
    }
}

fn eetf_decode(term: &[u8]) -> Value {
    value_of(&Term::decode(versioned(term).as_slice()).unwrap())
}

fn scalar_term() -> impl Strategy<Value = Term> {
    prop_oneof![
        "[a-z_]{1,10}|nil|null|undefined|true|false|\\PC{1,5}".prop_map(|name| Atom::from(name).into()),
        any::<u8>().prop_map(|value| FixInteger::from(value).into()),
        (0..=i32::MAX).prop_map(|value| FixInteger::from(value).into()),
        any::<u64>().prop_map(|value| BigInteger::from(value).into()),
        any::<i64>().prop_map(|value| BigInteger::from(value).into()),
        any::<f64>().prop_filter_map("finite", |value| Float::try_from(value).ok().map(Term::from)),
        text().prop_map(|text| Binary::from(text.into_bytes()).into()),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| ByteList::from(bytes).into()),
    ]
}

fn binary_key() -> impl Strategy<Value = Term> {
    key().prop_map(|key| Binary::from(key.into_bytes()).into())
}

fn term() -> impl Strategy<Value = Term> {
    scalar_term().prop_recursive(5, 64, 10, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| List::from(items).into()),
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| Tuple::from(items).into()),
            prop::collection::hash_map(binary_key(), inner, 0..8).prop_map(|map| EtfMap::from(map).into()),
        ]
    })
}

/// JSON text that repeats keys and spreads out.
fn sloppy_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just(" true".to_owned()),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
        text().prop_map(|text| Value::from(text).to_string()),
        Just(r#""\u00e9\ud83d\ude00\/\b\n""#.to_owned()),
    ];
    leaf.prop_recursive(4, 80, 30, |inner| {
        let key = prop_oneof![6 => "\"[a-e]\"", 1 => "\"[a-z]{1,3}\"", 1 => Just("\"\\u0061\"".to_owned())];
        let entry = (key, inner.clone()).prop_map(|(key, value)| format!("{key} :{value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(|items| format!("[{} ]", items.join(", "))),
            prop::collection::vec(entry, 0..30).prop_map(|entries| format!("{{\n{}}}", entries.join(" ,"))),
        ]
    })
}

proptest! {
    #[test]
    fn eetf_reads_what_we_write(
        value in value_with_keys(key().prop_filter("no latin-1 beyond ASCII", |key| {
            key.is_ascii() || key.chars().any(|char| u32::from(char) > 0xff)
        })),
    ) {
        let mut out = Vec::new();
        encode_etf(&value, &mut out).unwrap();
        prop_assert_eq!(eetf_decode(&out), value);
    }

    #[test]
    fn we_read_what_we_write(value in value()) {
        let mut out = Vec::new();
        encode_etf(&value, &mut out).unwrap();
        let decoded = decode_etf_from_gateway(&versioned(&out), DecodeLimits::default());
        prop_assert_eq!(decoded.as_ref(), Ok(&value));
        out.clear();
        encode_etf_to_gateway(&value, &mut out).unwrap();
        prop_assert_eq!(decode_etf(&versioned(&out), DecodeLimits::default()), Ok(value));
    }

    #[test]
    fn we_read_what_eetf_writes(term in term()) {
        let mut out = Vec::new();
        term.encode(&mut out).unwrap();
        prop_assert_eq!(decode_etf(&out, DecodeLimits::default()), Ok(value_of(&term)));
    }

    #[test]
    fn transcoding_equals_parsing_and_encoding(value in value()) {
        let mut json = Vec::new();
        encode_json(&value, &mut json).unwrap();
        let (mut transcoded, mut encoded) = (Vec::new(), Vec::new());
        transcode_json(&json, &mut transcoded).unwrap();
        // The text lists keys in the order the tree does: even the bytes are the same. Floats are compared as parsed.
        encode_etf(&serde_json::from_slice::<Value>(&json).unwrap(), &mut encoded).unwrap();
        prop_assert_eq!(transcoded, encoded);
    }

    #[test]
    fn transcoding_sloppy_text_equals_parsing_and_encoding(json in sloppy_json()) {
        let (mut transcoded, mut encoded) = (Vec::new(), Vec::new());
        let value: Value = serde_json::from_str(&json).unwrap();
        transcode_json(json.as_bytes(), &mut transcoded).unwrap();
        encode_etf(&value, &mut encoded).unwrap();
        // Same length: no key is there twice, which neither decoder would show.
        prop_assert_eq!(transcoded.len(), encoded.len());
        let decoded = decode_etf_from_gateway(&versioned(&transcoded), DecodeLimits::default());
        prop_assert_eq!(decoded.as_ref(), Ok(&value));
        prop_assert_eq!(eetf_decode(&transcoded), value);
    }
}
