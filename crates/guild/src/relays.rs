//! Relays and sessions: whom the guild speaks to, and whose sessions it counts.
//!
//! Owns        the numbering of each relay's stream (P1–P3 of `guildhall_relay`'s protocol); `Sessions`.
//! Doors       `subscribe` to `request_members`, from `Guild::handle_relay`.
//! Invariants  L1 numbers to one relay are contiguous within an epoch, also across a restart; what is dropped is
//!             followed by a `Snapshot { reset: true }`. L2 a session counts only while its relay is subscribed
//!             and its user a member. L3 an `Attached` follows everything that its view holds.
//! Limits      one link per partition; sessions: those of the relays.
//! Not here    what a session may see: `guildhall_relay::Relay`.

use crate::machine::Guild;
use guildhall_model::{
    AccountKind, GuildId, Permissions, UserId,
    to_gateway::{MemberQuery, RequestGuildMembers},
};
use guildhall_relay::{
    GuildView, MemberTable, MembersWanted, PartitionId, RelayMessage, SessionKey, SessionPresence, ToRelay,
};
use guildhall_stdx::Now;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The way to one relay.
#[derive(Debug)]
pub(crate) struct RelayLink {
    epoch: u32,
    /// Of the newest message.
    seq: u64,
    /// Messages were lost, and nothing is sent until it restarts.
    pub is_cut: bool,
}

impl RelayLink {
    /// The next message of the stream; none while it is cut.
    pub fn number(&mut self, guild_id: GuildId, message: RelayMessage) -> Option<ToRelay> {
        if self.is_cut {
            return None;
        }
        self.seq += 1;
        Some(ToRelay { guild_id, epoch: self.epoch, seq: self.seq, message })
    }
}

/// A session, as far as the guild is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub session_id: Arc<str>,
    pub user_id: UserId,
    pub kind: AccountKind,
    pub presence: SessionPresence,
}

/// The sessions that are in the guild, by key and by user.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_key: BTreeMap<SessionKey, Session>,
    by_user: BTreeSet<(UserId, SessionKey)>,
}

const FIRST_KEY: SessionKey = SessionKey { partition: PartitionId(0), slot: 0, generation: 0 };

impl Sessions {
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn find(&self, key: SessionKey) -> Option<&Session> {
        self.by_key.get(&key)
    }

