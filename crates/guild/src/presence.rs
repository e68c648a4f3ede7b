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
//!             bytes are published; the rate and its queue: `presence::presence_limiter`.

mod limiter;

pub(crate) use limiter::WaitingPresences;

use limiter::PresenceLimiter;

use crate::{
    background::STEP_ITEMS,
    command::{Actor, CommandResult, Refusal},
    limits::GuildLimits,
    machine::Guild,
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, Payload};
use guildhall_model::{ClientStatus, EventName, Presence, Status, UserId, activity};
use guildhall_stdx::{Instant, Now};
use std::{collections::BTreeMap, sync::Arc};

/// Presences of a guild's members, apart from the member table.
#[derive(Debug)]
pub(crate) struct Presences {
    limiter: PresenceLimiter,
    common: CommonPresences,
    /// Presences shown without a session.
    overrides: BTreeMap<UserId, Arc<Presence>>,
}

impl Presences {
    pub fn new(limits: &GuildLimits) -> Self {
        let limiter = PresenceLimiter::new(
            limits.presence_events_per_s_max,
            limits.presence_burst_max,
            limits.presence_waiting_max,
        );
        Self { limiter, common: CommonPresences::default(), overrides: BTreeMap::new() }
    }

    /// A session's view or answer contained presences: later changes of them must be published.
    pub fn table_was_read(&mut self) {
        self.limiter.table_was_read();
    }

    /// Time at which a queued presence is due.
    pub fn due_at(&self) -> Option<Instant> {
        self.limiter.due_at()
    }

    pub fn has_overrides(&self) -> bool {
        !self.overrides.is_empty()
    }

    /// Presence that a backend shows for a user.
    pub fn shown(&self, user_id: UserId) -> Option<Arc<Presence>> {
        self.overrides.get(&user_id).cloned()
    }

    /// Presences that backends show.
    pub fn all_shown(&self) -> impl Iterator<Item = (UserId, &Arc<Presence>)> {
        self.overrides.iter().map(|(user_id, presence)| (*user_id, presence))
    }

    pub fn set_shown(&mut self, user_id: UserId, presence: Option<Arc<Presence>>) {
        match presence {
            Some(presence) => self.overrides.insert(user_id, presence),
            None => self.overrides.remove(&user_id),
        };
    }

    /// Presences that wait for their turn.
    pub fn waiting(&self) -> WaitingPresences {
        self.limiter.waiting()
    }

    /// Begins with those of another node, in place of its own.
    pub fn take_over(&mut self, now: Now, limits: &GuildLimits, waiting: WaitingPresences) {
        self.limiter = Self::new(limits).limiter;
        self.limiter.take_over(now.instant, waiting);
    }

    /// Forgets a former member.
    pub fn forget(&mut self, user_id: UserId) {
        self.overrides.remove(&user_id);
        self.limiter.forget(user_id);
    }
}

/// Interned presences without activities, by statuses: most members share one of a few.
#[derive(Debug, Default)]
struct CommonPresences(BTreeMap<u16, Arc<Presence>>);

impl CommonPresences {
    /// Two bits for the total and two per platform: at most 4,096 values.
    fn share(&mut self, status: Status, platforms: &[Status; 5], client_status: ClientStatus) -> Arc<Presence> {
        let key = platforms.iter().fold(status as u16, |key, status| key << 2 | *status as u16);
        let make = || Arc::new(Presence { status, activities: Vec::new(), client_status });
        self.0.entry(key).or_insert_with(make).clone()
    }
}

impl Guild {
    /// Aggregates a user's sessions again, and notifies watchers if the result changed.
    pub(crate) fn refresh_presence(&mut self, now: Now, user_id: UserId) {
        let presence = self.aggregate(user_id);
        let Some(entry) = self.members.entry(user_id) else { return };
        if entry.presence == presence {
            return;
        }
        let before = entry.presence.clone();
        self.set_user_presence(user_id, presence.clone());
        self.touch();
        if !self.relays.is_watched(user_id) {
            self.presences.limiter.forget(user_id);
        } else if self.presences.limiter.admit(now.instant, user_id, before, &presence) {
            self.publish_presence(user_id, presence.unwrap_or_default());
        }
    }

    /// As `refresh_presence`, for a session that the previous process had: watchers know its presence.
    pub(crate) fn restore_presence(&mut self, user_id: UserId) {
        let presence = self.aggregate(user_id);
        if self.members.entry(user_id).is_some_and(|entry| entry.presence != presence) {
            self.set_user_presence(user_id, presence);
            self.touch();
        }
    }

    /// Publishes queued presences that are due, a slice at most.
    pub(crate) fn publish_waiting(&mut self, now: Now) {
        for _ in 0..STEP_ITEMS {
            let Some(user_id) = self.presences.limiter.next(now.instant) else { break };
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
        let shown = self.presences.overrides.get(&user_id);
        let (mut status, mut client_status) = (Status::Offline, ClientStatus::default());
        if let Some(shown) = shown {
            (status, client_status) = (shown.status, shown.client_status);
        }
        let mut platforms = [Status::Offline; 5];
        for (_, session) in self.relays.user_sessions(user_id).take(self.limits.presence_sessions_max) {
            let presence = &session.client.presence;
            if presence.status == Status::Offline {
                continue;
            }
            status = status.max(presence.status);
            client_status.raise(presence.platform, presence.status);
            let platform = &mut platforms[presence.platform as usize];
            *platform = presence.status.max(*platform);
        }
        if status == Status::Offline {
            return None;
        }
        let of_sessions = self.relays.user_sessions(user_id).take(self.limits.presence_sessions_max);
        let of_sessions = of_sessions.map(|(_, session)| &session.client.presence);
        let of_sessions = of_sessions.filter(|presence| presence.status != Status::Offline);
        let all = shown.iter().flat_map(|shown| &shown.activities);
        let all = all.chain(of_sessions.flat_map(|presence| presence.activities.iter()));
        let activities = activity::within(all, self.limits.activities_max, self.limits.activities_bytes_max);
        let whole = Presence { status, activities: activities.cloned().collect(), client_status };
        Some(match shown {
            Some(shown) if **shown == whole => shown.clone(),
            None if whole.activities.is_empty() => self.presences.common.share(status, &platforms, client_status),
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
