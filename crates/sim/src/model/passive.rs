//! Passive updates, as they must be (docs/protocol/reference.md §8.5).

use super::{Change, PassiveForm, State, text::list};
use guildhall_guild_protocol::{Payload, VoiceEntry};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Changes that a passive session has not received: everything between two moments.
#[derive(Clone, Debug)]
pub struct PendingUpdates {
    pub form: PassiveForm,
    pub user: u64,
    /// The guild as the session knows it.
    pub before: Rc<State>,
    /// Channels with states of unknown age: an incomplete replay may have sent newer or older ones.
    pub uncertain_channels: BTreeSet<u64>,
    pub now: Rc<State>,
    /// Changes since then.
    pub changes: Vec<Change>,
}

impl PendingUpdates {
    fn views(&self, channel: u64) -> bool {
        self.now.viewers(channel).contains(&self.user)
    }

    fn viewed(&self, channel: u64) -> bool {
        self.before.viewers(channel).contains(&self.user)
    }

    /// Newest messages it does not know, of channels that it views.
    fn channels(&self) -> BTreeSet<u64> {
        let is_news = |channel: &u64, message: &u64| {
            !self.viewed(*channel) || self.before.last_messages.get(channel) != Some(message)
        };
        let newest = self.now.last_messages.iter();
        newest.filter(|(c, message)| self.views(**c) && is_news(c, message)).map(|(channel, _)| *channel).collect()
    }

    /// Voice channel of a user, if the session may see them there; its own user's always.
    fn place(&self, who: u64) -> Option<u64> {
        let (channel, _) = self.now.voice.get(&who)?;
        self.now.shows_in_voice(self.user, who).then_some(*channel)
    }

    fn known_place(&self, who: u64) -> Option<u64> {
        let (channel, _) = self.before.voice.get(&who)?;
        self.viewed(*channel).then_some(*channel)
    }

