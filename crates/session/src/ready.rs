//! READY, RESUMED, GUILD_CREATE and member chunks: dispatches made for one session.
//!
//! Owns        the content of these bodies.
//! Spec        docs/protocol/reference.md §1.8–§1.10, §6.11, §8.7.

use crate::{
    dispatch::{Dispatch, Lazy, dispatch_frame},
    guild_texts::{GuildTexts, Place, ViewText},
    reading::read_states,
    session::{MemberRequest, Session},
};
use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_guild_protocol::{FoundMembers, GuildReplica, GuildView, HiddenChannels, MemberEntry, SessionPresence};
use guildhall_model::{
    AccountKind, Capabilities, ChannelId, Direct, EventName, GuildId, Intents, NotificationSettings, Presence,
    ReadState, Relationship, UnreadMention, User, UserId,
    from_gateway::{
        ApplicationRef, BotReadyBody, ClientInfo, Empty, GatewayGuildBody, GuildSnapshot, GuildText, MemberBody,
        PresenceBody, ReadyGuild, SelfUserBody, SessionBody, SessionsBody, SharedGuild, UnavailableGuild, UserReady,
    },
    to_gateway::ShardId,
};
use guildhall_relay::{GuildPlaces, ReplayVisibility, ViewForm, guild_people, guild_snapshot, view_places};
use guildhall_stdx::{Now, Timestamp};
use serde::Serialize;
use std::{
    iter,
    rc::{Rc, Weak},
    sync::Arc,
};

/// API version in READY. Version 9 differs in nothing that this gateway sends.
const API_VERSION: u8 = 10;
/// About the bytes of READY without its guilds.
const READY_BYTES: usize = 4_096;
/// About the bytes of GUILD_CREATE that are the recipient's own.
const OWN_BYTES: usize = 1_024;
/// Members per GUILD_MEMBERS_CHUNK.
const CHUNK_MEMBERS: usize = 1000;

/// READY of a bot. It lists the guilds as unavailable; a GUILD_CREATE follows for each. Its text is larger than all
/// else that a new session has, and a RESUME from seq 0 needs it again, so it is made when it is written.
#[must_use]
pub fn bot_ready(session: &Session, resume_gateway_url: &Arc<str>) -> Rc<Dispatch> {
    let ready = BotReady {
        user: session.user.clone(),
        id: session.id.clone(),
        resume_gateway_url: resume_gateway_url.clone(),
        guild_ids: session.guilds.ids().collect(),
        shard: session.profile.shard,
        encoding: session.encoding,
    };
    Dispatch::lazy(EventName::Ready, ready)
}

/// Data of a bot's READY, as they were at its IDENTIFY.
struct BotReady {
    user: Arc<User>,
    id: Arc<str>,
    resume_gateway_url: Arc<str>,
    guild_ids: Box<[GuildId]>,
    shard: Option<ShardId>,
    encoding: Encoding,
}

impl Lazy for BotReady {
    fn frame(&self) -> DispatchFrame {
        let Self { user, .. } = self;
        let body = BotReadyBody {
            v: API_VERSION,
            user: SelfUserBody::from(&**user),
            guilds: self.guild_ids.iter().map(|id| UnavailableGuild { id: *id, unavailable: Some(true) }).collect(),
            session_id: &self.id,
            resume_gateway_url: &self.resume_gateway_url,
            shard: self.shard.map(|shard| (shard.id, shard.count)),
            application: ApplicationRef { id: user.id.cast(), flags: user.application_flags },
            session_type: "normal",
            private_channels: [],
            presences: [],
            relationships: [],
            user_settings: Empty {},
            geo_ordered_rtc_regions: [],
            guild_join_requests: [],
            auth: Empty {},
        };
        dispatch_frame(self.encoding, EventName::Ready, &body)
    }
}

/// What READY of a user account has of the account itself.
#[derive(Clone, Debug, Default)]
pub struct OwnData {
    /// Direct messages that the account has not closed.
    pub directs: Vec<Direct>,
    /// Its friends, requests and blocks.
    pub relationships: Vec<Relationship>,
    /// Presences of its friends that are not offline.
    pub friend_presences: Vec<(UserId, Presence)>,
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
/// also READY_SUPPLEMENTAL. `texts` are those of the partition.
#[must_use]
pub fn user_ready(
    session: &Session,
    (views, own): (Vec<(GuildReplica, GuildView)>, OwnData),
    resume_gateway_url: &Arc<str>,
    hidden: HiddenChannels,
    now: Now,
    texts: &mut GuildTexts,
) -> (Rc<Dispatch>, Option<Rc<Dispatch>>) {
    let text =
        |(replica, view): &(GuildReplica, GuildView)| texts.of(now.instant, session, (replica, view), Place::Ready);
    let texts = views.iter().map(text).collect();
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
        texts,
        own,
        resume_gateway_url: resume_gateway_url.clone(),
        hidden,
        now: now.unix,
    });
    let supplemental = (session.profile.capabilities.is_prioritized())
        .then(|| Dispatch::lazy(EventName::ReadySupplemental, Supplemental(ready.clone())));
    // No visibility rule: RESUME never replays READY of a user account.
    (Dispatch::lazy(EventName::Ready, ready), supplemental)
}

