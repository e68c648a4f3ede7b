//! Relay table: links to relays, sessions, and watchers of members.
//!
//! Owns        `Relays`; which relays receive a message.
//! Invariants  L4 a link counts exactly the sessions of its incarnation whose view contained every presence.
//! Limits      one link per relay; sessions and watchers: those of the relays.

use guildhall_guild_protocol::{PartitionId, RelayId, RelayMessage, RelayOutput, SessionKey, SessionPresence, ToGuild};
use guildhall_model::{AccountKind, GuildId, UserId};
use guildhall_stdx::heap::{self, Sample};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    ops::Bound,
    sync::Arc,
};

/// Stream to one relay.
#[derive(Debug)]
struct RelayLink {
    epoch: u32,
    /// The relay has sessions that receive every member's presence.
    wants_presences: bool,
    /// Number of sessions whose view contained every member's presence; they receive each change from there on.
    presence_readers_count: usize,
    /// Messages were lost; nothing is sent until the relay restarts.
    is_cut: bool,
}

impl RelayLink {
    fn new(epoch: u32) -> Self {
        Self { epoch, wants_presences: false, presence_readers_count: 0, is_cut: false }
    }

    /// The relay has a session that receives every member's presence. The relay reports that only after its first such
    /// session is attached; changes between the session's view and that report must not be missed.
    fn reads_presences(&self) -> bool {
        self.wants_presences || self.presence_readers_count > 0
    }

