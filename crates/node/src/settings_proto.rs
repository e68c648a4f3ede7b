//! Settings of clients for user accounts, which the node stores for them.
//!
//! Owns        two protocol buffers per account, of which only the frame is read: the numbers of the top-level fields,
//!             and `versions.data_version`.
//! Doors       `Node::settings_proto`, `Node::update_settings_proto`, `Node::remove_settings_proto`.
//! Invariants  S1 a change replaces the top-level fields that it has and leaves the others. S2 each change increases
//!             the data version by one, and nothing else changes it. (tests `s1_*`, `s2_*`)
//! Limits      `SETTINGS_BYTES_MAX` stored bytes; a change that needs more is refused. One change at a time on a node;
//!             `ATTEMPTS_MAX` if other nodes change the same settings.
//!             Spec  docs/protocol/choices.md "Settings of user accounts".

use crate::Node;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_model::UserId;
use guildhall_store::StoreError;
use serde_json::json;

/// Kind of the records; the id is the account's, and the kind of settings.
const KIND: &str = "settings-proto";
/// Bytes of one kind of settings.
pub const SETTINGS_BYTES_MAX: usize = 64 << 10;
/// Of a change: other nodes may change the same settings.
const ATTEMPTS_MAX: u32 = 10;
/// Field of the settings: the message `versions`.
const VERSIONS: u64 = 1;
/// Field of `versions`.
const DATA_VERSION: u64 = 3;
/// Wire type of a number.
const VARINT: u64 = 0;
/// Wire type of bytes, texts and messages.
const BYTES: u64 = 2;

/// A kind of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsKind {
    Preloaded = 1,
    Frecency = 2,
}

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsUpdate {
    /// The settings, with the change.
    Updated(Vec<u8>),
    /// The settings, without the change: they do not have the version that the client requires.
    OutOfDate(Vec<u8>),
    /// No protocol buffer.
    Malformed,
    /// The settings would have more than `SETTINGS_BYTES_MAX` bytes.
    TooLarge,
    /// Other nodes changed them all the time: the client may try again.
    Contended,
}

fn record_id(user_id: UserId, kind: SettingsKind) -> [u8; 9] {
    let mut id = [kind as u8; 9];
    id[..8].copy_from_slice(&user_id.get().to_be_bytes());
    id
}

impl Node {
    /// The settings of an account; empty if its clients have stored none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn settings_proto(&self, user_id: UserId, kind: SettingsKind) -> Result<Vec<u8>, StoreError> {
        Ok(self.inner.store.record(KIND, &record_id(user_id, kind)).await?.unwrap_or_default())
    }

    /// Changes the settings of an account, durably, and sends them to its sessions. With `required_version` only if
    /// they have that data version.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn update_settings_proto(
        &self,
        user_id: UserId,
        kind: SettingsKind,
        change: &[u8],
        required_version: Option<u64>,
    ) -> Result<SettingsUpdate, StoreError> {
        let _one_at_a_time = self.inner.settings_lock.lock().await;
        let id = record_id(user_id, kind);
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.inner.store.record(KIND, &id).await?;
            let before = stored.as_deref().unwrap_or_default();
            let version = data_version(before);
            if required_version.is_some_and(|required| required != version) {
                return Ok(SettingsUpdate::OutOfDate(before.to_vec()));
            }
            let Some(after) = changed(before, change, version + 1) else { return Ok(SettingsUpdate::Malformed) };
            if after.len() > SETTINGS_BYTES_MAX {
                return Ok(SettingsUpdate::TooLarge);
            }
            if self.inner.store.swap_record(KIND, &id, stored.as_deref(), Some(&after)).await? {
                self.announce_settings(user_id, kind, &after);
                return Ok(SettingsUpdate::Updated(after));
            }
        }
        Ok(SettingsUpdate::Contended)
    }

    /// Removes all settings of an account.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn remove_settings_proto(&self, user_id: UserId) -> Result<(), StoreError> {
        for kind in [SettingsKind::Preloaded, SettingsKind::Frecency] {
            self.inner.store.delete_record(KIND, &record_id(user_id, kind)).await?;
        }
        Ok(())
    }

    fn announce_settings(&self, user_id: UserId, kind: SettingsKind, settings: &[u8]) {
        let body = json!({"settings": {"proto": STANDARD.encode(settings), "type": kind as u8}, "partial": false});
        self.publish_to_account(user_id, "USER_SETTINGS_PROTO_UPDATE", &body);
    }
}

/// A field of a message: its number, and its bytes with their tag.
type Field<'a> = (u64, &'a [u8]);

