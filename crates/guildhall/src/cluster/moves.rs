//! Moves of sessions between nodes: a client may RESUME at any node of the cluster.
//!
//! Owns        the questions by which a node fetches a session, and the sessions that this node has released and other
//!             nodes have not read whole.
//! Invariants  G1 a session is released once, to the first node that claims it. A claim that is repeated, because its
//!             answer was lost, gets the same parts. G2 what no node has read whole after `KEPT_MS_MAX` is dropped: its
//!             client identifies again. (tests `guildhall/tests/it/session_moves.rs`)
//!             G3 a claim waits while the node that has the session, or sends it elsewhere, answers that it has not
//!             finished. (test `g3_*`) G4 a session that its guilds transfer is released when they have done so;
//!             until then other claims to it wait, at both nodes.
//! Limits      `SILENCE_MS_MAX` without a sign of the session and `FETCH_MS_MAX` for a fetch, `FETCHES_MAX` at a time;
//!             `LATE_AFTER` for the messages of guilds that have transferred a session, past which it sees an outage of
//!             them; `SESSION_BYTES_MAX` of bodies of a session; `KEPT_BYTES_MAX` of released sessions. Past them the
//!             RESUME gets op 9; past the last two the session stays where it is.
//! Not here    what moves with a session: `guildhall_partition::HandOver`.
//! Spec        docs/cluster.md, ADR 43, ADR 49.

use super::{
    claims::{Claims, OnTheWay, Sought},
    mirrors::SessionMirrors,
    port::{OwnNode, SessionPort, within},
};
use guildhall_cluster::{NodeNumber, NodeRecord, NodeState};
use guildhall_model::{GuildId, shard_of};
use guildhall_net::{HandOver, ResumeFault, SessionClaim, TransferEnd};
use guildhall_node::PeerQuestion;
use guildhall_partition::MirrorView;
use guildhall_session::{MembershipSnapshot, SessionSnapshot, session_partition};
use guildhall_stdx::{Fault as _, Instant};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// Longest wait of a RESUME without a sign of its session. A node that was killed is gone earlier, with its lease.
const SILENCE_MS_MAX: u64 = 5_000;
/// Longest wait of a RESUME for its session.
const FETCH_MS_MAX: u64 = 15_000;
/// Longest wait for one answer: a claim is repeated while its time lasts.
const ANSWER_MS_MAX: u64 = 1_000;
/// A claim that has no answer in this time is answered by `Working`.
const WORKING_AFTER: Duration = Duration::from_millis(250);
/// Pause before a question is repeated.
const AGAIN_MS: u64 = 50;
/// Fetches of this node at a time; the others wait, within their time.
const FETCHES_MAX: usize = 256;
/// Bodies of one session: the replay buffer of a connected client that is behind may have more.
const SESSION_BYTES_MAX: usize = 8 << 20;
/// Released sessions, as text.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// With mirrors, a RESUME waits for the end of the lease of the session's node, and this much longer.
const MIRROR_MS_MAX: u64 = 1_500;
/// Pause before a session that no living node has is looked for again: its node may be gone by then.
const MIRROR_AGAIN_MS: u64 = 100;
/// For this time after a question without an answer no RESUME sends the node another one.
const SUSPECT_MS: u64 = 300;
/// Longest wait for the messages of guilds that have transferred a session, and how often a node looks for them.
const LATE_AFTER: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A released session is kept for this time after the last question about it.
const KEPT_MS_MAX: u64 = 2 * SILENCE_MS_MAX;

#[derive(Clone, Serialize, Deserialize)]
struct FetchQuestion {
    /// Random: names this claim.
    ticket: u64,
    claim: SessionClaim,
    /// Which part of the session's text.
    part: usize,
    /// The claiming node resumes sessions by mirrors.
    #[serde(default)]
    uses_mirrors: bool,
    /// The claiming node knows `FetchAnswer::Working`.
    #[serde(default)]
    waits: bool,
    /// The claiming node takes sessions whose guilds transfer them: the answer is the session without its dispatches,
    /// which it requests by `RestQuestion`.
    #[serde(default)]
    transfers: bool,
    /// The claiming node knows `FetchAnswer::Held`.
    #[serde(default)]
    knows_held: bool,
}

