//! Activities: the fields that others are shown, and the bounds on them.
//!
//! Owns        the table of known fields with their types and lengths; the byte limits of one activity, a session and a
//!             user.
//! Doors       `clean` for what a client sends; `within` for the aggregate over a user's sessions.
//! Invariants  A1 a cleaned activity has known fields of the right type only, and at most `ACTIVITY_BYTES_MAX` bytes of
//!             JSON. A2 cleaning is idempotent. (tests)
//! Limits      each limit is a constant below. Long texts are cut; an activity that still does not fit is left out. A
//!             presence never closes a connection: libraries send presences in IDENTIFY, so they would reconnect with
//!             the same presence.
//! Spec        docs/protocol/choices.md "Presences".

use crate::presence::Activity;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Activities of one session; further ones are left out.
pub const ACTIVITIES_MAX: usize = 8;
/// Bytes of one activity as JSON; a longer one is left out.
pub const ACTIVITY_BYTES_MAX: usize = 2 << 10;
/// Bytes of all activities of a session as JSON; those that do not fit are left out.
pub const SESSION_ACTIVITIES_BYTES_MAX: usize = 4 << 10;
/// Bytes of a user's activities over all sessions, as shown to others. The list ends before the first activity that
/// does not fit.
pub const SHOWN_ACTIVITIES_BYTES_MAX: usize = 8 << 10;

/// Characters of `name`, `state`, `details` and the texts of images. 128 as upstream.
const TEXT_CHARS_MAX: usize = 128;
const URL_CHARS_MAX: usize = 256;
/// Characters of an id or a secret.
const KEY_CHARS_MAX: usize = 128;
/// Two buttons of up to 32 characters as upstream.
const BUTTONS_MAX: usize = 2;
const BUTTON_CHARS_MAX: usize = 32;
/// `size` of a party: how many there are, and how many there may be.
const PAIR: usize = 2;

/// Type of a field.
enum Kind {
    /// Text; the number is the limit in characters, and longer texts are cut.
    Text(usize),
    Number,
    Bool,
    /// Clients write ids and times as numbers or as texts.
    NumberOrText(usize),
    /// Array of texts: limit of the array, limit of each text in characters.
    Texts(usize, usize),
    /// Array with exactly this number of numbers.
    Numbers(usize),
    Object(&'static [(&'static str, Kind)]),
}

const FIELDS: &[(&str, Kind)] = &[
    ("name", Kind::Text(TEXT_CHARS_MAX)),
    ("type", Kind::Number),
    ("url", Kind::Text(URL_CHARS_MAX)),
    ("state", Kind::Text(TEXT_CHARS_MAX)),
    ("state_url", Kind::Text(URL_CHARS_MAX)),
    ("details", Kind::Text(TEXT_CHARS_MAX)),
    ("details_url", Kind::Text(URL_CHARS_MAX)),
    ("id", Kind::NumberOrText(KEY_CHARS_MAX)),
    ("created_at", Kind::NumberOrText(KEY_CHARS_MAX)),
    ("application_id", Kind::NumberOrText(KEY_CHARS_MAX)),
    ("session_id", Kind::Text(KEY_CHARS_MAX)),
    ("sync_id", Kind::Text(KEY_CHARS_MAX)),
    ("platform", Kind::Text(BUTTON_CHARS_MAX)),
    ("flags", Kind::Number),
    ("instance", Kind::Bool),
    ("status_display_type", Kind::Number),
    (
        "timestamps",
        Kind::Object(&[("start", Kind::NumberOrText(BUTTON_CHARS_MAX)), ("end", Kind::NumberOrText(BUTTON_CHARS_MAX))]),
    ),
    (
        "emoji",
        Kind::Object(&[
            ("name", Kind::Text(TEXT_CHARS_MAX)),
            ("id", Kind::NumberOrText(KEY_CHARS_MAX)),
            ("animated", Kind::Bool),
        ]),
    ),
    ("party", Kind::Object(&[("id", Kind::Text(KEY_CHARS_MAX)), ("size", Kind::Numbers(PAIR))])),
    (
        "assets",
        Kind::Object(&[
            ("large_image", Kind::Text(URL_CHARS_MAX)),
            ("large_text", Kind::Text(TEXT_CHARS_MAX)),
            ("large_url", Kind::Text(URL_CHARS_MAX)),
            ("small_image", Kind::Text(URL_CHARS_MAX)),
            ("small_text", Kind::Text(TEXT_CHARS_MAX)),
            ("small_url", Kind::Text(URL_CHARS_MAX)),
            ("invite_cover_image", Kind::Text(URL_CHARS_MAX)),
        ]),
    ),
    (
        "secrets",
        Kind::Object(&[
            ("join", Kind::Text(KEY_CHARS_MAX)),
            ("spectate", Kind::Text(KEY_CHARS_MAX)),
            ("match", Kind::Text(KEY_CHARS_MAX)),
        ]),
    ),
    ("buttons", Kind::Texts(BUTTONS_MAX, BUTTON_CHARS_MAX)),
];

