//! Hand-over: sessions of a partition that ends continue in the next process, over a restart of the node.
//!
//! Doors       `leave_voice`, then `hand_over` once the guilds have ended; `take_over` before clients connect, then
//!             `is_restoring` until all guilds have answered, or `fail_pending_restores`.
//! Invariants  H1 the driver lets nothing happen to a guild between the last message to its relays here and the first
//!             `Attach` of a restored session, or says that a loss is possible. H2 so a restored session misses nothing
//!             of a guild that it was inside, and receives nothing twice; any other guild looks to its client like
//!             after an outage. H3 permissions apply again when it resumes. (tests `tests/it/handover.rs`)
//! Limits      `bytes_max` of bodies over all sessions. Sessions past it are left out; their clients receive op 9.
//! Not here    files: `guildhall`.     Spec  docs/adr/0026.

use crate::{
    core::Core,
    partition::Partition,
    pause::Pause,
    session_recipients::SessionRecipients,
    timers::TimerKey,
    transfers::TransferStart,
    transport::{Output, Transport},
    turn::Turn,
};
use guildhall_guild_protocol::{HiddenChannels, Redaction, Retention, SessionChange, SessionKey, ToGuild};
use guildhall_model::{GuildId, User, UserId, to_gateway::VoiceStateUpdate};
use guildhall_session::{
    Dispatch, DispatchSnapshot, GuildEntry, GuildLoss, LogLimits, Membership, Session, SessionSnapshot, SharedLog,
    Size, guild_delete,
};
use guildhall_stdx::{Instant, Now, SlotKey};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    mem,
    rc::Rc,
    sync::Arc,
};

/// Whether messages of guilds may be lost around a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecentLoss {
    /// The partition has received every message.
    None,
    /// A mailbox was full, and the guild may not have restarted the stream yet. Or other nodes serve guilds, and go on
    /// while this process restarts.
    Possible,
}

/// Sessions of one partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandOver {
    /// Dispatches in replay buffers, each once.
    pub dispatches: Vec<DispatchSnapshot>,
    /// Sessions. Positions in their replay buffers are indexes into `dispatches`.
    pub sessions: Vec<SessionSnapshot>,
    /// Sessions left out because of `bytes_max`.
    pub left_out_count: usize,
    /// Guilds with voice states, which end with the process, ascending: the next one, if it does not have these guilds
    /// from this one, shows sessions an outage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_voice: Vec<GuildId>,
    /// The session is from its mirror. None: its node has sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrored: Option<Mirrored>,
    /// The session waits at its node with its dispatches. None: they are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferStart>,
}

impl HandOver {
    /// Whether sessions see an outage of the guild.
    fn loses(&self, guild_id: GuildId) -> bool {
        self.in_voice.binary_search(&guild_id).is_ok()
    }

    /// Key of the session in a guild that is to transfer it.
    fn key_in(&self, guild_id: GuildId) -> Option<SessionKey> {
        let keys = &self.transfer.as_ref()?.keys;
        keys.binary_search_by_key(&guild_id, |(id, _)| *id).ok().map(|place| keys[place].1)
    }
}

/// A session that was released from its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrored {
    /// Number of the node that had the session, and its membership; 0 from a node of an earlier release.
    pub node: u8,
    #[serde(default)]
    pub incarnation: u64,
    /// Time since the node with the mirror noticed that the other one was gone.
    pub gone_ms: u64,
    /// The client has received something since the last report: an event of the account that only the next node has,
    /// and that is older than `gone_ms`, may be among it.
    pub is_doubtful: bool,
}

/// Position of each dispatch, encoding and redaction in the table. The address identifies a dispatch for as long as the
/// entry holds it.
type Places = HashMap<(*const Dispatch, bool, usize), (u32, Rc<Dispatch>)>;

const FORGET_NOTHING: LogLimits = LogLimits {
    events_max: usize::MAX,
    bytes_max: usize::MAX,
    age_ms_max: u64::MAX,
    share_events_max: usize::MAX,
    share_bytes_max: usize::MAX,
};