impl PeerQuestion for FetchQuestion {
    const KIND: &'static str = "fetch_session";
    type Answer = FetchAnswer;
}

/// To a node with the mirror of a session that no living node has.
#[derive(Clone, Serialize, Deserialize)]
struct MirrorQuestion {
    /// That of the claim; further parts are read by `FetchQuestion`.
    ticket: u64,
    claim: SessionClaim,
    /// Another node has a newer mirror: the node drops this one, and answers `Unknown`.
    is_outdated: bool,
    /// The claiming node knows `FetchAnswer::Working`.
    #[serde(default)]
    waits: bool,
}

impl PeerQuestion for MirrorQuestion {
    const KIND: &'static str = "fetch_mirror";
    type Answer = FetchAnswer;
}

/// To the node with a session that its guilds have transferred.
#[derive(Clone, Serialize, Deserialize)]
struct RestQuestion {
    /// Random: names this request.
    ticket: u64,
    end: TransferEnd,
    part: usize,
}

impl PeerQuestion for RestQuestion {
    const KIND: &'static str = "fetch_rest";
    type Answer = FetchAnswer;
}

#[derive(Clone, Serialize, Deserialize)]
enum FetchAnswer {
    /// The node does not have the session.
    Unknown,
    /// The session is here, or on its way from here to another node: the claim is to be repeated. Only if `waits`.
    Working,
    /// The same, and it has the mirror of the session, with this seq. Only if `uses_mirrors`.
    Mirror(u64),
    /// The node has a mirror of the session from this membership, which it knows as that of a living node. Only if
    /// `knows_held`.
    Held(u64),
    /// The session stays where it is: name of a `ResumeFault`.
    Refused(String),
    Part {
        text: String,
        parts_count: usize,
    },
}

/// A session that another node reads.
struct Released {
    parts: Vec<String>,
    until: Instant,
}

/// Fetches sessions from other nodes, and releases sessions to them.
pub struct SessionMoves<P = OwnNode> {
    port: P,
    mirrors: Arc<SessionMirrors<P>>,
    /// Nodes that did not answer, and when.
    suspects: Mutex<BTreeMap<NodeNumber, Instant>>,
    released: Mutex<BTreeMap<u64, Released>>,
    claims: Claims<FetchAnswer>,
    rests: Claims<FetchAnswer>,
    /// Sessions that this node is sending to others as it leaves.
    on_the_way: OnTheWay,
    fetches: Semaphore,
}

impl<P: SessionPort> SessionMoves<P> {
    /// Answers other nodes from now on.
    #[must_use]
    pub fn start(port: P, mirrors: Arc<SessionMirrors<P>>, on_the_way: OnTheWay) -> Arc<Self> {
        let moves = Arc::new(Self {
            port,
            mirrors,
            suspects: Mutex::default(),
            released: Mutex::default(),
            claims: Claims::default(),
            rests: Claims::default(),
            on_the_way,
            fetches: Semaphore::new(FETCHES_MAX),
        });
        let of = Arc::downgrade(&moves);
        moves.port.on_question(move |question: FetchQuestion| {
            let moves = of.upgrade();
            async move {
                let moves = moves?;
                // A session here may have been given away; the claim is repeated.
                if moves.mirrors.is_settled() { moves.answer(question).await } else { None }
            }
        });
        let of = Arc::downgrade(&moves);
        moves.port.on_question(move |question: RestQuestion| {
            let moves = of.upgrade();
            async move { Some(moves?.answer_rest(question).await) }
        });
        let of = Arc::downgrade(&moves);
        moves.port.on_question(move |question: MirrorQuestion| {
            let moves = of.upgrade();
            async move { moves?.answer_mirror(question).await }
        });
        moves
    }

    /// Waits until this node may resume its sessions. False: not in time.
    pub async fn settle(&self) -> bool {
        self.mirrors.settle().await
    }

    fn now(&self) -> Instant {
        self.port.now().instant
    }

    fn time_since(&self, earlier: Instant) -> Duration {
        Duration::from_millis(self.now().ms_since(earlier))
    }

    fn released(&self) -> MutexGuard<'_, BTreeMap<u64, Released>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ── the node that has the session ────────────────────────────────────────────────────────────

