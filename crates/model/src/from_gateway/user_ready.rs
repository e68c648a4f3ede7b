//! READY and READY_SUPPLEMENTAL of a user account, by capability. Spec  docs/protocol/reference.md §1.8, §8.1, §8.2.
//!
//! Owns        how an account's state is split between READY and READY_SUPPLEMENTAL, by capability.
//! Doors       the caller fills in `UserReady` and serializes it as READY, as JSON by `write_json`;
//!             `UserReady::supplemental` returns the second part.
//! Invariants  U1 every array parallel to `guilds` has one slot per guild, in the same order. U2 `users` contains every
//!             user id of either part. U3 `write_json` makes the bytes that the serializer makes. (tests in
//!             `tests/it/ready.rs`)
//! Limits      one guild's snapshot is in memory at a time; members are held as references.

use super::{
    DirectBody, Empty, GatewayGuildBody, GuildPeople, GuildSnapshot, GuildText, Nothing, NotificationSettingsBody,
    ReadStateBody, RelationshipBody, SelfUserBody, SessionsBody, UserBody, VoiceStateBody,
    gateway_guild::voice_states,
    member::MergedMemberBody,
    presence::{MergedPresenceBody, PresenceBody},
    ready::ReadyConstants,
};
use crate::{
    capabilities::Capabilities,
    direct::Direct,
    id::{GuildId, UserId},
    member::Member,
    presence::Presence,
    relationship::Relationship,
    user::User,
};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Version sent in READY; 9 does not differ in anything served here.
const API_VERSION: u8 = 10;

/// A guild of the account.
#[derive(Clone, Debug)]
pub enum ReadyGuild<'a, G> {
    /// The guild is available.
    Complete {
        id: GuildId,
        /// Members, presences and voice states.
        people: GuildPeople<'a>,
        /// Builds the rest of the guild. Called when READY serializes this guild, and dropped right after.
        snapshot: G,
        /// The same in JSON, for recipients that see the same of the guild.
        shared: Option<SharedGuild<'a>>,
    },
    /// The guild is not available (yet); GUILD_CREATE follows when it is.
    Unavailable(GuildId),
}

/// A guild of READY that was rendered for several recipients, and the numbers that differ for this one.
#[derive(Clone, Copy, Debug)]
pub struct SharedGuild<'a> {
    /// `GuildText::within_ready`.
    pub text: &'a GuildText,
    pub member_count: u64,
    pub version: u64,
}

impl<'a, G> ReadyGuild<'a, G> {
    fn people(&self) -> Option<&GuildPeople<'a>> {
        match self {
            Self::Complete { people, .. } => Some(people),
            Self::Unavailable(_) => None,
        }
    }
}

/// READY of a user account.
#[derive(Clone, Debug)]
pub struct UserReady<'a, G> {
    pub capabilities: Capabilities,
    /// The recipient's account.
    pub user: &'a User,
    /// The client sends it in RESUME.
    pub session_id: &'a str,
    /// Gateway URL for RESUME.
    pub resume_gateway_url: &'a str,
    /// Echo of the value in IDENTIFY.
    pub shard: Option<(u32, u32)>,
    /// Sessions of the account, this one first.
    pub sessions: SessionsBody<'a>,
    /// All guilds of the account.
    pub guilds: Vec<ReadyGuild<'a, G>>,
    /// Direct messages that the account has not closed.
    pub directs: &'a [Direct],
    /// Its friends, requests and blocks.
    pub relationships: &'a [Relationship],
    /// Presences of its friends that are not offline.
    pub friend_presences: &'a [(UserId, Presence)],
    /// Base64 of the settings that the account's clients store; empty if there are none.
    pub settings_proto: &'a str,
    /// Read states of channels, with the number of mentions after each.
    pub read_states: Vec<ReadStateBody>,
    /// Version of the read states.
    pub read_version: u64,
    /// Notification settings of guilds in which the account has changed some.
    pub notification_settings: Vec<NotificationSettingsBody>,
}

