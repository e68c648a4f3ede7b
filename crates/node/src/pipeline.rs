//! Commit pipeline: holds the outputs of a guild's inputs until they are durable.
//!
//! Owns        one guild's commit units in order: a commit unit has the writes, events and answers of one input.
//! Doors       `push`; `begin_commit` and `commit_done` around a commit; `pop_ready` for units that may leave.
//! Invariants  C1 a commit unit leaves only when its own writes and those of every unit before it are durable. C2 units
//!             leave in the order of arrival. C3 one commit at a time; units that arrive during it join the next. C4 a
//!             commit unit without writes leaves at once if no earlier one is pending. C5 the writes of a unit, an
//!             entry of the audit log with its change, are in one batch: all or none. (tests `c*_*`; of C5
//!             `a_faulty_batch_leaves_nothing` in the contract of stores)
//! Limits      `UNITS_MAX`: a full pipeline accepts no further inputs (`GuildHost` checks `is_full`). Units without an
//!             input (timers, lagging relays) may exceed it.
//! Not here    the store, the relays: `GuildHost` connects them.

use crate::{directory::change_of, mailbox::Answer, request_trace::UnitTrace};
use guildhall_cluster::DirectoryChange;
use guildhall_guild::{Job, JobId, Output, Refusal, Write};
use guildhall_guild_protocol::{Published, RelayId, RelayOutput};
use guildhall_model::UserId;
use std::{collections::VecDeque, sync::Arc, time::Instant};
use tokio::sync::oneshot;

/// Units of one guild that may wait. A commit takes milliseconds and includes all of them.
const UNITS_MAX: usize = 1024;

/// Effects of one input.
#[derive(Default)]
pub(crate) struct CommitUnit {
    /// Moved out when its commit begins.
    pub(crate) writes: Vec<Write>,
    pub(crate) relay: Vec<RelayOutput>,
    /// To accounts' sessions.
    pub(crate) users: Vec<Arc<Published>>,
    /// Late answers to commands. The guild host moves them to `answers`, because it knows the callers.
    pub(crate) late: Vec<(JobId, Answer)>,
    /// To be run at once. Moved out when the unit is made.
    pub(crate) jobs: Vec<Job>,
    pub(crate) answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    /// Of the guild, after the input.
    pub(crate) version: u64,
    /// Changes of the directory by the writes.
    pub(crate) changes: Vec<DirectoryChange>,
    /// Accounts that joined: their sessions are notified.
    pub(crate) joined: Vec<UserId>,
    /// None: its request has no trace.
    pub(crate) trace: Option<UnitTrace>,
    /// Its writes are not durable yet.
    uncommitted: bool,
}

impl CommitUnit {
    pub(crate) fn add(&mut self, output: Output) {
        match output {
            Output::Relay(output) => self.relay.push(output),
            Output::Users(published) => self.users.push(published),
            Output::Job(job) => self.jobs.push(job),
            Output::Answer(command, answer) => self.late.push((command, answer)),
            Output::Write(write) => {
                self.changes.extend(change_of(&write));
                self.writes.push(write);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.relay.is_empty() && self.users.is_empty() && self.answers.is_empty()
    }

    /// Whether the unit deletes the guild.
    pub(crate) fn deletes_guild(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, DirectoryChange::GuildGone(_)))
    }

    fn refuse(self) {
        for (sender, _) in self.answers {
            // The caller may have stopped waiting.
            let _ = sender.send(Err(Refusal::Unavailable));
        }
    }
}

#[derive(Default)]
pub(crate) struct Pipeline {
    units: VecDeque<CommitUnit>,
    /// Number of units at the front that belong to the running commit.
    committing_count: usize,
}

