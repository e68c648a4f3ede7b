//! READY of a user account: the guild and the direct messages that it waits for, and its content.

use super::{Content, Session, Withheld};
use crate::model::{ListedDirects, People, State, guild_create_text, supplemental_text};
use guildhall_stdx::Instant;
use std::{collections::BTreeSet, rc::Rc};

/// What READY waits for.
#[derive(Debug)]
pub(super) struct PendingReady {
    /// The guild, while the account is in it or on its way.
    guild: Option<u64>,
    /// As it was when it let the session in.
    entered: Option<Rc<State>>,
    /// The guild has not answered in time, and READY no longer waits for it.
    is_guild_late: bool,
    directs: Option<Rc<ListedDirects>>,
    /// First for the guild, then for the direct messages.
    deadline: Instant,
}

impl PendingReady {
    fn waits_for_guild(&self) -> bool {
        self.guild.is_some() && self.entered.is_none() && !self.is_guild_late
    }
}

impl Session {
    pub fn has_pending_ready(&self) -> bool {
        self.pending_ready.is_some()
    }

    /// Starts: a bot's READY is due at once.
    pub(super) fn begin_ready(&mut self, guild: Option<u64>, deadline: Instant) {
        let parts = if self.capabilities.is_prioritized() { 2 } else { 1 };
        (0..parts).for_each(|_| self.expect(Content::Ready));
        let directs = (self.is_bot || !self.is_first_shard).then(Rc::default);
        self.pending_ready = Some(PendingReady { guild, entered: None, is_guild_late: false, directs, deadline });
        if self.is_bot {
            self.send_ready(0);
        }
    }

    /// Its account is in the guild after all.
    pub(super) fn await_guild(&mut self, guild_id: u64) {
        if let Some(pending_ready) = &mut self.pending_ready {
            (pending_ready.guild, pending_ready.is_guild_late) = (Some(guild_id), false);
        }
    }

    /// The guild attached or refused the session. Returns whether READY has the outcome.
    pub(super) fn guild_answered(&mut self, now_unix_ms: i64, state: Option<&Rc<State>>) -> bool {
        let Some(pending_ready) = &mut self.pending_ready else { return false };
        pending_ready.entered = state.cloned();
        if state.is_none() {
            pending_ready.guild = None;
            self.forget_guild();
        }
        self.finish_pending_ready(now_unix_ms);
        true
    }

    /// The guild has to let it in again. Returns whether its READY waits for that.
    pub(super) fn await_guild_again(&mut self) -> bool {
        let Some(pending_ready) = &mut self.pending_ready else { return false };
        (pending_ready.entered, pending_ready.is_guild_late) = (None, false);
        self.forget_guild();
        true
    }

    /// Discards the known guild: it follows a READY that the client has not seen, and belongs to another view.
    fn forget_guild(&mut self) {
        for expected in self.expected.iter_mut().filter(|expected| expected.content.is_of_guild()) {
            expected.withheld = Withheld::Yes;
        }
    }

    /// The partition has requested the account's direct messages, which it reads last. Returns whether it may: the
    /// guild has answered, or is late.
    pub fn directs_requested(&mut self, now: Instant, deadline: Instant) -> bool {
        let Some(pending_ready) = &mut self.pending_ready else { return true };
        let is_in_time = !pending_ready.waits_for_guild() || pending_ready.deadline <= now;
        pending_ready.is_guild_late = pending_ready.waits_for_guild();
        pending_ready.deadline = deadline;
        is_in_time
    }

    /// Its account's direct messages were read.
    pub fn gather_directs(&mut self, now_unix_ms: i64, directs: &Rc<ListedDirects>) {
        if let Some(pending_ready) = &mut self.pending_ready {
            pending_ready.directs = Some(directs.clone());
            self.finish_pending_ready(now_unix_ms);
        }
    }

    fn finish_pending_ready(&mut self, now_unix_ms: i64) {
        let Some(pending_ready) = &self.pending_ready else { return };
        if pending_ready.directs.is_some() && !pending_ready.waits_for_guild() {
            self.send_ready(now_unix_ms);
        }
    }

    /// READY does not wait for the guild any longer. It is never sent without the direct messages.
    pub fn gather_until(&mut self, now: Instant, now_unix_ms: i64) {
        let is_due = |of: &PendingReady| of.deadline <= now && of.directs.is_some();
        if self.pending_ready.as_ref().is_some_and(is_due) {
            self.send_ready(now_unix_ms);
        }
    }

    fn send_ready(&mut self, now_unix_ms: i64) {
        let Some(PendingReady { guild, entered, directs, .. }) = self.pending_ready.take() else { return };
        let (reader, threshold) = (self.reader(), self.large_threshold);
        let is_split = self.capabilities.is_prioritized();
        let guilds = match (&entered, guild) {
            (Some(state), _) => {
                let people = if is_split { People::alone(state, reader) } else { People::of(state, reader, threshold) };
                guild_create_text(state, &people, reader, threshold, self.hidden, now_unix_ms)
            }
            (None, Some(id)) => format!("id={id} unavailable=true"),
            (None, None) => String::new(),
        };
        let supplemental = is_split.then(|| {
            let people = entered.as_ref().map(|state| (state.guild_id, People::others(state, reader)));
            supplemental_text(people.as_ref().map(|(id, people)| (*id, people)))
        });
        let directs = directs.unwrap_or_default();
        let users = self.takes_users_apart().then(|| self.named_in_ready(entered.as_deref(), &directs));
        let users = users.map_or("none".to_owned(), |users| format!("{users:?}").replace(['{', '}', ' '], ""));
        let users = if users == "none" { users } else { format!("[{users}]") };
        let listed = if directs.text.is_empty() { "[]" } else { &directs.text };
        let (user, id) = (self.user, &self.id);
        let ready: Rc<str> =
            format!("READY user={user} session={id} guilds=[{guilds}] directs={listed} users={users}").into();
        // Their placeholders have sequence numbers already.
        let placeholders = self.expected.iter_mut().map(|expected| &mut expected.content).chain(&mut self.pending);
        let texts = [Some(ready), supplemental.map(Into::into)];
        for (placeholder, text) in placeholders.zip(texts.into_iter().flatten()) {
            *placeholder = Content::Own(text);
        }
    }

    /// The user, the visible users in voice, and the recipients of the user's direct messages.
    fn named_in_ready(&self, guild: Option<&State>, directs: &ListedDirects) -> BTreeSet<u64> {
        let shown = |state: &State| {
            let members = state.members.keys().copied();
            members.filter(|user| state.shows_in_voice(self.user, *user)).collect::<Vec<u64>>()
        };
        let in_guild = guild.map(shown).unwrap_or_default();
        directs.people.iter().copied().chain(in_guild).chain([self.user]).collect()
    }
}
