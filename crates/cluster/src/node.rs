//! Nodes: their identifiers and their records in the lease store.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a node in its cluster, below `NODES_MAX`. Partitions, sessions and ids of the node contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeNumber(pub u8);

impl NodeNumber {
    /// Most nodes in a cluster.
    pub const NODES_MAX: u8 = 64;
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Random id of one membership, from joining to leaving. A node that lost its lease joins with a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// Whether a node accepts guilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node has its number, is starting, and accepts no guilds yet.
    Joining,
    Active,
    /// The node keeps its guilds and accepts no others.
    Draining,
}

/// Record of a node in the lease store, under `nodes.NUMBER`. It expires unless the node renews it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name for people, `cluster.node_name`.
    pub name: String,
    pub incarnation: Incarnation,
    /// URL for clients and other nodes.
    pub url: String,
    /// Share of the guilds: a node of weight 2 owns about twice as many as one of weight 1.
    pub weight: u32,
    pub state: NodeState,
    /// Version of the program.
    pub version: String,
    /// The node's clock when it wrote the record, Unix milliseconds; 0 in records of earlier versions.
    #[serde(default)]
    pub clock_ms: i64,
    /// Whether it understands the messages of a hand-off.
    #[serde(default)]
    pub has_handoff: bool,
    /// None: a node of an earlier version, or one that has just started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<NodeLoad>,
}

impl NodeRecord {
    /// An active node of this release and of weight 1, without a name and addresses: the base of records in tests.
    #[must_use]
    pub fn active(incarnation: Incarnation) -> Self {
        Self {
            name: String::new(),
            incarnation,
            url: String::new(),
            weight: 1,
            state: NodeState::Active,
            version: String::new(),
            clock_ms: 0,
            has_handoff: true,
            load: None,
        }
    }
}

/// Load of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Share of the last minute for which each guild worker was busy, in thousandths.
    pub workers: Vec<u16>,
    /// Memory in use under the tightest limit, and that limit; 0: not known.
    #[serde(default)]
    pub memory_bytes: u64,
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// Whether its guilds may move for load, and others may come.
    #[serde(default)]
    pub takes_part: bool,
}

/// Record of a guild's owner in the lease store, under `guilds.ID`. Invalid once that incarnation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    pub node: NodeNumber,
    pub incarnation: Incarnation,
}
