//! Outbox: the outputs of a guild, and the version that its inputs produce.
//!
//! Owns        `Output`, `Outbox`.
//! Doors       `begin_input` before each input; `touch`, `push` and `write` during it; `pop` and `commit` from the
//!             driver.
//! Invariants  O1 the version increases at most once per input, and does if the input writes. O2 outputs leave in the
//!             order in which they were added.
//! Limits      none here: the driver drains the outbox after each input, and each input has its own limit.

use crate::{
    command::{Refusal, Reply},
    job::{Job, JobId},
    record::Write,
};
use guildhall_guild_protocol::{Published, RelayId, RelayOutput};
use guildhall_stdx::count_steps;
use std::{collections::VecDeque, sync::Arc};

/// Outputs of a guild, in order.
#[derive(Debug)]
pub enum Output {
    /// To a relay, once every write before it is durable.
    Relay(RelayOutput),
    /// To the sessions of the accounts that its audience rule names, wherever they are, once every write before
    /// it is durable.
    Users(Arc<Published>),
    /// To the store.
    Write(Write),
    /// To be run somewhere else, at once or later; then `handle_job_done`, or `handle_job_lost`. It changes nothing, so
    /// it need not wait for writes.
    Job(Job),
    /// The answer to a command that was `Outcome::Later`, once every write before it is durable.
    Answer(JobId, Result<Reply, Refusal>),
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output>,
    version: u64,
    /// The version includes the current input.
    is_touched: bool,
    /// Version of the newest write.
    written: u64,
    /// Version up to which everything is durable.
    committed: u64,
}

impl Outbox {
    pub fn begin_input(&mut self) {
        self.is_touched = false;
    }

    /// Whether the current input has changed something.
    pub fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// Counts the current input in the version, once.
    pub fn touch(&mut self) -> u64 {
        if !self.is_touched {
            self.is_touched = true;
            self.version += 1;
        }
        self.version
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Continues the versions of another node, where everything was durable.
    pub fn continue_from(&mut self, version: u64) {
        debug_assert!(self.outputs.is_empty(), "a standby has no outputs");
        (self.version, self.written, self.committed, self.is_touched) = (version, version, version, false);
    }

    pub fn push(&mut self, output: Output) {
        count_steps(1);
        self.outputs.push_back(output);
    }

    pub fn write(&mut self, write: Write) {
        self.written = self.touch();
        self.push(Output::Write(write));
    }

    pub fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Drops the messages to a relay.
    pub fn drop_messages_to(&mut self, relay: RelayId) {
        self.outputs.retain(|output| !matches!(output, Output::Relay(output) if output.relay == relay));
    }

    /// Everything up to `version` is durable.
    pub fn commit(&mut self, version: u64) {
        self.committed = self.committed.max(version);
    }

    /// Whether every output was polled and every write is durable.
    pub fn is_all_durable(&self) -> bool {
        self.outputs.is_empty() && self.committed >= self.written
    }
}