impl Partition {
    /// Takes all sessions out of voice channels. Voice states end with the process; other members learn it while the
    /// guilds still run.
    pub fn leave_voice(&mut self) {
        let partition = self.core.config.partition;
        let mut leaving = Vec::new();
        for key in self.core.sessions.keys() {
            // A session that leaves takes its voice states along.
            if self.core.moves.departing.has(key) {
                continue;
            }
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            let entries = session.guilds.iter_mut();
            let left = entries.filter_map(|entry| mem::take(&mut entry.asked_for_voice).then_some(entry.guild_id));
            for guild_id in left.collect::<Vec<_>>() {
                leaving.extend(session.key_in(partition, guild_id).map(|of_guild| (guild_id, of_guild)));
            }
        }
        for (guild_id, session) in leaving {
            let update = VoiceStateUpdate {
                guild_id: Some(guild_id),
                channel_id: None,
                self_mute: false,
                self_deaf: false,
                self_video: false,
            };
            self.core.outputs.push_back(Output::ToGuild(guild_id, ToGuild::Voice { session, update }));
        }
    }

    /// All sessions that can be resumed, as they are now. After a possible loss, sessions see an outage of every guild.
    pub fn hand_over(
        &mut self,
        now: Now,
        bytes_max: usize,
        loss: RecentLoss,
        transport: &mut impl Transport,
    ) -> HandOver {
        self.turn(now, transport, |partition, turn| partition.export_sessions(turn, bytes_max, loss))
    }

