//! Loop timer: a partition's wall time by message type.
//!
//! Owns        the numbers and names of the loop's message types, and the time stamp that each measurement ends with
//!             and the next one begins with.
//! Invariants  L1 the stamps of a turn follow each other without a gap: work between two messages counts for the later
//!             one. L2 the clock is read once per message, and once per pass over the sockets, however many there
//!             are.
//! Not here    exposition: `guildhall_telemetry::metrics`.

use crate::mailbox::{CommandKind, PartitionCommand};
use guildhall_accounting::LoopAccount;
use guildhall_guild_protocol::{RelayMessage, RelayMessageKind};
use std::{sync::Arc, time::Instant};
use strum::VariantNames;

/// Message types of the loop; those of guilds and commands follow.
#[derive(Clone, Copy, Debug, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
enum Own {
    WriteSockets,
    ReadSockets,
    Timers,
    Flush,
    HandOutOutputs,
}

/// The number of a message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(usize);

impl Kind {
    /// Sockets that have room again.
    pub const WRITE_SOCKETS: Self = Self(Own::WriteSockets as usize);
    /// Bytes of clients.
    pub const READ_SOCKETS: Self = Self(Own::ReadSockets as usize);
    pub const TIMERS: Self = Self(Own::Timers as usize);
    pub const FLUSH: Self = Self(Own::Flush as usize);
    /// Requests to the rest of the node, and connections that move.
    pub const HAND_OUT_OUTPUTS: Self = Self(Own::HandOutOutputs as usize);

    pub fn of_relay(message: &RelayMessage) -> Self {
        Self(Own::VARIANTS.len() + RelayMessageKind::from(message) as usize)
    }

    pub fn of_command(command: &PartitionCommand) -> Self {
        Self(Own::VARIANTS.len() + RelayMessageKind::VARIANTS.len() + CommandKind::from(command) as usize)
    }

    fn names() -> impl Iterator<Item = String> {
        let own = Own::VARIANTS.iter().map(|name| (*name).to_owned());
        let relays = RelayMessageKind::VARIANTS.iter().map(|name| format!("relay_{name}"));
        own.chain(relays).chain(CommandKind::VARIANTS.iter().map(|name| format!("command_{name}")))
    }
}

/// Starts the account of a partition's loop.
pub fn partition_account(index: usize) -> LoopAccount {
    LoopAccount::new("partition", index, Kind::names())
}

/// The time stamp that goes through a turn.
pub struct LoopTimer {
    account: Arc<LoopAccount>,
    stamp: Instant,
    taken_count: usize,
}

impl LoopTimer {
    pub fn new(account: Arc<LoopAccount>) -> Self {
        Self { account, stamp: Instant::now(), taken_count: 0 }
    }

    /// A turn begins: the loop has slept.
    pub fn begin(&mut self) {
        self.stamp = Instant::now();
        self.taken_count = 0;
    }

    /// Work of this type ended.
    pub fn handled(&mut self, kind: Kind) {
        if !guildhall_accounting::is_on() {
            return;
        }
        let now = Instant::now();
        self.account.handled(kind.0, now.duration_since(self.stamp).as_nanos() as u64);
        self.stamp = now;
    }

    /// A message was taken out of the mailbox. The first of a turn, which waited longest, counts for the waiting time.
    pub fn took(&mut self, handed_over_at: Instant) {
        if self.taken_count == 0 {
            self.account.waited(self.stamp.saturating_duration_since(handed_over_at).as_nanos() as u64);
        }
        self.taken_count += 1;
    }

    /// The turn has taken its messages.
    pub fn took_all(&self) {
        self.account.set_mailbox(self.taken_count);
    }

    /// When the last measurement ended.
    pub fn stamp(&self) -> Instant {
        self.stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{CloseCode, UserId};

    #[test]
    fn a_turn_is_counted_by_type() {
        let account = Arc::new(partition_account(3));
        let mut timer = LoopTimer::new(account.clone());
        timer.begin();
        let handed_over_at = timer.stamp();
        timer.handled(Kind::of_command(&PartitionCommand::Stop));
        timer.took(handed_over_at);
        timer.took(handed_over_at);
        timer.took_all();
        timer.handled(Kind::FLUSH);
        let report = account.report();
        assert_eq!((report.name, report.index, report.mailbox, report.waits.count()), ("partition", 3, 2, 1));
        let names: Vec<&str> = report.kinds.iter().map(|kind| &*kind.name).collect();
        assert_eq!(names, ["flush", "command_stop"]);
        assert_eq!(report.busy_ns, report.kinds.iter().map(|kind| kind.times.total_ns).sum::<u64>());
    }

    #[test]
    fn each_type_has_its_name() {
        let names: Vec<String> = Kind::names().collect();
        let name = |kind: Kind| &*names[kind.0];
        let close = PartitionCommand::Close {
            whose: guildhall_guild_protocol::Whose::User(UserId::new(1)),
            code: CloseCode::UnknownError,
            closed: Box::new(drop),
        };
        assert_eq!(name(Kind::of_command(&close)), "command_close");
        assert_eq!(name(Kind::HAND_OUT_OUTPUTS), "hand_out_outputs");
        let session = guildhall_guild_protocol::SessionKey {
            relay: guildhall_guild_protocol::RelayId::first(guildhall_guild_protocol::PartitionId(0)),
            slot: 0,
            generation: 0,
        };
        assert_eq!(name(Kind::of_relay(&RelayMessage::Unavailable { session })), "relay_unavailable");
    }
}
