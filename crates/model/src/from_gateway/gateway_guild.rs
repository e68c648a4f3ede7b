//! Guild as user clients receive it: GUILD_CREATE and `guilds` of READY. Spec  docs/protocol/reference.md §6.11, §8.2,
//! §8.3.
//!
//! Owns        the two shapes, flat and CLIENT_STATE_V2, and where members, presences and voice states go.
//! Doors       the caller fills in `GuildSnapshot` and `GuildPeople`; `GatewayGuildBody` serializes them, `GuildText`
//!             for many recipients that differ only in their own member.
//! Invariants  `GuildText::write` makes the bytes that `GatewayGuildBody` makes. (test `the_text_of_many_*`)
//! Not here    which members are listed and which channels are obfuscated: the caller decides both.

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
    scheduled_event::ScheduledEvent,
    stage_instance::StageInstance,
    voice::VoiceState,
};
use guildhall_stdx::Timestamp;
use serde::Serialize;

/// A guild without members, presences and voice states. It is large, so READY builds one guild's snapshot at a time.
#[derive(Clone, Debug)]
pub struct GuildSnapshot<'a> {
    pub guild: &'a Guild,
    /// In display order.
    pub roles: Vec<RoleBody<'a>>,
    /// Channels that are not threads. Those that the account cannot view are included as the node is configured.
    pub channels: Vec<ChannelBody<'a>>,
    /// Open threads that the recipient joined and can view.
    pub threads: Vec<ThreadBody<'a>>,
    /// Of stages that the recipient can view.
    pub stage_instances: Vec<&'a StageInstance>,
    /// Events elsewhere, and events in channels that the recipient can view.
    pub scheduled_events: Vec<&'a ScheduledEvent>,
    /// `member_count` exceeds the client's `large_threshold`.
    pub large: bool,
    pub member_count: u64,
    /// Changes with every event of the guild.
    pub version: u64,
}

/// Members listed in a guild. READY iterates over them several times, so these are references.
#[derive(Clone, Debug)]
pub struct GuildPeople<'a> {
    /// Member object of the recipient.
    pub own: &'a Member,
    /// All other listed members. Must include the users of `presences` and `voice_states`, so that each id
    /// has its user object.
    pub others: Vec<&'a Member>,
    /// Presences of members in `others` who are not offline.
    pub presences: Vec<(UserId, &'a Presence)>,
    /// Voice states of all connected users.
    pub voice_states: Vec<&'a VoiceState>,
}

impl<'a> GuildPeople<'a> {
    /// The recipient, then the others.
    pub(super) fn members(&self) -> impl Iterator<Item = &'a Member> + '_ {
        std::iter::once(self.own).chain(self.others.iter().copied())
    }
}

/// A guild that is available.
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
    /// Body of GUILD_CREATE.
    #[must_use]
    pub fn event(capabilities: Capabilities, snapshot: &'b GuildSnapshot<'a>, people: &'b GuildPeople<'a>) -> Self {
        let has_properties = capabilities.contains(Capabilities::CLIENT_STATE_V2);
        Self { snapshot, people, has_properties, has_people: true, has_voice: true }
    }

    /// Body inside READY, which with some capabilities has members and presences elsewhere.
    #[must_use]
    pub fn within_ready(
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

    fn common(&self) -> CommonGuildFields<'b, 'a> {
        let Self { snapshot, people, .. } = *self;
        CommonGuildFields {
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
            stage_instances: snapshot.stage_instances.iter().map(|stage| (*stage).into()).collect(),
            guild_scheduled_events: (snapshot.scheduled_events.iter())
                .map(|event| ScheduledEventBody::new(snapshot.guild.id, event))
                .collect(),
            activity_instances: self.has_voice.then_some([]),
            version: snapshot.version,
        }
    }
}

/// Voice states in the form used inside a guild.
pub(super) fn voice_states<'a>(people: &GuildPeople<'a>) -> Vec<VoiceStateBody<'a>> {
    people.voice_states.iter().map(|state| VoiceStateBody::within_guild(state)).collect()
}

/// JSON of GUILD_CREATE, or of a guild in READY, without what differs between recipients that see the same of it: when
/// they joined, their own member, the number of members and the version.
#[derive(Clone, Debug)]
pub struct GuildText {
    before: Box<str>,
    is_large: bool,
    /// Members besides the recipient's. None: there is no list of members.
    others: Option<Box<str>>,
    after: Box<str>,
    end: &'static str,
}

