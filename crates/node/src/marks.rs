//! Marks: keyed hashes by which the nodes of a cluster recognise what one of them issued.
//!
//! Owns        the key, which follows from `auth.jwt_secret`, so all nodes have it.
//! Invariants  a mark of one purpose is none of another; comparing takes constant time.

use crate::Node;
use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};

/// 128 bits cannot be guessed, and are short in a URL.
pub const MARK_BYTES: usize = 16;

pub(crate) struct Marks(hmac::Key);

impl Marks {
    pub(crate) fn new(jwt_secret: &[u8]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, jwt_secret);
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&root, b"guildhall marks").as_ref()))
    }

    fn mark(&self, purpose: &str, bytes: &[u8]) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&self.seed(purpose, bytes)[..MARK_BYTES]);
        mark
    }

    /// A secret for a purpose of its own: never that of a mark, of which others see a half.
    pub(crate) fn seed(&self, purpose: &str, bytes: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(purpose.as_bytes());
        context.update(&[0]);
        context.update(bytes);
        let mut seed = [0; 32];
        seed.copy_from_slice(context.sign().as_ref());
        seed
    }
}

impl Node {
    /// A mark of these bytes, which only nodes of this cluster can make.
    #[must_use]
    pub fn mark(&self, purpose: &str, bytes: &[u8]) -> [u8; MARK_BYTES] {
        self.inner.marks.mark(purpose, bytes)
    }

    /// Whether a node of this cluster made the mark, for the same purpose.
    #[must_use]
    pub fn is_mark(&self, purpose: &str, bytes: &[u8], mark: &[u8]) -> bool {
        verify_slices_are_equal(&self.inner.marks.mark(purpose, bytes), mark).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_depends_on_key_purpose_and_bytes() {
        let marks = Marks::new(&[1; 32]);
        let mark = marks.mark("a", b"x");
        assert_eq!(mark, Marks::new(&[1; 32]).mark("a", b"x"));
        for other in [Marks::new(&[2; 32]).mark("a", b"x"), marks.mark("b", b"x"), marks.mark("a", b"y")] {
            assert_ne!(mark, other);
        }
    }
}
