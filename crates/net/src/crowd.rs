//! Crowd: sockets that have not sent their first request, and which of them makes room for another.
//!
//! Owns        the handshakes in progress, ranked by network.
//! Doors       `add` and `remove`; `expire`, `evict_of` and `evict` end handshakes of others.
//! Invariants  C1 room is made in the network that holds most: the /48, of it the /56, of it the /64 (IPv4: the /24, of
//!             it the address). Its oldest handshake goes. C2 of networks that hold the same number, the one that has
//!             not changed for longest makes room. C3 while known addresses hold no more than their reserve, none of
//!             theirs goes. (tests `c*_*`)
//! Limits      none of its own: `admission` calls it with its limits. Each call costs a few steps of a tree.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Levels of networks: all, /48, /56, /64; for IPv4 all, /24, and the address twice.
const LEVELS: usize = 4;
const ADDRESS_LEVEL: usize = LEVELS - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Network {
    level: u8,
    is_known: bool,
    /// Prefix; IPv4 addresses are mapped.
    bits: u128,
}

impl Network {
    /// The networks of an address, from all addresses to itself.
    fn path(address: IpAddr, is_known: bool) -> [Self; LEVELS] {
        let (bits, lengths) = match address.to_canonical() {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), [0, 120, 128, 128]),
            IpAddr::V6(v6) => (v6.to_bits(), [0, 48, 56, 64]),
        };
        std::array::from_fn(|level| {
            let bits = bits & u128::MAX.checked_shl(128 - lengths[level]).unwrap_or(0);
            Self { level: level as u8, is_known, bits }
        })
    }

    fn root(is_known: bool) -> Self {
        Self { level: 0, is_known, bits: 0 }
    }
}

/// A network among those of the next larger one. The last one makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    parent: Network,
    count: u32,
    changed_at: Reverse<u64>,
    network: Network,
}

#[derive(Clone, Copy, Debug, Default)]
struct Occupancy {
    count: u32,
    /// Number of the change.
    changed_at: u64,
}

#[derive(Debug)]
struct Pending {
    path: [Network; LEVELS],
    began: Instant,
    /// Ends the socket.
    end: oneshot::Sender<()>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Crowd {
    /// By their number, which ascends with their age.
    pending: BTreeMap<u64, Pending>,
    changes_count: u64,
    held: HashMap<Network, Occupancy>,
    ranking: BTreeSet<Rank>,
    of_addresses: BTreeSet<(Network, u64)>,
}

impl Crowd {
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Adds a handshake and returns its number. `end` gets a message if it has to make room.
    pub fn add(&mut self, address: IpAddr, is_known: bool, began: Instant, end: oneshot::Sender<()>) -> u64 {
        let path = Network::path(address, is_known);
        self.changes_count += 1;
        let number = self.changes_count;
        self.change(path, |count| count + 1);
        self.of_addresses.insert((path[ADDRESS_LEVEL], number));
        self.pending.insert(number, Pending { path, began, end });
        number
    }

    /// Removes a handshake that is over. False: it had to make room before.
    pub fn remove(&mut self, number: u64) -> bool {
        self.take(number).is_some()
    }

    /// Number of handshakes of one address.
    pub fn count_of(&self, address: IpAddr) -> usize {
        let of = |is_known| self.count(Network::path(address, is_known)[ADDRESS_LEVEL]);
        of(false) + of(true)
    }

    /// Ends handshakes that are older than `age`. Returns their number.
    pub fn expire(&mut self, now: Instant, age: Duration) -> u64 {
        let mut count = 0;
        while let Some((number, pending)) = self.pending.first_key_value()
            && now.saturating_duration_since(pending.began) > age
        {
            count += u64::from(self.end(*number));
        }
        count
    }

    /// Ends the oldest handshake of an address. False: it has none.
    pub fn evict_of(&mut self, address: IpAddr) -> bool {
        let oldest = |is_known| self.oldest_of(Network::path(address, is_known)[ADDRESS_LEVEL]);
        let oldest = oldest(false).into_iter().chain(oldest(true)).min();
        oldest.is_some_and(|number| self.end(number))
    }

