//! READY, RESUMED, GUILD_CREATE and member chunks: dispatches made for one session.
//!
//! Owns        the content of these bodies.
//! Spec        docs/protocol/reference.md §1.8–§1.10, §6.11, §8.7.

use crate::{
    dispatch::{Dispatch, GuildPlaces, dispatch_frame},
    reading::read_states,
    session::{MemberRequest, Session},
};
use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_guild_protocol::{FoundMembers, GuildReplica, GuildView, HiddenChannels, MemberEntry, SessionPresence};
use guildhall_model::{
    AccountKind, Capabilities, ChannelId, Direct, EventName, GuildId, Intents, NotificationSettings, ReadState,
    UnreadMention, User, UserId,
    from_gateway::{
        ApplicationRef, BotReadyBody, ClientInfo, Empty, GatewayGuildBody, GuildSnapshot, MemberBody, PresenceBody,
        ReadyGuild, SelfUserBody, SessionBody, SessionsBody, UnavailableGuild, UserReady,
    },
    to_gateway::ShardId,
};
use guildhall_relay::{ReplayVisibility, ViewForm, guild_people, guild_snapshot, view_places};
use guildhall_stdx::Timestamp;
use serde::Serialize;
use std::{rc::Rc, sync::Arc};

/// API version in READY. Version 9 differs in nothing that this gateway sends.
const API_VERSION: u8 = 10;
/// Members per GUILD_MEMBERS_CHUNK.
const CHUNK_MEMBERS: usize = 1000;

/// READY of a bot. It lists the guilds as unavailable; a GUILD_CREATE follows for each.
#[must_use]
pub fn bot_ready(session: &Session, resume_gateway_url: &str) -> Rc<Dispatch> {
    let body = BotReadyBody {
        v: API_VERSION,
        user: SelfUserBody::from(&*session.user),
        guilds: session.guilds.ids().map(|id| UnavailableGuild { id, unavailable: Some(true) }).collect(),
        session_id: &session.id,
        resume_gateway_url,
        shard: session.profile.shard.map(|shard| (shard.id, shard.count)),
        application: ApplicationRef { id: session.user.id.cast(), flags: session.user.application_flags },
        session_type: "normal",
        private_channels: [],
        presences: [],
        relationships: [],
        user_settings: Empty {},
        geo_ordered_rtc_regions: [],
        guild_join_requests: [],
        auth: Empty {},
    };
    Dispatch::local(session.encoding, EventName::Ready, &body, None)
}

/// What READY of a user account has of the account itself.
#[derive(Clone, Debug, Default)]
pub struct OwnData {
    /// Direct messages that the account has not closed.
    pub directs: Vec<Direct>,
    /// Base64 of the settings that its clients store; empty if there are none.
    pub settings_proto: Box<str>,
    /// How far it has read its channels.
    pub read_states: Vec<ReadState>,
    /// Mentions after them, in guilds.
    pub mentions: Vec<UnreadMention>,
    /// Unread messages of direct messages; those without are left out.
    pub unread_directs: Vec<(ChannelId, u32)>,
    /// Version of all this; grows.
    pub read_version: u64,
    /// Its notification settings, by guild.
    pub notifications: Vec<NotificationSettings>,
}

/// READY of a user account, with its guilds and direct messages. For clients with the capability for prioritized READY,
/// also READY_SUPPLEMENTAL.
#[must_use]
pub fn user_ready(
    session: &Session,
    views: Vec<(GuildReplica, GuildView)>,
    own: OwnData,
    resume_gateway_url: &Arc<str>,
    hidden: HiddenChannels,
    now: Timestamp,
) -> (Rc<Dispatch>, Option<Rc<Dispatch>>) {
    let ready = Rc::new(ReadyState {
        user: session.user.clone(),
        id: session.id.clone(),
        encoding: session.encoding,
        capabilities: session.profile.capabilities,
        shard: session.profile.shard,
        presence: session.profile.presence.clone(),
        os: session.profile.os.clone(),
        large_threshold: session.large_threshold(),
        missing: session.guilds.ids().filter(|id| !views.iter().any(|(replica, _)| replica.id() == *id)).collect(),
        views,
        own,
        resume_gateway_url: resume_gateway_url.clone(),
        hidden,
        now,
    });
    let supplemental = session.profile.capabilities.is_prioritized().then(|| {
        let ready = ready.clone();
        let make = move || {
            ready.with_body(|body| dispatch_frame(ready.encoding, EventName::ReadySupplemental, &body.supplemental()))
        };
        Dispatch::lazy(EventName::ReadySupplemental, make, None)
    });
    // No visibility rule: RESUME never replays READY of a user account.
    let make = move || ready.with_body(|body| dispatch_frame(ready.encoding, EventName::Ready, &body));
    let first = Dispatch::lazy(EventName::Ready, make, None);
    (first, supplemental)
}

