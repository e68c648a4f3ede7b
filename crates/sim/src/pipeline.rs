//! What stands between a guild and its relays: commits that take their time, and what was committed.
//!
//! Owns        `Pipeline`, the outputs of each input of the guild, let go in order once their writes are durable;
//!             `Store`, what is durable of members and messages.
//! Invariants  nothing of an input leaves before its own writes and everything before it: as in `guildhall-node`.

use crate::checker::Carried;
use guildhall_guild::{MessageRecord, Write};
use guildhall_model::{ChannelId, MessageId, UserId};
use guildhall_relay::RelayId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What one input of the guild led to.
#[derive(Debug, Default)]
pub struct Group {
    pub writes: Vec<Write>,
    pub relay: Vec<Carried>,
    /// Who joined by it.
    pub joined: Vec<UserId>,
    /// Of the guild, after it.
    pub version: u64,
    is_uncommitted: bool,
}

impl Group {
    pub fn new(version: u64, joined: Vec<UserId>) -> Self {
        Self { joined, version, ..Self::default() }
    }
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
        if !group.writes.is_empty() || !group.relay.is_empty() || !group.joined.is_empty() {
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
    pub fn end_commit(&mut self, store: &mut Store) -> Option<u64> {
        let count = std::mem::take(&mut self.committing_count);
        let mut version = None;
        for group in self.groups.iter_mut().take(count) {
            group.is_uncommitted = false;
            group.writes.drain(..).for_each(|write| store.apply(write));
            version = Some(group.version);
        }
        version
    }

    /// A relay lost something: nothing that waits goes to it any more.
    pub fn cut_off(&mut self, relay: RelayId) {
        self.groups.iter_mut().for_each(|group| group.relay.retain(|carried| carried.message.relay != relay));
    }
}

/// What is durable, as far as anybody reads it.
#[derive(Debug, Default)]
pub struct Store {
    pub members: BTreeSet<UserId>,
    messages: BTreeMap<(ChannelId, MessageId), MessageRecord>,
}

impl Store {
    pub fn with_members(members: impl IntoIterator<Item = UserId>) -> Self {
        Self { members: members.into_iter().collect(), messages: BTreeMap::new() }
    }

    pub fn message(&self, channel: ChannelId, message: MessageId) -> Option<MessageRecord> {
        self.messages.get(&(channel, message)).cloned()
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::PutMember(_, member) => drop(self.members.insert(member.user.id)),
            Write::DeleteMember(_, id) => drop(self.members.remove(&id)),
            Write::PutMessage(message) => {
                let reactions = self.messages.remove(&(message.channel_id, message.id)).map(|before| before.reactions);
                let key = (message.channel_id, message.id);
                self.messages.insert(key, MessageRecord { message, reactions: reactions.unwrap_or_default() });
            }
            Write::DeleteMessage(channel, message) => drop(self.messages.remove(&(channel, message))),
            Write::DeleteChannel(_, channel) => self.messages.retain(|(of, _), _| *of != channel),
            Write::AddReaction(channel, message, emoji, user) => {
                let Some(record) = self.messages.get_mut(&(channel, message)) else { return };
                match record.reactions.iter_mut().find(|(other, _)| *other == emoji) {
                    Some((_, users)) if users.contains(&user) => {}
                    Some((_, users)) => users.push(user),
                    None => record.reactions.push((emoji, vec![user])),
                }
            }
            Write::RemoveReaction(channel, message, emoji, user) => {
                let Some(record) = self.messages.get_mut(&(channel, message)) else { return };
                record
                    .reactions
                    .iter_mut()
                    .filter(|(other, _)| *other == emoji)
                    .for_each(|(_, users)| users.retain(|other| *other != user));
                record.reactions.retain(|(_, users)| !users.is_empty());
            }
            Write::ClearReactions(channel, message, emoji) => {
                let Some(record) = self.messages.get_mut(&(channel, message)) else { return };
                record.reactions.retain(|(other, _)| emoji.as_ref().is_some_and(|emoji| other != emoji));
            }
            Write::PutUser(_)
            | Write::PutGuild(_)
            | Write::DeleteGuild(_)
            | Write::PutRole(..)
            | Write::DeleteRole(..)
            | Write::PutChannel(_)
            | Write::PutBelonging(..)
            | Write::DeleteBelonging(..)
            | Write::DeleteBelongings(..) => {}
        }
    }
}