    fn has_moved(&self, who: u64) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Voice(of, _) if *of == who))
    }

    /// Users who joined, moved or changed in voice. The session receives its own state at once.
    fn voice(&self) -> BTreeSet<u64> {
        let is_news =
            |who: &u64| self.place(*who).is_some() && (self.known_place(*who).is_none() || self.has_moved(*who));
        self.now.voice.keys().copied().filter(|who| *who != self.user && is_news(who)).collect()
    }

    /// Users who left the channel that the session knows, for none or one that it cannot view.
    fn left(&self) -> BTreeSet<u64> {
        let is_gone = |who: &u64| self.known_place(*who).is_some() && self.place(*who).is_none();
        self.before.voice.keys().copied().filter(|who| *who != self.user && is_gone(who)).collect()
    }

    /// Whether it has to receive an update.
    pub fn is_due(&self) -> bool {
        let has_voice = || !self.voice().is_empty() || !self.left().is_empty();
        !self.channels().is_empty() || self.form != PassiveForm::Unreads && has_voice()
    }

    /// Whether an update has all of these changes, and nothing that the session may not see.
    pub fn check(&self, payload: &Payload) -> Result<(), String> {
        match payload {
            Payload::Unread(channels) if self.form == PassiveForm::Unreads => self.check_channels(channels),
            Payload::PassiveDelta(delta) if self.form == PassiveForm::V2 => {
                self.check_channels(&delta.channels)?;
                self.check_voice(&delta.voice, self.voice())?;
                let left: BTreeSet<u64> = delta.left.iter().map(|who| who.get()).collect();
                if !left.is_superset(&self.left()) {
                    return Err(format!("{left:?} left, but {:?} did", self.left()));
                }
                let is_uncertain = |channel: u64| self.uncertain_channels.contains(&channel);
                let may_know = |channel: u64| self.views(channel) || self.viewed(channel) || is_uncertain(channel);
                let was_seen = |who: &u64| {
                    let was_in = |change: &Change| match change {
                        Change::Voice(of, Some(was_in)) => of == who && may_know(*was_in),
                        _ => false,
                    };
                    let is_there = || self.now.voice.get(who).is_some_and(|(channel, _)| is_uncertain(*channel));
                    self.known_place(*who).is_some() || self.changes.iter().any(was_in) || is_there()
                };
                match left.iter().find(|who| self.place(**who).is_some() || !was_seen(who)) {
                    Some(who) => Err(format!("{who} is listed as having left, but was never there or still is")),
                    None => Ok(()),
                }
            }
            Payload::PassiveSnapshot(snapshot) if self.form == PassiveForm::V1 => {
                let sent: BTreeMap<u64, u64> =
                    snapshot.channels.iter().map(|(c, message)| (c.get(), message.map_or(0, |id| id.get()))).collect();
                let newest = |channel: &u64| self.now.last_messages.get(channel).copied().unwrap_or(0);
                let all = self.now.channels.keys().filter(|channel| self.views(**channel));
                let expected: BTreeMap<u64, u64> = all.map(|channel| (*channel, newest(channel))).collect();
                if sent != expected {
                    return Err(format!("channels {sent:?} instead of {expected:?}"));
                }
                let in_voice = self.now.voice.keys().copied();
                self.check_voice(&snapshot.voice, in_voice.filter(|who| self.place(*who).is_some()).collect())
            }
            _ => Err("an update of another form".to_owned()),
        }
    }

    fn check_channels(
        &self,
        channels: &[(guildhall_model::ChannelId, guildhall_model::MessageId)],
    ) -> Result<(), String> {
        let sent: BTreeSet<u64> = channels.iter().map(|(channel, _)| channel.get()).collect();
        if !sent.is_superset(&self.channels()) || sent.len() != channels.len() {
            return Err(format!("channels {sent:?}, but {:?} have news", self.channels()));
        }
        let is_right = |(channel, message): &(guildhall_model::ChannelId, guildhall_model::MessageId)| {
            self.views(channel.get()) && self.now.last_messages.get(&channel.get()) == Some(&message.get())
        };
        match channels.iter().find(|channel| !is_right(channel)) {
            Some((channel, message)) => Err(format!("{message} in {channel} is not the newest, or not to be seen")),
            None => Ok(()),
        }
    }

    fn check_voice(&self, entries: &[VoiceEntry], expected: BTreeSet<u64>) -> Result<(), String> {
        let sent: BTreeSet<u64> = entries.iter().map(|entry| entry.state.user_id.get()).collect();
        if !sent.is_superset(&expected) || sent.len() != entries.len() {
            return Err(format!("{sent:?} in voice, but {expected:?} have news"));
        }
        let is_right = |entry: &VoiceEntry| {
            let (who, channel) = (entry.state.user_id.get(), entry.state.channel_id.map(|channel| channel.get()));
            self.place(who) == channel && self.now.voice.get(&who).is_some_and(|(_, id)| *id == entry.state.session_id)
        };
        match entries.iter().find(|entry| !is_right(entry)) {
            Some(entry) => Err(format!("{:?} is not how it is, or not to be seen", entry.state)),
            None => Ok(()),
        }
    }
}

/// Content of an update that a relay made.
pub fn made_text(payload: &Payload) -> Option<String> {
    let voice = |entries: &[guildhall_guild_protocol::VoiceEntry]| {
        let of = |entry: &guildhall_guild_protocol::VoiceEntry| {
            let state = &entry.state;
            format!("{}:{}:{}", state.user_id, state.channel_id.map_or(0, |id| id.get()), state.session_id)
        };
        let members = entries.iter().map(|entry| entry.member.user.id);
        let mut states: Vec<String> = entries.iter().map(of).collect();
        states.sort();
        format!("voice={} members={}", list(states), list(members))
    };
    Some(match payload {
        Payload::PassiveDelta(delta) => format!(
            "PASSIVE_UPDATE_V2 channels={} {} left={}",
            list(delta.channels.iter().map(|(channel, message)| format!("{channel}:{message}"))),
            voice(&delta.voice),
            list(&delta.left)
        ),
        Payload::PassiveSnapshot(snapshot) => {
            let newest = |(channel, message): &(guildhall_model::ChannelId, Option<guildhall_model::MessageId>)| {
                format!("{channel}:{}", message.map_or(0, |message| message.get()))
            };
            format!(
                "PASSIVE_UPDATE_V1 channels={} {}",
                list(snapshot.channels.iter().map(newest)),
                voice(&snapshot.voice)
            )
        }
        Payload::Unread(channels) => format!(
            "CHANNEL_UNREAD_UPDATE channels={}",
            list(channels.iter().map(|(channel, message)| format!("{channel}:{message}")))
        ),
        _ => return None,
    })
}
