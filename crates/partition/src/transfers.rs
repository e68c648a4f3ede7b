//! Transfers: guilds take a session from its node to another one, and its client notices nothing but a new connection.
//!
//! Owns        `TransferStart` and `TransferEnd`; sessions that wait here until the guilds have taken them away
//!             (`Leaving`); sessions that come here, with their dispatches still at the node before (`Coming`).
//! Doors       at the node that has the session: `begin_transfer`, then `end_transfer` until it answers. At the node
//!             where it goes: `Partition::await_transfer` from the answer to a RESUME's fetch; `request_rest` when its
//!             guilds have answered; `complete` with the answer to that.
//! Invariants  X1 each event of a guild reaches the session at one of the two nodes: the guild attaches it at the new
//!             one, and sends `Transferred` to the relay of the old one, at the same position (P4). X2 the client gets
//!             the events of the old node, then those of the new one. X3 otherwise it sees an outage of that guild (ADR
//!             10): GUILD_DELETE ends what the old node has, and GUILD_CREATE follows here. A session without the
//!             intent GUILDS, which would not see that, ends. X4 a session that is not fetched in time stays, with an
//!             outage of the guilds that have taken it. (tests `it/transfers.rs`, `it/transfer_runs.rs`)
//! Limits      `LEAVING_MS_MAX`; of the guilds' answers `ARRIVAL_MS_MAX`; of the replay buffers at both nodes those
//!             of any session.
//! Not here    the way between nodes: the driver.     Spec  docs/adr/0049.

use crate::{
    core::Core,
    handover::{HandOver, SnapshotLimit, dispatch_table},
    moves::{JOIN_NEWS_MS, SessionClaim, replay_fault},
    partition::Partition,
    pause::Pause,
    refused::{ResumeFault, ResumeRefused},
    timers::TimerKey,
    transport::{Output, Transport},
    turn::Turn,
    turn_work::Departure,
};
use guildhall_guild_protocol::{Redaction, SessionKey};
use guildhall_model::{CloseCode, GuildId, User};
use guildhall_session::{GuildEntry, GuildLoss, Membership, ReplayBuffer, SessionSnapshot, guild_delete};
use guildhall_stdx::{Instant, Now, SlotKey};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, mem, sync::Arc};

/// Longest wait of a session for the node that fetches it. That node waits for `ARRIVAL_MS_MAX` at most, and then for
/// the messages of the guilds.
const LEAVING_MS_MAX: u64 = 10_000;

/// A session that waits at its node until its guilds have transferred it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferStart {
    /// Number of that node.
    pub node: u8,
    /// Names the transfer.
    pub ticket: u64,
    /// The session's key in each guild that it is inside, ascending.
    pub keys: Vec<(GuildId, SessionKey)>,
}

/// Request for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferEnd {
    pub session_id: String,
    /// Number of the node that has it.
    pub node: u8,
    pub ticket: u64,
    /// Guilds that have taken the session, or that its account has left.
    pub transferred: Vec<GuildId>,
}

/// Sessions that leave.
#[derive(Debug, Default)]
pub struct Departing(HashMap<SlotKey, Leaving>);

#[derive(Debug)]
struct Leaving {
    ticket: u64,
    /// The last seq that the client has received.
    seq: u64,
    until: Instant,
    /// A guild that it was inside has an outage.
    has_lost: bool,
}

impl Departing {
    pub fn has(&self, session: SlotKey) -> bool {
        self.0.contains_key(&session)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn forget(&mut self, session: SlotKey) {
        self.0.remove(&session);
    }

    fn is_of(&self, session: SlotKey, ticket: u64) -> bool {
        self.0.get(&session).is_some_and(|leaving| leaving.ticket == ticket)
    }
}

/// A session that comes.
#[derive(Debug)]
pub struct Coming {
    user: Arc<User>,
    node: u8,
    ticket: u64,
    /// Guilds that have attached it at the position where it left the node before.
    transferred: Vec<GuildId>,
    /// Guilds that have attached it, but not at that position.
    failed: Vec<GuildId>,
    /// Guilds of which the account is no member any more.
    left: Vec<GuildId>,
    is_requested: bool,
}

/// How a guild has answered a session that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    Transferred,
    Failed,
    Left,
}

