//! Entering and leaving the guild: events for a session, its subscriptions, and due passive updates.

use super::{Content, Membership, Session};
use crate::model::ThreadList;
use crate::model::{Change, PendingUpdates, People, State, guild_create_text, guild_delete_text};
use guildhall_model::to_gateway::Subscription;
use std::rc::Rc;

const GUILDS: u32 = 1;

impl Session {
    pub fn gets_guild_events(&self) -> bool {
        !self.is_bot || self.intents & GUILDS != 0
    }

    /// The session's view of the guild begins, after `changes_count` changes of its relay.
    pub fn enter(&mut self, now_unix_ms: i64, state: &Rc<State>, passive_above: Option<u64>, changes_count: usize) {
        self.membership = Membership::Inside;
        self.starts_active = state.members.len() as u64 <= passive_above.unwrap_or(self.large_threshold);
        self.known_state = (changes_count, state.clone());
        self.uncertain_channels.clear();
        let returns = std::mem::take(&mut self.is_restoring);
        self.was_restored = returns;
        self.was_never_active = !self.is_active() && (!returns || self.was_never_active);
        if !self.guild_answered(now_unix_ms, Some(state)) && self.gets_guild_events() && !returns {
            let (reader, threshold) = (self.reader(), self.large_threshold);
            let people = People::of(state, reader, threshold);
            let guild = guild_create_text(state, &people, reader, threshold, self.hidden, now_unix_ms);
            let places = state.visible_places(self.user, !self.is_bot, self.hidden, now_unix_ms);
            self.expect(Content::Guild(format!("GUILD_CREATE {guild}").into(), places.into()));
        }
        // To a user account GUILD_CREATE has only joined threads.
        self.ask_for_threads(now_unix_ms, state);
    }

    /// It is no longer in the guild, or could not enter it.
    pub fn leave(&mut self, now_unix_ms: i64, guild_id: u64) {
        self.membership = Membership::None;
        self.is_restoring = false;
        self.chunks.clear();
        self.subscription = Subscription::default();
        self.watched.clear();
        if !self.guild_answered(now_unix_ms, None) && self.gets_guild_events() {
            self.expect(Content::Own(guild_delete_text(guild_id, false).into()));
        }
    }

    /// Its relay lost events: to its client that is an outage.
    pub fn lose_sight(&mut self, guild_id: u64) {
        self.membership = Membership::Entering;
        self.is_restoring = false;
        if !self.await_guild_again() && self.gets_guild_events() {
            self.expect(Content::Own(guild_delete_text(guild_id, true).into()));
        }
    }

    /// The session is about to attach to this relay of the guild.
    pub fn ask_to_enter(&mut self, guild_id: u64, relay: u16) {
        if self.membership == Membership::None {
            self.membership = Membership::Entering;
            self.await_guild(guild_id);
        }
        if self.membership == Membership::Entering {
            self.relay = relay;
        }
    }

    // ── threads ──────────────────────────────────────────────────────────────────────────────────

    /// Sends the open threads to a session that subscribes to all threads.
    pub fn ask_for_threads(&mut self, now_unix_ms: i64, state: &State) {
        if self.subscription.threads {
            self.expect_threads(now_unix_ms, state, None);
        }
    }

    /// It views these channels from now on, which have open threads.
    pub fn gain(&mut self, now_unix_ms: i64, state: &State, channels: &[u64]) {
        let has_list = match self.is_bot {
            true => self.intents & GUILDS != 0,
            // Only joined threads, unless the session subscribes to all.
            false => {
                self.subscription.threads
                    || !state.user_threads(self.user, true, Some(channels), now_unix_ms).is_empty()
            }
        };
        if has_list {
            self.expect_threads(now_unix_ms, state, Some(channels.into()));
        }
    }

    fn expect_threads(&mut self, now_unix_ms: i64, state: &State, channels: Option<Rc<[u64]>>) {
        let joined_only = !self.is_bot && !self.subscription.threads;
        let list = ThreadList::new(state, self.user, joined_only, channels, now_unix_ms);
        self.expect(Content::Threads(list));
    }

    // ── passive updates ──────────────────────────────────────────────────────────────────────────

    /// It subscribes to something else. Returns whether it looks at the guild from now on and did not before, or
    /// the other way round.
    pub fn subscribe(&mut self, change: impl FnOnce(&mut Subscription)) -> bool {
        let before = self.is_active();
        change(&mut self.subscription);
        self.watched = self.subscription.members.iter().map(|user| user.get()).collect();
        self.was_never_active &= !self.is_active();
        before != self.is_active()
    }

    /// It knows everything up to here.
    pub fn knows(&mut self, state: &Rc<State>, changes: &[Change]) {
        self.known_state = (changes.len(), state.clone());
        self.uncertain_channels.clear();
    }

    /// The next input brings it up to date.
    pub fn owe(&mut self, state: &Rc<State>, changes: &[Change]) {
        let (known_count, before) = std::mem::take(&mut self.known_state);
        self.due = Some(PendingUpdates {
            form: self.capabilities.passive(),
            user: self.user,
            before,
            uncertain_channels: std::mem::take(&mut self.uncertain_channels),
            now: state.clone(),
            changes: changes[known_count..].to_vec(),
        });
        self.knows(state, changes);
    }
}
