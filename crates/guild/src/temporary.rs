//! Temporary members: who came in by a temporary invite, and goes again when they have gone offline.
//!
//! Owns        `Temporary`: who they are, and when to look whether they are still there.
//! Doors       `begin` from `invites`; `left` when a session goes, `forget_temporary` when a member does; `end_temporary` from
//!             `Guild::handle_timer`.
//! Invariants  T1 who has no session for `temporary_away_ms` and no role is a member no more; who has a role then, or owns the guild, stays
//!             for good. T2 it is kept with the guild: who went while it was not loaded, or whose node ended, has `LOADED_MS` from
//!             its first timer on. T3 who never came online is waited for, until the next load. (tests `temporary::*`)
//! Limits      `temporary_members_max`; past it such an invite lets nobody in. `SLICE` of them at once, others `SLICE_EVERY_MS` later.

use crate::{
    chores::{SLICE, SLICE_EVERY_MS},
    command::Refusal,
    machine::Guild,
};
use guildhall_model::{Belonging, BelongingKey, BelongingKind, UserId};
use guildhall_stdx::{Instant, Now};
use std::collections::{BTreeMap, BTreeSet};

/// Longer than sessions can be resumed, and than clients wait between two tries.
const LOADED_MS: u64 = 600_000;
/// When to look at who was loaded: the first timer knows.
const NOT_YET: Instant = Instant(0);

#[derive(Debug, Default)]
pub(crate) struct Temporary {
    /// None: they are here, or never were.
    members: BTreeMap<UserId, Option<Instant>>,
    looks: BTreeSet<(Instant, UserId)>,
    due_at: Option<Instant>,
    loaded_at: Option<Instant>,
}

impl Temporary {
    /// Those that were stored.
    pub fn load(belongings: &[Belonging]) -> Self {
        let mut all = Self::default();
        for belonging in belongings {
            if let Belonging::TemporaryMember(user_id) = belonging {
                all.look_at(*user_id, NOT_YET);
            }
        }
        all.due_at = all.looks.first().map(|(at, _)| *at);
        all
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    fn look_at(&mut self, user_id: UserId, at: Instant) {
        self.look_no_more(user_id);
        self.members.insert(user_id, Some(at));
        self.looks.insert((at, user_id));
    }

    fn look_no_more(&mut self, user_id: UserId) {
        if let Some(Some(at)) = self.members.get_mut(&user_id).map(Option::take) {
            self.looks.remove(&(at, user_id));
        }
    }

    fn pop(&mut self, now: Now) -> Option<(Instant, UserId)> {
        let (at, user_id) = self.looks.first().copied().filter(|(at, _)| *at <= now.instant)?;
        self.look_no_more(user_id);
        Some((at, user_id))
    }

    fn arm(&mut self, now: Now) {
        self.due_at = self.looks.first().map(|(at, _)| (*at).max(now.instant.after_ms(SLICE_EVERY_MS)));
    }
}

impl Guild {
    pub(crate) fn need_room_for_temporary(&self) -> Result<(), Refusal> {
        let has_room = self.temporary.members.len() < self.limits.temporary_members_max;
        if has_room { Ok(()) } else { Err(Refusal::TooManyTemporaryMembers) }
    }

    /// Somebody came in for as long as they are here.
    pub(crate) fn begin_temporary(&mut self, user_id: UserId) {
        self.temporary.members.insert(user_id, None);
        self.put_belonging(Belonging::TemporaryMember(user_id));
    }

    /// A session of somebody is gone.
    pub(crate) fn left(&mut self, now: Now, user_id: UserId) {
        if self.temporary.members.contains_key(&user_id) && self.sessions.of_user(user_id).next().is_none() {
            self.temporary.look_at(user_id, now.instant.after_ms(self.limits.temporary_away_ms));
            self.temporary.arm(now);
        }
    }

    /// Somebody is a member for good, or none any more.
    pub(crate) fn forget_temporary(&mut self, user_id: UserId) {
        self.temporary.look_no_more(user_id);
        if self.temporary.members.remove(&user_id).is_some() {
            self.delete_belonging(BelongingKey::whole(BelongingKind::TemporaryMember, user_id.get()));
        }
    }

    /// Lets those go whose time has come.
    pub(crate) fn end_temporary(&mut self, now: Now) {
        if self.temporary.due_at.is_none_or(|at| at > now.instant) {
            return;
        }
        let loaded_at = *self.temporary.loaded_at.get_or_insert(now.instant);
        for _ in 0..SLICE {
            let Some((at, user_id)) = self.temporary.pop(now) else { break };
            if at == NOT_YET {
                self.temporary.look_at(user_id, loaded_at.after_ms(LOADED_MS));
                continue;
            }
            if self.sessions.of_user(user_id).next().is_some() {
                continue;
            }
            match self.member(user_id) {
                Some(member) if member.roles.is_empty() && user_id != self.meta.guild.owner_id => {
                    self.take_out(now, &member);
                }
                _ => self.forget_temporary(user_id),
            }
        }
        self.temporary.arm(now);
    }
}
