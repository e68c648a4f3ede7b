//! Moves: a session leaves for another node of its cluster, or arrives from one.
//!
//! Owns        `SessionClaim`; the fetches under way, and the sessions that have arrived and wait for their guilds.
//! Doors       `release_session` at the node that has the session, `release_sessions` at a node that leaves. At the
//!             node where the session goes: `Partition::fetch` from RESUME; `handle_fetched` and `handle_arrivals` from
//!             the driver.
//! Invariants  M1 at most one node has a session: `release_session` forgets it, and what is lost between two
//!             nodes is lost for both, so that the client identifies again. M2 a session that moved has no silent
//!             gap: its client sees an outage (ADR 10) of each guild that it was inside and that has not
//!             transferred it (`transfers`); a session without the intent GUILDS, which would not see it, does
//!             not move. M3 current permissions apply to the replay: RESUME waits until the guilds have answered
//!             here. (tests `it/moved_nodes.rs`)
//! Limits      `FETCHES_MAX` fetches; `ARRIVAL_MS_MAX` for the guilds, after which the replay lacks what a guild that
//!             has not answered might withhold.
//! Not here    moves without an outage: `transfers`. The way between nodes: the driver.     Spec  docs/adr/0043.

use crate::{
    conn::{PendingAuth, Phase},
    core::Core,
    handover::{HandOver, SnapshotLimit, session_snapshot},
    identify::Claimant,
    partition::Partition,
    pause::Pause,
    recent_news::{KEPT_MS, SKEW_MS, mark_of},
    refused::{ResumeFault, ResumeRefused},
    sessions::Reader,
    timers::TimerKey,
    transfers::{Coming, Departing, Entered},
    transport::{Output, Transport},
    turn::Turn,
};
use guildhall_codec::Encoding;
use guildhall_model::{CloseCode, GuildId, User, UserId, to_gateway::Resume};
use guildhall_session::{Session, SessionSnapshot, session_partition};
use guildhall_stdx::{Instant, Now, SlotKey};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Sessions that this partition fetches at a time. A further RESUME gets op 9.
const FETCHES_MAX: usize = 16_384;
/// Longest wait of a RESUME for the guilds of a session that has arrived.
const ARRIVAL_MS_MAX: u64 = 2_000;
/// Joins of this long before an arrival may be missing in the session.
pub(crate) const JOIN_NEWS_MS: u64 = 30_000;

/// A RESUME at a node that does not have the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaim {
    pub session_id: String,
    /// Account of the token, which the claiming node has checked.
    pub user_id: UserId,
    /// Encoding of the connection: ETF; JSON otherwise.
    pub is_etf: bool,
    /// The last seq that the client has received.
    pub seq: u64,
}

/// The answer to `Output::FetchSession` or `Output::FetchRest`.
#[derive(Debug)]
pub struct Fetched {
    pub session_id: Arc<str>,
    /// Account of the claim.
    pub user: Arc<User>,
    /// It answers `Output::FetchRest`.
    pub is_rest: bool,
    /// The session and its dispatches, or why no node sent it.
    pub result: Result<HandOver, ResumeFault>,
}

/// Fetches and arrivals of a partition.
#[derive(Debug, Default)]
pub struct Moves {
    /// Connections that wait for a session of another node, the last of each.
    fetches: BTreeMap<(UserId, Arc<str>), SlotKey>,
    arrivals: HashMap<SlotKey, Arrival>,
    /// Sessions whose last guild has answered.
    ready: Vec<SlotKey>,
    pub departing: Departing,
    /// Marks of news that the node before has processed and this one has not, until `KEPT_MS` after the arrival.
    known: HashMap<SlotKey, (Instant, Vec<u64>)>,
}

#[derive(Debug)]
struct Arrival {
    /// The connection that resumes it. None: the client left.
    conn: Option<SlotKey>,
    /// Guilds that have not answered, ascending.
    waiting: Vec<GuildId>,
    deadline: Instant,
    /// Its dispatches are at the node before. None: it is complete.
    coming: Option<Box<Coming>>,
}

