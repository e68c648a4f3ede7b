//! Open polls of a guild, and when the next one ends.
//!
//! Owns        `OpenPolls`.
//! Limits      `polls_max`, which `polls` checks.

use super::tasks::STEP_EVERY_MS;
use guildhall_model::{ChannelId, GuildResource, MessageId, OpenPoll};
use guildhall_stdx::{Instant, Now, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

type Key = (ChannelId, MessageId);

/// Pause before a message that could not be loaded is requested again.
const RETRY_MS: u64 = 5_000;

/// A message that the next poll to end needs from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// The driver has not taken the request yet.
    Wanted(Key),
    Begun(Key),
}

#[derive(Debug, Default)]
pub(crate) struct OpenPolls {
    polls: BTreeMap<Key, Timestamp>,
    by_end: BTreeSet<(Timestamp, Key)>,
    due_at: Option<Instant>,
    load: Option<Load>,
}

impl OpenPolls {
    /// Adds stored polls.
    pub fn load(resources: &[GuildResource]) -> Self {
        let mut all = Self::default();
        for resource in resources {
            if let GuildResource::OpenPoll(poll) = resource {
                all.follow(*poll);
            }
        }
        all
    }

    /// Adds a stored poll. The first timer determines the time of the next.
    pub fn follow(&mut self, poll: OpenPoll) {
        self.insert((poll.channel_id, poll.message_id), poll.expires_at);
        self.due_at = Some(Instant(0));
    }

    /// All of them, as they are stored.
    pub fn all(&self) -> impl Iterator<Item = GuildResource> {
        self.polls.iter().map(|((channel_id, message_id), expires_at)| {
            let (channel_id, message_id, expires_at) = (*channel_id, *message_id, *expires_at);
            GuildResource::OpenPoll(OpenPoll { channel_id, message_id, expires_at })
        })
    }

    pub fn len(&self) -> usize {
        self.polls.len()
    }

    /// Adds a new poll.
    pub fn begin(&mut self, now: Now, key: Key, expires_at: Timestamp) {
        self.insert(key, expires_at);
        self.arm(now);
    }

    fn insert(&mut self, key: Key, expires_at: Timestamp) {
        self.remove(key);
        self.polls.insert(key, expires_at);
        self.by_end.insert((expires_at, key));
    }

    /// False if it is not open.
    pub fn remove(&mut self, key: Key) -> bool {
        let expires_at = self.polls.remove(&key);
        if let Some(expires_at) = expires_at {
            self.by_end.remove(&(expires_at, key));
        }
        expires_at.is_some()
    }

    /// Polls of a channel, in messages below `before` if there is one.
    pub fn in_channel(&self, channel_id: ChannelId, before: Option<MessageId>) -> Vec<Key> {
        let from = (channel_id, MessageId::new(0));
        let of_channel = self.polls.range(from..).map(|(key, _)| *key).take_while(|key| key.0 == channel_id);
        of_channel.filter(|key| before.is_none_or(|before| key.1 < before)).collect()
    }

    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// The first poll whose time is over.
    pub fn next_due(&self, now: Now) -> Option<Key> {
        self.by_end.first().filter(|(expires_at, _)| *expires_at <= now.unix).map(|(_, key)| *key)
    }

    /// Sets the time of the next end.
    pub fn arm(&mut self, now: Now) {
        self.due_at = self.by_end.first().map(|(expires_at, _)| {
            let wait_ms = u64::try_from(expires_at.0.saturating_sub(now.unix.0)).unwrap_or(0);
            now.instant.after_ms(wait_ms.max(STEP_EVERY_MS))
        });
    }

    /// The message of this poll is needed. True if that is a new request.
    pub fn want(&mut self, now: Now, key: Key) -> bool {
        self.due_at = Some(now.instant.after_ms(RETRY_MS));
        let is_new = self.load.is_none();
        if is_new {
            self.load = Some(Load::Wanted(key));
        }
        is_new
    }

    /// The message to load, once.
    pub fn take_wanted(&mut self) -> Option<Key> {
        let Some(Load::Wanted(key)) = self.load else { return None };
        self.load = Some(Load::Begun(key));
        Some(key)
    }

    /// A message was loaded: the next timer goes on if it is the poll's.
    pub fn message_loaded(&mut self, key: Key) {
        if self.load == Some(Load::Begun(key)) {
            self.load = None;
            self.due_at = Some(Instant(0));
        }
    }

    /// A message could not be loaded: if it is the poll's, a later timer requests it again.
    pub fn load_failed(&mut self, key: Key) {
        if self.load == Some(Load::Begun(key)) {
            self.load = None;
        }
    }
}
