//! Canonical: a fingerprint of JSON text that depends on its values, not on their spelling.
//!
//! Invariants  F1 the order of an object's keys, white space, escapes and the spelling of numbers have no effect; the
//!             order of arrays has. (test `f1_*`)
//! Limits      no tree is built. Text that is nested deeper than the parser allows is hashed byte by byte; numbers
//!             beyond 64 bits are compared as the nearest double.

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use std::{
    fmt,
    hash::{BuildHasher, Hasher},
};

/// Fingerprint of a JSON text.
pub(crate) fn fingerprint<S: BuildHasher>(json: &[u8], hasher: &S) -> u64 {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Print(hasher).deserialize(&mut reader).unwrap_or_else(|_| hasher.hash_one(json))
}

struct Print<'a, S>(&'a S);

impl<S> Clone for Print<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Print<'_, S> {}

impl<'de, S: BuildHasher> DeserializeSeed<'de> for Print<'_, S> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: BuildHasher> Visitor<'de> for Print<'_, S> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(self.0.hash_one((b'n', b'u')))
    }

    fn visit_bool<E>(self, value: bool) -> Result<u64, E> {
        Ok(self.0.hash_one(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<u64, E> {
        Ok(self.0.hash_one(i128::from(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<u64, E> {
        Ok(self.0.hash_one(i128::from(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<u64, E> {
        let is_integer = value.fract() == 0.0 && value.abs() < 2_f64.powi(64);
        Ok(if is_integer { self.0.hash_one(value as i128) } else { self.0.hash_one(value.to_bits()) })
    }

    fn visit_str<E>(self, value: &str) -> Result<u64, E> {
        Ok(self.0.hash_one(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut hasher = self.0.build_hasher();
        hasher.write_u8(b'[');
        while let Some(item) = items.next_element_seed(self)? {
            hasher.write_u64(item);
        }
        Ok(hasher.finish())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<u64, A::Error> {
        // A sum has no order.
        let mut sum = 0_u64;
        while let Some(key) = entries.next_key_seed(self)? {
            sum = sum.wrapping_add(self.0.hash_one((key, entries.next_value_seed(self)?)));
        }
        Ok(self.0.hash_one((b'{', sum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executions::SameEverywhere;
    use std::hash::RandomState;

    #[test]
    fn f1_values_count_and_spelling_does_not() {
        let hasher = RandomState::new();
        let check = |a: &str, b: &str, is_same: bool| {
            let (one, other) = (fingerprint(a.as_bytes(), &hasher), fingerprint(b.as_bytes(), &hasher));
            assert_eq!(one == other, is_same, "{a} {b}");
            let (one, other) = (fingerprint(a.as_bytes(), &SameEverywhere), fingerprint(b.as_bytes(), &SameEverywhere));
            assert_eq!(one == other, is_same, "on every node: {a} {b}");
        };
        check(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#, "{ \"b\" : {\"d\":null, \"c\":[1, 2]},\n\"a\":1}", true);
        check(r#"{"a":1}"#, r#"{"a":1.0}"#, true);
        check("0", "-0.0", true);
        check("1e2", "100", true);
        check(r#""A""#, r#""\u0041""#, true);
        check("[1,2]", "[2,1]", false);
        check("[[1],2]", "[1,[2]]", false);
        check("[]", "{}", false);
        check("[]", "[[]]", false);
        check(r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, false);
        check(r#"{"a":{"b":1}}"#, r#"{"b":{"a":1}}"#, false);
        check("1", "\"1\"", false);
        check("null", "\"null\"", false);
        check("true", "1", false);
        check("1.5", "1.25", false);
        check("18446744073709551615", "18446744073709551614", false);
        check("-1", "1", false);
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        check(&deep, &deep, true);
        check(&deep, &format!(" {deep}"), false);
    }
}
