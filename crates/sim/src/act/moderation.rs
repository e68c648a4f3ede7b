//! Actions on membership: bans, prune, invites, time-outs, imports.

use super::{GUILD, SentMessage};
use crate::{
    checker::{Fault, fault},
    model::Telling,
    world::World,
};
use guildhall_guild::{
    Actor, BackendCommand, BulkRole, Command, Join, JoinAudience, MemberFilter, MemberPatch, NewBan, NewInvite,
    NewMember, Prune, RoleAction,
};
use guildhall_model::{ChannelId, InviteCode, MessageId, RoleId, User, UserId};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

const INVITES_KEPT: usize = 6;
/// Of a member that is quarantined.
const QUARANTINED: u32 = 1 << 7;

impl World {
    pub(super) fn moderate(&mut self, member: UserId, channel: ChannelId, role: Option<RoleId>) -> Result<(), Fault> {
        let by = if self.rng.chance(0.5) { Actor::System } else { self.random_member() };
        match self.rng.below(20) {
            0..4 => self.ban(by)?,
            4..6 => {
                let bans: Vec<u64> = self.checker.state.bans.iter().copied().collect();
                if let Some(user) = self.rng.pick(&bans).copied() {
                    self.command(by, &Command::Unban(UserId::new(user)))?;
                }
            }
            6 => {
                let joined_before = Timestamp(self.now().unix.0 - 30_000);
                let roles = role.into_iter().filter(|_| self.rng.chance(0.3)).collect();
                let counts_only = self.rng.chance(0.5);
                self.command(by, &Command::Prune(Box::new(Prune { roles, joined_before, counts_only })))?;
            }
            7 => {
                if let Some(role_id) = role {
                    let action = if self.rng.chance(0.5) { RoleAction::Grant } else { RoleAction::Revoke };
                    let bulk = BulkRole { role_id, action, filter: MemberFilter::default() };
                    self.command(by, &Command::BulkRole(Box::new(bulk)))?;
                }
            }
            8..11 => self.join(by, role)?,
            11..13 => self.invite(by, channel)?,
            13..16 => self.accept_invite()?,
            16 | 17 => {
                let until = Some(Timestamp(self.now().unix.0 + 1_000 + self.rng.below(20_000) as i64));
                let communication_disabled_until = Some(until.filter(|_| self.rng.chance(0.8)));
                let patch = MemberPatch { communication_disabled_until, ..MemberPatch::default() };
                self.command(by, &Command::UpdateMember(member, Box::new(patch)))?;
            }
            _ => self.import()?,
        }
        Ok(())
    }

    /// A member as the actor of a command; often the owner, with all permissions.
    pub(super) fn random_member(&mut self) -> Actor {
        if self.rng.chance(0.3) {
            return Actor::User(UserId::new(self.checker.state.owner));
        }
        let members: Vec<u64> = self.checker.state.members.keys().copied().collect();
        self.rng.pick(&members).map_or(Actor::System, |user| Actor::User(UserId::new(*user)))
    }

    fn outsider(&mut self) -> Option<Arc<User>> {
        let members = &self.checker.state.members;
        let outside: Vec<_> = self.accounts.iter().filter(|user| !members.contains_key(&user.id.get())).collect();
        self.rng.pick(&outside).map(|user| (*user).clone())
    }

    /// Bans an account, member or not. The actor then deletes its messages if the ban requests it, as REST does.
    fn ban(&mut self, by: Actor) -> Result<(), Fault> {
        let user = self.rng.pick(&self.accounts).expect("there are accounts").clone();
        let purges = self.rng.chance(0.5);
        let delete_message_s = if purges { 86_400 } else { 0 };
        let ban = NewBan { user: user.clone(), reason: None, delete_message_s };
        let reply = self.command(by, &Command::Ban(Box::new(ban)))?;
        if reply.is_none() || !purges {
            return Ok(());
        }
        let mut by_channel: BTreeMap<ChannelId, Vec<MessageId>> = BTreeMap::new();
        for SentMessage { channel, message, .. } in self.actions.messages.iter().filter(|sent| sent.author == user.id) {
            by_channel.entry(*channel).or_default().push(*message);
        }
        self.actions.messages.retain(|sent| sent.author != user.id);
        for (channel, messages) in by_channel {
            self.command(Actor::System, &Command::DeleteMessages(channel, messages))?;
        }
        Ok(())
    }