impl Coming {
    pub fn note(&mut self, guild_id: GuildId, how: Entered) {
        match how {
            Entered::Transferred => self.transferred.push(guild_id),
            Entered::Failed => self.failed.push(guild_id),
            Entered::Left => self.left.push(guild_id),
        }
    }
}

impl Partition {
    // ── at the node that has the session ─────────────────────────────────────────────────────────

    /// Has a session that its client resumes at another node wait for its guilds to transfer it there. Its connection
    /// is closed with 4000. Returns it without dispatches. A repetition with the same ticket gets the same answer.
    ///
    /// # Errors
    /// Why the claim does not fit the session, which stays as it is. `Unknown` too if another claim has it.
    pub fn begin_transfer(
        &mut self,
        now: Now,
        (claim, ticket): (&SessionClaim, u64),
        bytes_max: usize,
        transport: &mut impl Transport,
    ) -> Result<HandOver, ResumeFault> {
        self.turn(now, transport, |partition, turn| partition.start_leaving(turn, (claim, ticket), bytes_max))
    }

    fn start_leaving(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        (claim, ticket): (&SessionClaim, u64),
        bytes_max: usize,
    ) -> Result<HandOver, ResumeFault> {
        let known = self.core.sessions.find(&claim.session_id);
        if let Some(key) = known.filter(|key| self.core.moves.departing.is_of(*key, ticket)) {
            return self.core.transfer_of(key, ticket).ok_or(ResumeFault::Unknown);
        }
        let key = self.releasable(claim, bytes_max)?;
        let session = self.core.sessions.get(key).ok_or(ResumeFault::Unknown)?;
        // It came here a moment ago, and these guilds have not answered.
        if session.guilds.iter().any(|entry| entry.is_restored) && !session.gets_guild_events() {
            return Err(ResumeFault::Silent);
        }
        if let Some(conn) = session.conn {
            self.core.close(turn, conn, CloseCode::UnknownError);
        }
        self.core.end_wait(turn, key);
        self.core.push_outages_where(turn, key, |entry| entry.is_restored);
        self.core.lose_where(key, |membership| membership == Membership::Entering);
        let until = turn.now.instant.after_ms(LEAVING_MS_MAX);
        self.core.moves.departing.0.insert(key, Leaving { ticket, seq: claim.seq, until, has_lost: false });
        self.core.timers.push(until, TimerKey::Session(key));
        self.core.transfer_of(key, ticket).ok_or(ResumeFault::Unknown)
    }

    /// Exports a session that its guilds have transferred, and forgets it here. None: messages of guilds that have done
    /// so have not come here yet. `is_late`: the session sees an outage of these guilds.
    ///
    /// # Errors
    /// `Unknown`: it does not wait any more. Otherwise why it is not exported; then it stays, or ends if its client
    /// would not see what it has missed.
    pub fn end_transfer(
        &mut self,
        now: Now,
        (end, is_late): (&TransferEnd, bool),
        bytes_max: usize,
        transport: &mut impl Transport,
    ) -> Result<Option<HandOver>, ResumeFault> {
        self.turn(now, transport, |partition, turn| partition.finish_leaving(turn, (end, is_late), bytes_max))
    }

