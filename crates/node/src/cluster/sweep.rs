//! Sweep: removes owner records of memberships that have ended.
//!
//! A node removes its own records of unused guilds (`guildhall_cluster::Cluster`, C6). Those of a node that was killed
//! or stopped stay until another node needs the guild, or until a sweep.
//!
//! Invariants  P1 only a record whose membership has ended is removed, and only if no node has replaced it since it was
//!             read. Memberships are read after the records: one that was there by then and is not the number's current
//!             one never comes back.
//! Limits      one node does it, every `SWEEP_EVERY`. `RECORDS_MAX` records at a time; a removal per `PAUSE`.

use super::{Membership, lease::membership_of};
use guildhall_bus::{Key, KeyValue, KvError, KvEvent, Revision};
use guildhall_cluster::{Incarnation, NodeNumber, OwnerRecord};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

/// Prefix of the owner records.
const GUILDS: &str = "guilds";
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// 120 bytes each while the sweep runs.
const RECORDS_MAX: usize = 65_536;
/// So that a sweep leaves the lease store to others.
const PAUSE: Duration = Duration::from_millis(2);

/// Sweeps until the node leaves.
pub(super) async fn run(membership: Arc<Membership>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if membership.has_left() {
            return;
        }
        let first = membership.members().into_iter().map(|(number, _)| number).min();
        if first != Some(membership.number) {
            continue;
        }
        match remove_ended(&*membership.kv).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed owner records of nodes that have left"),
            Err(error) => tracing::warn!(%error, "owner records could not be looked through; a later pass tries again"),
        }
    }
}

/// Returns the number of records that it removed.
async fn remove_ended(kv: &dyn KeyValue) -> Result<u64, KvError> {
    let records = read_records(kv).await?;
    let mut memberships: BTreeMap<NodeNumber, Option<Incarnation>> = BTreeMap::new();
    for (_, record, _) in &records {
        if let Entry::Vacant(unread) = memberships.entry(record.node) {
            unread.insert(membership_of(kv, record.node).await?);
        }
    }
    let has_ended = |record: &OwnerRecord| memberships.get(&record.node) != Some(&Some(record.incarnation));
    let mut count = 0;
    for (key, _, revision) in records.iter().filter(|(_, record, _)| has_ended(record)) {
        match kv.delete(key, *revision).await {
            Ok(()) => count += 1,
            // The guild has another owner.
            Err(KvError::Conflict) => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(count)
}

async fn read_records(kv: &dyn KeyValue) -> Result<Vec<(Key, OwnerRecord, Revision)>, KvError> {
    let mut records = Vec::new();
    let Some(prefix) = Key::new(GUILDS) else { return Ok(records) };
    let mut watch = kv.watch(&prefix).await?;
    while records.len() < RECORDS_MAX {
        match watch.next().await? {
            KvEvent::Put(key, entry) => {
                if let Ok(record) = serde_json::from_slice::<OwnerRecord>(&entry.value) {
                    records.push((key, record, entry.revision));
                }
            }
            // Removing or replacing a record gives it another revision.
            KvEvent::Gone(_) => {}
            KvEvent::Current => break,
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_bus::LocalKv;
    use guildhall_cluster::NodeRecord;

    #[tokio::test]
    async fn p1_only_records_of_ended_memberships_are_removed() {
        let kv = LocalKv::new();
        let key = |text: &str| Key::new(text).unwrap();
        let node = |incarnation| NodeRecord::active(Incarnation(incarnation));
        let owner =
            |number, incarnation| OwnerRecord { node: NodeNumber(number), incarnation: Incarnation(incarnation) };
        for (name, value) in [
            ("nodes.0", serde_json::to_vec(&node(10))),
            ("nodes.1", serde_json::to_vec(&node(11))),
            ("guilds.100", serde_json::to_vec(&owner(0, 10))),
            // Of the process before, and of a node that has left.
            ("guilds.101", serde_json::to_vec(&owner(1, 7))),
            ("guilds.102", serde_json::to_vec(&owner(2, 12))),
            ("guilds.103", serde_json::to_vec(&owner(1, 11))),
        ] {
            kv.create(&key(name), value.unwrap().into(), None).await.unwrap();
        }
        assert_eq!(remove_ended(&kv).await, Ok(2));
        for (name, is_there) in
            [("guilds.100", true), ("guilds.101", false), ("guilds.102", false), ("guilds.103", true)]
        {
            assert_eq!(kv.get(&key(name)).await.unwrap().is_some(), is_there, "{name}");
        }
        assert_eq!(remove_ended(&kv).await, Ok(0));
    }
}
