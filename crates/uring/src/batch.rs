//! The batch: sends are collected, submitted with one system call, and all completed when that returns.

use crate::{ARENA_BYTES, Broken, SENDS_MAX, Shortfall};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::{
    io::{self, ErrorKind, Read as _},
    mem,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd},
        unix::net::UnixStream,
    },
};

/// Like a plain non-blocking `send`: it never waits for room (U2), and a peer that is gone is an error, not a signal.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// The result of a send that the kernel was not told of, or has not told us about yet.
const UNKNOWN: i32 = i32::MIN;
/// How often in a row the kernel may say "again" without anything having completed.
const RETRIES_MAX: usize = 10_000;

/// One send: where its bytes are, and how many of them went out or which error.
struct Send {
    tag: u64,
    at: usize,
    bytes: usize,
    result: i32,
}

/// A ring and the sends that are to go out with the next `submit`.
///
/// Belongs to the thread that made it: the kernel refuses others.
pub struct SendBatch {
    ring: IoUring,
    arena: Box<[u8]>,
    arena_used: usize,
    sends: Vec<Send>,
    /// Sends that the kernel may be working on, or will be when it is entered. Zero except within `submit`, and after
    /// it broke or panicked.
    under_way: usize,
}

impl SendBatch {
    /// Makes a ring and sends something to ourselves with it.
    ///
    /// # Errors
    /// When the kernel is too old (Linux 6.1 is needed), io_uring is forbidden, or does not do what we need.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::<squeue::Entry, cqueue::Entry>::builder()
            // One thread submits, and completions come when it asks for them: the kernel needs no locks and no
            // interrupts.
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

    /// A socket with room takes everything, one without says so at once, a dead one is an error.
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
            let short = |tag: u64, shortfall: Shortfall<'_>| match (tag, shortfall) {
                (0, Shortfall::Rest(_)) => is_full = true,
                (1, Shortfall::Dead) => is_gone_dead = true,
                _ => {}
            };
            self.submit(|tag| fds.get(tag as usize).copied(), short).map_err(|Broken(error)| error)?;
            if !is_gone_dead {
                return Err(io::Error::other("a send to nobody was no error"));
            }
        }
        let mut taken = [0; 4096];
        theirs.read_exact(&mut taken)?;
        if taken != [b'?'; 4096] {
            return Err(io::Error::other("what was sent did not arrive"));
        }
        Ok(())
    }

    /// Whether nothing waits for `submit`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Takes a send for the next `submit`, copying `bytes`. False: there is no room, submit first. Of one socket there
    /// may be one send per batch, since the kernel does not promise an order.
    pub fn push(&mut self, tag: u64, bytes: &[u8]) -> bool {
        let (at, end) = (self.arena_used, self.arena_used + bytes.len());
        // A broken batch must not be written to (U1).
        if self.sends.len() == SENDS_MAX || end > self.arena.len() || self.under_way > 0 {
            return false;
        }
        self.arena[at..end].copy_from_slice(bytes);
        // The next one begins on a cache line of its own.
        self.arena_used = end.next_multiple_of(64);
        self.sends.push(Send { tag, at, bytes: bytes.len(), result: UNKNOWN });
        true
    }

    /// Sends everything that was pushed, to the sockets that `fd_of` names by their tags (none: that send is dropped),
    /// and tells `short` of each send that did not take everything. Nothing is left behind.
    ///
    /// # Errors
    /// When the ring broke; then the batch is of no use any more, and what is not known to have gone out was told as
    /// dead.
    pub fn submit<'fd>(
        &mut self,
        mut fd_of: impl FnMut(u64) -> Option<BorrowedFd<'fd>>,
        mut short: impl FnMut(u64, Shortfall<'_>),
    ) -> Result<(), Broken> {
        if self.under_way > 0 {
            return Err(Broken(io::Error::other("it broke before")));
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
                result if result > 0 => short(send.tag, Shortfall::Rest(&bytes[result as usize..])),
                result if result == -libc::EAGAIN || result == -libc::EINTR => {
                    short(send.tag, Shortfall::Rest(bytes));
                }
                _ => short(send.tag, Shortfall::Dead),
            }
        }
        self.sends.clear();
        self.arena_used = 0;
        completed
    }

    /// Tells the kernel where a send's bytes are; it looks when `complete` enters it.
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
        pushed.expect("the ring has SENDS_MAX entries, and there are no more sends than that");
        self.under_way += 1;
    }

    /// Enters the kernel until every send has its result.
    fn complete(&mut self) -> Result<(), Broken> {
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
                // Out of memory for the moment, or too many completions waited: what came was taken, so once more.
                Err(error)
                    if retries_left > 0
                        && (error.kind() == ErrorKind::Interrupted
                            || matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))) =>
                {
                    retries_left = if self.under_way < before { RETRIES_MAX } else { retries_left - 1 };
                }
                Err(error) => return Err(Broken(error)),
            }
        }
        Ok(())
    }
}

impl Drop for SendBatch {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // The ring broke: the kernel may still read from the arena (U1).
            mem::forget(mem::take(&mut self.arena));
        }
    }
}
