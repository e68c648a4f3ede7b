//! Partition: connections, sessions and relays of one thread, without sockets or clock. [`Partition`] has the contract.
//!
//! Owns        the machine and its inputs. Each input with a [`Transport`] is one `Partition::turn`.
//! Limits      `PartitionConfig`.
//! Not here    sockets, threads: `guildhall-net`.

use crate::{
    config::PartitionConfig,
    context_budget::ContextMoves,
    core::Core,
    counters::Counters,
    recent_joins::{ClosedTokens, RecentJoins},
    relay_table::RelayTable,
    self_check::Checked,
    sent::SentTable,
    transport::{Gatekeeper, Output, Transport},
};
use guildhall_relay::Relay;
use guildhall_session::Session;
use guildhall_stdx::{Instant, Now, SlotKey};
use std::sync::Arc;

/// One thread's connections, sessions and relays, as a machine. Its driver calls methods of four kinds:
///
/// 1. *Inputs* take the time and the [`Transport`]: `accept*`, `handle_*`, `flush`, `close_all`, `close_sessions`,
///    `publish_to_users`, `take_back_upgrades`, `send_reconnects`, `hand_over`, `fail_pending_restores`. Exceptions
///    write to no socket and take no transport: `handle_joined`, `leave_voice`, `take_over`, and `take_limits`, which
///    also takes no time. Time never decreases from one input to the next.
/// 2. *Outputs*: [`poll_output`](Self::poll_output) returns requests to the rest of the node.
/// 3. *Deadlines*: [`next_deadline`](Self::next_deadline) and [`wants_flush`](Self::wants_flush).
/// 4. *Views*, which change nothing: counters, `sessions`, `session_page` and others.
///
/// # Order of calls
///
/// - A driver collects inputs, calls `flush` after the last of them, then drains `poll_output`. It may drain after each
///   input as well. Outputs must reach each guild in the order in which they were polled.
/// - Before `accept*` and `handle_transferred` the driver registers the socket under
///   [`next_conn_key`](Self::next_conn_key), with no other input in between, so that the input returns the same key.
/// - A connection leaves by [`Transport::transfer`], [`Transport::drop_conn`] or [`Transport::reset_conn`]. Its key is
///   free when that call returns.
/// - `handle_timers` is due when `next_deadline` has passed. Earlier calls are harmless.
/// - While `wants_flush` is true the driver must not wait for sockets without a `flush` before.
/// - After `Transport::send` was short, the driver calls `handle_writable` once the socket has room again.
/// - The answers to `Output::Authenticate`, `FetchMessages` and `FetchDirects` are inputs, at any later time. Answers
///   for a connection or session that has ended are ignored.
///
/// # Bytes
///
/// Frames leave through [`Transport`] during the input that caused them, not by a `poll_transmit`: a recipient's frame
/// is written from the body that all recipients share, without a copy or a queue (docs/adr/0008).
///
/// # Limits
///
/// - Per connection, session and relay: [`PartitionConfig`], each with what happens past it. A connection is closed or
///   aborted, a session ended, a request refused; nothing waits without bound except READY and GUILD_CREATE, which wait
///   for `rendered_bytes_max` until the clients before them have read theirs or are disconnected for not reading.
/// - Per connection: 64 control messages and 64 KiB of input before the token is checked; past them the connection is
///   aborted, or closed with 4008. The fifth op 9 is close 4008.
/// - Per flush: 8 member chunks; the rest are made by the next flush, which is due at once (`wants_flush`).
/// - Outputs are bounded by the inputs that caused them. The driver drains them; the partition has no limit of its own.
/// - What may be forgotten: the oldest of 4,096 joins and of 4,096 ended tokens.
pub struct Partition {
    pub(crate) core: Core,
    pub(crate) relays: RelayTable,
    pub(crate) joins: RecentJoins,
    pub(crate) closed_tokens: ClosedTokens,
}

