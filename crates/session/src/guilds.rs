//! Guilds of a session and its attachment to each, ordered by id.
//!
//! Owns        `Guilds`, one vector: most sessions have few guilds, and a tree would use more memory for each session.
//! Limits      the guilds of a shard. Inserting or removing one moves the entries with larger ids.

use guildhall_model::{GuildId, to_gateway::Subscription};
use guildhall_stdx::heap::{self, Sample};
use std::sync::Arc;

/// Attachment of a session to one guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The session has sent an attach request and has no answer yet.
    Entering,
    /// The relay has attached the session.
    Inside,
    /// The session leaves for another node. The guild has attached it there, and the session has
    /// everything from before.
    Transferred,
    /// The session leaves for another node, and was not inside or has missed events: its client sees an outage.
    Lost,
}

impl Membership {
    /// Neither the guild nor a relay here counts the session.
    #[must_use]
    pub fn is_away(self) -> bool {
        matches!(self, Self::Transferred | Self::Lost)
    }
}

/// One guild of a session, and the session's state there.
#[derive(Debug)]
pub struct GuildEntry {
    pub guild_id: GuildId,
    pub membership: Membership,
    /// Index of the relay in this partition that serves the session.
    pub relay: u16,
    /// The guild was small when the session attached, so a user account's session is active without a subscription.
    pub starts_active: bool,
    /// The session was attached before a restart of the node and nothing has happened since: attaching again sends
    /// the client no events.
    pub is_restored: bool,
    /// Its last op 4 in this guild named a channel. The guild's reaction may still be in transit.
    pub asked_for_voice: bool,
    /// Subscription of a user account.
    pub subscription: Option<Box<Subscription>>,
}

impl GuildEntry {
    /// An entry whose attach request is about to be sent.
    #[must_use]
    pub fn entering(guild_id: GuildId) -> Self {
        Self {
            guild_id,
            membership: Membership::Entering,
            relay: 0,
            starts_active: false,
            is_restored: false,
            asked_for_voice: false,
            subscription: None,
        }
    }
}

/// The guilds of one session.
#[derive(Debug, Default)]
pub struct Guilds(Vec<GuildEntry>);

impl Guilds {
    /// Estimated heap memory.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        let of_subscription = |of: &Subscription| {
            let ranges = Sample::SMALL.of_slice(&of.channels, |ranges| heap::of_buffer(&ranges.ranges));
            let channels = heap::allocated(counts + size_of_val(&*of.channels)) + ranges;
            heap::boxed::<Subscription>()
                + heap::allocated(counts + size_of_val(&*of.members)) / Arc::strong_count(&of.members)
                + heap::of_buffer(&of.thread_member_lists)
                + channels / Arc::strong_count(&of.channels)
        };
        Sample::SMALL.of_vec(&self.0, |entry| entry.subscription.as_deref().map_or(0, of_subscription))
    }

    /// Entries for these guilds, which must be ascending. Their attach requests are about to be sent.
    #[must_use]
    pub fn entering(guild_ids: &[GuildId]) -> Self {
        debug_assert!(guild_ids.is_sorted());
        Self(guild_ids.iter().map(|id| GuildEntry::entering(*id)).collect())
    }

    fn find(&self, guild_id: GuildId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&guild_id, |entry| entry.guild_id)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut GuildEntry> {
        self.0.iter_mut()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn get(&self, guild_id: GuildId) -> Option<&GuildEntry> {
        self.find(guild_id).ok().map(|at| &self.0[at])
    }

    pub fn get_mut(&mut self, guild_id: GuildId) -> Option<&mut GuildEntry> {
        self.find(guild_id).ok().map(|at| &mut self.0[at])
    }

    /// Whether the session is attached to the guild, or about to be.
    #[must_use]
    pub fn contains(&self, guild_id: GuildId) -> bool {
        self.find(guild_id).is_ok()
    }

    #[must_use]
    pub fn membership(&self, guild_id: GuildId) -> Option<Membership> {
        self.get(guild_id).map(|entry| entry.membership)
    }

    /// Adds an entry, unless the guild has one.
    pub fn insert(&mut self, entry: GuildEntry) {
        if let Err(at) = self.find(entry.guild_id) {
            self.0.insert(at, entry);
        }
    }

    /// Removes the entry of a guild and returns it.
    pub fn remove(&mut self, guild_id: GuildId) -> Option<GuildEntry> {
        self.find(guild_id).ok().map(|at| self.0.remove(at))
    }

    /// Entries, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = &GuildEntry> {
        self.0.iter()
    }

    pub fn ids(&self) -> impl Iterator<Item = GuildId> + '_ {
        self.0.iter().map(|entry| entry.guild_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_stay_in_order() {
        let mut guilds = Guilds::entering(&[GuildId::new(3), GuildId::new(7)]);
        guilds.insert(GuildEntry::entering(GuildId::new(5)));
        guilds.insert(GuildEntry { relay: 9, ..GuildEntry::entering(GuildId::new(5)) });
        assert_eq!(guilds.get(GuildId::new(5)).map(|entry| entry.relay), Some(0), "the first stays");
        assert_eq!(guilds.ids().map(guildhall_model::GuildId::get).collect::<Vec<_>>(), [3, 5, 7]);
        assert!(guilds.remove(GuildId::new(3)).is_some() && guilds.remove(GuildId::new(3)).is_none());
        assert_eq!((guilds.len(), guilds.contains(GuildId::new(7)), guilds.is_empty()), (2, true, false));
    }
}