    /// None: the claim is to be repeated.
    async fn answer(self: &Arc<Self>, question: FetchQuestion) -> Option<FetchAnswer> {
        let FetchQuestion { ticket, part, waits, .. } = question;
        if part > 0 {
            return Some(self.part(ticket, part).unwrap_or(FetchAnswer::Unknown));
        }
        let moves = self.clone();
        let release = async move { moves.release(question).await };
        let patience = self.port.sleep(WORKING_AFTER);
        self.claims.answer((ticket, Sought::Session), release, patience).await.or(waits.then_some(FetchAnswer::Working))
    }

    async fn release(&self, question: FetchQuestion) -> FetchAnswer {
        let FetchQuestion { ticket, claim, uses_mirrors, waits, transfers, knows_held, .. } = question;
        if let Some(answer) = self.part(ticket, 0) {
            return answer;
        }
        if self.is_full() {
            return FetchAnswer::Refused(ResumeFault::Move.name().to_owned());
        }
        let session_id = claim.session_id.clone();
        let result = match transfers {
            true => self.port.begin_transfer(claim, ticket, SESSION_BYTES_MAX).await,
            false => self.port.release_session(claim, SESSION_BYTES_MAX).await,
        };
        match result.unwrap_or(Err(ResumeFault::Unknown)) {
            Ok(over) if transfers => self.keep(ticket, &over),
            Ok(over) => {
                self.port.count_moved_sessions(|moved| moved.away += 1);
                self.keep(ticket, &over)
            }
            Err(ResumeFault::Unknown) if waits && self.is_moving(&session_id).await => FetchAnswer::Working,
            Err(ResumeFault::Unknown) if uses_mirrors => match self.mirrors.view_here(&session_id).await {
                Some(MirrorView { unsent: Some(_), seq, .. }) => FetchAnswer::Mirror(seq),
                Some(view) if knows_held => FetchAnswer::Held(view.from.incarnation),
                // This claim has taken the mirror, and the session is about to be in `released`, or is there.
                Some(_) | None if waits && self.claims.has((ticket, Sought::Mirror)) => FetchAnswer::Working,
                Some(_) | None => self.part(ticket, 0).unwrap_or(FetchAnswer::Unknown),
            },
            Err(ResumeFault::Unknown) => FetchAnswer::Unknown,
            Err(fault) => FetchAnswer::Refused(fault.name().to_owned()),
        }
    }

    async fn answer_rest(self: &Arc<Self>, RestQuestion { ticket, end, part }: RestQuestion) -> FetchAnswer {
        if part > 0 {
            return self.part(ticket, part).unwrap_or(FetchAnswer::Unknown);
        }
        let moves = self.clone();
        let release = async move { moves.release_rest(ticket, end).await };
        let patience = self.port.sleep(WORKING_AFTER);
        self.rests.answer((ticket, Sought::Session), release, patience).await.unwrap_or(FetchAnswer::Working)
    }

    async fn release_rest(&self, ticket: u64, end: TransferEnd) -> FetchAnswer {
        if let Some(answer) = self.part(ticket, 0) {
            return answer;
        }
        let begun = self.now();
        let result = loop {
            let is_late = self.time_since(begun) >= LATE_AFTER;
            match self.port.end_transfer(end.clone(), is_late, SESSION_BYTES_MAX).await {
                Some(Ok(None)) => self.port.sleep(LOOK_EVERY).await,
                Some(Ok(Some(over))) => break Ok(over),
                Some(Err(fault)) => break Err(fault),
                None => break Err(ResumeFault::Unknown),
            }
        };
        match result {
            Ok(over) => {
                self.port.count_moved_sessions(|moved| moved.away += 1);
                self.keep(ticket, &over)
            }
            Err(ResumeFault::Unknown) => FetchAnswer::Unknown,
            Err(fault) => FetchAnswer::Refused(fault.name().to_owned()),
        }
    }

    /// Whether the session goes from here to another node, or comes here, and has not arrived (G4).
    async fn is_moving(&self, session_id: &str) -> bool {
        if self.on_the_way.has(session_id) {
            return true;
        }
        let Some(home) = self.port.home_of(session_id) else { return false };
        let session_id = session_id.to_owned();
        self.port.look(home, move |_, partition| partition.is_moving_session(&session_id)).await.unwrap_or(false)
    }

