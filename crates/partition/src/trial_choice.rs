//! Choice of trials: which connections of a partition take part in an experiment, and which reconnect for it.
//!
//! Doors       `Core::begin_trial` at IDENTIFY and RESUME; `Partition::take_experiments`,
//!             `Partition::reconnect_trials`.
//! Invariants  X1, X2 and X3 of `trial`.
//! Not here    the arm of an account: `experiments`. Samples: `trial`.     Spec  docs/lab.md "Experiments", ADR 42.

use crate::{
    core::Core,
    experiments::Subject,
    partition::Partition,
    transport::Transport,
    trial::{ExperimentTable, RunningExperiment, Trial, TrialBegin},
    turn::Turn,
};
use guildhall_codec::DictionaryId;
use guildhall_model::AccountKind;
use guildhall_stdx::{Now, SlotKey};
use std::sync::Arc;

impl Core {
    /// A connection begins to serve a session: it takes part in the first experiment with dictionaries that has it, or
    /// in the first that has the session, if all its arms can write the stream. `resumed_after`: the sequence number
    /// that its client resumed after, none for a new session. Called before the first dispatch.
    pub(crate) fn begin_trial(&mut self, key: SlotKey, session_key: SlotKey, resumed_after: Option<u64>) {
        let Some(table) = self.experiments.clone() else { return };
        let (Some(conn), Some(session)) = (self.conns.get_mut(key), self.sessions.get(session_key)) else { return };
        let Some(compressor) = conn.codec.compressor() else { return };
        let guild_ids: Vec<u64> = session.guilds.iter().map(|guild| guild.guild_id.get()).collect();
        let subject = Subject {
            account_id: session.user.id.get(),
            platform: session.platform().name(),
            is_bot: session.kind() == AccountKind::Bot,
            guild_ids: &guild_ids,
        };
        let fits = |of: &RunningExperiment| {
            of.dictionaries.is_none() && of.arms.iter().all(|arm| self.matchers.can_write(compressor, arm))
        };
        let by_dictionary = table.requests().begin(&table, &subject, (conn.codec.encoding(), conn.codec.dictionary()));
        let by_stream = || table.assign(&subject).find(|(at, _)| table.running().get(*at).is_some_and(fits));
        let Some((at, arm)) = by_dictionary.or_else(by_stream) else { return };
        let Some(RunningExperiment { id, arms, .. }) = table.running().get(at) else { return };
        if let (Some(stream), Some(compressor)) = (arms.get(arm), conn.codec.compressor_mut()) {
            self.matchers.take_arm(compressor, stream);
        }
        conn.codec.stream_changed();
        let begin = TrialBegin {
            experiment: *id,
            arm: arm as u8,
            account_id: subject.account_id,
            is_resume: resumed_after.is_some(),
            first_seq: resumed_after.unwrap_or(0) + 1,
            wire_bytes: conn.sent.wire_bytes(),
        };
        let trial = Trial::begin(table.samples().clone(), begin);
        conn.sent.set_trial(trial);
    }

    /// A client closed a connection that serves no session, for data that it could not read.
    pub(crate) fn count_unreadable(&self, dictionary: DictionaryId) {
        if let Some(table) = &self.experiments {
            table.requests().unreadable(table, dictionary);
        }
    }
}

impl Partition {
    /// Replaces the running experiments. Connections keep the arm that they have.
    pub fn take_experiments(&mut self, table: Arc<ExperimentTable>) {
        self.core.experiments = Some(table).filter(|table| !table.running().is_empty());
    }

    /// Sends op 7 to `count` clients in an arm of the experiment other than its control, once to each. Returns the
    /// number of clients.
    pub fn reconnect_trials(
        &mut self,
        now: Now,
        experiment: u64,
        count: usize,
        transport: &mut impl Transport,
    ) -> usize {
        self.turn(now, transport, |partition, turn| partition.reconnect_arms(turn, experiment, count))
    }

    fn reconnect_arms(&mut self, turn: &mut Turn<'_, impl Transport>, experiment: u64, count: usize) -> usize {
        self.reconnect_chosen(turn, count, |conn| {
            conn.sent.trial().is_some_and(|trial| trial.is_treated_in(experiment))
        })
    }
}
