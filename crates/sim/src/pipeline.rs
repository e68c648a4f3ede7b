//! The delay between a guild and its relays, or the recipients of a direct message: commits.
//!
//! Owns        `Pipeline`: the outputs of each input of the guild, released in order once their writes are durable.
//! Invariants  nothing of an input leaves before its own writes and everything before it: as in `guildhall-node`.

use crate::{
    checker::{Fault, InTransit},
    model::{DirectEvent, DirectModel},
    store::Store,
};
use guildhall_guild::Write;
use guildhall_guild_protocol::{Published, RelayId};
use guildhall_model::UserId;
use std::{collections::VecDeque, rc::Rc, sync::Arc};

/// Outputs of one input of the guild.
#[derive(Debug, Default)]
pub struct Group {
    pub writes: Vec<Write>,
    pub relay: Vec<InTransit>,
    /// Accounts that joined.
    pub joined: Vec<UserId>,
    /// Events for the recipients of a direct message.
    pub direct_events: Vec<(Arc<Published>, Rc<DirectEvent>)>,
    /// The direct message after it.
    pub direct: Option<Rc<DirectModel>>,
    /// Of the guild, after it.
    pub version: u64,
    is_uncommitted: bool,
}

impl Group {
    pub fn new(version: u64, joined: Vec<UserId>) -> Self {
        Self { joined, version, ..Self::default() }
    }
}

/// Result of a commit.
#[derive(Debug)]
pub struct Durable {
    /// Of the guild.
    pub version: u64,
    /// The direct message, as it is in the store from now on.
    pub direct: Option<Rc<DirectModel>>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pipeline {
    groups: VecDeque<Group>,
    committing_count: usize,
}

impl Pipeline {
    pub fn push(&mut self, mut group: Group) {
        group.is_uncommitted = !group.writes.is_empty();
        let is_empty = group.writes.is_empty() && group.relay.is_empty() && group.direct_events.is_empty();
        if !is_empty || !group.joined.is_empty() {
            self.groups.push_back(group);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The next group that may leave.
    pub fn pop_ready(&mut self) -> Option<Group> {
        if self.committing_count > 0 || self.groups.front()?.is_uncommitted { None } else { self.groups.pop_front() }
    }

    /// Begins a commit of all that waits, unless one is under way.
    pub fn begin_commit(&mut self) {
        if self.committing_count == 0 {
            self.committing_count = self.groups.len();
        }
    }

    /// Ends the commit under way. Returns the version that is durable now.
    pub fn end_commit(&mut self, store: &Store) -> Result<Option<Durable>, Fault> {
        let count = std::mem::take(&mut self.committing_count);
        let mut durable: Option<Durable> = None;
        let mut writes = Vec::new();
        for group in self.groups.iter_mut().take(count) {
            group.is_uncommitted = false;
            writes.append(&mut group.writes);
            let direct = group.direct.clone().or(durable.and_then(|durable| durable.direct));
            durable = Some(Durable { version: group.version, direct });
        }
        store.commit(writes)?;
        Ok(durable)
    }

    /// A relay lost something: nothing that waits goes to it any more.
    pub fn cut_off(&mut self, relay: RelayId) {
        self.groups.iter_mut().for_each(|group| group.relay.retain(|in_transit| in_transit.message.relay != relay));
    }
}
