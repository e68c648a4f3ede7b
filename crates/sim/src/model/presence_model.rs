//! Presences of members, from the statuses that their sessions send (docs/protocol/reference.md §6.9).

use super::{State, status_text};
use guildhall_guild_protocol::{RelayId, SessionKey, SessionPresence, ToGuild};
use std::collections::BTreeMap;

/// Sessions as a guild counts them.
#[derive(Debug, Default)]
pub struct PresenceModel {
    relays: BTreeMap<RelayId, u32>,
    sessions: BTreeMap<SessionKey, Showing>,
    /// Those of the process before. Until its sessions have attached again none changes, whatever sessions do.
    before: Option<BTreeMap<u64, (&'static str, usize)>>,
}

#[derive(Debug)]
struct Showing {
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
            ToGuild::Attach { session, user_id, presence, .. } => {
                if self.relays.contains_key(&session.relay) && state.members.contains_key(&user_id.get()) {
                    self.sessions.insert(*session, Showing { user: user_id.get(), presence: presence.clone() });
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
        if let Some(before) = &mut self.before {
            before.remove(&user);
        }
    }

    /// Another process has the guild: its sessions attach again.
    pub fn process_ended(&mut self) {
        self.before = Some(self.presences());
        self.relays.clear();
        self.sessions.clear();
    }

    /// Sessions that have not attached again are gone.
    pub fn restore_ended(&mut self) {
        self.before = None;
    }

    /// Status and number of activities of all users who are not offline.
    pub fn presences(&self) -> BTreeMap<u64, (&'static str, usize)> {
        if let Some(before) = &self.before {
            return before.clone();
        }
        let mut best: BTreeMap<u64, (guildhall_model::Status, usize)> = BTreeMap::new();
        for Showing { user, presence } in self.sessions.values() {
            if presence.status != guildhall_model::Status::Offline {
                let (status, activities) = best.entry(*user).or_default();
                *status = (*status).max(presence.status);
                *activities += presence.activities.len();
            }
        }
        best.into_iter().map(|(user, (status, activities))| (user, (status_text(status), activities))).collect()
    }
}
