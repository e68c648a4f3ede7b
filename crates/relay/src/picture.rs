//! Picture: a guild as a relay knows it, from which GUILD_CREATE and passive updates are made.
//!
//! Owns        `GuildPicture`, which a snapshot brings and effects keep up to date.
//! Invariants  at the same number of the stream it equals the guild's own state.
//! Limits      channels: the guild's; voice: those who are in voice.
//! Not here    members who are neither in voice nor have a session here: a relay does not know them.

use crate::{meta::GuildMeta, protocol::Effect};
use guildhall_model::{ChannelId, GuildId, Member, MessageId, UserId, VoiceState};
use guildhall_stdx::CowMap;
use std::{collections::BTreeMap, sync::Arc};

/// Somebody in voice.
#[derive(Clone, Debug)]
pub struct VoiceEntry {
    /// Where and how; its channel is never none.
    pub state: Arc<VoiceState>,
    /// Who.
    pub member: Arc<Member>,
}

/// A guild at one moment. `clone` is cheap, whatever the guild's size.
#[derive(Clone, Debug)]
pub struct GuildPicture {
    /// Base fields, roles, channels.
    pub meta: Arc<GuildMeta>,
    /// Newest message per channel; it may have been deleted since.
    pub last_message_ids: Arc<BTreeMap<ChannelId, MessageId>>,
    /// Who is in voice.
    pub voice: CowMap<UserId, VoiceEntry>,
}

impl GuildPicture {
    /// A guild of which nothing but this is known.
    #[must_use]
    pub fn new(meta: Arc<GuildMeta>) -> Self {
        Self { meta, last_message_ids: Arc::default(), voice: CowMap::default() }
    }

    /// The guild's id.
    #[must_use]
    pub fn id(&self) -> GuildId {
        self.meta.id()
    }

    /// Applies what an event changed.
    pub(crate) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Meta(meta) => {
                self.meta = meta.clone();
                if self.last_message_ids.keys().any(|channel| !meta.channels.contains_key(channel)) {
                    Arc::make_mut(&mut self.last_message_ids).retain(|channel, _| meta.channels.contains_key(channel));
                }
            }
            Effect::Message(channel_id, message_id) => {
                // Copies the map at most once per snapshot, and it has at most as many entries as the guild has channels.
                Arc::make_mut(&mut self.last_message_ids).insert(*channel_id, *message_id);
            }
            Effect::Voice(user_id, Some(entry)) => {
                self.voice.insert(*user_id, entry.clone());
            }
            Effect::Voice(user_id, None) => {
                self.voice.remove(*user_id);
            }
            Effect::Member(user_id, Some(member)) => {
                if let Some(entry) = self.voice.get(*user_id) {
                    let entry = VoiceEntry { state: entry.state.clone(), member: member.clone() };
                    self.voice.insert(*user_id, entry);
                }
            }
            Effect::None | Effect::Member(_, None) | Effect::Deleted => {}
        }
    }
}
