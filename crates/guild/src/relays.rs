//! Relays and sessions of a guild.
//!
//! Owns        the links to relays (P2, P3 of `guildhall_guild_protocol`'s protocol); `Sessions`.
//! Doors       `subscribe` to `tell_presences`, from `Guild::handle_relay`.
//! Invariants  L1 after a loss a relay receives nothing until a `Snapshot { reset: true }`. L2 a session counts only
//!             while its relay is subscribed and its user is a member; sessions of a removed relay are removed in
//!             slices (`background`), and their messages are ignored. L3 an `Attached` follows every event that its
//!             view contains.
//! Limits      one link per relay; sessions: those of the relays.
//! Not here    the numbers of messages: `RelayStreams`; what a session may see: `guildhall_relay::Relay`.

use crate::machine::Guild;
use guildhall_guild_protocol::{
    AudienceRule, GuildReplica, GuildView, MembersWanted, PartitionId, Payload, RelayId, RelayMessage, RelayOutput,
    SessionKey, SessionPresence,
};
use guildhall_model::{AccountKind, EventName, GuildId, UserId, to_gateway::Subscription};
use guildhall_stdx::Now;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// Stream to one relay.
#[derive(Debug)]
pub(crate) struct RelayLink {
    pub epoch: u32,
    /// The relay has sessions that receive every member's presence.
    wants_presences: bool,
    /// Number of sessions whose view contained every member's presence; they receive each change from there on.
    presence_readers_count: usize,
    /// Messages were lost; nothing is sent until the relay restarts.
    pub is_cut: bool,
}

impl RelayLink {
    fn new(epoch: u32) -> Self {
        Self { epoch, wants_presences: false, presence_readers_count: 0, is_cut: false }
    }

    /// The relay has a session that receives every member's presence. The relay reports that only after its first such
    /// session is attached; changes between the session's view and that report must not be missed.
    pub fn reads_presences(&self) -> bool {
        self.wants_presences || self.presence_readers_count > 0
    }

    /// The guild was deleted: presences are not sent any more.
    pub fn forget_readers(&mut self) {
        self.presence_readers_count = 0;
    }

    /// A message for the relay; none while its stream is cut.
    pub fn output(&self, guild_id: GuildId, relay: RelayId, message: RelayMessage) -> Option<RelayOutput> {
        (!self.is_cut).then_some(RelayOutput { guild_id, relay, epoch: self.epoch, message })
    }
}

/// Identity of a session.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub session_id: Arc<str>,
    pub user_id: UserId,
    pub kind: AccountKind,
    pub presence: SessionPresence,
}

/// A session, as the guild knows it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub client: Client,
    /// Its view contained every member's presence.
    pub reads_presences: bool,
    /// Epoch of its relay when it attached.
    epoch: u32,
}

/// Attached sessions, by key and by user.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_key: BTreeMap<SessionKey, Session>,
    by_user: BTreeSet<(UserId, SessionKey)>,
}

const FIRST_RELAY: RelayId = RelayId::first(PartitionId(0));
const FIRST_KEY: SessionKey = SessionKey { relay: FIRST_RELAY, slot: 0, generation: 0 };

impl Sessions {
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn find(&self, key: SessionKey) -> Option<&Session> {
        self.by_key.get(&key)
    }

    fn find_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.by_key.get_mut(&key)
    }

    pub fn insert(&mut self, key: SessionKey, session: Session) {
        debug_assert!(!self.by_key.contains_key(&key), "it was dropped first");
        self.by_user.insert((session.client.user_id, key));
        self.by_key.insert(key, session);
    }

    pub fn remove(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.by_key.remove(&key)?;
        self.by_user.remove(&(session.client.user_id, key));
        Some(session)
    }

    /// A user's sessions, ordered by key.
    pub fn of_user(&self, user_id: UserId) -> impl Iterator<Item = (SessionKey, &Session)> {
        let keys = self.by_user.range((user_id, FIRST_KEY)..).take_while(move |(user, _)| *user == user_id);
        keys.filter_map(|(_, key)| Some((*key, self.by_key.get(key)?)))
    }

    /// Of the next `max` sessions of a relay after a given one, those that attached in this incarnation or an older
    /// one; and where to continue, if there are more.
    pub fn of_relay(
        &self,
        relay: RelayId,
        epoch: u32,
        after: Option<SessionKey>,
        max: usize,
    ) -> (Vec<SessionKey>, Option<SessionKey>) {
        let from = after.map_or(Bound::Included(SessionKey { relay, ..FIRST_KEY }), Bound::Excluded);
        let sessions = self.by_key.range((from, Bound::Unbounded)).take_while(|(key, _)| key.relay == relay);
        let (mut found, mut last) = (Vec::new(), None);
        for (at, (key, session)) in sessions.enumerate() {
            if at == max {
                return (found, last);
            }
            last = Some(*key);
            found.extend((session.epoch <= epoch).then_some(*key));
        }
        (found, None)
    }
}

