//! Service manager: what systemd is notified of.
//!
//! Spec        sd_notify(3).

use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

/// Sends a state such as `READY=1` to the service manager, if there is one.
pub fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let sent = || -> io::Result<()> {
        let address = match path.to_str().and_then(|path| path.strip_prefix('@')) {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
    };
    if let Err(error) = sent() {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}