/// Data of a user account's READY, collected when its guilds have answered.
struct ReadyState {
    user: Arc<User>,
    id: Arc<str>,
    encoding: Encoding,
    capabilities: Capabilities,
    shard: Option<ShardId>,
    presence: SessionPresence,
    os: Box<str>,
    large_threshold: u16,
    missing: Vec<GuildId>,
    views: Vec<(GuildReplica, GuildView)>,
    own: OwnData,
    resume_gateway_url: Arc<str>,
    hidden: HiddenChannels,
    /// Time at which the data was collected.
    now: Timestamp,
}

impl ReadyState {
    /// Passes the body to `then`; a return value could not borrow from locals.
    fn with_body<'a>(&'a self, then: impl FnOnce(UserReady<'a, SnapshotFn<'a>>) -> DispatchFrame) -> DispatchFrame {
        let complete = |(replica, view): (&'a GuildReplica, &'a GuildView)| ReadyGuild::Complete {
            id: GuildReplica::id(replica),
            people: guild_people(replica, view),
            snapshot: Box::new(move || {
                let (large_threshold, capabilities, hidden) = (self.large_threshold, self.capabilities, self.hidden);
                let form = ViewForm { large_threshold, capabilities, only_joined_threads: true, hidden };
                guild_snapshot(replica, view, form, self.now)
            }) as SnapshotFn<'a>,
        };
        let views = self.views.iter().map(|(replica, view)| complete((replica, view)));
        let missing = self.missing.iter().map(|id| ReadyGuild::Unavailable(*id));
        then(UserReady {
            capabilities: self.capabilities,
            user: &self.user,
            session_id: &self.id,
            resume_gateway_url: &self.resume_gateway_url,
            shard: self.shard.map(|shard| (shard.id, shard.count)),
            sessions: SessionsBody {
                sessions: vec![SessionBody {
                    session_id: &self.id,
                    status: self.presence.status,
                    activities: &self.presence.activities,
                    hidden_activities: [],
                    client_info: ClientInfo::new(self.presence.platform, &self.os),
                }],
            },
            guilds: views.chain(missing).collect(),
            directs: &self.own.directs,
            settings_proto: &self.own.settings_proto,
            read_states: read_states(&self.own, &self.views, self.now),
            read_version: self.own.read_version,
            notification_settings: self.own.notifications.iter().map(Into::into).collect(),
        })
    }
}

/// Renders the large part of one guild, only when READY reaches it.
type SnapshotFn<'a> = Box<dyn Fn() -> GuildSnapshot<'a> + 'a>;

/// RESUMED. Its `d` is never null: several libraries fail on that.
#[must_use]
pub fn resumed(encoding: Encoding) -> Rc<Dispatch> {
    Dispatch::local(encoding, EventName::Resumed, &Empty {}, None)
}

/// GUILD_CREATE.
#[must_use]
pub fn guild_create(
    session: &Session,
    replica: &GuildReplica,
    view: &GuildView,
    hidden: HiddenChannels,
    now: Timestamp,
) -> Rc<Dispatch> {
    let (encoding, large_threshold) = (session.encoding, session.large_threshold());
    let (replica, view, capabilities) = (replica.clone(), view.clone(), session.profile.capabilities);
    let only_joined_threads = session.kind() == AccountKind::User;
    let form = ViewForm { large_threshold, capabilities, only_joined_threads, hidden };
    let places = {
        let (replica, view) = (replica.clone(), view.clone());
        let guild_id = replica.id();
        GuildPlaces { guild_id, find: Box::new(move || view_places(&replica, &view, form, now)) }
    };
    let make = move || {
        let snapshot = guild_snapshot(&replica, &view, form, now);
        let people = guild_people(&replica, &view);
        dispatch_frame(encoding, EventName::GuildCreate, &GatewayGuildBody::event(capabilities, &snapshot, &people))
    };
    Dispatch::lazy(EventName::GuildCreate, make, Some(places))
}