impl Moves {
    /// A guild has answered a session's request to attach.
    pub fn guild_answered(&mut self, session: SlotKey, guild_id: GuildId) {
        let Some(arrival) = self.arrivals.get_mut(&session) else { return };
        if let Ok(place) = arrival.waiting.binary_search(&guild_id) {
            arrival.waiting.remove(place);
        }
        if arrival.waiting.is_empty() {
            self.ready.push(session);
        }
    }

    /// Whether the session is here without its dispatches.
    pub fn is_coming(&self, session: SlotKey) -> bool {
        self.arrivals.get(&session).is_some_and(|arrival| arrival.coming.is_some())
    }

    pub fn coming(&mut self, session: SlotKey) -> Option<&mut Coming> {
        self.arrivals.get_mut(&session)?.coming.as_deref_mut()
    }

    /// A guild has answered a session that comes.
    pub fn entered(&mut self, session: SlotKey, guild_id: GuildId, how: Entered) {
        if let Some(coming) = self.coming(session) {
            coming.note(guild_id, how);
        }
    }

    /// The session is complete.
    pub fn end_coming(&mut self, session: SlotKey) -> Option<Box<Coming>> {
        self.arrivals.get_mut(&session)?.coming.take()
    }

    /// Ends the wait of a session. Returns the connection that resumes it.
    pub fn take_waiting(&mut self, session: SlotKey) -> Option<SlotKey> {
        self.arrivals.remove(&session)?.conn
    }

    /// The session has ended.
    pub fn forget(&mut self, session: SlotKey) {
        self.arrivals.remove(&session);
        self.departing.forget(session);
        self.known.remove(&session);
    }

    fn expect_known(&mut self, now: Instant, session: SlotKey, marks: Vec<u64>) {
        self.known.retain(|_, (until, _)| now < *until);
        if !marks.is_empty() {
            self.known.insert(session, (now.after_ms(KEPT_MS), marks));
        }
    }

    /// Marks of news that the node before has processed, and that have not come here.
    fn known_by(&self, now: Instant, session: SlotKey) -> Vec<u64> {
        let known = self.known.get(&session).filter(|(until, _)| now < *until);
        known.map(|(_, marks)| marks.clone()).unwrap_or_default()
    }

    /// Whether the session has had these news at the node before. Each of its marks counts once.
    pub fn is_known(&mut self, now: Instant, session: SlotKey, mark: impl FnOnce() -> u64) -> bool {
        let Some((until, marks)) = self.known.get_mut(&session) else { return false };
        if now >= *until {
            return false;
        }
        let mark = mark();
        let at = marks.iter().position(|known| *known == mark);
        at.map(|at| marks.swap_remove(at)).is_some()
    }
}

impl Partition {
    // ── at the node that has the session ─────────────────────────────────────────────────────────

    /// Exports a session that its client resumes at another node, and forgets it here (M1). Its connection is closed
    /// with 4000, as by a RESUME here.
    ///
    /// # Errors
    /// Why the claim does not fit the session, which stays as it is; `Size`: its dispatches have more than `bytes_max`.
    pub fn release_session(
        &mut self,
        now: Now,
        claim: &SessionClaim,
        bytes_max: usize,
        transport: &mut impl Transport,
    ) -> Result<HandOver, ResumeFault> {
        self.turn(now, transport, |partition, turn| partition.release(turn, claim, bytes_max))
    }

    fn release(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        claim: &SessionClaim,
        bytes_max: usize,
    ) -> Result<HandOver, ResumeFault> {
        let key = self.releasable(claim, bytes_max)?;
        let session = self.core.sessions.get(key).ok_or(ResumeFault::Unknown)?;
        if !session.gets_guild_events() && !session.guilds.is_empty() {
            return Err(ResumeFault::Silent);
        }
        if let Some(conn) = session.conn {
            self.core.close(turn, conn, CloseCode::UnknownError);
        }
        let (mut over, mut limit) = (HandOver::default(), SnapshotLimit::new(usize::MAX));
        if self.export(turn, key, (&mut over, &mut limit)) { Ok(over) } else { Err(ResumeFault::Unknown) }
    }

