//! Tokens: what of a secret is kept.
//!
//! Invariants  the token itself is never stored, and not even its hash is printed whole.

use guildhall_model::UserId;
use guildhall_stdx::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt;

/// SHA-256 of a token. Tokens themselves are never stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a token, as it is after `Bot ` or `Bearer `.
    ///
    /// Unsalted: tokens are random and long, so there is nothing to guess from the hash.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

/// The first four bytes, enough to distinguish two in a log.
impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "TokenHash({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Account that the token belongs to.
    pub user_id: UserId,
    /// When it was minted.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vector_and_short_debug() {
        let hash = TokenHash::of("abc"); // FIPS 180-2, appendix B.1
        assert_eq!(hash.0[..8], [0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea]);
        assert_eq!(hash.0[28..], [0xf2, 0x00, 0x15, 0xad]);
        assert_eq!(format!("{hash:?}"), "TokenHash(ba7816bf…)");
    }
}