    fn finish_leaving(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        (end, is_late): (&TransferEnd, bool),
        bytes_max: usize,
    ) -> Result<Option<HandOver>, ResumeFault> {
        let key = self.core.sessions.find(&end.session_id).ok_or(ResumeFault::Unknown)?;
        let leaving = self.core.moves.departing.0.get(&key).filter(|leaving| leaving.ticket == end.ticket);
        let Leaving { seq, mut has_lost, .. } = *leaving.ok_or(ResumeFault::Unknown)?;
        let session = self.core.sessions.get(key).ok_or(ResumeFault::Unknown)?;
        let inside = session.guilds.iter().filter(|entry| entry.membership == Membership::Inside);
        let inside: Vec<GuildId> = inside.map(|entry| entry.guild_id).collect();
        if !is_late && inside.iter().any(|guild_id| end.transferred.contains(guild_id)) {
            return Ok(None);
        }
        // These have transferred it, and their answer was lost.
        let is_taken = |entry: &&GuildEntry| entry.membership == Membership::Transferred;
        let taken = session.guilds.iter().filter(is_taken).map(|entry| entry.guild_id);
        let missed: Vec<GuildId> = taken.filter(|guild_id| !end.transferred.contains(guild_id)).collect();
        has_lost |= !inside.is_empty() || !missed.is_empty();
        self.core.push_outages_where(turn, key, |entry| {
            entry.membership == Membership::Inside || missed.contains(&entry.guild_id)
        });
        for guild_id in missed {
            let session = self.core.sessions.get_mut(key).ok_or(ResumeFault::Unknown)?;
            session.guilds.get_mut(guild_id).into_iter().for_each(|entry| entry.membership = Membership::Lost);
        }
        self.core.lose_where(key, |membership| membership == Membership::Entering);
        if let Some(leaving) = self.core.moves.departing.0.get_mut(&key) {
            leaving.has_lost = has_lost;
        }
        let session = self.core.sessions.get(key).ok_or(ResumeFault::Unknown)?;
        let fault = match has_lost && !session.gets_guild_events() {
            true => Some(ResumeFault::Silent),
            false => replay_fault(session, seq, bytes_max),
        };
        if let Some(fault) = fault {
            self.cancel_transfer(turn, key);
            return Err(fault);
        }
        let (mut over, mut limit) = (HandOver::default(), SnapshotLimit::new(usize::MAX));
        if self.take_out(turn, key, (&mut over, &mut limit)) { Ok(Some(over)) } else { Err(ResumeFault::Unknown) }
    }

    /// The session stays (X4).
    pub(crate) fn cancel_transfer(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let Some(leaving) = self.core.moves.departing.0.remove(&key) else { return };
        let Some(session) = self.core.sessions.get(key) else { return };
        let is_taken = |membership| membership == Membership::Transferred;
        let has_lost = leaving.has_lost || session.guilds.iter().any(|entry| is_taken(entry.membership));
        if has_lost && !session.gets_guild_events() {
            return self.core.end_session(key);
        }
        let back = session.guilds.iter().filter(|entry| entry.membership.is_away()).map(|entry| entry.guild_id);
        let (back, user_id): (Vec<GuildId>, _) = (back.collect(), session.user.id);
        self.core.push_outages_where(turn, key, |entry| is_taken(entry.membership));
        back.into_iter().for_each(|guild_id| self.enter_again(key, guild_id));
        let joined: Vec<GuildId> = self.joins.of_user(turn.now.instant, user_id, JOIN_NEWS_MS).collect();
        joined.into_iter().for_each(|guild_id| self.attach_user(user_id, guild_id));
    }

    /// Ends the wait of a session that no node has fetched in time.
    pub(crate) fn check_leaving(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let leaving = self.core.moves.departing.0.get(&key);
        if leaving.is_some_and(|leaving| leaving.until <= turn.now.instant) {
            self.cancel_transfer(turn, key);
        }
    }

    /// Ends all transfers from here.
    pub(crate) fn cancel_transfers(&mut self, turn: &mut Turn<'_, impl Transport>) {
        let keys: Vec<SlotKey> = self.core.moves.departing.0.keys().copied().collect();
        keys.into_iter().for_each(|key| self.cancel_transfer(turn, key));
    }