/// Relays with watchers of each member.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// With the incarnation of the relay's last report.
    by_user: BTreeMap<(UserId, RelayId), u32>,
    by_relay: BTreeSet<(RelayId, u32, UserId)>,
}

impl Watchers {
    pub fn is_empty(&self) -> bool {
        self.by_user.is_empty()
    }

    fn add(&mut self, user_id: UserId, relay: RelayId, epoch: u32) {
        self.remove(user_id, relay);
        self.by_user.insert((user_id, relay), epoch);
        self.by_relay.insert((relay, epoch, user_id));
    }

    fn remove(&mut self, user_id: UserId, relay: RelayId) {
        if let Some(epoch) = self.by_user.remove(&(user_id, relay)) {
            self.by_relay.remove(&(relay, epoch, user_id));
        }
    }

    /// Removes at most `max` reports of this incarnation of a relay or an older one. Returns their number.
    pub fn forget(&mut self, relay: RelayId, epoch: u32, max: usize) -> usize {
        let first = (relay, 0, UserId::new(0));
        let of_relay = self.by_relay.range(first..).take_while(|(of, said, _)| (*of, *said) <= (relay, epoch));
        let user_ids: Vec<UserId> = of_relay.map(|(_, _, user_id)| *user_id).take(max).collect();
        user_ids.iter().for_each(|user_id| self.remove(*user_id, relay));
        user_ids.len()
    }

    /// Whether a relay's current incarnation has a watcher.
    pub fn has(&self, user_id: UserId, relay: RelayId, epoch: u32) -> bool {
        self.by_user.get(&(user_id, relay)) == Some(&epoch)
    }

    /// Relays with a watcher in the current or an earlier incarnation.
    fn of_user(&self, user_id: UserId) -> impl Iterator<Item = (RelayId, u32)> {
        let of_user = self.by_user.range((user_id, FIRST_RELAY)..).take_while(move |((user, _), _)| *user == user_id);
        of_user.map(|((_, relay), epoch)| (*relay, *epoch))
    }
}

impl Guild {
    /// An attached session.
    pub(crate) fn session(&self, key: SessionKey) -> Option<&Session> {
        let link = self.relays.get(&key.relay)?;
        self.sessions.find(key).filter(|session| session.epoch == link.epoch)
    }

    /// Whether any relay has a session that receives this member's presence.
    pub(crate) fn is_watched(&self, user_id: UserId) -> bool {
        let is_current = |(relay, epoch)| self.relays.get(&relay).is_some_and(|link| link.epoch == epoch);
        self.relays.values().any(RelayLink::reads_presences) || self.watchers.of_user(user_id).any(is_current)
    }

    pub(crate) fn subscribe(&mut self, now: Now, relay: RelayId, epoch: u32) {
        match self.relays.get(&relay) {
            Some(link) if link.epoch > epoch => return,
            // The relay repeats its request, unaware of an answer.
            Some(link) if link.epoch == epoch => return self.restart_stream(relay),
            Some(_) => self.drop_relay(now, relay),
            None => {}
        }
        self.relays.insert(relay, RelayLink::new(epoch));
        self.send(relay, RelayMessage::Snapshot { replica: self.replica(), reset: false });
    }

    pub(crate) fn unsubscribe(&mut self, now: Now, relay: RelayId, epoch: u32) {
        if self.relays.get(&relay).is_some_and(|link| link.epoch == epoch) {
            self.drop_relay(now, relay);
        }
    }

    pub(crate) fn resync(&mut self, relay: RelayId, epoch: u32) {
        if self.relays.get(&relay).is_some_and(|link| link.epoch == epoch) {
            self.restart_stream(relay);
        }
    }

    pub(crate) fn restart_stream(&mut self, relay: RelayId) {
        if let Some(link) = self.relays.get_mut(&relay) {
            link.is_cut = false;
            self.send(relay, RelayMessage::Snapshot { replica: self.replica(), reset: true });
        }
    }

    /// Snapshot for relays. O(1) for any size of guild.
    fn replica(&self) -> GuildReplica {
        GuildReplica {
            structure: self.structure.clone(),
            last_message_ids: self.last_message_ids.clone(),
            voice: self.voice.snapshot(),
            threads: self.threads.clone(),
        }
    }

