//! Members: joins, changes and departures.
//!
//! Owns        `AddMember`, `UpdateMember`, `AddMemberRole`, `RemoveMemberRole`, `RemoveMember`.
//! Invariants  D1 a member that is written has only roles that exist, sorted, each once. D2 accounts that are no
//!             members have no sessions, presence or voice state here. D3 a patch is checked whole before any of it is
//!             applied. D4 a guild changes no account that is stored: it has the account as a command brought it, and
//!             would undo a change that came meanwhile.
//! Limits      none on how many there are; each command costs one chunk of the table at most.
//! Not here    bans, and joins that check them: `bans`, `invites`.     Spec  docs/protocol/reference.md §5.2,
//!             §10.4.

use crate::{
    audit::{self, NewEntry},
    check::{GuildContext, Rank},
    command::{CommandResult, MemberPatch, Refusal, RoleAction},
    machine::Guild,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, ReplicaUpdate};
use guildhall_model::{
    AuditAction, Channel, ChannelId, EventName, Member, MemberPictures, Permissions, RoleId, User, UserId,
};
use guildhall_stdx::{Now, Timestamp};
use std::sync::Arc;

/// Longest time-out: 28 days.
const TIMEOUT_MS_MAX: i64 = 28 * 86_400_000;

impl Guild {
    pub(crate) fn add_member(&mut self, turn: Turn<'_>, user: &Arc<User>) -> CommandResult<Arc<Member>> {
        self.in_guild(turn)?.need_system()?;
        let (name, member) = match self.member(user.id) {
            Some(member) if member.user == *user => return Ok(member),
            Some(member) => (EventName::GuildMemberUpdate, Member { user: user.clone(), ..Member::clone(&member) }),
            None => (EventName::GuildMemberAdd, Member::new(user.clone(), turn.now.unix)),
        };
        Ok(self.put_member(turn.now, name, member))
    }

    /// The account of a member changed, and is stored: only the guild's copy is updated.
    pub(crate) fn refresh_member(&mut self, turn: Turn<'_>, user: &Arc<User>) -> CommandResult<Arc<Member>> {
        self.in_guild(turn)?.need_system()?;
        let before = self.need_member(user.id)?;
        if before.user == *user {
            return Ok(before);
        }
        let member = Member { user: user.clone(), ..Member::clone(&before) };
        Ok(self.put_member(turn.now, EventName::GuildMemberUpdate, member))
    }

    /// Stores and publishes a new member, or a changed one, which the caller derived from `Guild::member` (D1).
    pub(crate) fn put_member(&mut self, now: Now, name: EventName, member: Member) -> Arc<Member> {
        self.put_member_for(now, name, AudienceRule::Members, member)
    }

    /// As `put_member`, with another audience.
    pub(crate) fn put_member_for(
        &mut self,
        now: Now,
        name: EventName,
        rule: AudienceRule,
        member: Member,
    ) -> Arc<Member> {
        let user_id = member.user.id;
        let member = self.store_member(member);
        let event = self.event(name, rule, Payload::Member(member.clone())).always_to(user_id).about(user_id);
        self.publish(event, ReplicaUpdate::Member(user_id, Some(member.clone())));
        self.refresh_voice(now, &member);
        member
    }

    /// Stores a new or changed member; the caller publishes the event.
    pub(crate) fn store_member(&mut self, member: Member) -> Arc<Member> {
        let member = Arc::new(member);
        self.put_entry(member.clone());
        self.write(Write::PutMember(self.structure.id(), member.clone()));
        self.voice.set_member(&member);
        member
    }