    /// The session of a claim, if it is here and no other claim has it, and another node can take it.
    pub(crate) fn releasable(&mut self, claim: &SessionClaim, bytes_max: usize) -> Result<SlotKey, ResumeFault> {
        let encoding = if claim.is_etf { Encoding::Etf } else { Encoding::Json };
        if self.is_moving_session(&claim.session_id) {
            return Err(ResumeFault::Unknown);
        }
        let key = self.claimed(claim.user_id, encoding, (&claim.session_id, claim.seq))?;
        let session = self.core.sessions.get_mut(key).ok_or(ResumeFault::Unknown)?;
        session.replay.trim(claim.seq);
        replay_fault(session, claim.seq, bytes_max).map_or(Ok(key), Err)
    }

    /// Whether the session leaves for another node, or comes from one, and is not complete there.
    #[must_use]
    pub fn is_moving_session(&self, session_id: &str) -> bool {
        let is_moving = |key| self.core.moves.departing.has(key) || self.core.moves.is_coming(key);
        self.core.sessions.find(session_id).is_some_and(is_moving)
    }

    /// Sessions that leave for another node, and wait for their guilds.
    #[must_use]
    pub fn departing_count(&self) -> usize {
        self.core.moves.departing.len()
    }

    /// Sessions that can go to another node: they have no connection, and are on no way.
    #[must_use]
    pub fn detached_sessions(&self) -> Vec<Arc<str>> {
        let is_free = |session: &&Session| self.core.is_free(session);
        self.sessions().filter(is_free).map(|session| session.id.clone()).collect()
    }

    /// Claims to the sessions that can go to another node, each with all that the session has kept: as of its client,
    /// which has not come back.
    #[must_use]
    pub fn detached_claims(&self) -> Vec<SessionClaim> {
        let claim = |session: &Session| SessionClaim {
            session_id: session.id.to_string(),
            user_id: session.user.id,
            is_etf: session.encoding == Encoding::Etf,
            seq: session.replay.first_seq() - 1,
        };
        self.sessions().filter(|session| self.core.is_free(session)).map(claim).collect()
    }

    /// Exports sessions that have no connection, in this order, until there is no room for the next one, and forgets
    /// them here. Returns the number of ids before that one as well. A session that is larger than `bytes_max` stays.
    pub fn release_sessions(
        &mut self,
        now: Now,
        ids: &[Arc<str>],
        bytes_max: usize,
        transport: &mut impl Transport,
    ) -> (HandOver, usize) {
        self.turn(now, transport, |partition, turn| {
            let (mut over, mut limit) = (HandOver::default(), SnapshotLimit::new(bytes_max));
            for (count, id) in ids.iter().enumerate() {
                let key = partition.core.sessions.find(id);
                let is_free = |key: &SlotKey| {
                    let session = partition.core.sessions.get(*key);
                    session.is_some_and(|s| partition.core.is_free(s) && (s.gets_guild_events() || s.guilds.is_empty()))
                };
                let Some(key) = key.filter(is_free) else { continue };
                if !partition.export(turn, key, (&mut over, &mut limit)) {
                    if !over.sessions.is_empty() {
                        return (over, count);
                    }
                    over.left_out_count += 1;
                }
            }
            (over, ids.len())
        })
    }

    /// Exports a session and forgets it. False: it has no room, or has not sent READY, and stays.
    fn export(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        (over, limit): (&mut HandOver, &mut SnapshotLimit),
    ) -> bool {
        // M2. What guilds publish from now on does not reach the session before it is attached there.
        self.core.push_outages(turn, key, |_, _| true);
        limit.omits_presences = true;
        self.take_out(turn, key, (over, limit))
    }