    fn export_sessions(&mut self, turn: &mut Turn<'_, impl Transport>, bytes_max: usize, loss: RecentLoss) -> HandOver {
        self.cancel_transfers(turn);
        let mut behind: HashSet<(GuildId, u16)> = HashSet::new();
        let mut in_voice = BTreeSet::new();
        for (guild_id, index, entry) in self.relays.iter_mut() {
            let now = turn.now;
            let mut recipients =
                SessionRecipients::new(&mut self.core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
            entry.relay.update_passive(now, &mut recipients);
            if loss == RecentLoss::Possible || entry.relay.is_behind() {
                behind.insert((guild_id, index));
            }
            if entry.relay.replica().is_some_and(|replica| !replica.voice.is_empty()) {
                in_voice.insert(guild_id);
            }
        }
        for key in self.core.sessions.keys() {
            self.core.push_outages(turn, key, |guild_id, relay| behind.contains(&(guild_id, relay)));
        }
        let (mut over, mut limit) = (HandOver::default(), SnapshotLimit::new(bytes_max));
        over.in_voice = in_voice.into_iter().collect();
        for key in self.core.sessions.keys() {
            let Some(session) = self.core.sessions.get(key) else { continue };
            let hidden = self.core.config.hidden_channels;
            let Some(kept) = session_snapshot(session, hidden, &mut over.dispatches, &mut limit) else {
                over.left_out_count += 1;
                continue;
            };
            over.sessions.push(kept);
        }
        over
    }

    /// Restores sessions of the previous process whose accounts still exist. They see an outage of the guilds in
    /// `HandOver::in_voice`. Returns their number.
    pub fn take_over(
        &mut self,
        now: Now,
        over: &HandOver,
        users: &BTreeMap<UserId, Arc<User>>,
        pause: Pause,
        transport: &mut impl Transport,
    ) -> usize {
        let restored = self.restore_sessions(now, over, users, pause);
        self.core.counters.restored_total += restored.len() as u64;
        if !over.in_voice.is_empty() {
            self.turn(now, transport, |partition, turn| {
                for (key, _) in &restored {
                    partition.core.push_outages(turn, *key, |guild_id, _| over.loses(guild_id));
                }
            });
        }
        restored.len()
    }

    /// Restores the sessions of a hand-over with their home in this partition and their account among `users`. Their
    /// guilds are about to attach them. Returns their keys, and their places among the sessions of the hand-over.
    pub(crate) fn restore_sessions(
        &mut self,
        now: Now,
        over: &HandOver,
        users: &BTreeMap<UserId, Arc<User>>,
        pause: Pause,
    ) -> Vec<(SlotKey, usize)> {
        let (log, of_table) = dispatch_table(now.instant, over);
        let is_quiet = |guild_id| pause == Pause::Unnoticed && !over.loses(guild_id);
        let mut restored = Vec::new();
        for (place, kept) in over.sessions.iter().enumerate() {
            let Some(user) = users.get(&kept.user_id) else { continue };
            if !self.core.is_home_of(&kept.id) || self.core.sessions.find(&kept.id).is_some() {
                continue;
            }
            let key = self.core.sessions.next_key();
            let mut session = Session::restore(key, kept, user.clone(), now.instant);
            for entry in session.guilds.iter_mut() {
                // Otherwise the voice states have ended.
                entry.asked_for_voice &= over.key_in(entry.guild_id).is_some() || is_quiet(entry.guild_id);
            }
            session.is_incomplete = over.transfer.is_some();
            let is_whole = kept.places().all(|place| match place {
                None => {
                    session.dispatch(self.core.tombstone.clone(), Redaction::None, 0);
                    true
                }
                Some(place) => of_table.get(place as usize).copied().flatten().is_some_and(|(offset, size)| {
                    session.dispatch_shared(&log, offset, size);
                    true
                }),
            });
            if !is_whole {
                continue;
            }
            let guilds: Vec<GuildId> = session.guilds.ids().collect();
            self.core.gatekeeper.session_restored(user);
            if self.core.config.mirrors_sessions && over.transfer.is_none() {
                let seq = session.replay.last_seq();
                self.core.mirroring.arrived(now.instant, key, seq, &kept.recent_news);
            }
            self.core.sessions.insert(session);
            let expires = now.instant.after_ms(self.core.config.resume_window_ms);
            self.core.timers.push(expires, TimerKey::Session(key));
            self.core.output_session_change(SessionChange::Disconnected, key);
            if over.mirrored.is_some() {
                // Its account was offline when its node was gone.
                self.core.output_presence_change(key);
            }
            for guild_id in guilds {
                let pause = if is_quiet(guild_id) { Pause::Unnoticed } else { Pause::Noticed };
                self.attach(key, guild_id, pause, over.key_in(guild_id));
            }
            restored.push((key, place));
        }
        restored
    }

    /// Whether a restored session still waits for a guild that it was inside.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        self.sessions().any(|session| session.guilds.iter().any(|entry| entry.is_restored))
    }

    /// Restored sessions that still wait for a guild see an outage of it; GUILD_CREATE follows when it answers.
    pub fn fail_pending_restores(&mut self, now: Now, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| {
            for key in partition.core.sessions.keys() {
                partition.core.push_outages_where(turn, key, |entry| entry.is_restored);
            }
        });
    }
}

/// Offset of a dispatch in its log, and its size.
type Logged = (u64, Size);

/// The dispatches of a hand-over in one log for all sessions, which is freed with the last session that refers to it.
/// None for one that cannot be read.
pub(crate) fn dispatch_table(now: Instant, over: &HandOver) -> (Rc<SharedLog>, Vec<Option<Logged>>) {
    let log = SharedLog::new();
    let of_table = over.dispatches.iter().map(|kept| {
        let bytes = kept.body.len();
        let dispatch = Dispatch::restore(kept)?;
        let offset = log.push(now, &dispatch, Redaction::None, bytes, &FORGET_NOTHING);
        Some((offset, Size::of(&dispatch, bytes)))
    });
    let of_table = of_table.collect();
    (log, of_table)
}

/// Bodies that a hand-over has room for, and where those are that it has.
pub(crate) struct SnapshotLimit {
    places: Places,
    bytes: usize,
    bytes_max: usize,
    /// GUILD_CREATE follows for every guild, with the presences of that time: earlier ones are left out.
    pub omits_presences: bool,
}

