//! Relays and sessions of a guild.
//!
//! Owns        P2 and P3 of `guildhall_guild_protocol`'s protocol, on the table of relays.
//! Doors       `subscribe` to `send_presences`, from `Guild::handle_relay`.
//! Invariants  L1 after a loss a relay receives nothing until a `Snapshot { reset: true }`. L2 a session counts only
//!             while its relay is subscribed and its user is a member; sessions of a removed relay are removed in
//!             slices (`background`), and their messages are ignored. L3 an `Attached` follows every event that its
//!             view contains. L5 a session that is transferred is at one of its two relays for each event.
//! Limits      one link per relay; sessions: those of the relays.
//! Not here    the numbers of messages: `RelayStreams`; visibility for a session: `guildhall_relay::Relay`.

use crate::{
    machine::Guild,
    state::relays::{Client, Session},
};
use guildhall_guild_protocol::{
    AudienceRule, GuildReplica, GuildView, MembersWanted, Payload, RelayId, RelayMessage, SessionKey, SessionPresence,
};
use guildhall_model::{EventName, UserId, to_gateway::Subscription};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    /// An attached session.
    pub(crate) fn session(&self, key: SessionKey) -> Option<&Session> {
        self.relays.session(key)
    }

    pub(crate) fn subscribe(&mut self, now: Now, relay: RelayId, epoch: u32) {
        match self.relays.epoch(relay) {
            Some(current) if current > epoch => return,
            // The relay repeats its request, unaware of an answer.
            Some(current) if current == epoch => return self.restart_stream(relay),
            Some(_) => self.drop_relay(now, relay),
            None => {}
        }
        self.relays.add(relay, epoch);
        self.send(relay, RelayMessage::Snapshot { replica: self.replica(), reset: false });
    }

    pub(crate) fn unsubscribe(&mut self, now: Now, relay: RelayId, epoch: u32) {
        if self.relays.epoch(relay) == Some(epoch) {
            self.drop_relay(now, relay);
        }
    }

    pub(crate) fn resync(&mut self, relay: RelayId, epoch: u32) {
        if self.relays.epoch(relay) == Some(epoch) {
            self.restart_stream(relay);
        }
    }

    pub(crate) fn restart_stream(&mut self, relay: RelayId) {
        if self.relays.resume(relay) {
            self.send(relay, RelayMessage::Snapshot { replica: self.replica(), reset: true });
        }
    }

    /// Snapshot for relays. O(1) for any size of guild.
    fn replica(&self) -> GuildReplica {
        GuildReplica {
            structure: self.structure.clone(),
            last_message_ids: self.messages.newest().clone(),
            voice: self.voice.snapshot(),
            threads: self.threads.snapshot(),
        }
    }

    /// Removes an incarnation of a relay with its sessions.
    fn drop_relay(&mut self, now: Now, relay: RelayId) {
        self.touch();
        if let Some(epoch) = self.relays.remove(relay) {
            self.relay_gone(now, relay, epoch);
        }
    }

    /// Attaches a session, possibly again after its relay was reset. While its relay is cut, the session counts but
    /// gets no answer: the relay requests it again after the reset.
    pub(crate) fn attach(
        &mut self,
        now: Now,
        key: SessionKey,
        client: Client,
        members: MembersWanted,
        (is_restored, previous): (bool, Option<SessionKey>),
    ) {
        let user_id = client.user_id;
        if self.relays.epoch(key.relay).is_none() {
            return;
        }
        let Some(member) = self.member(user_id) else {
            return self.send(key.relay, RelayMessage::Attached { session: key, view: None });
        };
        // Keys are never reused, so this is an error of the relay; the first user's presence must not remain.
        if self.relays.session_of_any_epoch(key).is_some_and(|session| session.client.user_id != user_id) {
            self.detach(now, key);
        }
        self.touch();
        let reads_presences = matches!(members, MembersWanted::ByThreshold { .. });
        let is_transferred = previous.is_some_and(|previous| self.transfer(previous, key, &client));
        let restored_id = (is_restored && self.is_restoring()).then(|| client.session_id.clone());
        self.relays.put_session(key, client, reads_presences);
        // First, so that the view contains it (L3).
        if let Some(session_id) = restored_id {
            self.restore_session(key, user_id, &session_id);
        }
        match is_restored {
            true => self.restore_presence(user_id),
            false => self.refresh_presence(now, user_id),
        }
        if reads_presences {
            self.presences.table_was_read();
        }
        let view = GuildView {
            member,
            member_count: self.members.len() as u64,
            members: match members {
                MembersWanted::OwnAndVoice => None,
                MembersWanted::ByThreshold { large_threshold } => Some((self.members.snapshot(), large_threshold)),
            },
            version: self.version(),
            is_transferred,
        };
        self.send(key.relay, RelayMessage::Attached { session: key, view: Some(Box::new(view)) });
    }

    /// A session goes on under another key: its presence and its voice state go along, and no event shows it. False:
    /// its relay there has lost messages, or does not have it.
    fn transfer(&mut self, previous: SessionKey, key: SessionKey, client: &Client) -> bool {
        let known = self.relays.session_of_any_epoch(previous).map(|session| &session.client);
        if known.is_none_or(|known| known.session_id != client.session_id || known.user_id != client.user_id) {
            return false;
        }
        let is_followed = self.relays.session(previous).is_some() && !self.relays.is_cut(previous.relay);
        self.relays.remove_session(previous);
        if self.voice.connect(client.user_id, &client.session_id, key) {
            self.note_voice(client.user_id);
        }
        if is_followed {
            self.send(previous.relay, RelayMessage::Transferred { session: previous, user_id: client.user_id });
        }
        is_followed
    }

    pub(crate) fn detach(&mut self, now: Now, key: SessionKey) {
        let Some(session) = self.relays.remove_session(key) else { return };
        self.touch();
        self.leave_voice_with(session.client.user_id, key);
        self.refresh_presence(now, session.client.user_id);
        self.left(now, session.client.user_id);
    }

    pub(crate) fn set_session_presence(&mut self, now: Now, key: SessionKey, presence: SessionPresence) {
        let Some(user_id) = self.relays.set_presence(key, presence) else { return };
        self.touch();
        self.refresh_presence(now, user_id);
    }

    /// Sends presences to a session that started to watch these members.
    pub(crate) fn send_presences(&mut self, session: SessionKey, user_ids: &[UserId]) {
        // A session that was removed since gets nothing; after attaching again it repeats the request.
        let Some(own) = self.relays.session_of_any_epoch(session).map(|session| session.client.user_id) else { return };
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