/// Why a client loses a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuildLoss {
    /// The account has left the guild, or the guild was deleted.
    Left,
    /// The guild is unavailable; GUILD_CREATE follows when it is back.
    Outage,
}

/// GUILD_DELETE.
#[must_use]
pub fn guild_delete(encoding: Encoding, guild_id: GuildId, loss: GuildLoss) -> Rc<Dispatch> {
    let body = UnavailableGuild { id: guild_id, unavailable: (loss == GuildLoss::Outage).then_some(true) };
    Dispatch::local(encoding, EventName::GuildDelete, &body, None)
}

#[derive(Serialize)]
struct RateLimitedBody<'a> {
    opcode: u8,
    retry_after: f64,
    meta: RateLimitedMeta<'a>,
}

#[derive(Serialize)]
struct RateLimitedMeta<'a> {
    guild_id: GuildId,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

/// RATE_LIMITED, for a second request for a whole member list.
#[must_use]
pub fn rate_limited(encoding: Encoding, guild_id: GuildId, nonce: Option<&str>, retry_after_ms: u64) -> Rc<Dispatch> {
    let body = RateLimitedBody {
        opcode: 8,
        retry_after: retry_after_ms as f64 / 1000.0,
        meta: RateLimitedMeta { guild_id, nonce },
    };
    Dispatch::local(encoding, EventName::RateLimited, &body, None)
}

#[derive(Serialize)]
struct ChunkBody<'a> {
    guild_id: GuildId,
    members: Vec<MemberBody<'a>>,
    chunk_index: usize,
    chunk_count: usize,
    not_found: &'a [UserId],
    #[serde(skip_serializing_if = "Option::is_none")]
    presences: Option<Vec<PresenceBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

/// The next GUILD_MEMBERS_CHUNK of a request, and whether it is the last.
pub fn next_chunk(
    session_intents: Intents,
    kind: AccountKind,
    encoding: Encoding,
    job: &mut MemberRequest,
) -> (Rc<Dispatch>, bool) {
    let (listed, not_found, chunk_count): (Vec<&MemberEntry>, &[UserId], usize) = match &job.answer.members {
        FoundMembers::Whole(members) => {
            let listed = members.iter_after(job.after).take(CHUNK_MEMBERS).collect();
            (listed, &[], members.len().div_ceil(CHUNK_MEMBERS).max(1))
        }
        FoundMembers::Some { entries, not_found } => (entries.iter().take(CHUNK_MEMBERS).collect(), not_found, 1),
    };
    let with_presences =
        job.answer.presences && (kind == AccountKind::User || session_intents.contains(Intents::GUILD_PRESENCES));
    let body = ChunkBody {
        guild_id: job.guild_id,
        members: listed.iter().map(|entry| MemberBody::from(&*entry.member)).collect(),
        chunk_index: job.chunk_index,
        chunk_count,
        not_found,
        presences: with_presences.then(|| listed.iter().filter_map(|entry| presence_of(entry)).collect()),
        nonce: job.answer.nonce.as_deref(),
    };
    let visibility = ReplayVisibility::members(job.guild_id);
    let dispatch = Dispatch::local(encoding, EventName::GuildMembersChunk, &body, Some(visibility));
    if let Some(last) = listed.last() {
        job.after = last.member.user.id;
    }
    job.chunk_index += 1;
    (dispatch, job.chunk_index >= chunk_count)
}

fn presence_of(entry: &MemberEntry) -> Option<PresenceBody<'_>> {
    Some(PresenceBody::new(None, entry.member.user.id, entry.presence.as_deref()?))
}
