//! Rate limit of a guild's presence events, with a queue of members.
//!
//! Owns        `PresenceLimiter`: a token bucket, and the members with an unpublished change.
//! Doors       `admit` for each change that a session watches; `next` by the timer, at `due_at`; `forget` when a member
//!             leaves; `table_was_read` whenever presences are sent in another way than by events.
//! Invariants  T1 at most `per_s` events in any second, and `burst` more at the start. T2 each user is queued at most
//!             once; users are published in queue order. T3 no change is lost: a queued user is published, or returns
//!             to the presence last published. (tests `t*_*`)
//! Limits      `waiting_max` users are queued with their last published presence, about 80 bytes each. Past it only the
//!             id is stored, about 15 bytes: those are published after all others, by id, even if they return to the
//!             same presence. There are never more of those than members. No relay or session is closed for the rate:
//!             queries and new sessions receive current presences, queued or not.

use guildhall_model::{Presence, UserId};
use guildhall_stdx::Instant;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Minimum interval between timers while members are queued.
const TICK_MS: u64 = 10;

#[derive(Debug)]
struct Wait {
    /// Position in the queue.
    number: u64,
    /// Presence last published.
    sent: Option<Arc<Presence>>,
    /// `reads_count` when the user was queued.
    reads_count: u64,
}

/// Queue of a limiter, for another node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WaitingPresences {
    /// In the order of the queue: the presence last published, and whether a session may have read another since.
    queued: Vec<(UserId, Option<Arc<Presence>>, bool)>,
    late: Vec<UserId>,
}

#[derive(Debug)]
pub(crate) struct PresenceLimiter {
    per_s: u64,
    burst: u64,
    waiting_max: usize,
    /// Available credit, in thousandths of events.
    credit: u64,
    /// Time at which `credit` was computed.
    at: Instant,
    waiting: BTreeMap<UserId, Wait>,
    order: BTreeMap<u64, UserId>,
    numbers_count: u64,
    /// Users dropped because the queue was full.
    late: BTreeSet<UserId>,
    /// Number of times that presences were sent otherwise. A session that read them may know more than was published.
    reads_count: u64,
    due_at: Option<Instant>,
}

impl PresenceLimiter {
    /// `per_s` and `burst` are at least 1.
    pub fn new(per_s: u32, burst: u32, waiting_max: usize) -> Self {
        let (per_s, burst) = (u64::from(per_s.max(1)), u64::from(burst.max(1)));
        Self {
            per_s,
            burst,
            waiting_max,
            credit: burst * 1_000,
            at: Instant(0),
            waiting: BTreeMap::new(),
            order: BTreeMap::new(),
            numbers_count: 0,
            late: BTreeSet::new(),
            reads_count: 0,
            due_at: None,
        }
    }

    /// Presences were sent as the table holds them.
    pub fn table_was_read(&mut self) {
        self.reads_count += 1;
    }

    /// The queue as it is now.
    pub fn waiting(&self) -> WaitingPresences {
        let queued = self.order.values().filter_map(|user_id| {
            let wait = self.waiting.get(user_id)?;
            Some((*user_id, wait.sent.clone(), wait.reads_count != self.reads_count))
        });
        WaitingPresences { queued: queued.collect(), late: self.late.iter().copied().collect() }
    }

    /// Continues another limiter's queue, without credit. This one is new.
    pub fn take_over(&mut self, now: Instant, waiting: WaitingPresences) {
        (self.credit, self.at, self.reads_count) = (0, now, 1);
        for (user_id, sent, was_read) in waiting.queued {
            self.numbers_count += 1;
            self.order.insert(self.numbers_count, user_id);
            let reads_count = if was_read { 0 } else { self.reads_count };
            self.waiting.insert(user_id, Wait { number: self.numbers_count, sent, reads_count });
        }
        self.late.extend(waiting.late);
        self.plan(now);
    }

