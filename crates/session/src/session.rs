//! Session: the logical client, which outlives its connections.
//!
//! Owns        the account and settings from IDENTIFY; the sequence and replay buffer; rate limits of op 3 and op 8.
//! Doors       `dispatch` and `dispatch_shared` from the partition's fan-out; the partition calls the rest.
//! Invariants  S1 every dispatch takes the next seq. S2 with a `pending_ready`, seq 1 is reserved for READY, seq 2 for
//!             READY_SUPPLEMENTAL if the client supports it, and nothing is written.
//! Limits      the replay buffer's; one op 8 for a whole guild per `MEMBERS_INTERVAL_MS`; 5 op 3 per 20 s.
//! Not here    the connection.     Spec  docs/protocol/reference.md §1.5, §1.8–§1.10.

use crate::{
    dispatch::Dispatch,
    guilds::{GuildEntry, Guilds, Membership},
    ready::OwnData,
    replay::ReplayBuffer,
    shared_log::{SharedLog, Size},
    snapshot::{MembershipSnapshot, PLATFORMS, SessionSnapshot},
};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{
    GuildReplica, GuildView, MembersAnswer, MembersWanted, PartitionId, Redaction, RelayId, SessionKey,
    SessionPresence, Viewer, memory::user_heap,
};
use guildhall_model::{
    AccountKind, Activity, Capabilities, GuildId, Intents, Platform, User, UserId,
    to_gateway::{Identify, ShardId},
};
use guildhall_relay::{SubscriptionMask, UserSubscriptions};
use guildhall_stdx::{
    Instant, OptionalInstant, SlotKey, Timestamp,
    heap::{self, Sample},
};
use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    rc::Rc,
    sync::Arc,
};

/// A request for a guild's whole member list is refused if one was accepted less than this time ago.
pub const MEMBERS_INTERVAL_MS: u64 = 30_000;
/// Member requests that wait for their chunks; the session drops further ones.
pub const MEMBER_REQUESTS_MAX: usize = 16;
const PRESENCES_MAX: u32 = 5;
const PRESENCES_WINDOW_MS: u64 = 20_000;

/// Guilds that a user's READY waits for.
#[derive(Debug)]
pub struct PendingReady {
    /// Guilds that have not answered.
    pub waiting_count: usize,
    /// None until it is loaded.
    pub own: Option<OwnData>,
    /// `own` was requested, or is not needed.
    pub is_own_requested: bool,
    /// Guilds that answered that they are unavailable.
    pub unavailable: Vec<GuildId>,
    /// Replicas and views of the guilds that answered.
    pub views: Vec<(GuildReplica, GuildView)>,
    /// READY is sent then, even if guilds have not answered.
    pub deadline: Instant,
}

/// A request for members, answered chunk by chunk as the connection takes them.
#[derive(Debug)]
pub struct MemberRequest {
    pub guild_id: GuildId,
    /// Members that the guild found.
    pub answer: MembersAnswer,
    /// Chunks sent so far.
    pub chunk_index: usize,
    /// The last member sent; the next chunk starts after it.
    pub after: guildhall_model::UserId,
}

/// One account's use of the gateway. The order of the fields is that in memory: what every delivery reads comes first,
/// and the rest is in `profile`.
#[derive(Debug)]
#[repr(C)]
pub struct Session {
    /// Its slot in the partition.
    pub key: SlotKey,
    /// The connection that serves it now; none while it is detached.
    pub conn: Option<SlotKey>,
    /// Encoding of its payloads; fixed by the connection that identified.
    pub encoding: Encoding,
    /// IDENTIFY requested zlib-compressed payloads.
    pub compress_payloads: bool,
    /// It sent a guild more than one attach request, because an answer could have been lost. Its detach request reports
    /// that, because a late attach request could make the guild count it again.
    pub asked_again: bool,
    /// Its dispatches are still at the node that it leaves, and its replay buffer has provisional seqs.
    pub is_incomplete: bool,
    /// Dispatches that it was sent or has yet to be sent.
    pub replay: ReplayBuffer,
    /// Guilds and direct messages that READY waits for; none once READY is sent.
    pub pending_ready: Option<Box<PendingReady>>,
    /// Intents of IDENTIFY; the partition has checked them.
    pub intents: Intents,
    /// Time of its last disconnect. Counts while `conn` is none.
    pub detached_at: Instant,
    /// Guilds that it is attached to, or about to be.
    pub guilds: Guilds,
    /// Session id, as the client sends it in RESUME.
    pub id: Arc<str>,
    pub user: Arc<User>,
    /// Data that deliveries do not need.
    pub profile: Box<Profile>,
}

