//! Sessions that guilds transfer from one node to another.

use super::{MoveFault, PartitionCommand, TestCluster, TestPartition, mirrors};
use guildhall_model::User;
use guildhall_partition::{Fetched, HandOver, ResumeFault, TransferEnd};
use guildhall_stdx::Instant;
use std::sync::Arc;

/// How long a node waits for the messages of the guilds.
const LATE_MS: u64 = 2_000;

/// A request for the rest of a session.
pub(super) struct Rest {
    /// The node where it goes.
    pub(super) index: usize,
    pub(super) end: TransferEnd,
    pub(super) user: Arc<User>,
    since: Instant,
}

impl TestCluster {
    pub(super) fn fetch_rest(&mut self, index: usize, end: TransferEnd, user: Arc<User>) {
        let since = self.clock.now().instant;
        self.held_rests.push_back(Rest { index, end, user, since });
    }

    /// Answers requests for the rest of sessions, except those whose node waits for messages of guilds. Whether
    /// there was one.
    pub fn answer_rests(&mut self) -> bool {
        let mut has_answered = false;
        for rest in std::mem::take(&mut self.held_rests) {
            match self.end_transfer(&rest) {
                None => self.held_rests.push_back(rest),
                Some(result) => {
                    has_answered = true;
                    self.answer_rest(rest, result);
                }
            }
        }
        has_answered
    }

    /// Drops requests for the rest of sessions: their nodes do not get them.
    pub fn lose_rests(&mut self) {
        for rest in std::mem::take(&mut self.held_rests) {
            self.answer_rest(rest, Err(ResumeFault::Move));
        }
        self.run_until_idle();
    }

    /// Drops the answers to requests for the rest of sessions.
    pub fn lose_rest_answers(&mut self) {
        for rest in std::mem::take(&mut self.held_rests) {
            drop(self.end_transfer(&rest));
            self.answer_rest(rest, Err(ResumeFault::Move));
        }
        self.run_until_idle();
    }

    /// Number of sessions whose rest is requested.
    #[must_use]
    pub fn rests_count(&self) -> usize {
        self.held_rests.len()
    }

    fn end_transfer(&mut self, Rest { end, since, .. }: &Rest) -> Option<Result<HandOver, ResumeFault>> {
        let (now, fault) = (self.clock.now(), self.move_fault);
        let from = usize::from(end.node);
        if !self.is_alive(from) {
            return Some(Err(ResumeFault::Move));
        }
        let is_late = fault == MoveFault::HurriesTransfer || now.instant.ms_since(*since) >= LATE_MS;
        let TestPartition { partition, link, .. } = &mut self.partitions[from];
        let rest = partition.end_transfer(now, (end, is_late), usize::MAX, link).transpose()?;
        Some(rest.map(|over| {
            let text = serde_json::to_string(&over).expect("it is plain data");
            let mut over: HandOver = serde_json::from_str(&text).expect("as it was written");
            if fault == MoveFault::LosesLast {
                mirrors::lose_last(&mut over);
            }
            if fault == MoveFault::DoublesLast {
                mirrors::double_last(&mut over);
            }
            over
        }))
    }

    fn answer_rest(&mut self, rest: Rest, result: Result<HandOver, ResumeFault>) {
        let session_id = rest.end.session_id.as_str().into();
        let fetched = Fetched { session_id, user: rest.user, is_rest: true, result };
        self.partitions[rest.index].commands.push_back(PartitionCommand::Fetched(fetched));
    }
}