    /// Removes an incarnation of a relay with its sessions.
    fn drop_relay(&mut self, now: Now, relay: RelayId) {
        self.touch();
        if let Some(link) = self.relays.remove(&relay) {
            self.relay_gone(now, relay, link.epoch);
        }
    }

    /// Attaches a session, possibly again after its relay was reset. While its relay is cut, the session counts but
    /// gets no answer: the relay requests it again after the reset.
    pub(crate) fn attach(&mut self, now: Now, key: SessionKey, client: Client, members: MembersWanted) {
        let user_id = client.user_id;
        let Some(epoch) = self.relays.get(&key.relay).map(|link| link.epoch) else { return };
        if self.member(user_id).is_none() {
            return self.send(key.relay, RelayMessage::Attached { session: key, view: None });
        }
        // Keys are never reused, so this is an error of the relay; the first user's presence must not remain.
        if self.sessions.find(key).is_some_and(|session| session.client.user_id != user_id) {
            self.detach(now, key);
        }
        self.touch();
        let reads_presences = matches!(members, MembersWanted::ByThreshold { .. });
        self.put_session(key, Session { client, reads_presences, epoch });
        // First, so that the view contains it (L3).
        self.refresh_presence(now, user_id);
        if reads_presences {
            self.presences.table_was_read();
        }
        let view = self.view(user_id, members).map(Box::new);
        self.send(key.relay, RelayMessage::Attached { session: key, view });
    }

    fn view(&self, user_id: UserId, wanted: MembersWanted) -> Option<GuildView> {
        Some(GuildView {
            member: self.member(user_id)?,
            member_count: self.members.len() as u64,
            members: match wanted {
                MembersWanted::OwnAndVoice => None,
                MembersWanted::ByThreshold { large_threshold } => Some((self.members.clone(), large_threshold)),
            },
            version: self.version(),
        })
    }

    fn put_session(&mut self, key: SessionKey, session: Session) {
        self.drop_session(key);
        if let Some(link) = self.relays.get_mut(&key.relay) {
            link.presence_readers_count += usize::from(session.reads_presences);
        }
        self.sessions.insert(key, session);
    }

    /// Removes a session.
    pub(crate) fn drop_session(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.sessions.remove(key)?;
        let link = self.relays.get_mut(&key.relay).filter(|link| link.epoch == session.epoch);
        if let Some(link) = link {
            link.presence_readers_count -= usize::from(session.reads_presences);
        }
        Some(session)
    }

    pub(crate) fn detach(&mut self, now: Now, key: SessionKey) {
        let Some(session) = self.drop_session(key) else { return };
        self.touch();
        self.leave_voice_with(session.client.user_id, key);
        self.refresh_presence(now, session.client.user_id);
        self.left(now, session.client.user_id);
    }

    pub(crate) fn set_session_presence(&mut self, now: Now, key: SessionKey, presence: SessionPresence) {
        if self.session(key).is_none() {
            return;
        }
        let Some(session) = self.sessions.find_mut(key) else { return };
        session.client.presence = presence;
        let user_id = session.client.user_id;
        self.touch();
        self.refresh_presence(now, user_id);
    }

    pub(crate) fn want_presences(&mut self, relay: RelayId, all: bool) {
        if let Some(link) = self.relays.get_mut(&relay) {
            link.wants_presences = all;
        }
    }

    pub(crate) fn watch_members(&mut self, relay: RelayId, added: &[UserId], removed: &[UserId]) {
        if let Some(link) = self.relays.get(&relay) {
            removed.iter().for_each(|user_id| self.watchers.remove(*user_id, relay));
            added.iter().for_each(|user_id| self.watchers.add(*user_id, relay, link.epoch));
        }
    }

    /// Sends presences to a session that started to watch these members.
    pub(crate) fn tell_presences(&mut self, session: SessionKey, user_ids: &[UserId]) {
        // A session that was removed since gets nothing; after attaching again it repeats the request.
        let Some(own) = self.sessions.find(session).map(|session| session.client.user_id) else { return };
        self.presences.table_was_read();
        // No session receives its own account's presence.
        for user_id in user_ids.iter().take(Subscription::MEMBERS_MAX).filter(|user_id| **user_id != own) {
            let Some(entry) = self.members.entry(*user_id) else { continue };
            let presence = entry.presence.clone().unwrap_or_default();
            let payload = Payload::Presence { user_id: *user_id, presence };
            let event = Arc::new(self.event(EventName::PresenceUpdate, AudienceRule::Members, payload));
            self.send(session.relay, RelayMessage::Direct { session, event });
        }
    }
}