    /// A session that its relay has removed attaches to a guild again; GUILD_CREATE follows.
    fn enter_again(&mut self, key: SlotKey, guild_id: GuildId) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        session.asked_again = true;
        if let Some(entry) = session.guilds.get_mut(guild_id) {
            (entry.membership, entry.is_restored) = (Membership::Entering, false);
        }
        self.attach(key, guild_id, Pause::Noticed, None);
    }

    /// Sessions that have lost a guild in this turn, because the guild took them to a node that never fetched them.
    pub(crate) fn enter_all_again(&mut self) {
        for (key, guild_id) in self.core.work.take_returns() {
            self.enter_again(key, guild_id);
        }
    }

    // ── at the node where it goes ────────────────────────────────────────────────────────────────

    /// A session was restored here without its dispatches, and its guilds are about to transfer it.
    pub(crate) fn await_transfer(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        (start, user): (&TransferStart, Arc<User>),
        conn: Option<SlotKey>,
    ) {
        let coming = Coming {
            user,
            node: start.node,
            ticket: start.ticket,
            transferred: Vec::new(),
            failed: Vec::new(),
            left: Vec::new(),
            is_requested: false,
        };
        self.await_guilds(turn, key, conn, Some(Box::new(coming)));
    }

    /// The guilds of a session that comes have answered, or did not in time: requests the rest of it.
    pub(crate) fn request_rest(&mut self, key: SlotKey) {
        let Core { moves, sessions, outputs, .. } = &mut self.core;
        let Some(coming) = moves.coming(key).filter(|coming| !coming.is_requested) else { return };
        let Some(session) = sessions.get_mut(key) else { return };
        coming.is_requested = true;
        // A guild that answers later is sent in GUILD_CREATE.
        session.guilds.iter_mut().for_each(|entry| entry.is_restored = false);
        let transferred = coming.transferred.iter().chain(&coming.left).copied().collect();
        let session_id = session.id.to_string();
        let end = TransferEnd { session_id, node: coming.node, ticket: coming.ticket, transferred };
        outputs.push_back(Output::FetchRest { end, user: coming.user.clone() });
    }

    /// The rest of a session, or why it did not come: then the session ends here.
    pub(crate) fn complete(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        session_id: &str,
        rest: Result<HandOver, ResumeFault>,
    ) {
        let is_coming = |key: &SlotKey| self.core.moves.is_coming(*key);
        // None: it has ended in the meantime.
        let Some(key) = self.core.sessions.find(session_id).filter(is_coming) else { return };
        let Err(fault) = rest.and_then(|over| self.install(turn, key, &over)) else {
            return self.finish_arrival(turn, key);
        };
        let user_id = self.core.sessions.get(key).map(|session| session.user.id);
        let conn = self.core.moves.take_waiting(key);
        self.core.remove_session(key);
        if let Some(conn) = conn {
            self.core.refuse_moving(turn, conn, ResumeRefused { fault, user_id });
            self.resume_reading(turn, conn);
        }
    }

    /// Puts what the node before has sent in front of what has come here.
    fn install(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        over: &HandOver,
    ) -> Result<(), ResumeFault> {
        let [kept] = &over.sessions[..] else { return Err(ResumeFault::Move) };
        let (log, of_table) = dispatch_table(turn.now.instant, over);
        let found = |place: u32| of_table.get(place as usize).copied().flatten();
        let session = self.core.sessions.get_mut(key).ok_or(ResumeFault::Move)?;
        let is_whole = kept.places().all(|place| place.is_none_or(|place| found(place).is_some()));
        if !is_whole || *kept.id != *session.id || kept.user_id != session.user.id {
            return Err(ResumeFault::Move);
        }
        let coming = self.core.moves.end_coming(key).ok_or(ResumeFault::Move)?;
        let is_lost = |id: &GuildId| kept.guilds.iter().any(|guild| guild.id == *id && !guild.is_inside);
        let is_gone = |id: &GuildId| !kept.guilds.iter().any(|guild| guild.id == *id);
        let lost: Vec<GuildId> = coming.transferred.iter().copied().filter(is_lost).collect();
        let left: Vec<GuildId> = coming.left.iter().copied().filter(is_lost).collect();
        let failed: Vec<GuildId> = coming.failed.iter().copied().filter(|id| is_lost(id) || is_gone(id)).collect();
        let before = ReplayBuffer::after(kept.first_seq.saturating_sub(1));
        let mut queued = mem::replace(&mut session.replay, before);
        for place in kept.places() {
            match place.and_then(found) {
                Some((offset, size)) => session.dispatch_shared(&log, offset, size),
                None => session.dispatch(self.core.tombstone.clone(), Redaction::None, 0),
            };
        }
        if !lost.is_empty() {
            for seq in queued.first_seq()..=queued.last_seq() {
                let guild_id = queued.entry(seq).and_then(|entry| entry.dispatch.replayed()?.guild_id());
                if guild_id.is_some_and(|id| lost.contains(&id)) {
                    queued.replace(seq, self.core.tombstone.clone(), 0);
                }
            }
        }
        session.replay.append_buffer(queued);
        session.is_incomplete = false;
        let (encoding, last_seq) = (session.encoding, session.replay.last_seq());
        if self.core.config.mirrors_sessions {
            self.core.mirroring.arrived(turn.now.instant, key, last_seq, &kept.recent_news);
        }
        for guild_id in left {
            let dispatch = guild_delete(encoding, guild_id, GuildLoss::Left);
            self.core.push(turn, key.slot, &dispatch, Redaction::None);
        }
        for guild_id in lost {
            self.core.depart(key, guild_id);
            self.enter_again(key, guild_id);
        }
        for guild_id in failed {
            self.core.ask_again(key, guild_id);
        }
        self.core.counters.moved_here_total += 1;
        self.add_news(turn, key, kept);
        Ok(())
    }
}