    /// None: the claim is to be repeated.
    async fn answer_mirror(self: &Arc<Self>, question: MirrorQuestion) -> Option<FetchAnswer> {
        let MirrorQuestion { ticket, claim, is_outdated, waits } = question;
        if is_outdated {
            self.mirrors.drop_here(&claim.session_id).await;
            return Some(FetchAnswer::Unknown);
        }
        let moves = self.clone();
        let give = async move { moves.give(ticket, claim).await };
        let patience = self.port.sleep(WORKING_AFTER);
        self.claims.answer((ticket, Sought::Mirror), give, patience).await.or(waits.then_some(FetchAnswer::Working))
    }

    async fn give(&self, ticket: u64, claim: SessionClaim) -> FetchAnswer {
        if let Some(answer) = self.part(ticket, 0) {
            return answer;
        }
        if self.is_full() {
            return FetchAnswer::Refused(ResumeFault::Move.name().to_owned());
        }
        match self.mirrors.give(claim).await {
            Ok(over) => self.keep(ticket, &over),
            Err(ResumeFault::Unknown) => FetchAnswer::Unknown,
            Err(fault) => FetchAnswer::Refused(fault.name().to_owned()),
        }
    }

    /// Whether the sessions that other nodes have not read whole take all their room.
    fn is_full(&self) -> bool {
        self.released().values().flat_map(|kept| &kept.parts).map(String::len).sum::<usize>() > KEPT_BYTES_MAX
    }

