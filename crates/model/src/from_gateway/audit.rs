//! Audit log entries. Spec  docs/protocol/choices.md "Audit log".

use crate::{
    audit::{AuditAction, AuditChange, AuditEntry},
    id::{GuildId, Id, UserId},
};
use serde::Serialize;
use serde_json::{Map, Value};

/// An audit log entry, for REST and GUILD_AUDIT_LOG_ENTRY_CREATE.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntryBody<'a> {
    id: Id<()>,
    action_type: AuditAction,
    user_id: UserId,
    target_id: Option<Id<()>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [AuditChange],
    #[serde(skip_serializing_if = "Map::is_empty")]
    options: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
}

impl<'a> From<&'a AuditEntry> for AuditEntryBody<'a> {
    fn from(entry: &'a AuditEntry) -> Self {
        Self {
            id: entry.id,
            action_type: entry.action,
            user_id: entry.user_id,
            target_id: entry.target_id,
            changes: &entry.changes,
            options: &entry.options,
            reason: entry.reason.as_deref(),
            guild_id: None,
        }
    }
}

impl AuditEntryBody<'_> {
    /// Adds the guild id, which only the event has.
    #[must_use]
    pub fn with_guild(self, guild_id: GuildId) -> Self {
        Self { guild_id: Some(guild_id), ..self }
    }
}
