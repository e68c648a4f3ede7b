//! Mirroring: the reports by which other nodes hold mirrors of the sessions here.
//!
//! Owns        which session has been reported to which node, up to which seq; the events of accounts that a session
//!             has processed, each with its seq.
//! Doors       `Partition::mirror_page` from the driver, page by page; `mirrors_lost` when a node may lack reports.
//! Invariants  W1 a session that has changed since its last report is in the page that has its slot; one that has ended
//!             is in a page until its holder knows it. W2 a report lists each event of the account that the session
//!             has processed after `floor`, and in the last `KEPT_MS`.
//! Limits      `PAGE_SLOTS` and the caller's bytes for a page, and as many for sessions that have ended: the rest is in
//!             the next. `LISTED_MAX` events of a session; past it `floor` rises, and a client from before it cannot
//!             resume by the mirror. `ENDED_MAX` ended sessions that no holder knows; mirrors of further ones stay
//!             until this node leaves.
//! Not here    mirrors of other nodes' sessions: `mirrors`. Sessions without READY, and those that would not see the
//!             outage of their guilds, have no mirror.     Spec  docs/adr/0046.

use crate::{core::Core, partition::Partition, recent_news::KEPT_MS};
use guildhall_session::{Session, SessionSnapshot};
use guildhall_stdx::{Instant, Now, SlotKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Slots that one page visits, occupied or not.
const PAGE_SLOTS: u32 = 4_096;
const LISTED_MAX: usize = 128;
/// Bytes of a report in its binary form: its numbers, and each listed event.
const PROGRESS_BYTES: usize = 32;
const LISTED_BYTES: usize = 19;
const ENDED_BYTES: usize = 9;
const ENDED_MAX: usize = 1_000_000;
/// Bytes of the names in a whole report.
const NAMES_BYTES: usize = 320;

/// Names a session among mirrors: the last 64 bits of its id, which are those of a hash. `None` for an id in another
/// format.
#[must_use]
pub fn mirror_key(session_id: &str) -> Option<u64> {
    u64::from_str_radix(session_id.get(16..32)?, 16).ok()
}

/// How far a session has come: key, seq, `floor`, and the events of the account after `floor`, each with seq and mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorProgress(pub u64, pub u64, pub u64, pub Vec<(u64, u64)>);

/// A whole report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MirroredSession {
    /// Without dispatches.
    pub session: SessionSnapshot,
    pub is_bot: bool,
    /// Time since IDENTIFY. READY contains what came before.
    pub age_ms: u64,
    pub progress: MirrorProgress,
}

/// Reports to one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MirrorBatch {
    pub sessions: Vec<MirroredSession>,
    pub progress: Vec<MirrorProgress>,
    /// Keys of sessions that have ended or are mirrored elsewhere.
    pub ended: Vec<u64>,
}

/// Which node holds the mirror of each session.
pub trait MirrorPlaces {
    /// Changes with the answers of `holder_of`.
    fn version(&self) -> u32;
    /// Membership of the node that holds the mirror. None: there is no other node.
    fn holder_of(&self, key: u64) -> Option<u64>;
}

/// Reports of some sessions.
#[derive(Debug, Default)]
pub struct MirrorPage {
    /// By the membership of the holder.
    pub batches: BTreeMap<u64, MirrorBatch>,
    /// About this many bytes.
    pub bytes: usize,
    /// Sessions visited that have a mirror.
    pub mirrored_count: usize,
    /// First slot of the next page; none after the last.
    pub next_slot: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    generation: u32,
    /// Time of IDENTIFY. None: the session is from another process.
    began_at: Option<Instant>,
    /// Version of the places at the last visit.
    version: u32,
    /// None: it has no mirror.
    holder: Option<u64>,
    /// The holder has had a whole report.
    is_known: bool,
    /// Something else than the fingerprint has changed.
    is_touched: bool,
    /// Seq and fingerprint of the last report.
    seq: u64,
    fingerprint: u64,
}

