//! Lines: bodies of any length, one JSON value per line (NDJSON), in both directions.
//!
//! Owns        `Lines`, which cuts a body into lines as it arrives; `Answer`, which sends lines meanwhile.
//! Invariants  N1 at most one line and one piece of the body are in memory. (test `n1_*`) N2 after the key is revoked
//!             there is no further line, available or not. (tests `s7_*` of `guildhall`)
//! Limits      a line: `json_bytes_max`, and the quota for bodies; silence: `body_deadline_ms`; unread lines of the
//!             answer: `ANSWER_LINES_MAX`, then the work waits, and ends after `answer_deadline_ms`.

use super::{V1, error::V1Error, extract::Arriving};
use crate::permit::ReadPermit;
use axum::{
    body::{Body, BodyDataStream, Bytes},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt as _;
use guildhall_http_kit::{BODY_BYTES, Reservation};
use guildhall_node::KeyLife;
use serde::Serialize;
use std::{convert::Infallible, time::Duration};
use tokio::sync::mpsc;

pub(crate) const NDJSON: &str = "application/x-ndjson";
/// How much of a body, and for how long, is read and dropped after the last line of the answer.
const DRAIN_BYTES_MAX: usize = 64 << 20;
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Lines of an answer that wait to be sent.
const ANSWER_LINES_MAX: usize = 64;

/// Whether the content type of a body is NDJSON.
pub(crate) fn is_ndjson(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    [NDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines"].contains(&kind)
}

/// The lines of a body.
pub(crate) struct Lines {
    pieces: BodyDataStream,
    piece: Bytes,
    line: Vec<u8>,
    reservation: Reservation,
    line_bytes_max: usize,
    silence_max: Duration,
    life: KeyLife,
    /// Lines so far, empty ones included.
    pub number: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// `Content-Length`.
    pub bytes_announced: Option<u64>,
}

impl Lines {
    pub fn new(v1: &V1, body: Arriving, permit: ReadPermit) -> Result<Self, V1Error> {
        let Arriving { lazy, life } = body;
        let bytes_announced = lazy.announced().map(|bytes| bytes as u64);
        let (body, reservation) = lazy.stream(permit, &v1.body_quotas)?;
        Ok(Self {
            pieces: body.into_data_stream(),
            piece: Bytes::new(),
            line: Vec::new(),
            reservation,
            line_bytes_max: v1.limits.json_bytes_max,
            silence_max: Duration::from_millis(v1.limits.body_deadline_ms),
            life,
            number: 0,
            bytes: 0,
            bytes_announced,
        })
    }

    /// Whether another line is available without waiting for more of the body.
    pub fn has_more(&self) -> bool {
        self.piece.contains(&b'\n')
    }

    /// The next line that is not empty, with its number; none at the end.
    pub async fn next(&mut self) -> Result<Option<(u64, &[u8])>, V1Error> {
        self.line.clear();
        loop {
            if self.life.is_over() {
                return Err(V1Error::revoked());
            }
            if let Some(at) = self.piece.iter().position(|byte| *byte == b'\n') {
                let end = self.piece.split_to(at + 1);
                self.bytes += end.len() as u64;
                self.take(&end[..at])?;
                self.number += 1;
                if self.line.trim_ascii().is_empty() {
                    self.line.clear();
                    continue;
                }
                return Ok(Some((self.number, self.line.trim_ascii())));
            }
            let rest = std::mem::take(&mut self.piece);
            self.bytes += rest.len() as u64;
            self.take(&rest)?;
            let next = tokio::select! {
                next = tokio::time::timeout(self.silence_max, self.pieces.next()) => next,
                () = self.life.over() => return Err(V1Error::revoked()),
            };
            match next.map_err(|_| V1Error::too_slow())? {
                Some(piece) => self.piece = piece.map_err(|_| V1Error::field("", "The body broke off."))?,
                None if self.line.trim_ascii().is_empty() => return Ok(None),
                None => {
                    self.number += 1;
                    return Ok(Some((self.number, self.line.trim_ascii())));
                }
            }
        }
    }

    /// Reads on for a moment, so that a client that still writes gets the answer instead of a reset. Drops the bytes.
    pub async fn drain(mut self) {
        let read = async {
            let mut left = DRAIN_BYTES_MAX;
            while let Some(Ok(piece)) = self.pieces.next().await
                && piece.len() <= left
            {
                left -= piece.len();
            }
        };
        // Past it the connection is reset, as without this.
        let _ = tokio::time::timeout(DRAIN_MAX, read).await;
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), V1Error> {
        if self.line.len() + bytes.len() > self.line_bytes_max {
            return Err(V1Error::too_large(self.line_bytes_max));
        }
        // A line grows by doubling.
        self.reservation.grow_to(BODY_BYTES + 2 * (self.line.len() + bytes.len())).map_err(V1Error::over_quota)?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

/// The client disconnected, or does not read.
#[derive(Debug)]
pub(crate) struct Gone;

/// An answer of lines that is being written.
pub(crate) struct Answer {
    lines: mpsc::Sender<Bytes>,
    patience: Duration,
}

impl Answer {
    /// Starts an answer, which `work` writes on a task of its own.
    pub fn stream<F: Future<Output = ()> + Send + 'static>(v1: &V1, work: impl FnOnce(Self) -> F) -> Response {
        let (lines, receiver) = mpsc::channel::<Bytes>(ANSWER_LINES_MAX);
        let patience = Duration::from_millis(v1.limits.answer_deadline_ms);
        tokio::spawn(work(Self { lines, patience }));
        let lines = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let line = receiver.recv().await?;
            Some((Ok::<_, Infallible>(line), receiver))
        });
        ([(header::CONTENT_TYPE, NDJSON)], Body::from_stream(lines)).into_response()
    }

    pub async fn line(&self, line: &impl Serialize) -> Result<(), Gone> {
        let mut text = serde_json::to_vec(line).map_err(|_| Gone)?;
        text.push(b'\n');
        self.lines.send_timeout(text.into(), self.patience).await.map_err(|_| Gone)
    }

    /// An empty line: nothing happened, and the stream lives.
    pub async fn pulse(&self) -> Result<(), Gone> {
        self.lines.send_timeout(Bytes::from_static(b"\n"), self.patience).await.map_err(|_| Gone)
    }

    /// Completes when the client has disconnected.
    pub async fn closed(&self) {
        self.lines.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&'static str], line_bytes_max: usize) -> Lines {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes()))).collect();
        let key = tokio::sync::watch::Sender::new(());
        let life = KeyLife::of(&key);
        // A key that is never revoked.
        std::mem::forget(key);
        Lines {
            pieces: Body::from_stream(futures_util::stream::iter(pieces)).into_data_stream(),
            piece: Bytes::new(),
            line: Vec::new(),
            reservation: guildhall_http_kit::Quota::new(1 << 20, 1 << 20).reservation([None; 2]),
            line_bytes_max,
            silence_max: Duration::from_secs(5),
            life,
            number: 0,
            bytes: 0,
            bytes_announced: None,
        }
    }

    async fn all(mut lines: Lines) -> Result<Vec<(u64, String)>, &'static str> {
        let mut all = Vec::new();
        let mut bytes = 0;
        while let Some((number, line)) = lines.next().await.map_err(|error| error.code)? {
            all.push((number, String::from_utf8(line.to_vec()).unwrap()));
            assert!(lines.bytes > bytes, "{number}");
            bytes = lines.bytes;
        }
        Ok(all)
    }

    #[tokio::test]
    async fn n1_lines_are_cut_wherever_the_pieces_end() {
        let expected = [(1, "{\"a\":1}"), (3, "2"), (4, "\"x\"")].map(|(n, line)| (n, line.to_owned()));
        for pieces in [
            &["{\"a\":1}\n\n2\r\n\"x\""][..],
            &["{\"a\"", ":1}", "\n", "\n2", "\r\n\"x", "\"\n"],
            &["", "{\"a\":1}\n \n2\n", "\"x\"\n\n"],
        ] {
            assert_eq!(all(lines(pieces, 8)).await.unwrap(), expected, "{pieces:?}");
        }
        assert_eq!(all(lines(&[], 8)).await.unwrap(), []);
        assert_eq!(all(lines(&["\n\n", "\n"], 8)).await.unwrap(), []);
        assert_eq!(all(lines(&["12345678\n", "1234", "56789\n"], 8)).await.unwrap_err(), "too_large");
    }
}
