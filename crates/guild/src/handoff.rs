//! Hand-off: the state of a guild on its way to another node, and the standby there that follows it.
//!
//! Owns        `HandoffBase`, the state at one version; `HandoffItem`, a change since; `HandoffTail`, what a guild has
//!             besides, when it has stopped.
//! Doors       of the guild that leaves: `begin_handoff`; then `handoff_sessions` slice by slice, and `take_handoff`
//!             for what changed since the last call; then, without further inputs, `is_settled`, `end_lists` and
//!             `handoff_tail`; `stop_handoff` if it stays. Of the standby: `HandoffParts::add` for each chunk and
//!             `standby`; `follow` for each item; `take_over` with the tail.
//! Invariants  N1 base, items in order, and tail give the same state, except for messages in memory, which are read
//!             again, and for waits that no client can see: jobs, background tasks, actions of auto moderation and
//!             commands under way, which have ended by then (`is_settled`). (tests `n1_*`) N2 a standby emits nothing:
//!             no write, message or answer.
//! Limits      `begin_handoff` takes time with the number of resources, users in voice, watched lists and shown
//!             presences, not with members and sessions. `LOGGED_MAX` items wait; past it `take_handoff` returns none,
//!             and the hand-off fails. The tail has what other modules bound: nonces, waits of slow mode, publications,
//!             temporary members, texts for rules of spam, presences that wait for their turn.
//! Not here    bytes and chunks on the wire (`guildhall-cluster`); the order of the steps, time-outs, and the owner
//!             record (`guildhall-node`).

mod base;
mod export;
mod standby;
mod tail;

pub use base::{HandoffBase, HandoffChunk, HandoffParts};
pub(crate) use export::Restoring;
pub use tail::HandoffTail;

use crate::{
    machine::Guild,
    record::Write,
    state::relays::{Client, Session},
};
use guildhall_guild_protocol::{MembersWanted, RelayId, SessionKey, ToGuild, VoiceEntry};
use guildhall_model::{
    Channel, ChannelId, Guild as GuildFields, GuildResource, Member, Presence, ResourceKey, Role, RoleId, UserId,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, mem, sync::Arc};

/// Items that wait for `take_handoff`.
const LOGGED_MAX: usize = 1_000_000;
/// `large_threshold` of an attach that only repeats: the standby sends no view.
const NO_THRESHOLD: u16 = 50;

/// One change of a guild that a standby follows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HandoffItem {
    /// Fields of the guild itself, such as name and owner.
    Guild(Arc<GuildFields>),
    Role(Arc<Role>),
    RoleGone(RoleId),
    /// A channel or a thread.
    Channel(Arc<Channel>),
    ChannelGone(ChannelId),
    Member(Arc<Member>),
    MemberGone(UserId),
    Resource(GuildResource),
    ResourceGone(ResourceKey),
    /// All with this kind and id, whatever their part.
    ResourcesGone(ResourceKey),
    /// Message of a relay about itself or its sessions.
    Relay(ToGuild),
    /// Voice state of a user, and the session that is connected; none: the user left voice.
    Voice(UserId, Option<Box<VoicePlace>>),
    /// Presence that a backend shows for a user; none: it shows none.
    Shown(UserId, Option<Arc<Presence>>),
}

/// A user in voice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VoicePlace {
    pub(crate) entry: VoiceEntry,
    /// None: a backend set the state.
    pub(crate) session: Option<SessionKey>,
}

impl HandoffItem {
    /// Change that a write makes in memory. None: it writes only messages, which a guild reads again.
    fn of_write(write: &Write) -> Option<Self> {
        Some(match write {
            Write::PutGuild(guild) => Self::Guild(guild.clone()),
            Write::PutRole(_, role) => Self::Role(role.clone()),
            Write::DeleteRole(_, role_id) => Self::RoleGone(*role_id),
            Write::PutChannel(channel) => Self::Channel(channel.clone()),
            Write::DeleteChannel(_, channel_id) => Self::ChannelGone(*channel_id),
            Write::PutMember(_, member) => Self::Member(member.clone()),
            Write::DeleteMember(_, user_id) => Self::MemberGone(*user_id),
            Write::PutResource(_, resource) => Self::Resource(resource.clone()),
            Write::DeleteResource(_, key) => Self::ResourceGone(*key),
            Write::DeleteResources(_, key) => Self::ResourcesGone(*key),
            Write::PutUser(_)
            | Write::DeleteGuild(_)
            | Write::PutMessage(_)
            | Write::DeleteMessage(..)
            | Write::AddReaction(..)
            | Write::RemoveReaction(..)
            | Write::ClearReactions(..)
            | Write::PutEvent(_) => return None,
        })
    }

    /// Message of a relay that changes the guild. None: it is a request.
    fn of_relay(message: &ToGuild) -> Option<Self> {
        match message {
            ToGuild::Subscribe { .. }
            | ToGuild::Unsubscribe { .. }
            | ToGuild::Attach { .. }
            | ToGuild::Detach { .. }
            | ToGuild::Presence { .. }
            | ToGuild::WantPresences { .. }
            | ToGuild::WatchMembers { .. }
            | ToGuild::WatchList { .. } => Some(Self::Relay(message.clone())),
            // Voice states have items of their own, because whether a user may join depends on more than the message.
            ToGuild::Voice { .. }
            | ToGuild::Resync { .. }
            | ToGuild::RequestMembers { .. }
            | ToGuild::RecentMembers { .. }
            | ToGuild::ListThread { .. }
            | ToGuild::CountMembers { .. }
            | ToGuild::RequestPresences { .. }
            | ToGuild::CanaryReturned { .. } => None,
        }
    }
}

