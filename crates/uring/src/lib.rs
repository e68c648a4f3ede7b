//! Many small sends to many sockets with one system call, by io_uring.
//!
//! Owns        the ring, and the memory that the kernel reads from while it sends.
//! Doors       `SendBatch::new` probes the kernel and fails where io_uring lacks a needed feature.
//!             `push`, then `submit`.
//! Invariants  U1 memory handed to the kernel stays in place, unchanged, until the kernel is done with it: the batch
//!             owns it, and `submit` does not return before every send has completed. U2 a send never waits: a send to
//!             a full socket completes at once, like a non-blocking `send`.
//! Limits      `SENDS_MAX` sends and `ARENA_BYTES` bytes per batch; past either the caller submits first.
//! Not here    which sockets and when (`guildhall-net`), retries of bytes that did not fit (`guildhall-partition`).
#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod batch;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub use batch::SendBatch;
#[cfg(not(target_os = "linux"))]
pub use unsupported::SendBatch;

/// Sends per batch. Larger batches do not cost less per send, and delay the first recipients.
pub const SENDS_MAX: usize = 512;
/// Bytes of all sends of a batch. Fits a core's second-level cache.
pub const ARENA_BYTES: usize = 512 << 10;

/// Result of a send that did not take everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialSend<'a> {
    /// The socket is full: these bytes remain, all of them or the end.
    Rest(&'a [u8]),
    /// The socket is closed.
    Closed,
}

/// The ring failed in an unexpected way. Sends without a completion are lost; the batch cannot be used any more.
#[derive(Debug)]
pub struct RingError(pub std::io::Error);

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the ring of sends failed")
    }
}

impl std::error::Error for RingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
