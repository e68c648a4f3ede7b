//! Stub for systems without io_uring: the probe fails, so nothing else is ever called.

use crate::{PartialSend, RingError};
use std::{convert::Infallible, io, os::fd::BorrowedFd};

/// Cannot be constructed on this system.
pub struct SendBatch(Infallible);

impl SendBatch {
    /// # Errors
    /// Always: there is no io_uring on this system.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// See the implementation for Linux.
    pub fn push(&mut self, _tag: u64, _bytes: &[u8]) -> bool {
        match self.0 {}
    }

    /// See the implementation for Linux.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.0 {}
    }

    /// See the implementation for Linux.
    ///
    /// # Errors
    /// Cannot be called.
    pub fn submit<'fd>(
        &mut self,
        _fd_of: impl FnMut(u64) -> Option<BorrowedFd<'fd>>,
        _short: impl FnMut(u64, PartialSend<'_>),
    ) -> Result<(), RingError> {
        match self.0 {}
    }
}
