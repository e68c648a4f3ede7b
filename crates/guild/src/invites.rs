//! Invites: creation, use, revocation.
//!
//! Owns        `CreateInvite`, `ReadInvite`, `DeleteInvite`, `ListInvites`, `AcceptInvite`.
//! Invariants  I1 an expired invite counts as deleted, whether or not it was removed yet. I2 a code cannot be used more
//!             often than its limit.
//! Limits      `invites_max`; past it expired ones are removed first.
//! Not here    generation of codes: the caller passes an unguessable one.     Spec docs/protocol/reference.md §7.1,
//!             §10.3.

use crate::{
    audit::{self, NewEntry},
    command::{CommandResult, InviteReply, NewInvite, Refusal},
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, GuildStructure, Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    AuditAction, ChannelId, ChannelType, EventName, GuildResource, Invite, InviteCode, Member, Permissions,
    ResourceKey, ResourceKind, User,
};
use guildhall_stdx::{Now, Timestamp};
use std::sync::Arc;

impl Guild {
    pub(crate) fn create_invite(
        &mut self,
        turn: Turn<'_>,
        channel_id: ChannelId,
        new: &NewInvite,
    ) -> CommandResult<Box<InviteReply>> {
        let context = self.in_channel(turn, channel_id)?;
        context.need(Permissions::CREATE_INSTANT_INVITE)?;
        if context.channel.kind.is_thread() || context.channel.kind == ChannelType::Category {
            return Err(Refusal::NotATextChannel.into());
        }
        let inviter = context.member.as_ref().map(|member| member.user.clone());
        if !new.is_unique
            && let Some(invite) = self.similar_invite(turn.now.unix, channel_id, inviter.as_deref(), new)
        {
            return Ok(self.invite_reply(invite));
        }
        if self.resources.invites.len() >= self.limits.invites_max && !self.has_old_invites(turn.now.unix) {
            return Err(Refusal::TooManyInvites.into());
        }
        // No refusals after this point.

        if self.resources.invites.len() >= self.limits.invites_max {
            self.forget_old_invites(turn.now.unix);
        }
        let invite = Arc::new(Invite {
            code: new.code,
            guild_id: self.structure.id(),
            channel_id,
            inviter,
            created_at: turn.now.unix,
            max_age_s: new.max_age_s,
            max_uses: new.max_uses,
            temporary: new.temporary,
            uses: 0,
        });
        self.resources.invites.insert(invite.code, invite.clone());
        self.put_resource(GuildResource::Invite(invite.clone()));
        self.publish_invite(EventName::InviteCreate, channel_id, ResourcePayload::Invite(invite.clone()));
        let entry = NewEntry::untargeted(AuditAction::InviteCreate).made(audit::of_invite(&invite));
        self.log(turn, entry);
        Ok(self.invite_reply(invite))
    }

    /// An existing invite equivalent to the requested one.
    fn similar_invite(
        &self,
        now: Timestamp,
        channel_id: ChannelId,
        inviter: Option<&User>,
        new: &NewInvite,
    ) -> Option<Arc<Invite>> {
        let is_similar = |invite: &&Arc<Invite>| {
            let wished = (channel_id, new.max_age_s, new.max_uses, new.temporary);
            (invite.channel_id, invite.max_age_s, invite.max_uses, invite.temporary) == wished
                && invite.inviter.as_ref().map(|user| user.id) == inviter.map(|user| user.id)
                && invite.uses == 0
                && !invite.is_over(now)
        };
        self.resources.invites.values().find(is_similar).cloned()
    }

    fn has_old_invites(&self, now: Timestamp) -> bool {
        self.resources.invites.values().any(|invite| invite.is_over(now))
    }

    fn forget_old_invites(&mut self, now: Timestamp) {
        let old: Vec<_> = self.resources.invites.values().filter(|invite| invite.is_over(now)).cloned().collect();
        old.iter().for_each(|invite| self.end_invite(invite));
    }

