//! Tree: JSON text as a `Value`, within a budget.
//!
//! Owns        `parse`, and the memory cost of each kind of value.
//! Invariants  T1 the tree equals the one that `serde_json` makes of the text, but that a number with a zero fraction
//!             is an integer. T2 the reservation covers the memory of the tree. (tests `t1_*`, `t2_*`)
//! Limits      `values_max` values per tree; the quota for trees, in total and per party; 127 levels, as in
//!             `serde_json`.
//!
//! Seven bytes of text (`{"":0},`) become a B-tree leaf of 632 bytes: the length of the text does not bound the memory.

use crate::quota::{OverQuota, Reservation};
use guildhall_stdx::whole_number;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Size of a list item. A list grows by doubling, and the old allocation lives until its items are moved.
const ITEM_BYTES: usize = 3 * size_of::<Value>();
/// The first allocation of a list has capacity for four items.
const LIST_BYTES: usize = 64;
/// An entry of an object: leaves are at least five elevenths full, and there are fewer inner nodes than leaves.
const ENTRY_BYTES: usize = 160;
/// The first leaf of an object.
const OBJECT_BYTES: usize = 656;
/// Overhead of an allocation.
const ALLOCATION_BYTES: usize = 32;
/// Step of a reservation.
const STEP_BYTES: usize = 16 << 10;

/// Why a text does not become a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeFault {
    /// Not JSON, or nested too deeply.
    NotJson,
    /// More than `values_max` values.
    TooMany,
    OverQuota(OverQuota),
}

/// Remaining budget of one tree.
struct Budget<'a> {
    values_left: usize,
    /// Reserved and not yet used.
    credit_bytes: usize,
    reservation: &'a mut Reservation,
    fault: Option<TreeFault>,
}

impl Budget<'_> {
    fn charge<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        if self.credit_bytes < bytes {
            let step = bytes.max(STEP_BYTES);
            if let Err(over_quota) = self.reservation.grow(step) {
                return Err(self.fail(TreeFault::OverQuota(over_quota)));
            }
            self.credit_bytes += step;
        }
        self.credit_bytes -= bytes;
        Ok(())
    }

    fn fail<E: serde::de::Error>(&mut self, fault: TreeFault) -> E {
        self.fault = Some(fault);
        E::custom("past a budget")
    }
}

/// Parses JSON. The memory of the tree is added to `reservation`, which has to live as long as the tree.
pub fn parse(text: &[u8], values_max: usize, reservation: &mut Reservation) -> Result<Value, TreeFault> {
    let mut budget = Budget { values_left: values_max, credit_bytes: 0, reservation, fault: None };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let parsed = Node(&mut budget).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|_| budget.fault.unwrap_or(TreeFault::NotJson))
}

