//! Presences. Spec  docs/protocol/reference.md §6.9.

use crate::{
    id::{GuildId, UserId},
    presence::{Activity, ClientStatus, Presence, Status},
};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Serialize)]
struct UserRef {
    id: UserId,
}

/// A presence. Only PRESENCE_UPDATE of a member has `guild_id`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PresenceBody<'a> {
    user: UserRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<GuildId>,
    status: Status,
    activities: &'a [Activity],
    client_status: ClientStatus,
}

impl<'a> PresenceBody<'a> {
    /// Body inside GUILD_CREATE and chunks (`guild_id` none) or of PRESENCE_UPDATE; of a friend without `guild_id`.
    #[must_use]
    pub fn new(guild_id: Option<GuildId>, user_id: UserId, presence: &'a Presence) -> Self {
        Self {
            user: UserRef { id: user_id },
            guild_id,
            status: presence.status,
            activities: &presence.activities,
            client_status: presence.client_status,
        }
    }

    /// As [`Self::new`], for a user who may be offline.
    #[must_use]
    pub fn of(guild_id: Option<GuildId>, user_id: UserId, presence: Option<&'a Presence>) -> Self {
        match presence {
            Some(presence) => Self::new(guild_id, user_id, presence),
            None => Self {
                user: UserRef { id: user_id },
                guild_id,
                status: Status::Offline,
                activities: &[],
                client_status: ClientStatus::default(),
            },
        }
    }
}

/// A presence for READY and READY_SUPPLEMENTAL with deduplicated users (reference.md §8.2).
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct MergedPresenceBody<'a> {
    user_id: UserId,
    status: Status,
    activities: &'a [Activity],
    client_status: ClientStatus,
}

impl<'a> MergedPresenceBody<'a> {
    pub(super) fn new(user_id: UserId, presence: &'a Presence) -> Self {
        Self {
            user_id,
            status: presence.status,
            activities: &presence.activities,
            client_status: presence.client_status,
        }
    }
}