const _: () = assert!(size_of::<Session>() <= 192 && size_of::<Profile>() <= 112, "there is one of each per session");

/// Settings and rate limits of a session that deliveries do not need.
#[derive(Debug)]
pub struct Profile {
    /// Its slice of the account's guilds.
    pub shard: Option<ShardId>,
    /// `large_threshold` of IDENTIFY.
    large_threshold: Option<u16>,
    /// Capabilities of a user account's client; none for bots.
    pub capabilities: Capabilities,
    /// Status, activities and platform, as this session sets them.
    pub presence: SessionPresence,
    /// Internal id of the token of the last IDENTIFY or RESUME.
    pub token: u64,
    /// When that token expires. None: never.
    pub expires_at: Option<Timestamp>,
    /// Time of the timer that checks the expiry. An earlier timer of the same session is stale.
    pub expiry_timer_at: OptionalInstant,
    /// `properties.os`.
    pub os: Box<str>,
    /// Requests for members in progress.
    pub member_requests: MemberRequests,
    /// None: it has sent neither op 3 nor op 8.
    limits: Option<Box<RequestLimits>>,
}

/// Rate limits of op 3 and op 8.
#[derive(Debug, Default)]
struct RequestLimits {
    presences: RateWindow,
    /// Time of the last request for the whole list, by guild.
    whole_lists: BTreeMap<GuildId, Instant>,
}

/// Requests for members, oldest first. Hardly any session has one, and each has a place for them.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "see above")]
pub struct MemberRequests(Option<Box<VecDeque<MemberRequest>>>);

impl MemberRequests {
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |requests| requests.len())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds the newest.
    pub fn push(&mut self, request: MemberRequest) {
        self.0.get_or_insert_default().push_back(request);
    }

    /// The request that came first.
    pub fn first_mut(&mut self) -> Option<&mut MemberRequest> {
        self.0.as_mut()?.front_mut()
    }

    /// Removes the oldest.
    pub fn pop(&mut self) {
        self.0.take_if(|requests| {
            requests.pop_front();
            requests.is_empty()
        });
    }

    /// Removes those of a guild.
    pub fn remove_guild(&mut self, guild_id: GuildId) {
        self.0.take_if(|requests| {
            requests.retain(|request| request.guild_id != guild_id);
            requests.is_empty()
        });
    }

    fn heap_bytes(&self) -> usize {
        let of_requests = |requests: &VecDeque<MemberRequest>| {
            heap::boxed::<VecDeque<MemberRequest>>() + Sample::SMALL.of_ring(requests, |_| 0)
        };
        self.0.as_deref().map_or(0, of_requests)
    }
}

impl Profile {
    /// A profile without requests and without rate-limit history.
    fn new(
        shard: Option<ShardId>,
        large_threshold: Option<u16>,
        capabilities: Capabilities,
        presence: SessionPresence,
        token: u64,
        os: &str,
    ) -> Self {
        Self {
            shard,
            large_threshold,
            capabilities,
            presence,
            token,
            expires_at: None,
            expiry_timer_at: OptionalInstant::NONE,
            os: os.into(),
            member_requests: MemberRequests::default(),
            limits: None,
        }
    }
}

