//! Wire: the binary form of messages between nodes, MessagePack with named fields.
//!
//! Entry       `encode`, `decode`.
//! Invariants  W1 bytes of an unknown version are refused before they are read. W2 any bytes are decoded or refused:
//!             `decode` never panics, and allocates in proportion to their number.

use serde::{Serialize, de::DeserializeOwned};

/// The version that this program writes, and the only one that it reads.
pub const VERSION: u16 = 1;

/// Why bytes are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another version of this program wrote the message.
    #[error("the message has version {found}, and this program reads version {VERSION}: upgrade the older node")]
    UnknownVersion { found: u16 },
    /// No program of ours writes these bytes.
    #[error("the message is malformed: {0}")]
    Malformed(String),
}

/// The message as bytes of version `VERSION`.
///
/// # Panics
/// If the message has a sequence of unknown length: none of ours has.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(message).expect("messages between nodes have lengths and string keys")
}

/// The message in `bytes`, which another node wrote as `version`.
///
/// # Errors
/// `UnknownVersion`, `Malformed`.
pub fn decode<T: DeserializeOwned>(version: u16, bytes: &[u8]) -> Result<T, WireError> {
    if version != VERSION {
        return Err(WireError::UnknownVersion { found: version });
    }
    rmp_serde::from_slice(bytes).map_err(|error| WireError::Malformed(error.to_string()))
}
