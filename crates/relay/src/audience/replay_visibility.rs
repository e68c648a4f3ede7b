//! Replay visibility: whether a session may still see a dispatch that is about to be sent to it again.
//!
//! Owns        `ReplayVisibility`, the rule for a dispatch whose event is not there: one that was made for a
//!             single session, or that a hand-over restored at a restart; `Replayed`, an event or a rule; the
//!             decision about either.
//! Doors       `Relay::decide_replay` for each dispatch of a RESUME; `Relay::would_reveal` for GUILD_CREATE;
//!             `ReplayVisibility::of` when a session's snapshot is written.
//! Invariants  V1 live delivery and replay use the same predicates (`sees`, `admits`, `is_viewed_by`). V2 a rule
//!             decides as the event did that it was made from, and gives the same rule again. V3 a rebuilt event has
//!             the current state of channels and users that the user may view, and nothing else. (tests `it/replay.rs`,
//!             `partition/tests/it/handover.rs`, `threads.rs`)
//! Not here    which dispatches a session has: `guildhall-session`.     Spec  docs/protocol/reference.md §1.10;
//!             docs/adr/0026.

use super::{AudienceIndex, UserSubscribers};
use crate::{
    passive::{channel_pins, mentioned_channels, rebuild_delta, snapshot},
    view::thread_list,
};
use guildhall_guild_protocol::{
    AudienceRule, Event, GuildReplica, HiddenChannels, Payload, Redaction, ResourcePayload, ThreadEntry, Unreads,
};
use guildhall_model::{ChannelId, EventName, GuildId, Member, MessageId, UserId, VoiceState};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

/// Rule for sending a dispatch again. Part of a session's snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReplayVisibility {
    /// The members that an event is for.
    AudienceRule {
        /// Guild of the event; 0 for an event that was addressed to accounts.
        guild_id: GuildId,
        /// Members that the event is for. `User` without a guild: the friend whose presence it has.
        rule: AudienceRule,
        /// A user that it is for whatever `rule` says.
        always: Option<UserId>,
    },
    /// The members that a voice state is for. Others receive where its user is now.
    Voice {
        /// Guild of the voice state.
        guild_id: GuildId,
        /// Members that the event is for.
        rule: AudienceRule,
        /// A user that it is for whatever `rule` says.
        always: Option<UserId>,
        /// The state that was sent.
        state: Box<VoiceState>,
    },
    /// The members that a passive update is for. Others receive the current state of the part that they may view.
    Update {
        /// Guild of the update.
        guild_id: GuildId,
        /// Members that the update is for.
        rule: AudienceRule,
        /// Channels and users of the update.
        #[serde(rename = "told")]
        subjects: PassiveSubjects,
    },
    /// Members who can view all of these channels and threads.
    Views {
        /// Guild of the dispatch.
        guild_id: GuildId,
        /// Channels and threads.
        channels: Vec<ChannelId>,
        /// The dispatch is GUILD_CREATE: without it the following ones make no sense to a client.
        #[serde(rename = "is_whole")]
        is_guild: bool,
        /// The dispatch has earlier messages of the channels: only for members who may read their history.
        #[serde(default)]
        has_history: bool,
    },
    /// Members who can view all of these channels and threads. Others receive the current list of the part that they
    /// may view.
    Threads {
        /// Guild of the list.
        guild_id: GuildId,
        /// Channels, and threads in the list.
        channels: Vec<ChannelId>,
        /// Channels whose threads are listed; none: those of the whole guild.
        channel_ids: Option<Vec<ChannelId>>,
        /// The list has only threads that its reader joined.
        joined_only: bool,
    },
    /// Recipients of a direct message.
    Direct {
        /// The direct message or group.
        channel_id: ChannelId,
        /// The reader has left the group: earlier dispatches of the group are withheld.
        #[serde(rename = "is_left")]
        has_left: bool,
    },
}

/// Channels and users of a passive update: enough to rebuild the visible part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PassiveSubjects {
    /// PASSIVE_UPDATE_V2.
    Delta {
        /// Channels with their newest messages.
        channels: Vec<(ChannelId, MessageId)>,
        /// Users who joined, changed or left voice.
        users: Vec<UserId>,
    },
    /// PASSIVE_UPDATE_V1, the complete state.
    Snapshot,
    /// CHANNEL_UNREAD_UPDATE.
    Unreads(Vec<(ChannelId, MessageId)>),
}

