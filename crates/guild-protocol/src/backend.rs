//! Backend events: events with a name and body chosen by a backend.
//!
//! Owns        `BackendEvent`: a name, a body as JSON text, and a receipt that counts the sessions it reached.
//! Invariants  B1 an event that `new` accepts renders in every encoding and redaction. (test `b1_*`)
//!             B2 a bot without MESSAGE_CONTENT receives a message without content, embeds, attachments, components and
//!             poll, unless it wrote the message or is mentioned, as for the gateway's own messages. (test `b2_*`)
//! Limits      `KEPT_NAMES_MAX`; the caller bounds the length of the body.
//! Not here    the audience: `event`.     Spec  docs/backend-api.md "Publishing"; docs/protocol/reference.md §4.3.

use crate::event::{ContentReaders, Mentions, Redaction};
use guildhall_codec::{EVENT_NAME_BYTES_MAX, Encoding, transcode_json};
use guildhall_model::{ChannelId, EventName, Id, MessageId, RoleId, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, value::RawValue};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Receives the number of sessions that an event reached, once from every relay that delivered it.
pub trait Receipt: Send + Sync + fmt::Debug {
    /// One relay delivered the event to `sessions` sessions. Called on the partition's thread: must not block.
    fn reached(&self, sessions: u64);

    /// Where relays of other nodes report; none: they do not.
    fn place(&self) -> Option<ReceiptPlace> {
        None
    }
}

/// A receipt in a cluster: it crosses between nodes in the place of the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptPlace {
    /// The node that waits for the count.
    pub node: u8,
    /// Its number there.
    pub id: u64,
}

/// Names that start or continue a session. A backend that sent them would put clients into a wrong state.
const RESERVED: [EventName; 3] = [EventName::Ready, EventName::ReadySupplemental, EventName::Resumed];

/// Names of backends that are stored permanently. An event with a further name carries it, and is compressed
/// without shared-match.
const KEPT_NAMES_MAX: usize = 1_024;

static KEPT_NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

#[derive(Debug)]
enum Name {
    Static(&'static str),
    Own(Box<str>),
}

impl Name {
    fn of(name: &str, known: EventName) -> Self {
        if known != EventName::Backend {
            return Self::Static(known.as_str());
        }
        // The set is consistent between any two statements.
        let mut kept = KEPT_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = kept.get(name) {
            return Self::Static(name);
        }
        if kept.len() >= KEPT_NAMES_MAX {
            return Self::Own(name.into());
        }
        let name: &'static str = Box::leak(name.into());
        kept.insert(name);
        Self::Static(name)
    }
}

/// Why an event cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendEventError {
    /// The name is malformed.
    #[error("an event's name is 1 to {EVENT_NAME_BYTES_MAX} of A-Z, 0-9 and _")]
    Name,
    /// The name is reserved.
    #[error("READY, READY_SUPPLEMENTAL and RESUMED belong to sessions and cannot be published")]
    Reserved,
    /// The body cannot be encoded.
    #[error("the body cannot be sent: {0}")]
    Body(String),
}

/// An event with a name and body chosen by a backend.
#[derive(Debug)]
pub struct BackendEvent {
    name: Name,
    known: EventName,
    body: Box<str>,
    readers: Option<ContentReaders>,
    mentions: Option<Mentions>,
    /// For a new message: its id, and the channel in its body.
    newest: Option<(MessageId, Option<ChannelId>)>,
    receipt: OnceLock<Arc<dyn Receipt>>,
    /// The receipt's place, if the event came from another node.
    place: Option<ReceiptPlace>,
}

/// As it crosses between nodes: instead of the receipt its place.
#[derive(Serialize, Deserialize)]
struct BackendEventForm<T> {
    name: T,
    body: T,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<ReceiptPlace>,
}

impl Serialize for BackendEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        BackendEventForm { name: self.name(), body: &*self.body, receipt: self.receipt_place() }.serialize(serializer)
    }
}

/// Validates as `new` does.
impl<'de> Deserialize<'de> for BackendEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let BackendEventForm { name, body, receipt } = BackendEventForm::<String>::deserialize(deserializer)?;
        let body = RawValue::from_string(body).map_err(D::Error::custom)?;
        let event = Self::new(&name, &body, None).map_err(D::Error::custom)?;
        Ok(Self { place: receipt, ..event })
    }
}

