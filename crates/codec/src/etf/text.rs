//! The two cases in which serde passes a string that is not a plain value: map keys, and the text of a `RawValue`.
//!
//! Owns        valid map keys and their form: names as atoms, integers and ids as binaries.
//! Doors       `TextSerializer::key` and `::raw_json`, both from `ser`.
//! Not here    the choice between atom and binary for a string (write.rs), the JSON reader (transcode.rs).

use serde::ser::{self, Impossible, Serialize};

use super::transcode;
use super::write::TermWriter;
use crate::EncodeError;

/// Takes one string-like value and writes it in its role.
pub(super) struct TextSerializer<'s, 'o> {
    writer: &'s mut TermWriter<'o>,
    role: Role,
}

enum Role {
    Key,
    RawJson,
}

impl<'s, 'o> TextSerializer<'s, 'o> {
    /// Writes a key of a dynamic map.
    pub(super) fn key(writer: &'s mut TermWriter<'o>) -> Self {
        let role = Role::Key;
        Self { writer, role }
    }

    /// Reads the value as JSON text and writes its term.
    pub(super) fn raw_json(writer: &'s mut TermWriter<'o>) -> Self {
        let role = Role::RawJson;
        Self { writer, role }
    }
}

/// Serde shapes that are no text.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$ok, EncodeError> {
            Err(EncodeError::KeyType)
        }
    )*};
}

/// Integers as keys are data: their decimal digits, as a binary.
macro_rules! digits {
    ($($method:ident($integer:ty);)*) => {$(
        fn $method(self, value: $integer) -> Result<(), EncodeError> {
            match self.role {
                Role::Key => self.writer.binary_display(&value),
                Role::RawJson => Err(EncodeError::KeyType),
            }
        }
    )*};
}

impl ser::Serializer for TextSerializer<'_, '_> {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = Impossible<(), EncodeError>;
    type SerializeTuple = Impossible<(), EncodeError>;
    type SerializeTupleStruct = Impossible<(), EncodeError>;
    type SerializeTupleVariant = Impossible<(), EncodeError>;
    type SerializeMap = Impossible<(), EncodeError>;
    type SerializeStruct = Impossible<(), EncodeError>;
    type SerializeStructVariant = Impossible<(), EncodeError>;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        match self.role {
            Role::Key => self.writer.key_string(value),
            Role::RawJson => transcode::text_into(self.writer, value),
        }
    }

    fn serialize_bool(self, value: bool) -> Result<(), EncodeError> {
        self.serialize_str(if value { "true" } else { "false" })
    }

    fn serialize_char(self, value: char) -> Result<(), EncodeError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
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

    digits! {
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
    }

    refuse! {
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), EncodeError> {
        Err(EncodeError::KeyType)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), EncodeError> {
        Err(EncodeError::KeyType)
    }
}