impl PassiveSubjects {
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
}

impl ReplayVisibility {
    /// The rule of a dispatch about a guild, whatever its reader may view there.
    #[must_use]
    pub fn members(guild_id: GuildId) -> Self {
        Self::channels(guild_id, Vec::new())
    }

    /// The rule of a dispatch about these channels of a guild.
    #[must_use]
    pub fn channels(guild_id: GuildId, channels: Vec<ChannelId>) -> Self {
        Self::Views { guild_id, channels, is_guild: false, has_history: false }
    }

    /// The rule of a dispatch with earlier messages of these channels.
    #[must_use]
    pub fn history(guild_id: GuildId, channels: Vec<ChannelId>) -> Self {
        Self::Views { guild_id, channels, is_guild: false, has_history: true }
    }

    /// The rule of an event in one form of its body. Unless hidden channels are listed, the unredacted form of a
    /// channel is only for members who can view it.
    #[must_use]
    pub fn of(event: &Event, hidden: HiddenChannels) -> Self {
        let guild_id = event.guild_id.unwrap_or(TO_ACCOUNTS);
        if let Some(channel_id) = event.direct_channel() {
            return Self::Direct { channel_id, has_left: event.group_left().is_some() };
        }
        let always = event.audience.always;
        if let Some(friend) = event.friend() {
            return Self::AudienceRule { guild_id, rule: AudienceRule::User(friend), always };
        }
        let rule = match &event.payload {
            Payload::Channel(channel) if hidden != HiddenChannels::Listed && event.name != EventName::ChannelDelete => {
                AudienceRule::Channel(channel.id)
            }
            _ => event.audience.rule.clone(),
        };
        if let Some(subjects) = PassiveSubjects::of(&event.payload) {
            return Self::Update { guild_id, rule, subjects };
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
            // The members of a deleted thread are unknown.
            Some(ResourcePayload::ThreadGone(thread)) if thread.parent_id.is_some() => {
                Self::channels(guild_id, thread.parent_id.into_iter().collect())
            }
            _ => Self::AudienceRule { guild_id, rule, always },
        }
    }

    /// Guild of the dispatch. None: it is addressed to accounts.
    #[must_use]
    pub fn guild_id(&self) -> Option<GuildId> {
        match self {
            Self::AudienceRule { guild_id, .. }
            | Self::Voice { guild_id, .. }
            | Self::Update { guild_id, .. }
            | Self::Views { guild_id, .. }
            | Self::Threads { guild_id, .. } => Some(*guild_id).filter(|guild_id| *guild_id != TO_ACCOUNTS),
            Self::Direct { .. } => None,
        }
    }
}

/// Stands for no guild in a rule, which is a stored form.
const TO_ACCOUNTS: GuildId = GuildId::new(0);

/// Channels and threads in a GUILD_CREATE that not every member can view.
pub trait GuildPlaces {
    /// Finds them. Costs O(channels).
    fn places(&self) -> Vec<ChannelId>;
}

/// A dispatch that is about to be sent again.
#[derive(Clone, Copy)]
pub enum Replayed<'a> {
    /// An event of a guild.
    Event(&'a Event),
    /// A dispatch of which only the rule is there.
    Rule(&'a ReplayVisibility),
    /// GUILD_CREATE of this process.
    Guild { guild_id: GuildId, places: &'a dyn GuildPlaces },
}

impl Replayed<'_> {
    /// Guild of the dispatch. None: it is addressed to accounts.
    #[must_use]
    pub fn guild_id(self) -> Option<GuildId> {
        match self {
            Self::Event(event) => event.guild_id,
            Self::Rule(rule) => rule.guild_id(),
            Self::Guild { guild_id, .. } => Some(guild_id),
        }
    }

    /// The friend whose presence the dispatch has.
    #[must_use]
    pub fn friend(self) -> Option<UserId> {
        match self {
            Self::Event(event) => event.friend(),
            Self::Rule(ReplayVisibility::AudienceRule { guild_id, rule: AudienceRule::User(friend), .. }) => {
                (*guild_id == TO_ACCOUNTS).then_some(*friend)
            }
            Self::Rule(_) | Self::Guild { .. } => None,
        }
    }

    /// The direct message or group that the dispatch is about, and whether the reader has left it.
    #[must_use]
    pub fn direct(self) -> Option<(ChannelId, bool)> {
        match self {
            Self::Event(event) => Some((event.direct_channel()?, event.group_left().is_some())),
            Self::Rule(ReplayVisibility::Direct { channel_id, has_left }) => Some((*channel_id, *has_left)),
            Self::Rule(_) | Self::Guild { .. } => None,
        }
    }

    /// The rule alone, for a session's snapshot. See `ReplayVisibility::of`.
    #[must_use]
    pub fn to_rule(self, hidden: HiddenChannels) -> ReplayVisibility {
        match self {
            Self::Event(event) => ReplayVisibility::of(event, hidden),
            Self::Rule(rule) => rule.clone(),
            Self::Guild { guild_id, places } => {
                ReplayVisibility::Views { guild_id, channels: places.places(), is_guild: true, has_history: false }
            }
        }
    }

    /// Channels and threads of GUILD_CREATE that not every member can view; none for other dispatches.
    fn guild_places(&self) -> Option<Cow<'_, [ChannelId]>> {
        match self {
            Self::Rule(ReplayVisibility::Views { channels, is_guild: true, .. }) => Some(channels.into()),
            Self::Guild { places, .. } => Some(places.places().into()),
            Self::Event(_) | Self::Rule(_) => None,
        }
    }
}

