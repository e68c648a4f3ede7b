//! ETF to values, from untrusted peers.
//!
//! Owns        the accepted terms and their values.
//! Doors       `decode_etf` for bytes of clients, `decode_etf_from_gateway` for bytes of a gateway.
//! Invariants  D1 the items announced by all open lists and maps never exceed the remaining bytes, so memory stays
//!             below a fixed multiple (100) of the input's length. D2 no input panics.
//! Limits      `DecodeLimits`; the frame layer limits the input's length.
//! Not here    the payload keys (payload.rs).     Spec  docs/protocol/reference.md §2.2, column "Server must accept".

use serde_json::{Map, Number, Value};

use super::{DEPTH_MAX, VERSION, tag};
use crate::{EtfError, payload};

/// Limits on the resources that decoding a term may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Levels of lists, tuples and maps; each costs stack, so keep it in the hundreds.
    pub depth_max: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { depth_max: DEPTH_MAX }
    }
}

/// Decodes one client-to-gateway term, version byte included, as a JSON value.
///
/// Atoms as values are strings, except that `nil`, `null` and `undefined` are null, and `true` and `false` booleans.
/// Tuples and byte lists are arrays. Of equal map keys the last one counts.
///
/// # Errors
/// [`EtfError`]; map keys that are atoms are refused ([`EtfError::AtomKey`]), as are bytes after the term.
pub fn decode_etf(bytes: &[u8], limits: DecodeLimits) -> Result<Value, EtfError> {
    decode(bytes, limits, AtomKeys::Refuse, Number::from_f64)
}

/// As [`decode_etf`], with floats in the form that payloads have them.
pub(crate) fn decode_etf_payload(bytes: &[u8], limits: DecodeLimits) -> Result<Value, EtfError> {
    decode(bytes, limits, AtomKeys::Refuse, payload::number)
}

/// As [`decode_etf`], but accepts atoms as map keys, as gateways emit them.
///
/// # Errors
/// As [`decode_etf`], without [`EtfError::AtomKey`].
pub fn decode_etf_from_gateway(bytes: &[u8], limits: DecodeLimits) -> Result<Value, EtfError> {
    decode(bytes, limits, AtomKeys::Accept, Number::from_f64)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AtomKeys {
    Refuse,
    Accept,
}

/// A float as a number; none if it is not finite.
type FloatForm = fn(f64) -> Option<Number>;

fn decode(bytes: &[u8], limits: DecodeLimits, atom_keys: AtomKeys, float_form: FloatForm) -> Result<Value, EtfError> {
    let Some((&VERSION, rest)) = bytes.split_first() else {
        return Err(EtfError::Version);
    };
    let mut reader = TermReader { rest, owed: 0, depth: 0, depth_max: limits.depth_max, atom_keys, float_form };
    let value = reader.term()?;
    match reader.rest.len() {
        0 => Ok(value),
        trailing_bytes => Err(EtfError::TrailingBytes { trailing_bytes }),
    }
}

struct TermReader<'a> {
    rest: &'a [u8],
    /// Bytes that items announced but not yet read need at the very least.
    owed: usize,
    depth: usize,
    depth_max: usize,
    atom_keys: AtomKeys,
    float_form: FloatForm,
}

/// Minimum size of a map entry: an empty binary (5) or the atom '' (2 or 3), and a value (1).
const ENTRY_BYTES_MIN: usize = 3;

