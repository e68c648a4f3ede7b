//! Uring: many small sends to many sockets with one system call, by io_uring.
//!
//! Owns        the ring, and the memory that the kernel reads from while it sends.
//! Doors       `SendBatch::new` is the probe: it fails wherever io_uring does not do what is needed. `push`, then
//!             `submit`.
//! Invariants  U1 whatever the kernel was told to read stays where it is, unchanged, until the kernel is done with it:
//!             the memory is the batch's own, and `submit` does not return before every send has completed. U2 a send
//!             never waits: a socket without room completes at once, like a non-blocking `send`.
//! Limits      `SENDS_MAX` sends and `ARENA_BYTES` bytes per batch; past either the caller submits first.
//! Not here    which sockets and when (`guildhall-net`), what becomes of bytes that did not fit
//!             (`guildhall-partition`).
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod batch;
#[cfg(not(target_os = "linux"))]
mod nowhere;

#[cfg(target_os = "linux")]
pub use batch::SendBatch;
#[cfg(not(target_os = "linux"))]
pub use nowhere::SendBatch;

/// Sends per batch. Larger ones do not cost less per send, and make the first recipients wait for the last.
pub const SENDS_MAX: usize = 512;
/// Bytes of all sends of a batch: small enough to stay in a core's second-level cache.
pub const ARENA_BYTES: usize = 512 << 10;

/// What became of a send that did not take everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall<'a> {
    /// The socket is full: this is left, all of it or the end.
    Rest(&'a [u8]),
    /// The socket is dead.
    Dead,
}

/// The ring failed in a way that it must not. What had not completed is lost; the batch is of no use any more.
#[derive(Debug)]
pub struct Broken(pub std::io::Error);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the ring of sends failed")
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
