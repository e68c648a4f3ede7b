//! Relay streams: the numbers of a guild's messages to its relays, across incarnations of the guild.
//!
//! Owns        the epoch of each subscribed relay, and the number of the last message that was delivered to it. Nothing
//!             else numbers messages: a guild emits `RelayOutput`, and its driver numbers it here.
//! Doors       `handle` for each message from a relay, before the guild handles it; `number` or `send` for each to a
//!             relay.
//! Invariants  P1 (`protocol`) holds for messages of the guild, of a later incarnation that was loaded after a failure,
//!             and of the node itself while the guild is not loaded. (tests `p1_*`) Messages with another epoch than
//!             the relay's are dropped here (P2).
//! Limits      one entry per relay.

use crate::protocol::{RelayId, RelayMessage, RelayOutput, ToGuild, ToRelay};
use guildhall_model::GuildId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Stream {
    epoch: u32,
    /// Of the last message that was delivered.
    seq: u64,
    /// A message was lost since the relay subscribed, or a session was refused: the next snapshot has `reset`.
    broken: bool,
}

/// Streams of one guild to its relays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayStreams(BTreeMap<RelayId, Stream>);

impl RelayStreams {
    /// No relay is subscribed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Relays that are subscribed, with their epochs.
    #[must_use]
    pub fn subscribed(&self) -> Vec<(RelayId, u32)> {
        self.0.iter().map(|(relay, stream)| (*relay, stream.epoch)).collect()
    }

    /// Whether this relay has had no message yet.
    #[must_use]
    pub fn is_new(&self, relay: RelayId) -> bool {
        self.0.get(&relay).is_some_and(|stream| stream.seq == 0)
    }

    /// Relays that are to be reset and do not know it yet.
    #[must_use]
    pub fn broken(&self) -> Vec<RelayId> {
        self.0.iter().filter(|(_, stream)| stream.broken).map(|(relay, _)| *relay).collect()
    }

    /// Follows subscriptions by the same rules as the guild.
    pub fn handle(&mut self, message: &ToGuild) {
        match *message {
            ToGuild::Subscribe { relay, epoch } if self.0.get(&relay).is_none_or(|stream| stream.epoch < epoch) => {
                self.0.insert(relay, Stream { epoch, seq: 0, broken: false });
            }
            ToGuild::Unsubscribe { relay, epoch } if self.0.get(&relay).is_some_and(|stream| stream.epoch == epoch) => {
                self.0.remove(&relay);
            }
            // After a resync the numbers go on: a relay takes a snapshot's number as it is.
            _ => {}
        }
    }

    /// The next message of a stream; none if the relay is not subscribed with that epoch. `delivered` or `lost`
    /// follows.
    #[must_use]
    pub fn number(&self, output: RelayOutput) -> Option<ToRelay> {
        let RelayOutput { guild_id, relay, epoch, mut message } = output;
        let stream = self.0.get(&relay).filter(|stream| stream.epoch == epoch)?;
        if let RelayMessage::Snapshot { reset, .. } = &mut message {
            *reset |= stream.broken;
        }
        Some(ToRelay { guild_id, relay, epoch, seq: stream.seq + 1, message })
    }

    /// `number`, then `delivered`: for drivers whose links are never full.
    #[must_use]
    pub fn send(&mut self, output: RelayOutput) -> Option<ToRelay> {
        let message = self.number(output)?;
        self.delivered(message.relay, matches!(message.message, RelayMessage::Snapshot { .. }));
        Some(message)
    }

    /// The relay's link took a numbered message; `snapshot`: it was one.
    pub fn delivered(&mut self, relay: RelayId, snapshot: bool) {
        if let Some(stream) = self.0.get_mut(&relay) {
            stream.seq += 1;
            stream.broken &= !snapshot;
        }
    }

    /// A message for this relay was lost, or one of its sessions received `Unavailable`.
    pub fn lost(&mut self, relay: RelayId) {
        if let Some(stream) = self.0.get_mut(&relay) {
            stream.broken = true;
        }
    }

    /// Something that every relay should have had is lost, with the guild's memory of their sessions.
    pub fn lost_everywhere(&mut self) {
        self.0.values_mut().for_each(|stream| stream.broken = true);
    }

    /// A message of the guild's driver to a relay; none if the relay is not subscribed.
    #[must_use]
    pub fn own_message(&self, guild_id: GuildId, relay: RelayId, message: RelayMessage) -> Option<RelayOutput> {
        let stream = self.0.get(&relay)?;
        Some(RelayOutput { guild_id, relay, epoch: stream.epoch, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuildReplica, GuildStructure, PartitionId, SessionKey};
    use guildhall_model::{Guild, GuildId, UserId};
    use std::sync::Arc;

    const RELAY: RelayId = RelayId::first(PartitionId(3));

    fn subscribe(streams: &mut RelayStreams, epoch: u32) {
        streams.handle(&ToGuild::Subscribe { relay: RELAY, epoch });
    }

    /// Delivers a message of the guild: its number, and whether it is a snapshot that resets.
    fn deliver(streams: &mut RelayStreams, epoch: u32, snapshot: bool) -> Option<(u64, bool)> {
        let guild = Arc::new(Guild::new(GuildId::new(1), "g", UserId::new(1)));
        let structure = Arc::new(GuildStructure { guild, roles: Arc::default(), channels: Arc::default() });
        let session = SessionKey { relay: RELAY, slot: 0, generation: 0 };
        let message = match snapshot {
            true => RelayMessage::Snapshot { replica: GuildReplica::new(structure), reset: false },
            false => RelayMessage::Unavailable { session },
        };
        let message = streams.send(RelayOutput { guild_id: GuildId::new(1), relay: RELAY, epoch, message })?;
        Some((message.seq, matches!(message.message, RelayMessage::Snapshot { reset: true, .. })))
    }

    #[test]
    fn p1_numbers_are_contiguous_whoever_speaks() {
        let mut streams = RelayStreams::default();
        assert_eq!(deliver(&mut streams, 1, true), None, "nobody subscribed");
        subscribe(&mut streams, 1);
        assert_eq!(deliver(&mut streams, 1, true), Some((1, false)));
        assert_eq!(deliver(&mut streams, 1, false), Some((2, false)));
        streams.lost_everywhere();
        assert_eq!(deliver(&mut streams, 1, false), Some((3, false)));
        assert_eq!(deliver(&mut streams, 1, true), Some((4, true)), "a new incarnation's first snapshot resets");
        assert_eq!(deliver(&mut streams, 1, true), Some((5, false)));
    }

    #[test]
    fn p1_a_new_epoch_starts_at_one_and_an_old_one_is_dropped() {
        let mut streams = RelayStreams::default();
        subscribe(&mut streams, 1);
        deliver(&mut streams, 1, true);
        streams.lost(RELAY);
        subscribe(&mut streams, 2);
        assert_eq!(deliver(&mut streams, 1, false), None);
        assert_eq!(deliver(&mut streams, 2, true), Some((1, false)));
        subscribe(&mut streams, 1);
        subscribe(&mut streams, 2);
        streams.handle(&ToGuild::Unsubscribe { relay: RELAY, epoch: 1 });
        assert_eq!(deliver(&mut streams, 2, false), Some((2, false)), "stale messages change nothing");
        streams.handle(&ToGuild::Unsubscribe { relay: RELAY, epoch: 2 });
        assert_eq!(deliver(&mut streams, 2, false), None);
    }
}
