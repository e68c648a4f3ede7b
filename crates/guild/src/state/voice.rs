//! Voice table: which user is connected to which voice channel, by which session.
//!
//! Owns        `VoiceTable`, and its index by channel.
//! Invariants  V1 (as in `voice`) a user has at most one voice state. V5 the index by channel agrees with the states.
//! Limits      one entry per member.

use guildhall_guild_protocol::{SessionKey, VoiceEntry};
use guildhall_model::{ChannelId, Member, UserId, VoiceState};
use guildhall_stdx::CowMap;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Users in voice.
#[derive(Debug, Default)]
pub(crate) struct VoiceTable {
    entries: CowMap<UserId, VoiceEntry>,
    /// Connected sessions; a state set by a backend has none.
    sessions: BTreeMap<UserId, SessionKey>,
    by_channel: BTreeMap<ChannelId, BTreeSet<UserId>>,
}

impl VoiceTable {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All voice states now.
    pub fn snapshot(&self) -> CowMap<UserId, VoiceEntry> {
        self.entries.clone()
    }

    pub fn user_state(&self, user_id: UserId) -> Option<&Arc<VoiceState>> {
        self.entries.get(user_id).map(|entry| &entry.state)
    }

    /// Replaces the member object of a user.
    pub fn set_member(&mut self, member: &Arc<Member>) {
        self.entries.with_mut(member.user.id, |entry| entry.member = member.clone());
    }

    /// Channel of a user.
    pub fn user_channel(&self, user_id: UserId) -> Option<ChannelId> {
        self.user_state(user_id)?.channel_id
    }

    pub fn count_in(&self, channel_id: ChannelId) -> usize {
        self.by_channel.get(&channel_id).map_or(0, BTreeSet::len)
    }

    pub fn entry(&self, user_id: UserId) -> Option<&VoiceEntry> {
        self.entries.get(user_id)
    }

    /// Session by which a user is connected.
    pub fn session(&self, user_id: UserId) -> Option<SessionKey> {
        self.sessions.get(&user_id).copied()
    }

    /// Users of a channel, by id.
    pub fn users_in(&self, channel_id: ChannelId) -> impl Iterator<Item = UserId> {
        self.by_channel.get(&channel_id).into_iter().flatten().copied()
    }

    /// Users with an id above this one, by id.
    pub fn users_after(&self, after: UserId) -> impl Iterator<Item = UserId> {
        self.entries.iter_after(after).map(|(id, _)| id)
    }

    /// State of a user, and the session that is connected.
    pub fn place(&self, user_id: UserId) -> Option<(VoiceEntry, Option<SessionKey>)> {
        Some((self.entries.get(user_id)?.clone(), self.sessions.get(&user_id).copied()))
    }

    /// Replaces the state of a user as another node has it.
    pub fn set_place(&mut self, user_id: UserId, place: Option<(VoiceEntry, Option<SessionKey>)>) {
        match place {
            Some((entry, session)) => self.insert(entry, session),
            None => drop(self.remove(user_id)),
        }
    }

    /// Users who are in voice by a session.
    pub fn connected(&self) -> impl Iterator<Item = UserId> {
        self.sessions.keys().copied()
    }

    /// A session has another key. False: the user is not in voice by the session with this id.
    pub fn connect(&mut self, user_id: UserId, session_id: &str, key: SessionKey) -> bool {
        let is_connected = self.user_state(user_id).is_some_and(|state| state.session_id == session_id);
        if is_connected {
            self.sessions.insert(user_id, key);
        }
        is_connected
    }

    /// Removes the state of a user.
    pub fn remove(&mut self, user_id: UserId) -> Option<VoiceEntry> {
        let entry = self.entries.remove(user_id)?;
        self.sessions.remove(&user_id);
        if let Some(channel_id) = entry.state.channel_id
            && let Some(users) = self.by_channel.get_mut(&channel_id)
        {
            users.remove(&user_id);
            if users.is_empty() {
                self.by_channel.remove(&channel_id);
            }
        }
        Some(entry)
    }

    /// Inserts or replaces a state.
    pub fn insert(&mut self, entry: VoiceEntry, session: Option<SessionKey>) {
        let user_id = entry.state.user_id;
        self.remove(user_id);
        if let Some(channel_id) = entry.state.channel_id {
            self.by_channel.entry(channel_id).or_default().insert(user_id);
            self.entries.insert(user_id, entry);
            if let Some(session) = session {
                self.sessions.insert(user_id, session);
            }
        }
    }
}
