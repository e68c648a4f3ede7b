//! Callers: requests of the last minute by account, key and address.
//!
//! Owns        the clock of `guildhall_accounting::Loudest`, and the definition of one caller.
//! Doors       `note` for an answered request (`observe`); `report` for operators.
//! Limits      those of `Loudest`, for each of the three kinds.

use crate::{note::RequestNote, peer::network};
use guildhall_accounting::{Loudest, Requests};
use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// The loudest callers of the last minute.
#[derive(Debug)]
pub struct Callers {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Loudest<()>,
    accounts: Loudest<u64>,
    keys: Loudest<u64>,
    networks: Loudest<u128>,
}

/// Callers of each kind, most requests first.
#[derive(Clone, Debug, Default)]
pub struct LoudCallers {
    /// Sum over all callers.
    pub all: Requests,
    pub accounts: Vec<(u64, Requests)>,
    /// 0 is the root key.
    pub keys: Vec<(u64, Requests)>,
    /// An IPv4 address, or an IPv6 /64.
    pub addresses: Vec<(String, Requests)>,
}

impl Default for Callers {
    fn default() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }
}

impl Callers {
    pub(crate) fn note(&self, note: &RequestNote, ns: u64) {
        let at_s = self.started.elapsed().as_secs();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.all.note(at_s, (), ns);
        state.networks.note(at_s, network(note.peer), ns);
        note.user_id.into_iter().for_each(|id| state.accounts.note(at_s, id, ns));
        note.key_id.into_iter().for_each(|id| state.keys.note(at_s, id, ns));
    }

    /// At most `limit` of each kind.
    #[must_use]
    pub fn report(&self, limit: usize) -> LoudCallers {
        let at_s = self.started.elapsed().as_secs();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let networks = state.networks.report(at_s, limit);
        LoudCallers {
            all: state.all.report(at_s, 1).first().map(|(_, of)| *of).unwrap_or_default(),
            accounts: state.accounts.report(at_s, limit),
            keys: state.keys.report(at_s, limit),
            addresses: networks.into_iter().map(|(network, of)| (network_name(network), of)).collect(),
        }
    }
}

fn network_name(network: u128) -> String {
    match IpAddr::V6(Ipv6Addr::from_bits(network)).to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{address}/64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_names() {
        let check = |peer: &str, expected: &str| assert_eq!(network_name(network(peer.parse().unwrap())), expected);
        check("192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
        check("::ffff:192.0.2.7", "192.0.2.7");
    }
}