impl Lazy for Rc<ReadyState> {
    fn frame(&self) -> DispatchFrame {
        let texts: Vec<Option<Rc<ViewText>>> = self.texts.iter().map(Weak::upgrade).collect();
        let bytes = READY_BYTES + texts.iter().flatten().map(|text| text.bytes()).sum::<usize>();
        self.with_body(&texts, |body| {
            if self.encoding == Encoding::Json
                && let Ok(frame) =
                    DispatchFrame::from_json(EventName::Ready.as_str(), bytes, |text| body.write_json(text))
            {
                return frame;
            }
            dispatch_frame(self.encoding, EventName::Ready, &body)
        })
    }
}

/// READY_SUPPLEMENTAL of a READY.
struct Supplemental(Rc<ReadyState>);

impl Lazy for Supplemental {
    fn frame(&self) -> DispatchFrame {
        let encoding = self.0.encoding;
        self.0.with_body(&[], |body| dispatch_frame(encoding, EventName::ReadySupplemental, &body.supplemental()))
    }
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
    /// Of each of them. None, or dropped: the guild is rendered for this session alone.
    texts: Vec<Weak<ViewText>>,
    own: OwnData,
    resume_gateway_url: Arc<str>,
    hidden: HiddenChannels,
    /// Time at which the data was collected.
    now: Timestamp,
}

impl ReadyState {
    /// Passes the body to `then`; a return value could not borrow from locals. `texts` are those of the first guilds.
    fn with_body<'a>(
        &'a self,
        texts: &'a [Option<Rc<ViewText>>],
        then: impl FnOnce(UserReady<'a, SnapshotFn<'a>>) -> DispatchFrame,
    ) -> DispatchFrame {
        let (large_threshold, capabilities, hidden) = (self.large_threshold, self.capabilities, self.hidden);
        let form = ViewForm { large_threshold, capabilities, only_joined_threads: true, hidden };
        let complete = |((replica, view), text): (&'a (GuildReplica, GuildView), Option<&'a ViewText>)| {
            let people = guild_people(replica, view);
            let make = || {
                let snapshot = guild_snapshot(replica, view, form, self.now);
                GuildText::new(&GatewayGuildBody::within_ready(capabilities, &snapshot, &people)).ok()
            };
            let text = text.and_then(|text| text.text(make));
            let GuildView { member_count, version, .. } = *view;
            ReadyGuild::Complete {
                id: replica.id(),
                shared: text.map(|text| SharedGuild { text, member_count, version }),
                people,
                snapshot: Box::new(move || guild_snapshot(replica, view, form, self.now)) as SnapshotFn<'a>,
            }
        };
        let texts = texts.iter().map(Option::as_deref).chain(iter::repeat(None));
        let views = self.views.iter().zip(texts).map(complete);
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
            relationships: &self.own.relationships,
            friend_presences: &self.own.friend_presences,
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

/// Parts of a session's GUILD_CREATE.
pub(crate) struct GuildParts {
    replica: GuildReplica,
    view: GuildView,
    form: ViewForm,
    now: Timestamp,
    encoding: Encoding,
    /// None, or dropped: the body is rendered for this session alone.
    shared: Weak<ViewText>,
}

impl GuildParts {
    /// Passes the body to `then`; a return value could not borrow from locals.
    fn with_body<T>(&self, then: impl FnOnce(&GatewayGuildBody<'_, '_>) -> T) -> T {
        let Self { replica, view, form, now, .. } = self;
        let snapshot = guild_snapshot(replica, view, *form, *now);
        let people = guild_people(replica, view);
        then(&GatewayGuildBody::event(form.capabilities, &snapshot, &people))
    }

    /// The text that sessions with the same view share.
    fn text(&self) -> Option<GuildText> {
        self.with_body(|body| GuildText::new(body).ok())
    }
}

impl GuildPlaces for GuildParts {
    fn places(&self) -> Vec<ChannelId> {
        view_places(&self.replica, &self.view, self.form, self.now)
    }
}

impl Lazy for GuildParts {
    fn frame(&self) -> DispatchFrame {
        let (encoding, name) = (self.encoding, EventName::GuildCreate);
        let GuildView { member, member_count, version, .. } = &self.view;
        let shared = self.shared.upgrade();
        if let Some(text) = shared.as_ref().and_then(|shared| shared.text(|| self.text())) {
            let put_body = |body: &mut Vec<u8>| text.write(member, *member_count, *version, body);
            if let Ok(frame) = DispatchFrame::from_json(name.as_str(), text.bytes() + OWN_BYTES, put_body) {
                return frame;
            }
        }
        self.with_body(|body| dispatch_frame(encoding, name, body))
    }

    fn guild(&self) -> Option<(GuildId, &dyn GuildPlaces)> {
        let places: &dyn GuildPlaces = self;
        Some((self.replica.id(), places))
    }
}

/// GUILD_CREATE. `texts` are those of the partition.
#[must_use]
pub fn guild_create(
    session: &Session,
    replica: &GuildReplica,
    view: &GuildView,
    hidden: HiddenChannels,
    now: Now,
    texts: &mut GuildTexts,
) -> Rc<Dispatch> {
    let large_threshold = session.large_threshold();
    let shared = texts.of(now.instant, session, (replica, view), Place::GuildCreate);
    let parts = GuildParts {
        replica: replica.clone(),
        view: view.clone(),
        form: ViewForm {
            large_threshold,
            capabilities: session.profile.capabilities,
            only_joined_threads: session.kind() == AccountKind::User,
            hidden,
        },
        now: now.unix,
        encoding: session.encoding,
        shared,
    };
    Dispatch::lazy(EventName::GuildCreate, parts)
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