    pub fn find_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.by_key.get_mut(&key)
    }

    pub fn insert(&mut self, key: SessionKey, session: Session) {
        self.remove(key);
        self.by_user.insert((session.user_id, key));
        self.by_key.insert(key, session);
    }

    pub fn remove(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.by_key.remove(&key)?;
        self.by_user.remove(&(session.user_id, key));
        Some(session)
    }

    /// A user's sessions, in the order of their keys.
    pub fn of_user(&self, user_id: UserId) -> impl Iterator<Item = (SessionKey, &Session)> {
        let keys = self.by_user.range((user_id, FIRST_KEY)..).take_while(move |(user, _)| *user == user_id);
        keys.filter_map(|(_, key)| Some((*key, self.by_key.get(key)?)))
    }

    /// The keys of a partition's sessions.
    fn of_partition(&self, partition: PartitionId) -> Vec<SessionKey> {
        let from = SessionKey { partition, ..FIRST_KEY };
        self.by_key.range(from..).map(|(key, _)| *key).take_while(|key| key.partition == partition).collect()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Guild {
    pub(crate) fn subscribe(&mut self, partition: PartitionId, epoch: u32) {
        match self.relays.get(&partition) {
            Some(link) if link.epoch > epoch => return,
            // It asks again without knowing of an answer.
            Some(link) if link.epoch == epoch => return self.restart_stream(partition),
            Some(_) => self.drop_relay(partition),
            None => {}
        }
        self.relays.insert(partition, RelayLink { epoch, seq: 0, is_cut: false });
        self.send(partition, RelayMessage::Snapshot { meta: self.meta.clone(), reset: false });
    }

    pub(crate) fn unsubscribe(&mut self, partition: PartitionId, epoch: u32) {
        if self.relays.get(&partition).is_some_and(|link| link.epoch == epoch) {
            self.drop_relay(partition);
        }
    }

    pub(crate) fn resync(&mut self, partition: PartitionId, epoch: u32) {
        if self.relays.get(&partition).is_some_and(|link| link.epoch == epoch) {
            self.restart_stream(partition);
        }
    }

    pub(crate) fn restart_stream(&mut self, partition: PartitionId) {
        if let Some(link) = self.relays.get_mut(&partition) {
            link.is_cut = false;
            self.send(partition, RelayMessage::Snapshot { meta: self.meta.clone(), reset: true });
        }
    }

    /// An incarnation of a relay is gone, and its sessions with it.
    fn drop_relay(&mut self, partition: PartitionId) {
        self.touch();
        self.relays.remove(&partition);
        for session in self.sessions.of_partition(partition) {
            self.detach(session);
        }
    }

    /// A session enters, or enters again (its relay was reset). While its relay is cut it counts but gets no
    /// answer: it asks again after the reset.
    pub(crate) fn attach(
        &mut self,
        key: SessionKey,
        session_id: Arc<str>,
        user_id: UserId,
        kind: AccountKind,
        presence: SessionPresence,
        members: MembersWanted,
    ) {
        if !self.relays.contains_key(&key.partition) {
            return;
        }
        if self.member(user_id).is_none() {
            return self.send(key.partition, RelayMessage::Attached { session: key, view: None });
        }
        // Keys are never reused, so this is a relay's mistake; the first user's presence must not stay behind.
        if self.sessions.find(key).is_some_and(|session| session.user_id != user_id) {
            self.detach(key);
        }
        self.touch();
        self.sessions.insert(key, Session { session_id, user_id, kind, presence });
        // First, so that the view holds it (L3).
        self.refresh_presence(user_id);
        let view = self.view(user_id, members).map(Box::new);
        self.send(key.partition, RelayMessage::Attached { session: key, view });
    }

    fn view(&self, user_id: UserId, wanted: MembersWanted) -> Option<GuildView> {
        Some(GuildView {
            member: self.member(user_id)?,
            member_count: self.members.len() as u64,
            voice: self.voice.iter().filter_map(|state| Some((state.clone(), self.member(state.user_id)?))).collect(),
            last_message_ids: self.last_message_ids.clone(),
            members: match wanted {
                MembersWanted::OwnAndVoice => None,
                MembersWanted::ByThreshold { large_threshold } => Some((self.members.clone(), large_threshold)),
            },
            version: self.version(),
        })
    }

    pub(crate) fn detach(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.remove(key) else { return };
        self.touch();
        self.leave_voice_with(session.user_id, key);
        self.refresh_presence(session.user_id);
    }

    pub(crate) fn set_session_presence(&mut self, key: SessionKey, presence: SessionPresence) {
        let Some(session) = self.sessions.find_mut(key) else { return };
        session.presence = presence;
        let user_id = session.user_id;
        self.touch();
        self.refresh_presence(user_id);
    }

    /// Whoever sees the guild sees its members; only the whole list of a user account needs a permission.
    pub(crate) fn request_members(&mut self, now: Now, key: SessionKey, request: Box<RequestGuildMembers>) {
        let Some(session) = self.sessions.find(key) else { return };
        let Some(member) = self.member(session.user_id) else { return };
        let wants_all = matches!(request.query, MemberQuery::All);
        let lists = Permissions::MANAGE_ROLES | Permissions::KICK_MEMBERS | Permissions::BAN_MEMBERS;
        let may_list = self.meta.guild_permissions(self.meta.standing(&member, now.unix)).intersects(lists);
        let is_refused = session.kind == AccountKind::User && wants_all && !may_list;
        let members = if is_refused { MemberTable::default() } else { self.members.clone() };
        self.send(key.partition, RelayMessage::Members { session: key, request, members });
    }
}
