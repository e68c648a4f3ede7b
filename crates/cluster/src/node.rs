//! Nodes: how they are named, and what the lease store says of them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a node in its cluster, below `NODES_MAX`. Partitions, sessions and ids of the node contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeNumber(pub u8);

impl NodeNumber {
    /// Nodes of a cluster at most.
    pub const NODES_MAX: u8 = 64;
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One membership of a node, from joining to leaving: a random number, new with each. A node that lost its lease joins
/// under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// Whether a node takes guilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It starts: it has its number and takes no guilds.
    Joining,
    /// It takes guilds.
    Active,
    /// It keeps the guilds that it has, and takes no more.
    Draining,
}

/// What the lease store has of a node, under `nodes.NUMBER`. It expires unless the node renews it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name for people, `cluster.node_name`.
    pub name: String,
    pub incarnation: Incarnation,
    /// URL at which clients and other nodes reach it.
    pub url: String,
    /// Share of the guilds: a node of weight 2 takes twice as many as one of weight 1.
    pub weight: u32,
    pub state: NodeState,
    /// Version of the program.
    pub version: String,
}

/// What the lease store has of a guild, under `guilds.ID`. Void once that incarnation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    pub node: NodeNumber,
    pub incarnation: Incarnation,
}