    /// Keeps a released session for the node that claims it. The first part.
    fn keep(&self, ticket: u64, over: &HandOver) -> FetchAnswer {
        let text = match serde_json::to_string(over) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "a session cannot be written: its client identifies again");
                return FetchAnswer::Refused(ResumeFault::Move.name().to_owned());
            }
        };
        let parts = parts_of(text, self.port.answer_bytes_max());
        self.released().insert(ticket, Released { parts, until: self.now().after_ms(KEPT_MS_MAX) });
        self.part(ticket, 0).unwrap_or(FetchAnswer::Unknown)
    }

    /// A part of a session that was released for this claim. None: there is none any more.
    fn part(&self, ticket: u64, part: usize) -> Option<FetchAnswer> {
        let now = self.now();
        let mut released = self.released();
        released.retain(|_, kept| now < kept.until);
        let kept = released.get_mut(&ticket)?;
        kept.until = now.after_ms(KEPT_MS_MAX);
        Some(FetchAnswer::Part { text: kept.parts.get(part)?.clone(), parts_count: kept.parts.len() })
    }

    // ── the node where its client resumes ────────────────────────────────────────────────────────

    /// Fetches a session from the node that has it.
    ///
    /// # Errors
    /// Why it did not come.
    pub async fn fetch(self: &Arc<Self>, claim: SessionClaim) -> Result<HandOver, ResumeFault> {
        let limit = Duration::from_millis(FETCH_MS_MAX);
        let fetched = within(&self.port, limit, self.fetch_untimed(claim)).await.unwrap_or(Err(ResumeFault::Move));
        match &fetched {
            Ok(over) if over.mirrored.is_some() => self.port.count_mirrors(|figures| figures.resumed += 1),
            // `fetch_rest` counts it.
            Ok(over) if over.transfer.is_some() => {}
            Ok(_) => self.port.count_moved_sessions(|moved| moved.here += 1),
            Err(ResumeFault::Unknown) => {}
            Err(_) => self.port.count_moved_sessions(|moved| moved.failed += 1),
        }
        fetched
    }

    /// Fetches a session that the node which has it offers: no client waits for it here.
    ///
    /// # Errors
    /// Why it did not come.
    pub async fn fetch_offered(&self, from: NodeNumber, claim: SessionClaim) -> Result<HandOver, ResumeFault> {
        let ticket = self.port.random_number();
        let question = FetchQuestion {
            ticket,
            claim,
            part: 0,
            uses_mirrors: false,
            waits: false,
            transfers: true,
            knows_held: false,
        };
        match claimed_of(from, self.ask(from, &question).await?)? {
            Claimed::Session(place) => self.read(place, part_of(&question)).await,
            Claimed::Working | Claimed::Mirror(_) | Claimed::Held(_) | Claimed::Unknown => Err(ResumeFault::Unknown),
        }
    }

    /// Fetches the rest of a session that its guilds have transferred here.
    ///
    /// # Errors
    /// Why it did not come.
    pub async fn fetch_rest(&self, end: TransferEnd) -> Result<HandOver, ResumeFault> {
        let limit = Duration::from_millis(FETCH_MS_MAX);
        let rest = within(&self.port, limit, self.fetch_rest_untimed(end)).await.unwrap_or(Err(ResumeFault::Move));
        self.port.count_moved_sessions(|moved| match &rest {
            Ok(_) => moved.here += 1,
            Err(_) => moved.failed += 1,
        });
        rest
    }

    async fn fetch_rest_untimed(&self, end: TransferEnd) -> Result<HandOver, ResumeFault> {
        let node = NodeNumber(end.node);
        let question = RestQuestion { ticket: self.port.random_number(), end, part: 0 };
        loop {
            match claimed_of(node, self.ask(node, &question).await?)? {
                Claimed::Session(place) => {
                    return self.read(place, |part| RestQuestion { part, ..question.clone() }).await;
                }
                Claimed::Working => self.port.sleep(Duration::from_millis(AGAIN_MS)).await,
                Claimed::Mirror(_) | Claimed::Held(_) | Claimed::Unknown => return Err(ResumeFault::Move),
            }
        }
    }

    async fn fetch_untimed(self: &Arc<Self>, claim: SessionClaim) -> Result<HandOver, ResumeFault> {
        let (ticket, uses_mirrors) = (self.port.random_number(), self.mirrors.is_on());
        let question =
            FetchQuestion { ticket, claim, part: 0, uses_mirrors, waits: true, transfers: true, knows_held: true };
        let (silence_max, pause) = match uses_mirrors {
            true => (SILENCE_MS_MAX.max(self.port.lease_ms() + MIRROR_MS_MAX), MIRROR_AGAIN_MS),
            false => (SILENCE_MS_MAX, AGAIN_MS),
        };
        let (silence_max, pause) = (Duration::from_millis(silence_max), Duration::from_millis(pause));
        let mut silence = Silence::default();
        while silence.lasted < silence_max {
            let permit = self.fetches.acquire().await.map_err(|_| ResumeFault::Move)?;
            let begun = self.now();
            let is_leaving = |(_, record): &(NodeNumber, NodeRecord)| record.state == NodeState::Draining;
            // While a node leaves, a session may be on its way, and be found at no node.
            let may_be_under_way = self.port.members().iter().any(is_leaving);
            let mut is_working = false;
            match self.find(&question).await {
                Ok(Found::Session(place)) => return self.read(place, part_of(&question)).await,
                Ok(Found::Working) => is_working = true,
                Ok(Found::Mirrors(places)) => match self.claim_mirror(&question, places).await {
                    Ok(Some(over)) => return Ok(over),
                    Ok(None) => is_working = true,
                    // Another node has claimed it, or its own node is back.
                    Err(ResumeFault::Unknown) => {}
                    Err(fault) => return Err(fault),
                },
                Err(ResumeFault::Unknown) if may_be_under_way && !self.is_here(&question.claim).await => {}
                // A node that does not answer may have been killed.
                Err(ResumeFault::Move) if uses_mirrors => {}
                Err(fault) => return Err(fault),
            }
            drop(permit);
            self.port.sleep(pause).await;
            silence.note(is_working, self.time_since(begun));
        }
        Err(ResumeFault::Move)
    }

    /// Reads the rest of a session that a node has released.
    async fn read<Q: PeerQuestion<Answer = FetchAnswer> + Sync>(
        &self,
        place: Place,
        question: impl Fn(usize) -> Q + Send + Sync,
    ) -> Result<HandOver, ResumeFault> {
        let Place { node, first: mut text, parts_count } = place;
        for part in 1..parts_count {
            match self.ask(node, &question(part)).await? {
                FetchAnswer::Part { text: next, .. } => text.push_str(&next),
                FetchAnswer::Unknown
                | FetchAnswer::Working
                | FetchAnswer::Mirror(_)
                | FetchAnswer::Held(_)
                | FetchAnswer::Refused(_) => return Err(ResumeFault::Move),
            }
        }
        serde_json::from_str(&text).map_err(|error| {
            tracing::error!(%error, node = node.0, "a session of another node cannot be read");
            ResumeFault::Move
        })
    }

    /// Resumes by the newest of these mirrors; the others are dropped before. None: the claim is to be repeated.
    ///
    /// # Errors
    /// `Unknown`: the mirror is gone. Otherwise why the client cannot resume by it.
    async fn claim_mirror(
        self: &Arc<Self>,
        question: &FetchQuestion,
        mut places: Vec<(NodeNumber, u64)>,
    ) -> Result<Option<HandOver>, ResumeFault> {
        places.sort_by_key(|(number, seq)| (*seq, *number));
        let Some((newest, _)) = places.pop() else { return Err(ResumeFault::Unknown) };
        let own = self.port.number();
        let FetchQuestion { ticket, claim, .. } = question.clone();
        for (number, _) in places {
            if number == own {
                self.mirrors.drop_here(&claim.session_id).await;
                continue;
            }
            let outdated = MirrorQuestion { ticket, claim: claim.clone(), is_outdated: true, waits: true };
            self.ask_mirror(number, &outdated).await.ok_or(ResumeFault::Unknown)?;
        }
        let mut over = match newest == own {
            true => self.mirrors.give(claim).await?,
            false => {
                let taken = MirrorQuestion { ticket, claim, is_outdated: false, waits: true };
                // The answer of a node that does not answer may be lost: it has given the session away.
                let answer = self.ask_mirror(newest, &taken).await.ok_or(ResumeFault::Move)?;
                match claimed_of(newest, answer)? {
                    Claimed::Session(place) => self.read(place, part_of(question)).await?,
                    Claimed::Working => return Ok(None),
                    Claimed::Mirror(_) | Claimed::Held(_) | Claimed::Unknown => return Err(ResumeFault::Unknown),
                }
            }
        };
        self.mirrors.note_given(&question.claim.session_id, &over);
        self.add_guilds(&mut over).await?;
        Ok(Some(over))
    }

    async fn ask_mirror(&self, number: NodeNumber, question: &MirrorQuestion) -> Option<FetchAnswer> {
        let (patience, limit) = (Duration::from_millis(ANSWER_MS_MAX), Duration::from_millis(SILENCE_MS_MAX));
        ask_until(&self.port, (number, question), patience, limit).await
    }

    /// Adds the guilds that the account has joined since the last report.
    async fn add_guilds(&self, over: &mut HandOver) -> Result<(), ResumeFault> {
        for kept in &mut over.sessions {
            let guilds = self.port.guilds_of_user(kept.user_id).await.map_err(|error| {
                tracing::warn!(%error, "an account's guilds could not be read: its client identifies again");
                ResumeFault::Move
            })?;
            add_missing(kept, guilds);
        }
        Ok(())
    }

    /// Whether the session has arrived at this node in the meantime.
    async fn is_here(&self, claim: &SessionClaim) -> bool {
        let Some(home) = self.port.home_of(&claim.session_id) else { return false };
        let session_id = claim.session_id.clone();
        let look = self.port.look(home, move |now, partition| partition.session_view(now, &session_id).is_some());
        look.await.unwrap_or(false)
    }

    /// Has the node with the session release it, or finds the mirrors of a session that no living node has.
    ///
    /// # Errors
    /// `Unknown`: no node has it. `Move`: a node did not answer, or knows a node as living that has ended.
    async fn find(self: &Arc<Self>, question: &FetchQuestion) -> Result<Found, ResumeFault> {
        let named = session_partition(&question.claim.session_id).map(|partition| NodeNumber(partition.node()));
        let mut others = self.port.numbers();
        let (mut mirrors, mut held_from) = (Vec::new(), Vec::new());
        if let Some(named) = named.filter(|named| others.contains(named)) {
            match self.claim_from(named, question).await? {
                Claimed::Session(place) => return Ok(Found::Session(place)),
                Claimed::Working => return Ok(Found::Working),
                Claimed::Mirror(seq) => mirrors.push((named, seq)),
                Claimed::Held(membership) => held_from.push(membership),
                Claimed::Unknown => {}
            }
            others.retain(|number| *number != named);
        }
        // It moved before, or its node is gone: any node may have it, and one at most.
        let mut claims = tokio::task::JoinSet::new();
        for number in others {
            let (moves, question) = (self.clone(), question.clone());
            claims.spawn(async move { (number, moves.claim_from(number, &question).await) });
        }
        let (mut fault, mut is_working) = (ResumeFault::Unknown, false);
        while let Some(answer) = claims.join_next().await {
            match answer {
                Ok((_, Ok(Claimed::Session(place)))) => return Ok(Found::Session(place)),
                Ok((_, Ok(Claimed::Working))) => is_working = true,
                Ok((number, Ok(Claimed::Mirror(seq)))) => mirrors.push((number, seq)),
                Ok((_, Ok(Claimed::Held(membership)))) => held_from.push(membership),
                Ok((_, Ok(Claimed::Unknown))) => {}
                Ok((_, Err(refused))) => fault = refused,
                Err(_) => fault = ResumeFault::Move,
            }
        }
        if is_working {
            return Ok(Found::Working);
        }
        if question.uses_mirrors && fault == ResumeFault::Unknown {
            // The node with the mirror has yet to notice that the one with the session is gone.
            let members = self.port.members();
            let is_member = |membership: &u64| members.iter().any(|(_, record)| record.incarnation.0 == *membership);
            if !held_from.iter().all(is_member) {
                return Err(ResumeFault::Move);
            }
            let view = self.mirrors.view_here(&question.claim.session_id).await;
            let seq = view.filter(|view| view.unsent.is_some()).map(|view| view.seq);
            mirrors.extend(seq.map(|seq| (self.port.number(), seq)));
            if !mirrors.is_empty() {
                return Ok(Found::Mirrors(mirrors));
            }
        }
        Err(fault)
    }

    async fn claim_from(&self, number: NodeNumber, question: &FetchQuestion) -> Result<Claimed, ResumeFault> {
        let answer = match question.uses_mirrors {
            true => self.ask_unless_suspect(number, question).await?,
            false => self.ask(number, question).await?,
        };
        claimed_of(number, answer)
    }

    /// Sends the question once. The caller repeats the claim, and many callers may wait for the end of the same node's
    /// lease.
    async fn ask_unless_suspect(
        &self,
        number: NodeNumber,
        question: &FetchQuestion,
    ) -> Result<FetchAnswer, ResumeFault> {
        let suspects = || self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = Duration::from_millis(SUSPECT_MS);
        if suspects().get(&number).is_some_and(|since| self.time_since(*since) < patience) {
            return Err(ResumeFault::Move);
        }
        let answer = self.port.ask_within(number, question, Duration::from_millis(ANSWER_MS_MAX)).await;
        match &answer {
            Some(_) => drop(suspects().remove(&number)),
            None => drop(suspects().insert(number, self.now())),
        }
        answer.ok_or(ResumeFault::Move)
    }

    /// Repeats a question until it is answered (G1). The caller bounds the time.
    async fn ask<Q: PeerQuestion<Answer = FetchAnswer> + Sync>(
        &self,
        number: NodeNumber,
        question: &Q,
    ) -> Result<FetchAnswer, ResumeFault> {
        let (patience, limit) = (Duration::from_millis(ANSWER_MS_MAX), Duration::from_millis(SILENCE_MS_MAX));
        ask_until(&self.port, (number, question), patience, limit).await.ok_or(ResumeFault::Move)
    }
}