    /// Time at which `next` may return a user.
    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// A user's presence changed. True: publish it now. False: the user is queued, or nothing is left to publish.
    pub fn admit(
        &mut self,
        now: Instant,
        user_id: UserId,
        before: Option<Arc<Presence>>,
        after: &Option<Arc<Presence>>,
    ) -> bool {
        if self.late.contains(&user_id) {
            return false;
        }
        if let Some(wait) = self.waiting.get(&user_id) {
            if wait.sent == *after && wait.reads_count == self.reads_count {
                self.forget(user_id);
            }
            return false;
        }
        if self.order.is_empty() && self.late.is_empty() && self.take(now) {
            return true;
        }
        // A user must not overtake users without a place in the queue.
        if self.waiting.len() < self.waiting_max && self.late.is_empty() {
            self.numbers_count += 1;
            self.order.insert(self.numbers_count, user_id);
            let (number, reads_count) = (self.numbers_count, self.reads_count);
            self.waiting.insert(user_id, Wait { number, sent: before, reads_count });
        } else {
            self.late.insert(user_id);
        }
        if self.due_at.is_none() {
            self.plan(now);
        }
        false
    }

    /// The next user to publish now.
    pub fn next(&mut self, now: Instant) -> Option<UserId> {
        let user_id = self.order.values().next().or(self.late.first()).copied();
        let user_id = user_id.filter(|_| self.due_at.is_some_and(|at| at <= now) && self.take(now));
        match user_id {
            Some(user_id) => self.forget(user_id),
            None => self.plan(now),
        }
        user_id
    }

    /// Removes a user from the queue.
    pub fn forget(&mut self, user_id: UserId) {
        self.late.remove(&user_id);
        if let Some(wait) = self.waiting.remove(&user_id) {
            self.order.remove(&wait.number);
        }
    }

    fn plan(&mut self, now: Instant) {
        let is_empty = self.order.is_empty() && self.late.is_empty();
        let due_at = || now.after_ms(1_000u64.saturating_sub(self.credit).div_ceil(self.per_s).max(TICK_MS));
        self.due_at = match self.due_at {
            _ if is_empty => None,
            Some(at) if at > now => Some(at),
            _ => Some(due_at()),
        };
    }

    /// Takes the credit of one event, if available.
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.ms_since(self.at).saturating_mul(self.per_s);
        self.credit = self.credit.saturating_add(earned).min(self.burst * 1_000);
        self.at = self.at.max(now);
        let is_enough = self.credit >= 1_000;
        self.credit -= if is_enough { 1_000 } else { 0 };
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::Status;
    use guildhall_stdx::Rng;

    const STATUSES: [Status; 4] = [Status::Offline, Status::Idle, Status::Online, Status::Dnd];

    fn shows(status: Status) -> Option<Arc<Presence>> {
        (status != Status::Offline).then(|| Arc::new(Presence { status, ..Presence::default() }))
    }

    fn id(n: u64) -> UserId {
        UserId::new(n)
    }

