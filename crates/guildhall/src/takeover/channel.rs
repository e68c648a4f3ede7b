//! Channel: messages with descriptors over a Unix socket.
//!
//! Owns        the frame: the length of the message and the number of its descriptors, both in four bytes, little
//!             endian; then the message as MessagePack. The descriptors come with the first byte.
//! Limits      `MESSAGE_BYTES_MAX`, `FDS_MAX`, and the time limit of the caller.

use super::{FDS_MAX, MESSAGE_BYTES_MAX, MESSAGE_MAX};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

const HEAD_BYTES: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Channel {
    /// A channel whose calls block the thread.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(MESSAGE_MAX))?;
        Ok(Self(stream))
    }

    pub fn send(&mut self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_bytes(&rmp_serde::to_vec_named(message).map_err(io::Error::other)?, fds)
    }

    /// As `send`, for a message that is bytes.
    pub fn send_bytes(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.len() > MESSAGE_BYTES_MAX || fds.len() > FDS_MAX {
            return Err(invalid("the message is too large"));
        }
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&(fds.len() as u32).to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(invalid("too many descriptors"));
        }
        let sent = sendmsg(&self.0, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL)?;
        self.0.write_all(&head[sent..])?;
        self.0.write_all(bytes)
    }

    /// Waits for a message, for at most `patience`.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> io::Result<(T, Vec<OwnedFd>)> {
        let (bytes, fds) = self.receive_bytes(patience)?;
        let message = rmp_serde::from_slice(&bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok((message, fds))
    }

    /// As `receive`, for a message that is bytes.
    pub fn receive_bytes(&mut self, patience: Duration) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        self.0.set_read_timeout(Some(patience))?;
        let (mut head, mut got, mut fds) = ([0; HEAD_BYTES], 0, Vec::new());
        while got < HEAD_BYTES {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let buffer = &mut [IoSliceMut::new(&mut head[got..])];
            let read = match recvmsg(&self.0, buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => received.bytes,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    fds.extend(rights);
                }
            }
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            got += read;
        }
        let length = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        if length(0) > MESSAGE_BYTES_MAX || length(4) != fds.len() {
            return Err(invalid("the message is too large, or lacks descriptors"));
        }
        let mut bytes = vec![0; length(0)];
        self.0.read_exact(&mut bytes)?;
        Ok((bytes, fds))
    }

    /// Whether the other process has the socket, and has sent nothing that was not received.
    pub fn is_open(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&self.0, &mut [0u8; 1], flags), Err(rustix::io::Errno::AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::AsFd as _,
    };

    const PATIENCE: Duration = Duration::from_secs(30);

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one).unwrap(), Channel::new(other).unwrap())
    }

    #[test]
    fn messages_have_their_descriptors() {
        let (mut one, mut other) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fds = vec![listener.as_fd(); FDS_MAX];
        one.send(&"first", &fds).unwrap();
        one.send(&"second", &[]).unwrap();
        let (first, mut received) = other.receive::<String>(PATIENCE).unwrap();
        assert_eq!((first.as_str(), received.len()), ("first", FDS_MAX));
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let received = TcpListener::from(received.pop().unwrap());
        let _client = TcpStream::connect(addr).unwrap();
        received.accept().unwrap();
        assert_eq!(other.receive::<String>(PATIENCE).unwrap().0, "second");
    }

    #[test]
    fn bytes_that_are_no_message_are_an_error() {
        let (mut one, mut other) = pair();
        assert!(one.is_open() && other.is_open());
        one.0.write_all(&[0xFF; HEAD_BYTES]).unwrap();
        assert!(!other.is_open());
        assert_eq!(other.receive::<String>(PATIENCE).unwrap_err().kind(), ErrorKind::InvalidData);
        one.0.write_all(&[1, 0, 0, 0, 3, 0, 0, 0, 0]).unwrap();
        assert_eq!(other.receive::<String>(PATIENCE).unwrap_err().kind(), ErrorKind::InvalidData);
        drop(one);
        assert!(!other.is_open());
        let (one, mut other) = pair();
        drop(one);
        assert_eq!(other.receive::<String>(PATIENCE).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(!other.is_open());
    }

    #[test]
    fn too_many_descriptors_are_refused() {
        let (mut one, _other) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fds = vec![listener.as_fd(); FDS_MAX + 1];
        one.send(&"too many", &fds).unwrap_err();
    }
}
