//! Belongings: what a guild keeps beside its roles, channels and members. They are stored in one table, each as one row.
//!
//! Owns        `Belonging`, one variant per kind; `BelongingKey`, by which a row is found again.
//! Invariants  the key is made of the content: the same thing put again replaces itself.
//! Spec        docs/protocol.md §7.1, §7.2, §10.3, §10.4.

use crate::{
    audit::AuditEntry,
    id::{ApplicationId, ChannelId, GuildId, MessageId, UserId, WebhookId},
    invite::Invite,
    thread::ThreadMember,
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Somebody who may not come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// Who, as they were when they were banned.
    pub user: Arc<User>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A way to post into a channel without an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Its id, also that of its messages' author.
    pub id: WebhookId,
    /// Where it is.
    pub guild_id: GuildId,
    /// Where it posts.
    pub channel_id: ChannelId,
    /// What its messages are signed with.
    pub name: String,
    /// Hash of the picture they are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// Whoever knows it may post.
    pub token: String,
    /// Who made it; none: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<User>>,
    /// The application that made it, if it was a bot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_id: Option<ApplicationId>,
}

/// A message that is pinned in its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Where.
    pub channel_id: ChannelId,
    /// What.
    pub message_id: MessageId,
    /// Since when.
    pub pinned_at: Timestamp,
}

/// Something that a guild keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// A ban.
    Ban(Arc<Ban>),
    /// An invite.
    Invite(Arc<Invite>),
    /// A webhook.
    Webhook(Arc<Webhook>),
    /// A pinned message.
    Pin(Pin),
    /// Somebody who joined a thread.
    ThreadMember(ThreadMember),
    /// A member for as long as they are there.
    TemporaryMember(UserId),
    /// An entry of the audit log.
    AuditEntry(Arc<AuditEntry>),
}

/// What kind of thing it is. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BelongingKind {
    /// By the user.
    Ban = 1,
    /// By the code, as a number.
    Invite = 2,
    /// By its id.
    Webhook = 3,
    /// By the channel, then the message.
    Pin = 4,
    /// By the thread, then the user.
    ThreadMember = 5,
    /// By the user.
    TemporaryMember = 6,
    /// Entry of the audit log, by its id.
    AuditEntry = 7,
}

/// Where a belonging is found within its guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BelongingKey {
    /// What kind.
    pub kind: BelongingKind,
    /// Which, below 2⁶³. Invites and webhooks are found by it in all guilds.
    pub id: u64,
    /// Which part of it; 0 for kinds without parts.
    pub part: u64,
}

impl BelongingKey {
    /// Of something that has no parts.
    #[must_use]
    pub const fn whole(kind: BelongingKind, id: u64) -> Self {
        Self { kind, id, part: 0 }
    }
}

impl Belonging {
    /// Where it is found.
    #[must_use]
    pub fn key(&self) -> BelongingKey {
        use BelongingKind as K;
        match self {
            Self::Ban(ban) => BelongingKey::whole(K::Ban, ban.user.id.get()),
            Self::Invite(invite) => BelongingKey::whole(K::Invite, invite.code.number()),
            Self::Webhook(webhook) => BelongingKey::whole(K::Webhook, webhook.id.get()),
            Self::Pin(pin) => BelongingKey { kind: K::Pin, id: pin.channel_id.get(), part: pin.message_id.get() },
            Self::ThreadMember(ThreadMember { thread_id, user_id, .. }) => {
                BelongingKey { kind: K::ThreadMember, id: thread_id.get(), part: user_id.get() }
            }
            Self::TemporaryMember(user_id) => BelongingKey::whole(K::TemporaryMember, user_id.get()),
            Self::AuditEntry(entry) => BelongingKey::whole(K::AuditEntry, entry.id.get()),
        }
    }

    /// The member of a thread that it is.
    #[must_use]
    pub fn thread_member(&self) -> Option<ThreadMember> {
        if let Self::ThreadMember(member) = self { Some(*member) } else { None }
    }

    /// Its content as JSON.
    ///
    /// # Errors
    /// Those of the serializer; none are known.
    pub fn to_json(&self) -> serde_json::Result<String> {
        match self {
            Self::Ban(ban) => serde_json::to_string(&**ban),
            Self::Invite(invite) => serde_json::to_string(&**invite),
            Self::Webhook(webhook) => serde_json::to_string(&**webhook),
            Self::Pin(pin) => serde_json::to_string(pin),
            Self::ThreadMember(member) => serde_json::to_string(member),
            Self::TemporaryMember(user_id) => serde_json::to_string(user_id),
            Self::AuditEntry(entry) => serde_json::to_string(&**entry),
        }
    }

    /// A thing of this kind from its content. None: there is no such kind, so a later version wrote it.
    ///
    /// # Errors
    /// When the content is not what was written.
    pub fn from_json(kind: u8, json: &str) -> serde_json::Result<Option<Self>> {
        use BelongingKind as K;
        Ok(Some(match kind {
            k if k == K::Ban as u8 => Self::Ban(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Invite as u8 => Self::Invite(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Webhook as u8 => Self::Webhook(serde_json::from_str(json).map(Arc::new)?),
            k if k == K::Pin as u8 => Self::Pin(serde_json::from_str(json)?),
            k if k == K::ThreadMember as u8 => Self::ThreadMember(serde_json::from_str(json)?),
            k if k == K::TemporaryMember as u8 => Self::TemporaryMember(serde_json::from_str(json)?),
            k if k == K::AuditEntry as u8 => Self::AuditEntry(serde_json::from_str(json).map(Arc::new)?),
            _ => return Ok(None),
        }))
    }
}

/// Whoever posts by a webhook is shown as this account.
impl Webhook {
    /// The author of its messages, with another name or picture if the message asks for them.
    #[must_use]
    pub fn author(&self, name: Option<&str>, avatar: Option<&str>) -> User {
        let id: UserId = self.id.cast();
        User {
            bot: true,
            avatar: avatar.or(self.avatar.as_deref()).map(str::to_owned),
            discriminator: "0000".to_owned(),
            ..User::new(id, name.unwrap_or(&self.name))
        }
    }
}