impl BackendEvent {
    /// Validates a name and a body.
    ///
    /// # Errors
    /// When the name is malformed or reserved, or the body cannot be sent in every encoding.
    pub fn new(name: &str, body: &RawValue, receipt: Option<Arc<dyn Receipt>>) -> Result<Self, BackendEventError> {
        let is_plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || name.len() > EVENT_NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return Err(BackendEventError::Name);
        }
        let known = EventName::from_wire(name).unwrap_or(EventName::Backend);
        if RESERVED.contains(&known) {
            return Err(BackendEventError::Reserved);
        }
        let json = body.get();
        let refuse = |error: &dyn fmt::Display| BackendEventError::Body(error.to_string());
        transcode_json(json.as_bytes(), &mut Vec::with_capacity(json.len())).map_err(|error| refuse(&error))?;
        let is_message = matches!(known, EventName::MessageCreate | EventName::MessageUpdate);
        let (mut readers, mut mentions, mut newest) = (None, None, None);
        if is_message {
            let message: Value = serde_json::from_str(json).map_err(|error| refuse(&error))?;
            readers = Some(ContentReaders {
                message: people_of(&message),
                referenced: message.get("referenced_message").filter(|m| m.is_object()).map(people_of),
            });
            if known == EventName::MessageCreate {
                mentions = Some(mentions_of(&message));
                let channel_id = message.get("channel_id").and_then(parse_id);
                newest = message.get("id").and_then(parse_id).map(|id| (id, channel_id));
            }
        }
        let receipt = receipt.map_or_else(OnceLock::new, OnceLock::from);
        let name = Name::of(name, known);
        Ok(Self { name, known, body: json.into(), readers, mentions, newest, receipt, place: None })
    }

    /// The value of `t`.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.name {
            Name::Static(name) => name,
            Name::Own(name) => name,
        }
    }

    /// The name, if it is stored permanently; only events with such names take part in shared-match.
    #[must_use]
    pub fn static_name(&self) -> Option<&'static str> {
        match self.name {
            Name::Static(name) => Some(name),
            Name::Own(_) => None,
        }
    }

    /// The protocol's event with this name; `Backend` if there is none.
    #[must_use]
    pub fn known(&self) -> EventName {
        self.known
    }

    /// Id of the new message in `channel_id`; none if the event is about another channel or has no id.
    #[must_use]
    pub fn newest_in(&self, channel_id: ChannelId) -> Option<MessageId> {
        let (id, of) = self.newest?;
        of.is_none_or(|of| of == channel_id).then_some(id)
    }

    pub(crate) fn readers(&self) -> Option<ContentReaders> {
        self.readers.clone()
    }

    pub(crate) fn mentions(&self) -> Option<Mentions> {
        self.mentions.clone()
    }

    /// Receipt that counts the sessions reached.
    #[must_use]
    pub fn receipt(&self) -> Option<&Arc<dyn Receipt>> {
        self.receipt.get()
    }

    /// Place of its receipt, on this node or another.
    #[must_use]
    pub fn receipt_place(&self) -> Option<ReceiptPlace> {
        self.receipt.get().and_then(|receipt| receipt.place()).or(self.place)
    }

    /// Gives an event of another node a receipt that reports to that node. An event that has one keeps it.
    pub fn attach(&self, receipt: Arc<dyn Receipt>) {
        // The first wins.
        let _ = self.receipt.set(receipt);
    }

    pub(crate) fn render(&self, encoding: Encoding, redaction: Redaction, out: &mut Vec<u8>) {
        if redaction != Redaction::None {
            let mut message: Value = serde_json::from_str(&self.body).expect("B1: read when it came in");
            if redaction.message() {
                withhold(&mut message);
            }
            if let Some(referenced) = message.get_mut("referenced_message").filter(|_| redaction.referenced()) {
                withhold(referenced);
            }
            return encoding.encode(&message, out).expect("B1: encoded when it came in");
        }
        match encoding {
            Encoding::Json => out.extend_from_slice(self.body.as_bytes()),
            Encoding::Etf => transcode_json(self.body.as_bytes(), out).expect("B1: transcoded when it came in"),
        }
    }
}

fn id_of(user: &Value) -> Option<UserId> {
    parse_id(user.get("id")?)
}

fn parse_id<T>(id: &Value) -> Option<Id<T>> {
    match id {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64().map(Id::new),
        _ => None,
    }
}