/// The only fields that a bot sets.
const FIELDS_OF_BOTS: [&str; 4] = ["name", "type", "state", "url"];

/// The known fields of an activity, within their limits. None: it has no name, or is too long all the same.
#[must_use]
pub fn clean(activity: &Value) -> Option<Activity> {
    let cleaned = clean_object(activity.as_object()?, FIELDS);
    let is_named = cleaned.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    (is_named && json_bytes(&cleaned) <= ACTIVITY_BYTES_MAX).then_some(cleaned)
}

/// Removes the fields that bots do not set.
pub fn keep_fields_of_bots(activity: &mut Activity) {
    activity.retain(|name, _| FIELDS_OF_BOTS.contains(&name.as_str()));
}

/// The activities of a session, within `ACTIVITIES_MAX` and `SESSION_ACTIVITIES_BYTES_MAX`.
pub fn clean_all<'a>(activities: impl Iterator<Item = &'a Value>) -> Vec<Activity> {
    let mut room = SESSION_ACTIVITIES_BYTES_MAX;
    let fits = |activity: &Activity| {
        let left = room.checked_sub(json_bytes(activity));
        room = left.unwrap_or(room);
        left.is_some()
    };
    // Activities without a name do not count, so the input needs a limit of its own.
    activities.take(8 * ACTIVITIES_MAX).filter_map(clean).filter(fits).take(ACTIVITIES_MAX).collect()
}

/// The first activities that fit into `count_max` and `bytes_max`. Cost: O(bytes returned).
pub fn within<'a>(
    activities: impl Iterator<Item = &'a Activity>,
    count_max: usize,
    bytes_max: usize,
) -> impl Iterator<Item = &'a Activity> {
    let mut room = bytes_max;
    activities.take(count_max).take_while(move |activity| {
        let left = room.checked_sub(json_bytes(activity));
        room = left.unwrap_or(0);
        left.is_some()
    })
}

fn clean_object(object: &Map<String, Value>, fields: &[(&str, Kind)]) -> Map<String, Value> {
    let field = |(name, kind): &(&str, Kind)| Some(((*name).to_owned(), clean_value(object.get(*name)?, kind)?));
    fields.iter().filter_map(field).collect()
}

fn clean_value(value: &Value, kind: &Kind) -> Option<Value> {
    let text = |value: &Value, chars_max: usize| {
        let text = value.as_str()?;
        let end = text.char_indices().nth(chars_max).map_or(text.len(), |(at, _)| at);
        Some(Value::from(&text[..end]))
    };
    match kind {
        Kind::Text(chars_max) => text(value, *chars_max),
        Kind::Number => value.is_number().then(|| value.clone()),
        Kind::Bool => value.is_boolean().then(|| value.clone()),
        Kind::NumberOrText(chars_max) if !value.is_number() => text(value, *chars_max),
        Kind::NumberOrText(_) => Some(value.clone()),
        Kind::Texts(count_max, chars_max) => {
            let texts = value.as_array()?.iter().take(*count_max).filter_map(|value| text(value, *chars_max));
            Some(Value::Array(texts.collect()))
        }
        Kind::Numbers(count) => {
            let numbers = value.as_array()?;
            (numbers.len() == *count && numbers.iter().all(Value::is_number)).then(|| value.clone())
        }
        Kind::Object(fields) => Some(Value::Object(clean_object(value.as_object()?, fields))),
    }
}

