//! Decoded input of a client.

use serde_json::Value;
use std::{fmt, sync::Arc};

/// The `d` of a dispatch, in its encoding.
#[derive(Clone, PartialEq)]
pub enum Body {
    /// JSON text, unparsed.
    Json(Box<str>),
    /// A decoded term, with ids as strings.
    Etf(Arc<Value>),
}

impl fmt::Debug for Body {
    /// Truncated: the start is enough to identify it in a failed test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CHARS_MAX: usize = 60;
        let text = match self {
            Self::Json(text) => text.to_string(),
            Self::Etf(value) => value.to_string(),
        };
        f.write_str(&text.chars().take(CHARS_MAX).collect::<String>())
    }
}

/// A decoded dispatch.
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
    /// The body as a value that is equal in both encodings: ids are strings.
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

    /// As `d`, without a copy if it is decoded already.
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

/// Turns numbers that can only be ids into strings, as in JSON.
pub(crate) fn strings_for_ids(value: &mut Value) {
    /// Greater than every timestamp in milliseconds, less than every snowflake of the last years.
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

/// Anything that a client can receive.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// Op 10, the first payload.
    Hello {
        /// In milliseconds.
        heartbeat_interval: u64,
    },
    /// Op 11, answers a heartbeat.
    HeartbeatAck,
    /// Op 9 with its `d`: can be resumed.
    InvalidSession(bool),
    /// Op 7: the client is to reconnect.
    Reconnect,
    /// Op 0, an event.
    Dispatch(Dispatch),
    /// A pong frame.
    Pong(Vec<u8>),
    /// A close frame.
    Close(Option<u16>, String),
    /// End of the byte stream.
    End,
}
