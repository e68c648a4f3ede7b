//! Guilds of a session with their attachment state, ordered by id.
//!
//! Owns        `Guilds`, one vector: most sessions are in few guilds, and a tree would cost each of them more.
//! Limits      the guilds of a shard; entering or leaving one moves those with larger ids.

use guildhall_model::{GuildId, to_gateway::Subscription};

/// Attachment of a session to one guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It asked to enter and has no answer yet.
    Entering,
    /// Its view has begun.
    Inside,
}

/// One guild of a session.
#[derive(Debug)]
pub struct GuildEntry {
    pub guild_id: GuildId,
    /// Where it stands.
    pub membership: Membership,
    /// The relay here that serves it.
    pub relay: u16,
    /// The guild was small enough when it entered: it is active without asking.
    pub starts_active: bool,
    /// The session was attached before a restart of the node, and nothing has happened since:
    /// re-attaching sends nothing.
    pub returns: bool,
    /// Its last op 4 in this guild named a channel. The guild's reaction may still be in transit.
    pub asked_for_voice: bool,
    /// Subscription of a user account.
    pub subscription: Option<Box<Subscription>>,
}

impl GuildEntry {
    /// About to enter.
    #[must_use]
    pub fn entering(guild_id: GuildId) -> Self {
        Self {
            guild_id,
            membership: Membership::Entering,
            relay: 0,
            starts_active: false,
            returns: false,
            asked_for_voice: false,
            subscription: None,
        }
    }
}

/// The guilds of one session.
#[derive(Debug, Default)]
pub struct Guilds(Vec<GuildEntry>);

impl Guilds {
    /// About to enter all of these, which ascend.
    #[must_use]
    pub fn entering(guild_ids: &[GuildId]) -> Self {
        debug_assert!(guild_ids.is_sorted());
        Self(guild_ids.iter().map(|id| GuildEntry::entering(*id)).collect())
    }

    fn find(&self, guild_id: GuildId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&guild_id, |entry| entry.guild_id)
    }

    /// All, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut GuildEntry> {
        self.0.iter_mut()
    }

    /// Number of guilds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Entry of one guild.
    #[must_use]
    pub fn get(&self, guild_id: GuildId) -> Option<&GuildEntry> {
        self.find(guild_id).ok().map(|at| &self.0[at])
    }

    /// One of them, to change it.
    pub fn get_mut(&mut self, guild_id: GuildId) -> Option<&mut GuildEntry> {
        self.find(guild_id).ok().map(|at| &mut self.0[at])
    }

    /// Whether it is in it, or about to be.
    #[must_use]
    pub fn contains(&self, guild_id: GuildId) -> bool {
        self.find(guild_id).is_ok()
    }

    /// Where it stands.
    #[must_use]
    pub fn membership(&self, guild_id: GuildId) -> Option<Membership> {
        self.get(guild_id).map(|entry| entry.membership)
    }

    /// Adds a guild that is not there yet.
    pub fn insert(&mut self, entry: GuildEntry) {
        if let Err(at) = self.find(entry.guild_id) {
            self.0.insert(at, entry);
        }
    }

    /// Takes a guild out.
    pub fn remove(&mut self, guild_id: GuildId) -> Option<GuildEntry> {
        self.find(guild_id).ok().map(|at| self.0.remove(at))
    }

    /// All, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &GuildEntry> {
        self.0.iter()
    }

    /// Ids of all guilds.
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