    /// A message for the relay; none while its stream is cut.
    fn output(&self, guild_id: GuildId, relay: RelayId, message: RelayMessage) -> Option<RelayOutput> {
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
struct Sessions {
    /// Boxed: a node of the tree has room for eleven, and about half of it is in use.
    by_key: BTreeMap<SessionKey, Box<Session>>,
    by_user: BTreeSet<(UserId, SessionKey)>,
}

const _: () = assert!(size_of::<Session>() <= 64, "there is one per session and guild");

const FIRST_RELAY: RelayId = RelayId::first(PartitionId(0));
const FIRST_KEY: SessionKey = SessionKey { relay: FIRST_RELAY, slot: 0, generation: 0 };

impl Sessions {
    fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn find(&self, key: SessionKey) -> Option<&Session> {
        self.by_key.get(&key).map(|session| &**session)
    }

    fn find_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.by_key.get_mut(&key).map(|session| &mut **session)
    }

    fn insert(&mut self, key: SessionKey, session: Session) {
        debug_assert!(!self.by_key.contains_key(&key), "it was dropped first");
        self.by_user.insert((session.client.user_id, key));
        self.by_key.insert(key, Box::new(session));
    }

    fn remove(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.by_key.remove(&key)?;
        self.by_user.remove(&(session.client.user_id, key));
        Some(*session)
    }

    /// A user's sessions, ordered by key.
    fn of_user(&self, user_id: UserId) -> impl Iterator<Item = (SessionKey, &Session)> {
        let keys = self.by_user.range((user_id, FIRST_KEY)..).take_while(move |(user, _)| *user == user_id);
        keys.filter_map(|(_, key)| Some((*key, self.find(*key)?)))
    }

    /// Of the next `max` sessions of a relay after a given one, those that attached in this incarnation or an older
    /// one; and where to continue, if there are more.
    fn of_relay(
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

/// A member that a relay watches.
type Watched = (UserId, RelayId);

/// Relays with watchers of each member.
#[derive(Debug, Default)]
struct Watchers {
    /// With the incarnation of the relay's last report.
    by_user: BTreeMap<(UserId, RelayId), u32>,
    by_relay: BTreeSet<(RelayId, u32, UserId)>,
}

impl Watchers {
    fn is_empty(&self) -> bool {
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
    fn forget(&mut self, relay: RelayId, epoch: u32, max: usize) -> usize {
        let first = (relay, 0, UserId::new(0));
        let of_relay = self.by_relay.range(first..).take_while(|(of, reported, _)| (*of, *reported) <= (relay, epoch));
        let user_ids: Vec<UserId> = of_relay.map(|(_, _, user_id)| *user_id).take(max).collect();
        user_ids.iter().for_each(|user_id| self.remove(*user_id, relay));
        user_ids.len()
    }

    /// Whether a relay's current incarnation has a watcher.
    fn has(&self, user_id: UserId, relay: RelayId, epoch: u32) -> bool {
        self.by_user.get(&(user_id, relay)) == Some(&epoch)
    }

    /// Relays with a watcher in the current or an earlier incarnation.
    fn of_user(&self, user_id: UserId) -> impl Iterator<Item = (RelayId, u32)> {
        let of_user = self.by_user.range((user_id, FIRST_RELAY)..).take_while(move |((user, _), _)| *user == user_id);
        of_user.map(|((_, relay), epoch)| (*relay, *epoch))
    }
}

/// Relays of a guild with their sessions and watched members.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    links: BTreeMap<RelayId, RelayLink>,
    sessions: Sessions,
    watchers: Watchers,
}

/// Reads at most `max` entries after `after`. Returns those that `select` takes, and the key to continue from; no key
/// after the last entry.
fn page<'a, K: Copy + Ord, V, T>(
    entries: &'a BTreeMap<K, V>,
    after: Option<K>,
    max: usize,
    select: impl Fn(K, &'a V) -> Option<T>,
) -> (Vec<T>, Option<K>) {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut found, mut last) = (Vec::new(), None);
    for (at, (key, value)) in entries.range((from, Bound::Unbounded)).enumerate() {
        if at == max {
            return (found, last);
        }
        last = Some(*key);
        found.extend(select(*key, value));
    }
    (found, None)
}

impl Relays {
    /// No relay, session or watcher is left.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.sessions.is_empty() && self.watchers.is_empty()
    }

    /// Estimated heap memory.
    pub fn heap_bytes(&self, sample: Sample) -> usize {
        let Sessions { by_key, by_user } = &self.sessions;
        // The partition's session shares the id.
        let of_session = |session: &Session| {
            let id = heap::allocated(2 * size_of::<usize>() + session.client.session_id.len());
            let activities = &session.client.presence.activities;
            heap::boxed::<Session>()
                + id / Arc::strong_count(&session.client.session_id)
                + heap::allocated(size_of_val(&**activities)) / Arc::strong_count(activities)
        };
        sample.of_tree(by_key, |_, session| of_session(session))
            + heap::of_set(by_user)
            + sample.of_tree(&self.watchers.by_user, |_, _| 0)
            + heap::of_set(&self.watchers.by_relay)
    }

    /// Number of attached sessions.
    pub fn sessions_count(&self) -> usize {
        self.sessions.by_key.len()
    }

    /// Current epoch of a relay; none if it is not subscribed.
    pub fn epoch(&self, relay: RelayId) -> Option<u32> {
        Some(self.links.get(&relay)?.epoch)
    }

    /// Adds a new incarnation of a relay.
    pub fn add(&mut self, relay: RelayId, epoch: u32) {
        self.links.insert(relay, RelayLink::new(epoch));
    }

    /// Removes the link of a relay, and returns its epoch. Its sessions and watchers stay; they do not count any more.
    pub fn remove(&mut self, relay: RelayId) -> Option<u32> {
        Some(self.links.remove(&relay)?.epoch)
    }

    /// Marks the stream of a relay as interrupted: it gets no messages. False if it is not subscribed.
    pub fn cut(&mut self, relay: RelayId) -> bool {
        self.links.get_mut(&relay).map(|link| link.is_cut = true).is_some()
    }

    pub fn is_cut(&self, relay: RelayId) -> bool {
        self.links.get(&relay).is_some_and(|link| link.is_cut)
    }

    /// Resumes the stream of a relay. False if it is not subscribed.
    pub fn resume(&mut self, relay: RelayId) -> bool {
        self.links.get_mut(&relay).map(|link| link.is_cut = false).is_some()
    }

    /// The message, addressed to every relay whose stream is not cut.
    pub fn to_all(&self, guild_id: GuildId, message: &RelayMessage) -> impl Iterator<Item = RelayOutput> {
        self.links.iter().filter_map(move |(relay, link)| link.output(guild_id, *relay, message.clone()))
    }

    /// The message, addressed to relays with a session that receives this member's presence.
    pub fn to_watchers(
        &self,
        guild_id: GuildId,
        user_id: UserId,
        message: &RelayMessage,
    ) -> impl Iterator<Item = RelayOutput> {
        let watchers = self
            .links
            .iter()
            .filter(move |(relay, link)| link.reads_presences() || self.watchers.has(user_id, **relay, link.epoch));
        watchers.filter_map(move |(relay, link)| link.output(guild_id, *relay, message.clone()))
    }

    /// The message, addressed to one relay; none if it is not subscribed or its stream is cut.
    pub fn to_one(&self, guild_id: GuildId, relay: RelayId, message: RelayMessage) -> Option<RelayOutput> {
        self.links.get(&relay)?.output(guild_id, relay, message)
    }

    /// An attached session of the current incarnation of its relay.
    pub fn session(&self, key: SessionKey) -> Option<&Session> {
        let link = self.links.get(&key.relay)?;
        self.sessions.find(key).filter(|session| session.epoch == link.epoch)
    }

    /// A session of any incarnation of its relay.
    pub fn session_of_any_epoch(&self, key: SessionKey) -> Option<&Session> {
        self.sessions.find(key)
    }

    /// A user's sessions, ordered by key.
    pub fn user_sessions(&self, user_id: UserId) -> impl Iterator<Item = (SessionKey, &Session)> {
        self.sessions.of_user(user_id)
    }

    pub fn has_sessions(&self, user_id: UserId) -> bool {
        self.sessions.of_user(user_id).next().is_some()
    }

    /// Links as messages of relays, for a standby.
    pub fn handoff_links(&self) -> Vec<ToGuild> {
        let mut items = Vec::new();
        for (relay, link) in &self.links {
            let (relay, epoch) = (*relay, link.epoch);
            items.push(ToGuild::Subscribe { relay, epoch });
            if link.wants_presences {
                items.push(ToGuild::WantPresences { relay, all: true });
            }
        }
        items
    }

    /// Links that are cut.
    pub fn cut_links(&self) -> Vec<RelayId> {
        self.links.iter().filter(|(_, link)| link.is_cut).map(|(relay, _)| *relay).collect()
    }

    /// At most `max` sessions of current links after `after`, and the key to continue from; no key after the last
    /// session.
    pub fn sessions_after(
        &self,
        after: Option<SessionKey>,
        max: usize,
    ) -> (Vec<(SessionKey, &Session)>, Option<SessionKey>) {
        page(&self.sessions.by_key, after, max, |key, session| {
            self.is_current(key.relay, session.epoch).then_some((key, &**session))
        })
    }

    /// The same of watched members.
    pub fn watched_after(&self, after: Option<Watched>, max: usize) -> (Vec<Watched>, Option<Watched>) {
        page(&self.watchers.by_user, after, max, |key, epoch| self.is_current(key.1, *epoch).then_some(key))
    }

    fn is_current(&self, relay: RelayId, epoch: u32) -> bool {
        self.links.get(&relay).is_some_and(|link| link.epoch == epoch)
    }

    /// As `Sessions::of_relay`.
    pub fn relay_sessions(
        &self,
        relay: RelayId,
        epoch: u32,
        after: Option<SessionKey>,
        max: usize,
    ) -> (Vec<SessionKey>, Option<SessionKey>) {
        self.sessions.of_relay(relay, epoch, after, max)
    }

    /// Attaches a session in the current incarnation of its relay, in place of one with the same key. No effect if the
    /// relay is not subscribed.
    pub fn put_session(&mut self, key: SessionKey, client: Client, reads_presences: bool) {
        self.remove_session(key);
        let Some(link) = self.links.get_mut(&key.relay) else { return };
        link.presence_readers_count += usize::from(reads_presences);
        self.sessions.insert(key, Session { client, reads_presences, epoch: link.epoch });
    }

    pub fn remove_session(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.sessions.remove(key)?;
        let link = self.links.get_mut(&key.relay).filter(|link| link.epoch == session.epoch);
        if let Some(link) = link {
            link.presence_readers_count -= usize::from(session.reads_presences);
        }
        Some(session)
    }

    /// Sets the presence of an attached session. Returns its user.
    pub fn set_presence(&mut self, key: SessionKey, presence: SessionPresence) -> Option<UserId> {
        self.session(key)?;
        let session = self.sessions.find_mut(key)?;
        session.client.presence = presence;
        Some(session.client.user_id)
    }

    /// Whether any relay has a session that receives this member's presence.
    pub fn is_watched(&self, user_id: UserId) -> bool {
        let is_current = |(relay, epoch)| self.links.get(&relay).is_some_and(|link| link.epoch == epoch);
        self.links.values().any(RelayLink::reads_presences) || self.watchers.of_user(user_id).any(is_current)
    }

    /// A relay reports whether it has sessions that receive every member's presence.
    pub fn want_presences(&mut self, relay: RelayId, all: bool) {
        if let Some(link) = self.links.get_mut(&relay) {
            link.wants_presences = all;
        }
    }

    /// A relay reports which members it began and ceased to watch.
    pub fn watch(&mut self, relay: RelayId, added: &[UserId], removed: &[UserId]) {
        if let Some(link) = self.links.get(&relay) {
            removed.iter().for_each(|user_id| self.watchers.remove(*user_id, relay));
            added.iter().for_each(|user_id| self.watchers.add(*user_id, relay, link.epoch));
        }
    }

    /// As `Watchers::forget`.
    pub fn forget_watched(&mut self, relay: RelayId, epoch: u32, max: usize) -> usize {
        self.watchers.forget(relay, epoch, max)
    }

    /// Removes all sessions and watchers, and returns them for disposal. Relays stay.
    pub fn take_sessions(&mut self) -> impl Debug + Send + Sync + use<> {
        self.links.values_mut().for_each(|link| link.presence_readers_count = 0);
        (mem::take(&mut self.sessions), mem::take(&mut self.watchers))
    }
}
