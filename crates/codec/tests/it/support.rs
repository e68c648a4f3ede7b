//! Values to test with.

use proptest::prelude::*;
use serde_json::{Map, Number, Value};

/// Keys of every kind: names, ids, empty, latin-1, beyond latin-1, too long for an atom.
pub fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z_]{1,12}",
        1 => "[0-9]{1,20}",
        1 => Just(String::new()),
        1 => "[a-zà-ÿ]{1,6}",
        1 => "[a-zа-я]{1,6}",
        1 => "[a-z]{250,260}",
    ]
}

pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ -~]{0,40}",
        1 => "\\PC{0,20}",
        1 => any::<String>(),
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), -1e6..1e6].prop_filter("finite", |value| value.is_finite())
}

fn number(float: impl Strategy<Value = f64>) -> impl Strategy<Value = Number> {
    prop_oneof![
        (0u64..300).prop_map(Number::from),
        (-300i64..0).prop_map(Number::from),
        any::<i32>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        any::<i64>().prop_map(Number::from),
        float.prop_map(|value| Number::from_f64(value).unwrap()),
    ]
}

/// JSON values up to a few levels deep.
pub fn value() -> impl Strategy<Value = Value> {
    value_of(key(), float())
}

/// As [`value`], with other keys.
pub fn value_with_keys(key: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = Value> {
    value_of(key, float())
}

/// As [`value`], with floats that survive JSON text to the last bit; `serde_json` rounds others its own way.
pub fn value_of_exact_floats() -> impl Strategy<Value = Value> {
    value_of(key(), any::<i32>().prop_map(|eighths| f64::from(eighths) / 8.0))
}

fn value_of(
    key: impl Strategy<Value = String> + 'static,
    float: impl Strategy<Value = f64> + 'static,
) -> impl Strategy<Value = Value> {
    let key = key.boxed();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number(float).prop_map(Value::Number),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 64, 20, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..20)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The term with the version byte, which the encoders leave to the envelope.
pub fn versioned(term: &[u8]) -> Vec<u8> {
    [&[guildhall_codec::etf::VERSION], term].concat()
}

/// `depth` lists around a null.
pub fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}
