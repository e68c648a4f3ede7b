//! Seal: a code on everything that nodes send each other over the bus, by which they refuse what others send.
//!
//! Owns        the cluster's key, and the form of a sealed message: the bytes, then `TAG_BYTES` of HMAC-SHA256 over its
//!             context and the bytes.
//! Invariants  S1 a message is opened only in the context that it was sealed for: its subject, or for an answer its
//!             question. (tests `s1_*`)
//! Not here    repetitions: frames have numbers (`guildhall_bus::Incoming`), and so have questions (`ask`). Nothing is
//!             encrypted: the connection to the bus is (`cluster.nats_ca_file`).

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use bytes::Bytes;
use std::fmt;

/// Half of the hash, the shortest that RFC 2104 recommends.
pub(super) const TAG_BYTES: usize = 16;

pub(super) type Tag = [u8; TAG_BYTES];

/// Key that the nodes of a cluster share.
#[derive(Clone, Copy)]
pub struct ClusterKey(pub [u8; 32]);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey([redacted])")
    }
}

/// Seals and opens messages.
pub(super) struct Seal(hmac::Key);

impl Seal {
    pub fn new(key: ClusterKey) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key.0))
    }

    fn tag(&self, context: &[u8], bytes: &[u8]) -> Tag {
        let mut hmac = hmac::Context::with_key(&self.0);
        hmac.update(&(context.len() as u64).to_le_bytes());
        hmac.update(context);
        hmac.update(bytes);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hmac.sign().as_ref()[..TAG_BYTES]);
        tag
    }

    /// The bytes with their tag.
    pub fn seal(&self, context: &[u8], bytes: &[u8]) -> (Bytes, Tag) {
        let tag = self.tag(context, bytes);
        let mut sealed = Vec::with_capacity(bytes.len() + TAG_BYTES);
        sealed.extend_from_slice(bytes);
        sealed.extend_from_slice(&tag);
        (sealed.into(), tag)
    }

    /// The bytes of a sealed message, with its tag. None: no node of this cluster has sealed it for this context.
    pub fn open(&self, context: &[u8], sealed: &Bytes) -> Option<(Bytes, Tag)> {
        let (bytes, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
        verify_slices_are_equal(tag, &self.tag(context, bytes)).ok()?;
        Some((sealed.slice(..bytes.len()), *tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn s1_a_message_is_opened_with_its_key_in_its_context_and_unchanged() {
        let seal = Seal::new(ClusterKey([7; 32]));
        let (sealed, tag) = seal.seal(b"node.3", b"hello");
        assert_eq!(seal.open(b"node.3", &sealed), Some((Bytes::from_static(b"hello"), tag)));
        assert_eq!(seal.open(b"node.4", &sealed), None);
        assert_eq!(Seal::new(ClusterKey([8; 32])).open(b"node.3", &sealed), None);
        for index in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[index] ^= 1;
            assert_eq!(seal.open(b"node.3", &changed.into()), None, "byte {index}");
            assert_eq!(seal.open(b"node.3", &sealed.slice(..index)), None, "the first {index} bytes");
        }
        // The border between context and content is part of both.
        let (moved, _) = seal.seal(b"node.", b"3hello");
        assert_eq!(seal.open(b"node.3", &moved.slice(1..)), None);
        assert_eq!(format!("{:?}", ClusterKey([7; 32])), "ClusterKey([redacted])");
    }

    /// Prints the figures of docs/cluster.md.
    #[test]
    fn the_cost_of_a_frame() {
        let seal = Seal::new(ClusterKey([7; 32]));
        for bytes in [64, 749, 4_118, 65_536, 1 << 20] {
            let frame = vec![5; bytes];
            let rounds = (50_000_000 / (bytes + 2_000)).max(20);
            let started = Instant::now();
            for _ in 0..rounds {
                let (sealed, _) = seal.seal(b"node.3", &frame);
                assert!(seal.open(b"node.3", &sealed).is_some());
            }
            let ns = started.elapsed().as_nanos() / rounds as u128;
            println!("{bytes} bytes: {ns} ns to seal and open");
        }
    }
}
