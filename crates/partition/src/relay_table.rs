//! Relay table: the relays of a partition, by guild and index.
//!
//! Invariants  no relay has the epoch of an earlier one. A guild without relays has no entry.
//! Limits      the caller's: `sessions_per_relay_max`.

use crate::guilds::RelayEntry;
use guildhall_model::GuildId;
use std::collections::{BTreeMap, HashMap};

/// A guild's relays, by index.
pub type GuildRelays = BTreeMap<u16, RelayEntry>;

/// See the module.
#[derive(Default)]
pub struct RelayTable {
    by_guild: HashMap<GuildId, GuildRelays>,
    last_epoch: u32,
}

impl RelayTable {
    pub fn get(&self, guild_id: GuildId, index: u16) -> Option<&RelayEntry> {
        self.by_guild.get(&guild_id)?.get(&index)
    }

    pub fn get_mut(&mut self, guild_id: GuildId, index: u16) -> Option<&mut RelayEntry> {
        self.by_guild.get_mut(&guild_id)?.get_mut(&index)
    }

    /// Number of a guild's relays.
    pub fn count(&self, guild_id: GuildId) -> usize {
        self.by_guild.get(&guild_id).map_or(0, BTreeMap::len)
    }

    /// A guild's relays, and a source of epochs for new ones.
    pub fn of_guild_mut(&mut self, guild_id: GuildId) -> (&mut GuildRelays, &mut u32) {
        (self.by_guild.entry(guild_id).or_default(), &mut self.last_epoch)
    }

    /// A guild's relays.
    pub fn of_guild(&self, guild_id: GuildId) -> impl Iterator<Item = &RelayEntry> {
        self.by_guild.get(&guild_id).into_iter().flat_map(BTreeMap::values)
    }

    pub fn iter(&self) -> impl Iterator<Item = &RelayEntry> {
        self.by_guild.values().flat_map(BTreeMap::values)
    }

    /// All relays, by guild in the order of their ids, so that results do not depend on the layout of a map.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (GuildId, u16, &mut RelayEntry)> {
        let mut by_guild: Vec<_> = self.by_guild.iter_mut().collect();
        by_guild.sort_unstable_by_key(|(guild_id, _)| **guild_id);
        by_guild
            .into_iter()
            .flat_map(|(guild_id, relays)| relays.iter_mut().map(move |(index, entry)| (*guild_id, *index, entry)))
    }

    /// Removes a relay. Returns whether it was the guild's last.
    pub fn remove(&mut self, guild_id: GuildId, index: u16) -> bool {
        let Some(relays) = self.by_guild.get_mut(&guild_id) else { return false };
        relays.remove(&index);
        let is_last = relays.is_empty();
        if is_last {
            self.by_guild.remove(&guild_id);
        }
        is_last
    }
}
