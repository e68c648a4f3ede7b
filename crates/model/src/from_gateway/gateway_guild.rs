//! A guild as the gateway tells a user client of it: GUILD_CREATE and `guilds` of READY. Spec  docs/protocol.md §6.11, §8.2, §8.3.
//!
//! Owns        the two shapes, flat and CLIENT_STATE_V2, and which people are inside.
//! Doors       `GuildSnapshot` and `GuildPeople` are filled in by who knows the guild; `GatewayGuildBody` writes them.
//! Not here    who is listed, and which channels are obfuscated: the filler decides both.

use super::{
    ChannelBody, MemberBody, Nothing, PresenceBody, RoleBody, ScheduledEventBody, StageInstanceBody, StickerBody,
    ThreadBody, VoiceStateBody,
    guild::{EmojiBody, GuildProperties},
};
use crate::{
    capabilities::Capabilities,
    guild::Guild,
    id::{GuildId, UserId},
    member::Member,
    presence::Presence,
    voice::VoiceState,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// A guild without the people in it: the large part, which READY has built for one guild at a time.
#[derive(Clone, Debug)]
pub struct GuildSnapshot<'a> {
    /// Base fields.
    pub guild: &'a Guild,
    /// In order.
    pub roles: Vec<RoleBody<'a>>,
    /// Every channel that is not a thread; those that may not be viewed obfuscated, for a client that can take it.
    pub channels: Vec<ChannelBody<'a>>,
    /// Open threads that the receiver follows and can view.
    pub threads: Vec<ThreadBody<'a>>,
    /// `member_count` is past the client's `large_threshold`.
    pub large: bool,
    /// Exact.
    pub member_count: u64,
    /// Changes with every event that touches the guild.
    pub version: u64,
}

/// Who is told to be in a guild. READY goes over them several times, so these are references.
#[derive(Clone, Debug)]
pub struct GuildPeople<'a> {
    /// The receiver's own member.
    pub own: &'a Member,
    /// Everybody else who is listed: at least those in `presences` and `voice_states`, so that no id is left without its user.
    pub others: Vec<&'a Member>,
    /// Of `others`, without offline ones.
    pub presences: Vec<(UserId, &'a Presence)>,
    /// Who is in voice.
    pub voice_states: Vec<&'a VoiceState>,
}

impl<'a> GuildPeople<'a> {
    /// The receiver, then everybody else.
    pub(super) fn members(&self) -> impl Iterator<Item = &'a Member> + '_ {
        std::iter::once(self.own).chain(self.others.iter().copied())
    }
}

/// A guild that is there.
#[derive(Clone, Copy, Debug)]
pub struct GatewayGuildBody<'b, 'a> {
    snapshot: &'b GuildSnapshot<'a>,
    people: &'b GuildPeople<'a>,
    /// CLIENT_STATE_V2: the base fields are in `properties`.
    has_properties: bool,
    /// `members` and `presences` are inside.
    has_people: bool,
    /// `voice_states` and `activity_instances` are inside.
    has_voice: bool,
}

impl<'b, 'a> GatewayGuildBody<'b, 'a> {
    /// GUILD_CREATE.
    #[must_use]
    pub fn event(capabilities: Capabilities, snapshot: &'b GuildSnapshot<'a>, people: &'b GuildPeople<'a>) -> Self {
        let has_properties = capabilities.contains(Capabilities::CLIENT_STATE_V2);
        Self { snapshot, people, has_properties, has_people: true, has_voice: true }
    }

    /// Inside READY, which with some capabilities has the people elsewhere.
    pub(super) fn within_ready(
        capabilities: Capabilities,
        snapshot: &'b GuildSnapshot<'a>,
        people: &'b GuildPeople<'a>,
    ) -> Self {
        Self {
            has_people: !capabilities.contains(Capabilities::DEDUPE_USER_OBJECTS),
            has_voice: !capabilities.is_prioritized(),
            ..Self::event(capabilities, snapshot, people)
        }
    }

    fn belongings(&self) -> Belongings<'b, 'a> {
        let Self { snapshot, people, .. } = *self;
        Belongings {
            premium_subscription_count: 0,
            roles: &snapshot.roles,
            emojis: snapshot.guild.emojis.iter().map(Into::into).collect(),
            stickers: snapshot.guild.stickers.iter().map(|of| StickerBody::new(snapshot.guild.id, of)).collect(),
            joined_at: people.own.joined_at,
            large: snapshot.large,
            unavailable: false,
            member_count: snapshot.member_count,
            members: self.has_people.then(|| people.members().map(Into::into).collect()),
            channels: &snapshot.channels,
            threads: &snapshot.threads,
            presences: self.has_people.then(|| {
                people.presences.iter().map(|(id, presence)| PresenceBody::new(None, *id, presence)).collect()
            }),
            voice_states: self.has_voice.then(|| voice_states(people)),
            stage_instances: snapshot.guild.stage_instances.iter().map(Into::into).collect(),
            guild_scheduled_events: (snapshot.guild.scheduled_events.iter())
                .map(|event| ScheduledEventBody::new(snapshot.guild.id, event))
                .collect(),
            activity_instances: self.has_voice.then_some([]),
            version: snapshot.version,
        }
    }
}

/// Who is in voice, as it is told inside a guild.
pub(super) fn voice_states<'a>(people: &GuildPeople<'a>) -> Vec<VoiceStateBody<'a>> {
    people.voice_states.iter().map(|state| VoiceStateBody::within_guild(state)).collect()
}

impl Serialize for GatewayGuildBody<'_, '_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let guild = self.snapshot.guild;
        let (properties, belongings) = (GuildProperties::from(guild), self.belongings());
        if self.has_properties {
            PropertiesShape { id: guild.id, data_mode: "full", properties, belongings }.serialize(serializer)
        } else {
            FlatShape { properties, belongings, soundboard_sounds: [] }.serialize(serializer)
        }
    }
}

#[derive(Serialize)]
struct FlatShape<'b, 'a> {
    #[serde(flatten)]
    properties: GuildProperties<'a>,
    #[serde(flatten)]
    belongings: Belongings<'b, 'a>,
    soundboard_sounds: Nothing,
}

#[derive(Serialize)]
struct PropertiesShape<'b, 'a> {
    id: GuildId,
    data_mode: &'static str,
    properties: GuildProperties<'a>,
    #[serde(flatten)]
    belongings: Belongings<'b, 'a>,
}

/// What both shapes have beside the base fields.
#[derive(Serialize)]
struct Belongings<'b, 'a> {
    premium_subscription_count: u32,
    roles: &'b [RoleBody<'a>],
    emojis: Vec<EmojiBody<'a>>,
    stickers: Vec<StickerBody<'a>>,
    joined_at: Timestamp,
    large: bool,
    unavailable: bool,
    member_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberBody<'a>>>,
    channels: &'b [ChannelBody<'a>],
    threads: &'b [ThreadBody<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    presences: Option<Vec<PresenceBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice_states: Option<Vec<VoiceStateBody<'a>>>,
    stage_instances: Vec<StageInstanceBody<'a>>,
    guild_scheduled_events: Vec<ScheduledEventBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_instances: Option<Nothing>,
    version: u64,
}
