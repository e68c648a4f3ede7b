//! Who may see what was kept: with a body of the process before this one goes what decides, at a RESUME, whether it is sent.
//!
//! Owns        `SeenBy`, and `KeptUpdate` for what a passive update named.
//! Doors       `SeenBy::of` an event and `of_own` on the way out, `restored` on the way in.
//! Invariants  what may be made anew when its reader may not see all of it (`Relay::renewed`) may be so after a restart.
//!             (tests `partition/tests/it/handover.rs`, `threads.rs`)
//! Spec        docs/adr/0026.

use crate::dispatch::{About, OfDirect, OfThreads};
use guildhall_guild_protocol::{
    Audience, AudienceRule, Event, PassiveDelta, PassiveSnapshot, Payload, ResourcePayload, Unreads,
};
use guildhall_model::{ChannelId, EventName, GuildId, MessageId, UserId, VoiceState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Who may see a dispatch when it is sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SeenBy {
    /// Those whom an event is for.
    AudienceRule {
        /// Where it happened; 0: it was addressed to accounts.
        guild_id: GuildId,
        /// Which members.
        rule: AudienceRule,
        /// And this one.
        always: Option<UserId>,
    },
    /// Those whom a voice state is for; others are told how it is by now.
    Voice {
        /// Where it happened.
        guild_id: GuildId,
        /// Which members.
        rule: AudienceRule,
        /// And this one.
        always: Option<UserId>,
        /// As it was.
        state: Box<VoiceState>,
    },
    /// Those whom a passive update is for; what it told of may be told as it is by now.
    Update {
        /// Of which guild.
        guild_id: GuildId,
        /// Which members.
        rule: AudienceRule,
        /// What it told of.
        told: KeptUpdate,
    },
    /// Members who can view all of these channels and threads.
    Views {
        /// Of which guild.
        guild_id: GuildId,
        /// Which.
        channels: Vec<ChannelId>,
        /// It is the guild itself: see `About::is_whole`.
        is_whole: bool,
    },
    /// Members who can view all of these channels and threads; a list of what others may see can be made anew.
    Threads {
        /// Of which guild.
        guild_id: GuildId,
        /// Which.
        channels: Vec<ChannelId>,
        /// See `OfThreads`.
        channel_ids: Option<Vec<ChannelId>>,
        /// See `OfThreads`.
        joined_only: bool,
    },
    /// Those in a direct message.
    Direct {
        /// Which.
        channel_id: ChannelId,
        /// Whoever is told has left it: then what was said before is not for them any more.
        is_left: bool,
    },
}

/// What a passive update told of: enough to make what is left of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum KeptUpdate {
    /// PASSIVE_UPDATE_V2.
    Delta {
        /// The newest messages there.
        channels: Vec<(ChannelId, MessageId)>,
        /// Whether these are in voice.
        users: Vec<UserId>,
    },
    /// PASSIVE_UPDATE_V1, which tells all there is.
    Snapshot,
    /// CHANNEL_UNREAD_UPDATE.
    Unreads(Vec<(ChannelId, MessageId)>),
}

impl KeptUpdate {
    fn of(payload: &Payload) -> Option<Self> {
        Some(match payload {
            Payload::PassiveDelta(delta) => {
                let joined = delta.voice.iter().map(|entry| entry.state.user_id);
                let users = joined.chain(delta.left.iter().copied()).collect();
                Self::Delta { channels: delta.channels.clone(), users }
            }
            Payload::PassiveSnapshot(_) => Self::Snapshot,
            Payload::Unread(unreads) => Self::Unreads(unreads.channels.clone()),
            _ => return None,
        })
    }

    /// For `Relay::renewed`, which looks who is in voice by now.
    fn into_payload(self) -> (EventName, Payload) {
        match self {
            Self::Delta { channels, users } => {
                let delta = PassiveDelta { channels, left: users, ..PassiveDelta::default() };
                (EventName::PassiveUpdateV2, Payload::PassiveDelta(delta))
            }
            Self::Snapshot => (EventName::PassiveUpdateV1, Payload::PassiveSnapshot(PassiveSnapshot::default())),
            Self::Unreads(channels) => {
                let unreads = Unreads { channels, ..Unreads::default() };
                (EventName::ChannelUnreadUpdate, Payload::Unread(unreads))
            }
        }
    }
}

