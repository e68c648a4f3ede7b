//! Session: the logical client, which outlives its connections.
//!
//! Owns        who it is and what it asked for; its sequence and replay buffer; its limits on op 3 and op 8.
//! Doors       `dispatch` from the partition's fan-out; the rest is asked by the partition.
//! Invariants  S1 every dispatch takes the next seq. S2 with `gathering`, seq 1 is held free for READY and nothing is written.
//! Limits      the replay buffer's; one op 8 for a whole guild per `MEMBERS_INTERVAL_MS`; 5 op 3 per 20 s.
//! Not here    the connection.     Spec  docs/protocol.md §1.5, §1.8–§1.10.

use crate::{dispatch::Dispatch, replay::ReplayBuffer};
use guildhall_codec::Encoding;
use guildhall_model::{
    AccountKind, GuildId, Intents, Platform, User,
    to_gateway::{Identify, RequestGuildMembers, ShardId},
};
use guildhall_relay::{GuildMeta, GuildView, MemberTable, MembersWanted, Redaction, Seat, SessionKey, SessionPresence};
use guildhall_stdx::{Instant, SlotKey};
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

/// Where a session stands with one guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It asked to enter and has no answer yet.
    Entering,
    /// Its view has begun.
    Inside,
}

/// Guilds that a user's READY waits for.
#[derive(Debug)]
pub struct Gathering {
    /// Guilds without an answer yet.
    pub waiting_count: usize,
    /// Guilds that answered.
    pub views: Vec<(Arc<GuildMeta>, GuildView)>,
    /// When READY is sent whatever is missing.
    pub deadline: Instant,
}

/// A request for members, answered chunk by chunk as the connection takes them.
#[derive(Debug)]
pub struct MemberRequest {
    /// Of which guild.
    pub guild_id: GuildId,
    /// What was asked.
    pub request: RequestGuildMembers,
    /// Members at the moment of the request.
    pub members: MemberTable,
    /// Chunks sent so far.
    pub chunk_index: usize,
    /// The last member sent.
    pub after: guildhall_model::UserId,
}

/// One account's use of the gateway.
#[derive(Debug)]
pub struct Session {
    /// How guilds know it.
    pub key: SessionKey,
    /// How clients know it.
    pub id: Arc<str>,
    /// Whose.
    pub user: Arc<User>,
    /// What it asked for.
    pub intents: Intents,
    /// How it is written to.
    pub encoding: Encoding,
    /// Its slice of the account's guilds.
    pub shard: Option<ShardId>,
    /// As it was asked for.
    large_threshold: Option<u16>,
    /// Payload compression was asked for.
    pub compress_payloads: bool,
    /// What it shows.
    pub presence: SessionPresence,
    /// `properties.os`.
    pub os: String,
    /// What it was sent.
    pub replay: ReplayBuffer,
    /// Guilds it is in or about to be in.
    pub guilds: BTreeMap<GuildId, Membership>,
    /// The connection that serves it now.
    pub conn: Option<SlotKey>,
    /// Since when it has none.
    pub detached_at: Instant,
    /// READY is waiting for guilds.
    pub gathering: Option<Box<Gathering>>,
    /// It asked a guild to let it in more than once, since an answer may have been lost: when it leaves it has to say so,
    /// or the guild may count it by a request that came late.
    pub asked_again: bool,
    /// Requests for members in progress.
    pub member_requests: VecDeque<Box<MemberRequest>>,
    whole_lists: BTreeMap<GuildId, Instant>,
    presences: Window,
}

/// What a new session is made of.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// How guilds will know it.
    pub key: SessionKey,
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
    /// Its guilds, those of its shard only.
    pub guilds: &'a [GuildId],
}

impl Session {
    /// A session that was just identified.
    #[must_use]
    pub fn new(new: NewSession<'_>) -> Self {
        let NewSession { key, id, user, identify, intents, shard, encoding, conn, guilds } = new;
        let shown = identify.presence.clone().unwrap_or_else(|| guildhall_model::to_gateway::PresenceUpdate {
            status: guildhall_model::Status::Online,
            activities: Vec::new(),
        });
        Self {
            key,
            id,
            user,
            intents,
            encoding,
            shard,
            large_threshold: identify.large_threshold,
            compress_payloads: identify.compress,
            presence: SessionPresence {
                status: shown.status,
                activities: shown.activities.into(),
                platform: identify.platform,
            },
            os: identify.os.clone(),
            replay: ReplayBuffer::default(),
            guilds: guilds.iter().map(|id| (*id, Membership::Entering)).collect(),
            conn: Some(conn),
            detached_at: Instant::default(),
            gathering: None,
            asked_again: false,
            member_requests: VecDeque::new(),
            whole_lists: BTreeMap::new(),
            presences: Window::default(),
        }
    }

    /// Which client family.
    #[must_use]
    pub fn kind(&self) -> AccountKind {
        self.user.kind()
    }

    /// Where it runs.
    #[must_use]
    pub fn platform(&self) -> Platform {
        self.presence.platform
    }

    /// What a relay has to know of it.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat { slot: self.key.slot, intents: self.intents, kind: self.kind() }
    }

    /// Above how many members a guild is large to it.
    #[must_use]
    pub fn large_threshold(&self) -> u16 {
        match self.kind() {
            AccountKind::Bot => self.large_threshold.unwrap_or(50).max(50),
            AccountKind::User => self.large_threshold.unwrap_or(250),
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

    /// Whether op 3 may be acted on now; it is dropped otherwise.
    pub fn admit_presence(&mut self, now: Instant) -> bool {
        self.presences.admit(now, PRESENCES_MAX, PRESENCES_WINDOW_MS)
    }

    /// Whether a guild's whole member list may be asked for now.
    ///
    /// # Errors
    /// Milliseconds until it may.
    pub fn admit_whole_list(&mut self, now: Instant, guild_id: GuildId) -> Result<(), u64> {
        self.whole_lists.retain(|_, at| now.ms_since(*at) < MEMBERS_INTERVAL_MS);
        match self.whole_lists.get(&guild_id) {
            Some(at) => Err(MEMBERS_INTERVAL_MS - now.ms_since(*at)),
            None => {
                self.whole_lists.insert(guild_id, now);
                Ok(())
            }
        }
    }
}

/// Counts within a window that starts with the first count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    started: Instant,
    count: u32,
}

impl Window {
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
        let mut window = Window::default();
        let admitted = (0..7).filter(|_| window.admit(Instant(100), 5, 1000)).count();
        assert_eq!(admitted, 5);
        assert!(!window.admit(Instant(1099), 5, 1000));
        assert!(window.admit(Instant(1100), 5, 1000));
    }
}
