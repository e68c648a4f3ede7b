//! Predecessor: the new process's end of the connection to the running one.

use super::{
    Answer, FromNew, FromOld, Hello, MESSAGE_MAX, PASSING_MAX, Served, TakeoverError, VERSION, Welcome,
    channel::Channel, machine_ns, program, socket_path,
};
use crate::cluster;
use guildhall_net::{PassedConn, PassedState};
use guildhall_node::GuildImports;
use guildhall_settings::Config;
use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

/// The process that runs, and its listeners.
pub struct Predecessor {
    channel: Channel,
    welcome: Welcome,
    listener: Option<TcpListener>,
    admin: Option<TcpListener>,
}

/// State that the predecessor passed on.
pub struct Inherited {
    channel: Channel,
    pub conns: Vec<PassedConn>,
    pub guilds: GuildImports,
    /// Since when the other process has not served them, on the clock of the machine.
    frozen_at_ns: u64,
}

impl Predecessor {
    /// Connects to the process on the data directory of `config`, and takes over its listeners. Blocks.
    ///
    /// # Errors
    /// See [`TakeoverError`].
    pub fn connect(config: &Config) -> Result<Self, TakeoverError> {
        if cluster::name(config).is_some() {
            let name = config.cluster.node_name.as_ref().map_or("NODE", |name| name.as_str());
            return Err(TakeoverError::Cluster { node: name.to_owned() });
        }
        if config.server.handover_bytes_max == 0 {
            return Err(TakeoverError::NoHandover);
        }
        let path = socket_path(&config.store.dir);
        let stream = UnixStream::connect(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => TakeoverError::NoNode(config.store.dir.clone()),
            _ => TakeoverError::Socket { path, source },
        })?;
        let mut channel = Channel::new(stream).map_err(TakeoverError::Broken)?;
        let hello = Hello { guildhall_takeover: VERSION, program: program(), pid: std::process::id(), start: None };
        channel.send(&hello, &[]).map_err(TakeoverError::Broken)?;
        let (answer, fds) = channel.receive(MESSAGE_MAX).map_err(TakeoverError::Broken)?;
        let welcome = match answer {
            Answer::Welcome(welcome) => welcome,
            Answer::Refused { reason } => return Err(TakeoverError::Refused(reason)),
            Answer::Started { .. } => return Err(TakeoverError::Broken(ErrorKind::InvalidData.into())),
        };
        let mut listeners = fds.into_iter().map(TcpListener::from);
        let (listener, admin) = (listeners.next(), listeners.next());
        Ok(Self { channel, welcome, listener, admin })
    }

    /// The listener that has this address in the configuration of the process. None: it has another one, and the caller
    /// opens a listener.
    pub fn take_listener(&mut self, listen: SocketAddr) -> Option<TcpListener> {
        self.listener.take_if(|_| self.welcome.listen == listen)
    }

    /// The same for `server.admin_listen`.
    pub fn take_admin(&mut self, listen: SocketAddr) -> Option<TcpListener> {
        self.admin.take_if(|_| self.welcome.admin_listen == Some(listen))
    }

    /// Reports that this process needs nothing but the database. Returns when the other one has released it. Blocks.
    ///
    /// # Errors
    /// `Aborted`, `Broken`.
    pub fn wait(mut self) -> Result<Inherited, TakeoverError> {
        let Welcome { program, pid, .. } = &self.welcome;
        tracing::info!(pid, program, "ready to take over");
        self.channel.send(&FromNew::Ready, &[]).map_err(TakeoverError::Broken)?;
        let (mut conns, mut guilds) = (Vec::new(), GuildImports::default());
        loop {
            let (message, fds) = self.channel.receive::<FromOld>(PASSING_MAX).map_err(TakeoverError::Broken)?;
            match message {
                FromOld::Aborted { reason } => return Err(TakeoverError::Aborted(reason)),
                FromOld::Guild { guild_id } => {
                    let (part, _) = self.channel.receive_bytes(MESSAGE_MAX).map_err(TakeoverError::Broken)?;
                    guilds.add(guild_id, &part);
                }
                FromOld::Conns(states) => {
                    if states.len() != fds.len() {
                        return Err(TakeoverError::Broken(ErrorKind::InvalidData.into()));
                    }
                    let with_socket =
                        |(fd, state): (OwnedFd, PassedState)| PassedConn { stream: TcpStream::from(fd), state };
                    conns.extend(fds.into_iter().zip(states).map(with_socket));
                }
                FromOld::End { conns: count, frozen_at_ns } => {
                    if count != conns.len() {
                        return Err(TakeoverError::Broken(ErrorKind::InvalidData.into()));
                    }
                    self.channel.send(&FromNew::Received, &[]).map_err(TakeoverError::Broken)?;
                    return Ok(Inherited { channel: self.channel, conns, guilds, frozen_at_ns });
                }
            }
        }
    }
}

impl Inherited {
    /// Reports that this process serves `conns` of `passed` connections. The other one ends.
    ///
    /// # Errors
    /// The other one has ended already.
    pub fn serving(&mut self, passed: usize, conns: usize) -> io::Result<Served> {
        let served = Served {
            pid: std::process::id(),
            conns,
            closed: passed.saturating_sub(conns),
            pause_ms: machine_ns().saturating_sub(self.frozen_at_ns) / 1_000_000,
        };
        tracing::info!(
            conns = served.conns,
            closed = served.closed,
            pause_ms = served.pause_ms,
            "connections taken over"
        );
        self.channel.send(&FromNew::Serving(served), &[])?;
        Ok(served)
    }
}
