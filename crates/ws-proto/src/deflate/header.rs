//! Syntax of `Sec-WebSocket-Extensions`, for any extension.
//!
//! Doors       `Parser::next` returns extensions and their parameters in textual order.
//! Invariants  Every byte is read once; nothing is allocated.     Spec  RFC 6455 §9.1, RFC 9110 §5.6.

/// The header violates the syntax.
pub struct Malformed;

/// An element of the header.
pub enum Element<'a> {
    /// An extension's name; its parameters follow.
    Extension(&'a [u8]),
    /// A parameter of the last extension.
    Param(&'a [u8], Option<Value>),
}

/// Unquoted value of a parameter. Values longer than any known one are not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    bytes: [u8; 4],
    length: usize,
}

impl Value {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
    }

    /// None if the value was too long to be stored.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length)
    }
}

/// RFC 9110 §5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

pub struct Parser<'a> {
    rest: &'a [u8],
    /// The last element was an extension or a parameter: `;` may follow.
    in_extension: bool,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text, in_extension: false }
    }

    /// The next element; none at the end. Empty list elements are skipped, as RFC 9110 requires.
    pub fn next(&mut self) -> Result<Option<Element<'a>>, Malformed> {
        self.skip_space();
        if self.in_extension {
            match self.rest.split_first() {
                None => return Ok(None),
                Some((b';', rest)) => {
                    self.rest = rest;
                    return self.param().map(Some);
                }
                Some((b',', rest)) => self.rest = rest,
                Some(_) => return Err(Malformed),
            }
            self.in_extension = false;
        }
        loop {
            self.skip_space();
            match self.rest.split_first() {
                None => return Ok(None),
                Some((b',', rest)) => self.rest = rest,
                Some(_) => {
                    self.in_extension = true;
                    return self.token().map(Element::Extension).map(Some);
                }
            }
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn token(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.rest.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(self.rest.len());
        if length == 0 {
            return Err(Malformed);
        }
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(token)
    }

    fn param(&mut self) -> Result<Element<'a>, Malformed> {
        self.skip_space();
        let name = self.token()?;
        self.skip_space();
        let Some((b'=', rest)) = self.rest.split_first() else { return Ok(Element::Param(name, None)) };
        self.rest = rest;
        self.skip_space();
        let mut value = Value::default();
        if self.rest.first() == Some(&b'"') {
            self.quoted(&mut value)?;
        } else {
            self.token()?.iter().for_each(|byte| value.push(*byte));
        }
        Ok(Element::Param(name, Some(value)))
    }

    /// Parses a quoted string; its content must be a token.
    fn quoted(&mut self, value: &mut Value) -> Result<(), Malformed> {
        let mut bytes = self.rest[1..].iter();
        loop {
            match bytes.next() {
                Some(b'"') if value.length > 0 => break,
                Some(b'\\') => match bytes.next() {
                    Some(byte) if is_token_byte(*byte) => value.push(*byte),
                    _ => return Err(Malformed),
                },
                Some(byte) if is_token_byte(*byte) => value.push(*byte),
                _ => return Err(Malformed),
            }
        }
        self.rest = bytes.as_slice();
        Ok(())
    }
}