    fn end_invite(&mut self, invite: &Invite) {
        self.resources.invites.remove(&invite.code);
        self.delete_resource(ResourceKey::whole(ResourceKind::Invite, invite.code.number()));
        let resource = ResourcePayload::InviteGone { code: invite.code, channel_id: invite.channel_id };
        self.publish_invite(EventName::InviteDelete, invite.channel_id, resource);
    }

    fn publish_invite(&mut self, name: EventName, channel_id: ChannelId, resource: ResourcePayload) {
        let rule = AudienceRule::ChannelPermission(channel_id, Permissions::MANAGE_CHANNELS);
        let event = self.event(name, rule, Payload::Resource(Box::new(resource)));
        self.publish(event, ReplicaUpdate::None);
    }

    pub(crate) fn invite_reply(&self, invite: Arc<Invite>) -> Box<InviteReply> {
        Box::new(InviteReply {
            invite,
            structure: self.structure.clone(),
            member_count: self.members.len() as u64,
            presence_count: self.members.online_count(),
            welcome_screen: self.shown_welcome_screen(),
        })
    }

    fn need_invite(&self, now: Timestamp, code: InviteCode) -> Result<Arc<Invite>, Refusal> {
        let invite = self.resources.invites.get(&code).filter(|invite| !invite.is_over(now));
        invite.cloned().ok_or(Refusal::UnknownInvite)
    }

    /// For every caller who knows the code.
    pub(crate) fn read_invite(&self, now: Now, code: InviteCode) -> CommandResult<Box<InviteReply>> {
        Ok(self.invite_reply(self.need_invite(now.unix, code)?))
    }

    pub(crate) fn delete_invite(&mut self, turn: Turn<'_>, code: InviteCode) -> CommandResult<Box<InviteReply>> {
        let invite = self.need_invite(turn.now.unix, code)?;
        if self.in_guild(turn)?.need(Permissions::MANAGE_GUILD).is_err() {
            self.in_channel(turn, invite.channel_id)?.need(Permissions::MANAGE_CHANNELS)?;
        }
        let reply = self.invite_reply(invite.clone());
        self.end_invite(&invite);
        let entry = NewEntry::untargeted(AuditAction::InviteDelete).gone(audit::of_invite(&invite));
        self.log(turn, entry);
        Ok(reply)
    }

    /// Of a channel (needs MANAGE_CHANNELS), or of the guild (needs MANAGE_GUILD).
    pub(crate) fn list_invites(
        &self,
        turn: Turn<'_>,
        channel_id: Option<ChannelId>,
    ) -> CommandResult<(Vec<Arc<Invite>>, Arc<GuildStructure>)> {
        match channel_id {
            Some(channel_id) => self.in_channel(turn, channel_id)?.need(Permissions::MANAGE_CHANNELS)?,
            None => self.in_guild(turn)?.need(Permissions::MANAGE_GUILD)?,
        }
        let is_meant = |invite: &&Arc<Invite>| {
            !invite.is_over(turn.now.unix) && channel_id.is_none_or(|channel_id| invite.channel_id == channel_id)
        };
        let invites = self.resources.invites.values().filter(is_meant).cloned().collect();
        Ok((invites, self.structure.clone()))
    }

    /// The account joins. An account that is a member already consumes no use.
    pub(crate) fn accept_invite(
        &mut self,
        now: Now,
        code: InviteCode,
        user: &Arc<User>,
    ) -> CommandResult<Box<InviteReply>> {
        let invite = self.need_invite(now.unix, code)?;
        if self.member(user.id).is_some() {
            return Ok(self.invite_reply(invite));
        }
        self.need_not_banned(user.id)?;
        if invite.temporary {
            self.need_room_for_temporary()?;
        }
        // No refusals after this point.

        self.let_in(now, Member::new(user.clone(), now.unix));
        if invite.temporary {
            self.begin_temporary(user.id);
        }
        let invite = Arc::new(Invite { uses: invite.uses.saturating_add(1), ..Invite::clone(&invite) });
        if invite.is_over(now.unix) {
            self.end_invite(&invite);
        } else {
            self.resources.invites.insert(code, invite.clone());
            self.put_resource(GuildResource::Invite(invite.clone()));
        }
        Ok(self.invite_reply(invite))
    }
}