/// Events of the account that a session has processed.
#[derive(Debug, Default)]
struct Listed {
    /// Not all events up to this seq are listed.
    floor: u64,
    /// When, seq, mark.
    events: VecDeque<(Instant, u64, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Mirroring {
    /// Indexed by slot.
    states: Vec<State>,
    listed: HashMap<SlotKey, Listed>,
    /// Holders, and keys of sessions that they have no longer to hold.
    ended: BTreeSet<(u64, u64)>,
}

impl Mirroring {
    /// A session begins by IDENTIFY.
    pub fn begin(&mut self, now: Instant, session: SlotKey) {
        let state = self.state_mut(session);
        *state = State { generation: session.generation, began_at: Some(now), ..State::default() };
    }

    fn state_mut(&mut self, session: SlotKey) -> &mut State {
        let slot = session.slot as usize;
        if self.states.len() <= slot {
            self.states.resize(slot + 1, State::default());
        }
        &mut self.states[slot]
    }

    /// The session has changed otherwise than by its guilds.
    pub fn touch(&mut self, session: SlotKey) {
        if let Some(state) = self.states.get_mut(session.slot as usize) {
            state.is_touched = true;
        }
    }

    /// The session processed an event of its account, under this seq.
    pub fn list(&mut self, now: Instant, session: SlotKey, seq: u64, mark: u64) {
        let listed = self.listed.entry(session).or_default();
        listed.events.push_back((now, seq, mark));
        if listed.events.len() > LISTED_MAX
            && let Some((_, seq, _)) = listed.events.pop_front()
        {
            listed.floor = listed.floor.max(seq);
        }
    }

    /// The session comes from another process with this seq, which has processed these events.
    pub fn arrived(&mut self, now: Instant, session: SlotKey, seq: u64, marks: &[u64]) {
        let events = marks.iter().map(|mark| (now, seq, *mark)).collect();
        self.listed.insert(session, Listed { floor: seq, events });
    }

    /// The session has ended or goes to another node.
    pub fn forget(&mut self, session: &Session) {
        self.listed.remove(&session.key);
        let Some(state) = self.states.get_mut(session.key.slot as usize) else { return };
        if state.generation == session.key.generation {
            let holder = std::mem::take(state).holder;
            self.end(holder.zip(mirror_key(&session.id)));
        }
    }

    fn end(&mut self, ended: impl IntoIterator<Item = (u64, u64)>) {
        let room = ENDED_MAX.saturating_sub(self.ended.len());
        self.ended.extend(ended.into_iter().take(room));
    }

    /// Drops what was acknowledged and is old, and returns `floor` with the rest.
    fn progress_of(&mut self, now: Instant, session: &Session, key: u64) -> MirrorProgress {
        let (seq, acknowledged) = (session.replay.last_seq(), session.replay.first_seq() - 1);
        let Some(listed) = self.listed.get_mut(&session.key) else {
            return MirrorProgress(key, seq, acknowledged, Vec::new());
        };
        listed.floor = listed.floor.max(acknowledged);
        let floor = listed.floor;
        listed.events.retain(|(at, seq, _)| *seq > floor || now.ms_since(*at) <= KEPT_MS);
        let events = listed.events.iter().map(|(_, seq, mark)| (*seq, *mark)).collect();
        // Without events the entry equals the replay buffer.
        if listed.events.is_empty() && floor == acknowledged {
            self.listed.remove(&session.key);
        }
        MirrorProgress(key, seq, floor, events)
    }

    /// Adds a session's report to a page, if it has changed. None: it has no mirror.
    fn visit(
        &mut self,
        now: Instant,
        session: &Session,
        places: &dyn MirrorPlaces,
        page: &mut MirrorPage,
    ) -> Option<()> {
        let key = mirror_key(&session.id)?;
        // The slot has a state from now on.
        self.state_mut(session.key);
        let state = &mut self.states[session.key.slot as usize];
        if state.generation != session.key.generation {
            *state = State { generation: session.key.generation, ..State::default() };
        }
        if state.version != places.version() {
            let holder = places.holder_of(key);
            state.version = places.version();
            if holder != state.holder {
                let before = std::mem::replace(&mut state.holder, holder);
                state.is_known = false;
                self.end(before.map(|before| (before, key)));
            }
        }
        let state = &mut self.states[session.key.slot as usize];
        let holder = state.holder?;
        page.mirrored_count += 1;
        let seq = session.replay.last_seq();
        if state.is_known && !state.is_touched && state.seq == seq {
            return Some(());
        }
        let fingerprint = session.fingerprint();
        let is_whole = !state.is_known || state.is_touched || state.fingerprint != fingerprint;
        let snapshot = if is_whole { Some(session.snapshot()?) } else { None };
        let age_ms = state.began_at.map_or(u64::MAX, |began_at| now.ms_since(began_at));
        *state = State { is_known: true, is_touched: false, seq, fingerprint, ..*state };
        let progress = self.progress_of(now, session, key);
        page.bytes += PROGRESS_BYTES + LISTED_BYTES * progress.3.len();
        let batch = page.batches.entry(holder).or_default();
        match snapshot {
            Some(session_snapshot) => {
                // It is there again.
                self.ended.remove(&(holder, key));
                page.bytes += NAMES_BYTES + session_snapshot.cost_bytes();
                let is_bot = session.user.bot;
                batch.sessions.push(MirroredSession { session: session_snapshot, is_bot, age_ms, progress });
            }
            None => batch.progress.push(progress),
        }
        Some(())
    }
}

impl Partition {
    /// Reports of sessions that have changed, from a slot on, until there are `bytes_max` bytes.
    pub fn mirror_page(&mut self, now: Now, places: &dyn MirrorPlaces, from_slot: u32, bytes_max: usize) -> MirrorPage {
        let Core { sessions, mirroring, .. } = &mut self.core;
        let mut page = MirrorPage::default();
        let until = sessions.places().min(from_slot.saturating_add(PAGE_SLOTS));
        let mut slot = from_slot;
        while slot < until && page.bytes < bytes_max {
            if let Some(session) = sessions.at(slot)
                && session.pending_ready.is_none()
                && (session.gets_guild_events() || session.guilds.is_empty())
            {
                mirroring.visit(now.instant, session, places, &mut page);
            }
            slot += 1;
        }
        for _ in 0..bytes_max / ENDED_BYTES + 1 {
            let Some((holder, key)) = mirroring.ended.pop_first() else { break };
            page.batches.entry(holder).or_default().ended.push(key);
            page.bytes += ENDED_BYTES;
        }
        page.next_slot = (slot < sessions.places()).then_some(slot);
        page
    }

    /// A node with mirrors may lack reports, or mirrors: its sessions are reported again, whole. None: all nodes.
    pub fn mirrors_lost(&mut self, holder: Option<u64>) {
        let mirroring = &mut self.core.mirroring;
        for state in mirroring.states.iter_mut().filter(|state| holder.is_none() || state.holder == holder) {
            state.is_known = false;
        }
    }

    /// A node with mirrors may not know that these sessions have ended, or are mirrored elsewhere.
    pub fn mirrors_end_again(&mut self, holder: u64, keys: &[u64]) {
        self.core.mirroring.end(keys.iter().map(|key| (holder, *key)));
    }
}