impl<'a, G> UserReady<'a, G> {
    /// READY_SUPPLEMENTAL, if the client wants READY in two parts.
    #[must_use]
    pub fn supplemental(&self) -> Option<ReadySupplementalBody<'_, 'a, G>> {
        self.capabilities
            .is_prioritized()
            .then_some(ReadySupplementalBody { guilds: &self.guilds, friend_presences: self.friend_presences })
    }

    /// Grows with each change of any of them.
    fn settings_version(&self) -> u64 {
        self.notification_settings.iter().map(NotificationSettingsBody::version).sum()
    }

    fn private_channels(&self, deduplicated: bool) -> Vec<DirectBody<'a>> {
        let body = if deduplicated { DirectBody::deduplicated } else { DirectBody::new };
        self.directs.iter().map(|direct| body(direct, self.user.id)).collect()
    }

    fn relationships(&self, deduplicated: bool) -> Vec<RelationshipBody<'a>> {
        let body = if deduplicated { RelationshipBody::deduplicated } else { RelationshipBody::new };
        self.relationships.iter().map(body).collect()
    }

    /// Every user referenced by either part, once.
    fn users(&self) -> BTreeMap<UserId, &'a User> {
        let people = self.guilds.iter().filter_map(ReadyGuild::people);
        let members = people.flat_map(GuildPeople::members).map(|member| &*member.user);
        let written_to = self.directs.iter().flat_map(|direct| direct.recipients.iter()).map(|user| &**user);
        let related = self.relationships.iter().map(|of| &*of.user);
        let all = std::iter::once(self.user).chain(members).chain(written_to).chain(related);
        all.map(|user| (user.id, user)).collect()
    }
}

impl<'a, G: Fn() -> GuildSnapshot<'a>> UserReady<'a, G> {
    /// Appends the JSON of READY. Guilds that have a text for several recipients are not serialized again.
    ///
    /// # Errors
    /// As `serde_json::to_writer`.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(&mut *out, &self.start())?;
        out.pop();
        out.extend_from_slice(br#","guilds":["#);
        for (number, guild) in self.guilds.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            match guild {
                ReadyGuild::Complete { people, shared: Some(shared), .. } => {
                    shared.text.write(people.own, shared.member_count, shared.version, out)?;
                }
                guild => serde_json::to_writer(&mut *out, &Guild { capabilities: self.capabilities, guild })?,
            }
        }
        out.extend_from_slice(b"],");
        let rest_at = out.len();
        serde_json::to_writer(&mut *out, &self.rest())?;
        // Its fields belong to the object that has begun.
        out.remove(rest_at);
        Ok(())
    }
}

impl<'a, G> UserReady<'a, G> {
    fn start(&self) -> ReadyStart<'a> {
        ReadyStart { v: API_VERSION, user: self.user.into() }
    }

    fn rest(&self) -> ReadyRest<'_, 'a, G> {
        let has = |capability| self.capabilities.contains(capability);
        let deduplicated = has(Capabilities::DEDUPE_USER_OBJECTS);
        let prioritized = self.capabilities.is_prioritized();
        let listed = if prioritized { Listed::Own } else { Listed::Everybody };
        ReadyRest {
            merged_members: deduplicated.then_some(MergedMembers { guilds: &self.guilds, listed }),
            merged_presences: (deduplicated && !prioritized)
                .then(|| MergedPresences::new(&self.guilds, self.friend_presences)),
            users: deduplicated.then(|| self.users().into_values().map(Into::into).collect()),
            private_channels: self.private_channels(deduplicated),
            relationships: self.relationships(deduplicated),
            presences: (!deduplicated).then(|| {
                self.friend_presences.iter().map(|(id, presence)| PresenceBody::new(None, *id, presence)).collect()
            }),
            session_id: self.session_id,
            resume_gateway_url: self.resume_gateway_url,
            shard: self.shard,
            session_type: "normal",
            sessions: &self.sessions,
            read_state: Entries::new(
                &self.read_states,
                has(Capabilities::VERSIONED_READ_STATES).then_some(self.read_version),
            ),
            user_guild_settings: Entries::new(
                &self.notification_settings,
                has(Capabilities::VERSIONED_USER_GUILD_SETTINGS).then(|| self.settings_version()),
            ),
            user_settings: (!has(Capabilities::USER_SETTINGS_PROTO)).then_some(Empty {}),
            user_settings_proto: self.settings_proto,
            notes: (!has(Capabilities::LAZY_USER_NOTES)).then_some(Empty {}),
            constants: ReadyConstants::default(),
        }
    }
}