impl SeenBy {
    /// The rules of `AudienceIndex::may_see` and `channel_form_at_replay`, without the event.
    pub(crate) fn of(event: &Event, hides: bool) -> Self {
        let guild_id = event.guild_id;
        if let Some(channel_id) = event.direct_channel() {
            return Self::Direct { channel_id, is_left: event.group_left().is_some() };
        }
        let always = event.audience.always;
        let rule = match &event.payload {
            Payload::Channel(channel) if hides && event.name != EventName::ChannelDelete => {
                AudienceRule::Channel(channel.id)
            }
            _ => event.audience.rule.clone(),
        };
        if let Some(told) = KeptUpdate::of(&event.payload) {
            return Self::Update { guild_id, rule, told };
        }
        let resource = match &event.payload {
            Payload::Voice { state, .. } => {
                return Self::Voice { guild_id, rule, always, state: Box::new(VoiceState::clone(state)) };
            }
            Payload::Resource(resource) => Some(&**resource),
            _ => None,
        };
        match resource {
            Some(ResourcePayload::ThreadList { channel_ids, threads, joined_only, .. }) => {
                let channels = channel_ids.iter().flat_map(|ids| ids.iter().copied());
                Self::Threads {
                    guild_id,
                    channels: channels.chain(threads.iter().map(|of| of.channel.id)).collect(),
                    channel_ids: channel_ids.as_ref().map(|ids| ids.to_vec()),
                    joined_only: *joined_only,
                }
            }
            // There is no thread any more whose members could be asked.
            Some(ResourcePayload::ThreadGone(thread)) if thread.parent_id.is_some() => {
                Self::Views { guild_id, channels: thread.parent_id.into_iter().collect(), is_whole: false }
            }
            _ => Self::AudienceRule { guild_id, rule, always },
        }
    }

    /// Of what was made for one session; `direct`: what it tells of a direct message.
    pub(crate) fn of_own(about: &About, direct: Option<OfDirect>) -> Self {
        let (guild_id, channels) = (about.guild_id, about.channels().into_owned());
        match (direct, about.threads()) {
            // These were kept before, by the process before this one.
            (Some(OfDirect { channel_id, is_left }), _) => Self::Direct { channel_id, is_left },
            (None, Some(OfThreads { channel_ids, joined_only })) => Self::Threads {
                guild_id,
                channels,
                channel_ids: channel_ids.as_ref().map(|ids| ids.to_vec()),
                joined_only: *joined_only,
            },
            (None, None) => Self::Views { guild_id, channels, is_whole: about.is_whole() },
        }
    }

    /// What stands for it in the process that comes after: an event of which only this is known, or what was made for one session.
    pub(crate) fn restored(self) -> (Option<Event>, Option<About>) {
        let event = |guild_id, rule, always, name, payload| Event {
            guild_id,
            name,
            audience: Audience { always, ..Audience::of(rule, guildhall_model::Intents::NONE) },
            content_readers: None,
            payload,
        };
        match self {
            Self::AudienceRule { guild_id, rule, always } => {
                // It has its body already: nobody asks what it said, only whom it is for.
                (Some(event(guild_id, rule, always, EventName::Backend, Payload::GuildGone)), None)
            }
            Self::Voice { guild_id, rule, always, state } => {
                let payload = Payload::Voice { state: Arc::new(*state), member: None };
                (Some(event(guild_id, rule, always, EventName::VoiceStateUpdate, payload)), None)
            }
            Self::Update { guild_id, rule, told } => {
                let (name, payload) = told.into_payload();
                (Some(event(guild_id, rule, None, name, payload)), None)
            }
            Self::Views { guild_id, channels, is_whole } => (None, Some(About::kept(guild_id, channels, is_whole))),
            Self::Threads { guild_id, channels, channel_ids, joined_only } => {
                let threads = OfThreads { channel_ids: channel_ids.map(Into::into), joined_only };
                (None, Some(About::of_threads(guild_id, channels, threads)))
            }
            Self::Direct { channel_id, is_left } => (None, Some(About::of_direct(OfDirect { channel_id, is_left }))),
        }
    }
}
