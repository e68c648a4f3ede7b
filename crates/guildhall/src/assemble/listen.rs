//! Listen: the ports of a node, and the URL that clients are given.

use crate::{open_files::Places, start_error::StartError, takeover::Listeners, tls};
use guildhall_settings::{Config, GatewayUrl};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsFd as _,
};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`).
const LISTEN_BACKLOG: u32 = 4096;

/// Where clients reach the node.
pub(super) struct Ports {
    /// Places for sockets.
    pub places: Places,
    pub listener: TcpListener,
    /// With the actual port.
    pub local_addr: SocketAddr,
    /// Of `server.admin_listen`.
    pub admin: Option<(TcpListener, SocketAddr)>,
    /// None: without TLS.
    pub tls: Option<tls::Pair>,
    /// WebSocket URL for clients, without a trailing slash.
    pub gateway_url: String,
}

impl Ports {
    /// The listeners, for the process that takes over.
    pub fn duplicates(&self, config: &Config) -> Result<Listeners, StartError> {
        let of = |listen, listener: &TcpListener| {
            let duplicate = listener.as_fd().try_clone_to_owned();
            duplicate.map_err(|source| StartError::Listen { listen, source })
        };
        let listen = config.server.listen;
        let admin = match (config.server.admin_listen, &self.admin) {
            (Some(listen), Some((listener, _))) => Some((listen, of(listen, listener)?)),
            _ => None,
        };
        Ok(Listeners { listen, listener: of(listen, &self.listener)?, admin })
    }

    /// Whether no setting has the address that other machines use: the node listens on every address.
    pub fn is_url_local(&self, config: &Config) -> bool {
        config.server.public_url.is_none() && self.local_addr.ip().is_unspecified()
    }
}

/// The listener that the previous process has passed on.
pub(super) fn inherited(
    listen: SocketAddr,
    listener: std::net::TcpListener,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let opened = listener.set_nonblocking(true).and_then(|()| {
        let local_addr = listener.local_addr()?;
        Ok((TcpListener::from_std(listener)?, local_addr))
    });
    opened.map_err(|source| StartError::Listen { listen, source })
}

/// The listener, and its address with the real port.
pub(super) fn listen_on(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let opened = open_listener(listen).and_then(|listener| {
        let local_addr = listener.local_addr()?;
        Ok((listener, local_addr))
    });
    opened.map_err(|source| StartError::Listen { listen, source })
}

/// As `TcpListener::bind`, but with room for a storm of connects: past the usual 128 the kernel drops them.
fn open_listener(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Otherwise a restarted node would wait until its old connections have timed out.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(LISTEN_BACKLOG)
}

/// Address at which this machine itself reaches a listener on `addr`.
#[must_use]
pub fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

/// The URL that the configuration names, or that of the listener.
pub(super) fn gateway_url(public_url: Option<&GatewayUrl>, local_addr: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "wss" } else { "ws" };
    public_url.map_or_else(|| format!("{scheme}://{}", reachable(local_addr)), |url| url.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_clients_are_sent() {
        let check = |public: Option<&str>, addr: &str, expected: &str| {
            let public = public.and_then(GatewayUrl::parse);
            assert_eq!(gateway_url(public.as_ref(), addr.parse().unwrap(), false), expected);
        };
        assert_eq!(gateway_url(None, "192.0.2.7:443".parse().unwrap(), true), "wss://192.0.2.7:443");
        check(None, "127.0.0.1:8080", "ws://127.0.0.1:8080");
        check(None, "0.0.0.0:80", "ws://127.0.0.1:80");
        check(None, "[::]:80", "ws://[::1]:80");
        check(None, "192.0.2.7:443", "ws://192.0.2.7:443");
        check(Some("wss://gw.example.net/"), "0.0.0.0:80", "wss://gw.example.net");
    }
}