impl<'a, G: Fn() -> GuildSnapshot<'a>> Serialize for UserReady<'a, G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let guilds = Guilds { capabilities: self.capabilities, guilds: &self.guilds };
        Ready { start: self.start(), guilds, rest: self.rest() }.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(bound(serialize = "G: Fn() -> GuildSnapshot<'a>"))]
struct Ready<'r, 'a, G> {
    #[serde(flatten)]
    start: ReadyStart<'a>,
    guilds: Guilds<'r, 'a, G>,
    #[serde(flatten)]
    rest: ReadyRest<'r, 'a, G>,
}

/// Fields in front of `guilds`.
#[derive(Serialize)]
struct ReadyStart<'a> {
    v: u8,
    user: SelfUserBody<'a>,
}

/// Fields behind it.
#[derive(Serialize)]
#[serde(bound(serialize = ""))]
struct ReadyRest<'r, 'a, G> {
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_members: Option<MergedMembers<'r, 'a, G>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_presences: Option<MergedPresences<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<Vec<UserBody<'a>>>,
    private_channels: Vec<DirectBody<'a>>,
    relationships: Vec<RelationshipBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presences: Option<Vec<PresenceBody<'a>>>,
    session_id: &'a str,
    resume_gateway_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<(u32, u32)>,
    session_type: &'static str,
    sessions: &'r SessionsBody<'a>,
    read_state: ReadStateEntries<'r>,
    user_guild_settings: NotificationEntries<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_settings: Option<Empty>,
    user_settings_proto: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Empty>,
    #[serde(flatten)]
    constants: ReadyConstants,
}

/// READY_SUPPLEMENTAL: the other members of the guilds in READY.
#[derive(Clone, Copy, Debug)]
pub struct ReadySupplementalBody<'r, 'a, G> {
    guilds: &'r [ReadyGuild<'a, G>],
    friend_presences: &'a [(UserId, Presence)],
}

impl<G> Serialize for ReadySupplementalBody<'_, '_, G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = Supplemental {
            guilds: self.guilds.iter().map(SupplementalGuild::from).collect(),
            merged_members: MergedMembers { guilds: self.guilds, listed: Listed::Others },
            merged_presences: MergedPresences::new(self.guilds, self.friend_presences),
            lazy_private_channels: [],
            disclose: [],
            game_invites: [],
        };
        body.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(bound(serialize = ""))]
struct Supplemental<'r, 'a, G> {
    guilds: Vec<SupplementalGuild<'a>>,
    merged_members: MergedMembers<'r, 'a, G>,
    merged_presences: MergedPresences<'a>,
    lazy_private_channels: Nothing,
    disclose: Nothing,
    game_invites: Nothing,
}

/// Parts of a guild that READY left out; only the id for an unavailable guild.
#[derive(Serialize)]
struct SupplementalGuild<'a> {
    id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    voice_states: Option<Vec<VoiceStateBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_instances: Option<Nothing>,
}

impl<'a, G> From<&ReadyGuild<'a, G>> for SupplementalGuild<'a> {
    fn from(guild: &ReadyGuild<'a, G>) -> Self {
        match guild {
            ReadyGuild::Complete { id, people, .. } => {
                Self { id: *id, voice_states: Some(voice_states(people)), activity_instances: Some([]) }
            }
            ReadyGuild::Unavailable(id) => Self { id: *id, voice_states: None, activity_instances: None },
        }
    }
}

