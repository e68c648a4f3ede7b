//! Values: MessagePack of another node, for serde.
//!
//! Owns        the reading of each form (<https://github.com/msgpack/msgpack/blob/master/spec.md>): one function per
//!             form, and one method per type of serde, which calls its visitor with that form alone. rmp-serde reads
//!             every value by one function for all forms. The compiler made that for each of 500 visitors, which took
//!             more than a third of the time for crate `node`.
//! Invariants  V1 what `rmp_serde::to_vec_named` writes is read as rmp-serde reads it: every round trip of the
//!             tests compares both.
//! Limits      `wire::check` has bounded nesting and counted elements before.
//! Not here    forms that `to_vec_named` never writes: extensions, structs as arrays, variants by number.

use serde::de::{self, DeserializeSeed, Visitor};
use std::fmt;

/// Bytes that are not of the type that is read.
#[derive(Debug)]
pub(super) struct ValueError(Box<str>);

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

impl de::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

type Result<T> = std::result::Result<T, ValueError>;

/// The values that are still to be read.
pub(super) struct Values<'de>(pub &'de [u8]);

enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

const NIL: u8 = 0xc0;

/// Type of a value, without its content.
enum Form {
    Nil,
    Bool,
    Number,
    Text,
    Bytes,
    Array,
    Map,
}

impl<'de> Values<'de> {
    fn peek(&self) -> Result<u8> {
        self.0.first().copied().ok_or_else(|| de::Error::custom(super::TRUNCATED))
    }

    fn form(&self) -> Result<Form> {
        Ok(match self.peek()? {
            NIL => Form::Nil,
            0xc2 | 0xc3 => Form::Bool,
            0xa0..=0xbf | 0xd9..=0xdb => Form::Text,
            0xc4..=0xc6 => Form::Bytes,
            0x90..=0x9f | 0xdc | 0xdd => Form::Array,
            0x80..=0x8f | 0xde | 0xdf => Form::Map,
            _ => Form::Number,
        })
    }

    fn marker(&mut self) -> Result<u8> {
        self.fixed::<1>().map(|[marker]| marker)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| de::Error::custom(super::TRUNCATED))?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// A length of `N` bytes.
    fn length<const N: usize>(&mut self) -> Result<usize> {
        super::length::<N>(&mut self.0).map_err(de::Error::custom)
    }

    fn slice(&mut self, length: usize) -> Result<&'de [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(|| de::Error::custom(super::TRUNCATED))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<Number> {
        Ok(match self.marker()? {
            marker @ 0x00..=0x7f => Number::Unsigned(marker.into()),
            marker @ 0xe0..=0xff => Number::Signed((marker as i8).into()),
            0xcc => Number::Unsigned(u8::from_be_bytes(self.fixed()?).into()),
            0xcd => Number::Unsigned(u16::from_be_bytes(self.fixed()?).into()),
            0xce => Number::Unsigned(u32::from_be_bytes(self.fixed()?).into()),
            0xcf => Number::Unsigned(u64::from_be_bytes(self.fixed()?)),
            0xd0 => Number::Signed(i8::from_be_bytes(self.fixed()?).into()),
            0xd1 => Number::Signed(i16::from_be_bytes(self.fixed()?).into()),
            0xd2 => Number::Signed(i32::from_be_bytes(self.fixed()?).into()),
            0xd3 => Number::Signed(i64::from_be_bytes(self.fixed()?)),
            0xca => Number::Float(f32::from_be_bytes(self.fixed()?).into()),
            0xcb => Number::Float(f64::from_be_bytes(self.fixed()?)),
            _ => return Err(de::Error::custom("a number is expected")),
        })
    }

    fn boolean(&mut self) -> Result<bool> {
        match self.marker()? {
            0xc2 => Ok(false),
            0xc3 => Ok(true),
            _ => Err(de::Error::custom("a boolean is expected")),
        }
    }

    fn nil(&mut self) -> Result<()> {
        if self.marker()? == NIL { Ok(()) } else { Err(de::Error::custom("nil is expected")) }
    }

    fn text(&mut self) -> Result<&'de str> {
        let length = match self.marker()? {
            marker @ 0xa0..=0xbf => usize::from(marker & 0x1f),
            0xd9 => self.length::<1>()?,
            0xda => self.length::<2>()?,
            0xdb => self.length::<4>()?,
            _ => return Err(de::Error::custom("a text is expected")),
        };
        std::str::from_utf8(self.slice(length)?).map_err(de::Error::custom)
    }

    fn bytes(&mut self) -> Result<&'de [u8]> {
        let length = match self.marker()? {
            0xc4 => self.length::<1>()?,
            0xc5 => self.length::<2>()?,
            0xc6 => self.length::<4>()?,
            _ => return Err(de::Error::custom("bytes are expected")),
        };
        self.slice(length)
    }

    fn array_length(&mut self) -> Result<usize> {
        match self.marker()? {
            marker @ 0x90..=0x9f => Ok(usize::from(marker & 0x0f)),
            0xdc => self.length::<2>(),
            0xdd => self.length::<4>(),
            _ => Err(de::Error::custom("an array is expected")),
        }
    }

    fn map_length(&mut self) -> Result<usize> {
        match self.marker()? {
            marker @ 0x80..=0x8f => Ok(usize::from(marker & 0x0f)),
            0xde => self.length::<2>(),
            0xdf => self.length::<4>(),
            _ => Err(de::Error::custom("a map is expected")),
        }
    }

    /// Passes a value over, whatever it is.
    fn skip(&mut self) -> Result<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            left += match self.form()? {
                Form::Nil | Form::Bool => self.marker().map(|_| 0)?,
                Form::Number => self.number().map(|_| 0)?,
                Form::Text => self.text().map(|_| 0)?,
                Form::Bytes => self.bytes().map(|_| 0)?,
                Form::Array => self.array_length()?,
                Form::Map => 2 * self.map_length()?,
            };
        }
        Ok(())
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        match self.number()? {
            Number::Unsigned(value) => visitor.visit_u64(value),
            Number::Signed(value) => visitor.visit_i64(value),
            Number::Float(value) => visitor.visit_f64(value),
        }
    }

    fn visit_array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let mut elements = Elements { left: self.array_length()?, values: self };
        let value = visitor.visit_seq(&mut elements)?;
        elements.end().map(|()| value)
    }

    fn visit_map<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let mut entries = Elements { left: self.map_length()?, values: self };
        let value = visitor.visit_map(&mut entries)?;
        entries.end().map(|()| value)
    }
}

