//! Placement: which node takes a guild that has no owner.
//!
//! Source  weighted rendezvous hashing: D. Thaler, C. Ravishankar, "Using name-based mappings to increase hit rates",
//!         IEEE/ACM Transactions on Networking 6 (1), 1998; with weights, the highest of -weight / ln(hash), as in
//!         J. Resch, "New hashing algorithms for data storage", 2015.

use crate::node::{NodeNumber, NodeRecord, NodeState};
use guildhall_model::GuildId;
use guildhall_stdx::Rng;

/// The node among these that takes the guild; none if no node is active. When a node joins or leaves, only the guilds
/// move that it gains or loses.
pub fn node_for<'a>(
    guild_id: GuildId,
    nodes: impl Iterator<Item = (NodeNumber, &'a NodeRecord)>,
) -> Option<NodeNumber> {
    home_of(guild_id.get(), nodes)
}

/// `node_for` of anything with a number that is spread, like an account.
pub fn home_of<'a>(key: u64, nodes: impl Iterator<Item = (NodeNumber, &'a NodeRecord)>) -> Option<NodeNumber> {
    let active = nodes.filter(|(_, record)| record.state == NodeState::Active && record.weight > 0);
    let scored = active.map(|(number, record)| (score(key, number, record.weight), number));
    scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, number)| number)
}

fn score(key: u64, number: NodeNumber, weight: u32) -> f64 {
    let seed = key ^ (u64::from(number.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // In (0, 1): 53 bits, and a half more, so that the logarithm is finite and not zero.
    let unit = ((Rng::new(seed).next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -f64::from(weight) / unit.ln()
}

/// Which of `workers_count` workers of its node runs a guild.
#[must_use]
pub fn worker_of(guild_id: GuildId, workers_count: usize) -> usize {
    (Rng::new(guild_id.get()).next_u64() as u32 as usize) % workers_count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Incarnation;
    use std::collections::BTreeMap;

    fn record(weight: u32, state: NodeState) -> NodeRecord {
        NodeRecord { weight, state, ..NodeRecord::active(Incarnation(1)) }
    }

    fn place(nodes: &BTreeMap<NodeNumber, NodeRecord>) -> Vec<NodeNumber> {
        let guilds = (0..6_000_u64).map(|n| GuildId::new(1_100_000_000_000_000_000 + (n << 22)));
        guilds.map(|id| node_for(id, nodes.iter().map(|(number, record)| (*number, record))).unwrap()).collect()
    }

    #[test]
    fn guilds_spread_by_weight_and_only_those_of_a_lost_node_move() {
        let mut nodes: BTreeMap<_, _> =
            [(0, 1), (1, 1), (2, 2)].map(|(n, weight)| (NodeNumber(n), record(weight, NodeState::Active))).into();
        nodes.insert(NodeNumber(3), record(9, NodeState::Draining));
        let before = place(&nodes);
        let share = |n: u8| before.iter().filter(|number| **number == NodeNumber(n)).count();
        assert!((1_350..1_650).contains(&share(0)), "{}", share(0));
        assert!((1_350..1_650).contains(&share(1)), "{}", share(1));
        assert!((2_800..3_200).contains(&share(2)), "{}", share(2));
        assert_eq!(share(3), 0, "a draining node takes none");
        nodes.remove(&NodeNumber(1));
        let after = place(&nodes);
        assert!(before.iter().zip(&after).all(|(b, a)| b == a || *b == NodeNumber(1)));
        nodes.clear();
        assert_eq!(node_for(GuildId::new(1), nodes.iter().map(|(number, record)| (*number, record))), None);
    }
}
