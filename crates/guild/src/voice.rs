//! Voice: which user is connected to which voice channel. No media.
//!
//! Owns        `VoiceTable`; the rules of reference.md §9; suppression; `ReadVoiceState`, `UpdateVoiceState`, by which
//!             the audience of a stage becomes speakers.
//! Doors       `set_session_voice` (op 4), `Command::ShowVoice`, `EmptyVoice`; `refresh_voice` when a member changes,
//!             `voice_follows_structure` when roles, channels or the guild change.
//! Invariants  V1 a user has at most one voice state in the guild, and each connected session belongs to its user. V2
//!             members who can view only the channel that was left see the user leave; members who can view the new one
//!             see them once. V3 a request without permission is ignored. V4 outside of stages a user is suppressed
//!             exactly while they lack SPEAK in the channel, or it is the AFK channel. (tests `v4_*`)
//! Limits      a channel's `user_limit`; a channel that is being deleted refuses users. Losing VIEW_CHANNEL or CONNECT
//!             does not end a connection. After a change of roles or channels V4 is restored `STEP_ITEMS` users at a
//!             time; after the end of a time-out by the user's next change.
//! Not here    the rule that a user account is in voice in one guild only: a guild cannot see others.

use crate::{
    command::{Actor, CommandResult, Refusal, VoiceStatePatch},
    machine::Guild,
    state::tasks::{STEP_ITEMS, VoicePass},
    turn::Turn,
    voice_tokens::VoiceGrant,
};
use guildhall_guild_protocol::{
    AudienceRule, GuildStructure, Payload, RelayMessage, ReplicaUpdate, SessionKey, VoiceEntry,
};
use guildhall_model::{
    Channel, ChannelId, ChannelType, EventName, Member, Permissions, UserId, VoiceState, to_gateway::VoiceStateUpdate,
};
use guildhall_stdx::Now;
use std::sync::Arc;

/// A time in the past by less than this is the present: clocks differ. Milliseconds.
const CLOCKS_APART_MS_MAX: i64 = 60_000;

