//! Inbound payloads: decodes a client's message to an opcode and a value.
//!
//! Owns        the envelope in the client-to-gateway direction.
//! Doors       `decode_payload` for the gateway; `encode_payload_to_gateway` for clients, benches and tests.
//! Invariants  P1 a payload has the same value in JSON and ETF. P2 unknown keys are ignored; of equal keys the
//!             last one counts. P3 a number with a zero fraction is an integer; half a surrogate pair is U+FFFD.
//!             (tests `p3_*`)
//! Limits      nesting: 128 levels in JSON, `etf::DEPTH_MAX` in ETF. The frame layer limits the message's size.
//! Not here    the meaning of an opcode and its `d`.     Spec  docs/protocol/reference.md §1.2, §2.

use std::fmt;

use guildhall_stdx::{replace_surrogate_halves, whole_number};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::etf::{VERSION, decode_etf_payload};
use crate::{DecodeError, DecodeLimits, EncodeError, Encoding, encode_etf_to_gateway, encode_json};

/// A client's message. `s` and `t` mean nothing in this direction and are dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    /// The opcode, known or not.
    pub op: u64,
    /// Value of `d`; null if the client left it out.
    pub d: Value,
}

/// Decodes one client message, text or binary, in the encoding of its connection.
///
/// # Errors
/// [`DecodeError`] if the bytes are not a payload; the gateway then closes with 4002.
pub fn decode_payload(encoding: Encoding, bytes: &[u8]) -> Result<Inbound, DecodeError> {
    let envelope = match encoding {
        Encoding::Json => envelope_of_json(bytes)?,
        Encoding::Etf => match decode_etf_payload(bytes, DecodeLimits::default())? {
            Value::Object(mut map) => Envelope { op: map.remove("op"), d: map.remove("d").unwrap_or_default() },
            _ => return Err(DecodeError::NotAMap),
        },
    };
    let op = envelope.op.ok_or(DecodeError::OpMissing)?;
    Ok(Inbound { op: op.as_u64().ok_or(DecodeError::OpType)?, d: envelope.d })
}

fn envelope_of_json(bytes: &[u8]) -> Result<Envelope, serde_json::Error> {
    let error = match serde_json::from_slice(bytes) {
        Ok(envelope) => return Ok(envelope),
        Err(error) => error,
    };
    // Only a text that was refused is searched, so that others cost nothing.
    let mut copy = bytes.to_vec();
    if replace_surrogate_halves(&mut copy) { serde_json::from_slice(&copy) } else { Err(error) }
}

/// The two keys that are read.
#[derive(Default)]
struct Envelope {
    op: Option<Value>,
    d: Value,
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a payload")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Envelope, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = entries.next_key()? {
            match key {
                Key::Op => envelope.op = Some(entries.next_value::<Tree>()?.0),
                Key::D => envelope.d = entries.next_value::<Tree>()?.0,
                Key::Other => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
}

/// A value whose floats without a fraction are integers.
struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(TreeVisitor).map(Self)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(number(value).map_or(Value::Null, Value::Number))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Tree(value))) = entries.next_entry()? {
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A float as a number: an integer if it has no fraction, none if it is not finite.
pub(crate) fn number(float: f64) -> Option<Number> {
    whole_number(float).map(Number::from).or_else(|| Number::from_f64(float))
}

enum Key {
    Op,
    D,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                Ok(match key {
                    "op" => Key::Op,
                    "d" => Key::D,
                    _ => Key::Other,
                })
            }
        }

        reader.deserialize_str(KeyVisitor)
    }
}

/// Appends a client's message, version byte included: `{"op":…,"d":…}` with binary keys in ETF.
///
/// # Errors
/// As [`encode_json`] and [`encode_etf_to_gateway`]; `out` is then unchanged.
pub fn encode_payload_to_gateway<T: Serialize + ?Sized>(
    encoding: Encoding,
    op: u64,
    d: &T,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let payload = Outbound { op, d };
    match encoding {
        Encoding::Json => encode_json(&payload, out),
        Encoding::Etf => {
            let start = out.len();
            out.push(VERSION);
            let result = encode_etf_to_gateway(&payload, out);
            if result.is_err() {
                out.truncate(start);
            }
            result
        }
    }
}

#[derive(Serialize)]
struct Outbound<'a, T: ?Sized> {
    op: u64,
    d: &'a T,
}