/// The form in which a session receives a dispatch again, if it does.
#[derive(Debug)]
pub enum ReplayDecision {
    /// The dispatch in the form in which it was sent.
    Same,
    /// The dispatch in this form.
    Redacted(Redaction),
    /// Nothing: the dispatch shows a channel that is hidden from the session.
    Hidden,
    /// Nothing, or the part that the user may still view, in its current state. The session's passive baseline is not
    /// valid any more (`Relay::invalidate_baseline`).
    Withheld(Option<Box<Event>>),
}

impl AudienceIndex {
    /// The form in which a session receives a dispatch that was sent to it before, if it may still see it.
    pub(crate) fn decide_replay(
        &self,
        replica: &GuildReplica,
        (user_id, slot): (UserId, u32),
        of: Replayed<'_>,
        now: Timestamp,
    ) -> ReplayDecision {
        let form = match of {
            Replayed::Event(event) => self.channel_form_at_replay(user_id, slot, event),
            Replayed::Rule(_) | Replayed::Guild { .. } => ReplayDecision::Same,
        };
        if matches!(form, ReplayDecision::Hidden) || self.may_still_see(user_id, of, now) {
            return form;
        }
        ReplayDecision::Withheld(self.rebuild_for_replay(replica, user_id, of, now).map(Box::new))
    }

    /// Whether a GUILD_CREATE shows a member channels or threads that they may not view any more. False for other
    /// dispatches, and for users who are not members: they do not receive it again.
    pub(crate) fn would_reveal(&self, user_id: UserId, of: Replayed<'_>, now: Timestamp) -> bool {
        self.member(user_id).is_some()
            && of.guild_places().is_some_and(|places| !self.may_view_all(user_id, &places, now))
    }

    /// The form of an event about a channel, by the view that holds now.
    fn channel_form_at_replay(&self, user_id: UserId, slot: u32, event: &Event) -> ReplayDecision {
        let Payload::Channel(channel) = &event.payload else { return ReplayDecision::Same };
        let Some(user_subscribers) = self.users.get(&user_id) else { return ReplayDecision::Same };
        let Some(indexed) = user_subscribers.subscribers.iter().find(|indexed| indexed.subscriber.slot == slot) else {
            return ReplayDecision::Same;
        };
        // A deletion was for those who knew the channel when it happened.
        if event.name == EventName::ChannelDelete || self.sees(&self.classes[user_subscribers.class], channel.id) {
            return ReplayDecision::Same;
        }
        let form = self.channel_form(event, channel, indexed.subscriber.mask, (false, false));
        form.map_or(ReplayDecision::Hidden, ReplayDecision::Redacted)
    }

