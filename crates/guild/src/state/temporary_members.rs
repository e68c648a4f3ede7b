//! Temporary members, and when to check each.
//!
//! Owns        `TemporaryMembers`.
//! Limits      `temporary_members_max`, which `temporary_members` checks.

use super::tasks::STEP_EVERY_MS;
use guildhall_model::{GuildResource, UserId};
use guildhall_stdx::{Instant, Now};
use std::collections::{BTreeMap, BTreeSet};

/// Longer than the resume window, and than the pause between two attempts of a client.
pub(crate) const LOADED_MS: u64 = 600_000;
/// Placeholder for loaded members: the first timer sets the time.
pub(crate) const NOT_YET: Instant = Instant(0);

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

    /// Adds one as another node did.
    pub fn follow(&mut self, user_id: UserId) {
        self.cancel_timer(user_id);
        self.members.entry(user_id).or_default();
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn contains(&self, user_id: UserId) -> bool {
        self.members.contains_key(&user_id)
    }

    /// Adds a member without a check.
    pub fn begin(&mut self, user_id: UserId) {
        self.members.insert(user_id, None);
    }

    /// False if the member was not temporary.
    pub fn remove(&mut self, user_id: UserId) -> bool {
        self.cancel_timer(user_id);
        self.members.remove(&user_id).is_some()
    }

    /// Time of the first timer since the guild was loaded.
    pub fn loaded_at(&mut self, now: Now) -> Instant {
        *self.loaded_at.get_or_insert(now.instant)
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Sets the check of a member who is offline.
    pub fn set_timer(&mut self, user_id: UserId, at: Instant) {
        self.cancel_timer(user_id);
        self.members.insert(user_id, Some(at));
        self.timers.insert((at, user_id));
    }

    fn cancel_timer(&mut self, user_id: UserId) {
        if let Some(Some(at)) = self.members.get_mut(&user_id).map(Option::take) {
            self.timers.remove(&(at, user_id));
        }
    }

    /// The next member whose check is due.
    pub fn pop(&mut self, now: Now) -> Option<(Instant, UserId)> {
        let (at, user_id) = self.timers.first().copied().filter(|(at, _)| *at <= now.instant)?;
        self.cancel_timer(user_id);
        Some((at, user_id))
    }

    /// Sets the time of the next check.
    pub fn arm(&mut self, now: Now) {
        self.due_at = self.timers.first().map(|(at, _)| (*at).max(now.instant.after_ms(STEP_EVERY_MS)));
    }
}
