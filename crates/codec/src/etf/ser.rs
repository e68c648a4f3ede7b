//! Rust values to ETF, through serde, without an intermediate tree.
//!
//! Owns        the mapping from serde's data model to terms.
//! Doors       `encode_etf` (gateway to client), `encode_etf_to_gateway` (client to gateway, binary keys).
//! Invariants  S1 `is_human_readable` is false: id types are written as integers here and as strings in JSON. S2 a
//!             `serde_json::value::RawValue` is written as the term of its text.
//! Limits      `DEPTH_MAX` levels, 64-bit integers.     Spec  docs/protocol/reference.md §2.2, column "Server emits".

use serde::ser::{self, Serialize};

use super::text::TextSerializer;
use super::write::{Keys, OpenList, OpenMap, TermWriter};
use crate::EncodeError;

/// Struct name under which `RawValue` passes its text to a serializer.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Appends `value` as a bare term, without the version byte 131, for use inside an envelope.
///
/// Names (struct fields, variants, string keys that are not data) become atoms, strings binaries, `None` and `()`
/// the atom `nil`.
///
/// # Errors
/// [`EncodeError`] if the value has no term; `out` is then unchanged.
pub fn encode_etf<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode(value, out, Keys::Atoms)
}

/// As [`encode_etf`], but with every map key as a binary, the form a gateway accepts from clients.
///
/// # Errors
/// As [`encode_etf`].
pub fn encode_etf_to_gateway<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode(value, out, Keys::Binaries)
}

fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>, keys: Keys) -> Result<(), EncodeError> {
    let start = out.len();
    let result = value.serialize(&mut TermWriter::new(out, keys));
    if result.is_err() {
        out.truncate(start);
    }
    result
}

impl<'s, 'o> ser::Serializer for &'s mut TermWriter<'o> {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = ListSerializer<'s, 'o>;
    type SerializeTuple = ListSerializer<'s, 'o>;
    type SerializeTupleStruct = ListSerializer<'s, 'o>;
    type SerializeTupleVariant = ListSerializer<'s, 'o>;
    type SerializeMap = MapSerializer<'s, 'o>;
    type SerializeStruct = StructSerializer<'s, 'o>;
    type SerializeStructVariant = MapSerializer<'s, 'o>;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bool(self, value: bool) -> Result<(), EncodeError> {
        self.bool(value);
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), EncodeError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), EncodeError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), EncodeError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), EncodeError> {
        self.i64(value);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), EncodeError> {
        match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => self.serialize_u64(value),
            (_, Ok(value)) => self.serialize_i64(value),
            _ => Err(EncodeError::IntegerRange),
        }
    }

    fn serialize_u8(self, value: u8) -> Result<(), EncodeError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), EncodeError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), EncodeError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), EncodeError> {
        self.u64(value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), EncodeError> {
        self.serialize_u64(u64::try_from(value).map_err(|_| EncodeError::IntegerRange)?)
    }

    fn serialize_f32(self, value: f32) -> Result<(), EncodeError> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), EncodeError> {
        self.f64(value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), EncodeError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        self.binary(value.as_bytes())
    }

    /// A list of integers, as in JSON: a binary would be text to the reader.
    fn serialize_bytes(self, value: &[u8]) -> Result<(), EncodeError> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), EncodeError> {
        self.nil();
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        let mut map = self.begin_struct()?;
        self.entry(&mut map, |writer| writer.key_name(variant))?;
        value.serialize(&mut *self)?;
        self.end_map(map);
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<ListSerializer<'s, 'o>, EncodeError> {
        let list = self.begin_list()?;
        Ok(ListSerializer { writer: self, list, around: None })
    }

    fn serialize_tuple(self, length: usize) -> Result<ListSerializer<'s, 'o>, EncodeError> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<ListSerializer<'s, 'o>, EncodeError> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<ListSerializer<'s, 'o>, EncodeError> {
        let mut around = self.begin_struct()?;
        self.entry(&mut around, |writer| writer.key_name(variant))?;
        let list = self.begin_list()?;
        Ok(ListSerializer { writer: self, list, around: Some(around) })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<MapSerializer<'s, 'o>, EncodeError> {
        let map = self.begin_map()?;
        Ok(MapSerializer { writer: self, map, around: None })
    }

    fn serialize_struct(self, name: &'static str, _length: usize) -> Result<StructSerializer<'s, 'o>, EncodeError> {
        if name == RAW_VALUE {
            return Ok(StructSerializer::Raw(self));
        }
        let map = self.begin_struct()?;
        Ok(StructSerializer::Fields(MapSerializer { writer: self, map, around: None }))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<MapSerializer<'s, 'o>, EncodeError> {
        let mut around = self.begin_struct()?;
        self.entry(&mut around, |writer| writer.key_name(variant))?;
        let map = self.begin_struct()?;
        Ok(MapSerializer { writer: self, map, around: Some(around) })
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result<(), EncodeError> {
        self.binary_display(value)
    }
}

/// Lists, tuples, and tuple variants with their enclosing map.
pub(super) struct ListSerializer<'s, 'o> {
    writer: &'s mut TermWriter<'o>,
    list: OpenList,
    around: Option<OpenMap>,
}

impl ser::SerializeSeq for ListSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        self.writer.item(&mut self.list)?;
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.writer.end_list(self.list);
        if let Some(around) = self.around {
            self.writer.end_map(around);
        }
        Ok(())
    }
}

impl ser::SerializeTuple for ListSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        ser::SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), EncodeError> {
        ser::SerializeSeq::end(self)
    }
}

impl ser::SerializeTupleStruct for ListSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        ser::SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), EncodeError> {
        ser::SerializeSeq::end(self)
    }
}

impl ser::SerializeTupleVariant for ListSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        ser::SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), EncodeError> {
        ser::SerializeSeq::end(self)
    }
}

/// Maps, structs, and struct variants with their enclosing map.
pub(super) struct MapSerializer<'s, 'o> {
    writer: &'s mut TermWriter<'o>,
    map: OpenMap,
    around: Option<OpenMap>,
}

impl MapSerializer<'_, '_> {
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), EncodeError> {
        self.writer.entry(&mut self.map, |writer| writer.key_name(name))?;
        value.serialize(&mut *self.writer)
    }

    fn close(self) {
        self.writer.end_map(self.map);
        if let Some(around) = self.around {
            self.writer.end_map(around);
        }
    }
}

impl ser::SerializeMap for MapSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), EncodeError> {
        self.writer.entry(&mut self.map, |writer| key.serialize(TextSerializer::key(writer)))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close();
        Ok(())
    }
}

impl ser::SerializeStructVariant for MapSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), EncodeError> {
        self.field(name, value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close();
        Ok(())
    }
}

/// A struct, or the struct `RawValue` pretends to be.
pub(super) enum StructSerializer<'s, 'o> {
    Fields(MapSerializer<'s, 'o>),
    Raw(&'s mut TermWriter<'o>),
}

impl ser::SerializeStruct for StructSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), EncodeError> {
        match self {
            Self::Fields(fields) => fields.field(name, value),
            Self::Raw(writer) => value.serialize(TextSerializer::raw_json(writer)),
        }
    }

    fn end(self) -> Result<(), EncodeError> {
        if let Self::Fields(fields) = self {
            fields.close();
        }
        Ok(())
    }
}
