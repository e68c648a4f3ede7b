//! Session: the logical client, which outlives its connections.
//!
//! Owns        who it is and what it asked for; its sequence and replay buffer; its limits on op 3 and op 8.
//! Doors       `dispatch` from the partition's fan-out; the rest is asked by the partition.
//! Invariants  S1 every dispatch takes the next seq. S2 with `gathering`, seq 1 is held free for READY, and seq 2 for
//!             READY_SUPPLEMENTAL if there will be one, and nothing is written.
//! Limits      the replay buffer's; one op 8 for a whole guild per `MEMBERS_INTERVAL_MS`; 5 op 3 per 20 s.
//! Not here    the connection.     Spec  docs/protocol.md §1.5, §1.8–§1.10.

use crate::{
    dispatch::Dispatch,
    guilds::{GuildEntry, Guilds, Membership},
    log::{SharedLog, Size},
    replay::ReplayBuffer,
    snapshot::{KeptGuild, PLATFORMS, SessionSnapshot},
};
use guildhall_codec::Encoding;
use guildhall_model::{
    AccountKind, Capabilities, Direct, GuildId, Intents, Platform, User, UserId,
    to_gateway::{Identify, ShardId},
};
use guildhall_relay::{
    GuildReplica, GuildView, MembersAnswer, MembersWanted, PartitionId, Redaction, RelayId, SessionKey,
    SessionPresence, SubscriptionMask, UserSubscriptions, Viewer,
};
use guildhall_stdx::{Instant, SlotKey, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// A second request for a guild's whole member list within this time is refused.
pub const MEMBERS_INTERVAL_MS: u64 = 30_000;
/// Requests for members that wait for their chunks; further ones are dropped.
pub const MEMBER_REQUESTS_MAX: usize = 16;
const PRESENCES_MAX: u32 = 5;
const PRESENCES_WINDOW_MS: u64 = 20_000;

/// Guilds that a user's READY waits for.
#[derive(Debug)]
pub struct PendingReady {
    /// Guilds without an answer yet, and one for the direct messages until they are here.
    pub waiting_count: usize,
    /// Direct messages of the account; none until they are here.
    pub directs: Option<Vec<Direct>>,
    /// Guilds that answered that they are out of reach now.
    pub unavailable: Vec<GuildId>,
    /// Guilds that answered.
    pub views: Vec<(GuildReplica, GuildView)>,
    /// When READY is sent whatever is missing.
    pub deadline: Instant,
}

/// A request for members, answered chunk by chunk as the connection takes them.
#[derive(Debug)]
pub struct MemberRequest {
    /// Of which guild.
    pub guild_id: GuildId,
    /// What the guild answered.
    pub answer: MembersAnswer,
    /// Chunks sent so far.
    pub chunk_index: usize,
    /// The last member sent.
    pub after: guildhall_model::UserId,
}

/// One account's use of the gateway. What every delivery touches comes first; the rest is in `profile`.
#[derive(Debug)]
pub struct Session {
    /// Its place in the partition.
    pub key: SlotKey,
    /// The connection that serves it now.
    pub conn: Option<SlotKey>,
    /// How it is written to.
    pub encoding: Encoding,
    /// Payload compression was asked for.
    pub compress_payloads: bool,
    /// What it was sent.
    pub replay: ReplayBuffer,
    /// READY is waiting for guilds.
    pub gathering: Option<Box<PendingReady>>,
    /// What it asked for.
    pub intents: Intents,
    /// Since when it has no connection.
    pub detached_at: Instant,
    /// Guilds it is in or about to be in.
    pub guilds: Guilds,
    /// How clients know it.
    pub id: Arc<str>,
    /// Whose.
    pub user: Arc<User>,
    /// What is seldom needed.
    pub profile: Box<Profile>,
}

/// What a session said of itself, and what it is limited in.
#[derive(Debug)]
pub struct Profile {
    /// Its slice of the account's guilds.
    pub shard: Option<ShardId>,
    /// As it was asked for.
    large_threshold: Option<u16>,
    /// What a user account's client can do.
    pub capabilities: Capabilities,
    /// What it shows.
    pub presence: SessionPresence,
    /// The token it came with, or was resumed with last.
    pub token: u64,
    /// When that token expires. None: never.
    pub expires_at: Option<Timestamp>,
    /// The entry in the partition's timers that looks at it.
    pub expiry_timer_at: Option<Instant>,
    /// `properties.os`.
    pub os: Box<str>,
    /// It asked a guild to let it in more than once, since an answer may have been lost: when it leaves it has to say so,
    /// or the guild may count it by a request that came late.
    pub asked_again: bool,
    /// Requests for members in progress.
    pub member_requests: VecDeque<Box<MemberRequest>>,
    whole_lists: BTreeMap<GuildId, Instant>,
    presences: RateWindow,
}

impl Profile {
    /// Of a session that has asked for nothing yet, or not of this process.
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
            expiry_timer_at: None,
            os: os.into(),
            asked_again: false,
            member_requests: VecDeque::new(),
            whole_lists: BTreeMap::new(),
            presences: RateWindow::default(),
        }
    }
}