impl GuildText {
    /// From the body of one of the recipients. This recipient must have no voice state.
    ///
    /// # Errors
    /// As `serde_json::to_string`.
    pub fn new(body: &GatewayGuildBody<'_, '_>) -> Result<Self, serde_json::Error> {
        let GatewayGuildBody { snapshot, people, .. } = *body;
        let properties = GuildProperties::from(snapshot.guild);
        let common = body.common();
        let before = if body.has_properties {
            serde_json::to_string(&PropertiesStart { id: snapshot.guild.id, data_mode: "full", properties })?
        } else {
            serde_json::to_string(&properties)?
        };
        let first = serde_json::to_string(&FirstFields::of(&common))?;
        let others = || {
            let others: Vec<MemberBody<'_>> = people.others.iter().map(|member| (*member).into()).collect();
            Ok::<_, serde_json::Error>(fields_of(&serde_json::to_string(&others)?).into())
        };
        Ok(Self {
            before: format!("{},{}", fields_before_end(&before), fields_of(&first)).into(),
            is_large: snapshot.large,
            others: body.has_people.then(others).transpose()?,
            after: fields_of(&serde_json::to_string(&LastFields::of(&common))?).into(),
            end: if body.has_properties { "}" } else { r#","soundboard_sounds":[]}"# },
        })
    }

    /// The body for the recipient with this member.
    ///
    /// # Errors
    /// As `serde_json::to_writer`.
    pub fn write(
        &self,
        own: &Member,
        member_count: u64,
        version: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), serde_json::Error> {
        let Self { before, is_large, others, after, end } = self;
        out.reserve(self.bytes() + 1_024);
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(br#","joined_at":"#);
        serde_json::to_writer(&mut *out, &own.joined_at)?;
        let large = if *is_large { "true" } else { "false" };
        let counts = format!(r#","large":{large},"unavailable":false,"member_count":{member_count},"#);
        out.extend_from_slice(counts.as_bytes());
        if let Some(others) = others {
            out.extend_from_slice(br#""members":["#);
            serde_json::to_writer(&mut *out, &MemberBody::from(own))?;
            if !others.is_empty() {
                out.push(b',');
                out.extend_from_slice(others.as_bytes());
            }
            out.extend_from_slice(b"],");
        }
        out.extend_from_slice(after.as_bytes());
        out.extend_from_slice(format!(r#","version":{version}{end}"#).as_bytes());
        Ok(())
    }

    /// Bytes of its parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.before.len() + self.others.as_ref().map_or(0, |others| others.len()) + self.after.len()
    }
}

/// An object or a list without its end.
fn fields_before_end(text: &str) -> &str {
    &text[..text.len() - 1]
}

/// Fields of an object, or elements of a list.
fn fields_of(text: &str) -> &str {
    &text[1..text.len() - 1]
}

#[derive(Serialize)]
struct PropertiesStart<'a> {
    id: GuildId,
    data_mode: &'static str,
    properties: GuildProperties<'a>,
}

impl Serialize for GatewayGuildBody<'_, '_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let guild = self.snapshot.guild;
        let (properties, common) = (GuildProperties::from(guild), self.common());
        if self.has_properties {
            PropertiesShape { id: guild.id, data_mode: "full", properties, common }.serialize(serializer)
        } else {
            FlatShape { properties, common, soundboard_sounds: [] }.serialize(serializer)
        }
    }
}

#[derive(Serialize)]
struct FlatShape<'b, 'a> {
    #[serde(flatten)]
    properties: GuildProperties<'a>,
    #[serde(flatten)]
    common: CommonGuildFields<'b, 'a>,
    soundboard_sounds: Nothing,
}

#[derive(Serialize)]
struct PropertiesShape<'b, 'a> {
    id: GuildId,
    data_mode: &'static str,
    properties: GuildProperties<'a>,
    #[serde(flatten)]
    common: CommonGuildFields<'b, 'a>,
}

/// Fields of both shapes in addition to the base fields.
#[derive(Serialize)]
struct CommonGuildFields<'b, 'a> {
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

/// The fields of `CommonGuildFields` in front of those that differ between recipients.
#[derive(Serialize)]
struct FirstFields<'c, 'b, 'a> {
    premium_subscription_count: u32,
    roles: &'b [RoleBody<'a>],
    emojis: &'c [EmojiBody<'a>],
    stickers: &'c [StickerBody<'a>],
}

impl<'c, 'b, 'a> FirstFields<'c, 'b, 'a> {
    fn of(common: &'c CommonGuildFields<'b, 'a>) -> Self {
        let CommonGuildFields { premium_subscription_count, roles, emojis, stickers, .. } = common;
        Self { premium_subscription_count: *premium_subscription_count, roles, emojis, stickers }
    }
}

/// The fields behind them.
#[derive(Serialize)]
struct LastFields<'c, 'b, 'a> {
    channels: &'b [ChannelBody<'a>],
    threads: &'b [ThreadBody<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    presences: Option<&'c [PresenceBody<'a>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice_states: Option<&'c [VoiceStateBody<'a>]>,
    stage_instances: &'c [StageInstanceBody<'a>],
    guild_scheduled_events: &'c [ScheduledEventBody<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_instances: Option<Nothing>,
}

impl<'c, 'b, 'a> LastFields<'c, 'b, 'a> {
    fn of(common: &'c CommonGuildFields<'b, 'a>) -> Self {
        let CommonGuildFields { channels, threads, presences, voice_states, stage_instances, .. } = common;
        let CommonGuildFields { guild_scheduled_events, activity_instances, .. } = common;
        Self {
            channels,
            threads,
            presences: presences.as_deref(),
            voice_states: voice_states.as_deref(),
            stage_instances,
            guild_scheduled_events,
            activity_instances: *activity_instances,
        }
    }
}