/// Time without a sign of a session. The wait for a permit does not count.
#[derive(Default)]
struct Silence {
    lasted: Duration,
}

impl Silence {
    /// A claim was answered after `took`. `is_working`: the session is there, or on its way.
    fn note(&mut self, is_working: bool, took: Duration) {
        self.lasted = if is_working { Duration::ZERO } else { self.lasted + took };
    }
}

/// A session that a node has released: the first part, and the number of parts.
struct Place {
    node: NodeNumber,
    first: String,
    parts_count: usize,
}

/// Answer of one node to a claim.
enum Claimed {
    Session(Place),
    Working,
    /// Seq of the mirror.
    Mirror(u64),
    /// Membership whose mirror it has.
    Held(u64),
    Unknown,
}

/// Answer of all nodes.
enum Found {
    Session(Place),
    /// A node has the session, or is sending it to another one, and has not finished.
    Working,
    /// No node has the session, and these have mirrors, each with its seq.
    Mirrors(Vec<(NodeNumber, u64)>),
}

/// The question for a part of the session.
fn part_of(question: &FetchQuestion) -> impl Fn(usize) -> FetchQuestion {
    move |part| FetchQuestion { part, ..question.clone() }
}

fn claimed_of(node: NodeNumber, answer: FetchAnswer) -> Result<Claimed, ResumeFault> {
    match answer {
        FetchAnswer::Unknown => Ok(Claimed::Unknown),
        FetchAnswer::Working => Ok(Claimed::Working),
        FetchAnswer::Mirror(seq) => Ok(Claimed::Mirror(seq)),
        FetchAnswer::Held(membership) => Ok(Claimed::Held(membership)),
        FetchAnswer::Refused(name) => {
            let fault = ResumeFault::ALL.iter().copied().find(|fault| fault.name() == name);
            Err(fault.unwrap_or(ResumeFault::Move))
        }
        FetchAnswer::Part { text: first, parts_count } => Ok(Claimed::Session(Place { node, first, parts_count })),
    }
}

