//! Request bodies that are read to their end, even when the answer did not need them.
//!
//! A request that is refused before its body is read (no token, too many) would otherwise leave the body in the socket:
//! hyper then closes the connection, and a client still sending sees a broken pipe instead of the answer.
//!
//! Limits  `DRAIN_BYTES_MAX` and `DRAIN_TIMEOUT`; past either the connection is closed after the answer, as before.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

const DRAIN_BYTES_MAX: usize = 256 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

type Shared = Arc<Mutex<Incoming>>;

/// The body as the handler gets it. Dropping it early leaves the rest to `Rest`.
pub struct SharedBody(Shared);

/// What the handler left unread.
pub struct Rest(Shared);

/// Both ends of one body. They are used one after the other, so the lock is never waited for.
pub fn shared(body: Incoming) -> (SharedBody, Rest) {
    let body = Arc::new(Mutex::new(body));
    (SharedBody(body.clone()), Rest(body))
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

impl Rest {
    /// Reads what is left, within limits.
    pub async fn drain(self) {
        // The answer is still being made from it: a stream in both directions.
        if Arc::strong_count(&self.0) > 1 {
            return;
        }
        let mut body = SharedBody(self.0);
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
