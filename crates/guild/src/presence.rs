//! Presence: what a member shows, over all their sessions.
//!
//! Owns        the aggregate of docs/protocol.md §6.9, kept in the member table; presences shown without a session.
//! Doors       `refresh_presence` after anything that may change one; `Command::ShowPresence`.
//! Invariants  S1 the table holds the aggregate of the user's sessions, nothing when that is offline. S2 an event
//!             goes out exactly when the aggregate changed.
//! Limits      `presence_sessions_max` sessions count, `activities_max` activities are shown.

use crate::{
    command::{Actor, Refusal, Reply},
    machine::{CommandResult, Guild},
};
use guildhall_model::{EventName, Presence, Status, UserId};
use guildhall_relay::{Gate, Payload};
use std::sync::Arc;

impl Guild {
    /// Aggregates a user's sessions anew, and tells everybody if that made a difference.
    pub(crate) fn refresh_presence(&mut self, user_id: UserId) {
        let Some(entry) = self.members.entry(user_id) else { return };
        let presence = self.aggregate(user_id);
        if entry.presence.as_deref() == presence.as_ref() {
            return;
        }
        self.online_count += u64::from(presence.is_some());
        self.online_count -= u64::from(entry.presence.is_some());
        let presence = presence.map(Arc::new);
        let before = entry.clone();
        self.members.set_presence(user_id, presence.clone());
        self.lists_follow(user_id, Some(&before));
        let payload = Payload::Presence { user_id, presence: presence.unwrap_or_default() };
        let event = self.event(EventName::PresenceUpdate, Gate::Members, payload).about(user_id);
        self.publish_presence(user_id, event.never_to_user_account(user_id));
    }

    /// None when offline.
    fn aggregate(&self, user_id: UserId) -> Option<Presence> {
        let shown = self.shown.get(&user_id);
        let mut whole = Presence {
            status: shown.map_or(Status::Offline, |shown| shown.status),
            activities: Vec::new(),
            client_status: shown.map(|shown| shown.client_status).unwrap_or_default(),
        };
        let max = self.limits.activities_max;
        if let Some(shown) = shown {
            whole.activities.extend(shown.activities.iter().take(max).cloned());
        }
        for (_, session) in self.sessions.of_user(user_id).take(self.limits.presence_sessions_max) {
            let presence = &session.presence;
            if presence.status == Status::Offline {
                continue;
            }
            whole.status = whole.status.max(presence.status);
            whole.client_status.raise(presence.platform, presence.status);
            let room = max - whole.activities.len();
            whole.activities.extend(presence.activities.iter().take(room).cloned());
        }
        (whole.status != Status::Offline).then_some(whole)
    }

    pub(crate) fn show_presence(
        &mut self,
        actor: Actor,
        user_id: UserId,
        presence: Option<&Arc<Presence>>,
    ) -> CommandResult {
        if actor != Actor::System {
            return Err(Refusal::MissingPermissions.into());
        }
        self.need_member(user_id)?;
        self.touch();
        match presence.filter(|presence| presence.status != Status::Offline) {
            Some(presence) => self.shown.insert(user_id, presence.clone()),
            None => self.shown.remove(&user_id),
        };
        self.refresh_presence(user_id);
        Ok(Reply::Done)
    }
}
