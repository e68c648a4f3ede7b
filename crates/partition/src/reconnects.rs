//! Reconnects: op 7, which makes clients connect again and resume.
//!
//! Owns        op 7 to clients with larger compression contexts, and to all clients of a node that stops.
//! Limits      `grace_ms` of the caller: a client that has not left by then is closed with 4000.
//! Not here    the pace: `guildhall-net` (drain), `guildhall-memory-budget` (contexts).     Spec
//!             docs/protocol/reference.md §1.12.

use crate::{
    conn::{Conn, Control, Phase},
    partition::Partition,
    transport::Transport,
    turn::Turn,
};
use guildhall_model::CloseCode;
use guildhall_stdx::{Now, SlotKey};

/// Progress of a partition whose clients are to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Clients that received op 7 now.
    pub asked_count: usize,
    /// Clients that have not received op 7.
    pub unasked_count: usize,
    /// Connections that are left.
    pub conns_count: usize,
}

impl Partition {
    /// Sends op 7 to `count` clients whose connection has a larger compression context, once to each: they resume with
    /// a usual one. Returns the number of clients.
    pub fn take_back_upgrades(&mut self, now: Now, count: usize, transport: &mut impl Transport) -> usize {
        self.turn(now, transport, |partition, turn| partition.reclaim_upgrades(turn, count))
    }

    fn reclaim_upgrades(&mut self, turn: &mut Turn<'_, impl Transport>, count: usize) -> usize {
        self.reconnect_chosen(turn, count, |conn| conn.codec.compressor().is_some_and(|stream| stream.is_upgraded()))
    }

    /// Sends op 7 to at most `count` connections with a session for which `is_chosen` holds, once to each.
    /// Returns their number.
    pub(crate) fn reconnect_chosen(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        count: usize,
        is_chosen: impl Fn(&Conn) -> bool,
    ) -> usize {
        let is_due = |conn: &Conn| !conn.has_reconnect && matches!(conn.phase, Phase::Established(_));
        let conns = self.core.conns.iter().filter(|(_, conn)| is_due(conn) && is_chosen(conn));
        let keys: Vec<SlotKey> = conns.map(|(key, _)| key).take(count).collect();
        for key in &keys {
            let Some(conn) = self.core.conns.get_mut(*key) else { continue };
            conn.has_reconnect = true;
            let encoding = conn.codec.encoding();
            let payload = self.core.fixed(encoding).reconnect.clone();
            self.core.control(turn, *key, Control::Payload(payload));
        }
        keys.len()
    }

    /// Sends op 7 to `count` more clients. A client that has not left after `grace_ms` is closed with 4000.
    pub fn send_reconnects(
        &mut self,
        now: Now,
        count: usize,
        grace_ms: u64,
        transport: &mut impl Transport,
    ) -> Leaving {
        self.turn(now, transport, |partition, turn| partition.reconnect_some(turn, count, grace_ms))
    }

    fn reconnect_some(&mut self, turn: &mut Turn<'_, impl Transport>, count: usize, grace_ms: u64) -> Leaving {
        let is_unasked = |conn: &Conn| conn.timing.leave_by().is_none() && !matches!(conn.phase, Phase::Closing);
        let mut unasked: Vec<SlotKey> =
            self.core.conns.iter().filter(|(_, conn)| is_unasked(conn)).map(|(key, _)| key).collect();
        let later = unasked.split_off(count.min(unasked.len()));
        let leave_by = turn.now.instant.after_ms(grace_ms);
        for key in &unasked {
            let Some(conn) = self.core.conns.get_mut(*key) else { continue };
            conn.has_reconnect = true;
            conn.timing.set_leave_by(leave_by);
            let encoding = conn.codec.encoding();
            let payload = self.core.fixed(encoding).reconnect.clone();
            self.core.arm_timer(leave_by, *key);
            self.core.control(turn, *key, Control::Payload(payload));
        }
        Leaving { asked_count: unasked.len(), unasked_count: later.len(), conns_count: self.core.conns.len() }
    }

    /// Closes every connection with 4000, after which clients resume.
    pub fn close_all(&mut self, now: Now, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| {
            for key in partition.core.conns.keys() {
                partition.core.close(turn, key, CloseCode::UnknownError);
            }
        });
    }
}