/// Elements of an array, or entries of a map.
struct Elements<'a, 'de> {
    values: &'a mut Values<'de>,
    left: usize,
}

impl Elements<'_, '_> {
    fn has_next(&mut self) -> bool {
        let has_next = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_next
    }

    fn end(&self) -> Result<()> {
        if self.left == 0 { Ok(()) } else { Err(de::Error::custom("an array or a map has too many elements")) }
    }
}

impl<'de> de::SeqAccess<'de> for Elements<'_, 'de> {
    type Error = ValueError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if self.has_next() { seed.deserialize(&mut *self.values).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> de::MapAccess<'de> for Elements<'_, 'de> {
    type Error = ValueError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if self.has_next() { seed.deserialize(&mut *self.values).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        seed.deserialize(&mut *self.values)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// A variant: its name alone, or a map with its name and its content.
struct Variant<'a, 'de> {
    values: &'a mut Values<'de>,
    has_content: bool,
}

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = ValueError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        seed.deserialize(&mut *self.values).map(|name| (name, self))
    }
}

impl<'de> Variant<'_, 'de> {
    fn content(&mut self) -> Result<&mut Values<'de>> {
        if self.has_content { Ok(self.values) } else { Err(de::Error::custom("a variant lacks its content")) }
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = ValueError;

    fn unit_variant(self) -> Result<()> {
        // A map with nil is another form of it.
        if self.has_content { self.values.nil() } else { Ok(()) }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<S::Value> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, _: usize, visitor: V) -> Result<V::Value> {
        self.content()?.visit_array(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(mut self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.content()?.visit_map(visitor)
    }
}

/// Methods for types of one form.
macro_rules! by_form {
    ($form:ident: $($method:ident),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.$form(visitor)
        })+
    };
}

impl<'de> de::Deserializer<'de> for &mut Values<'de> {
    type Error = ValueError;

    by_form!(visit_number: deserialize_u8, deserialize_u16, deserialize_u32, deserialize_u64, deserialize_i8,
        deserialize_i16, deserialize_i32, deserialize_i64, deserialize_f32, deserialize_f64);
    by_form!(visit_array: deserialize_seq);
    by_form!(visit_map: deserialize_map);
    by_form!(deserialize_str: deserialize_char, deserialize_string, deserialize_identifier);
    by_form!(deserialize_bytes: deserialize_byte_buf);

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.form()? {
            Form::Nil => self.deserialize_unit(visitor),
            Form::Bool => self.deserialize_bool(visitor),
            Form::Number => self.visit_number(visitor),
            Form::Text => self.deserialize_str(visitor),
            Form::Bytes => visitor.visit_borrowed_bytes(self.bytes()?),
            Form::Array => self.visit_array(visitor),
            Form::Map => self.visit_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bool(self.boolean()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.form()? {
            Form::Array => self.visit_array(visitor),
            Form::Text => self.deserialize_str(visitor),
            _ => visitor.visit_borrowed_bytes(self.bytes()?),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.peek()? == NIL {
            self.nil()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.nil()?;
        visitor.visit_unit()
    }

    /// An empty array is how a struct without fields is written.
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        if self.array_length()? == 0 {
            visitor.visit_unit()
        } else {
            Err(de::Error::custom("an empty array is expected"))
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.visit_array(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value> {
        self.visit_array(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.visit_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let has_content = matches!(self.form()?, Form::Map);
        if has_content && self.map_length()? != 1 {
            return Err(de::Error::custom("a map with one variant is expected"));
        }
        visitor.visit_enum(Variant { values: self, has_content })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    /// Types have other forms for people, such as numbers as texts.
    fn is_human_readable(&self) -> bool {
        false
    }
}
