//! Bans, and joining a guild.
//!
//! Owns        `Ban`, `Unban`, `ReadBan`, `ListBans`, `Join`.
//! Invariants  V1 no banned account is a member: a ban removes the member, and every way to join except the system's
//!             own `AddMember` checks for bans. V2 a removed account receives no later events, not even that of the
//!             ban.
//! Limits      `bans_max`. A ban costs as much as removing a member.
//! Not here    deletion of their messages: the caller issues `DeleteMessages`.
//! Spec        docs/protocol/reference.md §7.1, §10.4.

use crate::{
    audit::NewEntry,
    check::GuildContext,
    command::{CommandResult, Join, NewBan, Page, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    AuditAction, Ban, EventName, GuildResource, Member, Permissions, ResourceKey, ResourceKind, RoleId, User, UserId,
};
use guildhall_stdx::Now;
use std::sync::Arc;

/// Members with any of these permissions receive ban events.
const READERS: Permissions = Permissions(Permissions::BAN_MEMBERS.0 | Permissions::VIEW_AUDIT_LOG.0);

impl Guild {
    pub(crate) fn ban(&mut self, turn: Turn<'_>, new: &NewBan) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::BAN_MEMBERS)?;
        let user_id = new.user.id;
        if guild_context.is(user_id) || user_id == self.structure.guild.owner_id {
            return Err(Refusal::MissingPermissions.into());
        }
        let member = self.member(user_id);
        if let Some(member) = &member {
            guild_context.need_above(self.member_rank(member))?;
        }
        if self.resources.bans.contains_key(&user_id) {
            return Ok(());
        }
        if self.resources.bans.len() >= self.limits.bans_max {
            return Err(Refusal::TooManyBans.into());
        }
        // No refusals after this point.

        if let Some(member) = member {
            self.take_out(turn.now, &member);
        }
        let ban = Arc::new(Ban { user: new.user.clone(), reason: new.reason.clone() });
        self.resources.bans.insert(user_id, ban.clone());
        self.put_resource(GuildResource::Ban(ban));
        let resource = ResourcePayload::Ban { user: new.user.clone(), delete_message_s: Some(new.delete_message_s) };
        self.publish_ban(EventName::GuildBanAdd, resource);
        self.log(turn, NewEntry::new(AuditAction::MemberBanAdd, user_id));
        Ok(())
    }

    pub(crate) fn unban(&mut self, turn: Turn<'_>, user_id: UserId) -> CommandResult<()> {
        self.in_guild(turn)?.need(Permissions::BAN_MEMBERS)?;
        let ban = self.resources.bans.remove(&user_id).ok_or(Refusal::UnknownBan)?;
        self.delete_resource(ResourceKey::whole(ResourceKind::Ban, user_id.get()));
        let resource = ResourcePayload::Ban { user: ban.user.clone(), delete_message_s: None };
        self.publish_ban(EventName::GuildBanRemove, resource);
        self.log(turn, NewEntry::new(AuditAction::MemberBanRemove, user_id));
        Ok(())
    }

    /// A ban shows the account as it is now. Clients get no event: they read bans by REST.
    pub(crate) fn refresh_banned(&mut self, user: &Arc<User>) {
        let Some(ban) = self.resources.bans.get(&user.id).filter(|ban| ban.user != *user) else { return };
        let ban = Arc::new(Ban { user: user.clone(), reason: ban.reason.clone() });
        self.resources.bans.insert(user.id, ban.clone());
        self.put_resource(GuildResource::Ban(ban));
    }

    fn publish_ban(&mut self, name: EventName, resource: ResourcePayload) {
        let event = self.event(name, AudienceRule::GuildPermission(READERS), Payload::Resource(Box::new(resource)));
        self.publish(event, ReplicaUpdate::None);
    }

    pub(crate) fn read_ban(&self, turn: Turn<'_>, user_id: UserId) -> CommandResult<Vec<Arc<Ban>>> {
        self.in_guild(turn)?.need(Permissions::BAN_MEMBERS)?;
        let ban = self.resources.bans.get(&user_id).cloned().ok_or(Refusal::UnknownBan)?;
        Ok(vec![ban])
    }

    /// Sorted by user id, ascending. Costs time proportional to the page.
    pub(crate) fn list_bans(&self, turn: Turn<'_>, page: Page<UserId>) -> CommandResult<Vec<Arc<Ban>>> {
        self.in_guild(turn)?.need(Permissions::BAN_MEMBERS)?;
        let bans = &self.resources.bans;
        let found = match page {
            Page::Before(before, limit) => {
                let mut found: Vec<_> = bans.range(..before).rev().take(limit).map(|(_, ban)| ban.clone()).collect();
                found.reverse();
                found
            }
            Page::After(after, limit) => {
                let later = bans.range(after..).filter(|(id, _)| **id != after);
                later.take(limit).map(|(_, ban)| ban.clone()).collect()
            }
        };
        Ok(found)
    }

    pub(crate) fn need_not_banned(&self, user_id: UserId) -> Result<(), Refusal> {
        if self.resources.bans.contains_key(&user_id) { Err(Refusal::Banned) } else { Ok(()) }
    }

    /// Adds an account that agreed, on behalf of a member who may invite. An existing member stays unchanged.
    pub(crate) fn join(&mut self, turn: Turn<'_>, join: &Join) -> CommandResult<Option<Arc<Member>>> {
        let guild_context = self.in_guild(turn)?;
        guild_context.need(Permissions::CREATE_INSTANT_INVITE)?;
        if self.member(join.user.id).is_some() {
            return Ok(None);
        }
        self.need_not_banned(join.user.id)?;
        let member = self.new_member(turn.now, &guild_context, join)?;
        let member = self.let_in(turn.now, member);
        if join.user.bot {
            self.log(turn, NewEntry::new(AuditAction::BotAdd, join.user.id));
        }
        Ok(Some(member))
    }

    /// The new member, with the fields that the inviting member may set.
    fn new_member(&self, now: Now, guild_context: &GuildContext, join: &Join) -> Result<Member, Refusal> {
        let wishes = [
            (join.nick.is_some(), Permissions::MANAGE_NICKNAMES),
            (!join.roles.is_empty(), Permissions::MANAGE_ROLES),
            (join.mute, Permissions::MUTE_MEMBERS),
            (join.deaf, Permissions::DEAFEN_MEMBERS),
        ];
        for (_, permission) in wishes.iter().filter(|(is_wished, _)| *is_wished) {
            guild_context.need(*permission)?;
        }
        let mut roles: Vec<RoleId> = join.roles.clone();
        roles.sort_unstable();
        roles.dedup();
        for role_id in &roles {
            self.check_hand_out(guild_context, *role_id)?;
        }
        let member = Member::new(join.user.clone(), now.unix);
        Ok(Member {
            nick: join.nick.as_deref().map(Into::into),
            roles: roles.into(),
            mute: join.mute,
            deaf: join.deaf,
            ..member
        })
    }

    /// Stores and publishes a new member.
    pub(crate) fn let_in(&mut self, now: Now, member: Member) -> Arc<Member> {
        self.put_member(now, EventName::GuildMemberAdd, member)
    }
}
