//! Voice: which user is connected to which voice channel. No media.
//!
//! Owns        `VoiceTable`; the rules of reference.md §9.
//! Doors       `set_session_voice` (op 4), `Command::ShowVoice`; members and channels call in when they change.
//! Invariants  V1 a user has at most one voice state in the guild, and each connected session belongs to its user. V2
//!             members who can view only the channel that was left see the user leave; members who can view the new one
//!             see them once. V3 a request without permission is ignored.
//! Limits      a channel's `user_limit`; a channel that is being deleted refuses users. Losing VIEW_CHANNEL or CONNECT
//!             does not end a connection.
//! Not here    the rule that a user account is in voice in one guild only: a guild cannot see others.

use crate::{
    command::{Actor, Refusal},
    machine::{CommandResult, Guild},
};
use guildhall_guild_protocol::{AudienceRule, Payload, RelayMessage, ReplicaUpdate, SessionKey, VoiceEntry};
use guildhall_model::{
    Channel, ChannelId, ChannelType, EventName, Member, Permissions, UserId, VoiceState, to_gateway::VoiceStateUpdate,
};
use guildhall_stdx::{CowMap, Now};
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

    fn user_state(&self, user_id: UserId) -> Option<&Arc<VoiceState>> {
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

    fn remove(&mut self, user_id: UserId) -> Option<VoiceEntry> {
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
    fn insert(&mut self, entry: VoiceEntry, session: Option<SessionKey>) {
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

impl Guild {
    /// Op 4. A session takes over a connection of the same user's other session.
    pub(crate) fn set_session_voice(&mut self, now: Now, key: SessionKey, update: VoiceStateUpdate) {
        let Some(session) = self.session(key) else { return };
        let (user_id, session_id) = (session.client.user_id, session.client.session_id.to_string());
        let Some(channel_id) = update.channel_id else { return self.leave_voice(user_id) };
        let Some(member) = self.member(user_id) else { return };
        let Some(channel) = self.structure.channels.get(&channel_id).cloned().filter(|channel| channel.kind.is_voice())
        else {
            return;
        };
        let before = self.voice.user_state(user_id);
        let is_here = self.voice.user_channel(user_id) == Some(channel_id);
        let is_same_session = self.voice.sessions.get(&user_id) == Some(&key);
        let suppress = if is_here {
            before.is_some_and(|before| before.suppress)
        } else {
            let permissions = self.permissions_in(now, &member, &channel);
            if self.is_closing(channel_id) {
                return;
            }
            let is_full = channel.user_limit > 0 && self.voice.count_in(channel_id) >= usize::from(channel.user_limit);
            if !permissions.contains(Permissions::VIEW_CHANNEL | Permissions::CONNECT)
                || is_full && !permissions.contains(Permissions::MOVE_MEMBERS)
            {
                return;
            }
            is_audience(&channel, permissions)
        };
        let state = VoiceState {
            channel_id: Some(channel_id),
            session_id,
            deaf: member.deaf,
            mute: member.mute,
            self_deaf: update.self_deaf,
            self_mute: update.self_mute,
            self_video: update.self_video,
            suppress,
            ..VoiceState::new(user_id)
        };
        self.set_voice(state, Some(key));
        if !is_here || !is_same_session {
            self.send_voice_server(user_id, key);
        }
    }

    /// Stores a state and publishes it to members who may see it.
    fn set_voice(&mut self, state: VoiceState, session: Option<SessionKey>) {
        let before = self.voice.user_channel(state.user_id);
        let state = Arc::new(state);
        let Some(member) = self.member(state.user_id) else { return };
        self.voice.insert(VoiceEntry { state: state.clone(), member }, session);
        self.publish_voice(before, &state);
    }

    fn publish_voice(&mut self, before: Option<ChannelId>, state: &Arc<VoiceState>) {
        self.touch();
        let member = self.member(state.user_id);
        let update = |guild: &Self, rule, state: Arc<VoiceState>| {
            guild.event(EventName::VoiceStateUpdate, rule, Payload::Voice { state, member: member.clone() })
        };
        let Some(channel_id) = state.channel_id.or(before) else { return };
        // The leave is sent first: the user's own sessions receive both and end with the right state.
        if let Some(before) = before.filter(|before| *before != channel_id) {
            let left = Arc::new(VoiceState { channel_id: None, ..VoiceState::clone(state) });
            let event = update(self, AudienceRule::ChannelExcept(before, channel_id), left);
            self.publish(event, ReplicaUpdate::None);
        }
        let event = update(self, AudienceRule::Channel(channel_id), state.clone()).always_to(state.user_id);
        let entry = self.voice.entries.get(state.user_id).cloned();
        self.publish(event, ReplicaUpdate::Voice(state.user_id, entry));
    }

    fn send_voice_server(&mut self, user_id: UserId, session: SessionKey) {
        let token = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let payload = Payload::VoiceServer { token, endpoint: self.limits.voice_endpoint.clone() };
        let event = Arc::new(self.event(EventName::VoiceServerUpdate, AudienceRule::User(user_id), payload));
        self.send(session.relay, RelayMessage::Direct { session, event });
    }

    /// Disconnects a user, if connected.
    pub(crate) fn leave_voice(&mut self, user_id: UserId) {
        let Some(entry) = self.voice.remove(user_id) else { return };
        let before = entry.state.channel_id;
        let state = Arc::new(VoiceState { channel_id: None, ..VoiceState::clone(&entry.state) });
        self.publish_voice(before, &state);
    }

    /// Disconnects a user if connected by that session.
    pub(crate) fn leave_voice_with(&mut self, user_id: UserId, session: SessionKey) {
        if self.voice.sessions.get(&user_id) == Some(&session) {
            self.leave_voice(user_id);
        }
    }

    /// Disconnects at most `max` users of a channel.
    pub(crate) fn empty_voice(&mut self, channel_id: ChannelId, max: usize) {
        let users = self.voice.by_channel.get(&channel_id).into_iter().flatten().copied();
        let users: Vec<UserId> = users.take(max).collect();
        users.into_iter().for_each(|user_id| self.leave_voice(user_id));
    }

    /// Moves a connected user to another channel, whatever its limit.
    pub(crate) fn move_in_voice(&mut self, now: Now, member: &Member, channel: &Channel) {
        let user_id = member.user.id;
        let Some(state) = self.voice.user_state(user_id).cloned() else { return };
        let session = self.voice.sessions.get(&user_id).copied();
        if state.channel_id == Some(channel.id) {
            return;
        }
        let suppress = is_audience(channel, self.permissions_in(now, member, channel));
        self.set_voice(VoiceState { channel_id: Some(channel.id), suppress, ..VoiceState::clone(&state) }, session);
        if let Some(session) = session {
            self.send_voice_server(user_id, session);
        }
    }

    /// Updates a voice state to the member's server mute and deafen.
    pub(crate) fn refresh_voice(&mut self, member: &Member) {
        let Some(state) = self.voice.user_state(member.user.id).cloned() else { return };
        let session = self.voice.sessions.get(&member.user.id).copied();
        if (state.mute, state.deaf) != (member.mute, member.deaf) {
            let state = VoiceState { mute: member.mute, deaf: member.deaf, ..VoiceState::clone(&state) };
            self.set_voice(state, session);
        }
    }

    pub(crate) fn show_voice(
        &mut self,
        actor: Actor,
        user_id: UserId,
        channel_id: Option<ChannelId>,
    ) -> CommandResult<()> {
        if actor != Actor::System {
            return Err(Refusal::MissingPermissions.into());
        }
        let member = self.need_member(user_id)?;
        let Some(channel_id) = channel_id else {
            self.leave_voice(user_id);
            return Ok(());
        };
        let channel = self.structure.channels.get(&channel_id).ok_or(Refusal::UnknownChannel)?;
        if !channel.kind.is_voice() {
            return Err(Refusal::InvalidForm("channel_id").into());
        }
        if self.is_closing(channel_id) {
            return Err(Refusal::UnknownChannel.into());
        }
        let state = VoiceState {
            channel_id: Some(channel_id),
            session_id: format!("{user_id:032}"),
            deaf: member.deaf,
            mute: member.mute,
            ..VoiceState::new(user_id)
        };
        self.set_voice(state, None);
        Ok(())
    }
}

fn is_audience(channel: &Channel, permissions: Permissions) -> bool {
    channel.kind == ChannelType::Stage && !permissions.contains(Permissions::MUTE_MEMBERS)
}
