//! Temporary members: their membership ends some time after they go offline.
//!
//! Owns        `TemporaryMembers`: the temporary members, and when to check each.
//! Doors       `begin` from `invites`; `left` when a session ends, `forget_temporary` when a member leaves;
//!             `end_temporary` from `Guild::handle_timer`.
//! Invariants  T1 a temporary member without a session for `temporary_away_ms` is removed, unless they have a role then
//!             or own the guild; those stay permanently. T2 the state is stored with the guild: members who left while
//!             it was not loaded, or while the node was down, have `LOADED_MS` from its first timer on. T3 a member who
//!             never connected is not removed until the next load. (tests `temporary_members::*`)
//! Limits      `temporary_members_max`; past it such invites are refused. `STEP_ITEMS` removals at once, others
//!             `STEP_EVERY_MS` later.

use crate::{
    background::{STEP_EVERY_MS, STEP_ITEMS},
    command::Refusal,
    machine::Guild,
};
use guildhall_model::{GuildResource, ResourceKey, ResourceKind, UserId};
use guildhall_stdx::{Instant, Now};
use std::collections::{BTreeMap, BTreeSet};

/// Longer than the resume window, and than the pause between two attempts of a client.
const LOADED_MS: u64 = 600_000;
/// Placeholder for loaded members: the first timer sets the time.
const NOT_YET: Instant = Instant(0);

#[derive(Debug, Default)]
pub(crate) struct TemporaryMembers {
    /// Check time; none: the member is online, or never connected.
    members: BTreeMap<UserId, Option<Instant>>,
    timers: BTreeSet<(Instant, UserId)>,
    due_at: Option<Instant>,
    loaded_at: Option<Instant>,
}

impl TemporaryMembers {
    /// Adds stored temporary members.
    pub fn load(resources: &[GuildResource]) -> Self {
        let mut all = Self::default();
        for resource in resources {
            if let GuildResource::TemporaryMember(user_id) = resource {
                all.set_timer(*user_id, NOT_YET);
            }
        }
        all.due_at = all.timers.first().map(|(at, _)| *at);
        all
    }

    /// All of them, as they are stored.
    pub fn all(&self) -> impl Iterator<Item = GuildResource> {
        self.members.keys().map(|user_id| GuildResource::TemporaryMember(*user_id))
    }

    /// Milliseconds until each is checked; none: it needs no check. Before the first timer, loaded members have
    /// `LOADED_MS`.
    pub fn waits(&self, now: Now) -> Vec<(UserId, Option<u64>)> {
        let wait = |at: Instant| if at == NOT_YET { LOADED_MS } else { at.ms_since(now.instant) };
        self.members.iter().map(|(user_id, at)| (*user_id, at.map(wait))).collect()
    }

    /// Continues the waits of another node.
    pub fn take_over(&mut self, now: Now, waits: Vec<(UserId, Option<u64>)>) {
        for (user_id, wait) in waits {
            match wait {
                Some(wait) => self.set_timer(user_id, now.instant.after_ms(wait.max(1))),
                None => {
                    self.cancel_timer(user_id);
                    self.members.insert(user_id, None);
                }
            }
        }
        self.arm(now);
    }

    /// Adds or removes one as another node did.
    pub fn follow(&mut self, user_id: UserId, is_here: bool) {
        self.cancel_timer(user_id);
        match is_here {
            true => drop(self.members.entry(user_id).or_default()),
            false => drop(self.members.remove(&user_id)),
        }
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    fn set_timer(&mut self, user_id: UserId, at: Instant) {
        self.cancel_timer(user_id);
        self.members.insert(user_id, Some(at));
        self.timers.insert((at, user_id));
    }

    fn cancel_timer(&mut self, user_id: UserId) {
        if let Some(Some(at)) = self.members.get_mut(&user_id).map(Option::take) {
            self.timers.remove(&(at, user_id));
        }
    }

    fn pop(&mut self, now: Now) -> Option<(Instant, UserId)> {
        let (at, user_id) = self.timers.first().copied().filter(|(at, _)| *at <= now.instant)?;
        self.cancel_timer(user_id);
        Some((at, user_id))
    }

    fn arm(&mut self, now: Now) {
        self.due_at = self.timers.first().map(|(at, _)| (*at).max(now.instant.after_ms(STEP_EVERY_MS)));
    }
}

impl Guild {
    pub(crate) fn need_room_for_temporary(&self) -> Result<(), Refusal> {
        let has_room = self.temporary.members.len() < self.limits.temporary_members_max;
        if has_room { Ok(()) } else { Err(Refusal::TooManyTemporaryMembers) }
    }

    /// Adds a temporary member.
    pub(crate) fn begin_temporary(&mut self, user_id: UserId) {
        self.temporary.members.insert(user_id, None);
        self.put_resource(GuildResource::TemporaryMember(user_id));
    }

    /// A member's session ended.
    pub(crate) fn left(&mut self, now: Now, user_id: UserId) {
        if self.temporary.members.contains_key(&user_id) && !self.relays.has_sessions(user_id) {
            self.temporary.set_timer(user_id, now.instant.after_ms(self.limits.temporary_away_ms));
            self.temporary.arm(now);
        }
    }

    /// The member has become permanent, or has left.
    pub(crate) fn forget_temporary(&mut self, user_id: UserId) {
        self.temporary.cancel_timer(user_id);
        if self.temporary.members.remove(&user_id).is_some() {
            self.delete_resource(ResourceKey::whole(ResourceKind::TemporaryMember, user_id.get()));
        }
    }

    /// Removes the members who are due.
    pub(crate) fn end_temporary(&mut self, now: Now) {
        if self.temporary.due_at.is_none_or(|at| at > now.instant) {
            return;
        }
        let loaded_at = *self.temporary.loaded_at.get_or_insert(now.instant);
        for _ in 0..STEP_ITEMS {
            let Some((at, user_id)) = self.temporary.pop(now) else { break };
            if at == NOT_YET {
                self.temporary.set_timer(user_id, loaded_at.after_ms(LOADED_MS));
                continue;
            }
            if self.relays.has_sessions(user_id) {
                continue;
            }
            match self.member(user_id) {
                Some(member) if member.roles.is_empty() && user_id != self.structure.guild.owner_id => {
                    self.take_out(now, &member);
                }
                _ => self.forget_temporary(user_id),
            }
        }
        self.temporary.arm(now);
    }
}
