//! Clients of user accounts that apply everything they receive, and their connection.

use crate::fixture::EachDelivery;
use guildhall_guild_protocol::{
    AccessChange, Event, GuildReplica, GuildView, HiddenChannels, MembersAnswer, Payload, Published, SessionKey,
    Visibility,
};
use guildhall_model::{Capabilities, ChannelId, GuildId, MessageId, PassiveUpdate, UserId, VoiceState};
use guildhall_relay::{
    LogId, Recipients, Subscriber, SubscriptionMask, UserSubscriptions, ViewForm, guild_people, guild_snapshot,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A client that applies everything it receives.
#[derive(Debug)]
pub struct Client {
    pub user_id: UserId,
    pub mask: UserSubscriptions,
    pub newest: BTreeMap<ChannelId, MessageId>,
    pub voice: BTreeMap<UserId, VoiceState>,
    /// Channels whose visibility changed while it received messages live: it cannot know which it missed.
    pub unsure_messages: BTreeSet<ChannelId>,
    /// The same of voice states.
    pub unsure_voice: BTreeSet<ChannelId>,
    /// Dispatches sent but not read, if its connection is lost: a RESUME sends the visible ones again.
    pub unread: Option<Vec<Arc<Published>>>,
}

impl Client {
    pub fn is_told_voice_live(&self) -> bool {
        self.mask.active || self.mask.passive == PassiveUpdate::ChannelUnreads
    }

    pub fn apply(&mut self, payload: &Payload) {
        match payload {
            Payload::Message(event) => {
                self.newest.insert(event.message.channel_id, event.message.id);
            }
            Payload::Voice { state, .. } => self.voice_state(state),
            Payload::PassiveDelta(delta) => {
                self.newest.extend(delta.channels.iter().copied());
                delta.voice.iter().for_each(|entry| self.voice_state(&entry.state));
                delta.left.iter().for_each(|user_id| drop(self.voice.remove(user_id)));
            }
            Payload::PassiveSnapshot(snapshot) => {
                let newest = snapshot.channels.iter().filter_map(|(id, message_id)| Some((*id, (*message_id)?)));
                self.newest.extend(newest);
                self.voice.clear();
                snapshot.voice.iter().for_each(|entry| self.voice_state(&entry.state));
            }
            Payload::Unread(channels) => self.newest.extend(channels.iter().copied()),
            Payload::Channel(channel) => drop(self.newest.remove(&channel.id)),
            _ => {}
        }
    }

    fn voice_state(&mut self, state: &VoiceState) {
        match state.channel_id {
            Some(_) => self.voice.insert(state.user_id, state.clone()),
            None => self.voice.remove(&state.user_id),
        };
    }
}

/// Newest messages and voice states from GUILD_CREATE or READY.
#[derive(Default)]
pub struct Create {
    pub newest: BTreeMap<ChannelId, MessageId>,
    pub voice: BTreeMap<UserId, VoiceState>,
}

/// Writes down who got what, and in which log.
#[derive(Default)]
pub struct Post {
    pub got: Vec<(u32, Arc<Published>, Option<LogId>)>,
    pub lost: Vec<u32>,
    /// GUILD_CREATE of the session that attached last.
    pub create: Create,
    pub mask: UserSubscriptions,
}

impl Recipients for Post {
    type Delivering<'a> = EachDelivery<'a>;
    fn access_changed(&mut self, _guild_id: GuildId, _change: &AccessChange) {}
    fn access_began(&mut self, _guild_id: GuildId, _change: &dyn Fn() -> AccessChange) {}
    fn begin(&mut self, published: &Arc<Published>, _visibility: Visibility) -> EachDelivery<'_> {
        let published = published.clone();
        EachDelivery::new(move |slot, _, log| self.got.push((slot, published.clone(), log)))
    }
    fn attached(
        &mut self,
        session: SessionKey,
        replica: &GuildReplica,
        view: Option<&GuildView>,
    ) -> Option<Subscriber> {
        let view = view?;
        let form = ViewForm {
            large_threshold: 250,
            capabilities: Capabilities::NONE,
            only_joined_threads: true,
            hidden: HiddenChannels::Listed,
        };
        let snapshot = guild_snapshot(replica, view, form, guildhall_stdx::Timestamp(0));
        let body = serde_json::to_value(&snapshot.channels).expect("it is JSON");
        let number = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        let newest = body.as_array().into_iter().flatten().filter_map(|channel| {
            Some((ChannelId::new(number(&channel["id"])?), MessageId::new(number(&channel["last_message_id"])?)))
        });
        self.create.newest = newest.collect();
        let people = guild_people(replica, view);
        self.create.voice = people.voice_states.iter().map(|state| (state.user_id, (*state).clone())).collect();
        let listed =
            |user_id: &UserId| *user_id == people.own.user.id || people.others.iter().any(|m| m.user.id == *user_id);
        assert!(self.create.voice.keys().all(listed), "no id without its user");
        Some(Subscriber { slot: session.slot, mask: SubscriptionMask::user(self.mask) })
    }
    fn transferred(&mut self, _session: SessionKey, _guild_id: GuildId) -> bool {
        true
    }
    fn unavailable(&mut self, _session: SessionKey, _guild_id: GuildId) {}
    fn lost(&mut self, slot: u32, _guild_id: GuildId) {
        self.lost.push(slot);
    }
    fn reset(&mut self, slot: u32, _guild_id: GuildId) {
        self.lost.push(slot);
    }
    fn direct(&mut self, _session: SessionKey, _event: &Arc<Event>) {}
    fn members(&mut self, _session: SessionKey, _guild_id: GuildId, _answer: &MembersAnswer) {}
}
