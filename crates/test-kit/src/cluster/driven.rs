//! Nodes whose drivers a test brings along: it takes their requests, and does the work of their tasks.

use super::{PartitionCommand, TestCluster, TestPartition};
use crate::socket::FakeLink;
use guildhall_model::User;
use guildhall_partition::{Fetched, Partition, SessionClaim, TransferEnd};
use guildhall_stdx::Now;
use std::sync::Arc;

impl TestCluster {
    /// Pauses a node until `unpause`: messages and timers of it wait, and it reads nothing from its clients.
    pub fn pause(&mut self, index: usize) {
        self.paused.insert(index);
    }

    /// Ends `pause`.
    pub fn unpause(&mut self, index: usize) {
        self.paused.remove(&index);
    }

    /// Runs `work` on the partition of a node, as its driver does. `run_until_idle` delivers the effects.
    pub fn drive<T>(&mut self, index: usize, work: impl FnOnce(Now, &mut Partition, &mut FakeLink) -> T) -> T {
        let TestPartition { partition, link, .. } = &mut self.partitions[index];
        work(self.clock.now(), partition, link)
    }

    /// Takes the held requests for sessions of other nodes, each with the node that has it.
    pub fn take_fetches(&mut self) -> Vec<(usize, SessionClaim, Arc<User>)> {
        self.held_fetches.drain(..).collect()
    }

    /// Takes the held requests for the rest of sessions, each with the node that has it.
    pub fn take_rests(&mut self) -> Vec<(usize, TransferEnd, Arc<User>)> {
        self.held_rests.drain(..).map(|rest| (rest.index, rest.end, rest.user)).collect()
    }

    /// Delivers the answer to a request that was taken.
    pub fn deliver_fetched(&mut self, index: usize, fetched: Fetched) {
        self.partitions[index].commands.push_back(PartitionCommand::Fetched(fetched));
        self.run_until_idle();
    }
}