impl SnapshotLimit {
    pub fn new(bytes_max: usize) -> Self {
        Self { places: Places::new(), bytes: 0, bytes_max, omits_presences: false }
    }
}

/// None: the session has not sent READY, or its dispatches have no room; then the table is as before.
pub(crate) fn session_snapshot(
    session: &Session,
    hidden: HiddenChannels,
    table: &mut Vec<DispatchSnapshot>,
    limit: &mut SnapshotLimit,
) -> Option<SessionSnapshot> {
    let (len, bytes) = (table.len(), limit.bytes);
    let kept = push_snapshot(session, hidden, table, limit);
    if kept.is_none() {
        table.truncate(len);
        limit.bytes = bytes;
        limit.places.retain(|_, (place, _)| (*place as usize) < len);
    }
    kept
}

/// As `session_snapshot`, and the table keeps dispatches of a session without room.
fn push_snapshot(
    session: &Session,
    hidden: HiddenChannels,
    table: &mut Vec<DispatchSnapshot>,
    limit: &mut SnapshotLimit,
) -> Option<SessionSnapshot> {
    let SnapshotLimit { places, bytes, bytes_max, omits_presences } = limit;
    let mut kept = session.snapshot()?;
    let is_etf = kept.is_etf;
    let (oldest, last) = (session.replay.first_seq(), session.replay.last_seq());
    // The next process cannot send dispatches that the logs have forgotten, and does not know owed states. A client
    // that has received both kinds can resume.
    let is_missing = |seq: &u64| session.replay.entry(*seq).is_none_or(|entry| entry.dispatch.is_owed());
    let missing = (oldest..=last).rev().find(is_missing);
    kept.first_seq = missing.map_or(oldest, |seq| seq + 1);
    for seq in kept.first_seq..=last {
        let entry = session.replay.entry(seq)?;
        let of_guild = || entry.dispatch.event().is_some_and(|event| event.guild_id.is_some());
        let is_presence = || matches!(entry.dispatch.retention(), Retention::Presence(_)) && of_guild();
        if entry.dispatch.is_suppressed() || (*omits_presences && is_presence()) {
            kept.push(None);
            continue;
        }
        let known = (Rc::as_ptr(&entry.dispatch), is_etf, entry.redaction.index());
        let place = match places.get(&known) {
            Some((place, _)) => *place,
            None => {
                let dispatch = entry.dispatch.snapshot(session.encoding, entry.redaction, hidden);
                *bytes += dispatch.cost_bytes();
                if *bytes > *bytes_max {
                    *bytes -= dispatch.cost_bytes();
                    return None;
                }
                let place = table.len() as u32;
                table.push(dispatch);
                places.insert(known, (place, entry.dispatch.clone()));
                place
            }
        };
        kept.push(Some(place));
    }
    Some(kept)
}

impl Core {
    /// Sends GUILD_DELETE (unavailable) for guilds whose events the session may have missed; GUILD_CREATE follows once
    /// it is attached.
    pub(crate) fn push_outages(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        is_out: impl Fn(GuildId, u16) -> bool,
    ) {
        self.push_outages_where(turn, key, |entry| {
            let was_here = entry.membership == Membership::Inside || entry.is_restored;
            was_here && is_out(entry.guild_id, entry.relay)
        });
    }

    pub(crate) fn push_outages_where(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        is_out: impl Fn(&GuildEntry) -> bool,
    ) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let mut lost = Vec::new();
        for entry in session.guilds.iter_mut() {
            if is_out(entry) {
                (entry.membership, entry.is_restored) = (Membership::Entering, false);
                lost.push(entry.guild_id);
            }
        }
        let encoding = session.encoding;
        if session.gets_guild_events() {
            for guild_id in lost {
                self.push(turn, key.slot, &guild_delete(encoding, guild_id, GuildLoss::Outage), Redaction::None);
            }
        }
    }
}
