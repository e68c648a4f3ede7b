//! Session ids: unguessable, with the number of the session's partition.
//!
//! Invariants  32 hex digits: 4 for the partition, 28 (112 bits) of a keyed hash of a counter.
//! Not here    authority: a RESUME needs the token too.

use guildhall_guild_protocol::PartitionId;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

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
    pub fn next_id(&mut self) -> String {
        self.counter += 1;
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(self.partition.0.to_le_bytes());
        hash.update(self.counter.to_le_bytes());
        let mut id = format!("{:04x}", self.partition.0);
        for byte in hash.finalize().iter().take(14) {
            write!(id, "{byte:02x}").expect("writing to a string");
        }
        id
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
        let made: HashSet<String> = (0..1000).map(|_| ids.next_id()).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|id| id.len() == 32 && session_partition(id) == Some(PartitionId(513))));
        assert_eq!(session_partition("x"), None);
        assert_eq!(session_partition("zzzz0000000000000000000000000000"), None);
        assert_eq!(session_partition("é00000000000000000000000000000é"), None);
    }
}
