//! Session ids: unguessable, with the number of the session's partition.
//!
//! Invariants  32 hex digits: 4 for the partition, 28 (112 bits) of a keyed hash of a counter.
//! Not here    authority: a RESUME needs the token too.

use guildhall_guild_protocol::PartitionId;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Makes session ids from a secret.
#[derive(Clone)]
pub struct SessionIds {
    partition: PartitionId,
    secret: [u8; 32],
    counter: u64,
}

impl SessionIds {
    /// A source for one partition; `secret` must be random and new with every start of the process.
    #[must_use]
    pub fn new(partition: PartitionId, secret: [u8; 32]) -> Self {
        Self { partition, secret, counter: 0 }
    }

    /// A new session id.
    pub fn next_id(&mut self) -> Arc<str> {
        self.counter += 1;
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(self.partition.0.to_le_bytes());
        hash.update(self.counter.to_le_bytes());
        let hash = hash.finalize();
        let bytes = self.partition.0.to_be_bytes().into_iter().chain(hash).take(16);
        let digits = bytes.flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| HEX_DIGITS[usize::from(digit)]);
        // An array, so that the id is one allocation.
        let mut id = [0; 32];
        id.iter_mut().zip(digits).for_each(|(place, digit)| *place = digit);
        std::str::from_utf8(&id).expect("digits are ASCII").into()
    }
}

/// The partition a session id points to; none if it is not one of ours.
#[must_use]
pub fn session_partition(session_id: &str) -> Option<PartitionId> {
    if session_id.len() != 32 || !session_id.is_ascii() {
        return None;
    }
    u16::from_str_radix(&session_id[..4], 16).ok().map(PartitionId)
}

/// The partition of a node that has a session, or would have it: the one that the id names. Sessions of other nodes are
/// spread over all `partitions_count`. None if the id is not one of ours.
#[must_use]
pub fn session_home(session_id: &str, node: u8, partitions_count: u16) -> Option<PartitionId> {
    let named = session_partition(session_id)?;
    if named.node() == node && named.index() < usize::from(partitions_count) {
        return Some(named);
    }
    // The last digits are those of a hash.
    let hash = u16::from_str_radix(&session_id[28..], 16).ok()?;
    Some(PartitionId::of_node(node, (hash % partitions_count.max(1)) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_differ_and_lead_back() {
        let mut ids = SessionIds::new(PartitionId(513), [7; 32]);
        let made: HashSet<Arc<str>> = (0..1000).map(|_| ids.next_id()).collect();
        assert!(made.contains("02019aae21f48ebdff84c3f2bfa88b5a"), "{made:?}");
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|id| id.len() == 32 && session_partition(id) == Some(PartitionId(513))));
        assert_eq!(session_partition("x"), None);
        assert_eq!(session_partition("zzzz0000000000000000000000000000"), None);
        assert_eq!(session_partition("é00000000000000000000000000000é"), None);
    }
}
