//! Peer: the address that a request comes from.
//!
//! Owns        `Peer`, the evaluation of proxies' headers (`peer_from`), and the network that counts as one peer.
//! Invariants  P1 a client's own `X-Forwarded-For` never counts, if the proxies in `trusted` append the address that
//!             they see. (test `p1_*`)
//! Not here    the list of trusted proxies, and the socket: the code that accepts connections.

use axum::http::Extensions;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The peer of a request. The code that accepts connections puts it into the request's extensions, after judging proxy
/// headers (`peer_from`). Without it all peers without an account share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl Peer {
    /// Address of a request's peer; the unspecified address if the extension is missing.
    #[must_use]
    pub fn address_in(extensions: &Extensions) -> IpAddr {
        extensions.get::<Self>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0)
    }
}

/// The network that counts as one peer: an IPv4 address, or an IPv6 /64, the least that one customer gets.
pub fn network(peer: IpAddr) -> u128 {
    match peer {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.to_ipv6_mapped().to_bits(),
            None => v6.to_bits() & !u128::from(u64::MAX),
        },
    }
}

/// The right-most address on a request's way that is not a trusted proxy; the addresses left of it are not verified. If
/// all of them are trusted proxies, the left-most of these.
///
/// `forwarded_for` is the value of `X-Forwarded-For`. If the header occurs several times, the caller joins the values
/// with commas in their order: proxies may append a line of their own, so the first line alone is the client's claim.
/// It is ignored unless `socket` is trusted. An entry may have a port. At an entry that is not an address the search
/// ends, and the proxy that wrote it counts as the peer.
#[must_use]
pub fn peer_from(socket: IpAddr, forwarded_for: Option<&str>, trusted: &[IpAddr]) -> IpAddr {
    let is_trusted = |peer: IpAddr| trusted.iter().any(|proxy| proxy.to_canonical() == peer);
    let mut peer = socket.to_canonical();
    for entry in forwarded_for.unwrap_or_default().rsplit(',') {
        if !is_trusted(peer) {
            break;
        }
        match address(entry.trim()) {
            Some(before) => peer = before,
            None => break,
        }
    }
    peer
}

/// `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]`, and those with a port where that is unambiguous.
fn address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().or_else(|_| entry.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn check(socket: &str, forwarded_for: Option<&str>, expected: &str) {
        let trusted = [ip("127.0.0.1"), ip("10.0.0.1"), ip("2001:db8::1")];
        assert_eq!(peer_from(ip(socket), forwarded_for, &trusted), ip(expected), "{socket} {forwarded_for:?}");
    }

    #[test]
    fn without_trusted_proxies_the_address_is_the_socket_s() {
        assert_eq!(peer_from(ip("127.0.0.1"), Some("192.0.2.1"), &[]), ip("127.0.0.1"));
        check("192.0.2.1", None, "192.0.2.1");
        check("192.0.2.1", Some("192.0.2.2"), "192.0.2.1");
        check("192.0.2.1", Some("127.0.0.1"), "192.0.2.1");
        check("10.0.0.2", Some("192.0.2.2"), "10.0.0.2");
    }

    #[test]
    fn the_right_most_that_is_not_trusted() {
        check("127.0.0.1", None, "127.0.0.1");
        check("127.0.0.1", Some("192.0.2.1"), "192.0.2.1");
        check("127.0.0.1", Some("192.0.2.2, 192.0.2.1"), "192.0.2.1");
        check("127.0.0.1", Some("192.0.2.2,192.0.2.1 ,10.0.0.1"), "192.0.2.1");
        check("127.0.0.1", Some("10.0.0.1, 192.0.2.1, 2001:db8::1"), "192.0.2.1");
        check("127.0.0.1", Some("10.0.0.1, 2001:db8::1"), "10.0.0.1");
    }

    #[test]
    fn forms_of_addresses() {
        check("::ffff:127.0.0.1", Some("192.0.2.1"), "192.0.2.1");
        check("::ffff:192.0.2.1", None, "192.0.2.1");
        check("127.0.0.1", Some("192.0.2.1, ::ffff:10.0.0.1"), "192.0.2.1");
        check("127.0.0.1", Some("::ffff:192.0.2.1"), "192.0.2.1");
        check("2001:DB8:0::1", Some("2001:db8::2"), "2001:db8::2");
        check("127.0.0.1", Some("192.0.2.1:4711"), "192.0.2.1");
        check("127.0.0.1", Some("[2001:db8::2]"), "2001:db8::2");
        check("127.0.0.1", Some("192.0.2.1, [2001:db8::1]:4711"), "192.0.2.1");
        let mapped = [ip("::ffff:127.0.0.1")];
        assert_eq!(peer_from(ip("127.0.0.1"), Some("192.0.2.1"), &mapped), ip("192.0.2.1"));
    }

    #[test]
    fn the_chain_of_proxies_ends_at_a_text_that_is_no_address() {
        for broken in ["", " ", "unknown", "_hidden", "192.0.2.1.5", "[192.0.2.1", "\"192.0.2.1\"", "192.0.2.1;", "-"] {
            check("127.0.0.1", Some(broken), "127.0.0.1");
            check("127.0.0.1", Some(&format!("192.0.2.1, {broken}, 10.0.0.1")), "10.0.0.1");
            check("127.0.0.1", Some(&format!("{broken}, 192.0.2.1")), "192.0.2.1");
        }
    }

    #[test]
    fn peers_are_networks() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
    }

    proptest! {
        #[test]
        fn p1_a_client_cannot_choose_its_address(forged in "[0-9a-f.:, \\[\\]]{0,60}|.{0,60}") {
            check("127.0.0.1", Some(&format!("{forged},192.0.2.1, 10.0.0.1")), "192.0.2.1");
        }
    }
}
