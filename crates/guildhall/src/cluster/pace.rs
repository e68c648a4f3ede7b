//! Pace of a drain: how many sessions the other nodes accept.
//!
//! Doors       `answer` at each node; `watch` at the one that drains.
//! Limits      a question to each node every `ASK_EVERY`; a node that does not answer counts as it last did. While
//!             one has never answered, such as one of an earlier release, the count is not known.
//! Not here    the pace: `guildhall_net` (drain).

use guildhall_cluster::NodeNumber;
use guildhall_guild_protocol::PartitionId;
use guildhall_net::{Accepted, Partitions};
use guildhall_node::{Membership, PeerQuestion};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::JoinSet;

const ASK_EVERY: Duration = Duration::from_millis(250);
const UNKNOWN: u64 = u64::MAX;

/// How many sessions a node has started and resumed since it began.
#[derive(Serialize, Deserialize)]
struct AcceptedQuestion;

impl PeerQuestion for AcceptedQuestion {
    const KIND: &'static str = "accepted_sessions";
    type Answer = u64;
}

/// Answers other nodes from now on.
pub fn answer(membership: &Membership, partitions: Partitions) {
    membership.on_question(move |AcceptedQuestion| {
        let partitions = partitions.clone();
        async move {
            let mut sum = 0;
            for index in 0..partitions.count() as u16 {
                let counters = partitions.look(PartitionId(index), |_, partition| partition.counters());
                let counters = counters.await.unwrap_or_default();
                sum += counters.identified_total + counters.resumed_total;
            }
            Some(sum)
        }
    });
}

/// Sessions that other nodes have accepted, each since its first answer.
#[derive(Default)]
struct Growth {
    last_by_node: BTreeMap<NodeNumber, u64>,
    total: u64,
}

impl Growth {
    /// Takes one round of answers. None: a node has never answered, so the total would be too low.
    fn take(&mut self, numbers: &[NodeNumber], answers: Vec<(NodeNumber, u64)>) -> Option<u64> {
        for (number, accepted) in answers {
            let last = self.last_by_node.insert(number, accepted).unwrap_or(accepted);
            // Less than before: the node has started again.
            self.total += if accepted < last { accepted } else { accepted - last };
        }
        let is_known = !numbers.is_empty() && numbers.iter().all(|number| self.last_by_node.contains_key(number));
        is_known.then_some(self.total)
    }
}

/// Counts what the other nodes accept, until the result is dropped.
pub fn watch(membership: Arc<Membership>) -> Arc<Accepted> {
    let total = Arc::new(AtomicU64::new(UNKNOWN));
    let of = Arc::downgrade(&total);
    tokio::spawn(async move {
        let mut growth = Growth::default();
        while let Some(total) = of.upgrade() {
            let begun = std::time::Instant::now();
            let (numbers, mut asked) = (membership.numbers(), JoinSet::new());
            for number in numbers.iter().copied() {
                let membership = membership.clone();
                asked.spawn(async move {
                    let answer = membership.ask_within(number, &AcceptedQuestion, ASK_EVERY).await;
                    answer.map(|accepted| (number, accepted))
                });
            }
            let answers = asked.join_all().await.into_iter().flatten().collect();
            total.store(growth.take(&numbers, answers).unwrap_or(UNKNOWN), Relaxed);
            drop(total);
            tokio::time::sleep(ASK_EVERY.saturating_sub(begun.elapsed())).await;
        }
    });
    Arc::new(move || Some(total.load(Relaxed)).filter(|total| *total != UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nodes_accept_from_now_on_counts_and_only_if_all_report() {
        let (mut growth, one, two) = (Growth::default(), NodeNumber(1), NodeNumber(2));
        assert_eq!(growth.take(&[], Vec::new()), None);
        assert_eq!(growth.take(&[one, two], vec![(one, 500)]), None, "an earlier release does not report");
        assert_eq!(growth.take(&[one, two], vec![(one, 510), (two, 7)]), Some(10));
        assert_eq!(growth.take(&[one, two], vec![(two, 9)]), Some(12), "one answer was lost");
        assert_eq!(growth.take(&[one, two], vec![(one, 3), (two, 9)]), Some(15), "it has started again");
        assert_eq!(growth.take(&[two], vec![(two, 10)]), Some(16), "it has left");
    }
}