impl Partition {
    /// A partition without connections.
    #[must_use]
    pub fn new(config: PartitionConfig, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        Self {
            core: Core::new(config, gatekeeper),
            relays: RelayTable::default(),
            joins: RecentJoins::default(),
            closed_tokens: ClosedTokens::default(),
        }
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { deflate_shared_bodies_total: self.core.deflater.compressed_count(), ..self.core.counters }
    }

    /// Bytes by dispatch type, codec and encoding.
    #[must_use]
    pub fn sent(&self) -> &SentTable {
        &self.core.sent
    }

    /// Counters of its shared-match streams, and the heap of their search.
    #[must_use]
    pub fn shared_match(&self) -> (guildhall_shared_match::Counters, usize) {
        self.core.matchers.counters()
    }

    /// Streams that left their library context for shared-match.
    #[must_use]
    pub fn context_moves(&self) -> ContextMoves {
        self.core.matchers.context_budget.counts()
    }

    /// Results of the self-check of shared-match streams.
    #[must_use]
    pub fn shared_match_checked(&self) -> Checked {
        self.core.matchers.checked()
    }

    /// Corrupts the message of a shared-match stream after `after` others, for tests of the self-check.
    #[doc(hidden)]
    pub fn spoil_shared_message(&mut self, after: u32) {
        self.core.matchers.spoil(after);
    }

    /// Fixes the search effort of shared-match, for tests. Must be called before the first connection.
    #[doc(hidden)]
    pub fn set_search_effort(&mut self, effort: Option<guildhall_shared_match::Effort>) {
        self.core.matchers.set_effort(effort);
    }

    /// Connections now.
    #[must_use]
    pub fn conns_count(&self) -> usize {
        self.core.conns.len()
    }

    /// Sessions now, connected or not.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.core.sessions.len()
    }

    /// Number of sessions that have a connection.
    #[must_use]
    pub fn attached_count(&self) -> usize {
        self.core.sessions.attached_count()
    }

    /// Memory of compression contexts and inflate histories, for inspection: it reads every connection.
    #[must_use]
    pub fn compression_bytes(&self) -> usize {
        let of_conns: usize = self.core.conns.iter().map(|(_, conn)| conn.compression_bytes()).sum();
        of_conns + self.core.deflater.memory_bytes() + self.core.inflate.memory_bytes()
    }

    /// Bytes of READY and GUILD_CREATE that were made and are not written yet.
    #[must_use]
    pub fn rendered_bytes(&self) -> usize {
        self.core.render.bytes()
    }

    /// Whether a connection waits to render READY or GUILD_CREATE, until others have read theirs or are disconnected.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.core.render.has_waiting()
    }

    /// All sessions, for checkers and inspection.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.core.sessions.iter().map(|(_, session)| session)
    }

    #[must_use]
    pub fn session(&self, key: SlotKey) -> Option<&Session> {
        self.core.sessions.get(key)
    }

    /// All relays, for checkers and inspection.
    pub fn relays(&self) -> impl Iterator<Item = &Relay> {
        self.relays.iter().map(|entry| &entry.relay)
    }

    /// The next request to the rest of the node. The driver drains them after `flush`, and may do so after each input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.outputs.pop_front()
    }

    /// Time at which `handle_timers` is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.core.timers.next()
    }

    /// Whether a `flush` has anything to do.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        !self.core.flush_queue.is_empty() || self.core.render.has_turn(self.core.config.rendered_bytes_max)
    }

    /// Writes the dispatches that connections got since the last flush.
    pub fn flush(&mut self, now: Now, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.core.flush(turn));
    }

    /// Replaces the limits, and the stream codec of new connections. A limit applies from its next check on; the
    /// message size of a connection does not change.
    pub fn take_limits(&mut self, from: &PartitionConfig) {
        self.core.config.take_limits(from);
        self.core.matchers.take_settings(from.stream_codec);
    }
}
