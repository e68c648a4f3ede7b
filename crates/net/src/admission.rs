//! Admission: which sockets the node serves, so that no address and no kind of socket takes all places.
//!
//! Owns        how many connections an address may open: handshakes in progress, REST sockets, and per address its
//!             connections and recent upgrades.
//! Doors       `begin` for each accepted socket; then `place_for_rest` for its first request, or `admit` for its
//!             upgrade. They return permits, which release their places when dropped. `remember` for an address whose
//!             token or key was valid.
//! Invariants  A1 every count returns to zero when the permits are dropped. A2 one address holds at most an eighth of
//!             the handshakes. A3 loopback addresses are not limited: a proxy that the settings do not name has one. A4
//!             REST sockets and sockets without a request hold at most three quarters of the places, so a quarter is
//!             reserved for the gateway; the gateway holds at most seven eighths. A5 a new socket always gets a place:
//!             an older handshake makes room (`crowd`). A quarter of the handshakes is reserved for addresses that are
//!             known: those of `remember`, loopback and proxies. (tests `a*_*`)
//! Limits      `AdmissionLimits`. With more than `ADDRESSES_MAX` addresses, those without a socket are forgotten;
//!             `KNOWN_MAX` known ones. With half of the handshakes in use, one lasts `BUSY_HANDSHAKE_MAX` instead of
//!             `HEAD_TIMEOUT`.
//! Not here    the rate of IDENTIFYs: `gatekeeper`. Limits on requests: `guildhall-rest`.     Spec
//!             docs/operations/reference.md "Hostile clients".

use crate::crowd::Crowd;
use hyper::HeaderMap;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

const ADDRESSES_MAX: usize = 262_144;
/// Addresses that are known. With twice as many, the earlier half is forgotten.
const KNOWN_MAX: usize = 32_768;
/// Time for the first request while at least half of the handshakes are in use.
const BUSY_HANDSHAKE_MAX: Duration = Duration::from_secs(3);
const MINUTE: Duration = Duration::from_secs(60);

/// Limits of one address, and of all addresses together.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLimits {
    /// Sockets of all kinds.
    pub connections_max: usize,
    /// Sockets that have not sent their first request, at most a quarter of all places. One address has at most an
    /// eighth of them. Past it an older one is closed.
    pub handshakes_max: usize,
    /// REST sockets of one address; past it 429. 0: any number.
    pub address_rest_connections_max: u32,
    /// Gateway connections of one address; past it 429. 0: any number.
    pub address_connections_max: u32,
    /// Upgrades of one address per minute; past it 429. 0: any number.
    pub address_handshakes_per_minute: u32,
}

impl Default for AdmissionLimits {
    /// No limits, for benches.
    fn default() -> Self {
        Self {
            connections_max: usize::MAX,
            handshakes_max: usize::MAX,
            address_rest_connections_max: 0,
            address_connections_max: 0,
            address_handshakes_per_minute: 0,
        }
    }
}

/// Minimum of a share, so that a node with few places still serves a browser or two.
const SHARE_MIN: usize = 16;

impl AdmissionLimits {
    fn handshakes(&self) -> usize {
        self.handshakes_max.min((self.connections_max / 4).max(SHARE_MIN))
    }

    fn gateway_sockets(&self) -> usize {
        self.connections_max - self.connections_max / 8
    }

    fn rest_sockets(&self) -> usize {
        (self.connections_max / 2).max(SHARE_MIN)
    }
}

/// Client address of a request, from the socket's address and the headers of proxies.
pub type ClientAddress = Arc<dyn Fn(IpAddr, &HeaderMap) -> IpAddr + Send + Sync>;

/// Proxies in front of this node, and the addresses behind them.
#[derive(Clone)]
pub struct Peers {
    /// Evaluates the headers of proxies.
    pub client_address: ClientAddress,
    /// Addresses of proxies. Many clients share one, so these are not limited.
    pub proxies: Arc<[IpAddr]>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("proxies", &self.proxies).finish_non_exhaustive()
    }
}

impl Default for Peers {
    /// No proxies: the client is the socket's address.
    fn default() -> Self {
        Self { client_address: Arc::new(|socket, _| socket), proxies: Arc::from([]) }
    }
}

#[derive(Debug, Default)]
struct Address {
    conns_count: u32,
    rest_count: u32,
    /// Start of the minute in which `upgrades_count` counts.
    minute_began: Option<Instant>,
    upgrades_count: u32,
}