/// What a new session is made of.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// Its place in the partition.
    pub key: SlotKey,
    /// How clients will know it.
    pub id: Arc<str>,
    /// Whose.
    pub user: Arc<User>,
    /// What it said.
    pub identify: &'a Identify,
    /// Checked.
    pub intents: Intents,
    /// Checked.
    pub shard: Option<ShardId>,
    /// Of its connection.
    pub encoding: Encoding,
    /// The connection.
    pub conn: SlotKey,
    /// Its guilds, those of its shard only, ascending.
    pub guilds: &'a [GuildId],
    /// The token it came with.
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
            SessionPresence { status: shown.status, activities: shown.activities.into(), platform: identify.platform };
        let capabilities = identify.capabilities(&user);
        let profile =
            Profile::new(shard, identify.large_threshold, capabilities, presence, token, identify.os.as_str());
        Self {
            key,
            conn: Some(conn),
            encoding,
            compress_payloads: identify.compress,
            replay: ReplayBuffer::default(),
            gathering: None,
            intents,
            detached_at: Instant::default(),
            guilds: Guilds::entering(guilds),
            id,
            user,
            profile: Box::new(profile),
        }
    }

    /// The session for the next process, without its replay buffer, which `SessionSnapshot::push` adds. None: the session
    /// has not sent READY.
    #[must_use]
    pub fn keep(&self) -> Option<SessionSnapshot> {
        if self.gathering.is_some() {
            return None;
        }
        let guild = |entry: &GuildEntry| KeptGuild {
            id: entry.guild_id,
            is_inside: entry.membership == Membership::Inside,
            subscription: entry.subscription.as_deref().map(Into::into),
        };
        let Profile { shard, large_threshold, capabilities, presence, token, os, .. } = &*self.profile;
        Some(SessionSnapshot {
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
            first_seq: self.replay.first_seq(),
            entries: Vec::new(),
        })
    }

    /// A session of the process before this one, without a connection, about to enter its guilds. What it was sent is still
    /// to be pushed.
    #[must_use]
    pub fn returning(key: SlotKey, kept: &SessionSnapshot, user: Arc<User>, now: Instant) -> Self {
        let mut guilds = Guilds::default();
        for KeptGuild { id, is_inside, subscription } in &kept.guilds {
            let subscription = subscription.clone().map(|kept| Box::new(kept.into()));
            guilds.insert(GuildEntry { returns: *is_inside, subscription, ..GuildEntry::entering(*id) });
        }
        let platform = PLATFORMS.get(usize::from(kept.platform)).copied().unwrap_or(Platform::Web);
        let profile = Profile::new(
            kept.shard.map(|(id, count)| ShardId { id, count: count.max(1) }),
            kept.large_threshold,
            Capabilities(kept.capabilities),
            SessionPresence { status: kept.status, activities: kept.activities.clone().into(), platform },
            kept.token,
            &kept.os,
        );
        Self {
            key,
            conn: None,
            encoding: if kept.is_etf { Encoding::Etf } else { Encoding::Json },
            compress_payloads: kept.compress_payloads,
            replay: ReplayBuffer::after(kept.first_seq.saturating_sub(1)),
            gathering: None,
            intents: Intents(kept.intents),
            detached_at: now,
            guilds,
            id: kept.id.as_str().into(),
            user,
            profile: Box::new(profile),
        }
    }

    /// It is told what belongs to no guild: of sessions with shards, only the first is.
    #[must_use]
    pub fn is_first_shard(&self) -> bool {
        self.profile.shard.is_none_or(|shard| shard.id == 0)
    }

    /// How a guild knows it: by the relay that serves it there. None: it is not in the guild, nor about to be.
    #[must_use]
    pub fn key_in(&self, partition: PartitionId, guild_id: GuildId) -> Option<SessionKey> {
        let relay = RelayId { partition, index: self.guilds.get(guild_id)?.relay };
        Some(SessionKey { relay, slot: self.key.slot, generation: self.key.generation })
    }

    /// Which client family.
    #[must_use]
    pub fn kind(&self) -> AccountKind {
        self.user.kind()
    }

    /// Whether it gets GUILD_CREATE and GUILD_DELETE.
    #[must_use]
    pub fn is_told_of_guilds(&self) -> bool {
        self.kind() == AccountKind::User || self.intents.contains(Intents::GUILDS)
    }

    /// Where it runs.
    #[must_use]
    pub fn platform(&self) -> Platform {
        self.profile.presence.platform
    }

    /// What it wants to be told of in a guild it is in.
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

    /// Above how many members a guild is large to it.
    #[must_use]
    pub fn large_threshold(&self) -> u16 {
        match self.kind() {
            AccountKind::Bot => self.profile.large_threshold.unwrap_or(50).max(50),
            AccountKind::User => self.profile.large_threshold.unwrap_or(250),
        }
    }

    /// Which members it wants in GUILD_CREATE.
    #[must_use]
    pub fn members_wanted(&self) -> MembersWanted {
        if self.kind() == AccountKind::Bot && self.intents.contains(Intents::GUILD_PRESENCES) {
            MembersWanted::ByThreshold { large_threshold: self.large_threshold() }
        } else {
            MembersWanted::OwnAndVoice
        }
    }

    /// Gives a dispatch the next seq. Comes from the fan-out; the pump writes it.
    pub fn dispatch(&mut self, dispatch: Rc<Dispatch>, redaction: Redaction, bytes: usize) -> u64 {
        self.replay.push(dispatch, redaction, bytes)
    }

    /// Gives what was just put into a log the next seq.
    pub fn dispatch_shared(&mut self, log: &Rc<SharedLog>, place: u64, size: Size) -> u64 {
        self.replay.push_shared(log, place, size)
    }

    /// Whether op 3 may be acted on now; it is dropped otherwise.
    pub fn admit_presence(&mut self, now: Instant) -> bool {
        self.profile.presences.admit(now, PRESENCES_MAX, PRESENCES_WINDOW_MS)
    }

    /// Whether a guild's whole member list may be asked for now.
    ///
    /// # Errors
    /// Milliseconds until it may.
    pub fn admit_whole_list(&mut self, now: Instant, guild_id: GuildId) -> Result<(), u64> {
        let whole_lists = &mut self.profile.whole_lists;
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

/// Counts within a window that starts with the first count.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateWindow {
    started: Instant,
    count: u32,
}

impl RateWindow {
    /// Counts one; false when there were `max` in this window already.
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
    fn windows_count_and_start_anew() {
        let mut window = RateWindow::default();
        let admitted = (0..7).filter(|_| window.admit(Instant(100), 5, 1000)).count();
        assert_eq!(admitted, 5);
        assert!(!window.admit(Instant(1099), 5, 1000));
        assert!(window.admit(Instant(1100), 5, 1000));
    }
}
