//! Inbound payloads: decodes a client's message to an opcode and a value.
//!
//! Owns        the envelope in the client-to-gateway direction.
//! Doors       `decode_payload` for the gateway; `encode_payload_to_gateway` for clients, benches and tests.
//! Invariants  P1 a payload has the same value in JSON and ETF. P2 unknown keys are ignored; of equal keys the
//!             last one counts.
//! Limits      nesting: 128 levels in JSON, `etf::DEPTH_MAX` in ETF. The frame layer limits the message's size.
//! Not here    the meaning of an opcode and its `d`.     Spec  docs/protocol/reference.md §1.2, §2.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::etf::VERSION;
use crate::{DecodeError, DecodeLimits, EncodeError, Encoding, decode_etf, encode_etf_to_gateway, encode_json};

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
        Encoding::Json => serde_json::from_slice(bytes)?,
        Encoding::Etf => match decode_etf(bytes, DecodeLimits::default())? {
            Value::Object(mut map) => Envelope { op: map.remove("op"), d: map.remove("d").unwrap_or_default() },
            _ => return Err(DecodeError::NotAMap),
        },
    };
    let op = envelope.op.ok_or(DecodeError::OpMissing)?;
    Ok(Inbound { op: op.as_u64().ok_or(DecodeError::OpType)?, d: envelope.d })
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
                Key::Op => envelope.op = Some(entries.next_value()?),
                Key::D => envelope.d = entries.next_value()?,
                Key::Other => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
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
