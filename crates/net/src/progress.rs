//! Progress: sockets of the HTTP server, which end when their client stops reading its answers.
//!
//! Owns        the deadline on writes (`Watched`), and the state that it shares with the request handler (`Progress`).
//! Invariants  P1 a write that the socket refuses for `write_stall_ms` ends the connection, and its unsent bytes are
//!             discarded. P2 a client that reads slowly and steadily keeps its connection: each byte that the socket
//!             takes starts a new deadline. P3 a pipelined request waits until the answer before it is in the kernel.
//!             (tests `guildhall/tests/it/places.rs`)
//! Limits      `SEND_BUFFER_BYTES` in the kernel per REST socket, one answer in user space; `UNSENT_BYTES_MAX` per
//!             gateway socket. With a full buffer the
//!             kernel reports room when a third of it is free, so a client that reads less than some 3 KB/s counts as
//!             stalled by default.
//! Not here    deadlines on request heads (`http`) and bodies (`body`, `guildhall-http-kit`); gateway sockets
//!             (`guildhall-partition`).

use crate::http::HttpCounters;
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size, set_tcp_user_timeout};
use socket2::SockRef;
use std::{
    future::Future as _,
    io::{self, ErrorKind, IoSlice},
    os::fd::AsFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Notify,
    time::{Sleep, sleep},
};

/// The kernel doubles it for its own accounting. Autotuning would allow several megabytes for each client that does not
/// read its socket.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Bytes in the kernel that a gateway socket has not sent yet; with more it takes no further ones. What is on its way
/// has no such bound, so that a client that reads gets as much as the network takes.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// State shared by the socket and the request handler of one connection.
#[derive(Debug)]
pub struct Progress {
    write_stall: Duration,
    is_rest: AtomicBool,
    is_blocked: AtomicBool,
    unblocked: Notify,
    counters: Arc<HttpCounters>,
}

impl Progress {
    pub fn new(write_stall: Duration, counters: Arc<HttpCounters>) -> Arc<Self> {
        let (is_rest, is_blocked) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { write_stall, is_rest, is_blocked, unblocked: Notify::new(), counters })
    }

    /// The socket serves REST: from the next write on it has a small buffer, and a timeout for peers that are lost.
    pub fn set_rest(&self) {
        self.is_rest.store(true, Ordering::Relaxed);
    }

    /// Waits until the socket has taken all earlier answers. Bounded: past `write_stall` the connection is reset.
    pub async fn unblocked(&self) {
        loop {
            let unblocked = self.unblocked.notified();
            if !self.is_blocked.load(Ordering::Acquire) {
                return;
            }
            unblocked.await;
        }
    }
}

/// Bounds the bytes that the kernel has of a gateway socket.
pub fn tune_for_gateway(stream: &impl AsFd) {
    // An error means that the socket is gone, or the system does not have the option.
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
}

/// A socket whose writes have a deadline.
#[derive(Debug)]
pub struct Watched {
    stream: TcpStream,
    /// Bytes that were read before, which come first.
    early: Vec<u8>,
    progress: Arc<Progress>,
    is_tuned: bool,
    /// Deadline of the write in progress.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    pub fn new(stream: TcpStream, early: Vec<u8>, progress: Arc<Progress>) -> Self {
        Self { stream, early, progress, is_tuned: false, deadline: None }
    }

    /// Returns the socket, for the gateway. If it served REST before, it keeps its small buffer.
    pub fn into_inner(self) -> TcpStream {
        tune_for_gateway(&self.stream);
        if self.is_tuned {
            // An error means that the socket is gone, which its owner notices.
            let _ = set_tcp_user_timeout(&self.stream, 0);
        }
        self.stream
    }

    fn tune(&mut self) {
        if !self.is_tuned && self.progress.is_rest.load(Ordering::Relaxed) {
            self.is_tuned = true;
            let stall_ms = u32::try_from(self.progress.write_stall.as_millis()).unwrap_or(u32::MAX);
            // An error means that the socket is closed, which the write reports.
            let _ = set_socket_send_buffer_size(&self.stream, SEND_BUFFER_BYTES);
            // It also bounds the bytes that are in the kernel when the socket is closed.
            let _ = set_tcp_user_timeout(&self.stream, stall_ms);
        }
    }

    /// Updates the deadline after a write returned `result`.
    fn watch<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let progress = &self.progress;
        if result.is_ready() {
            self.deadline = None;
            if progress.is_blocked.swap(false, Ordering::AcqRel) {
                progress.unblocked.notify_waiters();
            }
            return result;
        }
        progress.is_blocked.store(true, Ordering::Release);
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(progress.write_stall)));
        if deadline.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        progress.counters.stalled.fetch_add(1, Ordering::Relaxed);
        // A reset, so that the kernel discards the unread bytes.
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let count = self.early.len().min(buf.remaining());
            buf.put_slice(&self.early[..count]);
            self.early.drain(..count);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.tune();
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.tune();
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
