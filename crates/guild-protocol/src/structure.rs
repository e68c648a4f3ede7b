//! Guild structure: base fields, roles and channels, shared and versioned.
//!
//! Owns        `GuildStructure`, which the guild publishes as a whole whenever any of it changes.
//! Invariants  immutable once published: a change creates a new one that shares the unchanged parts.
//! Not here    members, voice, presence, and each channel's newest message, because they change far more often.

use guildhall_member_list::ListId;
use guildhall_model::{
    Channel, ChannelId, Guild, GuildId, Member, MemberStanding, Permissions, Role, RoleId, UserId, channel_permissions,
    guild_permissions, thread_permissions,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Base fields, roles and channels of a guild at one version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuildStructure {
    /// The guild's own fields.
    pub guild: Arc<Guild>,
    /// Roles by id; `@everyone` has the guild's id.
    pub roles: Arc<BTreeMap<RoleId, Arc<Role>>>,
    /// Channels by id. Their `last_message_id` is only as recent as the channel's last other change.
    pub channels: Arc<BTreeMap<ChannelId, Arc<Channel>>>,
}

impl GuildStructure {
    /// The guild's id.
    #[must_use]
    pub fn id(&self) -> GuildId {
        self.guild.id
    }

    /// Input of the permission algorithm for a member at `now`.
    #[must_use]
    pub fn standing<'a>(&self, member: &'a Member, now: Timestamp) -> MemberStanding<'a> {
        MemberStanding {
            user_id: member.user.id,
            roles: &member.roles,
            is_owner: self.guild.owner_id == member.user.id,
            is_silenced: member.flags & Member::QUARANTINE_FLAGS != 0
                || member.communication_disabled_until.is_some_and(|until| until > now),
        }
    }

    /// Permissions in the guild as a whole.
    #[must_use]
    pub fn guild_permissions(&self, standing: MemberStanding<'_>) -> Permissions {
        guild_permissions(self.id(), standing, |role| self.role_permissions(role))
    }

    /// Permissions in a channel.
    #[must_use]
    pub fn channel_permissions(&self, standing: MemberStanding<'_>, channel: &Channel) -> Permissions {
        channel_permissions(self.id(), standing, channel, |role| self.role_permissions(role))
    }

    /// Permissions in a channel of a member without roles.
    #[must_use]
    pub fn everyone_permissions(&self, channel: &Channel) -> Permissions {
        let nobody = UserId::new(0);
        let standing = MemberStanding { user_id: nobody, roles: &[], is_owner: false, is_silenced: false };
        self.channel_permissions(standing, channel)
    }

    /// Permissions in the threads of a channel.
    #[must_use]
    pub fn thread_permissions(&self, standing: MemberStanding<'_>, parent: &Channel) -> Permissions {
        thread_permissions(self.id(), standing, parent, |role| self.role_permissions(role))
    }

    /// Member list of a channel.
    #[must_use]
    pub fn list_of(&self, channel_id: ChannelId) -> Option<ListId> {
        let channel = self.channels.get(&channel_id)?;
        let everyone = self.role_permissions(self.id().cast()).unwrap_or(Permissions::NONE);
        Some(ListId::of_channel(everyone.contains(Permissions::VIEW_CHANNEL), &channel.overwrites))
    }

    fn role_permissions(&self, role: RoleId) -> Option<Permissions> {
        self.roles.get(&role).map(|role| role.permissions)
    }
}