    /// Exports a session as it is, and forgets it. False: as `export`.
    pub(crate) fn take_out(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        (over, limit): (&mut HandOver, &mut SnapshotLimit),
    ) -> bool {
        let Some(session) = self.core.sessions.get(key) else { return false };
        let hidden = self.core.config.hidden_channels;
        let (user_id, encoding) = (session.user.id, session.encoding);
        let Some(mut kept) = session_snapshot(session, hidden, &mut over.dispatches, limit) else { return false };
        for (_, news) in self.core.news.of_user(turn.now.instant, user_id) {
            let dispatch = self.core.news_for(key, &news);
            kept.recent_news
                .extend(dispatch.map(|(dispatch, redaction)| mark_of(&dispatch.frame(encoding, redaction))));
        }
        kept.recent_news.extend(self.core.moves.known_by(turn.now.instant, key));
        over.sessions.push(kept);
        self.core.end_wait(turn, key);
        self.core.remove_session(key);
        self.core.counters.moved_away_total += 1;
        true
    }

    // ── at the node where its client resumes ─────────────────────────────────────────────────────

    /// Whether another node may have the session.
    pub(crate) fn may_be_elsewhere(&self, session_id: &str) -> bool {
        self.core.config.fetches_sessions && session_partition(session_id).is_some()
    }

    /// Has the driver fetch the session of a RESUME; the connection waits.
    pub(crate) fn fetch(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        claimant: Claimant,
        resume: Resume,
    ) {
        let session_id: Arc<str> = resume.session_id.as_str().into();
        let (user, user_id) = (claimant.user.clone(), claimant.user.id);
        let known = self.core.moves.fetches.get(&(user_id, session_id.clone())).copied();
        if known.is_none() && self.core.moves.fetches.len() >= FETCHES_MAX {
            let refused = ResumeRefused { fault: ResumeFault::Unavailable, user_id: Some(user_id) };
            return self.core.refuse_resume(turn, key, refused);
        }
        let Some(conn) = self.core.conns.get(key) else { return };
        let claim = SessionClaim {
            session_id: resume.session_id.clone(),
            user_id,
            is_etf: conn.codec.encoding() == Encoding::Etf,
            seq: resume.seq,
        };
        self.core.await_move(turn, key, claimant, resume);
        self.core.moves.fetches.insert((user_id, session_id), key);
        match known {
            Some(older) => self.core.give_way(turn, older),
            None => self.core.outputs.push_back(Output::FetchSession { claim, user }),
        }
    }

