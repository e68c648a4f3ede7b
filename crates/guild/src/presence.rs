//! Presence: the aggregate over a member's sessions, and its publication.
//!
//! Owns        the aggregate of reference.md §6.9, stored in the member table; presences without a session.
//! Doors       `refresh_presence` after anything that may change one; `Command::ShowPresence`;
//!             `publish_waiting` from the timer.
//! Invariants  S1 the table holds the aggregate of the user's sessions, none if that is offline. S2 only a change of
//!             the aggregate causes an event: at once, or, past the rate limit, when it is its turn, with the presence
//!             of that moment. S3 once the guild has been quiet for long enough, every watcher has the newest
//!             presences. S4 a change that no session watches causes no event.
//! Limits      `presence_sessions_max` sessions count; the first `activities_max` activities of `activities_bytes_max`
//!             bytes are published; the rate and its queue: `state::presence`.

use crate::{
    command::{Actor, CommandResult, Refusal},
    machine::Guild,
    state::tasks::STEP_ITEMS,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload, SessionPresence};
use guildhall_model::{ClientStatus, EventName, Presence, Status, UserId, activity};
use guildhall_stdx::Now;
use std::sync::Arc;

impl Guild {
    /// Aggregates a user's sessions again, and notifies watchers if the result changed.
    pub(crate) fn refresh_presence(&mut self, now: Now, user_id: UserId) {
        if self.settles_later(user_id) {
            return;
        }
        let presence = self.aggregate(user_id);
        let Some(entry) = self.members.entry(user_id) else { return };
        if entry.presence == presence {
            return;
        }
        let before = entry.presence.clone();
        self.set_user_presence(user_id, presence.clone());
        self.touch();
        if !self.relays.is_watched(user_id) {
            self.presences.forget_waiting(user_id);
        } else if self.presences.admit(now.instant, user_id, before, &presence) {
            self.publish_presence(user_id, presence.unwrap_or_default());
        }
    }

    /// As `refresh_presence`, for a session that the previous process had: watchers know its presence.
    pub(crate) fn restore_presence(&mut self, user_id: UserId) {
        if self.settles_later(user_id) {
            return;
        }
        let presence = self.aggregate(user_id);
        if self.members.entry(user_id).is_some_and(|entry| entry.presence != presence) {
            self.set_user_presence(user_id, presence);
            self.touch();
        }
    }

    /// Replaces a presence of the process before by what the user's sessions show.
    pub(crate) fn settle_presence(&mut self, now: Now, user_id: UserId) {
        let presence = self.aggregate(user_id);
        if self.members.entry(user_id).is_some_and(|entry| entry.presence == presence) {
            // The common presences are shared.
            self.members.share_presence(user_id, presence);
        } else {
            self.refresh_presence(now, user_id);
        }
    }

    /// Publishes queued presences that are due, a slice at most.
    pub(crate) fn publish_waiting(&mut self, now: Now) {
        if self.is_restoring() {
            return;
        }
        for _ in 0..STEP_ITEMS {
            let Some(user_id) = self.presences.next_waiting(now.instant) else { break };
            // The last watcher may have gone.
            if let Some(entry) = self.members.entry(user_id).filter(|_| self.relays.is_watched(user_id)) {
                let presence = entry.presence.clone().unwrap_or_default();
                self.publish_presence(user_id, presence);
            }
        }
    }

    fn publish_presence(&mut self, user_id: UserId, presence: Arc<Presence>) {
        let payload = Payload::Presence { user_id, presence };
        let event = self.event(EventName::PresenceUpdate, AudienceRule::Members, payload).about(user_id);
        self.publish_to_watchers(user_id, event.never_to_user_account(user_id));
    }

    /// None if offline.
    fn aggregate(&mut self, user_id: UserId) -> Option<Arc<Presence>> {
        let shown = self.presences.shown(user_id);
        let (mut status, mut client_status) = (Status::Offline, ClientStatus::default());
        if let Some(shown) = &shown {
            (status, client_status) = (shown.status, shown.client_status);
        }
        let mut platforms = [Status::Offline; 5];
        let of_sessions = self.relays.user_sessions(user_id).take(self.limits.presence_sessions_max);
        let of_sessions = of_sessions.map(|(_, session)| &session.client.presence);
        let of_sessions: Vec<&SessionPresence> =
            of_sessions.filter(|presence| presence.status != Status::Offline).collect();
        for presence in &of_sessions {
            status = status.max(presence.status);
            client_status.raise(presence.platform, presence.status);
            let platform = &mut platforms[presence.platform as usize];
            *platform = presence.status.max(*platform);
        }
        if status == Status::Offline {
            return None;
        }
        let all = shown.iter().flat_map(|shown| &shown.activities);
        let all = all.chain(of_sessions.iter().flat_map(|presence| presence.activities.iter()));
        let activities = activity::within(all, self.limits.activities_max, self.limits.activities_bytes_max);
        let whole = Presence { status, activities: activities.cloned().collect(), client_status };
        Some(match shown {
            Some(shown) if *shown == whole => shown,
            None if whole.activities.is_empty() => self.presences.share(status, &platforms, client_status),
            _ => Arc::new(whole),
        })
    }

    pub(crate) fn show_presence(
        &mut self,
        turn: Turn<'_>,
        user_id: UserId,
        presence: Option<&Arc<Presence>>,
    ) -> CommandResult<()> {
        if turn.actor != Actor::System {
            return Err(Refusal::MissingPermissions.into());
        }
        self.need_member(user_id)?;
        self.touch();
        let presence = presence.filter(|presence| presence.status != Status::Offline);
        self.presences.set_shown(user_id, presence.cloned());
        self.note_shown(user_id);
        self.refresh_presence(turn.now, user_id);
        Ok(())
    }
}
