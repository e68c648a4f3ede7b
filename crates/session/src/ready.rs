//! READY, RESUMED, GUILD_CREATE and member chunks: dispatches made for one session.
//!
//! Spec  docs/protocol.md §1.8–§1.10, §6.11, §8.7.

use crate::{
    dispatch::Dispatch,
    session::{MemberRequest, Session},
};
use guildhall_codec::Encoding;
use guildhall_model::{
    AccountKind, EventName, GuildId, Intents, UserId,
    from_gateway::{
        ApplicationRef, BotReadyBody, ClientInfo, Empty, MemberBody, PresenceBody, SelfUserBody, SessionBody,
        UnavailableGuild, UserReadyBody, UserReadyConstants,
    },
    to_gateway::MemberQuery,
};
use guildhall_relay::{GuildMeta, GuildView, MemberEntry, with_guild_create};
use serde::{Serialize, Serializer};
use std::rc::Rc;

/// The version we speak; 9 differs in nothing that is served here.
const API_VERSION: u8 = 10;
/// Members per GUILD_MEMBERS_CHUNK.
const CHUNK_MEMBERS: usize = 1000;

/// A guild inside a user's READY.
enum Guild<'a> {
    /// Built while it is written.
    Complete { meta: &'a GuildMeta, view: &'a GuildView, large_threshold: u16 },
    /// Not there (yet); GUILD_CREATE follows once it is.
    Unavailable(UnavailableGuild),
}

impl Serialize for Guild<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Complete { meta, view, large_threshold } => {
                with_guild_create(meta, view, *large_threshold, |body| body.serialize(serializer))
            }
            Self::Unavailable(guild) => guild.serialize(serializer),
        }
    }
}

/// READY for a bot: its guilds are named and follow as GUILD_CREATE.
#[must_use]
pub fn bot_ready(session: &Session, resume_gateway_url: &str) -> Rc<Dispatch> {
    let body = BotReadyBody {
        v: API_VERSION,
        user: SelfUserBody::from(&*session.user),
        guilds: session.guilds.keys().map(|id| UnavailableGuild { id: *id, unavailable: Some(true) }).collect(),
        session_id: &session.id,
        resume_gateway_url,
        shard: session.shard.map(|shard| (shard.id, shard.count)),
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
    Dispatch::own(session.encoding, EventName::Ready, &body)
}

/// READY for a user account, with the guilds that were gathered.
#[must_use]
pub fn user_ready(
    session: &Session,
    views: &[(std::sync::Arc<GuildMeta>, GuildView)],
    resume_gateway_url: &str,
) -> Rc<Dispatch> {
    let client = match session.platform() {
        guildhall_model::Platform::Desktop => "desktop",
        guildhall_model::Platform::Mobile => "mobile",
        guildhall_model::Platform::Vr => "vr",
        guildhall_model::Platform::Web => "web",
        guildhall_model::Platform::Embedded => "unknown",
    };
    let missing = session.guilds.keys().filter(|id| !views.iter().any(|(meta, _)| meta.id() == **id));
    let body = UserReadyBody {
        v: API_VERSION,
        user: SelfUserBody::from(&*session.user),
        guilds: views
            .iter()
            .map(|(meta, view)| Guild::Complete { meta, view, large_threshold: session.large_threshold() })
            .chain(missing.map(|id| Guild::Unavailable(UnavailableGuild { id: *id, unavailable: Some(true) })))
            .collect(),
        session_id: &session.id,
        resume_gateway_url,
        shard: session.shard.map(|shard| (shard.id, shard.count)),
        session_type: "normal",
        sessions: vec![SessionBody {
            session_id: &session.id,
            status: session.presence.status,
            activities: &session.presence.activities,
            hidden_activities: [],
            client_info: ClientInfo { client, os: &session.os, version: 0 },
        }],
        constants: UserReadyConstants::default(),
    };
    Dispatch::own(session.encoding, EventName::Ready, &body)
}

/// RESUMED. Its `d` is never null: several libraries fail on that.
#[must_use]
pub fn resumed(encoding: Encoding) -> Rc<Dispatch> {
    Dispatch::own(encoding, EventName::Resumed, &Empty {})
}

/// GUILD_CREATE.
#[must_use]
pub fn guild_create(session: &Session, meta: &GuildMeta, view: &GuildView) -> Rc<Dispatch> {
    with_guild_create(meta, view, session.large_threshold(), |body| {
        Dispatch::own(session.encoding, EventName::GuildCreate, body)
    })
}

/// GUILD_DELETE: an outage with `unavailable`, otherwise the session is no longer in it.
#[must_use]
pub fn guild_delete(encoding: Encoding, guild_id: GuildId, unavailable: bool) -> Rc<Dispatch> {
    let body = UnavailableGuild { id: guild_id, unavailable: unavailable.then_some(true) };
    Dispatch::own(encoding, EventName::GuildDelete, &body)
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
    Dispatch::own(encoding, EventName::RateLimited, &body)
}

#[derive(Serialize)]
struct ChunkBody<'a> {
    guild_id: GuildId,
    members: Vec<MemberBody<'a>>,
    chunk_index: usize,
    chunk_count: usize,
    not_found: Vec<UserId>,
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
    let mut not_found = Vec::new();
    let starts_with = |entry: &MemberEntry, prefix: &str| {
        let member = &entry.member;
        let names = [Some(&*member.user.username), member.user.global_name.as_deref(), member.nick.as_deref()];
        names.into_iter().flatten().any(|name| starts_with_ignoring_case(name, prefix))
    };
    let (listed, chunk_count): (Vec<&MemberEntry>, usize) = match &job.request.query {
        MemberQuery::All => {
            let listed = job.members.iter_after(job.after).take(CHUNK_MEMBERS).collect();
            (listed, job.members.len().div_ceil(CHUNK_MEMBERS).max(1))
        }
        MemberQuery::Prefix { prefix, limit } => {
            (job.members.iter().filter(|entry| starts_with(entry, prefix)).take(*limit).collect(), 1)
        }
        MemberQuery::Ids(ids) => {
            let found: Vec<_> = ids.iter().map(|id| (*id, job.members.entry(*id))).collect();
            not_found = found.iter().filter(|(_, entry)| entry.is_none()).map(|(id, _)| *id).collect();
            (found.into_iter().filter_map(|(_, entry)| entry).collect(), 1)
        }
    };
    let with_presences =
        job.request.presences && (kind == AccountKind::User || session_intents.contains(Intents::GUILD_PRESENCES));
    let body = ChunkBody {
        guild_id: job.guild_id,
        members: listed.iter().map(|entry| MemberBody::from(&*entry.member)).collect(),
        chunk_index: job.chunk_index,
        chunk_count,
        not_found,
        presences: with_presences.then(|| listed.iter().filter_map(|entry| presence_of(entry)).collect()),
        nonce: job.request.nonce.as_deref(),
    };
    let dispatch = Dispatch::own(encoding, EventName::GuildMembersChunk, &body);
    if let Some(last) = listed.last() {
        job.after = last.member.user.id;
    }
    job.chunk_index += 1;
    (dispatch, job.chunk_index >= chunk_count)
}

fn presence_of(entry: &MemberEntry) -> Option<PresenceBody<'_>> {
    Some(PresenceBody::new(None, entry.member.user.id, entry.presence.as_deref()?))
}

fn starts_with_ignoring_case(name: &str, prefix: &str) -> bool {
    let mut name = name.chars().flat_map(char::to_lowercase);
    prefix.chars().flat_map(char::to_lowercase).all(|c| name.next() == Some(c))
}
