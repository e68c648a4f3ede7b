//! A restart: the store has all published state, and each session of the hand-over returns unchanged.

use super::{Checker, Fault, fault};
use crate::{
    model::{PresenceModel, State},
    session::{Membership, Session},
};
use guildhall_guild::GuildRecord;
use guildhall_partition::Partition;
use guildhall_stdx::Now;
use std::{collections::BTreeSet, rc::Rc};

impl Checker {
    /// A partition may have missed something of the guild: to its sessions that is an outage.
    pub fn lose_sight_of_guild(&mut self, side: usize) {
        let guild_id = self.state.guild_id;
        let is_inside = |session: &&mut Session| session.membership == Membership::Inside;
        self.living(side).filter(is_inside).for_each(|session| session.lose_sight(guild_id));
    }

    /// The process ended, with nothing under way; the next one finds this of the guild. At a takeover it has also what
    /// was only in memory.
    ///
    /// # Errors
    /// If the record differs from the published state.
    pub fn process_ended(&mut self, record: &GuildRecord, takes_over: bool) -> Result<(), Fault> {
        let before = self.state.clone();
        if !takes_over && !before.voice.is_empty() {
            return fault(format!("no event reported that these left voice: {:?}", before.voice));
        }
        let last_messages = record.channels.iter().filter(|channel| channel.thread.is_none());
        let last_messages =
            last_messages.filter_map(|channel| Some((channel.id.get(), channel.last_message_id?.get()))).collect();
        let mut state = State::of(record);
        state.last_messages = last_messages;
        state.bans.clone_from(&before.bans);
        if takes_over {
            state.voice.clone_from(&before.voice);
            state.presences.clone_from(&before.presences);
            state.last_messages.clone_from(&before.last_messages);
        }
        // Members keep the ids of deleted roles in the store.
        state
            .members
            .values_mut()
            .for_each(|member| member.roles.retain(|role| record.roles.iter().any(|of| of.id.get() == *role)));
        state.is_stored_as(&before).or_else(fault)?;
        if state.last_messages != before.last_messages {
            // Passive sessions also received updates for messages of backends and deleted messages; those are not
            // repeated.
            self.sessions.iter_mut().for_each(|session| session.was_never_active = false);
        }
        self.state = Rc::new(state);
        self.relays.clear();
        if takes_over {
            self.shown.process_ended();
            return Ok(());
        }
        self.shown = PresenceModel::default();
        self.published_presences.clear();
        self.pace = Default::default();
        Ok(())
    }

    /// Sessions of the process before that have not attached are gone.
    pub fn restore_ended(&mut self) {
        self.shown.restore_ended();
        self.look_at_presences();
    }

    /// The partitions of the next process took over the sessions with these ids.
    pub fn restored(
        &mut self,
        now: Now,
        partitions: &[&Partition],
        ids: &BTreeSet<String>,
        takes_over: bool,
    ) -> Result<(), Fault> {
        self.by_key.clear();
        self.living = Default::default();
        for (at, session) in self.sessions.iter_mut().enumerate().filter(|(_, session)| session.gone.is_none()) {
            if !ids.contains(&*session.id) {
                session.end("there was no room for it");
                continue;
            }
            let found = partitions[session.side].sessions().find(|product| product.id == session.id);
            let Some(product) = found else {
                return fault(format!("session {} was left, and is not there", session.id));
            };
            session.restore(now.instant, product.key, takes_over);
            self.by_key.insert((session.side, product.key), at);
            self.living[session.side].push(at);
        }
        Ok(())
    }

    /// Ends the wait of restored sessions for the guild: they lose it.
    pub fn end_restores(&mut self, side: usize) {
        let guild_id = self.state.guild_id;
        self.living(side).filter(|session| session.is_restoring()).for_each(|session| session.lose_sight(guild_id));
    }
}