    /// Lets a user join. A banned user can only be added by the system.
    fn comes_in(&mut self, user: &User, by: Actor, command: &Command) -> Result<(), Fault> {
        let is_banned = self.checker.state.bans.contains(&user.id.get());
        let was_member = self.checker.state.members.contains_key(&user.id.get());
        let reply = self.command(by, command)?;
        if is_banned && !was_member && reply.is_some() {
            return fault(format!("{} is banned, and came in by {command:?}", user.id));
        }
        Ok(())
    }

    fn join(&mut self, by: Actor, role: Option<RoleId>) -> Result<(), Fault> {
        let Some(user) = self.outsider() else { return Ok(()) };
        let nick = self.rng.chance(0.3).then(|| "nick of a guest".to_owned());
        let roles = role.into_iter().filter(|_| self.rng.chance(0.3)).collect();
        let join = Join { user: user.clone(), nick, roles, mute: false, deaf: false };
        self.comes_in(&user, by, &Command::Join(Box::new(join)))
    }

    fn invite(&mut self, by: Actor, channel: ChannelId) -> Result<(), Fault> {
        if self.rng.chance(0.3)
            && let Some(code) = self.actions.invites.pop_front()
        {
            self.command(by, &Command::DeleteInvite(code))?;
            return Ok(());
        }
        let code = InviteCode::new(self.rng.next_u64());
        let max_uses = self.rng.below(3) as u32;
        let max_age_s = if self.rng.chance(0.5) { 60 } else { 0 };
        let new = NewInvite { code, max_age_s, max_uses, temporary: false, is_unique: true };
        if self.command(by, &Command::CreateInvite(channel, Box::new(new)))?.is_some() {
            self.actions.invites.push_back(code);
            if self.actions.invites.len() > INVITES_KEPT {
                self.actions.invites.pop_front();
            }
        }
        Ok(())
    }

    fn accept_invite(&mut self) -> Result<(), Fault> {
        let codes: Vec<InviteCode> = self.actions.invites.iter().copied().collect();
        let (Some(code), Some(user)) = (self.rng.pick(&codes).copied(), self.outsider()) else { return Ok(()) };
        self.comes_in(&user, Actor::System, &Command::AcceptInvite(code, user.clone()))
    }

    /// Members from elsewhere: some come in, some are changed, some are as they were.
    fn import(&mut self) -> Result<(), Fault> {
        let roles: Vec<u64> = self.checker.state.roles.keys().copied().filter(|role| *role != GUILD.get()).collect();
        let mut members: Vec<NewMember> = Vec::new();
        for _ in 0..1 + self.rng.below(6) {
            let user = self.rng.pick(&self.accounts).expect("there are accounts").clone();
            if members.iter().any(|member| member.user.id == user.id) {
                continue;
            }
            let until = Timestamp(self.now().unix.0 + 10_000);
            members.push(NewMember {
                user,
                nick: self.rng.chance(0.3).then(|| format!("imported {}", self.rng.below(3))),
                roles: roles.iter().filter(|_| self.rng.chance(0.25)).map(|role| RoleId::new(*role)).collect(),
                joined_at: None,
                mute: false,
                deaf: false,
                flags: if self.rng.chance(0.1) { QUARANTINED } else { 0 },
                communication_disabled_until: self.rng.chance(0.1).then_some(until),
            });
        }
        let audience = if self.rng.chance(0.5) { JoinAudience::AllMembers } else { JoinAudience::NewMember };
        let command = match members.pop() {
            Some(one) if members.is_empty() => BackendCommand::PutMember(Box::new(one), None),
            one => {
                members.extend(one);
                BackendCommand::ImportMembers { members, audience }
            }
        };
        if matches!(command, BackendCommand::ImportMembers { audience: JoinAudience::NewMember, .. }) {
            self.checker.telling = Telling::ToNewMember;
        }
        self.command(Actor::System, &Command::Backend(Box::new(command)))?;
        self.checker.telling = Telling::Usual;
        Ok(())
    }
}
