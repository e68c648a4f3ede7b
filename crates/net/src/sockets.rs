//! Sockets: the real `Link`. Non-blocking, edge-triggered, written to by their partition and nobody else.
//!
//! Invariants  N1 a full socket is never written to again before it says that it has room. N2 a socket whose reading was
//!             stopped is read again when it goes on, since the edge may have passed.

use crate::mailbox::ConnPermit;
use guildhall_partition::{Dead, Link};
use guildhall_stdx::SlotKey;
use mio::{Interest, Registry, Token, net::TcpStream};
use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    net::Shutdown,
};

/// The poll's token for the mailbox; sockets have their slot.
pub const WAKE: Token = Token(usize::MAX);

struct Socket {
    stream: TcpStream,
    permit: ConnPermit,
    generation: u32,
    is_reading: bool,
    /// In `readable`.
    is_queued: bool,
}

/// The sockets of one partition.
pub struct Sockets {
    registry: Registry,
    sockets: Vec<Option<Socket>>,
    /// Sockets that may have something to read, in the order they said so.
    pub readable: Vec<SlotKey>,
}

impl Sockets {
    pub fn new(registry: Registry) -> Self {
        Self { registry, sockets: Vec::new(), readable: Vec::new() }
    }

    /// Takes a socket in; it is read from at once.
    pub fn insert(&mut self, key: SlotKey, mut stream: TcpStream, permit: ConnPermit) -> io::Result<()> {
        self.registry.register(&mut stream, Token(key.slot as usize), Interest::READABLE | Interest::WRITABLE)?;
        let slot = key.slot as usize;
        if self.sockets.len() <= slot {
            self.sockets.resize_with(slot + 1, || None);
        }
        self.sockets[slot] =
            Some(Socket { stream, permit, generation: key.generation, is_reading: true, is_queued: false });
        self.queue(key);
        Ok(())
    }

    /// Gives a socket away, to another partition.
    pub fn take(&mut self, key: SlotKey) -> Option<(TcpStream, ConnPermit)> {
        self.get(key)?;
        let mut socket = self.sockets[key.slot as usize].take()?;
        self.registry.deregister(&mut socket.stream).ok()?;
        Some((socket.stream, socket.permit))
    }

    fn get(&mut self, key: SlotKey) -> Option<&mut Socket> {
        self.sockets.get_mut(key.slot as usize)?.as_mut().filter(|socket| socket.generation == key.generation)
    }

    /// The key of the socket that an event of the poll is about.
    pub fn key_of(&self, token: Token) -> Option<SlotKey> {
        let socket = self.sockets.get(token.0)?.as_ref()?;
        Some(SlotKey { slot: token.0 as u32, generation: socket.generation })
    }

    /// Remembers that a socket may have something to read.
    pub fn queue(&mut self, key: SlotKey) {
        if let Some(socket) = self.get(key)
            && !socket.is_queued
            && socket.is_reading
        {
            socket.is_queued = true;
            self.readable.push(key);
        }
    }

    /// Reads once. `Ok(None)`: nothing there now, or reading is stopped. `Ok(Some(0))`: the end.
    pub fn read(&mut self, key: SlotKey, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(socket) = self.get(key) else { return Ok(None) };
        socket.is_queued = false;
        if !socket.is_reading {
            return Ok(None);
        }
        loop {
            match socket.stream.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Full is not an error, everything else ends the connection.
fn written(result: io::Result<usize>) -> Option<Result<usize, Dead>> {
    match result {
        Ok(0) => Some(Err(Dead)),
        Ok(count) => Some(Ok(count)),
        Err(error) if error.kind() == ErrorKind::Interrupted => None,
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Ok(0)),
        Err(_) => Some(Err(Dead)),
    }
}

impl Link for Sockets {
    fn send(&mut self, conn: SlotKey, bytes: &[u8]) -> Result<usize, Dead> {
        let socket = self.get(conn).ok_or(Dead)?;
        loop {
            if let Some(result) = written(socket.stream.write(bytes)) {
                return result;
            }
        }
    }

    fn send_vectored(&mut self, conn: SlotKey, slices: &[IoSlice<'_>]) -> Result<usize, Dead> {
        let socket = self.get(conn).ok_or(Dead)?;
        loop {
            if let Some(result) = written(socket.stream.write_vectored(slices)) {
                return result;
            }
        }
    }

    fn set_reading(&mut self, conn: SlotKey, reading: bool) {
        if let Some(socket) = self.get(conn) {
            socket.is_reading = reading;
            if reading {
                self.queue(conn);
            }
        }
    }

    fn finish(&mut self, conn: SlotKey) {
        if let Some(socket) = self.get(conn) {
            // An error means that the peer is gone already, which the next read tells.
            let _ = socket.stream.shutdown(Shutdown::Write);
        }
    }

    fn drop_conn(&mut self, conn: SlotKey) {
        drop(self.take(conn));
    }
}
