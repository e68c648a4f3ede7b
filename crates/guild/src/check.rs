//! Permission checks of an actor.
//!
//! Owns        `GuildContext` in the guild, `ChannelContext` in a channel, `Rank` in the hierarchy of roles.
//! Invariants  a caller who is not a member learns nothing: UnknownGuild from the guild, MissingAccess from a channel.
//!             Missing objects are reported before missing permissions. The system has every permission.

use crate::{
    command::{Actor, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_model::{Channel, ChannelId, Member, Permissions, Role, RoleId, UserId};
use guildhall_stdx::Now;
use std::{cmp::Reverse, sync::Arc};

/// Position in the hierarchy of roles. Of two roles with equal positions the older is higher, as libraries compute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(i64, Reverse<RoleId>);

impl Rank {
    /// Rank of the owner: above every role.
    const TOP: Self = Self(i64::MAX, Reverse(RoleId::new(0)));
    /// Rank of a member without roles: below every role except `@everyone`.
    pub const BOTTOM: Self = Self(i64::MIN, Reverse(RoleId::new(0)));

    pub fn of(role: &Role) -> Self {
        Self(i64::from(role.position), Reverse(role.id))
    }
}

/// An actor in the guild, with permissions.
#[derive(Clone, Debug)]
pub(crate) struct GuildContext {
    /// None: the system.
    pub member: Option<Arc<Member>>,
    pub permissions: Permissions,
    pub rank: Rank,
    pub is_owner: bool,
    /// A time-out or a quarantine is in force; see `need_free`.
    pub is_silenced: bool,
}

impl GuildContext {
    pub fn is_system(&self) -> bool {
        self.member.is_none()
    }

    pub fn is(&self, user_id: UserId) -> bool {
        self.member.as_ref().is_some_and(|member| member.user.id == user_id)
    }

    pub fn need(&self, permissions: Permissions) -> Result<(), Refusal> {
        if self.permissions.contains(permissions) { Ok(()) } else { Err(Refusal::MissingPermissions) }
    }

    pub fn need_above(&self, rank: Rank) -> Result<(), Refusal> {
        if self.is_system() || self.rank > rank { Ok(()) } else { Err(Refusal::MissingPermissions) }
    }

    /// Refuses actions of a silenced member that need no permission but are visible to others. Removing one's own
    /// messages and reactions stays allowed.
    pub fn need_free(&self) -> Result<(), Refusal> {
        if self.is_silenced { Err(Refusal::MissingPermissions) } else { Ok(()) }
    }

    /// Whether the actor may add an emoji or sticker.
    pub fn need_to_create_expressions(&self) -> Result<(), Refusal> {
        let any = Permissions::CREATE_GUILD_EXPRESSIONS | Permissions::MANAGE_GUILD_EXPRESSIONS;
        if self.permissions.intersects(any) { Ok(()) } else { Err(Refusal::MissingPermissions) }
    }

    /// Whether the actor may change an emoji or sticker that `creator_id` added.
    pub fn need_to_change_expression(&self, creator_id: Option<UserId>) -> Result<(), Refusal> {
        let is_own = creator_id.is_some_and(|user_id| self.is(user_id));
        if is_own && self.permissions.contains(Permissions::CREATE_GUILD_EXPRESSIONS) {
            return Ok(());
        }
        self.need(Permissions::MANAGE_GUILD_EXPRESSIONS)
    }

    pub fn need_system(&self) -> Result<(), Refusal> {
        if self.is_system() { Ok(()) } else { Err(Refusal::MissingPermissions) }
    }
}

/// An actor in a channel that they can view.
#[derive(Clone, Debug)]
pub(crate) struct ChannelContext {
    pub channel: Arc<Channel>,
    /// None: the system.
    pub member: Option<Arc<Member>>,
    pub permissions: Permissions,
    /// As in `GuildContext`.
    pub is_silenced: bool,
}

impl ChannelContext {
    pub fn can(&self, permissions: Permissions) -> bool {
        self.permissions.contains(permissions)
    }

    pub fn need(&self, permissions: Permissions) -> Result<(), Refusal> {
        if self.can(permissions) { Ok(()) } else { Err(Refusal::MissingPermissions) }
    }

    /// See `Permissions::may_read_history`.
    pub fn may_read_history(&self) -> bool {
        self.permissions.may_read_history(self.channel.kind)
    }

    /// Before a command shows the actor a message, or that there is none.
    pub fn need_history(&self) -> Result<(), Refusal> {
        if self.may_read_history() { Ok(()) } else { Err(Refusal::MissingPermissions) }
    }

    /// As `GuildContext::need_free`.
    pub fn need_free(&self) -> Result<(), Refusal> {
        if self.is_silenced { Err(Refusal::MissingPermissions) } else { Ok(()) }
    }

    pub fn is(&self, user_id: UserId) -> bool {
        self.member.as_ref().is_some_and(|member| member.user.id == user_id)
    }

    /// The member who acts; an error for the system.
    pub fn author(&self) -> Result<Arc<Member>, Refusal> {
        self.member.clone().ok_or(Refusal::UnknownUser)
    }
}

impl Guild {
    /// A member, without roles that have been deleted since they were last written.
    pub(crate) fn member(&self, user_id: UserId) -> Option<Arc<Member>> {
        let member = &self.members.entry(user_id)?.member;
        if member.roles.iter().all(|role| self.structure.roles.contains_key(role)) {
            return Some(member.clone());
        }
        let mut member = Member::clone(member);
        member.roles.retain(|role| self.structure.roles.contains_key(role));
        Some(Arc::new(member))
    }

    pub(crate) fn need_member(&self, user_id: UserId) -> Result<Arc<Member>, Refusal> {
        self.member(user_id).ok_or(Refusal::UnknownMember)
    }

    pub(crate) fn need_role(&self, role_id: RoleId) -> Result<Arc<Role>, Refusal> {
        self.structure.roles.get(&role_id).cloned().ok_or(Refusal::UnknownRole)
    }

    /// Rank of a member's highest role.
    pub(crate) fn member_rank(&self, member: &Member) -> Rank {
        if member.user.id == self.structure.guild.owner_id {
            return Rank::TOP;
        }
        let ranks = member.roles.iter().filter_map(|role| self.structure.roles.get(role)).map(|role| Rank::of(role));
        ranks.max().unwrap_or(Rank::BOTTOM)
    }

    pub(crate) fn in_guild(&self, turn: Turn<'_>) -> Result<GuildContext, Refusal> {
        let Actor::User(user_id) = turn.actor else {
            return Ok(GuildContext {
                member: None,
                permissions: Permissions::ALL,
                rank: Rank::TOP,
                is_owner: false,
                is_silenced: false,
            });
        };
        let member = self.member(user_id).ok_or(Refusal::UnknownGuild)?;
        let permissions = self.structure.guild_permissions(self.structure.standing(&member, turn.now.unix));
        Ok(GuildContext {
            is_silenced: self.is_silenced(turn.now, &member, permissions),
            permissions,
            rank: self.member_rank(&member),
            is_owner: user_id == self.structure.guild.owner_id,
            member: Some(member),
        })
    }

    /// Whether a time-out or a quarantine is in force. Owners and administrators are exempt, as upstream.
    fn is_silenced(&self, now: Now, member: &Member, permissions: Permissions) -> bool {
        self.structure.standing(member, now.unix).is_silenced && !permissions.contains(Permissions::ADMINISTRATOR)
    }

    pub(crate) fn permissions_in(&self, now: Now, member: &Member, channel: &Channel) -> Permissions {
        self.structure.channel_permissions(self.structure.standing(member, now.unix), channel)
    }

    pub(crate) fn in_channel(&self, turn: Turn<'_>, channel_id: ChannelId) -> Result<ChannelContext, Refusal> {
        let Some(channel) = self.structure.channels.get(&channel_id).cloned() else {
            return self.in_thread(turn, channel_id);
        };
        let Actor::User(user_id) = turn.actor else {
            return Ok(ChannelContext { channel, member: None, permissions: Permissions::ALL, is_silenced: false });
        };
        let member = self.member(user_id).ok_or(Refusal::MissingAccess)?;
        let permissions = self.permissions_in(turn.now, &member, &channel);
        let is_silenced = self.is_silenced(turn.now, &member, permissions);
        let context = ChannelContext { channel, member: Some(member), permissions, is_silenced };
        if context.can(Permissions::VIEW_CHANNEL) { Ok(context) } else { Err(Refusal::MissingAccess) }
    }

    /// As `in_channel`, for its messages: the text chat of a voice channel requires CONNECT.
    pub(crate) fn message_channel(&self, turn: Turn<'_>, channel_id: ChannelId) -> Result<ChannelContext, Refusal> {
        let context = self.in_channel(turn, channel_id)?;
        if !context.channel.kind.holds_messages() {
            return Err(Refusal::NotATextChannel);
        }
        if context.channel.kind.is_voice() && !context.can(Permissions::CONNECT) {
            return Err(Refusal::MissingAccess);
        }
        Ok(context)
    }
}
