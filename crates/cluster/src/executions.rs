//! Executions: which node executes the publication with an idempotency key, decided at the home of the key.
//!
//! Doors       `begin` before a publication is handed over, `settle` when it has ended, `look` while another node's is
//!             under way.
//! Invariants  K1 of several nodes with one key, one executes, and the others get its outcome. K2 a key that is used
//!             for another event is refused. K3 a publication that was refused frees its key, and so does the end of
//!             the node that executes it: as after a restart of a single node, its outcome is unknown. (tests `k*_*`)
//! Limits      `keys_max`: past it the oldest key is evicted.
//! Not here    waiting and messages: `guildhall-backend` (`executions.rs`); repetitions at the same node:
//!             `v1/idempotency.rs`.

use crate::node::{Incarnation, NodeNumber};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// An idempotency key of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyName {
    pub api_key: u64,
    pub key: Box<str>,
}

impl KeyName {
    /// A number for `home_of`, the same on every node: FNV-1a.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let bytes = self.api_key.to_le_bytes().into_iter().chain(self.key.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// A node that executes a publication. Another membership of the node is another executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executor {
    pub node: NodeNumber,
    pub incarnation: Incarnation,
}

/// Outcome of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    pub reached: u64,
    pub complete: bool,
}

/// State of a key, for a node that wants to publish under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyState {
    /// It was free: the node that took it executes.
    Granted,
    /// The node took it before, and has not settled it.
    Own,
    /// Another node executes.
    UnderWay,
    Executed(Executed),
    /// The key is used for another event.
    OtherEvent,
    /// Only for `look`: it has no executor.
    Free,
}

#[derive(Debug)]
enum State {
    UnderWay(Executor),
    Executed(Executed),
    Free,
}

#[derive(Debug)]
struct Execution {
    fingerprint: u64,
    state: State,
}

/// Keys whose home this node is.
#[derive(Debug)]
pub struct Executions {
    entries: HashMap<KeyName, Execution>,
    by_age: VecDeque<KeyName>,
    keys_max: usize,
}

impl Executions {
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        Self { entries: HashMap::new(), by_age: VecDeque::new(), keys_max: keys_max.max(1) }
    }

    /// State of a key, as `by` sees it.
    #[must_use]
    pub fn look(
        &self,
        is_living: impl Fn(Executor) -> bool,
        by: Executor,
        name: &KeyName,
        fingerprint: u64,
    ) -> KeyState {
        match self.entries.get(name) {
            None | Some(Execution { state: State::Free, .. }) => KeyState::Free,
            Some(Execution { state: State::UnderWay(executor), .. }) if *executor != by && !is_living(*executor) => {
                KeyState::Free
            }
            Some(execution) if execution.fingerprint != fingerprint => KeyState::OtherEvent,
            Some(Execution { state: State::Executed(executed), .. }) => KeyState::Executed(*executed),
            Some(Execution { state: State::UnderWay(executor), .. }) if *executor == by => KeyState::Own,
            Some(Execution { state: State::UnderWay(_), .. }) => KeyState::UnderWay,
        }
    }

    /// Takes a key if it is free. It never returns `Free`.
    pub fn begin(
        &mut self,
        is_living: impl Fn(Executor) -> bool,
        by: Executor,
        name: &KeyName,
        fingerprint: u64,
    ) -> KeyState {
        match self.look(is_living, by, name, fingerprint) {
            KeyState::Free => {
                self.put(name, Execution { fingerprint, state: State::UnderWay(by) });
                KeyState::Granted
            }
            taken => taken,
        }
    }

    /// A publication ended. None: it was refused, and reached no recipient.
    pub fn settle(&mut self, by: Executor, name: &KeyName, fingerprint: u64, executed: Option<Executed>) {
        match executed {
            Some(executed) => self.put(name, Execution { fingerprint, state: State::Executed(executed) }),
            None => match self.entries.get_mut(name) {
                Some(execution) if matches!(execution.state, State::UnderWay(executor) if executor == by) => {
                    execution.state = State::Free;
                }
                _ => {}
            },
        }
    }

    fn put(&mut self, name: &KeyName, execution: Execution) {
        if self.entries.insert(name.clone(), execution).is_none() {
            self.by_age.push_back(name.clone());
        }
        while self.entries.len() > self.keys_max {
            let Some(oldest) = self.by_age.pop_front() else { break };
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Executed = Executed { reached: 3, complete: true };

    fn by(node: u8) -> Executor {
        Executor { node: NodeNumber(node), incarnation: Incarnation(u64::from(node)) }
    }

    fn name(key: &str) -> KeyName {
        KeyName { api_key: 1, key: key.into() }
    }

    #[test]
    fn k1_one_node_executes_and_k2_another_event_is_refused() {
        let mut executions = Executions::new(9);
        assert_eq!(executions.begin(|_| true, by(0), &name("a"), 7), KeyState::Granted);
        assert_eq!(executions.begin(|_| true, by(0), &name("a"), 7), KeyState::Own);
        assert_eq!(executions.begin(|_| true, by(1), &name("a"), 7), KeyState::UnderWay);
        assert_eq!(executions.begin(|_| true, by(1), &name("a"), 8), KeyState::OtherEvent);
        executions.settle(by(0), &name("a"), 7, Some(DONE));
        assert_eq!(executions.begin(|_| true, by(1), &name("a"), 7), KeyState::Executed(DONE));
        assert_eq!(executions.begin(|_| true, by(0), &name("a"), 7), KeyState::Executed(DONE));
        assert_eq!(executions.begin(|_| true, by(1), &name("a"), 8), KeyState::OtherEvent);
        let other = KeyName { api_key: 2, key: "a".into() };
        assert_eq!(executions.begin(|_| true, by(1), &other, 8), KeyState::Granted);
        assert_ne!(other.hash(), name("a").hash());
    }

    #[test]
    fn k3_a_refusal_and_the_end_of_a_node_free_the_key() {
        let mut executions = Executions::new(9);
        assert_eq!(executions.begin(|_| true, by(0), &name("a"), 7), KeyState::Granted);
        executions.settle(by(1), &name("a"), 7, None);
        assert_eq!(executions.look(|_| true, by(1), &name("a"), 7), KeyState::UnderWay, "only the executor frees it");
        executions.settle(by(0), &name("a"), 7, None);
        assert_eq!(executions.look(|_| true, by(1), &name("a"), 7), KeyState::Free);
        assert_eq!(executions.begin(|_| true, by(1), &name("a"), 8), KeyState::Granted, "for another event too");
        let without = |executor: Executor| executor != by(1);
        assert_eq!(executions.begin(without, by(2), &name("a"), 8), KeyState::Granted);
        executions.settle(by(2), &name("a"), 8, Some(DONE));
        executions.settle(by(1), &name("a"), 8, None);
        assert_eq!(executions.begin(|_| false, by(0), &name("a"), 8), KeyState::Executed(DONE), "it outlives its node");
    }

    #[test]
    fn past_the_bound_the_oldest_is_evicted() {
        let mut executions = Executions::new(2);
        for key in ["a", "b", "a", "c"] {
            let _ = executions.begin(|_| true, by(0), &name(key), 7);
        }
        assert_eq!(executions.look(|_| true, by(0), &name("a"), 7), KeyState::Free);
        assert_eq!(executions.look(|_| true, by(0), &name("b"), 7), KeyState::Own);
        assert_eq!((executions.entries.len(), executions.by_age.len()), (2, 2));
    }
}