/// `guilds` of READY, one built at a time.
struct Guilds<'r, 'a, G> {
    capabilities: Capabilities,
    guilds: &'r [ReadyGuild<'a, G>],
}

impl<'a, G: Fn() -> GuildSnapshot<'a>> Serialize for Guilds<'_, 'a, G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.guilds.iter().map(|guild| Guild { capabilities: self.capabilities, guild }))
    }
}

struct Guild<'r, 'a, G> {
    capabilities: Capabilities,
    guild: &'r ReadyGuild<'a, G>,
}

impl<'a, G: Fn() -> GuildSnapshot<'a>> Serialize for Guild<'_, 'a, G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.guild {
            ReadyGuild::Complete { people, snapshot, .. } => {
                GatewayGuildBody::within_ready(self.capabilities, &snapshot(), people).serialize(serializer)
            }
            ReadyGuild::Unavailable(id) => {
                let has_data_mode = self.capabilities.contains(Capabilities::CLIENT_STATE_V2);
                let data_mode = has_data_mode.then_some("unavailable");
                AbsentGuild { id: *id, data_mode, unavailable: true }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct AbsentGuild {
    id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_mode: Option<&'static str>,
    unavailable: bool,
}

/// Members in `merged_members`.
#[derive(Clone, Copy)]
enum Listed {
    Own,
    Others,
    Everybody,
}

/// Members per guild, in the order of `guilds`; empty for an unavailable guild.
struct MergedMembers<'r, 'a, G> {
    guilds: &'r [ReadyGuild<'a, G>],
    listed: Listed,
}

impl<'a, G> Serialize for MergedMembers<'_, 'a, G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = |people: &GuildPeople<'a>| -> Vec<MergedMemberBody<'a>> {
            let (own, others) = match self.listed {
                Listed::Own => (Some(people.own), &[] as &[&Member]),
                Listed::Others => (None, &*people.others),
                Listed::Everybody => (Some(people.own), &*people.others),
            };
            own.into_iter().chain(others.iter().copied()).map(Into::into).collect()
        };
        serializer.collect_seq(self.guilds.iter().map(|guild| guild.people().map(members).unwrap_or_default()))
    }
}

/// Presences of friends, and per guild, in the order of `guilds`.
#[derive(Serialize)]
struct MergedPresences<'a> {
    friends: Vec<MergedPresenceBody<'a>>,
    guilds: Vec<Vec<MergedPresenceBody<'a>>>,
}

impl<'a> MergedPresences<'a> {
    fn new<G>(guilds: &[ReadyGuild<'a, G>], friends: &'a [(UserId, Presence)]) -> Self {
        let presences = |people: &GuildPeople<'a>| {
            people.presences.iter().map(|(id, presence)| MergedPresenceBody::new(*id, presence)).collect()
        };
        let guilds = guilds.iter().map(|guild| guild.people().map(presences).unwrap_or_default());
        let friends = friends.iter().map(|(id, presence)| MergedPresenceBody::new(*id, presence)).collect();
        Self { friends, guilds: guilds.collect() }
    }
}

type ReadStateEntries<'r> = Entries<'r, ReadStateBody>;
type NotificationEntries<'r> = Entries<'r, NotificationSettingsBody>;

/// A list, or the object around it for clients with the capability.
#[derive(Serialize)]
#[serde(untagged)]
enum Entries<'r, T> {
    Plain(&'r [T]),
    Versioned { entries: &'r [T], partial: bool, version: u64 },
}

impl<'r, T> Entries<'r, T> {
    fn new(entries: &'r [T], version: Option<u64>) -> Self {
        version.map_or(Self::Plain(entries), |version| Self::Versioned { entries, partial: false, version })
    }
}