#[derive(Debug)]
struct State {
    limits: AdmissionLimits,
    handshakes: Crowd,
    known: KnownAddresses,
    rest_count: usize,
    addresses: HashMap<IpAddr, Address>,
    /// With more addresses than this, those without a socket are forgotten.
    tidy_above: usize,
}

/// See the module. Shared by all connections of the listener.
#[derive(Debug)]
pub struct Admission(Mutex<State>);

/// Addresses whose token or key was valid. When `recent` is full it becomes `earlier`.
#[derive(Debug, Default)]
struct KnownAddresses {
    recent: HashSet<IpAddr>,
    earlier: HashSet<IpAddr>,
}

impl KnownAddresses {
    fn contains(&self, address: IpAddr) -> bool {
        self.recent.contains(&address) || self.earlier.contains(&address)
    }

    fn insert(&mut self, address: IpAddr) {
        if self.recent.len() >= KNOWN_MAX && !self.recent.contains(&address) {
            self.earlier = std::mem::take(&mut self.recent);
        }
        self.recent.insert(address);
    }
}

/// A handshake in progress.
#[derive(Debug)]
pub struct Handshake {
    admission: Arc<Admission>,
    number: u64,
}

impl Handshake {
    /// The first request has arrived. False: the handshake had to make room at the same moment.
    pub fn complete(self) -> bool {
        self.admission.state().handshakes.remove(self.number)
    }
}

/// Result of [`Admission::begin`].
#[derive(Debug)]
pub struct Begun {
    pub handshake: Handshake,
    /// Gets a message when the socket has to make room. An error: the handshake is over.
    pub evicted: oneshot::Receiver<()>,
    /// Handshakes that were ended for it.
    pub ended_count: u64,
}

/// Place of a socket that sends requests.
#[derive(Debug)]
pub struct RestPermit {
    admission: Arc<Admission>,
    /// None: the address is not limited.
    address: Option<IpAddr>,
}

/// Reason why a REST socket is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// REST has all sockets of its share.
    Node,
    /// The address has `address_rest_connections_max` sockets.
    Address,
}

/// Place of a gateway connection of a limited address.
#[derive(Debug)]
pub struct AddressPermit {
    admission: Arc<Admission>,
    address: IpAddr,
}

/// An address has too many connections, or upgrades too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// Seconds after which the client may try again.
    pub retry_after_s: u32,
}

/// The address that limits apply to: for IPv6 its /64 network, the least that one customer has.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

/// The address that a socket counts for. None for loopback addresses and for the proxies of the settings, which many
/// clients share.
fn limited_address(socket: IpAddr, peers: &Peers) -> Option<IpAddr> {
    let socket = socket.to_canonical();
    let is_limited = !socket.is_loopback() && !peers.proxies.iter().any(|proxy| proxy.to_canonical() == socket);
    is_limited.then(|| counted_as(socket))
}

impl AddressPermit {
    /// The address that limits apply to: for IPv6 the /64 network.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Makes the address known.
    pub fn remember(&self) {
        self.admission.remember(self.address);
    }
}

impl Admission {
    pub fn new(limits: AdmissionLimits) -> Self {
        Self(Mutex::new(State {
            limits,
            handshakes: Crowd::default(),
            known: KnownAddresses::default(),
            rest_count: 0,
            addresses: HashMap::new(),
            tidy_above: ADDRESSES_MAX,
        }))
    }

    /// Whether the gateway has all sockets of its share. `conns_count` counts all sockets; those of REST and those
    /// without a request are subtracted.
    pub fn is_gateway_full(&self, conns_count: usize) -> bool {
        let state = self.state();
        let gateway = conns_count.saturating_sub(state.rest_count + state.handshakes.len());
        gateway > state.limits.gateway_sockets()
    }