/// Bytes of something as JSON, without writing it anywhere.
fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn s6_a1_only_known_fields_of_the_right_type_are_taken() {
        let check =
            |sent: Value, expected: Option<Value>| assert_eq!(clean(&sent).map(Value::Object), expected, "{sent}");
        check(json!({"name": "go", "type": 0}), Some(json!({"name": "go", "type": 0})));
        check(json!({"name": "go", "bomb": "x".repeat(9_000)}), Some(json!({"name": "go"})));
        check(json!({"name": "go", "type": "0", "instance": 1, "emoji": []}), Some(json!({"name": "go"})));
        check(json!({"name": ""}), None);
        check(json!({"type": 0}), None);
        check(json!([]), None);
        let whole = json!({
            "name": "Chess", "type": 0, "url": "https://example.net", "state": "won", "details": "blitz", "flags": 1,
            "application_id": "12", "created_at": 1_700_000_000_000_u64, "timestamps": {"start": 1, "end": "2"},
            "emoji": {"name": "🔥", "id": null, "animated": false}, "party": {"id": "p", "size": [1, 2]},
            "assets": {"large_image": "a", "small_text": "b"}, "secrets": {"join": "j"}, "buttons": ["A", "B", "C"],
        });
        let cleaned = clean(&whole).expect("it has a name");
        assert_eq!(cleaned["buttons"], json!(["A", "B"]));
        assert_eq!(cleaned["emoji"], json!({"name": "🔥", "animated": false}));
        assert_eq!(cleaned.len(), whole.as_object().map_or(0, Map::len), "all of them are known");
        assert_eq!(clean(&Value::Object(cleaned.clone())), Some(cleaned), "A2");
    }

    #[test]
    fn s6_texts_are_cut_and_long_activities_left_out() {
        let long = "é".repeat(500);
        let cleaned = clean(&json!({"name": long, "details": long})).expect("it is short enough then");
        assert_eq!(cleaned["name"].as_str().map(|name| name.chars().count()), Some(128));
        let fields = ["large_image", "large_text", "large_url", "small_image", "small_text", "small_url"];
        let assets: Map<String, Value> =
            fields.iter().map(|name| ((*name).to_owned(), "é".repeat(256).into())).collect();
        let huge = json!({"name": long, "state": long, "details": long, "url": long, "assets": assets});
        assert_eq!(clean(&huge), None, "more than 2 KiB of known fields");
    }

    #[test]
    fn s6_a_session_and_a_user_have_a_bound_each() {
        let one = json!({"name": "x".repeat(128), "state": "y".repeat(128), "details": "z".repeat(128), "url": "u".repeat(256)});
        let many = vec![one; 50];
        let shown = clean_all(many.iter());
        let bytes = |shown: &[Activity]| shown.iter().map(json_bytes).sum::<usize>();
        assert!(shown.len() < ACTIVITIES_MAX && bytes(&shown) <= SESSION_ACTIVITIES_BYTES_MAX, "{}", bytes(&shown));
        assert!(bytes(&shown) > SESSION_ACTIVITIES_BYTES_MAX / 2);
        assert_eq!(clean_all(vec![json!({"name": "x"}); 50].iter()).len(), ACTIVITIES_MAX);
        let over: Vec<Activity> = within(shown.iter().cycle(), 99, SHOWN_ACTIVITIES_BYTES_MAX).cloned().collect();
        assert!(bytes(&over) <= SHOWN_ACTIVITIES_BYTES_MAX && over.len() > shown.len());
        assert_eq!(within(shown.iter().cycle(), 3, usize::MAX).count(), 3);
    }
}