/// One value of the tree.
struct Node<'a, 'b>(&'a mut Budget<'b>);

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0.values_left.checked_sub(1) {
            Some(left) => self.0.values_left = left,
            None => return Err(self.0.fail(TreeFault::TooMany)),
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        let number = whole_number(value).map(Number::from).or_else(|| Number::from_f64(value));
        Ok(number.map_or(Value::Null, Value::Number))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.0.charge(ALLOCATION_BYTES + value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = items.next_element_seed(Node(self.0))? {
            let first = if list.is_empty() { LIST_BYTES } else { 0 };
            self.0.charge(first + ITEM_BYTES)?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key_seed(Key(self.0))? {
            let first = if object.is_empty() { OBJECT_BYTES } else { 0 };
            self.0.charge(first + ENTRY_BYTES)?;
            let value = entries.next_value_seed(Node(self.0))?;
            // The last of several entries with one name wins.
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Name of an entry.
struct Key<'a, 'b>(&'a mut Budget<'b>);

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<String, E> {
        self.0.charge(ALLOCATION_BYTES + name.len())?;
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Quota;
    use proptest::prelude::*;
    use serde_json::json;

    /// The tree and the amount reserved for it.
    fn read(text: &str, values_max: usize, quota_bytes: usize) -> (Result<Value, TreeFault>, usize) {
        let quota = Quota::new(quota_bytes, quota_bytes);
        let mut reservation = quota.reservation([None; 2]);
        (parse(text.as_bytes(), values_max, &mut reservation), reservation.amount())
    }

    fn whole(text: &str) -> Result<Value, TreeFault> {
        read(text, 1_000_000, 1 << 30).0
    }

    /// Small texts that become large trees.
    fn bombs() -> [String; 7] {
        let repeat = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        let named = |value: &str, count: usize| {
            format!("{{{}}}", (0..count).map(|n| format!("\"{n}\":{value}")).collect::<Vec<_>>().join(","))
        };
        [
            format!("{{\"x\":{}}}", repeat("{\"\":0}", 2_000)),
            repeat("[0]", 4_000),
            repeat("\"\"", 8_000),
            repeat("\"aaaaaaaaaaaaaaaaaaaaaaaaa\"", 4_000),
            repeat("{}", 9_000),
            named("0", 3_000),
            repeat(&named("\"x\"", 12), 300),
        ]
    }

    #[test]
    fn t1_the_same_as_without_a_budget() {
        for text in bombs() {
            assert_eq!(whole(&text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        }
        assert_eq!(whole(r#"{"a":1,"b":{"c":2},"a":3}"#).unwrap(), json!({"a": 3, "b": {"c": 2}}));
        assert_eq!(whole("[2.0,2e0,-3.0,1.5,1e300]").unwrap(), json!([2, 2, -3, 1.5, 1e300]));
        assert_eq!(whole("[1e999]"), Err(TreeFault::NotJson));
        for broken in ["", "{", "nonsense", "\u{feff}{}", "{} {}", "[1,]", "{\"a\"}", "\"\u{0}\"", &"[".repeat(100_000)]
        {
            assert_eq!(whole(broken), Err(TreeFault::NotJson), "{broken:.20}");
        }
        assert!(whole(&("[".repeat(127) + &"]".repeat(127))).is_ok());
        assert_eq!(whole(&("[".repeat(128) + &"]".repeat(128))), Err(TreeFault::NotJson));
    }

    #[test]
    fn values_are_counted() {
        let text = r#"{"a":[1,{"b":null}],"c":"x"}"#;
        assert!(read(text, 6, 1 << 20).0.is_ok());
        assert_eq!(read(text, 5, 1 << 20).0, Err(TreeFault::TooMany));
        assert_eq!(read("[", 0, 1 << 20).0, Err(TreeFault::TooMany));
    }

    #[test]
    fn t2_the_reservation_covers_the_memory() {
        for text in bombs() {
            let (tree, charged) = read(&text, 1_000_000, 64 << 20);
            drop(tree);
            let used = allocation_counter::measure(|| drop(whole(&text)));
            assert!(charged as u64 >= used.bytes_max, "{charged} for {used:?}: {text:.60}");
            assert!(charged as u64 <= 4 * used.bytes_max + 2 * STEP_BYTES as u64, "{charged} for {used:?}: {text:.60}");
        }
    }

    #[test]
    fn t2_nothing_is_built_past_the_quota() {
        for text in bombs() {
            let used = allocation_counter::measure(|| {
                let quota = Quota::new(64 << 10, 64 << 10);
                let tree = parse(text.as_bytes(), 1_000_000, &mut quota.reservation([None; 2]));
                assert_eq!(tree, Err(TreeFault::OverQuota(OverQuota::Total)));
            });
            assert!(used.bytes_max <= 70 << 10, "{used:?}: {text:.60}");
        }
    }

    /// The tree with integers for floats of a zero fraction.
    fn with_integers(value: Value) -> Value {
        match value {
            Value::Number(number) if number.is_f64() => match whole_number(number.as_f64().unwrap()) {
                Some(whole) => whole.into(),
                None => Value::Number(number),
            },
            Value::Array(items) => items.into_iter().map(with_integers).collect(),
            Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, with_integers(value))).collect(),
            other => other,
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,6}", inner, 0..6).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn t1_any_tree(value in values()) {
            let text = value.to_string();
            prop_assert_eq!(whole(&text).unwrap(), with_integers(serde_json::from_str(&text).unwrap()));
        }

        #[test]
        fn t1_any_text(text in "[\\[\\]{}\",:0-9a-z \\\\]{0,30}") {
            prop_assert_eq!(whole(&text).ok(), serde_json::from_str::<Value>(&text).ok().map(with_integers));
        }
    }
}
