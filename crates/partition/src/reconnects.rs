//! Reconnects: op 7, which makes clients connect again and resume.
//!
//! Owns        op 7 to clients with larger compression contexts, and to all clients of a node that stops.
//! Limits      `grace_ms` of the caller: a client that has not left by then is closed with 4000.
//! Not here    the pace: `guildhall-net` (drain), `guildhall-memory-budget` (contexts).     Spec  docs/protocol.md §1.12.

use crate::{
    conn::{Conn, Control, Phase},
    partition::Partition,
    transport::Transport,
    turn::Turn,
};
use guildhall_model::CloseCode;
use guildhall_stdx::{Instant, Now, SlotKey};

/// How far a partition is with asking its clients to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Who were asked just now.
    pub asked_count: usize,
    /// Who are still to be asked.
    pub unasked_count: usize,
    /// Connections that are there, asked or not.
    pub conns_count: usize,
}

impl Partition {
    /// Asks so many clients whose connection has a larger compression context to go away and resume (op 7), each once:
    /// they come back with a usual one. How many were asked.
    pub fn take_back_upgrades(&mut self, now: Now, count: usize, link: &mut impl Transport) -> usize {
        self.turn(now, link, |partition, turn| partition.reclaim_upgrades(turn, count))
    }

    fn reclaim_upgrades(&mut self, turn: &mut Turn<'_, impl Transport>, count: usize) -> usize {
        let is_larger = |conn: &&Conn| conn.compressor.as_ref().is_some_and(|stream| stream.is_upgraded());
        let chosen =
            |conn: &&Conn| is_larger(conn) && !conn.is_asked_to_leave && matches!(conn.phase, Phase::Established(_));
        let conns = self.core.conns.iter().filter(|(_, conn)| chosen(conn));
        let keys: Vec<SlotKey> = conns.map(|(key, _)| key).take(count).collect();
        for key in &keys {
            let Some(conn) = self.core.conns.get_mut(*key) else { continue };
            conn.is_asked_to_leave = true;
            let encoding = conn.encoding;
            let payload = self.core.fixed(encoding).reconnect.clone();
            self.core.control(turn, *key, Control::Payload(payload));
        }
        keys.len()
    }

    /// Asks `count` more clients to go away and resume (op 7), whatever they are doing. Who has not gone `grace_ms`
    /// later is closed with 4000. What came of it, over all of them.
    pub fn send_reconnects(&mut self, now: Now, count: usize, grace_ms: u64, link: &mut impl Transport) -> Leaving {
        self.turn(now, link, |partition, turn| partition.reconnect_some(turn, count, grace_ms))
    }

    fn reconnect_some(&mut self, turn: &mut Turn<'_, impl Transport>, count: usize, grace_ms: u64) -> Leaving {
        let is_unasked = |conn: &Conn| conn.leave_by == Instant(u64::MAX) && !matches!(conn.phase, Phase::Closing);
        let mut unasked: Vec<SlotKey> =
            self.core.conns.iter().filter(|(_, conn)| is_unasked(conn)).map(|(key, _)| key).collect();
        let later = unasked.split_off(count.min(unasked.len()));
        let leave_by = turn.now.instant.after_ms(grace_ms);
        for key in &unasked {
            let Some(conn) = self.core.conns.get_mut(*key) else { continue };
            (conn.is_asked_to_leave, conn.leave_by) = (true, leave_by);
            let encoding = conn.encoding;
            let payload = self.core.fixed(encoding).reconnect.clone();
            self.core.arm_timer(leave_by, *key);
            self.core.control(turn, *key, Control::Payload(payload));
        }
        Leaving { asked_count: unasked.len(), unasked_count: later.len(), conns_count: self.core.conns.len() }
    }

    /// Closes every connection so that its client comes back and resumes.
    pub fn close_all(&mut self, now: Now, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| {
            for key in partition.core.conns.keys() {
                partition.core.close(turn, key, CloseCode::UnknownError);
            }
        });
    }
}
