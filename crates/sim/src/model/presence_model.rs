//! Presences of members, from the statuses that their sessions send (docs/protocol/reference.md §6.9).

use super::{State, status_text};
use guildhall_guild_protocol::{RelayId, SessionKey, SessionPresence, ToGuild};
use std::{collections::BTreeMap, sync::Arc};

/// Sessions as a guild counts them.
#[derive(Debug, Default)]
pub struct PresenceModel {
    relays: BTreeMap<RelayId, u32>,
    sessions: BTreeMap<SessionKey, Showing>,
    /// Of the process before, by session id: they count until they attach again.
    expected: BTreeMap<Arc<str>, (u64, SessionPresence)>,
}

#[derive(Debug)]
struct Showing {
    id: Arc<str>,
    user: u64,
    presence: SessionPresence,
}

impl PresenceModel {
    /// A message is about to be handled by the guild, which is in this `state`.
    pub fn hear(&mut self, message: &ToGuild, state: &State) {
        match message {
            ToGuild::Subscribe { relay, epoch } => {
                if self.relays.get(relay).is_none_or(|known| known < epoch) {
                    self.forget_relay(*relay);
                    self.relays.insert(*relay, *epoch);
                }
            }
            ToGuild::Unsubscribe { relay, epoch } => {
                if self.relays.get(relay) == Some(epoch) {
                    self.forget_relay(*relay);
                    self.relays.remove(relay);
                }
            }
            ToGuild::Attach { session, session_id, user_id, presence, .. } => {
                if self.relays.contains_key(&session.relay) && state.members.contains_key(&user_id.get()) {
                    self.expected.remove(session_id);
                    let (id, user, presence) = (session_id.clone(), user_id.get(), presence.clone());
                    self.sessions.insert(*session, Showing { id, user, presence });
                }
            }
            ToGuild::Detach { session } => drop(self.sessions.remove(session)),
            ToGuild::Presence { session, presence } => {
                if let Some(shown) = self.sessions.get_mut(session) {
                    shown.presence = presence.clone();
                }
            }
            ToGuild::Resync { .. }
            | ToGuild::Voice { .. }
            | ToGuild::RequestMembers { .. }
            | ToGuild::RecentMembers { .. }
            | ToGuild::ListThread { .. }
            | ToGuild::CountMembers { .. }
            | ToGuild::WantPresences { .. }
            | ToGuild::WatchMembers { .. }
            | ToGuild::WatchList { .. }
            | ToGuild::RequestPresences { .. }
            | ToGuild::CanaryReturned { .. } => {}
        }
    }

    fn forget_relay(&mut self, relay: RelayId) {
        self.sessions.retain(|session, _| session.relay != relay);
    }

    /// A member left.
    pub fn forget_user(&mut self, user: u64) {
        self.sessions.retain(|_, shown| shown.user != user);
        self.expected.retain(|_, (of, _)| *of != user);
    }

    /// Another process has the guild: its sessions attach again.
    pub fn process_ended(&mut self) {
        self.relays.clear();
        let before = std::mem::take(&mut self.sessions).into_values();
        self.expected = before.map(|Showing { id, user, presence }| (id, (user, presence))).collect();
    }

    /// Sessions that have not attached again are gone.
    pub fn restore_ended(&mut self) {
        self.expected.clear();
    }

    /// Status and number of activities of all users who are not offline.
    pub fn presences(&self) -> BTreeMap<u64, (&'static str, usize)> {
        let mut best: BTreeMap<u64, (guildhall_model::Status, usize)> = BTreeMap::new();
        let attached = self.sessions.values().map(|shown| (&shown.user, &shown.presence));
        let expected = self.expected.values().map(|(user, presence)| (user, presence));
        for (user, presence) in attached.chain(expected) {
            if presence.status != guildhall_model::Status::Offline {
                let (status, activities) = best.entry(*user).or_default();
                *status = (*status).max(presence.status);
                *activities += presence.activities.len();
            }
        }
        best.into_iter().map(|(user, (status, activities))| (user, (status_text(status), activities))).collect()
    }
}
