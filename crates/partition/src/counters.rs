//! Counters of one partition; the driver reads them for logs and metrics.
//!
//! Invariants  plain numbers of one thread: a delivery costs an addition or two, and no line that another core writes.

use guildhall_model::CloseCode;

/// WebSocket close codes with a counter each.
const WEBSOCKET_CODES: [u16; 8] = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011];
const SLOTS: usize = CloseCode::ALL.len() + WEBSOCKET_CODES.len() + 1;

/// Close frames by code: a closed set; all other codes share one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closes([u64; SLOTS]);

impl Closes {
    fn slot(code: Option<u16>) -> usize {
        let gateway = CloseCode::ALL.iter().position(|known| Some(known.code()) == code);
        let websocket = || WEBSOCKET_CODES.iter().position(|known| Some(*known) == code);
        gateway.or_else(|| websocket().map(|at| CloseCode::ALL.len() + at)).unwrap_or(SLOTS - 1)
    }

    pub(crate) fn count(&mut self, code: Option<u16>) {
        self.0[Self::slot(code)] += 1;
    }

    /// Each code with its number of closes; none for the other codes together.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u16>, u64)> {
        let codes = CloseCode::ALL.iter().map(|code| code.code()).chain(WEBSOCKET_CODES).map(Some);
        codes.chain([None]).zip(self.0)
    }
}

impl std::ops::AddAssign for Closes {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        /// Counters of one partition, since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: $type,)* }

        impl std::ops::AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    conns_total: u64,
    /// Sessions started by IDENTIFY.
    identified_total: u64,
    /// Sessions resumed by RESUME.
    resumed_total: u64,
    /// Sessions restored from the previous process.
    restored_total: u64,
    /// Connections that the previous process passed on.
    adopted_total: u64,
    /// Sessions that other nodes sent here.
    moved_here_total: u64,
    /// Sessions that went to other nodes.
    moved_away_total: u64,
    /// RESUMEs answered with op 9 `false`.
    resumes_refused_total: u64,
    /// Sessions forgotten: expired, destroyed, or past their replay limits.
    sessions_ended_total: u64,
    /// Sessions whose connection was closed because their token expired.
    sessions_expired_total: u64,
    /// Dispatches appended to sessions, connected or not.
    dispatches_total: u64,
    /// Connections aborted because their client did not read.
    slow_consumers_total: u64,
    /// Outages of a guild that sessions saw because its relay fell behind: one per outage and session.
    resets_total: u64,
    /// Gaps in guilds' streams, after each of which a relay requested a snapshot.
    resyncs_total: u64,
    /// Messages compressed outside of a stream, once for all recipients or for one.
    deflate_shared_bodies_total: u64,
    /// Dispatches that a RESUME left out because the session may no longer see them.
    replay_suppressed_total: u64,
    /// Close frames that the node sent first.
    closed_by_us: Closes,
    /// Close frames that clients sent first.
    closed_by_clients: Closes,
    /// Connections that ended without a close frame, from either side.
    aborted_total: u64,
    /// Bytes received.
    received_bytes: u64,
    /// Bytes of received messages, inflated.
    received_message_bytes: u64,
    /// Bytes sent on WebSocket connections, frame headers included.
    sent_bytes: u64,
    /// Bytes of sent dispatch bodies before compression, without envelopes.
    sent_body_bytes: u64,
}