    pub(crate) fn update_member(
        &mut self,
        turn: Turn<'_>,
        user_id: UserId,
        patch: &MemberPatch,
    ) -> CommandResult<Arc<Member>> {
        let guild_context = self.in_guild(turn)?;
        let before = self.need_member(user_id)?;
        let mut member = Member::clone(&before);
        if let Some(nick) = &patch.nick {
            self.check_nick(&guild_context, &before)?;
            member.nick = nick.as_deref().map(Into::into);
        }
        if let Some(roles) = &patch.roles {
            guild_context.need(Permissions::MANAGE_ROLES)?;
            member.roles = roles.iter().copied().filter(|role| *role != self.structure.id().cast()).collect();
            member.roles.sort_unstable();
            member.roles.dedup();
            for role in member.roles.iter().filter(|role| !before.roles.contains(role)) {
                self.check_hand_out(&guild_context, *role)?;
            }
            for role in before.roles.iter().filter(|role| !member.roles.contains(role)) {
                self.check_hand_out(&guild_context, *role)?;
            }
        }
        if let Some(mute) = patch.mute {
            self.check_in_voice(turn, user_id, Permissions::MUTE_MEMBERS)?;
            member.mute = mute;
        }
        if let Some(deaf) = patch.deaf {
            self.check_in_voice(turn, user_id, Permissions::DEAFEN_MEMBERS)?;
            member.deaf = deaf;
        }
        if let Some(until) = patch.communication_disabled_until {
            self.check_timeout(turn.now, &guild_context, &before, until)?;
            member.communication_disabled_until = until;
        }
        if patch.avatar.is_some() || patch.banner.is_some() {
            if !guild_context.is(user_id) {
                return Err(Refusal::MissingPermissions.into());
            }
            let mut pictures = member.pictures.take().unwrap_or_default();
            if let Some(avatar) = &patch.avatar {
                pictures.avatar.clone_from(avatar);
            }
            if let Some(banner) = &patch.banner {
                pictures.banner.clone_from(banner);
            }
            member.pictures = Some(pictures).filter(|pictures| **pictures != MemberPictures::default());
        }
        let destination = patch.channel_id.map(|channel| self.check_move(turn, user_id, channel)).transpose()?;
        // Nothing is refused from here on.

        let is_changed = member != *before;
        let member = match is_changed {
            true => self.put_member(turn.now, EventName::GuildMemberUpdate, member),
            false => before.clone(),
        };
        match &destination {
            Some(Some(channel)) => self.move_in_voice(turn.now, &member, channel),
            Some(None) => self.leave_voice(user_id),
            None => {}
        }
        if is_changed {
            self.log_member(turn, &before, &member);
        }
        match destination {
            Some(Some(channel)) => {
                let entry = NewEntry::untargeted(AuditAction::MemberMove).option("channel_id", channel.id);
                self.log(turn, entry.option("count", 1));
            }
            Some(None) => self.log(turn, NewEntry::untargeted(AuditAction::MemberDisconnect).option("count", 1)),
            None => {}
        }
        Ok(member)
    }

    /// Names that members give themselves are no moderation.
    fn log_member(&mut self, turn: Turn<'_>, before: &Member, after: &Member) {
        let entry = NewEntry::new(AuditAction::MemberUpdate, after.user.id);
        let entry = entry.changed(audit::of_member(before), audit::of_member(after));
        if entry.has_changes() && turn.actor.user_id() != Some(after.user.id) {
            self.log(turn, entry);
        }
        self.log_roles(turn, before, after);
    }

    fn check_nick(&self, guild_context: &GuildContext, target: &Member) -> Result<(), Refusal> {
        if guild_context.is(target.user.id) {
            let may =
                guild_context.permissions.intersects(Permissions::CHANGE_NICKNAME | Permissions::MANAGE_NICKNAMES);
            return if may { Ok(()) } else { Err(Refusal::MissingPermissions) };
        }
        guild_context.need(Permissions::MANAGE_NICKNAMES)?;
        guild_context.need_above(self.member_rank(target))
    }

    /// May the actor give or take this role?
    pub(crate) fn check_hand_out(&self, guild_context: &GuildContext, role_id: RoleId) -> Result<(), Refusal> {
        let role = self.need_role(role_id)?;
        if role.managed && !guild_context.is_system() || role_id == self.structure.id().cast() {
            return Err(Refusal::InvalidRole);
        }
        guild_context.need_above(Rank::of(&role))
    }

    /// Has the actor this permission where the target is in voice? Who is in a channel that the actor cannot view is
    /// not in voice for them. The system may change who is not.
    fn check_in_voice(&self, turn: Turn<'_>, target: UserId, permission: Permissions) -> Result<(), Refusal> {
        match self.voice.user_channel(target).map(|channel_id| self.in_channel(turn, channel_id)) {
            Some(Ok(context)) => context.need(permission),
            Some(Err(_)) | None => {
                let guild_context = self.in_guild(turn)?;
                guild_context.need(permission)?;
                if guild_context.is_system() { Ok(()) } else { Err(Refusal::NotInVoice) }
            }
        }
    }