    /// All users that are due.
    fn due(presence_limiter: &mut PresenceLimiter, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| presence_limiter.next(now)).map(|id| id.get()).collect()
    }

    fn change(presence_limiter: &mut PresenceLimiter, now: Instant, user: u64, from: Status, to: Status) -> bool {
        presence_limiter.admit(now, id(user), shows(from), &shows(to))
    }

    #[test]
    fn t1_t2_a_burst_is_published_at_once_and_the_rest_in_order() {
        let mut presence_limiter = PresenceLimiter::new(100, 3, 10);
        let now = Instant(1_000);
        let sent: Vec<bool> =
            (1..=6).map(|n| change(&mut presence_limiter, now, n, Status::Offline, Status::Idle)).collect();
        assert_eq!(sent, [true, true, true, false, false, false]);
        // Published once with the latest presence; no user overtakes another.
        assert!(!change(&mut presence_limiter, now, 4, Status::Idle, Status::Dnd));
        assert_eq!(presence_limiter.due_at(), Some(Instant(1_010)));
        assert!(due(&mut presence_limiter, Instant(1_009)).is_empty());
        assert_eq!(due(&mut presence_limiter, Instant(1_010)), [4]);
        assert!(
            !change(&mut presence_limiter, Instant(1_010), 4, Status::Dnd, Status::Idle),
            "they wait again, behind"
        );
        assert_eq!(due(&mut presence_limiter, Instant(1_040)), [5, 6, 4]);
        assert_eq!(presence_limiter.due_at(), None);
        assert!(
            !change(&mut presence_limiter, Instant(1_040), 7, Status::Idle, Status::Dnd),
            "nothing is saved up while others wait"
        );
        assert_eq!(due(&mut presence_limiter, Instant(1_050)), [7]);
        assert!(change(&mut presence_limiter, Instant(1_060), 7, Status::Dnd, Status::Idle));
    }

    #[test]
    fn t3_a_presence_that_returns_to_the_published_one_is_dropped_unless_it_was_read() {
        let now = Instant(0);
        for is_read in [false, true] {
            let mut presence_limiter = PresenceLimiter::new(100, 1, 10);
            assert!(change(&mut presence_limiter, now, 1, Status::Offline, Status::Idle));
            assert!(!change(&mut presence_limiter, now, 2, Status::Idle, Status::Dnd));
            if is_read {
                presence_limiter.table_was_read();
            }
            assert!(!change(&mut presence_limiter, now, 2, Status::Dnd, Status::Idle));
            assert_eq!(due(&mut presence_limiter, Instant(100)), if is_read { vec![2] } else { vec![] });
            assert_eq!(presence_limiter.due_at(), None);
        }
    }

    #[test]
    fn t3_a_full_queue_loses_no_presence() {
        let mut presence_limiter = PresenceLimiter::new(1_000, 1, 4);
        let now = Instant(0);
        for n in (1..=100).rev() {
            change(&mut presence_limiter, now, n, Status::Offline, Status::Idle);
            change(&mut presence_limiter, now, n, Status::Idle, Status::Dnd);
        }
        // The first change was published at once; the second is queued.
        assert_eq!((presence_limiter.waiting.len(), presence_limiter.late.len()), (4, 96));
        let mut sent = Vec::new();
        while let Some(at) = presence_limiter.due_at() {
            sent.extend(due(&mut presence_limiter, at));
        }
        let expected: Vec<u64> = [100, 99, 98, 97].into_iter().chain(1..=96).collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn t1_t2_t3_hold_in_any_order_of_events() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (per_s, burst) = (1 + rng.below(500), 1 + rng.below(5));
            let mut presence_limiter = PresenceLimiter::new(per_s as u32, burst as u32, rng.below(6) as usize);
            let (mut shown, mut sent) = ([Status::Offline; 12], [Status::Offline; 12]);
            let (mut now, mut events_count) = (Instant(0), 0);
            for _ in 0..400 {
                now = now.after_ms(rng.below(4));
                let n = rng.below(12);
                let status = *rng.pick(&STATUSES).expect("there are some");
                if shown[n as usize] != status {
                    let is_sent = change(&mut presence_limiter, now, n + 1, shown[n as usize], status);
                    shown[n as usize] = status;
                    if is_sent {
                        sent[n as usize] = status;
                        events_count += 1;
                    }
                }
                while let Some(user_id) = presence_limiter.next(now) {
                    sent[user_id.get() as usize - 1] = shown[user_id.get() as usize - 1];
                    events_count += 1;
                }
                assert!(events_count <= burst + now.0 * per_s / 1_000, "seed {seed}");
            }
            while let Some(at) = presence_limiter.due_at() {
                while let Some(user_id) = presence_limiter.next(at) {
                    sent[user_id.get() as usize - 1] = shown[user_id.get() as usize - 1];
                }
            }
            assert_eq!(sent, shown, "seed {seed}");
        }
    }
}
