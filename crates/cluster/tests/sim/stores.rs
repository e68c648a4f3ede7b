//! Stores: the lease store and the database as one process sees them through a network.
//!
//! Not here    delays, lost answers and outages: `world`.

use guildhall_cluster::{NodeRecord, OwnerRecord, RequestId, Revision};
use guildhall_model::GuildId;
use std::collections::{BTreeMap, BTreeSet};

/// Key of the lease store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Node(u8),
    Guild(GuildId),
}

#[derive(Clone, Debug)]
pub enum Value {
    Node(NodeRecord),
    Owner(OwnerRecord),
}

#[derive(Clone, Debug)]
pub enum KvOp {
    Get(Key),
    Create(Key, Value),
    Update(Key, Value, Revision),
    Remove(Key, Revision),
}

#[derive(Clone, Debug)]
pub enum KvResult {
    Found(Option<(Value, Revision)>),
    Written(Revision),
    Removed,
    Conflict,
    Away,
}

/// The lease store. Values of nodes expire.
#[derive(Default)]
pub struct Kv {
    values: BTreeMap<Key, (Value, Revision)>,
    revision: Revision,
}

impl Kv {
    pub fn get(&self, key: Key) -> Option<(Value, Revision)> {
        self.values.get(&key).cloned()
    }

    pub fn node(&self, number: u8) -> Option<NodeRecord> {
        match self.get(Key::Node(number)) {
            Some((Value::Node(record), _)) => Some(record),
            _ => None,
        }
    }

    /// Carries out an operation. Returns what it wrote.
    pub fn apply(&mut self, op: &KvOp) -> (KvResult, Option<(Key, Revision)>) {
        let (key, value) = match op {
            KvOp::Get(key) => return (KvResult::Found(self.get(*key)), None),
            KvOp::Create(key, value) if !self.values.contains_key(key) => (*key, value),
            KvOp::Update(key, value, revision) if self.values.get(key).is_some_and(|(_, is)| is == revision) => {
                (*key, value)
            }
            KvOp::Remove(key, revision) if self.values.get(key).is_some_and(|(_, is)| is == revision) => {
                self.revision += 1;
                self.values.remove(key);
                return (KvResult::Removed, None);
            }
            KvOp::Create(..) | KvOp::Update(..) | KvOp::Remove(..) => return (KvResult::Conflict, None),
        };
        self.write(key, value)
    }

    /// Writes a value, whatever is there.
    pub fn write(&mut self, key: Key, value: &Value) -> (KvResult, Option<(Key, Revision)>) {
        self.revision += 1;
        self.values.insert(key, (value.clone(), self.revision));
        (KvResult::Written(self.revision), Some((key, self.revision)))
    }

    /// Removes a value that was not renewed since this revision.
    pub fn expire(&mut self, key: Key, revision: Revision) -> Option<Value> {
        if self.values.get(&key)?.1 != revision {
            return None;
        }
        self.revision += 1;
        self.values.remove(&key).map(|(value, _)| value)
    }
}

/// One guild in the database.
#[derive(Default)]
pub struct Stored {
    pub epoch: u64,
    /// Commands in the order of their commits.
    pub log: Vec<RequestId>,
    pub known: BTreeSet<RequestId>,
}
