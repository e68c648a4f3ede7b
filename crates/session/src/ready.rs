//! READY, RESUMED, GUILD_CREATE and member chunks: dispatches made for one session.
//!
//! Spec  docs/protocol.md §1.8–§1.10, §6.11, §8.7.

use crate::{
    dispatch::{Dispatch, frame_of},
    session::{MemberRequest, Session},
};
use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_model::{
    AccountKind, EventName, GuildId, Intents, Platform, User, UserId,
    from_gateway::{
        ApplicationRef, BotReadyBody, ClientInfo, Empty, MemberBody, PresenceBody, SelfUserBody, SessionBody,
        UnavailableGuild, UserReadyBody, UserReadyConstants,
    },
    to_gateway::{MemberQuery, ShardId},
};
use guildhall_relay::{GuildPicture, GuildView, MemberEntry, SessionPresence, with_guild_create};
use serde::{Serialize, Serializer};
use std::{rc::Rc, sync::Arc};

/// The version we speak; 9 differs in nothing that is served here.
const API_VERSION: u8 = 10;
/// Members per GUILD_MEMBERS_CHUNK.
const CHUNK_MEMBERS: usize = 1000;

/// A guild inside a user's READY.
enum Guild<'a> {
    /// Built while it is written.
    Complete { picture: &'a GuildPicture, view: &'a GuildView, large_threshold: u16 },
    /// Not there (yet); GUILD_CREATE follows once it is.
    Unavailable(UnavailableGuild),
}

impl Serialize for Guild<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Complete { picture, view, large_threshold } => {
                with_guild_create(picture, view, *large_threshold, |body| body.serialize(serializer))
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
    Dispatch::own(session.encoding, EventName::Ready, &body)
}

/// READY for a user account, with the guilds that were gathered.
#[must_use]
pub fn user_ready(
    session: &Session,
    views: Vec<(GuildPicture, GuildView)>,
    resume_gateway_url: &Arc<str>,
) -> Rc<Dispatch> {
    let ready = UserReady {
        user: session.user.clone(),
        id: session.id.clone(),
        encoding: session.encoding,
        shard: session.profile.shard,
        presence: session.profile.presence.clone(),
        os: session.profile.os.clone(),
        large_threshold: session.large_threshold(),
        missing: session.guilds.ids().filter(|id| !views.iter().any(|(picture, _)| picture.id() == *id)).collect(),
        views,
        resume_gateway_url: resume_gateway_url.clone(),
    };
    Dispatch::lazy(move || ready.frame())
}

/// What a user's READY is made from, when its turn has come.
struct UserReady {
    user: Arc<User>,
    id: Arc<str>,
    encoding: Encoding,
    shard: Option<ShardId>,
    presence: SessionPresence,
    os: Box<str>,
    large_threshold: u16,
    missing: Vec<GuildId>,
    views: Vec<(GuildPicture, GuildView)>,
    resume_gateway_url: Arc<str>,
}

impl UserReady {
    fn frame(&self) -> DispatchFrame {
        let client = match self.presence.platform {
            Platform::Desktop => "desktop",
            Platform::Mobile => "mobile",
            Platform::Vr => "vr",
            Platform::Web => "web",
            Platform::Embedded => "unknown",
        };
        let complete = |(picture, view)| Guild::Complete { picture, view, large_threshold: self.large_threshold };
        let missing = self.missing.iter().map(|id| UnavailableGuild { id: *id, unavailable: Some(true) });
        let body = UserReadyBody {
            v: API_VERSION,
            user: SelfUserBody::from(&*self.user),
            guilds: self.views.iter().map(|(p, v)| complete((p, v))).chain(missing.map(Guild::Unavailable)).collect(),
            session_id: &self.id,
            resume_gateway_url: &self.resume_gateway_url,
            shard: self.shard.map(|shard| (shard.id, shard.count)),
            session_type: "normal",
            sessions: vec![SessionBody {
                session_id: &self.id,
                status: self.presence.status,
                activities: &self.presence.activities,
                hidden_activities: [],
                client_info: ClientInfo { client, os: &self.os, version: 0 },
            }],
            constants: UserReadyConstants::default(),
        };
        frame_of(self.encoding, EventName::Ready, &body)
    }
}

/// RESUMED. Its `d` is never null: several libraries fail on that.
#[must_use]
pub fn resumed(encoding: Encoding) -> Rc<Dispatch> {
    Dispatch::own(encoding, EventName::Resumed, &Empty {})
}

/// GUILD_CREATE.
#[must_use]
pub fn guild_create(session: &Session, picture: &GuildPicture, view: &GuildView) -> Rc<Dispatch> {
    let (encoding, large_threshold) = (session.encoding, session.large_threshold());
    let (picture, view) = (picture.clone(), view.clone());
    Dispatch::lazy(move || {
        with_guild_create(&picture, &view, large_threshold, |body| frame_of(encoding, EventName::GuildCreate, body))
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