    fn may_still_see(&self, user_id: UserId, of: Replayed<'_>, now: Timestamp) -> bool {
        let places = match of {
            Replayed::Event(event) => return self.may_see(user_id, event, now),
            Replayed::Rule(rule) => match rule {
                ReplayVisibility::AudienceRule { rule, always, .. } | ReplayVisibility::Voice { rule, always, .. } => {
                    return self.is_for(user_id, rule, *always, now);
                }
                ReplayVisibility::Update { rule, .. } => return self.is_for(user_id, rule, None, now),
                ReplayVisibility::Views { channels, has_history: true, .. } => {
                    return channels.iter().all(|id| self.may_read_history(user_id, *id, now));
                }
                ReplayVisibility::Views { channels, .. } | ReplayVisibility::Threads { channels, .. } => {
                    Cow::Borrowed(&**channels)
                }
                ReplayVisibility::Direct { .. } => return true,
            },
            Replayed::Guild { .. } if self.member(user_id).is_none() => return false,
            Replayed::Guild { places, .. } => Cow::Owned(places.places()),
        };
        self.member(user_id).is_some() && self.may_view_all(user_id, &places, now)
    }

    /// Whether a user may still see an event.
    #[must_use]
    pub fn may_see(&self, user_id: UserId, event: &Event, now: Timestamp) -> bool {
        if let (Some(user_subscribers), Payload::Resource(resource)) = (self.users.get(&user_id), &event.payload)
            && let Some(may_see) = self.may_see_resource(user_subscribers, resource, now)
        {
            return may_see;
        }
        self.is_for(user_id, &event.audience.rule, event.audience.always, now)
    }

    /// Whether an event with this audience is for a user now.
    fn is_for(&self, user_id: UserId, rule: &AudienceRule, always: Option<UserId>, now: Timestamp) -> bool {
        let Some(user_subscribers) = self.users.get(&user_id) else { return false };
        if always == Some(user_id) || rule.names(user_id) {
            return true;
        }
        let class = &self.classes[user_subscribers.class];
        match rule {
            // A user who lost access to a channel still receives events about users leaving another one.
            AudienceRule::ChannelExcept(channel, _) => self.sees(class, *channel),
            AudienceRule::Thread { .. } => self.admits_user(class, user_id, rule, now),
            rule => self.admits(class, rule, now),
        }
    }

    /// The same for resources that decide by more than the audience; none for others.
    fn may_see_resource(
        &self,
        user_subscribers: &UserSubscribers,
        resource: &ResourcePayload,
        now: Timestamp,
    ) -> Option<bool> {
        let class = &self.classes[user_subscribers.class];
        match resource {
            // The members of a deleted thread are unknown now. They were sent this event, which has no content.
            ResourcePayload::ThreadGone(thread) if self.threads.get(thread.id).is_none() => {
                Some(thread.parent_id.is_some_and(|parent| self.sees(class, parent)))
            }
            ResourcePayload::ThreadList { channel_ids, threads, .. } => {
                let views = |entry: &ThreadEntry| entry.is_viewed_by(&self.structure, &user_subscribers.member, now);
                let still_views = |id: ChannelId| self.threads.get(id).is_some_and(views);
                let channels = channel_ids.iter().flat_map(|ids| ids.iter());
                Some(
                    channels.into_iter().all(|channel| self.sees(class, *channel))
                        && threads.iter().all(|entry| still_views(entry.channel.id)),
                )
            }
            _ => None,
        }
    }

    fn may_view_all(&self, user_id: UserId, places: &[ChannelId], now: Timestamp) -> bool {
        places.iter().all(|id| self.may_view(user_id, *id, now))
    }

    /// The part that a user may view of a passive update, VOICE_STATE_UPDATE or THREAD_LIST_SYNC, in its current state.
    /// None for other dispatches, and if nothing is visible.
    pub(crate) fn rebuild_for_replay(
        &self,
        replica: &GuildReplica,
        user_id: UserId,
        of: Replayed<'_>,
        now: Timestamp,
    ) -> Option<Event> {
        let view = self.user_view(user_id)?;
        let current = Current { audience: self, replica, view, user_id };
        match of {
            Replayed::Event(event) => match &event.payload {
                Payload::PassiveDelta(delta) => {
                    let users = delta.voice.iter().map(|entry| entry.state.user_id).chain(delta.left.iter().copied());
                    current.delta(&delta.channels, users)
                }
                Payload::PassiveSnapshot(_) => Some(current.snapshot()),
                Payload::Unread(unreads) => current.unreads(unreads),
                Payload::Voice { state, member } => Some(current.voice(state, member.as_ref())),
                Payload::Resource(resource) => match &**resource {
                    ResourcePayload::ThreadList { channel_ids, joined_only, .. } => {
                        current.threads(channel_ids.as_deref(), *joined_only, now)
                    }
                    _ => None,
                },
                _ => None,
            },
            Replayed::Rule(rule) => match rule {
                ReplayVisibility::Update { subjects, .. } => match subjects {
                    PassiveSubjects::Delta { channels, users } => current.delta(channels, users.iter().copied()),
                    PassiveSubjects::Snapshot => Some(current.snapshot()),
                    PassiveSubjects::Unreads(channels) => current.unreads(channels),
                },
                ReplayVisibility::Voice { state, .. } => Some(current.voice(state, None)),
                ReplayVisibility::Threads { channel_ids, joined_only, .. } => {
                    current.threads(channel_ids.as_deref(), *joined_only, now)
                }
                ReplayVisibility::AudienceRule { .. }
                | ReplayVisibility::Views { .. }
                | ReplayVisibility::Direct { .. } => None,
            },
            Replayed::Guild { .. } => None,
        }
    }
}