/// Input of `Session::new`.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// Its slot in the partition.
    pub key: SlotKey,
    /// Session id, as the client will send it in RESUME.
    pub id: Arc<str>,
    pub user: Arc<User>,
    pub identify: &'a Identify,
    /// Intents of IDENTIFY, checked by the partition.
    pub intents: Intents,
    /// Shard of IDENTIFY, checked by the partition.
    pub shard: Option<ShardId>,
    /// Encoding of the connection.
    pub encoding: Encoding,
    pub conn: SlotKey,
    /// Guilds of its shard, ascending.
    pub guilds: &'a [GuildId],
    /// Internal id of the token of IDENTIFY.
    pub token: u64,
}

impl Viewer for Session {
    fn user_id(&self) -> UserId {
        self.user.id
    }

    fn is_user_account(&self) -> bool {
        self.kind() == AccountKind::User
    }

    fn intents(&self) -> Intents {
        self.intents
    }
}

impl Session {
    /// Estimated heap memory, without the replay buffer; of the account's object its part.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let Profile { presence, os, member_requests, limits, .. } = &*self.profile;
        let of_limits = |limits: &RequestLimits| {
            heap::boxed::<RequestLimits>() + Sample::SMALL.of_tree(&limits.whole_lists, |_, _| 0)
        };
        let counts = 2 * size_of::<usize>();
        heap::boxed::<Profile>()
            + heap::allocated(os.len())
            + heap::allocated(counts + size_of_val(&*presence.activities)) / Arc::strong_count(&presence.activities)
            + member_requests.heap_bytes()
            + limits.as_deref().map_or(0, of_limits)
            + self.guilds.heap_bytes()
            + self.pending_ready.as_ref().map_or(0, |_| heap::boxed::<PendingReady>())
            + heap::allocated(counts + self.id.len()) / Arc::strong_count(&self.id)
            + heap::part_of(&self.user, user_heap)
    }

    /// A session that was just identified.
    #[must_use]
    pub fn new(new: NewSession<'_>) -> Self {
        let NewSession { key, id, user, identify, intents, shard, encoding, conn, guilds, token } = new;
        let shown = identify.presence.clone().unwrap_or_else(|| guildhall_model::to_gateway::PresenceUpdate {
            status: guildhall_model::Status::Online,
            activities: Vec::new(),
        });
        let shown = shown.of_kind(user.kind());
        let presence =
            SessionPresence { status: shown.status, activities: shared(shown.activities), platform: identify.platform };
        let capabilities = identify.capabilities(&user);
        let profile =
            Profile::new(shard, identify.large_threshold, capabilities, presence, token, identify.os.as_str());
        Self {
            key,
            conn: Some(conn),
            encoding,
            compress_payloads: identify.compress,
            asked_again: false,
            is_incomplete: false,
            replay: ReplayBuffer::default(),
            pending_ready: None,
            intents,
            detached_at: Instant::default(),
            guilds: Guilds::entering(guilds),
            id,
            user,
            profile: Box::new(profile),
        }
    }

    /// Snapshot of this session without its replay buffer, which `SessionSnapshot::push` adds. None if the session has
    /// not sent READY, or is incomplete.
    #[must_use]
    pub fn snapshot(&self) -> Option<SessionSnapshot> {
        if self.pending_ready.is_some() || self.is_incomplete {
            return None;
        }
        Some(self.identity())
    }

    /// The session without its replay buffer.
    #[must_use]
    pub fn identity(&self) -> SessionSnapshot {
        let guild = |entry: &GuildEntry| MembershipSnapshot {
            id: entry.guild_id,
            is_inside: matches!(entry.membership, Membership::Inside | Membership::Transferred),
            subscription: entry.subscription.as_deref().map(Into::into),
            in_voice: entry.asked_for_voice,
        };
        let Profile { shard, large_threshold, capabilities, presence, token, os, .. } = &*self.profile;
        SessionSnapshot {
            id: self.id.to_string(),
            user_id: self.user.id,
            is_etf: self.encoding == Encoding::Etf,
            compress_payloads: self.compress_payloads,
            intents: self.intents.0,
            shard: shard.map(|shard| (shard.id, shard.count)),
            large_threshold: *large_threshold,
            capabilities: capabilities.0,
            status: presence.status,
            activities: presence.activities.to_vec(),
            platform: PLATFORMS.iter().position(|platform| *platform == presence.platform).unwrap_or(0) as u8,
            token: *token,
            os: os.to_string(),
            guilds: self.guilds.iter().map(guild).collect(),
            recent_news: Vec::new(),
            first_seq: self.replay.first_seq(),
            entries: Vec::new(),
        }
    }

    /// Changes if its guilds change, if it enters one, or if another token resumes it.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.profile.token.hash(&mut hasher);
        for entry in self.guilds.iter() {
            (entry.guild_id, entry.membership == Membership::Inside).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Restores a session of the previous process. It has no connection and is about to attach to its guilds. The
    /// caller pushes the dispatches of its replay buffer.
    #[must_use]
    pub fn restore(key: SlotKey, kept: &SessionSnapshot, user: Arc<User>, now: Instant) -> Self {
        let mut guilds = Guilds::default();
        for MembershipSnapshot { id, is_inside, subscription, in_voice } in &kept.guilds {
            let subscription = subscription.clone().map(|kept| Box::new(kept.into()));
            let (is_restored, asked_for_voice) = (*is_inside, *in_voice);
            guilds.insert(GuildEntry { is_restored, asked_for_voice, subscription, ..GuildEntry::entering(*id) });
        }
        let platform = PLATFORMS.get(usize::from(kept.platform)).copied().unwrap_or(Platform::Web);
        let profile = Profile::new(
            kept.shard.map(|(id, count)| ShardId { id, count: count.max(1) }),
            kept.large_threshold,
            Capabilities(kept.capabilities),
            SessionPresence { status: kept.status, activities: shared(kept.activities.clone()), platform },
            kept.token,
            &kept.os,
        );
        Self {
            key,
            conn: None,
            encoding: if kept.is_etf { Encoding::Etf } else { Encoding::Json },
            compress_payloads: kept.compress_payloads,
            asked_again: false,
            is_incomplete: false,
            replay: ReplayBuffer::after(kept.first_seq.saturating_sub(1)),
            pending_ready: None,
            intents: Intents(kept.intents),
            detached_at: now,
            guilds,
            id: kept.id.as_str().into(),
            user,
            profile: Box::new(profile),
        }
    }

    /// Whether it receives events that belong to no guild. Among sharded sessions, only shard 0 does.
    #[must_use]
    pub fn is_first_shard(&self) -> bool {
        self.profile.shard.is_none_or(|shard| shard.id == 0)
    }

    /// Its address for a guild: its slot, and the relay that serves it there. `None` if it is not attached and does not
    /// attach.
    #[must_use]
    pub fn key_in(&self, partition: PartitionId, guild_id: GuildId) -> Option<SessionKey> {
        let relay = RelayId { partition, index: self.guilds.get(guild_id)?.relay };
        Some(SessionKey { relay, slot: self.key.slot, generation: self.key.generation })
    }

    #[must_use]
    pub fn kind(&self) -> AccountKind {
        self.user.kind()
    }

    /// Whether it receives GUILD_CREATE and GUILD_DELETE.
    #[must_use]
    pub fn gets_guild_events(&self) -> bool {
        self.kind() == AccountKind::User || self.intents.contains(Intents::GUILDS)
    }

    /// Platform of the client: desktop, web, mobile and so on.
    #[must_use]
    pub fn platform(&self) -> Platform {
        self.profile.presence.platform
    }

    /// Events of a guild that it subscribes to.
    #[must_use]
    pub fn mask(&self, guild_id: GuildId) -> SubscriptionMask {
        if self.kind() == AccountKind::Bot {
            return SubscriptionMask::bot(self.intents);
        }
        let guild = self.guilds.get(guild_id);
        let subscription = guild.and_then(|guild| guild.subscription.as_deref());
        SubscriptionMask::user(UserSubscriptions {
            active: guild.is_some_and(|guild| guild.starts_active) || subscription.is_some_and(|s| s.typing),
            typing: subscription.is_some_and(|s| s.typing),
            member_updates: subscription.is_some_and(|s| s.member_updates),
            threads: subscription.is_some_and(|s| s.threads),
            passive: self.profile.capabilities.passive_update(),
            obfuscated: self.profile.capabilities.contains(Capabilities::CHANNEL_OBFUSCATION),
        })
    }

    /// A guild with more members than this counts as large: GUILD_CREATE then leaves out offline members.
    #[must_use]
    pub fn large_threshold(&self) -> u16 {
        match self.kind() {
            AccountKind::Bot => self.profile.large_threshold.unwrap_or(50).max(50),
            AccountKind::User => self.profile.large_threshold.unwrap_or(250),
        }
    }

    /// Members to include in GUILD_CREATE.
    #[must_use]
    pub fn members_wanted(&self) -> MembersWanted {
        if self.kind() == AccountKind::Bot && self.intents.contains(Intents::GUILD_PRESENCES) {
            MembersWanted::ByThreshold { large_threshold: self.large_threshold() }
        } else {
            MembersWanted::OwnAndVoice
        }
    }

    /// Appends a dispatch to the replay buffer and returns its seq. The fan-out calls it; the pump writes the dispatch.
    pub fn dispatch(&mut self, dispatch: Rc<Dispatch>, redaction: Redaction, bytes: usize) -> u64 {
        self.replay.push(dispatch, redaction, bytes)
    }

    /// Appends the dispatch at `offset` of a shared log; returns its seq.
    pub fn dispatch_shared(&mut self, log: &Rc<SharedLog>, offset: u64, size: Size) -> u64 {
        self.replay.push_shared(log, offset, size)
    }

    /// Whether an op 3 is within the rate limit; the partition drops those that are not.
    pub fn admit_presence(&mut self, now: Instant) -> bool {
        let limits = self.profile.limits.get_or_insert_default();
        limits.presences.admit(now, PRESENCES_MAX, PRESENCES_WINDOW_MS)
    }

    /// Admits a request for a guild's whole member list, at most one per `MEMBERS_INTERVAL_MS`.
    ///
    /// # Errors
    /// Milliseconds until the next request is admitted.
    pub fn admit_whole_list(&mut self, now: Instant, guild_id: GuildId) -> Result<(), u64> {
        let RequestLimits { whole_lists, .. } = &mut **self.profile.limits.get_or_insert_default();
        whole_lists.retain(|_, at| now.ms_since(*at) < MEMBERS_INTERVAL_MS);
        match whole_lists.get(&guild_id) {
            Some(at) => Err(MEMBERS_INTERVAL_MS - now.ms_since(*at)),
            None => {
                whole_lists.insert(guild_id, now);
                Ok(())
            }
        }
    }
}

/// Activities for all that show them. Sessions without any share one allocation.
fn shared(activities: Vec<Activity>) -> Arc<[Activity]> {
    if activities.is_empty() { Arc::default() } else { activities.into() }
}

/// Fixed-window rate limit. A window starts with its first count.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateWindow {
    started: Instant,
    count: u32,
}

impl RateWindow {
    /// Counts one; false if `max` were counted in this window before.
    pub fn admit(&mut self, now: Instant, max: u32, window_ms: u64) -> bool {
        if self.count == 0 || now.ms_since(self.started) >= window_ms {
            *self = Self { started: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_count_and_restart() {
        let mut window = RateWindow::default();
        let admitted = (0..7).filter(|_| window.admit(Instant(100), 5, 1000)).count();
        assert_eq!(admitted, 5);
        assert!(!window.admit(Instant(1099), 5, 1000));
        assert!(window.admit(Instant(1100), 5, 1000));
    }
}