    /// Ends one handshake (C1 to C3). False: there is none.
    pub fn evict(&mut self, known_reserve: usize) -> bool {
        let is_open = self.count(Network::root(true)) > known_reserve;
        let rank = |is_known| self.largest_in(Network::root(is_known));
        let largest = match (rank(false), rank(true)) {
            (Some(others), Some(known)) if is_open => {
                if (known.count, known.changed_at) > (others.count, others.changed_at) { known } else { others }
            }
            (others, known) => match others.or(known) {
                Some(rank) => rank,
                None => return false,
            },
        };
        let mut network = largest.network;
        while let Some(rank) = self.largest_in(network) {
            network = rank.network;
        }
        self.oldest_of(network).is_some_and(|number| self.end(number))
    }

    fn count(&self, network: Network) -> usize {
        self.held.get(&network).map_or(0, |held| held.count as usize)
    }

    fn largest_in(&self, parent: Network) -> Option<Rank> {
        let least = Network { level: 0, is_known: false, bits: 0 };
        let most = Network { level: u8::MAX, is_known: true, bits: u128::MAX };
        let from = Rank { parent, count: 0, changed_at: Reverse(u64::MAX), network: least };
        let to = Rank { parent, count: u32::MAX, changed_at: Reverse(0), network: most };
        self.ranking.range(from..=to).next_back().copied()
    }

    fn oldest_of(&self, address: Network) -> Option<u64> {
        self.of_addresses.range((address, 0)..=(address, u64::MAX)).next().map(|(_, number)| *number)
    }

    fn end(&mut self, number: u64) -> bool {
        let Some(pending) = self.take(number) else { return false };
        // Its socket may end at the same moment.
        let _ = pending.end.send(());
        true
    }

    fn take(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.changes_count += 1;
        self.of_addresses.remove(&(pending.path[ADDRESS_LEVEL], number));
        self.change(pending.path, |count| count - 1);
        Some(pending)
    }

