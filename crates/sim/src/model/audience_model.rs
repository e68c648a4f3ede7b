//! Members that an event is for, before subscriptions (docs/protocol/reference.md §5.3).

use super::{
    State,
    permissions::{CONNECT, MANAGE_THREADS},
};
use std::collections::BTreeSet;

/// Members an event is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AudienceModel {
    Members,
    /// Viewers of the channel.
    Viewers(u64),
    /// Viewers of the first channel who cannot view the second, to which a user moved.
    ViewersOfOne(u64, u64),
    /// Members with any of these permissions in the guild.
    Guild(u64),
    /// Members with this permission in the channel.
    Channel(u64, u64),
    /// Viewers of a thread.
    Thread(ThreadPlace),
    /// One of those.
    OneOfThread(ThreadPlace, u64),
    /// These members.
    Users(BTreeSet<u64>),
    /// Members with any of these roles.
    Roles(BTreeSet<u64>),
}

/// A thread, also when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    pub id: u64,
    pub parent: u64,
    pub is_private: bool,
    /// Whether the event deletes the thread; such an event has no content.
    pub is_end: bool,
}

impl ThreadPlace {
    fn admits(self, state: &State, user: u64, now_unix_ms: i64) -> bool {
        let is_in = || state.threads.get(&self.id).is_some_and(|thread| thread.members.contains(&user));
        let manages = || state.channel_permissions(user, self.parent, now_unix_ms) & MANAGE_THREADS != 0;
        state.viewers(self.parent).contains(&user) && (!self.is_private || is_in() || manages())
    }
}

impl AudienceModel {
    /// Audience of an event about a message in a channel or thread. In a voice channel it needs CONNECT.
    pub fn of_messages(state: &State, channel: u64) -> Self {
        let is_voice = state.channels.get(&channel).is_some_and(|channel| channel.is_voice());
        if is_voice { Self::Channel(channel, CONNECT) } else { Self::at(state, channel) }
    }

    /// Viewers of a channel or thread.
    pub fn at(state: &State, channel: u64) -> Self {
        match state.thread_place(channel) {
            Some(thread) => Self::Thread(thread),
            None => Self::Viewers(channel),
        }
    }

    /// Whether it is for this user, in a guild like this.
    pub fn admits(&self, state: &State, user: u64, now_unix_ms: i64) -> bool {
        let Some(member) = state.members.get(&user) else { return false };
        match self {
            Self::Members => true,
            Self::Viewers(channel) => state.viewers(*channel).contains(&user),
            Self::ViewersOfOne(channel, other) => {
                state.viewers(*channel).contains(&user) && !state.viewers(*other).contains(&user)
            }
            Self::Guild(any) => state.guild_permissions(user, now_unix_ms) & any != 0,
            Self::Channel(channel, bit) => state.channel_permissions(user, *channel, now_unix_ms) & bit != 0,
            Self::Thread(thread) => thread.admits(state, user, now_unix_ms),
            Self::OneOfThread(thread, one) => user == *one && thread.admits(state, user, now_unix_ms),
            Self::Users(users) => users.contains(&user),
            Self::Roles(roles) => {
                roles.contains(&state.guild_id) || member.roles.iter().any(|role| roles.contains(role))
            }
        }
    }

    /// Whether who got it once may be shown it again, with the guild as it is now.
    pub fn still_admits(&self, now: &State, user: u64, now_unix_ms: i64) -> bool {
        match self {
            // Members who can view the new channel by now still receive the departure.
            Self::ViewersOfOne(channel, _) => Self::Viewers(*channel).admits(now, user, now_unix_ms),
            // The members of a deleted thread are unknown, but received the event.
            Self::Thread(ThreadPlace { id, parent, is_end: true, .. }) if !now.threads.contains_key(id) => {
                Self::Viewers(*parent).admits(now, user, now_unix_ms)
            }
            who => who.admits(now, user, now_unix_ms),
        }
    }
}