/// Changes of a guild since `begin_handoff`.
#[derive(Debug, Default)]
pub(crate) struct HandoffLog {
    items: Vec<HandoffItem>,
    is_overfull: bool,
    voice: BTreeSet<UserId>,
    shown: BTreeSet<UserId>,
}

impl HandoffLog {
    fn push(&mut self, item: HandoffItem) {
        if self.items.len() < LOGGED_MAX {
            self.items.push(item);
        } else {
            self.is_overfull = true;
        }
    }
}

/// A slice of the sessions, or of the watched members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoffPlace {
    /// Sessions after this one; none at the start.
    Sessions(Option<SessionKey>),
    /// Watched members after this one and this relay; none at the start.
    Watched(Option<(UserId, RelayId)>),
    /// All were taken.
    End,
}

impl Guild {
    /// Begins to record changes for `take_handoff`. Returns the state without sessions, which follow by
    /// `handoff_sessions`.
    pub fn begin_handoff(&mut self) -> HandoffBase {
        self.handoff = Some(Box::default());
        HandoffBase::of(self)
    }

    /// The guild stays: forgets what was recorded.
    pub fn stop_handoff(&mut self) {
        self.handoff = None;
    }

    /// At most `max` sessions, or watched members, from `place` on; and where to go on.
    #[must_use]
    pub fn handoff_sessions(&self, place: HandoffPlace, max: usize) -> (Vec<HandoffItem>, HandoffPlace) {
        match place {
            HandoffPlace::Sessions(after) => {
                let (found, last) = self.relays.sessions_after(after, max);
                let items = found.into_iter().map(|(key, session)| attach_of(key, session)).collect();
                (items, last.map_or(HandoffPlace::Watched(None), |last| HandoffPlace::Sessions(Some(last))))
            }
            HandoffPlace::Watched(after) => {
                let (found, last) = self.relays.watched_after(after, max);
                let watch = |(user_id, relay)| {
                    HandoffItem::Relay(ToGuild::WatchMembers { relay, added: vec![user_id], removed: Vec::new() })
                };
                let items = found.into_iter().map(watch).collect();
                (items, last.map_or(HandoffPlace::End, |last| HandoffPlace::Watched(Some(last))))
            }
            HandoffPlace::End => (Vec::new(), HandoffPlace::End),
        }
    }

    /// Changes since the last call, in order. `None`: there are more than `LOGGED_MAX`, the guild was deleted, or no
    /// hand-off is in progress.
    pub fn take_handoff(&mut self) -> Option<Vec<HandoffItem>> {
        let is_deleted = self.is_deleted;
        let log = self.handoff.as_mut().filter(|log| !log.is_overfull && !is_deleted)?;
        let (mut items, voice, shown) =
            (mem::take(&mut log.items), mem::take(&mut log.voice), mem::take(&mut log.shown));
        items.extend(voice.into_iter().map(|user_id| {
            let place = self.voice.place(user_id).map(|(entry, session)| Box::new(VoicePlace { entry, session }));
            HandoffItem::Voice(user_id, place)
        }));
        items.extend(shown.into_iter().map(|user_id| HandoffItem::Shown(user_id, self.presences.shown(user_id))));
        Some(items)
    }

    /// Number of changes that `take_handoff` would return, without those of voice and shown presences.
    #[must_use]
    pub fn handoff_len(&self) -> usize {
        self.handoff.as_ref().map_or(0, |log| log.items.len())
    }

    /// Whether the guild has no work that a hand-off would lose: background tasks, actions of auto moderation, and jobs
    /// with a waiter, those of member lists excepted.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let has_work = !self.background.is_empty() || self.auto_mod.has_pending() || !self.queue.has_only_lists();
        !has_work && self.restoring.is_none()
    }

    pub(crate) fn note_write(&mut self, write: &Write) {
        if let Some(log) = &mut self.handoff
            && let Some(item) = HandoffItem::of_write(write)
        {
            log.push(item);
        }
    }

    pub(crate) fn note_relay(&mut self, message: &ToGuild) {
        if let Some(log) = &mut self.handoff
            && let Some(item) = HandoffItem::of_relay(message)
        {
            log.push(item);
        }
    }

    pub(crate) fn note_voice(&mut self, user_id: UserId) {
        if let Some(log) = &mut self.handoff {
            log.voice.insert(user_id);
        }
    }

    pub(crate) fn note_shown(&mut self, user_id: UserId) {
        if let Some(log) = &mut self.handoff {
            log.shown.insert(user_id);
        }
    }
}

/// The message that attaches a session as it is now.
fn attach_of(session: SessionKey, of: &Session) -> HandoffItem {
    let Client { session_id, user_id, kind, presence } = of.client.clone();
    let members = match of.reads_presences {
        true => MembersWanted::ByThreshold { large_threshold: NO_THRESHOLD },
        false => MembersWanted::OwnAndVoice,
    };
    HandoffItem::Relay(ToGuild::Attach {
        session,
        session_id,
        user_id,
        kind,
        presence,
        members,
        is_restored: false,
        previous: None,
    })
}
