//! Scrubber: bodies of dispatches without the parts that identify a person.
//!
//! Owns        which parts of a body remain: allowed fields, short numbers, words of the protocol.
//! Invariants  C1 a text or a number of more than `DIGITS_KEPT` digits never remains: a surrogate replaces it. C2 a
//!             field that the event's body does not have in `guildhall-model` is dropped. (tests/it/scrub.rs)
//! Limits      bodies of `guildhall_codec::etf::DEPTH_MAX` levels.
//! Not here    surrogates: `surrogate`. The table of fields: `allowed`.

use crate::{allowed::Allowed, surrogate::Surrogates};
use guildhall_model::EventName;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Longer numbers may be ids or times.
pub(crate) const DIGITS_KEPT: usize = 5;

/// Fields of READY and GUILD_CREATE with channels that not every member may view, or that are direct, and with settings
/// of the account.
pub const PRIVATE_LISTS: [&str; 16] = [
    "channels",
    "friend_suggestion_count",
    "guild_scheduled_events",
    "lazy_private_channels",
    "merged_presences",
    "notes",
    "pending_payments",
    "private_channels",
    "read_state",
    "relationships",
    "stage_instances",
    "threads",
    "user_guild_settings",
    "user_settings",
    "user_settings_proto",
    "voice_states",
];

/// Makes copies without content, by a key of its own.
#[derive(Debug)]
pub struct Scrubber {
    surrogates: Surrogates,
    text: String,
}

impl Scrubber {
    /// By this key, which has to be random and must not be kept anywhere else.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self { surrogates: Surrogates::new(key), text: String::new() }
    }

    /// A copy of the body of an event, its fields in the same order and without those of `left_out`. None: a backend
    /// defines the event.
    ///
    /// # Errors
    /// The body is not JSON.
    pub fn copy(&mut self, name: EventName, json: &[u8], left_out: &[&str]) -> serde_json::Result<Option<String>> {
        let Some(allowed) = Allowed::of(name) else { return Ok(None) };
        let mut out = String::with_capacity(json.len());
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        Copier { of: self, out: &mut out, allowed, left_out }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(Some(out))
    }
}

/// A copy without the fields of `left_out`, and with everything else.
///
/// # Errors
/// The body is not JSON.
pub fn copy_unscrubbed(json: &[u8], left_out: &[&str]) -> serde_json::Result<String> {
    let mut value: serde_json::Value = serde_json::from_slice(json)?;
    if left_out.is_empty() {
        return Ok(String::from_utf8_lossy(json).into_owned());
    }
    remove(&mut value, left_out);
    Ok(value.to_string())
}

fn remove(value: &mut serde_json::Value, left_out: &[&str]) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.retain(|name, _| !left_out.contains(&name.as_str()));
            fields.values_mut().for_each(|value| remove(value, left_out));
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| remove(value, left_out)),
        _ => {}
    }
}

/// Copies one value.
struct Copier<'a> {
    of: &'a mut Scrubber,
    out: &'a mut String,
    allowed: Allowed,
    left_out: &'a [&'a str],
}

impl Copier<'_> {
    fn push_text(&mut self, text: &str) {
        let Scrubber { surrogates, text: made } = self.of;
        made.clear();
        surrogates.push(text, made);
        push_json(made, self.out);
    }

    fn number(self, number: &str) {
        let digits: String = number.chars().filter(char::is_ascii_digit).collect();
        if digits.len() <= DIGITS_KEPT {
            self.out.push_str(number);
            return;
        }
        if number.starts_with('-') {
            self.out.push('-');
        }
        // Of a fraction as well: as many digits, and no more than 64 bits have.
        let digits = &digits[..digits.len().min(20)];
        let made = self.of.surrogates.number(digits);
        self.out.push_str(if made.starts_with('0') { "1" } else { &made });
    }

    fn within(&mut self) -> Copier<'_> {
        Copier { of: &mut *self.of, out: &mut *self.out, allowed: self.allowed, left_out: self.left_out }
    }
}

fn push_json(text: &str, out: &mut String) {
    // A text is always JSON.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

impl<'de> DeserializeSeed<'de> for Copier<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copier<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.out.push_str("null");
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.out.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.number(&value.to_string());
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.number(&value.to_string());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        // As serde_json writes it: 0.5, or 1e300.
        self.number(&serde_json::to_string(&value).unwrap_or_default());
        Ok(())
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<(), E> {
        self.push_text(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        self.out.push('[');
        let start = self.out.len();
        loop {
            let before = self.out.len();
            if before > start {
                self.out.push(',');
            }
            if seq.next_element_seed(self.within())?.is_none() {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.out.push('{');
        let start = self.out.len();
        while let Some(name) = map.next_key::<String>()? {
            if !self.allowed.has(&name) || self.left_out.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if self.out.len() > start {
                self.out.push(',');
            }
            match crate::allowed::is_id(&name) {
                true => self.push_text(&name),
                false => push_json(&name, self.out),
            }
            self.out.push(':');
            map.next_value_seed(self.within())?;
        }
        self.out.push('}');
        Ok(())
    }
}
