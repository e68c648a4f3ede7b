//! Presences: those without a session, those that wait for their turn, and common ones.
//!
//! Owns        `Presences`.
//! Limits      `common` has at most 4,096 values; the queue: `limiter`.
//! Not here    the aggregate of a member, which the member table has: `presence`.

mod limiter;

pub(crate) use limiter::WaitingPresences;

use crate::limits::GuildLimits;
use guildhall_model::{ClientStatus, Presence, Status, UserId};
use guildhall_stdx::{Instant, Now};
use limiter::PresenceLimiter;
use std::{collections::BTreeMap, sync::Arc};

/// Presences of a guild's members, apart from the member table.
#[derive(Debug)]
pub(crate) struct Presences {
    limiter: PresenceLimiter,
    common: CommonPresences,
    /// Presences shown without a session.
    overrides: BTreeMap<UserId, Arc<Presence>>,
}

impl Presences {
    pub fn new(limits: &GuildLimits) -> Self {
        let limiter = PresenceLimiter::new(
            limits.presence_events_per_s_max,
            limits.presence_burst_max,
            limits.presence_waiting_max,
        );
        Self { limiter, common: CommonPresences::default(), overrides: BTreeMap::new() }
    }

    /// A session's view or answer contained presences: later changes of them must be published.
    pub fn table_was_read(&mut self) {
        self.limiter.table_was_read();
    }

    /// Time at which a queued presence is due.
    pub fn due_at(&self) -> Option<Instant> {
        self.limiter.due_at()
    }

    pub fn has_overrides(&self) -> bool {
        !self.overrides.is_empty()
    }

    /// Presence that a backend shows for a user.
    pub fn shown(&self, user_id: UserId) -> Option<Arc<Presence>> {
        self.overrides.get(&user_id).cloned()
    }

    /// Presences that backends show.
    pub fn all_shown(&self) -> impl Iterator<Item = (UserId, &Arc<Presence>)> {
        self.overrides.iter().map(|(user_id, presence)| (*user_id, presence))
    }

    pub fn set_shown(&mut self, user_id: UserId, presence: Option<Arc<Presence>>) {
        match presence {
            Some(presence) => self.overrides.insert(user_id, presence),
            None => self.overrides.remove(&user_id),
        };
    }

    /// Presences that wait for their turn.
    pub fn waiting(&self) -> WaitingPresences {
        self.limiter.waiting()
    }

    /// Begins with those of another node, in place of its own.
    pub fn take_over(&mut self, now: Now, limits: &GuildLimits, waiting: WaitingPresences) {
        self.limiter = Self::new(limits).limiter;
        self.limiter.take_over(now.instant, waiting);
    }

    /// Whether a change of a member's presence may be published now; if not, it waits for its turn.
    pub fn admit(
        &mut self,
        now: Instant,
        user_id: UserId,
        before: Option<Arc<Presence>>,
        after: &Option<Arc<Presence>>,
    ) -> bool {
        self.limiter.admit(now, user_id, before, after)
    }

    /// The next member whose turn it is.
    pub fn next_waiting(&mut self, now: Instant) -> Option<UserId> {
        self.limiter.next(now)
    }

    /// Nothing of this member needs to be published any more.
    pub fn forget_waiting(&mut self, user_id: UserId) {
        self.limiter.forget(user_id);
    }

    /// A presence without activities, which many members share.
    pub fn share(&mut self, status: Status, platforms: &[Status; 5], client_status: ClientStatus) -> Arc<Presence> {
        self.common.share(status, platforms, client_status)
    }

    /// Forgets a former member.
    pub fn forget(&mut self, user_id: UserId) {
        self.overrides.remove(&user_id);
        self.limiter.forget(user_id);
    }
}

/// Interned presences without activities, by statuses: most members share one of a few.
#[derive(Debug, Default)]
struct CommonPresences(BTreeMap<u16, Arc<Presence>>);

impl CommonPresences {
    /// Two bits for the total and two per platform: at most 4,096 values.
    fn share(&mut self, status: Status, platforms: &[Status; 5], client_status: ClientStatus) -> Arc<Presence> {
        let key = platforms.iter().fold(status as u16, |key, status| key << 2 | *status as u16);
        let make = || Arc::new(Presence { status, activities: Vec::new(), client_status });
        self.0.entry(key).or_insert_with(make).clone()
    }
}
