//! JSON text to ETF without a tree: for payloads that pass through as text.
//!
//! Owns        the walk over the text; serde_json reads, the term writer writes.
//! Doors       `transcode_json`; `text_into` for a `RawValue` inside a typed value.
//! Invariants  T1 the term equals `encode_etf` of the parsed text. Strings stay binaries.
//! Limits      `DEPTH_MAX` levels, counted by the writer: serde_json's own limit of 128 is switched off.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::de::{Read, SliceRead, StrRead};

use super::write::{Keys, OpenMap, TermWriter};
use crate::EncodeError;

/// Appends the bare term (no version byte) of the JSON text `json`.
///
/// # Errors
/// [`EncodeError::Json`] if the text is not a JSON value (half of a surrogate pair is not one),
/// [`EncodeError::TooDeep`] past 256 levels; `out` is then unchanged.
pub fn transcode_json(json: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    let result = run(&mut TermWriter::new(out, Keys::Atoms), SliceRead::new(json));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

pub(super) fn text_into(writer: &mut TermWriter<'_>, json: &str) -> Result<(), EncodeError> {
    run(writer, StrRead::new(json))
}

fn run<'de, R: Read<'de>>(writer: &mut TermWriter<'_>, read: R) -> Result<(), EncodeError> {
    let mut reader = serde_json::Deserializer::new(read);
    // Recursion is bounded: the writer refuses to open a list or map past its own limit.
    reader.disable_recursion_limit();
    let result = Term(writer).deserialize(&mut reader).and_then(|()| reader.end());
    result.map_err(|error| writer.fault.take().unwrap_or(EncodeError::Json(error)))
}

/// One value of the text, which is written while it is read.
struct Term<'s, 'o>(&'s mut TermWriter<'o>);

impl<'de> DeserializeSeed<'de> for Term<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Term<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.bool(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.u64(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.i64(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.f64(value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.nil();
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.0.binary(value.as_bytes()).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut list = self.0.begin_list().map_err(A::Error::custom)?;
        while items.next_element_seed(Term(self.0))?.is_some() {
            self.0.item(&mut list).map_err(A::Error::custom)?;
        }
        self.0.end_list(list);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut map = self.0.begin_map().map_err(A::Error::custom)?;
        while entries.next_key_seed(Key(self.0, &mut map))?.is_some() {
            entries.next_value_seed(Term(self.0))?;
        }
        self.0.end_map(map);
        Ok(())
    }
}

/// One key of the text.
struct Key<'s, 'o>(&'s mut TermWriter<'o>, &'s mut OpenMap);

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        self.0.entry(self.1, |writer| writer.key_string(key)).map_err(E::custom)
    }
}
