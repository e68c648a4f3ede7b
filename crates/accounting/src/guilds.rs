//! Guilds: totals of the counters of workers and relays.
//!
//! Not here    the figures: a guild's worker and its relays have them.

use crate::report::{Channel, Guild, GuildReport, GuildsReport, MessageType, Relay};
use std::collections::BTreeMap;

impl Guild {
    /// Adds the figures of one of its relays.
    pub fn add_relay(&mut self, relay: &Relay) {
        self.relays += 1;
        self.sessions_active += relay.active;
        self.sessions_passive += relay.passive;
        self.deliveries_total += relay.deliveries_total;
        self.bytes_total += relay.bytes_total;
    }
}

impl GuildsReport {
    /// The report of guilds, which come from their workers in this order, and of relays, each with the id of its guild.
    /// Relays of other guilds are left out.
    #[must_use]
    pub fn of_guilds(
        at_ms: u64,
        loaded: u64,
        mut guilds: Vec<Guild>,
        relays: impl IntoIterator<Item = (String, Relay)>,
    ) -> Self {
        let mut by_id: BTreeMap<String, &mut Guild> = guilds.iter_mut().map(|of| (of.id.clone(), of)).collect();
        for (guild_id, relay) in relays {
            if let Some(guild) = by_id.get_mut(&guild_id) {
                guild.add_relay(&relay);
            }
        }
        Self { at_ms, loaded, guilds }
    }
}

impl GuildReport {
    /// The report of one guild, from its worker's figures and its relays.
    #[must_use]
    pub fn of_guild(
        at_ms: u64,
        mut guild: Guild,
        types: Vec<MessageType>,
        mut relays: Vec<Relay>,
        channels: Vec<Channel>,
    ) -> Self {
        relays.iter().for_each(|relay| guild.add_relay(relay));
        relays.sort_by_key(|relay| (relay.partition, relay.index));
        Self { at_ms, guild, types, relays, channels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(partition: u16, deliveries_total: u64) -> Relay {
        Relay { partition, index: 0, active: 3, passive: 5, deliveries_total, bytes_total: 10 * deliveries_total }
    }

    fn guild(id: &str) -> Guild {
        Guild { id: id.to_owned(), busy_ns_total: 7, ..Guild::default() }
    }

    #[test]
    fn relays_add_up_in_their_guild() {
        let relays = [("2", 100), ("1", 4), ("2", 20), ("3", 9)];
        let relays = relays.map(|(guild_id, deliveries)| (guild_id.to_owned(), relay(0, deliveries)));
        let report = GuildsReport::of_guilds(8, 9, vec![guild("2"), guild("1")], relays);
        assert_eq!((report.at_ms, report.loaded), (8, 9));
        let [second, first] = &report.guilds[..] else { panic!("{report:?}") };
        assert_eq!((second.relays, second.sessions_active, second.sessions_passive), (2, 6, 10));
        assert_eq!((second.deliveries_total, second.bytes_total, second.busy_ns_total), (120, 1_200, 7));
        assert_eq!((&*first.id, first.relays, first.deliveries_total), ("1", 1, 4));
    }

    #[test]
    fn a_guild_is_reported_with_its_relays_in_order() {
        let report = GuildReport::of_guild(1, guild("2"), Vec::new(), vec![relay(1, 5), relay(0, 2)], Vec::new());
        assert_eq!(report.relays.iter().map(|relay| relay.partition).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((report.guild.relays, report.guild.deliveries_total), (2, 7));
    }
}