    fn check_timeout(
        &self,
        now: Now,
        guild_context: &GuildContext,
        target: &Member,
        until: Option<Timestamp>,
    ) -> Result<(), Refusal> {
        guild_context.need(Permissions::MODERATE_MEMBERS)?;
        guild_context.need_above(self.member_rank(target))?;
        // Against an administrator it would have no effect. The time-out they may be under is left aside.
        let free = Member { communication_disabled_until: None, flags: 0, ..target.clone() };
        let permissions = self.structure.guild_permissions(self.structure.standing(&free, now.unix));
        if until.is_some() && permissions.contains(Permissions::ADMINISTRATOR) {
            return Err(Refusal::MissingPermissions);
        }
        if until.is_some_and(|until| until.0 > now.unix.0.saturating_add(TIMEOUT_MS_MAX)) {
            return Err(Refusal::InvalidForm("communication_disabled_until"));
        }
        Ok(())
    }

    /// May the actor move the target there, or (`None`) out of voice?
    fn check_move(
        &self,
        turn: Turn<'_>,
        target: UserId,
        to: Option<ChannelId>,
    ) -> Result<Option<Arc<Channel>>, Refusal> {
        self.check_in_voice(turn, target, Permissions::MOVE_MEMBERS)?;
        if self.voice.user_channel(target).is_none() {
            return Err(Refusal::NotInVoice);
        }
        let Some(channel_id) = to else { return Ok(None) };
        let context = self.in_channel(turn, channel_id)?;
        if !context.channel.kind.is_voice() {
            return Err(Refusal::InvalidForm("channel_id"));
        }
        context.need(Permissions::CONNECT | Permissions::MOVE_MEMBERS)?;
        if self.is_closing(channel_id) {
            return Err(Refusal::UnknownChannel);
        }
        Ok(Some(context.channel))
    }

    pub(crate) fn change_member_role(
        &mut self,
        turn: Turn<'_>,
        user_id: UserId,
        role_id: RoleId,
        action: RoleAction,
    ) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let before = self.need_member(user_id)?;
        self.need_role(role_id)?;
        guild_context.need(Permissions::MANAGE_ROLES)?;
        self.check_hand_out(&guild_context, role_id)?;
        let mut member = Member::clone(&before);
        match (member.roles.binary_search(&role_id), action) {
            (Err(at), RoleAction::Grant) => member.roles.insert(at, role_id),
            (Ok(at), RoleAction::Revoke) => drop(member.roles.remove(at)),
            (Ok(_), RoleAction::Grant) | (Err(_), RoleAction::Revoke) => return Ok(()),
        }
        let member = self.put_member(turn.now, EventName::GuildMemberUpdate, member);
        self.log_roles(turn, &before, &member);
        Ok(())
    }

    pub(crate) fn remove_member(&mut self, turn: Turn<'_>, user_id: UserId) -> CommandResult<()> {
        let guild_context = self.in_guild(turn)?;
        let member = self.need_member(user_id)?;
        if guild_context.is(user_id) {
            // An owner gives the guild away or deletes it.
            if guild_context.is_owner {
                return Err(Refusal::MissingPermissions.into());
            }
        } else {
            guild_context.need(Permissions::KICK_MEMBERS)?;
            guild_context.need_above(self.member_rank(&member))?;
        }
        let is_kick = !guild_context.is(user_id);
        self.take_out(turn.now, &member);
        if is_kick {
            self.log(turn, NewEntry::new(AuditAction::MemberKick, user_id));
        }
        Ok(())
    }

    /// Removes a member.
    pub(crate) fn take_out(&mut self, now: Now, member: &Member) {
        let user_id = member.user.id;
        // While they are still a member, and relays know what they look like.
        self.take_from_threads(user_id);
        self.leave_voice(user_id);
        self.forget_interest(now, user_id);
        self.write(Write::DeleteMember(self.structure.id(), user_id));
        self.forget_temporary(user_id);
        let sessions: Vec<_> = self.relays.user_sessions(user_id).map(|(key, _)| key).collect();
        sessions.into_iter().for_each(|key| drop(self.relays.remove_session(key)));
        self.presences.forget(user_id);
        self.remove_entry(user_id);
        let payload = Payload::MemberRemove(member.user.clone());
        let event = self.event(EventName::GuildMemberRemove, AudienceRule::Members, payload).about(user_id);
        self.publish(event, ReplicaUpdate::Member(user_id, None));
    }
}
