//! Opening handshake: the HTTP request that turns a connection into a WebSocket, and its answer.
//!
//! Owns        `accept_key`; the server's check of a request; our own client's request and check of the answer.
//! Doors       [`UpgradeRequest`] for servers, with headers from any HTTP library; [`ClientHandshake`] for
//!             test and bench clients with a raw socket.
//! Not here    Host, Origin, paths, queries and subprotocols: the caller's policy.     Spec  RFC 6455 §4.

mod client;
mod server;

pub use client::{ANSWER_BYTES_MAX, ClientHandshake};
pub use server::UpgradeRequest;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// A client's request is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("the method is not GET")]
    Method,
    #[error("a WebSocket opens over HTTP/1.1")]
    HttpVersion,
    #[error("no `Upgrade: websocket` header")]
    Upgrade,
    #[error("no `Connection: Upgrade` header")]
    Connection,
    #[error("Sec-WebSocket-Version is missing, repeated, or not 13")]
    Version,
    #[error("Sec-WebSocket-Key is missing, repeated, or not 16 bytes in base64")]
    Key,
    #[error("Sec-WebSocket-Extensions breaks the syntax of RFC 6455, section 9.1")]
    Extensions,
}

impl HandshakeError {
    /// HTTP status of the answer. 426 also needs the headers `Upgrade: websocket` and `Sec-WebSocket-Version: 13`; 405
    /// needs `Allow: GET`.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Method => 405,
            Self::HttpVersion => 505,
            Self::Upgrade | Self::Version => 426,
            Self::Connection | Self::Key | Self::Extensions => 400,
        }
    }
}

/// Our own client's handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the answer is not HTTP/1.1")]
    Malformed,
    #[error("the answer's head is over {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error("the server refused with HTTP status {0}")]
    Refused(u16),
    #[error("status 101, but the headers do not confirm an upgrade to WebSocket")]
    NotUpgraded,
    #[error("Sec-WebSocket-Accept is missing or does not match the key")]
    AcceptKey,
    #[error("the server chose an extension or a subprotocol that was not offered")]
    NotOffered,
}

/// The value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`, as ASCII.
#[must_use]
pub fn accept_key(sec_websocket_key: &[u8]) -> [u8; 28] {
    let digest = Sha1::new().chain_update(sec_websocket_key).chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let mut accept = [0; 28];
    let written = STANDARD.encode_slice(digest.finalize(), &mut accept);
    debug_assert_eq!(written, Ok(28), "20 bytes are 28 characters");
    accept
}

/// A comma-separated header value contains `token`, ignoring case.
fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|&byte| byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_key_of_the_rfc() {
        assert_eq!(&accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn tokens() {
        let check = |value: &str, expected| assert_eq!(has_token(value.as_bytes(), "upgrade"), expected, "{value:?}");
        check("Upgrade", true);
        check("keep-alive, UPGRADE", true);
        check("keep-alive,\tupgrade ,x", true);
        check("upgrades", false);
        check("up grade", false);
        check("", false);
        check(",,", false);
    }
}
