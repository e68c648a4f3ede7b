//! Turn work: work that an input leaves to the end of its turn, because it needs the relays.
//!
//! Invariants  K2 it is empty between inputs: `Partition::turn` sees to it.

use crate::client_requests::PendingRequest;
use guildhall_model::{GuildId, UserId};
use guildhall_stdx::SlotKey;
use std::mem;

/// A session that left a guild and that its relay has not removed yet.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    pub guild_id: GuildId,
    pub relay: u16,
    pub user_id: UserId,
    pub slot: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct TurnWork {
    departures: Vec<Departure>,
    /// Sessions that a guild has taken to a node that did not fetch them.
    returns: Vec<(SlotKey, GuildId)>,
    requests: Vec<(SlotKey, GuildId, PendingRequest)>,
    /// Sessions whose connection stopped at an owed state, with its seq.
    unpaid: Vec<(SlotKey, u64)>,
}

impl TurnWork {
    /// A session left a guild.
    pub fn push_departure(&mut self, departure: Departure) {
        self.departures.push(departure);
    }

    /// Sessions that left since the last call.
    pub fn take_departures(&mut self) -> Vec<Departure> {
        mem::take(&mut self.departures)
    }

    /// A session attaches to a guild again.
    pub fn push_return(&mut self, session: SlotKey, guild_id: GuildId) {
        self.returns.push((session, guild_id));
    }

    /// Sessions that attach again, since the last call.
    pub fn take_returns(&mut self) -> Vec<(SlotKey, GuildId)> {
        mem::take(&mut self.returns)
    }

    /// A client requests something about a guild.
    pub fn push_request(&mut self, session: SlotKey, guild_id: GuildId, request: PendingRequest) {
        self.requests.push((session, guild_id, request));
    }

    /// Requests since the last call, oldest first.
    pub fn take_requests(&mut self) -> Vec<(SlotKey, GuildId, PendingRequest)> {
        mem::take(&mut self.requests)
    }

    /// A connection stopped at an owed state.
    pub fn push_unpaid(&mut self, session: SlotKey, seq: u64) {
        self.unpaid.push((session, seq));
    }

    /// Sessions that stopped at an owed state since the last call.
    pub fn take_unpaid(&mut self) -> Vec<(SlotKey, u64)> {
        mem::take(&mut self.unpaid)
    }
}