    /// Handles the answer to `Output::FetchSession`.
    pub fn handle_fetched(&mut self, now: Now, fetched: Fetched, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.arrive(turn, fetched))
    }

    fn arrive(&mut self, turn: &mut Turn<'_, impl Transport>, fetched: Fetched) {
        let Fetched { session_id, user, is_rest, result } = fetched;
        if is_rest {
            return self.complete(turn, &session_id, result);
        }
        let user_id = user.id;
        let conn = self.core.moves.fetches.remove(&(user_id, session_id.clone()));
        let conn = conn.filter(|conn| self.core.is_moving(*conn));
        let is_it = |over: &HandOver| matches!(&over.sessions[..], [kept] if *kept.id == *session_id && kept.user_id == user_id);
        let arrived = result.and_then(|over| if is_it(&over) { Ok(over) } else { Err(ResumeFault::Move) });
        let restored = arrived.and_then(|over| {
            self.core.check_mirrored(turn.now.instant, &over, &user)?;
            let users = BTreeMap::from([(user_id, user.clone())]);
            let (session, place) =
                self.restore_sessions(turn.now, &over, &users, Pause::Noticed).pop().ok_or(ResumeFault::Move)?;
            match &over.transfer {
                Some(start) => self.await_transfer(turn, session, (start, user), conn),
                None => self.welcome(turn, session, &over.sessions[place], conn),
            }
            Ok(())
        });
        match (restored, conn) {
            (Ok(()), _) => {}
            // A node that leaves has sent it here in the meantime.
            (Err(_), Some(conn)) if self.core.sessions.find(&session_id).is_some() => {
                if let Some((claimant, resume)) = self.core.take_moving(conn) {
                    self.resume_unless_closed(turn, conn, claimant, resume);
                }
            }
            (Err(fault), Some(conn)) => {
                self.core.refuse_moving(turn, conn, ResumeRefused { fault, user_id: Some(user_id) });
                self.resume_reading(turn, conn);
            }
            (Err(_), None) => {}
        }
    }

    /// Restores the sessions of a leaving node with their account among `users`. Returns their number.
    pub fn handle_arrivals(
        &mut self,
        now: Now,
        over: &HandOver,
        users: &BTreeMap<UserId, Arc<User>>,
        transport: &mut impl Transport,
    ) -> usize {
        self.turn(now, transport, |partition, turn| {
            let restored = partition.restore_sessions(turn.now, over, users, Pause::Noticed);
            for (session, place) in &restored {
                partition.welcome(turn, *session, &over.sessions[*place], None);
            }
            restored.len()
        })
    }

    /// A session was restored here, and its guilds are about to attach it. RESUME waits for them.
    fn welcome(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        kept: &SessionSnapshot,
        conn: Option<SlotKey>,
    ) {
        self.core.counters.moved_here_total += 1;
        self.add_news(turn, key, kept);
        self.await_guilds(turn, key, conn, None);
    }

    /// Adds the news of the account that only this node has had, and lists those that it has yet to get.
    pub(crate) fn add_news(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, kept: &SessionSnapshot) {
        let Some(session) = self.core.sessions.get(key) else { return };
        let (user_id, encoding) = (session.user.id, session.encoding);
        let mut known = kept.recent_news.clone();
        for (age_ms, news) in self.core.news.of_user(turn.now.instant, user_id) {
            let Some((dispatch, redaction)) = self.core.news_for(key, &news) else { continue };
            let mark = mark_of(&dispatch.frame(encoding, redaction));
            match known.iter().position(|known| *known == mark) {
                Some(at) => drop(known.swap_remove(at)),
                None if age_ms <= SKEW_MS => self.core.push_news(turn, key, (&dispatch, redaction), || mark),
                None => {}
            }
        }
        self.core.moves.expect_known(turn.now.instant, key, known);
    }

    /// The guilds of a session that has come are about to attach it. RESUME waits for them.
    pub(crate) fn await_guilds(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        conn: Option<SlotKey>,
        coming: Option<Box<Coming>>,
    ) {
        let Some(user_id) = self.core.sessions.get(key).map(|session| session.user.id) else { return };
        let joined: Vec<GuildId> = self.joins.of_user(turn.now.instant, user_id, JOIN_NEWS_MS).collect();
        for guild_id in joined {
            self.attach_user(user_id, guild_id);
        }
        let Some(session) = self.core.sessions.get(key) else { return };
        let deadline = turn.now.instant.after_ms(ARRIVAL_MS_MAX);
        let arrival = Arrival { conn, waiting: session.guilds.ids().collect(), deadline, coming };
        if arrival.waiting.is_empty() {
            self.core.moves.ready.push(key);
        }
        self.core.moves.arrivals.insert(key, arrival);
        self.core.timers.push(deadline, TimerKey::Session(key));
    }

    /// Whether the session has arrived and still waits for its guilds.
    pub(crate) fn is_arriving(&self, session: SlotKey) -> bool {
        self.core.moves.arrivals.contains_key(&session)
    }

    /// A RESUME of a session that still waits for its guilds: its connection waits as well.
    pub(crate) fn resume_later(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        session: SlotKey,
        (claimant, resume): (Claimant, Resume),
    ) {
        self.core.await_move(turn, key, claimant, resume);
        let arrival = self.core.moves.arrivals.get_mut(&session);
        let older = arrival.and_then(|arrival| arrival.conn.replace(key));
        older.into_iter().for_each(|older| self.core.give_way(turn, older));
    }

    /// Ends the wait of a session whose guilds did not answer in time.
    pub(crate) fn check_arrival(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        if self.core.moves.arrivals.get(&key).is_some_and(|arrival| arrival.deadline <= turn.now.instant) {
            self.finish_arrival(turn, key);
        }
    }

    /// Resumes sessions whose guilds have all answered.
    pub(crate) fn finish_arrivals(&mut self, turn: &mut Turn<'_, impl Transport>) {
        for key in std::mem::take(&mut self.core.moves.ready) {
            self.finish_arrival(turn, key);
        }
    }

    pub(crate) fn finish_arrival(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        if self.core.moves.is_coming(key) {
            return self.request_rest(key);
        }
        let Some(arrival) = self.core.moves.arrivals.remove(&key) else { return };
        let Some(conn) = arrival.conn else { return };
        let Some((claimant, resume)) = self.core.take_moving(conn) else { return };
        self.resume_unless_closed(turn, conn, claimant, resume);
    }
}

