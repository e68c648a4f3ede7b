//! What a client receives, decoded.

use serde_json::Value;
use std::{fmt, sync::Arc};

/// The `d` of a dispatch, in the form it came.
#[derive(Clone, PartialEq)]
pub enum Body {
    /// JSON text, untouched.
    Json(Box<str>),
    /// A decoded term, with strings for ids.
    Etf(Arc<Value>),
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
            Body::Json(text) => parsed(text),
            Body::Etf(value) => Value::clone(value),
        }
    }

    /// The same, without a copy of what is decoded already.
    ///
    /// # Panics
    /// When the body is not JSON.
    #[must_use]
    pub fn shared_d(&self) -> Arc<Value> {
        match &self.body {
            Body::Json(text) => Arc::new(parsed(text)),
            Body::Etf(value) => value.clone(),
        }
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("the body is JSON")
}

/// Turns numbers that only an id can be into strings, as JSON has them.
pub(crate) fn strings_for_ids(value: &mut Value) {
    /// Above every timestamp in milliseconds, below every snowflake of the last years.
    const ID_MIN: u64 = 1 << 53;
    match value {
        Value::Number(number) => {
            if let Some(id) = number.as_u64().filter(|id| *id >= ID_MIN) {
                *value = Value::String(id.to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strings_for_ids),
        Value::Object(map) => map.values_mut().for_each(strings_for_ids),
        _ => {}
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