impl Core {
    /// A session that waits for its guilds to transfer it, without dispatches.
    fn transfer_of(&self, key: SlotKey, ticket: u64) -> Option<HandOver> {
        let session = self.sessions.get(key)?;
        let kept: SessionSnapshot = session.identity();
        let inside = kept.guilds.iter().filter(|guild| guild.is_inside).map(|guild| guild.id);
        let keys = inside.filter_map(|id| Some((id, session.key_in(self.config.partition, id)?))).collect();
        let transfer = Some(TransferStart { node: self.config.partition.node(), ticket, keys });
        Some(HandOver { sessions: vec![kept], transfer, ..HandOver::default() })
    }

    /// Its relay removes the session.
    fn depart(&mut self, key: SlotKey, guild_id: GuildId) {
        let Some(session) = self.sessions.get(key) else { return };
        let Some(relay) = session.guilds.get(guild_id).map(|entry| entry.relay) else { return };
        self.work.push_departure(Departure { guild_id, relay, user_id: session.user.id, slot: key.slot });
    }

    /// A session that leaves gets nothing more of these guilds, and is not inside at the next node.
    fn lose_where(&mut self, key: SlotKey, is_lost: impl Fn(Membership) -> bool) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let mut lost = Vec::new();
        for entry in session.guilds.iter_mut().filter(|entry| is_lost(entry.membership)) {
            (entry.membership, entry.is_restored) = (Membership::Lost, false);
            lost.push(entry.guild_id);
        }
        lost.into_iter().for_each(|guild_id| self.depart(key, guild_id));
    }

    /// A session that leaves has missed events of a guild; its client sees the outage.
    pub(crate) fn lose(&mut self, key: SlotKey, guild_id: GuildId) {
        if let Some(leaving) = self.moves.departing.0.get_mut(&key) {
            leaving.has_lost = true;
        }
        if let Some(entry) = self.sessions.get_mut(key).and_then(|session| session.guilds.get_mut(guild_id)) {
            entry.membership = Membership::Lost;
        }
        self.depart(key, guild_id);
    }

    /// A guild has attached the session at another node. Whether the session waited for that (X1); otherwise it has
    /// lost the guild to a node that did not fetch it in time, and sees an outage.
    pub(crate) fn transferred(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, guild_id: GuildId) -> bool {
        let Some(session) = self.sessions.get_mut(key) else { return false };
        let Some(entry) = session.guilds.get_mut(guild_id) else { return false };
        if entry.membership != Membership::Inside {
            return false;
        }
        self.depart(key, guild_id);
        if self.moves.departing.has(key) {
            if let Some(entry) = self.sessions.get_mut(key).and_then(|session| session.guilds.get_mut(guild_id)) {
                entry.membership = Membership::Transferred;
            }
            return true;
        }
        self.push_outages_where(turn, key, |entry| entry.guild_id == guild_id);
        let Some(session) = self.sessions.get(key) else { return false };
        if session.gets_guild_events() {
            self.work.push_return(key, guild_id);
            return false;
        }
        // It would not see the outage: its client resumes, and gets op 9.
        if let Some(conn) = session.conn {
            self.close(turn, conn, CloseCode::UnknownError);
        }
        self.end_session(key);
        false
    }
}