impl Core {
    /// Refuses a session from its mirror if an event came here that its client may have received, or not.
    fn check_mirrored(&mut self, now: Instant, over: &HandOver, user: &User) -> Result<(), ResumeFault> {
        let Some(mirrored) = over.mirrored.filter(|mirrored| mirrored.is_doubtful) else { return Ok(()) };
        let Some(kept) = over.sessions.first() else { return Ok(()) };
        let reader = Reader::of_snapshot(kept, user.bot);
        let mut known = kept.recent_news.clone();
        for (age_ms, news) in self.news.of_user(now, user.id) {
            let Some((dispatch, redaction)) = self.news_form(&reader, &news) else { continue };
            let mark = mark_of(&dispatch.frame(reader.encoding, redaction));
            match known.iter().position(|known| *known == mark) {
                Some(at) => drop(known.swap_remove(at)),
                None if age_ms >= mirrored.gone_ms => return Err(ResumeFault::Doubt),
                None => {}
            }
        }
        Ok(())
    }

    /// The connection waits for its session.
    fn await_move(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, claimant: Claimant, resume: Resume) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        conn.phase = Phase::Authenticating(Box::new(PendingAuth::Move(claimant, resume)));
        turn.transport.pause_reading(key);
    }

    /// Refuses the request of a connection that waits for its session.
    pub(crate) fn refuse_moving(&mut self, turn: &mut Turn<'_, impl Transport>, conn: SlotKey, refused: ResumeRefused) {
        if self.take_moving(conn).is_some() {
            self.refuse_resume(turn, conn, refused);
        }
    }

    /// A session that waits for its guilds goes elsewhere: so does its client.
    pub(crate) fn end_wait(&mut self, turn: &mut Turn<'_, impl Transport>, session: SlotKey) {
        let waiting = self.moves.take_waiting(session);
        waiting.into_iter().for_each(|conn| self.give_way(turn, conn));
    }

    /// Whether the session has no connection, and is on no way.
    fn is_free(&self, session: &Session) -> bool {
        session.conn.is_none() && !session.is_incomplete && !self.moves.departing.has(session.key)
    }

    fn is_moving(&self, key: SlotKey) -> bool {
        let phase = self.conns.get(key).map(|conn| &conn.phase);
        matches!(phase, Some(Phase::Authenticating(pending)) if matches!(**pending, PendingAuth::Move(..)))
    }

    /// Takes the request of a connection that waits for its session. None: the connection has ended.
    fn take_moving(&mut self, key: SlotKey) -> Option<(Claimant, Resume)> {
        if !self.is_moving(key) {
            return None;
        }
        let conn = self.conns.get_mut(key)?;
        match std::mem::replace(&mut conn.phase, Phase::AwaitingIdentify) {
            Phase::Authenticating(pending) => match *pending {
                PendingAuth::Move(claimant, resume) => Some((claimant, resume)),
                PendingAuth::Identify(_) | PendingAuth::Resume(_) => None,
            },
            Phase::AwaitingIdentify | Phase::Established(_) | Phase::Closing => None,
        }
    }

    /// A later connection of the same client waits for the session.
    fn give_way(&mut self, turn: &mut Turn<'_, impl Transport>, older: SlotKey) {
        if self.is_moving(older) {
            self.close(turn, older, CloseCode::UnknownError);
        }
    }
}

/// Why another node cannot take the session with what its client lacks after `seq`.
pub(crate) fn replay_fault(session: &Session, seq: u64, bytes_max: usize) -> Option<ResumeFault> {
    if session.replay.bytes() > bytes_max {
        return Some(ResumeFault::Size);
    }
    // States that the session is owed do not move with it.
    let is_owed = |seq| session.replay.entry(seq).is_none_or(|entry| entry.dispatch.is_owed());
    (seq + 1..=session.replay.last_seq()).any(is_owed).then_some(ResumeFault::Sequence)
}