    /// Changes the counts of an address and of the networks around it.
    fn change(&mut self, path: [Network; LEVELS], change: impl Fn(u32) -> u32) {
        for (level, network) in path.into_iter().enumerate() {
            let before = self.held.get(&network).copied().unwrap_or_default();
            let after = Occupancy { count: change(before.count), changed_at: self.changes_count };
            if after.count == 0 {
                self.held.remove(&network);
            } else {
                self.held.insert(network, after);
            }
            let Some(parent) = level.checked_sub(1).map(|above| path[above]) else { continue };
            let rank =
                |Occupancy { count, changed_at }| Rank { parent, count, changed_at: Reverse(changed_at), network };
            self.ranking.remove(&rank(before));
            if after.count > 0 {
                self.ranking.insert(rank(after));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        crowd: Crowd,
        began: Instant,
        ends: Vec<(String, oneshot::Receiver<()>)>,
    }

    impl World {
        fn new() -> Self {
            Self { crowd: Crowd::default(), began: Instant::now(), ends: Vec::new() }
        }

        fn add(&mut self, address: &str, is_known: bool, at_ms: u64) -> u64 {
            let (end, ended) = oneshot::channel();
            self.ends.push((format!("{address} at {at_ms}"), ended));
            self.crowd.add(address.parse().unwrap(), is_known, self.began + Duration::from_millis(at_ms), end)
        }

        /// The handshakes that had to make room, in the order of their arrival.
        fn ended(&mut self) -> Vec<String> {
            let ended = self.ends.iter_mut().filter_map(|(name, end)| end.try_recv().is_ok().then(|| name.clone()));
            ended.collect()
        }
    }

    #[test]
    fn c1_the_oldest_of_the_largest_network_makes_room() {
        let mut world = World::new();
        // One /48 with two /56: in one of them two /64 with one handshake each, in the other a /64 with two.
        for (address, at_ms) in
            [("2001:db8:1:100::1", 0), ("2001:db8:1:200::1", 1), ("2001:db8:1:200::2", 2), ("2001:db8:1:1ff::1", 3)]
        {
            world.add(address, false, at_ms);
        }
        world.add("2001:db8:1:1fe::1", false, 4);
        world.add("2001:db8:2::1", false, 5);
        for at_ms in 0..3 {
            world.add("192.0.2.1", false, 10 + at_ms);
        }
        assert!(world.crowd.evict(0));
        assert_eq!(world.ended(), ["2001:db8:1:100::1 at 0"], "the /56 with three, of equal /64s the stalest");
        assert!(world.crowd.evict(0));
        assert_eq!(
            world.ended(),
            ["2001:db8:1:200::1 at 1"],
            "the /48 has four: of two /56s with two each the stalest"
        );
        assert!(world.crowd.evict(0));
        assert_eq!(world.ended(), ["192.0.2.1 at 10"], "three and three: the one unchanged for longest");
    }

    #[test]
    fn c1_addresses_of_one_ipv4_network_count_together() {
        let mut world = World::new();
        for host in 1..=4 {
            world.add(&format!("198.51.100.{host}"), false, host);
        }
        for at_ms in 0..3 {
            world.add("203.0.113.9", false, at_ms);
        }
        assert!(world.crowd.evict(0));
        assert_eq!(world.ended(), ["198.51.100.1 at 1"]);
        assert_eq!(world.crowd.count_of("203.0.113.9".parse().unwrap()), 3);
        assert!(world.crowd.evict_of("::ffff:203.0.113.9".parse().unwrap()), "the same, mapped");
        assert_eq!(world.ended(), ["203.0.113.9 at 0"]);
        assert!(!world.crowd.evict_of("203.0.113.10".parse().unwrap()));
    }

    #[test]
    fn c2_many_networks_with_one_each_make_room_by_age() {
        let mut world = World::new();
        // A high address is no reason to go.
        world.add("203.0.113.1", false, 1_000);
        for net in 0..200 {
            world.add(&format!("10.0.{net}.1"), false, 0);
        }
        world.crowd.remove(1);
        let late = world.add("203.0.113.1", false, 2_000);
        for _ in 0..200 {
            assert!(world.crowd.evict(0));
        }
        assert!(world.ended().iter().all(|name| name.starts_with("10.0.")));
        assert!(world.crowd.remove(late), "it was there to the end");
        assert!(!world.crowd.evict(0));
    }

    #[test]
    fn c3_known_addresses_keep_their_reserve() {
        let mut world = World::new();
        for at_ms in 0..4 {
            world.add("192.0.2.1", true, at_ms);
        }
        for at_ms in 0..2 {
            world.add("198.51.100.1", false, 10 + at_ms);
        }
        assert!(world.crowd.evict(4));
        assert_eq!(world.ended(), ["198.51.100.1 at 10"]);
        assert!(world.crowd.evict(3), "past the reserve the largest goes, known or not");
        assert_eq!(world.ended(), ["192.0.2.1 at 0"]);
        assert!(world.crowd.evict(3) && world.crowd.evict(3), "nobody else is left");
        assert_eq!(world.ended(), ["192.0.2.1 at 1", "198.51.100.1 at 11"]);
    }

    #[test]
    fn the_old_expire_and_nothing_is_left_behind() {
        let mut world = World::new();
        for second in 0..5 {
            world.add("192.0.2.1", false, second * 1_000);
        }
        let now = world.began + Duration::from_secs(5);
        assert_eq!(world.crowd.expire(now, Duration::from_secs(3)), 2);
        assert_eq!(world.ended(), ["192.0.2.1 at 0", "192.0.2.1 at 1000"]);
        assert_eq!(world.crowd.expire(now + Duration::from_secs(60), Duration::from_secs(3)), 3);
        assert!(world.crowd.held.is_empty() && world.crowd.ranking.is_empty() && world.crowd.of_addresses.is_empty());
    }
}