/// Users whom one `EmptyVoice` takes out of a room: each leaves several tables.
const ROOM_STEP: usize = 16;

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
        let is_same_session = self.voice.session(user_id).as_ref() == Some(&key);
        let permissions = self.permissions_in(now, &member, &channel);
        let kept = before.filter(|_| is_here).cloned();
        let request_to_speak_timestamp = kept.as_ref().and_then(|kept| kept.request_to_speak_timestamp);
        if !is_here {
            if self.is_closing(channel_id) {
                return;
            }
            let is_full = channel.user_limit > 0 && self.voice.count_in(channel_id) >= usize::from(channel.user_limit);
            if !permissions.contains(Permissions::VIEW_CHANNEL | Permissions::CONNECT)
                || is_full && !permissions.contains(Permissions::MOVE_MEMBERS)
            {
                return;
            }
        }
        let state = VoiceState {
            channel_id: Some(channel_id),
            session_id,
            deaf: member.deaf,
            mute: member.mute,
            self_deaf: update.self_deaf,
            self_mute: update.self_mute,
            self_video: update.self_video,
            suppress: match (&kept, channel.kind) {
                (Some(kept), ChannelType::Stage) => kept.suppress,
                _ => self.is_suppressed(&channel, permissions),
            },
            request_to_speak_timestamp,
            ..VoiceState::new(user_id)
        };
        // A signed token ends; a client that needs another one repeats its op 4.
        let is_repeated = self.limits.voice_signer.0.is_some()
            && kept.is_some_and(|kept| *kept == state)
            && permissions.contains(Permissions::VIEW_CHANNEL | Permissions::CONNECT);
        self.set_voice(state, Some(key));
        if !is_here || !is_same_session || is_repeated {
            self.send_voice_server(now, user_id, key);
        }
    }

    /// Stores a state and publishes it to members who may see it.
    fn set_voice(&mut self, state: VoiceState, session: Option<SessionKey>) {
        let before = self.voice.user_channel(state.user_id);
        let state = Arc::new(state);
        let Some(member) = self.member(state.user_id) else { return };
        self.voice.insert(VoiceEntry { state: state.clone(), member }, session);
        self.note_voice(state.user_id);
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
        let entry = self.voice.entry(state.user_id).cloned();
        self.publish(event, ReplicaUpdate::Voice(state.user_id, entry));
    }

    fn send_voice_server(&mut self, now: Now, user_id: UserId, session: SessionKey) {
        let token = self
            .voice_token(now, user_id)
            .unwrap_or_else(|| format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64()));
        let payload = Payload::VoiceServer { token, endpoint: self.limits.voice_endpoint.clone() };
        let event = Arc::new(self.event(EventName::VoiceServerUpdate, AudienceRule::User(user_id), payload));
        self.send(session.relay, RelayMessage::Direct { session, event });
    }

    /// A signed token with the rights that the user has in voice now. None: the guild has no signer.
    fn voice_token(&self, now: Now, user_id: UserId) -> Option<String> {
        let signer = self.limits.voice_signer.0.as_ref()?;
        let VoiceEntry { state, member } = self.voice.entry(user_id)?;
        let channel = self.structure.channels.get(&state.channel_id?)?;
        let can_speak = !state.suppress && !state.mute;
        Some(signer.sign(
            now.unix,
            &VoiceGrant {
                guild_id: self.id(),
                channel_id: channel.id,
                user_id,
                session_id: &state.session_id,
                name: member.display_name(),
                can_speak,
                can_stream: can_speak && self.permissions_in(now, member, channel).contains(Permissions::STREAM),
                can_hear: !state.deaf,
            },
        ))
    }

    /// Disconnects a user, if connected.
    pub(crate) fn leave_voice(&mut self, user_id: UserId) {
        let Some(entry) = self.voice.remove(user_id) else { return };
        self.note_voice(user_id);
        let before = entry.state.channel_id;
        let state = Arc::new(VoiceState { channel_id: None, ..VoiceState::clone(&entry.state) });
        self.publish_voice(before, &state);
    }

    /// Disconnects a user if connected by that session.
    pub(crate) fn leave_voice_with(&mut self, user_id: UserId, session: SessionKey) {
        if self.voice.session(user_id).as_ref() == Some(&session) {
            self.leave_voice(user_id);
        }
    }

    /// Disconnects at most `max` users of a channel; the number of these.
    pub(crate) fn empty_voice(&mut self, channel_id: ChannelId, max: usize) -> usize {
        let users: Vec<UserId> = self.voice.users_in(channel_id).take(max).collect();
        users.iter().for_each(|user_id| self.leave_voice(*user_id));
        users.len()
    }

    pub(crate) fn end_voice_room(&mut self, turn: Turn<'_>, channel_id: ChannelId) -> CommandResult<u64> {
        if turn.actor != Actor::System {
            return Err(Refusal::MissingPermissions.into());
        }
        Ok(self.empty_voice(channel_id, ROOM_STEP) as u64)
    }

    /// Moves a connected user to another channel, whatever its limit.
    pub(crate) fn move_in_voice(&mut self, now: Now, member: &Member, channel: &Channel) {
        let user_id = member.user.id;
        let Some(state) = self.voice.user_state(user_id).cloned() else { return };
        let session = self.voice.session(user_id);
        if state.channel_id == Some(channel.id) {
            return;
        }
        let moved = VoiceState {
            channel_id: Some(channel.id),
            suppress: self.is_suppressed(channel, self.permissions_in(now, member, channel)),
            request_to_speak_timestamp: None,
            ..VoiceState::clone(&state)
        };
        self.set_voice(moved, session);
        if let Some(session) = session {
            self.send_voice_server(now, user_id, session);
        }
    }

    /// Whether a user with these permissions in a channel is suppressed when they come there (V4). On a stage they are
    /// the audience at first, unless they may mute others.
    fn is_suppressed(&self, channel: &Channel, permissions: Permissions) -> bool {
        match channel.kind {
            ChannelType::Stage => !permissions.contains(Permissions::MUTE_MEMBERS),
            _ => self.structure.guild.afk_channel_id == Some(channel.id) || !permissions.contains(Permissions::SPEAK),
        }
    }

    /// Updates a voice state to the member's server mute and deafen, and to their permissions.
    pub(crate) fn refresh_voice(&mut self, now: Now, member: &Member) {
        let user_id = member.user.id;
        let Some(before) = self.voice.user_state(user_id).cloned() else { return };
        let channel = before.channel_id.and_then(|id| self.structure.channels.get(&id));
        let suppress = match channel.filter(|channel| channel.kind != ChannelType::Stage) {
            Some(channel) => self.is_suppressed(channel, self.permissions_in(now, member, channel)),
            None => before.suppress,
        };
        let state = VoiceState { mute: member.mute, deaf: member.deaf, suppress, ..VoiceState::clone(&before) };
        if state != *before {
            let session = self.voice.session(user_id);
            self.set_voice(state, session);
        }
    }

    /// Begins a pass over the users in voice if their permissions may differ from before.
    pub(crate) fn voice_follows_structure(&mut self, now: Now, before: &GuildStructure) {
        let is_same = Arc::ptr_eq(&before.roles, &self.structure.roles)
            && Arc::ptr_eq(&before.channels, &self.structure.channels)
            && before.guild.owner_id == self.structure.guild.owner_id
            && before.guild.afk_channel_id == self.structure.guild.afk_channel_id;
        if !is_same {
            self.begin_voice_pass(now);
        }
    }

    /// Compares all voice states with permissions.
    pub(crate) fn begin_voice_pass(&mut self, now: Now) {
        self.replace_voice_pass(now, VoicePass { after: UserId::new(0) });
    }

    /// Looks at the next users in voice. Returns the rest.
    pub(crate) fn voice_step(&mut self, now: Now, pass: &VoicePass) -> Option<VoicePass> {
        let users: Vec<UserId> = self.voice.users_after(pass.after).take(STEP_ITEMS).collect();
        for user_id in &users {
            if let Some(member) = self.member(*user_id) {
                self.refresh_voice(now, &member);
            }
        }
        let after = *users.last().filter(|_| users.len() == STEP_ITEMS)?;
        Some(VoicePass { after })
    }

    /// Voice state of a user in a channel that the actor can view; their own wherever they are.
    fn need_voice_state(&self, turn: Turn<'_>, user_id: UserId) -> Result<VoiceEntry, Refusal> {
        let guild_context = self.in_guild(turn)?;
        let entry = self.voice.entry(user_id).ok_or(Refusal::UnknownVoiceState)?;
        let can_view = |channel_id| self.in_channel(turn, channel_id).is_ok();
        if guild_context.is(user_id) || entry.state.channel_id.is_some_and(can_view) {
            Ok(entry.clone())
        } else {
            Err(Refusal::UnknownVoiceState)
        }
    }

    pub(crate) fn read_voice_state(&self, turn: Turn<'_>, user_id: UserId) -> CommandResult<Box<VoiceEntry>> {
        Ok(Box::new(self.need_voice_state(turn, user_id)?))
    }

    /// Of users on a stage. They step back and withdraw their request as they like, request to speak with
    /// REQUEST_TO_SPEAK, and speak when a member with MUTE_MEMBERS permits it.
    pub(crate) fn update_voice_state(
        &mut self,
        turn: Turn<'_>,
        user_id: UserId,
        patch: &VoiceStatePatch,
    ) -> CommandResult<()> {
        let entry = self.need_voice_state(turn, user_id)?;
        let before = entry.state;
        let Some(channel_id) = before.channel_id else { return Err(Refusal::UnknownVoiceState.into()) };
        if patch.channel_id.is_some_and(|wanted| wanted != channel_id) {
            return Err(Refusal::NotInVoice.into());
        }
        let context = self.in_channel(turn, channel_id)?;
        if context.channel.kind != ChannelType::Stage {
            return Err(Refusal::WrongChannelType.into());
        }
        let is_own = context.is(user_id);
        let mut state = VoiceState::clone(&before);
        if let Some(suppress) = patch.suppress {
            if !is_own || !suppress {
                context.need(Permissions::MUTE_MEMBERS)?;
            }
            state.suppress = suppress;
            // Others' leave to speak is an invitation, which clients show by this time. Bots need none.
            let is_invitation = !suppress && !is_own && !entry.member.user.bot;
            state.request_to_speak_timestamp = is_invitation.then_some(turn.now.unix);
        } else if !is_own {
            context.need(Permissions::MUTE_MEMBERS)?;
        }
        if let Some(requested_at) = patch.request_to_speak_timestamp.filter(|_| is_own) {
            if let Some(requested_at) = requested_at {
                context.need(Permissions::REQUEST_TO_SPEAK)?;
                if requested_at.0 < turn.now.unix.0 - CLOCKS_APART_MS_MAX {
                    return Err(Refusal::InvalidForm("request_to_speak_timestamp").into());
                }
            }
            state.request_to_speak_timestamp = requested_at;
        }
        if state != *before {
            let session = self.voice.session(user_id);
            self.set_voice(state, session);
        }
        Ok(())
    }

    pub(crate) fn show_voice(
        &mut self,
        turn: Turn<'_>,
        user_id: UserId,
        channel_id: Option<ChannelId>,
    ) -> CommandResult<()> {
        if turn.actor != Actor::System {
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
        if self.voice.session(user_id).is_some() {
            let channel = channel.clone();
            self.move_in_voice(turn.now, &member, &channel);
            return Ok(());
        }
        let permissions = self.permissions_in(turn.now, &member, channel);
        let state = VoiceState {
            channel_id: Some(channel_id),
            session_id: format!("{user_id:032}"),
            deaf: member.deaf,
            mute: member.mute,
            suppress: channel.kind != ChannelType::Stage && self.is_suppressed(channel, permissions),
            ..VoiceState::new(user_id)
        };
        self.set_voice(state, None);
        Ok(())
    }
}
