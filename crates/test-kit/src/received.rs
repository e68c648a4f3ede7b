//! What a client receives, decoded.

use serde_json::Value;
use std::fmt;

/// The `d` of a dispatch, in the form it came.
#[derive(Clone, PartialEq)]
pub enum Body {
    /// JSON text, untouched.
    Json(Box<str>),
    /// A decoded term.
    Etf(Value),
}

impl fmt::Debug for Body {
    /// The beginning is enough to see in a failed test what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS_MAX: usize = 60;
        let text = match self {
            Self::Json(text) => text.to_string(),
            Self::Etf(value) => value.to_string(),
        };
        f.write_str(&text.chars().take(CHARS_MAX).collect::<String>())
    }
}

/// An event under its sequence number.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// `s`.
    pub seq: u64,
    /// `t`.
    pub name: String,
    /// `d`.
    pub body: Body,
}

impl Dispatch {
    /// The body as a value that is the same in both encodings: ids are strings.
    ///
    /// # Panics
    /// When the body is not JSON.
    #[must_use]
    pub fn d(&self) -> Value {
        match &self.body {
            Body::Json(text) => serde_json::from_str(text).expect("the body is JSON"),
            Body::Etf(value) => strings_for_ids(value),
        }
    }
}

/// Turns numbers that only an id can be into strings, as JSON has them.
#[must_use]
pub fn strings_for_ids(value: &Value) -> Value {
    /// Above every timestamp in milliseconds, below every snowflake of the last years.
    const ID_MIN: u64 = 1 << 53;
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(id) if id >= ID_MIN => Value::String(id.to_string()),
            _ => Value::Number(number.clone()),
        },
        Value::Array(items) => Value::Array(items.iter().map(strings_for_ids).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), strings_for_ids(value))).collect())
        }
        other => other.clone(),
    }
}

/// Something a client received.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// Op 10.
    Hello {
        /// Milliseconds.
        heartbeat_interval: u64,
    },
    /// Op 11.
    HeartbeatAck,
    /// Op 9.
    InvalidSession(bool),
    /// Op 7.
    Reconnect,
    /// Op 0.
    Dispatch(Dispatch),
    /// A pong.
    Pong(Vec<u8>),
    /// A close frame.
    Close(Option<u16>, String),
    /// The socket ended.
    End,
}