impl<'a> TermReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], EtfError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(EtfError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EtfError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(EtfError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, EtfError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn length_u16(&mut self) -> Result<usize, EtfError> {
        Ok(usize::from(u16::from_be_bytes(self.array()?)))
    }

    /// A 32-bit length or count; where `usize` is narrower, nothing that long can be there anyway.
    fn length_u32(&mut self) -> Result<usize, EtfError> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| EtfError::Truncated)
    }

    /// Reserves the bytes that `count` announced items need at least, before anything is allocated for them.
    fn owe(&mut self, count: usize, item_bytes_min: usize) -> Result<(), EtfError> {
        self.owed = count
            .checked_mul(item_bytes_min)
            .and_then(|bytes| bytes.checked_add(self.owed))
            .filter(|&owed| owed <= self.rest.len())
            .ok_or(EtfError::Truncated)?;
        Ok(())
    }

    fn term(&mut self) -> Result<Value, EtfError> {
        match self.u8()? {
            tag::SMALL_INTEGER => Ok(self.u8()?.into()),
            tag::INTEGER => Ok(i32::from_be_bytes(self.array()?).into()),
            tag::SMALL_BIG => {
                let digits_bytes = usize::from(self.u8()?);
                self.big(digits_bytes)
            }
            tag::LARGE_BIG => {
                let digits_bytes = self.length_u32()?;
                self.big(digits_bytes)
            }
            tag::NEW_FLOAT => {
                let float = f64::from_be_bytes(self.array()?);
                self.float(float)
            }
            tag::FLOAT => self.old_float(),
            tag @ (tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8) => {
                Ok(match self.atom(tag)?.as_str() {
                    "nil" | "null" | "undefined" => Value::Null,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    name => Value::String(name.to_owned()),
                })
            }
            tag::BINARY => Ok(Value::String(self.binary()?.to_owned())),
            tag::STRING => {
                self.leaf_list()?;
                let length = self.length_u16()?;
                let bytes = self.take(length)?;
                Ok(bytes.iter().map(|&byte| Value::from(byte)).collect())
            }
            tag::NIL => {
                self.leaf_list()?;
                Ok(Value::Array(Vec::new()))
            }
            tag::LIST => self.list(),
            tag::SMALL_TUPLE => {
                let count = usize::from(self.u8()?);
                self.items(count)
            }
            tag::LARGE_TUPLE => {
                let count = self.length_u32()?;
                self.items(count)
            }
            tag::MAP => self.map(),
            tag::COMPRESSED => Err(EtfError::Compressed),
            tag => Err(EtfError::UnknownTag { tag }),
        }
    }

    fn big(&mut self, digits_bytes: usize) -> Result<Value, EtfError> {
        let sign = self.u8()?;
        if digits_bytes > 8 || sign > 1 {
            return Err(EtfError::IntegerRange);
        }
        let mut digits = [0; 8];
        digits[..digits_bytes].copy_from_slice(self.take(digits_bytes)?);
        let magnitude = u64::from_le_bytes(digits);
        if sign == 0 {
            return Ok(magnitude.into());
        }
        match 0i64.checked_sub_unsigned(magnitude) {
            Some(value) => Ok(value.into()),
            None => Err(EtfError::IntegerRange),
        }
    }

    /// 31 bytes of `%.20e`, padded with NULs; Erlang stopped writing it long ago.
    fn old_float(&mut self) -> Result<Value, EtfError> {
        let text: [u8; 31] = self.array()?;
        let text = std::str::from_utf8(&text).map_err(|_| EtfError::Float)?;
        let text = text.trim_end_matches('\0').trim_ascii();
        self.float(text.parse().map_err(|_| EtfError::Float)?)
    }

    fn float(&self, value: f64) -> Result<Value, EtfError> {
        (self.float_form)(value).map(Value::Number).ok_or(EtfError::Float)
    }

    fn atom(&mut self, tag: u8) -> Result<String, EtfError> {
        let length = match tag {
            tag::SMALL_ATOM | tag::SMALL_ATOM_UTF8 => usize::from(self.u8()?),
            _ => self.length_u16()?,
        };
        let bytes = self.take(length)?;
        match tag {
            tag::ATOM | tag::SMALL_ATOM => Ok(bytes.iter().copied().map(char::from).collect()),
            _ => Ok(utf8(bytes)?.to_owned()),
        }
    }

    fn binary(&mut self) -> Result<&'a str, EtfError> {
        let length = self.length_u32()?;
        utf8(self.take(length)?)
    }

    fn descend(&mut self) -> Result<(), EtfError> {
        if self.depth == self.depth_max {
            let depth_max = self.depth_max;
            return Err(EtfError::TooDeep { depth_max });
        }
        self.depth += 1;
        Ok(())
    }

    /// A list that can hold no list is a level all the same: the encoder counts it as one.
    fn leaf_list(&mut self) -> Result<(), EtfError> {
        self.descend()?;
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self) -> Result<Value, EtfError> {
        let count = self.length_u32()?;
        // The tail is owed as well.
        self.owe(1, 1)?;
        let items = self.items(count)?;
        self.owed -= 1;
        match self.u8()? {
            tag::NIL => Ok(items),
            _ => Err(EtfError::ImproperList),
        }
    }

    fn items(&mut self, count: usize) -> Result<Value, EtfError> {
        self.descend()?;
        self.owe(count, 1)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            self.owed -= 1;
            items.push(self.term()?);
        }
        self.depth -= 1;
        Ok(Value::Array(items))
    }

    fn map(&mut self) -> Result<Value, EtfError> {
        self.descend()?;
        let count = self.length_u32()?;
        self.owe(count, ENTRY_BYTES_MIN)?;
        let mut map = Map::new();
        for _ in 0..count {
            self.owed -= ENTRY_BYTES_MIN;
            let key = self.key()?;
            let value = self.term()?;
            map.insert(key, value);
        }
        self.depth -= 1;
        Ok(Value::Object(map))
    }

    fn key(&mut self) -> Result<String, EtfError> {
        match self.u8()? {
            tag::BINARY => Ok(self.binary()?.to_owned()),
            tag @ (tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8) => match self.atom_keys {
                AtomKeys::Accept => self.atom(tag),
                AtomKeys::Refuse => Err(EtfError::AtomKey),
            },
            tag => Err(EtfError::KeyType { tag }),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, EtfError> {
    std::str::from_utf8(bytes).map_err(|_| EtfError::NotUtf8)
}
