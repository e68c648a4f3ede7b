//! Partition: connections, sessions and relays of one thread, without sockets or clock. [`Partition`] has the contract.
//!
//! Owns        the machine and its inputs. Each input is one `Partition::turn`.
//! Limits      `PartitionConfig`.
//! Not here    sockets, threads: `guildhall-net`.

use crate::{
    config::PartitionConfig,
    core::Core,
    counters::Counters,
    guilds::GuildRelays,
    self_check::Checked,
    sent::SentTable,
    transport::{Gatekeeper, Output, Transport},
};
use guildhall_codec::MessageInflater;
use guildhall_model::{GuildId, UserId};
use guildhall_relay::Relay;
use guildhall_session::Session;
use guildhall_stdx::{Instant, Now, SlotKey};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// One thread's connections, sessions and relays, as a machine. Its driver calls methods of four kinds:
///
/// 1. *Inputs* take the time and, with three exceptions, the [`Transport`]: `accept*`, `handle_*`, `flush`,
///    `close_all`, `close_sessions`, `publish_to_users`, `take_back_upgrades`, `send_reconnects`, `hand_over`,
///    `fail_pending_restores`. The exceptions `handle_joined`, `leave_voice` and `take_over` write to no socket. Time
///    never decreases from one input to the next.
/// 2. *Outputs*: [`poll_output`](Self::poll_output) returns requests to the rest of the node.
/// 3. *Deadlines*: [`next_deadline`](Self::next_deadline) and [`wants_flush`](Self::wants_flush).
/// 4. *Views*, which change nothing: counters, `sessions`, `session_page` and others.
///
/// # Order of calls
///
/// - A driver collects inputs, calls `flush` after the last of them, then drains `poll_output`. It may drain after each
///   input as well. Outputs must reach each guild in the order in which they were polled.
/// - Before `accept*` and `handle_transferred` the driver registers the socket under
///   [`next_conn_key`](Self::next_conn_key). No other input may come in between, so that the input returns the same
///   key.
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
pub struct Partition {
    pub(crate) core: Core,
    pub(crate) relays: HashMap<GuildId, GuildRelays>,
    pub(crate) last_epoch: u32,
    /// Who joined what lately: an account's guilds may have been read just before, and its session start just after.
    pub(crate) joins: VecDeque<(Instant, UserId, GuildId)>,
    /// Tokens whose sessions were ended here: a connection that came with one may be on its way from another partition.
    pub(crate) closed_tokens: VecDeque<(UserId, u64)>,
}

impl Partition {
    /// A partition without connections.
    #[must_use]
    pub fn new(config: PartitionConfig, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        Self {
            core: Core::new(config, gatekeeper),
            relays: HashMap::new(),
            last_epoch: 0,
            joins: VecDeque::new(),
            closed_tokens: VecDeque::new(),
        }
    }

    /// What has happened so far.
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
        self.core.attached_count
    }

    /// Memory of compression contexts and inflate histories, for inspection: it reads every connection.
    #[must_use]
    pub fn compression_bytes(&self) -> usize {
        let of_conns: usize = self.core.conns.iter().map(|(_, conn)| conn.compression_bytes()).sum();
        let inflater = self.core.inflater.as_ref().map_or(0, MessageInflater::memory_bytes);
        of_conns + self.core.deflater.memory_bytes() + inflater
    }

    /// Bytes of READY and GUILD_CREATE that were made and are not written yet.
    #[must_use]
    pub fn rendered_bytes(&self) -> usize {
        self.core.rendered_bytes
    }

    /// Whether somebody waits to have READY or GUILD_CREATE made: until others have read theirs, or are cut for not
    /// reading.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.core.waiting_to_render.is_empty()
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
        self.relays.values().flat_map(|relays| relays.values().map(|entry| &entry.relay))
    }

    /// The next request to the rest of the node. The driver drains it after each input.
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
        !self.core.dirty.is_empty() || !self.core.waiting_for_chunks.is_empty() || self.core.has_turn_to_render()
    }

    /// Writes what connections got in a batch.
    pub fn flush(&mut self, now: Now, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.core.flush(turn));
    }

    /// Takes over other limits, and how the streams of new connections are written. They hold from the next time
    /// somebody is measured by them; a connection's message size stays what it was.
    pub fn take_limits(&mut self, from: &PartitionConfig) {
        self.core.config.take_limits(from);
        self.core.matchers.take_settings(from.stream_codec);
    }
}

