//! Nonces of new messages, for `enforce_nonce`.
//!
//! Owns        `Nonces`.
//! Invariants  a nonce that was to be enforced is stored with its message, so it counts also after the guild was loaded
//!             again, here or on another node. Others are only here.
//! Limits      `nonces_max`; past it the oldest is dropped. `NONCES_LOADED_MAX` of the store. A nonce counts for
//!             `NONCE_MS`; one of the store, by the time in the message's id.

use crate::{
    expiring::Expiring,
    record::{NONCE_MS, SentNonce},
};
use guildhall_model::{ChannelId, MessageId, Nonce, UserId, timestamp_of};
use guildhall_stdx::{Instant, Now};
use std::{cmp::Reverse, collections::BTreeMap};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NonceKey {
    author: UserId,
    channel: ChannelId,
    nonce: NonceText,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NonceText {
    Number(i64),
    Text(String),
}

impl NonceKey {
    fn new(author: UserId, channel: ChannelId, nonce: &Nonce) -> Self {
        let nonce = match nonce {
            Nonce::Number(n) => NonceText::Number(*n),
            Nonce::Text(text) => NonceText::Text(text.clone()),
        };
        Self { author, channel, nonce }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Nonces {
    messages: Expiring<NonceKey, MessageId, NONCE_MS>,
    /// From the store; empty once the last is over. Those in `messages` are newer.
    loaded: BTreeMap<NonceKey, MessageId>,
}

impl Nonces {
    /// With nonces of the store, ascending by message.
    pub fn load(stored: Vec<SentNonce>) -> Self {
        let entry = |of: SentNonce| (NonceKey::new(of.author_id, of.channel_id, &of.nonce), of.message_id);
        Self { loaded: stored.into_iter().map(entry).collect(), ..Self::default() }
    }

    /// The message that this author sent to this channel with this nonce.
    pub fn find(&mut self, now: Now, author: UserId, channel: ChannelId, nonce: &Nonce) -> Option<MessageId> {
        let key = NonceKey::new(author, channel, nonce);
        if let Some(message_id) = self.messages.find(now.instant, &key) {
            return message_id.copied();
        }
        let counts = |message_id: &MessageId| now.unix.0 - timestamp_of(*message_id).0 < NONCE_MS as i64;
        if !self.loaded.values().any(counts) {
            self.loaded = BTreeMap::new();
        }
        self.loaded.get(&key).copied().filter(counts)
    }

    pub fn record(
        &mut self,
        now: Instant,
        author: UserId,
        channel: ChannelId,
        nonce: &Nonce,
        message_id: MessageId,
        max: usize,
    ) {
        self.messages.record(now, NonceKey::new(author, channel, nonce), message_id, max);
    }

    /// Nonces that count, oldest first, with their ages in milliseconds.
    pub fn ages(&self, now: Now) -> Vec<(SentNonce, u64)> {
        let sent = |key: &NonceKey, message_id: MessageId| SentNonce {
            author_id: key.author,
            channel_id: key.channel,
            message_id,
            nonce: match &key.nonce {
                NonceText::Number(n) => Nonce::Number(*n),
                NonceText::Text(text) => Nonce::Text(text.clone()),
            },
        };
        let loaded = self.loaded.iter().map(|(key, message_id)| {
            let age = now.unix.0.saturating_sub(timestamp_of(*message_id).0);
            (sent(key, *message_id), u64::try_from(age).unwrap_or(0))
        });
        let mut all: Vec<_> = loaded.filter(|(_, age)| *age < NONCE_MS).collect();
        all.sort_by_key(|(_, age)| Reverse(*age));
        let messages = self.messages.ages(now.instant);
        all.extend(messages.map(|(age, key, message_id)| (sent(key, *message_id), age)));
        all
    }

    /// Begins with those of another node.
    pub fn take_over(&mut self, now: Instant, ages: Vec<(SentNonce, u64)>, max: usize) {
        for (SentNonce { author_id, channel_id, message_id, nonce }, age) in ages {
            self.record(now.before_ms(age), author_id, channel_id, &nonce, message_id, max);
        }
        self.sweep(now);
    }

    /// Removes expired nonces, or part of them if there are many. Expired nonces never count.
    pub fn sweep(&mut self, now: Instant) {
        self.messages.sweep(now);
    }

    /// Time at which `sweep` should be called even without other input.
    pub fn sweep_at(&self) -> Option<Instant> {
        self.messages.sweep_at()
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
        let mut nonces = Nonces::default();
        let found = |nonces: &mut Nonces, at, user, nonce: &Nonce| {
            nonces.find(Now::new(at, 0), user, HERE, nonce).map(guildhall_model::Id::get)
        };
        for n in 1..=4 {
            nonces.record(Instant(n), ANA, HERE, &Nonce::Number(n as i64), MessageId::new(n), 3);
        }
        assert_eq!(found(&mut nonces, 4, ANA, &Nonce::Number(1)), None, "the fourth pushed it out");
        assert_eq!(found(&mut nonces, 4, ANA, &Nonce::Number(2)), Some(2));
        assert_eq!(found(&mut nonces, 4, ANA, &text("2")), None, "a text is not a number");
        assert_eq!(found(&mut nonces, 4, BOB, &Nonce::Number(2)), None);
        assert_eq!(found(&mut nonces, 1 + NONCE_MS, ANA, &Nonce::Number(2)), Some(2));
        assert_eq!(found(&mut nonces, 2 + NONCE_MS, ANA, &Nonce::Number(2)), None);
        // The nonce was reused: expiry of the older use keeps the newer.
        nonces.record(Instant(10), ANA, HERE, &Nonce::Number(2), MessageId::new(9), 3);
        nonces.record(Instant(11), ANA, HERE, &Nonce::Number(7), MessageId::new(10), 3);
        assert_eq!(found(&mut nonces, 11, ANA, &Nonce::Number(2)), Some(9));
        nonces.sweep(Instant(11 + NONCE_MS));
        assert_eq!(nonces.messages.sizes(), (0, 0));
        assert_eq!(nonces.sweep_at(), None);
    }

    #[test]
    fn a_stored_nonce_lasts_five_minutes_from_its_message_on() {
        let sent_at = 1_700_000_000_000_i64;
        let message_id: MessageId = guildhall_model::smallest_id_at(guildhall_stdx::Timestamp(sent_at));
        let stored = |id, nonce| SentNonce { author_id: ANA, channel_id: HERE, message_id: id, nonce };
        let earlier = MessageId::new(message_id.get() - 1);
        let mut nonces =
            Nonces::load(vec![stored(earlier, text("n")), stored(message_id, text("n")), stored(earlier, text("m"))]);
        let mut found = |after_ms, user, nonce: &Nonce| {
            // The process has just begun.
            nonces.find(Now::new(1, sent_at + after_ms), user, HERE, nonce)
        };
        assert_eq!(found(0, ANA, &text("n")), Some(message_id), "the later of two");
        assert_eq!(found(0, BOB, &text("n")), None);
        assert_eq!(found(NONCE_MS as i64 - 1, ANA, &text("m")), None, "a millisecond older");
        assert_eq!(found(NONCE_MS as i64 - 1, ANA, &text("n")), Some(message_id));
        assert_eq!(found(NONCE_MS as i64, ANA, &text("n")), None);
        assert!(nonces.loaded.is_empty());
    }
}