/// The fields of a message, in order. None: it is no protocol buffer.
fn fields(mut message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (tag, rest) = varint(message)?;
        let rest = match tag & 7 {
            VARINT => varint(rest)?.1,
            1 => rest.get(8..)?,
            BYTES => {
                let (length, rest) = varint(rest)?;
                rest.get(usize::try_from(length).ok()?..)?
            }
            5 => rest.get(4..)?,
            _ => return None,
        };
        let number = tag >> 3;
        if number == 0 {
            return None;
        }
        fields.push((number, &message[..message.len() - rest.len()]));
        message = rest;
    }
    Some(fields)
}

/// A number and the bytes behind it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(at as u32 * 7)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The content of the last field of this number and of wire type `BYTES`.
fn message_in<'a>(fields: &[Field<'a>], number: u64) -> Option<&'a [u8]> {
    let (_, field) = fields.iter().rev().find(|(of, _)| *of == number)?;
    let (tag, rest) = varint(field)?;
    if tag & 7 == BYTES { Some(varint(rest)?.1) } else { None }
}

fn data_version(settings: &[u8]) -> u64 {
    let versions = fields(settings).and_then(|of_settings| message_in(&of_settings, VERSIONS)).and_then(fields);
    let version = versions.and_then(|of_versions| {
        let (_, field) = of_versions.into_iter().rev().find(|(number, _)| *number == DATA_VERSION)?;
        let (tag, rest) = varint(field)?;
        if tag & 7 == VARINT { varint(rest) } else { None }
    });
    version.map_or(0, |(version, _)| version)
}

/// The settings with the fields of `change` in place of those of the same numbers. None: one is no protocol buffer.
fn changed(before: &[u8], change: &[u8], version: u64) -> Option<Vec<u8>> {
    let (before, change) = (fields(before)?, fields(change)?);
    let versions = message_in(&change, VERSIONS).or_else(|| message_in(&before, VERSIONS)).unwrap_or_default();
    let mut new_versions = Vec::new();
    for (_, field) in fields(versions)?.into_iter().filter(|(number, _)| *number != DATA_VERSION) {
        new_versions.extend_from_slice(field);
    }
    put_varint(DATA_VERSION << 3 | VARINT, &mut new_versions);
    put_varint(version, &mut new_versions);
    let mut after = Vec::new();
    put_varint(VERSIONS << 3 | BYTES, &mut after);
    put_varint(new_versions.len() as u64, &mut after);
    after.append(&mut new_versions);
    let is_replaced = |number: u64| number == VERSIONS || change.iter().any(|(of, _)| *of == number);
    let kept = before.iter().filter(|(number, _)| !is_replaced(*number));
    for (_, field) in kept.chain(change.iter().filter(|(number, _)| *number != VERSIONS)) {
        after.extend_from_slice(field);
    }
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `versions { client_version: 7 }`, a text field 2, a number field 3.
    const BEFORE: &[u8] = b"\x0a\x02\x08\x07\x12\x02ab\x18\x05";

    #[test]
    fn s1_fields_are_replaced_whole() {
        // Field 2 twice, and a new field 4 of four bytes.
        let after = changed(BEFORE, b"\x12\x01x\x12\x01y\x25abcd", 1).unwrap();
        assert_eq!(after, b"\x0a\x04\x08\x07\x18\x01\x18\x05\x12\x01x\x12\x01y\x25abcd");
        assert_eq!(changed(&after, b"", 2).unwrap().len(), after.len());
        for broken in
            [&b"\x12"[..], b"\x12\x05ab", b"\x13", b"\x00\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            assert_eq!(changed(BEFORE, broken, 1), None, "{broken:?}");
        }
    }

    #[test]
    fn s2_the_version_is_the_nodes() {
        assert_eq!(data_version(b""), 0);
        assert_eq!(data_version(BEFORE), 0);
        let after = changed(b"", b"", 300).unwrap();
        assert_eq!(data_version(&after), 300);
        // A client sends another version, and one of its own format.
        let after = changed(&after, b"\x0a\x04\x08\x09\x18\x01", 301).unwrap();
        assert_eq!((after.as_slice(), data_version(&after)), (&b"\x0a\x05\x08\x09\x18\xad\x02"[..], 301));
    }

    #[test]
    fn s1_nothing_panics() {
        let mut changed_count = 0;
        for at in 0..BEFORE.len() {
            for byte in 0..=u8::MAX {
                let mut change = BEFORE.to_vec();
                change[at] = byte;
                for change in [&change[..], &change[at..], &change[..at]] {
                    if let Some(after) = changed(BEFORE, change, 5) {
                        changed_count += 1;
                        assert_eq!(data_version(&after), 5, "{change:?}");
                        assert!(after.len() <= BEFORE.len() + change.len() + 20);
                    }
                }
            }
        }
        assert!(changed_count > 1_000, "{changed_count}");
    }
}
