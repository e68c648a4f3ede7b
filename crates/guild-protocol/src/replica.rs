//! Replica of a guild in a relay, the source of GUILD_CREATE and passive updates.
//!
//! Owns        `GuildReplica`, initialized by a snapshot and changed by each `ReplicaUpdate`.
//! Invariants  at the same sequence number of the stream it equals the guild's own state.
//! Limits      channels: the guild's; voice: users in voice.
//! Not here    members without a session in the relay who are not in voice: a relay does not know them.

use crate::{protocol::ReplicaUpdate, structure::GuildStructure, thread::ThreadEntry};
use guildhall_model::{ChannelId, GuildId, Member, MessageId, UserId, VoiceState};
use guildhall_stdx::CowMap;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// A user in voice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VoiceEntry {
    /// Voice state; its channel is always set.
    pub state: Arc<VoiceState>,
    /// Member object of the user.
    pub member: Arc<Member>,
}

/// State of a guild at one moment. `clone` is cheap for any size of guild.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuildReplica {
    /// Base fields, roles, channels.
    pub structure: Arc<GuildStructure>,
    /// Newest message per channel, which may have been deleted since.
    pub last_message_ids: Arc<BTreeMap<ChannelId, MessageId>>,
    /// Voice states of all connected users.
    pub voice: CowMap<UserId, VoiceEntry>,
    /// All threads, open and archived.
    pub threads: CowMap<ChannelId, ThreadEntry>,
}

impl GuildReplica {
    /// A replica that knows only the structure.
    #[must_use]
    pub fn new(structure: Arc<GuildStructure>) -> Self {
        Self { structure, last_message_ids: Arc::default(), voice: CowMap::default(), threads: CowMap::default() }
    }

    /// The guild's id.
    #[must_use]
    pub fn id(&self) -> GuildId {
        self.structure.id()
    }

    /// Applies the change of an event.
    pub fn apply(&mut self, replica_update: &ReplicaUpdate) {
        match replica_update {
            ReplicaUpdate::Structure(structure) => {
                let is_shorter = structure.channels.len() < self.structure.channels.len();
                self.structure = structure.clone();
                if is_shorter {
                    self.forget_orphans();
                }
                if self.last_message_ids.keys().any(|channel| !structure.channels.contains_key(channel)) {
                    Arc::make_mut(&mut self.last_message_ids)
                        .retain(|channel, _| structure.channels.contains_key(channel));
                }
            }
            ReplicaUpdate::Message(channel_id, message_id) => {
                // Copies the map at most once per snapshot. It has at most as many entries as the guild has channels.
                Arc::make_mut(&mut self.last_message_ids).insert(*channel_id, *message_id);
            }
            ReplicaUpdate::Voice(user_id, Some(entry)) => {
                self.voice.insert(*user_id, entry.clone());
            }
            ReplicaUpdate::Voice(user_id, None) => {
                self.voice.remove(*user_id);
            }
            ReplicaUpdate::Member(user_id, Some(member)) => {
                if let Some(entry) = self.voice.get(*user_id) {
                    let entry = VoiceEntry { state: entry.state.clone(), member: member.clone() };
                    self.voice.insert(*user_id, entry);
                }
            }
            ReplicaUpdate::Thread(thread_id, Some(entry)) => {
                self.threads.insert(*thread_id, entry.clone());
            }
            ReplicaUpdate::Thread(thread_id, None) => {
                self.threads.remove(*thread_id);
            }
            ReplicaUpdate::None | ReplicaUpdate::Member(_, None) | ReplicaUpdate::Deleted => {}
        }
    }

    /// Removes the threads of deleted channels.
    fn forget_orphans(&mut self) {
        let is_orphan = |entry: &ThreadEntry| {
            entry.channel.parent_id.is_none_or(|parent| !self.structure.channels.contains_key(&parent))
        };
        let orphans: Vec<ChannelId> =
            self.threads.iter().filter(|(_, entry)| is_orphan(entry)).map(|(id, _)| id).collect();
        orphans.into_iter().for_each(|id| drop(self.threads.remove(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{Channel, ChannelType, Guild, User};
    use guildhall_stdx::Timestamp;

    const ROOM: ChannelId = ChannelId::new(100);
    const ANA: UserId = UserId::new(7);

    fn structure(channels: &[ChannelId]) -> Arc<GuildStructure> {
        let guild_id = GuildId::new(1);
        let channel = |id| Arc::new(Channel::new(id, guild_id, ChannelType::Voice, "room"));
        Arc::new(GuildStructure {
            guild: Arc::new(Guild::new(guild_id, "guild", UserId::new(50))),
            roles: Arc::default(),
            channels: Arc::new(channels.iter().map(|id| (*id, channel(*id))).collect()),
        })
    }

    fn ana(nick: Option<&str>) -> Arc<Member> {
        let member = Member::new(Arc::new(User::new(ANA, "ana")), Timestamp(0));
        Arc::new(Member { nick: nick.map(Into::into), ..member })
    }

    #[test]
    fn effects_change_it_and_a_clone_stays_as_it_was() {
        let mut replica = GuildReplica::new(structure(&[ROOM]));
        let before = replica.clone();
        replica.apply(&ReplicaUpdate::Message(ROOM, MessageId::new(5)));
        replica.apply(&ReplicaUpdate::Message(ROOM, MessageId::new(6)));
        let state = VoiceState { channel_id: Some(ROOM), ..VoiceState::new(ANA) };
        replica.apply(&ReplicaUpdate::Voice(ANA, Some(VoiceEntry { state: Arc::new(state), member: ana(None) })));
        // Members who are not in voice are not stored.
        replica.apply(&ReplicaUpdate::Member(UserId::new(8), Some(ana(None))));
        replica.apply(&ReplicaUpdate::Member(ANA, Some(ana(Some("a")))));
        assert_eq!(replica.last_message_ids.get(&ROOM), Some(&MessageId::new(6)));
        assert_eq!(replica.voice.get(ANA).map(|entry| entry.member.nick.clone()), Some(Some("a".into())));
        assert_eq!(replica.voice.len(), 1);

        replica.apply(&ReplicaUpdate::Structure(structure(&[])));
        assert!(
            replica.structure.channels.is_empty() && replica.last_message_ids.is_empty(),
            "they go with the channel"
        );
        replica.apply(&ReplicaUpdate::Voice(ANA, None));
        assert!(replica.voice.is_empty());
        assert!(before.last_message_ids.is_empty() && before.voice.is_empty() && before.structure.channels.len() == 1);
    }
}