/// The current state of a guild, as a user may view it.
struct Current<'a> {
    audience: &'a AudienceIndex,
    replica: &'a GuildReplica,
    /// Number of the user's view.
    view: usize,
    user_id: UserId,
}

impl Current<'_> {
    fn holds(&self, channel_id: ChannelId) -> bool {
        self.audience.view_holds(self.view, channel_id)
    }

    /// An event for members who can view these channels.
    fn event(&self, name: EventName, channels: Arc<[ChannelId]>, payload: Payload) -> Event {
        Event::new(self.replica.id(), name, AudienceRule::Channels(channels), payload)
    }

    fn delta(&self, channels: &[(ChannelId, MessageId)], users: impl Iterator<Item = UserId>) -> Option<Event> {
        let channels = channels.iter().map(|(id, _)| *id);
        let delta = rebuild_delta(channels, users, self.replica, |id| self.holds(id), self.user_id);
        if delta.is_empty() {
            return None;
        }
        let channels = mentioned_channels(delta.channels.iter().map(|(id, _)| *id), &delta.voice, |id| self.holds(id));
        Some(self.event(EventName::PassiveUpdateV2, channels, Payload::PassiveDelta(delta)))
    }

    fn snapshot(&self) -> Event {
        let snapshot = snapshot(self.replica, |id| self.holds(id), Some(self.user_id));
        let channels =
            mentioned_channels(snapshot.channels.iter().map(|(id, _)| *id), &snapshot.voice, |id| self.holds(id));
        self.event(EventName::PassiveUpdateV1, channels, Payload::PassiveSnapshot(snapshot))
    }

    fn unreads(&self, unreads: &[(ChannelId, MessageId)]) -> Option<Event> {
        let left: Vec<_> = unreads.iter().filter(|(id, _)| self.holds(*id)).copied().collect();
        if left.is_empty() {
            return None;
        }
        let pins = channel_pins(self.replica, left.iter().map(|(id, _)| *id));
        let channels = mentioned_channels(left.iter().map(|(id, _)| *id), &[], |id| self.holds(id));
        let unreads = Unreads { channels: left, pins };
        Some(self.event(EventName::ChannelUnreadUpdate, channels, Payload::Unread(unreads)))
    }

    /// Where a user is in voice now. Without it the reader would believe them to be where they were before.
    fn voice(&self, sent: &VoiceState, member: Option<&Arc<Member>>) -> Event {
        let entry = self.replica.voice.get(sent.user_id);
        let (now, member) = match entry.filter(|entry| entry.state.channel_id.is_some_and(|id| self.holds(id))) {
            Some(entry) => (entry.state.clone(), Some(entry.member.clone())),
            None => (Arc::new(VoiceState { channel_id: None, ..sent.clone() }), member.cloned()),
        };
        let channels = now.channel_id.into_iter().collect();
        self.event(EventName::VoiceStateUpdate, channels, Payload::Voice { state: now, member })
    }

    fn threads(&self, channel_ids: Option<&[ChannelId]>, joined_only: bool, now: Timestamp) -> Option<Event> {
        let left = channel_ids.map(|ids| ids.iter().copied().filter(|id| self.holds(*id)).collect::<Arc<[_]>>());
        if left.as_ref().is_some_and(|left| left.is_empty()) {
            return None;
        }
        let member = self.audience.member(self.user_id)?;
        thread_list(self.replica, member, left, joined_only, now)
    }
}
