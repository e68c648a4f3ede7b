//! The batch: collects sends, submits them with one system call, and completes all of them before it returns.

use crate::{ARENA_BYTES, PartialSend, RingError, SENDS_MAX};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::{
    io::{self, ErrorKind, Read as _},
    mem,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd},
        unix::net::UnixStream,
    },
};

/// Like a plain non-blocking `send`: never waits for room (U2), and a closed peer is an error, not a signal.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Result of a send without completion: not submitted, or still in progress.
const UNKNOWN: i32 = i32::MIN;
/// Maximum number of consecutive "try again" results without any completion.
const RETRIES_MAX: usize = 10_000;

/// One send: the range of its bytes, and the number of bytes sent or an error.
struct Send {
    tag: u64,
    at: usize,
    bytes: usize,
    result: i32,
}

/// A ring and the sends that the next `submit` performs.
/// Use it only on the thread that created it: the kernel refuses other threads.
pub struct SendBatch {
    ring: IoUring,
    arena: Box<[u8]>,
    arena_used: usize,
    sends: Vec<Send>,
    /// Sends that the kernel may be performing, or will perform when it is entered. Zero except within `submit`, and
    /// after the ring failed or the thread panicked.
    under_way: usize,
}

impl SendBatch {
    /// Creates a ring and tests it with sends to a local socket pair.
    ///
    /// # Errors
    /// When the kernel is too old (Linux 6.1 is needed), io_uring is forbidden, or the test fails.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::<squeue::Entry, cqueue::Entry>::builder()
            // One thread submits, and completions are reaped when it enters the kernel: the kernel needs neither
            // locks nor interrupts.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(SENDS_MAX as u32)?;
        let mut batch = Self {
            ring,
            arena: vec![0; ARENA_BYTES].into_boxed_slice(),
            arena_used: 0,
            sends: Vec::with_capacity(SENDS_MAX),
            under_way: 0,
        };
        batch.probe()?;
        Ok(batch)
    }

    /// Expects that a socket with room takes everything, a full one reports so at once, and a closed one is an error.
    fn probe(&mut self) -> io::Result<()> {
        let (ours, mut theirs) = UnixStream::pair()?;
        let (gone, _) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        let mut is_full = false;
        let mut is_gone_dead = false;
        while !is_full {
            self.push(0, &[b'?'; 4096]);
            self.push(1, b"anybody?");
            let fds = [ours.as_fd(), gone.as_fd()];
            let short = |tag: u64, shortfall: PartialSend<'_>| match (tag, shortfall) {
                (0, PartialSend::Rest(_)) => is_full = true,
                (1, PartialSend::Closed) => is_gone_dead = true,
                _ => {}
            };
            self.submit(|tag| fds.get(tag as usize).copied(), short).map_err(|RingError(error)| error)?;
            if !is_gone_dead {
                return Err(io::Error::other("the probe sent to a closed peer without an error"));
            }
        }
        let mut taken = [0; 4096];
        theirs.read_exact(&mut taken)?;
        if taken != [b'?'; 4096] {
            return Err(io::Error::other("the probe received other bytes than it sent"));
        }
        Ok(())
    }

    /// No send is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Queues a send for the next `submit`, copying `bytes`. False if there is no room: submit first. Queue at most one
    /// send per socket and batch, because the kernel does not guarantee their order.
    pub fn push(&mut self, tag: u64, bytes: &[u8]) -> bool {
        let (at, end) = (self.arena_used, self.arena_used + bytes.len());
        // Never write to a failed batch (U1).
        if self.sends.len() == SENDS_MAX || end > self.arena.len() || self.under_way > 0 {
            return false;
        }
        self.arena[at..end].copy_from_slice(bytes);
        // The next send starts on a cache line of its own.
        self.arena_used = end.next_multiple_of(64);
        self.sends.push(Send { tag, at, bytes: bytes.len(), result: UNKNOWN });
        true
    }

    /// Sends everything that was queued, to the sockets that `fd_of` returns for their tags (none: that send is
    /// dropped). Calls `short` for each send that was incomplete. Queues are empty afterwards.
    ///
    /// # Errors
    /// When the ring failed. The batch cannot be used any more; sends without a known result were reported as dead.
    pub fn submit<'fd>(
        &mut self,
        mut fd_of: impl FnMut(u64) -> Option<BorrowedFd<'fd>>,
        mut short: impl FnMut(u64, PartialSend<'_>),
    ) -> Result<(), RingError> {
        if self.under_way > 0 {
            return Err(RingError(io::Error::other("it broke before")));
        }
        for index in 0..self.sends.len() {
            match fd_of(self.sends[index].tag) {
                Some(fd) => self.queue(index, fd),
                None => self.sends[index].result = self.sends[index].bytes as i32,
            }
        }
        let completed = self.complete();
        for send in &self.sends {
            let bytes = &self.arena[send.at..send.at + send.bytes];
            match send.result {
                result if result == send.bytes as i32 => {}
                result if result > 0 => short(send.tag, PartialSend::Rest(&bytes[result as usize..])),
                result if result == -libc::EAGAIN || result == -libc::EINTR => {
                    short(send.tag, PartialSend::Rest(bytes));
                }
                _ => short(send.tag, PartialSend::Closed),
            }
        }
        self.sends.clear();
        self.arena_used = 0;
        completed
    }

    /// Fills a submission entry for a send; the kernel reads it when `complete` enters it.
    #[expect(unsafe_code, reason = "the kernel is given an address")]
    fn queue(&mut self, index: usize, fd: BorrowedFd<'_>) {
        let send = &self.sends[index];
        let bytes = &self.arena[send.at..send.at + send.bytes];
        let entry = opcode::Send::new(types::Fd(fd.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(FLAGS)
            .build()
            .user_data(index as u64);
        // SAFETY: the bytes are in `arena`, which is neither moved, written to nor freed until the send has completed:
        // `submit` calls `complete` next, which returns only when all have; if it cannot, `under_way` stays above zero,
        // and then `push` refuses and `drop` leaks the arena. `submit` holds the descriptor borrowed for as long.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has SENDS_MAX entries, and a batch has at most that many sends");
        self.under_way += 1;
    }

    /// Enters the kernel until every send has a result.
    fn complete(&mut self) -> Result<(), RingError> {
        let mut retries_left = RETRIES_MAX;
        while self.under_way > 0 {
            let before = self.under_way;
            let entered = self.ring.submit_and_wait(before);
            for completion in self.ring.completion() {
                self.sends[completion.user_data() as usize].result = completion.result();
                self.under_way -= 1;
            }
            match entered {
                Ok(_) => {}
                // Out of memory, or too many completions were waiting. Those were reaped, so try again.
                Err(error)
                    if retries_left > 0
                        && (error.kind() == ErrorKind::Interrupted
                            || matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))) =>
                {
                    retries_left = if self.under_way < before { RETRIES_MAX } else { retries_left - 1 };
                }
                Err(error) => return Err(RingError(error)),
            }
        }
        Ok(())
    }
}

impl Drop for SendBatch {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // The ring failed: the kernel may still read from the arena (U1).
            mem::forget(mem::take(&mut self.arena));
        }
    }
}
