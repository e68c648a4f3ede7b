//! Request bodies that are read to their end, even when the answer did not need them.
//!
//! A request that is refused before its body is read (no token, too many) would otherwise leave the body in the socket:
//! hyper then closes the connection, and a client still sending sees a broken pipe instead of the answer.
//!
//! Limits  `DRAIN_BYTES_MAX` and `DRAIN_TIMEOUT`; past either the connection is closed after the answer. If no byte
//!         arrives for `BODY_STALL`, the reader of the body gets an error; routes have shorter deadlines of their own.

use axum::BoxError;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    future::Future as _,
    io::{self, ErrorKind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

const DRAIN_BYTES_MAX: usize = 256 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const BODY_STALL: Duration = Duration::from_secs(60);

type Shared = Arc<Mutex<Incoming>>;

/// The body for the handler. If the handler drops it early, `Rest` reads the remainder.
pub struct SharedBody {
    body: Shared,
    /// Deadline of the next frame, while the handler waits for it.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Body bytes that the handler did not read.
pub struct Rest(Shared);

/// Both ends of one body. They are used one after the other, so the lock is never waited for.
pub fn shared(body: Incoming) -> (SharedBody, Rest) {
    let body = Arc::new(Mutex::new(body));
    (SharedBody { body: body.clone(), deadline: None }, Rest(body))
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut *self.body.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(cx);
        if let Poll::Ready(frame) = polled {
            self.deadline = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(BODY_STALL)));
        if deadline.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(io::Error::from(ErrorKind::TimedOut).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

impl Rest {
    /// Reads and discards the rest, within limits. hyper sends the answer at the same time, and reads the
    /// next request afterwards.
    pub async fn drain(self) {
        // The handler still streams its answer from the body.
        if Arc::strong_count(&self.0) > 1 {
            return;
        }
        let mut body = SharedBody { body: self.0, deadline: None };
        let read = async {
            let mut left = DRAIN_BYTES_MAX;
            while !body.is_end_stream() {
                let Some(Ok(frame)) = body.frame().await else { return };
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let Some(rest) = left.checked_sub(bytes) else { return };
                left = rest;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, read).await;
    }
}
