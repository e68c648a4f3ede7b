//! Where there is no io_uring: the probe says so, and nothing else is ever called.

use crate::{Broken, Shortfall};
use std::{convert::Infallible, io, os::fd::BorrowedFd};

/// Does not exist on this system.
pub struct SendBatch(Infallible);

impl SendBatch {
    /// # Errors
    /// Always.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// See the Linux one.
    pub fn push(&mut self, _tag: u64, _bytes: &[u8]) -> bool {
        match self.0 {}
    }

    /// See the Linux one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.0 {}
    }

    /// See the Linux one.
    ///
    /// # Errors
    /// Never.
    pub fn submit<'fd>(
        &mut self,
        _fd_of: impl FnMut(u64) -> Option<BorrowedFd<'fd>>,
        _short: impl FnMut(u64, Shortfall<'_>),
    ) -> Result<(), Broken> {
        match self.0 {}
    }
}