/// Adds those of an account's guilds that the session lacks and that are in its shard.
fn add_missing(kept: &mut SessionSnapshot, guilds: Vec<GuildId>) {
    for id in guilds {
        let is_in_shard = kept.shard.is_none_or(|(shard, count)| shard_of(id, count.max(1)) == shard);
        if let (true, Err(place)) = (is_in_shard, kept.guilds.binary_search_by_key(&id, |guild| guild.id)) {
            kept.guilds.insert(place, MembershipSnapshot { id, is_inside: false, subscription: None, in_voice: false });
        }
    }
}

/// Cuts a text into parts that a question or an answer on the bus has room for, with some bytes around each.
pub(super) fn parts_of(text: String, answer_bytes_max: usize) -> Vec<String> {
    split(text, answer_bytes_max / 2)
}

/// Repeats a question until it is answered, for `limit` at most. None: the node has left, or the time has passed.
pub(super) async fn ask_until<Q: PeerQuestion + Sync>(
    port: &impl SessionPort,
    (to, question): (NodeNumber, &Q),
    patience: Duration,
    limit: Duration,
) -> Option<Q::Answer> {
    let until = port.now().instant.after_ms(limit.as_millis() as u64);
    loop {
        let left = Duration::from_millis(until.ms_since(port.now().instant)).min(patience);
        if left.is_zero() || !port.numbers().contains(&to) {
            return None;
        }
        if let Some(answer) = port.ask_within(to, question, left).await {
            return Some(answer);
        }
        // A node that does not answer and a bus that is away fail at once.
        port.sleep(Duration::from_millis(AGAIN_MS).min(left)).await;
    }
}

/// Cuts a text into parts of at most `bytes_max` bytes each, at least one.
fn split(text: String, bytes_max: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = &text[..];
    while rest.len() > bytes_max {
        let (part, after) = rest.split_at(rest.floor_char_boundary(bytes_max).max(1));
        parts.push(part.to_owned());
        rest = after;
    }
    if parts.is_empty() {
        return vec![text];
    }
    parts.push(rest.to_owned());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g3_only_silence_ends_a_claim() {
        let (mut silence, second) = (Silence::default(), Duration::from_secs(1));
        (0..10).for_each(|_| silence.note(true, second));
        silence.note(false, second);
        assert_eq!(silence.lasted, second);
        silence.note(false, second);
        assert_eq!(silence.lasted, 2 * second);
        silence.note(true, second);
        assert_eq!(silence.lasted, Duration::ZERO);
    }

    #[test]
    fn parts_are_the_text() {
        for text in ["", "a", "abcdefgh", "äöüßäöüß", "a😀b😀c"] {
            for bytes_max in [4, 5, 7, 100] {
                let parts = split(text.to_owned(), bytes_max);
                assert!(parts.iter().all(|part| part.len() <= bytes_max), "{parts:?}");
                assert_eq!(parts.concat(), text);
            }
        }
    }
}