impl Pipeline {
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.units.len() >= UNITS_MAX
    }

    pub(crate) fn push(&mut self, mut unit: CommitUnit) {
        unit.uncommitted = !unit.writes.is_empty();
        self.units.push_back(unit);
    }

    /// Whether the next ready unit has events for accounts.
    pub(crate) fn publishes_to_users_next(&self) -> bool {
        self.committing_count == 0 && self.units.front().is_some_and(|unit| !unit.uncommitted && !unit.users.is_empty())
    }

    /// The next unit that may go out.
    pub(crate) fn pop_ready(&mut self) -> Option<CommitUnit> {
        if self.committing_count > 0 || self.units.front()?.uncommitted { None } else { self.units.pop_front() }
    }

    /// All pending writes, for a new commit. None if a commit is running.
    pub(crate) fn begin_commit(&mut self) -> Option<Vec<Write>> {
        if self.committing_count > 0 {
            return None;
        }
        let writes: Vec<Write> = self.units.iter_mut().flat_map(|unit| unit.writes.drain(..)).collect();
        if writes.is_empty() {
            return None;
        }
        self.committing_count = self.units.len();
        let mut traces = self.units.iter_mut().filter(|unit| unit.uncommitted).filter_map(|unit| unit.trace.as_mut());
        if let Some(first) = traces.next() {
            let now = Instant::now();
            first.commit_begins(now);
            traces.for_each(|trace| trace.commit_begins(now));
        }
        Some(writes)
    }

    /// Records that the running commit is durable. Returns the version of the guild that it reached.
    pub(crate) fn commit_done(&mut self) -> u64 {
        let committed = std::mem::take(&mut self.committing_count);
        let mut version = 0;
        let mut now = None;
        for unit in self.units.iter_mut().take(committed) {
            unit.uncommitted = false;
            version = unit.version;
            if let Some(trace) = &mut unit.trace {
                trace.commit_ends(*now.get_or_insert_with(Instant::now), committed);
            }
        }
        version
    }

    /// A commit failed: later results are void as well. All waiting callers are refused.
    pub(crate) fn fail(&mut self) {
        self.committing_count = 0;
        self.units.drain(..).for_each(CommitUnit::refuse);
    }

    /// Removes waiting messages to a relay that has lost an earlier one.
    pub(crate) fn cut_off(&mut self, relay: RelayId) {
        for unit in &mut self.units {
            unit.relay.retain(|output| output.relay != relay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild::Reply;
    use guildhall_guild_protocol::{PartitionId, RelayMessage, SessionKey};
    use guildhall_model::GuildId;

    fn relay(partition: u16) -> RelayId {
        RelayId::first(PartitionId(partition))
    }

    fn message(relay: RelayId) -> RelayOutput {
        let session = SessionKey { relay, slot: 0, generation: 0 };
        RelayOutput { guild_id: GuildId::new(1), relay, epoch: 1, message: RelayMessage::Unavailable { session } }
    }

    fn unit(version: u64, writes: bool) -> (CommitUnit, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut unit = CommitUnit { version, answers: vec![(sender, Ok(Reply::Done))], ..CommitUnit::default() };
        unit.add(Output::Relay(message(relay(version as u16 % 2))));
        if writes {
            unit.add(Output::Write(Write::DeleteMember(GuildId::new(1), UserId::new(version))));
        }
        (unit, receiver)
    }

    fn ready(pipeline: &mut Pipeline) -> Vec<u64> {
        std::iter::from_fn(|| pipeline.pop_ready()).map(|unit| unit.version).collect()
    }

    fn written(writes: Option<Vec<Write>>) -> Vec<u64> {
        let id = |write| if let Write::DeleteMember(_, id) = write { id.get() } else { unreachable!() };
        writes.unwrap_or_default().into_iter().map(id).collect()
    }

    #[test]
    fn c4_a_group_without_writes_leaves_at_once_when_nothing_pends() {
        let mut pipeline = Pipeline::default();
        pipeline.push(unit(1, false).0);
        assert_eq!(ready(&mut pipeline), [1]);
        assert!(pipeline.begin_commit().is_none());
    }

    #[test]
    fn c1_c2_c3_groups_wait_for_the_commits_before_them() {
        let mut pipeline = Pipeline::default();
        for version in 1..=3 {
            pipeline.push(unit(version, version != 2).0);
        }
        assert!(ready(&mut pipeline).is_empty());
        assert_eq!(written(pipeline.begin_commit()), [1, 3]);
        for version in 4..=6 {
            pipeline.push(unit(version, version == 5).0);
        }
        assert!(pipeline.begin_commit().is_none(), "one commit at a time");
        assert!(ready(&mut pipeline).is_empty());
        assert_eq!(pipeline.commit_done(), 3);
        assert_eq!(ready(&mut pipeline), [1, 2, 3, 4]);
        assert_eq!(written(pipeline.begin_commit()), [5]);
        assert!(ready(&mut pipeline).is_empty());
        assert_eq!(pipeline.commit_done(), 6);
        assert_eq!(ready(&mut pipeline), [5, 6]);
        assert!(pipeline.is_empty());
    }

    #[test]
    fn a_failed_commit_refuses_everything_behind_it() {
        let mut pipeline = Pipeline::default();
        let mut receivers = Vec::new();
        for version in 1..=4 {
            let (unit, receiver) = unit(version, version % 2 == 1);
            pipeline.push(unit);
            receivers.push(receiver);
            if version == 2 {
                pipeline.begin_commit().expect("something is to be written");
            }
        }
        pipeline.fail();
        assert!(pipeline.is_empty() && ready(&mut pipeline).is_empty());
        assert!(pipeline.begin_commit().is_none());
        for mut receiver in receivers {
            assert!(matches!(receiver.try_recv(), Ok(Err(Refusal::Unavailable))));
        }
    }

    #[test]
    fn a_relay_that_is_cut_off_gets_nothing_that_waits() {
        let mut pipeline = Pipeline::default();
        (1..=4).for_each(|version| pipeline.push(unit(version, true).0));
        pipeline.cut_off(relay(1));
        pipeline.begin_commit().expect("something is to be written");
        pipeline.commit_done();
        let to: Vec<usize> = std::iter::from_fn(|| pipeline.pop_ready()).map(|unit| unit.relay.len()).collect();
        assert_eq!(to, [0, 1, 0, 1]);
    }
}