    /// Number of sockets that send requests.
    pub fn rest_count(&self) -> usize {
        self.state().rest_count
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the limits. Admitted sockets stay.
    pub fn set_limits(&self, limits: AdmissionLimits) {
        self.state().limits = limits;
    }

    /// Counts an accepted socket (A5).
    pub fn begin(self: &Arc<Self>, socket: IpAddr, peers: &Peers, now: Instant) -> Begun {
        let limited = limited_address(socket, peers);
        let address = limited.unwrap_or_else(|| counted_as(socket));
        let mut state = self.state();
        let is_known = limited.is_none() || state.known.contains(address);
        let max = state.limits.handshakes();
        let handshakes = &mut state.handshakes;
        let mut ended_count = 0;
        if handshakes.len() >= max / 2 {
            ended_count += handshakes.expire(now, BUSY_HANDSHAKE_MAX);
        }
        if limited.is_some() && handshakes.count_of(address) >= (max / 8).max(1) {
            ended_count += u64::from(handshakes.evict_of(address));
        }
        while handshakes.len() >= max && handshakes.evict(max / 4) {
            ended_count += 1;
        }
        let (end, evicted) = oneshot::channel();
        let number = handshakes.add(address, is_known, now, end);
        Begun { handshake: Handshake { admission: self.clone(), number }, evicted, ended_count }
    }

    /// Ends one handshake, for a socket that has no place otherwise. False: there is none.
    pub fn make_room(&self) -> bool {
        let mut state = self.state();
        let reserve = state.limits.handshakes() / 4;
        state.handshakes.evict(reserve)
    }

    /// Makes an address known: its token or key was valid.
    pub fn remember(&self, socket: IpAddr) {
        self.state().known.insert(counted_as(socket));
    }

    /// Counts a connection that another process has admitted.
    pub fn readmit(self: &Arc<Self>, address: IpAddr) -> AddressPermit {
        self.state().entry(address).conns_count += 1;
        AddressPermit { admission: self.clone(), address }
    }

    /// Sockets that have not sent a request yet.
    pub fn handshakes_count(&self) -> usize {
        self.state().handshakes.len()
    }

    /// Takes a REST place, when the first request of a socket is no upgrade.
    ///
    /// # Errors
    /// [`NoPlace`]; then nothing was counted.
    pub fn place_for_rest(self: &Arc<Self>, socket: IpAddr, peers: &Peers) -> Result<RestPermit, NoPlace> {
        let address = limited_address(socket, peers);
        let mut state = self.state();
        if state.rest_count >= state.limits.rest_sockets() {
            return Err(NoPlace::Node);
        }
        let max = state.limits.address_rest_connections_max;
        if let Some(address) = address {
            let entry = state.entry(address);
            if max > 0 && entry.rest_count >= max {
                return Err(NoPlace::Address);
            }
            entry.rest_count += 1;
        }
        state.rest_count += 1;
        Ok(RestPermit { admission: self.clone(), address })
    }

    /// Counts an upgrade. None: the address is not limited.
    ///
    /// # Errors
    /// The address has too many connections, or upgrades too often.
    pub fn admit(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<Option<AddressPermit>, TooMany> {
        if address.to_canonical().is_loopback() {
            return Ok(None);
        }
        let address = counted_as(address);
        let mut state = self.state();
        let AdmissionLimits { address_connections_max, address_handshakes_per_minute, .. } = state.limits;
        let entry = state.entry(address);
        let age = entry.minute_began.map_or(MINUTE, |began| now.saturating_duration_since(began));
        if age >= MINUTE {
            (entry.minute_began, entry.upgrades_count) = (Some(now), 0);
        }
        if address_handshakes_per_minute > 0 && entry.upgrades_count >= address_handshakes_per_minute {
            return Err(TooMany { retry_after_s: (MINUTE - age).as_secs() as u32 + 1 });
        }
        entry.upgrades_count += 1;
        if address_connections_max > 0 && entry.conns_count >= address_connections_max {
            return Err(TooMany { retry_after_s: 5 });
        }
        entry.conns_count += 1;
        Ok(Some(AddressPermit { admission: self.clone(), address }))
    }
}

impl State {
    fn entry(&mut self, address: IpAddr) -> &mut Address {
        if self.addresses.len() >= self.tidy_above && !self.addresses.contains_key(&address) {
            self.addresses.retain(|_, entry| !entry.is_idle());
            // With very many connected addresses, do not search them at every call.
            self.tidy_above = ADDRESSES_MAX.max(2 * self.addresses.len());
        }
        self.addresses.entry(address).or_default()
    }

    /// Forgets an address without sockets, unless its minute has not ended. The rest is forgotten when the address
    /// returns, or when there are too many.
    fn tidy(&mut self, address: IpAddr) {
        let is_new = |entry: &Address| entry.minute_began.is_some_and(|began| began.elapsed() < MINUTE);
        if self.addresses.get(&address).is_some_and(|entry| entry.is_idle() && !is_new(entry)) {
            self.addresses.remove(&address);
        }
    }
}

impl Address {
    fn is_idle(&self) -> bool {
        self.conns_count == 0 && self.rest_count == 0
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.admission.state().handshakes.remove(self.number);
    }
}

impl Drop for RestPermit {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        state.rest_count -= 1;
        let Some(address) = self.address else { return };
        if let Some(entry) = state.addresses.get_mut(&address) {
            entry.rest_count -= 1;
        }
        state.tidy(address);
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        if let Some(entry) = state.addresses.get_mut(&self.address) {
            entry.conns_count -= 1;
        }
        state.tidy(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn admission(handshakes_max: usize, conns: u32, per_minute: u32) -> Arc<Admission> {
        Arc::new(Admission::new(AdmissionLimits {
            handshakes_max,
            address_connections_max: conns,
            address_handshakes_per_minute: per_minute,
            ..AdmissionLimits::default()
        }))
    }

    #[test]
    fn s9_a1_a4_rest_has_half_of_the_places_and_an_address_its_bound() {
        let admission = Arc::new(Admission::new(AdmissionLimits {
            connections_max: 120,
            handshakes_max: 2_048,
            address_rest_connections_max: 10,
            ..AdmissionLimits::default()
        }));
        let peers = Peers { proxies: Arc::from([ip("192.0.2.9")]), ..Peers::default() };
        let place = |address: &str| admission.place_for_rest(ip(address), &peers);
        let attacker: Vec<_> = (0..10).map(|_| place("192.0.2.1").unwrap()).collect();
        assert_eq!(place("192.0.2.1").unwrap_err(), NoPlace::Address);
        assert!(place("::ffff:192.0.2.2").is_ok(), "others are not concerned");
        let by_proxy: Vec<_> = (0..50).map(|_| place("192.0.2.9").unwrap()).collect();
        assert_eq!(place("127.0.0.1").unwrap_err(), NoPlace::Node);
        assert_eq!(admission.rest_count(), 60);
        let waiting: Vec<_> = (0..200).map(|_| admission.begin(ip("192.0.2.9"), &peers, Instant::now())).collect();
        assert_eq!(admission.state().handshakes.len(), 30, "a quarter, whatever handshakes_max is");
        drop((attacker, by_proxy, waiting));
        assert!(admission.state().addresses.is_empty() && admission.rest_count() == 0);
    }

    /// Whether a handshake still has its place.
    fn stays(started: &mut Begun) -> bool {
        started.evicted.try_recv().is_err()
    }

    fn stay_count(started: &mut [Begun]) -> usize {
        started.iter_mut().filter_map(|started| stays(started).then_some(())).count()
    }

    #[test]
    fn a1_a2_a5_one_address_has_an_eighth_and_new_sockets_always_get_a_place() {
        let admission = admission(16, 0, 0);
        let peers = Peers { proxies: Arc::from([ip("192.0.2.9")]), ..Peers::default() };
        let now = Instant::now();
        let begin = |address: &str| admission.begin(ip(address), &peers, now);
        let mut attacker: Vec<_> = (0..9).map(|_| begin("192.0.2.1")).collect();
        attacker.push(begin("::ffff:192.0.2.1"));
        assert_eq!(admission.state().handshakes.len(), 2, "the same, mapped");
        assert!(attacker[8..].iter_mut().all(stays), "the newest ones stay");
        assert_eq!(stay_count(&mut attacker[..8]), 0);
        let mut proxied: Vec<_> = (0..30).map(|_| begin("192.0.2.9")).collect();
        assert_eq!(admission.state().handshakes.len(), 16);
        assert_eq!(stay_count(&mut proxied), 14, "a proxy has as many as there are; its own make room");
        let mut other = begin("198.51.100.1");
        assert!(stays(&mut other), "full is no reason to refuse");
        assert!(other.handshake.complete() && !proxied.remove(0).handshake.complete());
        drop((attacker, proxied));
        assert!(admission.state().addresses.is_empty() && admission.state().handshakes.len() == 0);
    }

    #[test]
    fn a5_eight_silent_addresses_delay_no_other_client() {
        let admission = admission(2_048, 0, 0);
        let (peers, started) = (Peers::default(), Instant::now());
        let mut held = Vec::new();
        let mut refused = 0;
        // 248 silent sockets a second for a minute, and another client every 100 ms that takes 300 ms.
        let mut others: Vec<(Instant, Begun)> = Vec::new();
        for ms in (0..60_000u64).step_by(4) {
            let now = started + Duration::from_millis(ms);
            held.push(admission.begin(ip(&format!("192.0.{}.1", ms / 4 % 8)), &peers, now));
            if ms % 100 == 0 {
                others.push((now, admission.begin(ip("203.0.113.7"), &peers, now)));
            }
            while others.first().is_some_and(|(at, _)| now - *at >= Duration::from_millis(300)) {
                refused += usize::from(!others.remove(0).1.handshake.complete());
            }
            assert!(admission.state().handshakes.len() <= 2_048);
        }
        assert_eq!(refused, 0);
    }

    #[test]
    fn a5_a_flood_of_a_household_ends_its_own() {
        let admission = admission(2_048, 0, 0);
        let (peers, now) = (Peers::default(), Instant::now());
        let mut other = admission.begin(ip("2001:db8:1::1"), &peers, now);
        // All 256 networks of a /56, thousands of sockets a second.
        let network = |n: u32| ip(&format!("2001:db8:ffff:7{:02x}::1", n % 256));
        let _held: Vec<_> = (0..20_000).map(|n| admission.begin(network(n), &peers, now)).collect();
        assert!(stays(&mut other) && other.handshake.complete());
    }

    #[test]
    fn a5_above_half_a_handshake_lasts_three_seconds() {
        let admission = admission(16, 0, 0);
        let (peers, started) = (Peers::default(), Instant::now());
        let begin =
            |n: u8, ms| admission.begin(ip(&format!("192.0.{n}.1")), &peers, started + Duration::from_millis(ms));
        let mut held: Vec<_> = (0..7).map(|n| begin(n, 0)).collect();
        held.push(begin(7, 3_001));
        assert_eq!(stay_count(&mut held), 8, "below half no handshake is evicted");
        let next = begin(8, 3_002);
        assert_eq!(next.ended_count, 7);
        assert_eq!(stay_count(&mut held[..7]), 0);
        assert!(stays(held.last_mut().unwrap()));
    }

    #[test]
    fn a5_known_addresses_have_a_quarter() {
        let admission = admission(16, 0, 0);
        let (peers, now) = (Peers::default(), Instant::now());
        admission.remember(ip("2001:db8::7"));
        let mut known: Vec<_> = (0..2).map(|_| admission.begin(ip("2001:db8::8"), &peers, now)).collect();
        let _flood: Vec<_> = (0..200u8).map(|n| admission.begin(ip(&format!("10.{n}.0.1")), &peers, now)).collect();
        assert!(known.iter_mut().all(stays), "although no network of the flood has more than one");
        for n in 0..2 * KNOWN_MAX as u32 {
            admission.remember(std::net::Ipv4Addr::from_bits(n).into());
        }
        let state = admission.state();
        assert!(!state.known.contains(counted_as(ip("2001:db8::8"))), "bounded");
        assert!(state.known.recent.len() + state.known.earlier.len() <= 2 * KNOWN_MAX);
    }

    #[test]
    fn a5_a_probe_gets_the_place_of_a_silent_socket() {
        let admission = admission(16, 0, 0);
        let mut silent = admission.begin(ip("192.0.2.1"), &Peers::default(), Instant::now());
        assert!(admission.make_room() && !stays(&mut silent));
        assert!(!admission.make_room(), "all others have sent a request");
    }

    #[test]
    fn a1_a3_connections_of_an_address() {
        let admission = admission(16, 2, 0);
        let now = Instant::now();
        let first = admission.admit(ip("2001:db8::1"), now).unwrap();
        let second = admission.admit(ip("2001:db8::2"), now).unwrap();
        assert_eq!(admission.admit(ip("2001:db8:0:0:1::1"), now).unwrap_err(), TooMany { retry_after_s: 5 });
        assert!(admission.admit(ip("2001:db8:0:1::1"), now).is_ok(), "another network");
        assert!((0..100).all(|_| matches!(admission.admit(ip("127.0.0.1"), now), Ok(None))));
        drop(first);
        assert!(admission.admit(ip("2001:db8::1"), now).is_ok());
        drop(second);
    }

    #[test]
    fn an_address_comes_so_often_a_minute() {
        let admission = admission(16, 0, 3);
        let now = Instant::now();
        let come = |after_s| admission.admit(ip("192.0.2.1"), now + Duration::from_secs(after_s)).map(drop);
        assert_eq!([come(0), come(1), come(2)], [Ok(()), Ok(()), Ok(())]);
        assert_eq!(come(20), Err(TooMany { retry_after_s: 41 }));
        assert_eq!(come(59), Err(TooMany { retry_after_s: 2 }));
        assert_eq!(come(60), Ok(()));
    }
}
