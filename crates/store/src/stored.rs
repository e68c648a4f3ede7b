//! Stored form: objects as columns and JSON, the same for all databases.
//!
//! Invariants  ids are below 2⁶³, so that they are integers of a database.

use guildhall_guild::SentNonce;
use guildhall_model::{
    ChannelId, GuildId, Id, Member, MemberPictures, Message, MessageId, Nonce, OnboardingAnswers, ResourceKey, RoleId,
    User, UserId,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Two accounts, in whatever order, as they are stored.
pub(crate) fn sorted(mut pair: [UserId; 2]) -> [UserId; 2] {
    pair.sort_unstable();
    pair
}

/// An id as a column: ids are below 2⁶³.
pub(crate) fn int<T>(id: Id<T>) -> i64 {
    id.get() as i64
}

/// The id of a column.
pub(crate) fn id<T>(column: i64) -> Id<T> {
    Id::new(column as u64)
}

/// Columns that a guild resource is found by.
pub(crate) fn resource_columns(guild_id: GuildId, key: ResourceKey) -> [i64; 4] {
    [int(guild_id), key.kind as i64, key.id as i64, key.part as i64]
}

/// A message with its nonce, if it has one. It is last, so that `,"nonce":` finds the few rows that have one; reading a
/// message ignores it.
pub(crate) fn message_json(message: &Message) -> serde_json::Result<String> {
    let mut json = serde_json::to_string(message)?;
    if let Some(nonce) = &message.nonce {
        let nonce = serde_json::to_string(nonce)?;
        // Instead of the closing brace.
        json.pop();
        json.push_str(",\"nonce\":");
        json.push_str(&nonce);
        json.push('}');
    }
    Ok(json)
}

/// The nonce of a stored message. None: only its content looks like one, or it cannot be read, which must not keep the
/// guild from loading.
pub(crate) fn sent_nonce(
    (channel_id, message_id, author_id): (ChannelId, MessageId, UserId),
    data: &str,
) -> Option<SentNonce> {
    #[derive(Deserialize)]
    struct OnlyNonce {
        #[serde(default)]
        nonce: Option<Nonce>,
    }
    let nonce = serde_json::from_str::<OnlyNonce>(data).ok()?.nonce?;
    Some(SentNonce { author_id, channel_id, message_id, nonce })
}

/// A member without the account.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredMember {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nick: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    roles: SmallVec<[RoleId; 4]>,
    joined_at: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deaf: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    mute: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    flags: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    communication_disabled_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pictures: Option<Box<MemberPictures>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    onboarding: Option<Box<OnboardingAnswers>>,
}

impl StoredMember {
    pub(crate) fn of(member: &Member) -> Self {
        // Without `..`, so that a new field cannot be forgotten.
        let Member {
            user: _,
            nick,
            roles,
            joined_at,
            deaf,
            mute,
            flags,
            communication_disabled_until,
            pictures,
            onboarding,
        } = member;
        Self {
            nick: nick.clone(),
            roles: roles.clone(),
            joined_at: *joined_at,
            deaf: *deaf,
            mute: *mute,
            flags: *flags,
            communication_disabled_until: *communication_disabled_until,
            pictures: pictures.clone(),
            onboarding: onboarding.clone(),
        }
    }

    pub(crate) fn joined_at(&self) -> Timestamp {
        self.joined_at
    }

    pub(crate) fn roles(&self) -> &[RoleId] {
        &self.roles
    }

    /// The member, with the account.
    pub(crate) fn with(self, user: Arc<User>) -> Member {
        let Self { nick, roles, joined_at, deaf, mute, flags, communication_disabled_until, pictures, onboarding } =
            self;
        Member { user, nick, roles, joined_at, deaf, mute, flags, communication_disabled_until, pictures, onboarding }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