fn list<'a>(message: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    message.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The author and the mentioned users.
fn people_of<B: FromIterator<UserId>>(message: &Value) -> B {
    message.get("author").into_iter().chain(list(message, "mentions")).filter_map(id_of).collect()
}

fn mentions_of(message: &Value) -> Mentions {
    let role = |id: &Value| id.as_str().and_then(|id| id.parse::<RoleId>().ok());
    Mentions {
        users: people_of(message),
        roles: list(message, "mention_roles").filter_map(role).collect(),
        everyone: message.get("mention_everyone").and_then(Value::as_bool).unwrap_or(false),
    }
}

fn withhold(message: &mut Value) {
    let Some(fields) = message.as_object_mut() else { return };
    for (key, nothing) in [
        ("content", Value::String(String::new())),
        ("embeds", Value::Array(Vec::new())),
        ("attachments", Value::Array(Vec::new())),
        ("components", Value::Array(Vec::new())),
    ] {
        if let Some(field) = fields.get_mut(key) {
            *field = nothing;
        }
    }
    fields.remove("poll");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn event(name: &str, json: &str) -> Result<BackendEvent, BackendEventError> {
        BackendEvent::new(name, &raw(json), None)
    }

    fn rendered(event: &BackendEvent, redaction: Redaction) -> Value {
        let mut out = Vec::new();
        event.render(Encoding::Json, redaction, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn names() {
        for name in ["", "lower", "A B", "Ä", &"X".repeat(65), "A\"B"] {
            assert_eq!(event(name, "{}").unwrap_err(), BackendEventError::Name, "{name}");
        }
        for name in ["READY", "RESUMED", "READY_SUPPLEMENTAL"] {
            assert_eq!(event(name, "{}").unwrap_err(), BackendEventError::Reserved, "{name}");
        }
        assert_eq!(event("ROUND_STARTED", "{}").unwrap().known(), EventName::Backend);
        assert_eq!(event("TYPING_START", "{}").unwrap().known(), EventName::TypingStart);
    }

    #[test]
    fn b1_what_comes_in_renders() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for json in ["null", "1", "\"x\"", " {\"a\" : [1, 2.5, -3, true, null, {\"b\":\"ä\\n\"}]} ", &deep(200)] {
            let event = event("X", json).unwrap();
            for encoding in [Encoding::Json, Encoding::Etf] {
                let mut out = Vec::new();
                event.render(encoding, Redaction::None, &mut out);
                assert!(!out.is_empty());
            }
        }
        assert!(matches!(event("X", &deep(1000)), Err(BackendEventError::Body(_))), "deeper than ETF can say");
        assert!(matches!(event("MESSAGE_CREATE", &deep(200)), Err(BackendEventError::Body(_))), "it must be read");
        assert!(matches!(event("X", "\"\\ud800\""), Err(BackendEventError::Body(_))), "half of a character");
    }

    #[test]
    fn b2_a_message_is_withheld_but_for_its_readers() {
        let json = r#"{"id":"1","content":"secret","embeds":[{}],"attachments":[{}],"components":[{}],"poll":{},
            "author":{"id":"7"},"mentions":[{"id":8}],"mention_roles":["9"],"mention_everyone":true,
            "referenced_message":{"content":"older","author":{"id":"10"}}}"#;
        let event = event("MESSAGE_CREATE", json).unwrap();
        let readers = event.readers().unwrap();
        assert_eq!(readers.message.to_vec(), [UserId::new(7), UserId::new(8)]);
        assert_eq!(readers.referenced.as_ref().unwrap().to_vec(), [UserId::new(10)]);
        let mentions = event.mentions().unwrap();
        assert_eq!((mentions.users.len(), mentions.roles.to_vec(), mentions.everyone), (2, vec![RoleId::new(9)], true));
        assert_eq!(rendered(&event, Redaction::None)["content"], "secret");
        let stranger = rendered(&event, Redaction::for_strangers(&readers));
        assert_eq!((&stranger["content"], &stranger["referenced_message"]["content"]), (&"".into(), &"".into()));
        assert_eq!((stranger["embeds"].as_array().unwrap().len(), stranger.get("poll")), (0, None));
        let author = rendered(&event, Redaction::for_user(&readers, UserId::new(7)));
        assert_eq!((&author["content"], &author["referenced_message"]["content"]), (&"secret".into(), &"".into()));
    }
}
