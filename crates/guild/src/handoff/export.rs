//! Export: the state of a guild for the next process of its node, and the guild there until its sessions are back.
//!
//! Owns        `Restoring`: users whose voice state or presence is that of the process before.
//! Doors       of the guild that ends: `export`. In the next process: `HandoffParts::restored`; `restore_session` for
//!             each `Attach` of a restored session; then `end_restore`.
//! Invariants  E1 an export has no relays and no sessions: relays of the next process have other keys. A session is
//!             found again by its id. E2 until `end_restore`, attaching a session changes and publishes neither voice
//!             states nor presences, and no presence that waits for the rate limit is published. E3 after it, users
//!             whose session has not come back leave voice, and get the presence of the sessions that have. (tests
//!             `e*_*`)
//! Limits      two ids per user until the end; `STEP_USERS` of them per step.
//! Not here    the bytes and their way (`guildhall-node`).     Spec  docs/adr/0047.

use super::{HandoffBase, HandoffParts, HandoffTail};
use crate::{limits::GuildLimits, machine::Guild};
use guildhall_guild_protocol::SessionKey;
use guildhall_model::UserId;
use guildhall_stdx::{Instant, Now};
use std::{collections::BTreeSet, sync::Arc};

/// Users per step of the end. Few of them cause an event.
const STEP_USERS: usize = 1_024;
/// Interval between steps.
const STEP_EVERY_MS: u64 = 10;

/// A guild whose sessions attach again after a takeover.
#[derive(Debug, Default)]
pub(crate) struct Restoring {
    /// Users in voice by a session that has not attached yet.
    voice: BTreeSet<UserId>,
    /// Users whose presence is that of the process before.
    presences: BTreeSet<UserId>,
    /// Time of the next step; none before the end.
    step_at: Option<Instant>,
}

impl Restoring {
    pub fn step_at(&self) -> Option<Instant> {
        self.step_at
    }

    /// Whether sessions are expected (E2).
    fn is_open(&self) -> bool {
        self.step_at.is_none()
    }
}

impl Guild {
    /// The state of this guild for the next process. It must get no further input, and wait for no commit or job.
    #[must_use]
    pub fn export(&self, now: Now) -> (HandoffBase, HandoffTail) {
        (HandoffBase::without_sessions(self), self.handoff_tail(now).without_relays())
    }

    /// Whether sessions of the process before are expected.
    pub(crate) fn is_restoring(&self) -> bool {
        self.restoring.as_ref().is_some_and(|restoring| restoring.is_open())
    }

    /// A session that the process before had has attached: its connection to voice is this one's.
    pub(crate) fn restore_session(&mut self, key: SessionKey, user_id: UserId, session_id: &str) {
        let Some(restoring) = &mut self.restoring else { return };
        if restoring.voice.contains(&user_id) && self.voice.connect(user_id, session_id, key) {
            restoring.voice.remove(&user_id);
        }
    }

    /// Whether the presence of a user is that of the process before, until the end.
    pub(crate) fn settles_later(&mut self, user_id: UserId) -> bool {
        let open = self.restoring.as_mut().filter(|restoring| restoring.is_open());
        open.map(|restoring| restoring.presences.insert(user_id)).is_some()
    }

    /// No further session of the process before will attach.
    pub fn end_restore(&mut self, now: Now) {
        self.input(|guild| {
            if let Some(restoring) = guild.restoring.as_mut().filter(|restoring| restoring.is_open()) {
                restoring.step_at = Some(now.instant);
                if !guild.voice.is_empty() {
                    // One may have been under way.
                    guild.begin_voice_pass(now);
                }
                guild.restore_step(now);
            }
        });
    }

    /// Makes the state of some users that of their sessions (E3).
    pub(crate) fn restore_step(&mut self, now: Now) {
        let Some(restoring) = self.restoring.as_mut() else { return };
        if restoring.step_at.is_none_or(|at| at > now.instant) {
            return;
        }
        restoring.step_at = Some(now.instant.after_ms(STEP_EVERY_MS));
        let voice: Vec<UserId> = take_some(&mut restoring.voice);
        let presences: Vec<UserId> = take_some(&mut restoring.presences);
        if restoring.voice.is_empty() && restoring.presences.is_empty() {
            self.restoring = None;
        }
        voice.into_iter().for_each(|user_id| self.leave_voice(user_id));
        presences.into_iter().for_each(|user_id| self.settle_presence(now, user_id));
    }
}

fn take_some(users: &mut BTreeSet<UserId>) -> Vec<UserId> {
    (0..STEP_USERS).map_while(|_| users.pop_first()).collect()
}

impl HandoffParts {
    /// The guild that an export makes. Sessions of the process before may attach until `Guild::end_restore`. None: the
    /// first chunk is missing. Takes time with the members.
    #[must_use]
    pub fn restored(mut self, now: Now, limits: GuildLimits, origin: u16, tail: HandoffTail) -> Option<Guild> {
        let presences = std::mem::take(&mut self.presences);
        let mut guild = self.standby(now, limits, origin)?;
        let mut restoring = Restoring { voice: guild.voice.connected().collect(), ..Restoring::default() };
        for (user_id, presence) in presences {
            guild.set_user_presence(user_id, Some(Arc::new(presence)));
            restoring.presences.insert(user_id);
        }
        guild.take_over(now, tail);
        guild.restoring = Some(Box::new(restoring));
        Some(guild)
    }
}
