//! Gatekeeper with scripted answers.

use guildhall_model::{User, UserId};
use guildhall_partition::{Gatekeeper, IdentifyFault};
use guildhall_stdx::Now;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Admits every IDENTIFY except for scripted denials.
#[derive(Debug, Default)]
pub struct ScriptedGate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    denials: VecDeque<IdentifyFault>,
    admitted: Vec<(UserId, u32)>,
    ended: Vec<UserId>,
    refunds_count: u32,
}

impl ScriptedGate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Denies the next IDENTIFY that reaches the gatekeeper.
    pub fn deny_next(&self, denial: IdentifyFault) {
        self.state().denials.push_back(denial);
    }

    /// Admitted accounts with their shards, in order.
    #[must_use]
    pub fn admitted(&self) -> Vec<(UserId, u32)> {
        self.state().admitted.clone()
    }

    /// Number of admitted IDENTIFYs that started no session.
    #[must_use]
    pub fn refunds_count(&self) -> u32 {
        self.state().refunds_count
    }

    /// Accounts whose sessions ended, in order.
    #[must_use]
    pub fn ended(&self) -> Vec<UserId> {
        self.state().ended.clone()
    }
}

impl Gatekeeper for ScriptedGate {
    fn refund(&self, _now: Now) {
        self.state().refunds_count += 1;
    }

    fn admit(&self, _now: Now, user: &User, shard_id: u32) -> Result<(), IdentifyFault> {
        let mut state = self.state();
        match state.denials.pop_front() {
            Some(denial) => Err(denial),
            None => {
                state.admitted.push((user.id, shard_id));
                Ok(())
            }
        }
    }

    fn session_ended(&self, user: &User) {
        self.state().ended.push(user.id);
    }
}
