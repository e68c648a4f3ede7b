//! Builders of accounts and guilds.
//!
//! Invariants  an id is the number that the test names plus an offset that makes it look like a snowflake.

use guildhall_guild::{Guild, GuildLimits, GuildRecord};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild as GuildFields, GuildId, Id, Member, Overwrite, OverwriteKind, Permissions,
    Role, RoleId, User, UserId,
};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

/// Offset that `id` adds to small numbers.
const FIRST: u64 = 1_100_000_000_000_000_000;
/// Application flags with every privileged intent granted.
const ALL_GRANTED: u32 = 1 << 12 | 1 << 14 | 1 << 18;

/// A realistic id for a small number; larger numbers are returned unchanged.
#[must_use]
pub const fn id<T>(n: u64) -> Id<T> {
    Id::new(if n < FIRST { FIRST + n } else { n })
}

/// A user account.
#[must_use]
pub fn user(n: u64) -> Arc<User> {
    Arc::new(User { global_name: Some(format!("User {n}")), ..User::new(id(n), &format!("user{n}")) })
}

/// A bot account whose application was granted no privileged intents.
#[must_use]
pub fn bot(n: u64) -> Arc<User> {
    Arc::new(User { bot: true, ..User::new(id(n), &format!("bot{n}")) })
}

/// A bot account whose application was granted every privileged intent.
#[must_use]
pub fn privileged(n: u64) -> Arc<User> {
    Arc::new(User { bot: true, application_flags: ALL_GRANTED, ..User::new(id(n), &format!("bot{n}")) })
}

/// Builds a guild before it is loaded. Small numbers become realistic ids.
#[derive(Clone, Debug)]
pub struct GuildBuilder {
    fields: GuildFields,
    roles: BTreeMap<RoleId, Role>,
    channels: BTreeMap<ChannelId, Channel>,
    members: BTreeMap<UserId, Member>,
    limits: GuildLimits,
}

impl GuildBuilder {
    /// A guild with its owner and `@everyone`, which may view and send everywhere.
    #[must_use]
    pub fn new(n: u64, owner: &Arc<User>) -> Self {
        let guild_id: GuildId = id(n);
        let builder = Self {
            fields: GuildFields::new(guild_id, &format!("guild {n}"), owner.id),
            roles: BTreeMap::new(),
            channels: BTreeMap::new(),
            members: BTreeMap::new(),
            limits: GuildLimits { voice_endpoint: Some("voice.example.net".to_owned()), ..GuildLimits::default() },
        };
        builder.role(guild_id.get(), Permissions::DEFAULT_EVERYONE).member(owner, &[])
    }

    /// Id of the guild.
    #[must_use]
    pub fn id(&self) -> GuildId {
        self.fields.id
    }

    /// Adds or replaces a role. The guild's own id is that of `@everyone`.
    #[must_use]
    pub fn role(mut self, n: u64, permissions: Permissions) -> Self {
        let role_id: RoleId = id(n);
        let is_everyone = role_id == self.fields.id.cast();
        let role = Role {
            id: role_id,
            name: if is_everyone { "@everyone".to_owned() } else { format!("role {n}") },
            color: 0,
            hoist: false,
            position: i32::from(!is_everyone),
            permissions,
            managed: false,
            mentionable: false,
            icon: None,
        };
        self.roles.insert(role_id, role);
        self
    }

    /// Sets the permissions of `@everyone`.
    #[must_use]
    pub fn everyone(self, permissions: Permissions) -> Self {
        let everyone = self.fields.id.get();
        self.role(everyone, permissions)
    }

    /// Adds a channel.
    #[must_use]
    pub fn channel(mut self, n: u64, kind: ChannelType) -> Self {
        let channel = Channel::new(id(n), self.fields.id, kind, &format!("channel-{n}"));
        self.channels.insert(channel.id, channel);
        self
    }

    /// Adds a text channel that only members with one of `roles` (and administrators) can view.
    #[must_use]
    pub fn hidden_channel(mut self, n: u64, roles: &[u64]) -> Self {
        self = self.channel(n, ChannelType::Text);
        let everyone = OverwriteKind::Role(self.fields.id.cast());
        let hidden = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
        let shown = roles.iter().map(|role| Overwrite {
            target: OverwriteKind::Role(id(*role)),
            allow: Permissions::VIEW_CHANNEL,
            deny: Permissions::NONE,
        });
        let channel = self.channels.get_mut(&id(n)).expect("added above");
        channel.overwrites = std::iter::once(hidden).chain(shown).collect();
        self
    }

    /// Adds a member with roles.
    #[must_use]
    pub fn member(mut self, user: &Arc<User>, roles: &[u64]) -> Self {
        let mut member = Member::new(user.clone(), Timestamp(1_690_000_000_000));
        member.roles = roles.iter().map(|role| id(*role)).collect();
        member.roles.sort_unstable();
        self.members.insert(user.id, member);
        self
    }

    /// Changes the limits.
    #[must_use]
    pub fn limits(mut self, change: impl FnOnce(&mut GuildLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Loads the guild machine.
    #[must_use]
    pub fn load(self) -> Guild {
        let record = GuildRecord {
            guild: self.fields,
            roles: self.roles.into_values().collect(),
            channels: self.channels.into_values().collect(),
            members: self.members.into_values().map(Arc::new).collect(),
            resources: Vec::new(),
            nonces: Vec::new(),
        };
        Guild::load(record, self.limits, 1)
    }
}
