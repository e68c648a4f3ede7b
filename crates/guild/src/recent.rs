//! Short-lived state: nonces and slow mode.
//!
//! Owns        nonces of new messages, for `enforce_nonce`; the end of each user's slow mode.
//! Invariants  nothing here is stored: a reloaded guild starts empty.
//! Limits      `nonces_max` and `slow_mode_entries_max`; past either, the oldest entry is dropped.

use guildhall_model::{ChannelId, MessageId, Nonce, UserId};
use guildhall_stdx::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Lifetime of a nonce: five minutes, longer than any client retries.
pub(crate) const NONCE_MS: u64 = 300_000;
/// Maximum number of expired entries of each kind removed at once: ten thousand may expire in the same second.
const FORGOTTEN_MAX: usize = 256;
/// Delay until the next removal if more are expired.
const REST_MS: u64 = 10;
/// Interval of removals while nothing else happens.
const SWEEP_MS: u64 = 300_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NonceKey {
    author: UserId,
    channel: ChannelId,
    nonce: Mark,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Number(i64),
    Text(String),
}

impl NonceKey {
    fn new(author: UserId, channel: ChannelId, nonce: &Nonce) -> Self {
        let nonce = match nonce {
            Nonce::Number(n) => Mark::Number(*n),
            Nonce::Text(text) => Mark::Text(text.clone()),
        };
        Self { author, channel, nonce }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recent {
    nonces: BTreeMap<NonceKey, (Instant, MessageId)>,
    /// By time; may refer to a nonce that has been reused since.
    nonces_in_order: VecDeque<(Instant, NonceKey)>,
    /// Time of the last message, and the end of slow mode by the limit at that time.
    slow: BTreeMap<(ChannelId, UserId), (Instant, Instant)>,
    /// By end of slow mode.
    slow_in_order: BTreeSet<(Instant, ChannelId, UserId)>,
    sweep_at: Option<Instant>,
}

impl Recent {
    /// The message that this author sent to this channel with this nonce.
    pub fn find_message(&self, now: Instant, author: UserId, channel: ChannelId, nonce: &Nonce) -> Option<MessageId> {
        let (at, message_id) = self.nonces.get(&NonceKey::new(author, channel, nonce))?;
        (now.ms_since(*at) < NONCE_MS).then_some(*message_id)
    }

    pub fn record_nonce(
        &mut self,
        now: Instant,
        author: UserId,
        channel: ChannelId,
        nonce: &Nonce,
        message_id: MessageId,
        max: usize,
    ) {
        let key = NonceKey::new(author, channel, nonce);
        self.nonces.insert(key.clone(), (now, message_id));
        self.nonces_in_order.push_back((now, key));
        while self.nonces_in_order.len() > max {
            self.forget_oldest_nonce();
        }
        self.forget(now);
    }

    /// Milliseconds until `user` may write in `channel` again; 0: now.
    pub fn wait_ms(&self, now: Instant, channel: ChannelId, user: UserId, rate_limit_s: u16) -> u64 {
        let Some((sent, until)) = self.slow.get(&(channel, user)) else { return 0 };
        // A lowered limit applies at once.
        sent.after_ms(u64::from(rate_limit_s) * 1000).min(*until).ms_since(now)
    }

    pub fn record_sent(&mut self, now: Instant, channel: ChannelId, user: UserId, rate_limit_s: u16, max: usize) {
        let until = now.after_ms(u64::from(rate_limit_s) * 1000);
        if let Some((_, before)) = self.slow.insert((channel, user), (now, until)) {
            self.slow_in_order.remove(&(before, channel, user));
        }
        self.slow_in_order.insert((until, channel, user));
        while self.slow.len() > max {
            self.forget_first_wait();
        }
        self.forget(now);
    }

    /// Removes expired entries, or part of them if there are many. Expired entries never count.
    pub fn forget(&mut self, now: Instant) {
        for _ in 0..FORGOTTEN_MAX {
            if self.has_old_nonce(now) {
                self.forget_oldest_nonce();
            }
            if self.has_old_wait(now) {
                self.forget_first_wait();
            }
        }
        let is_empty = self.nonces_in_order.is_empty() && self.slow.is_empty();
        self.sweep_at = match self.sweep_at {
            _ if is_empty => None,
            _ if self.has_old_nonce(now) || self.has_old_wait(now) => Some(now.after_ms(REST_MS)),
            Some(at) if at > now => Some(at),
            _ => Some(now.after_ms(SWEEP_MS)),
        };
    }

    /// Time at which `forget` should be called even without other input.
    pub fn sweep_at(&self) -> Option<Instant> {
        self.sweep_at
    }

    fn has_old_nonce(&self, now: Instant) -> bool {
        self.nonces_in_order.front().is_some_and(|(at, _)| now.ms_since(*at) >= NONCE_MS)
    }

    fn has_old_wait(&self, now: Instant) -> bool {
        self.slow_in_order.first().is_some_and(|(until, ..)| *until <= now)
    }

    fn forget_oldest_nonce(&mut self) {
        if let Some((at, key)) = self.nonces_in_order.pop_front()
            && self.nonces.get(&key).is_some_and(|(used_at, _)| *used_at == at)
        {
            self.nonces.remove(&key);
        }
    }

    fn forget_first_wait(&mut self) {
        if let Some((_, channel, user)) = self.slow_in_order.pop_first() {
            self.slow.remove(&(channel, user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANA: UserId = UserId::new(7);
    const BOB: UserId = UserId::new(8);
    const HERE: ChannelId = ChannelId::new(1);

    fn text(text: &str) -> Nonce {
        Nonce::Text(text.to_owned())
    }

    #[test]
    fn a_nonce_lasts_five_minutes_and_at_most_max_are_kept() {
        let mut recent = Recent::default();
        let found = |recent: &Recent, at, user, nonce: &Nonce| {
            recent.find_message(Instant(at), user, HERE, nonce).map(guildhall_model::Id::get)
        };
        for n in 1..=4 {
            recent.record_nonce(Instant(n), ANA, HERE, &Nonce::Number(n as i64), MessageId::new(n), 3);
        }
        assert_eq!(found(&recent, 4, ANA, &Nonce::Number(1)), None, "the fourth pushed it out");
        assert_eq!(found(&recent, 4, ANA, &Nonce::Number(2)), Some(2));
        assert_eq!(found(&recent, 4, ANA, &text("2")), None, "a text is not a number");
        assert_eq!(found(&recent, 4, BOB, &Nonce::Number(2)), None);
        assert_eq!(found(&recent, 1 + NONCE_MS, ANA, &Nonce::Number(2)), Some(2));
        assert_eq!(found(&recent, 2 + NONCE_MS, ANA, &Nonce::Number(2)), None);
        // The nonce was reused: expiry of the older use keeps the newer.
        recent.record_nonce(Instant(10), ANA, HERE, &Nonce::Number(2), MessageId::new(9), 3);
        recent.record_nonce(Instant(11), ANA, HERE, &Nonce::Number(7), MessageId::new(10), 3);
        assert_eq!(found(&recent, 11, ANA, &Nonce::Number(2)), Some(9));
        recent.forget(Instant(11 + NONCE_MS));
        assert!(recent.nonces.is_empty() && recent.nonces_in_order.is_empty());
        assert_eq!(recent.sweep_at(), None);
    }

    #[test]
    fn what_is_over_goes_a_part_at_a_time() {
        let mut recent = Recent::default();
        for n in 1..=1_000 {
            recent.record_sent(Instant(0), HERE, UserId::new(n), 1, 2_000);
        }
        let mut rounds_count = 0;
        let mut now = Instant(1_000);
        while recent.sweep_at().is_some() {
            recent.forget(now);
            assert_eq!(recent.wait_ms(now, HERE, ANA, 1), 0);
            (now, rounds_count) = (now.after_ms(REST_MS), rounds_count + 1);
        }
        assert_eq!((rounds_count, recent.slow.len()), (4, 0));
    }

    #[test]
    fn slow_mode_waits() {
        let mut recent = Recent::default();
        recent.record_sent(Instant(1000), HERE, ANA, 10, 2);
        assert_eq!(recent.wait_ms(Instant(1000), HERE, ANA, 10), 10_000);
        assert_eq!(recent.wait_ms(Instant(1000), HERE, ANA, 5), 5_000, "lowered since");
        assert_eq!(recent.wait_ms(Instant(1000), HERE, ANA, 60), 10_000, "raised since");
        assert_eq!(recent.wait_ms(Instant(11_000), HERE, ANA, 10), 0);
        assert_eq!(recent.wait_ms(Instant(1000), HERE, BOB, 10), 0);
        recent.record_sent(Instant(2000), HERE, BOB, 20, 2);
        recent.record_sent(Instant(2000), ChannelId::new(2), BOB, 20, 2);
        assert_eq!(recent.wait_ms(Instant(2000), HERE, ANA, 10), 0, "the table is full: the shortest wait went");
        recent.record_sent(Instant(2500), HERE, BOB, 20, 2);
        assert_eq!(recent.slow.len(), recent.slow_in_order.len());
        assert_eq!(recent.sweep_at(), Some(Instant(301_000)));
        recent.forget(Instant(22_500));
        assert!(recent.slow.is_empty() && recent.slow_in_order.is_empty());
        assert_eq!(recent.sweep_at(), None);
    }
}
