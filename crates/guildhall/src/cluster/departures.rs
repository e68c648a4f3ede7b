//! Departures: a node that leaves sends its sessions to the others.
//!
//! Owns        the offers, upon which another node fetches sessions; the parcels, each with sessions for one node;
//!             those that arrive here in parts.
//! Invariants  P1 a parcel is restored once: a part that is repeated, because its answer was lost, changes nothing.
//!             P2 a parcel whose last part was sent and not answered may have arrived: its sessions are dropped, and no
//!             other copy of them is left. All others stay with the node that leaves. (tests
//!             `guildhall/tests/it/session_moves.rs`)
//!             P3 a session whose client comes back soon is fetched by it, with the events that it lacks, and is in
//!             no parcel. (test `p3_*`)
//!             P4 the guilds transfer a session that another node fetches because this one offers it: its client
//!             sees no outage when it comes. (test `p1_*`)
//! Limits      `RETURNS_MS_MAX` for clients to come back; `OFFER_SESSIONS` an offer, one at a time to each node, and
//!             the time up to `PARCELS_MS` before the end; the rest goes in parcels. `PARCEL_BYTES` of bodies
//!             a parcel, one at a time to each node; `ARRIVING_BYTES_MAX` of incomplete parcels here, past which a node
//!             refuses further ones; `ARRIVING_MS_MAX` for the parts of one.
//! Spec        docs/cluster.md, ADR 43.

use super::{
    claims::OnTheWay,
    moves::{SessionMoves, ask_until, parts_of},
    pace,
    port::OwnNode,
};
use guildhall_cluster::{NodeNumber, home_of};
use guildhall_guild_protocol::PartitionId;
use guildhall_model::{User, UserId};
use guildhall_net::{Accepted, HandOver, SessionClaim};
use guildhall_node::PeerQuestion;
use guildhall_stdx::Instant;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// Longest wait for clients that come back, and how long none has to come to end it. A parcel has everything that its
/// sessions kept, the answer to a client what that client lacks.
const RETURNS_MS_MAX: u64 = 4_000;
const NO_RETURN_MS: u64 = 2_000;
/// Interval in which returns are counted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Sessions of an offer. The node that gets it answers when it has fetched them.
const OFFER_SESSIONS: usize = 128;
/// Time for parcels.
const PARCELS_MS: u64 = 2_500;
/// Bodies of a parcel.
const PARCEL_BYTES: usize = 4 << 20;
/// Sessions of a parcel: their accounts are read before they are restored.
const PARCEL_SESSIONS: usize = 256;
/// Accounts of a parcel that are read at a time.
const READS_MAX: usize = 8;
/// Longest wait for the answer to one part: the sessions of a whole parcel may be restored in it.
const ANSWER_MS_MAX: u64 = 2_000;
/// Incomplete parcels, as text.
const ARRIVING_BYTES_MAX: usize = 256 << 20;
const ARRIVING_MS_MAX: u64 = 20_000;

/// Sessions of a node that leaves, for the other one to fetch. Their clients have not come back.
#[derive(Serialize, Deserialize)]
struct Offer {
    from: NodeNumber,
    claims: Vec<SessionClaim>,
}

impl PeerQuestion for Offer {
    const KIND: &'static str = "offer_sessions";
    /// How many it has fetched. The rest of each follows when the guilds have transferred it.
    type Answer = usize;
}

/// A part of a parcel.
#[derive(Clone, Serialize, Deserialize)]
struct Part {
    /// Random: names the parcel.
    ticket: u64,
    number: usize,
    parts_count: usize,
    text: String,
}

impl PeerQuestion for Part {
    const KIND: &'static str = "take_sessions";
    type Answer = PartAnswer;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PartAnswer {
    More,
    /// The parcel is complete, and this many sessions continue here.
    Taken(usize),
    /// The node has no room, or leaves itself.
    Refused,
}

/// A parcel whose parts arrive.
struct Arriving {
    texts: Vec<Option<String>>,
    state: State,
    until: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Incomplete,
    Restoring,
    Taken(usize),
}

/// Sends this node's sessions away when it leaves, and takes those of others.
pub struct Departures {
    port: OwnNode,
    moves: Arc<SessionMoves>,
    /// Sessions in parcels that have not arrived.
    on_the_way: OnTheWay,
    arriving: Mutex<BTreeMap<u64, Arriving>>,
}

/// Outcome of a parcel.
enum Sent {
    Taken(usize),
    /// The other node has none of it.
    Back(HandOver),
    /// The other node may have it, or not.
    Unknown(usize),
}

impl Departures {
    /// Takes sessions of nodes that leave from now on.
    #[must_use]
    pub fn start(port: OwnNode, moves: Arc<SessionMoves>, on_the_way: OnTheWay) -> Arc<Self> {
        let departures = Arc::new(Self { port, moves, on_the_way, arriving: Mutex::default() });
        pace::answer(&departures.port.membership, departures.port.partitions.clone());
        let of = Arc::downgrade(&departures);
        departures.port.membership.on_question(move |part: Part| {
            let departures = of.upgrade();
            async move { departures?.take(part).await }
        });
        let of = Arc::downgrade(&departures);
        departures.port.membership.on_question(move |offer: Offer| {
            let departures = of.upgrade();
            async move { Some(departures?.take_offer(offer).await) }
        });
        departures
    }

    /// How many sessions the other nodes accept, until the result is dropped.
    #[must_use]
    pub fn watch_accepted(&self) -> Arc<Accepted> {
        pace::watch(self.port.membership.clone())
    }

    fn now(&self) -> Instant {
        self.port.clock.now().instant
    }

    fn arriving(&self) -> MutexGuard<'_, BTreeMap<u64, Arriving>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ── the node that takes sessions ─────────────────────────────────────────────────────────────

    /// Fetches what another node offers. Each fetch has its own time, and goes on if the other node stops waiting.
    async fn take_offer(self: &Arc<Self>, Offer { from, claims }: Offer) -> usize {
        let fetches = claims.into_iter().map(|claim| {
            let departures = self.clone();
            tokio::spawn(async move { departures.take_offered(from, claim).await })
        });
        let mut count = 0;
        for fetch in fetches.collect::<Vec<_>>() {
            count += usize::from(fetch.await.unwrap_or(false));
        }
        count
    }

    /// Whether the session is on its way here. If not, it stays with the node that offers it.
    async fn take_offered(&self, from: NodeNumber, claim: SessionClaim) -> bool {
        let session_id = claim.session_id.clone();
        let Ok(Some(user)) = self.port.node.user(claim.user_id).await else { return false };
        match self.moves.fetch_offered(from, claim).await {
            Ok(over) => {
                self.port.partitions.take_fetched(&session_id, user, over);
                true
            }
            Err(_) => false,
        }
    }

    /// None: the parcel is being restored, and the question is to be repeated.
    async fn take(&self, part: Part) -> Option<PartAnswer> {
        let ticket = part.ticket;
        let text = match self.collect(part) {
            Ok(text) => text,
            Err(answer) => return answer,
        };
        let count = match serde_json::from_str::<HandOver>(&text) {
            Ok(over) => {
                let users = self.users_of(&over).await;
                self.port.partitions.take_arrivals(over, users).await
            }
            Err(error) => {
                tracing::error!(%error, "sessions of another node cannot be read: their clients identify again");
                0
            }
        };
        self.port.membership.count_moved_sessions(|moved| moved.here += count as u64);
        if let Some(arriving) = self.arriving().get_mut(&ticket) {
            arriving.state = State::Taken(count);
        }
        Some(PartAnswer::Taken(count))
    }

    /// Adds a part. The whole text once it is complete (P1), else the answer.
    fn collect(&self, part: Part) -> Result<String, Option<PartAnswer>> {
        let Part { ticket, number, parts_count, text } = part;
        let now = self.now();
        let mut all = self.arriving();
        all.retain(|_, arriving| now < arriving.until || arriving.state == State::Restoring);
        let texts = all.values().flat_map(|arriving| arriving.texts.iter().flatten());
        let has_room = texts.map(String::len).sum::<usize>() + text.len() <= ARRIVING_BYTES_MAX;
        if !all.contains_key(&ticket) && (number > 0 || parts_count > ARRIVING_BYTES_MAX / 1_024) {
            return Err(Some(PartAnswer::Refused));
        }
        let arriving = all.entry(ticket).or_insert_with(|| Arriving {
            texts: vec![None; parts_count.max(1)],
            state: State::Incomplete,
            until: now.after_ms(ARRIVING_MS_MAX),
        });
        match arriving.state {
            State::Restoring => return Err(None),
            State::Taken(count) => return Err(Some(PartAnswer::Taken(count))),
            State::Incomplete => {}
        }
        let Some(place) = arriving.texts.get_mut(number).filter(|_| has_room) else {
            all.remove(&ticket);
            return Err(Some(PartAnswer::Refused));
        };
        *place = Some(text);
        if arriving.texts.iter().any(Option::is_none) {
            return Err(Some(PartAnswer::More));
        }
        arriving.state = State::Restoring;
        Ok(std::mem::take(&mut arriving.texts).into_iter().flatten().collect())
    }

    /// Accounts of the sessions, as they are stored. Sessions whose account cannot be read are dropped.
    async fn users_of(&self, over: &HandOver) -> BTreeMap<UserId, Arc<User>> {
        let ids: BTreeSet<UserId> = over.sessions.iter().map(|session| session.user_id).collect();
        let (mut ids, mut users, mut reading) = (ids.into_iter(), BTreeMap::new(), JoinSet::new());
        loop {
            while reading.len() < READS_MAX
                && let Some(user_id) = ids.next()
            {
                let node = self.port.node.clone();
                reading.spawn(async move { (user_id, node.user(user_id).await) });
            }
            match reading.join_next().await {
                None => return users,
                Some(Ok((user_id, Ok(user)))) => drop(user.map(|user| users.insert(user_id, user))),
                Some(Ok((_, Err(error)))) => {
                    tracing::warn!(%error, "an account cannot be read: its sessions are dropped");
                }
                Some(Err(error)) => tracing::error!(%error, "an account was not read: its sessions are dropped"),
            }
        }
    }

    // ── the node that leaves ─────────────────────────────────────────────────────────────────────

    /// Sends all sessions without a connection to active nodes, until `deadline`. Returns those that no node took;
    /// sessions that were not sent are still in their partitions.
    pub async fn send_away(self: &Arc<Self>, deadline: std::time::Instant) -> Vec<HandOver> {
        let started = std::time::Instant::now();
        self.await_returns(deadline).await;
        let offered = self.offer(deadline).await;
        // Ended while other members can still receive the change.
        self.port.partitions.leave_voice();
        let mut sending = JoinSet::new();
        for partition in 0..self.port.partitions.count() as u16 {
            let partition = PartitionId(partition);
            let ids = self.port.partitions.look(partition, |_, partition| partition.detached_sessions());
            for (to, ids) in self.by_node(ids.await.unwrap_or_default(), |id| &**id) {
                let departures = self.clone();
                sending.spawn(async move { departures.send_to(to, (partition, ids), deadline).await });
            }
        }
        let (mut taken, mut lost, mut back) = (0, 0, Vec::new());
        while let Some(sent) = sending.join_next().await {
            for sent in sent.unwrap_or_default() {
                match sent {
                    Sent::Taken(count) => taken += count,
                    Sent::Back(over) => back.push(over),
                    Sent::Unknown(count) => lost += count,
                }
            }
        }
        self.await_transfers(deadline).await;
        let kept: usize = back.iter().map(|over| over.sessions.len()).sum();
        self.port.membership.count_moved_sessions(|moved| {
            moved.away += taken as u64;
            moved.failed += lost as u64;
        });
        let ms = started.elapsed().as_millis() as u64;
        tracing::info!(offered, taken, kept, lost, ms, "sessions went to other nodes");
        back
    }

    /// Waits while clients come back and fetch their sessions (P3).
    async fn await_returns(&self, deadline: std::time::Instant) {
        if self.port.membership.numbers().is_empty() {
            return;
        }
        let begun = std::time::Instant::now();
        // Time for parcels.
        let latest = deadline.checked_sub(Duration::from_millis(2 * ANSWER_MS_MAX)).unwrap_or(begun);
        let until = latest.min(begun + Duration::from_millis(RETURNS_MS_MAX));
        let (mut last_count, mut last_return) = (self.detached_count().await, begun);
        while last_count > 0 && std::time::Instant::now() < until {
            if last_return.elapsed() >= Duration::from_millis(NO_RETURN_MS) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let count = self.detached_count().await;
            if count < last_count {
                last_return = std::time::Instant::now();
            }
            last_count = count;
        }
    }

    /// Has the other nodes fetch the sessions without a connection (P4). Returns how many they have begun to fetch.
    async fn offer(self: &Arc<Self>, deadline: std::time::Instant) -> usize {
        let until = deadline.checked_sub(Duration::from_millis(PARCELS_MS)).unwrap_or(deadline);
        let mut claims = Vec::new();
        for partition in 0..self.port.partitions.count() as u16 {
            let look = self.port.partitions.look(PartitionId(partition), |_, partition| partition.detached_claims());
            claims.extend(look.await.unwrap_or_default());
        }
        let mut offering = JoinSet::new();
        for (to, claims) in self.by_node(claims, |claim| &claim.session_id) {
            let departures = self.clone();
            offering.spawn(async move { departures.offer_to(to, claims, until).await });
        }
        let count = offering.join_all().await.into_iter().sum();
        if count > 0 {
            self.await_transfers(until).await;
        }
        count
    }

    /// Offers sessions to one node, until one offer has no answer: the node is gone, or of an earlier release.
    async fn offer_to(&self, to: NodeNumber, claims: Vec<SessionClaim>, until: std::time::Instant) -> usize {
        let (mut count, from) = (0, self.port.membership.number());
        for claims in claims.chunks(OFFER_SESSIONS) {
            let limit = until.saturating_duration_since(std::time::Instant::now());
            let offer = Offer { from, claims: claims.to_vec() };
            match self.port.membership.ask_within(to, &offer, limit).await {
                Some(fetched) => count += fetched,
                None => break,
            }
        }
        count
    }

    /// Waits for sessions that other nodes are fetching.
    async fn await_transfers(&self, deadline: std::time::Instant) {
        let departing = async || {
            for partition in 0..self.port.partitions.count() as u16 {
                let count =
                    self.port.partitions.look(PartitionId(partition), |_, partition| partition.departing_count());
                if count.await.is_ok_and(|count| count > 0) {
                    return true;
                }
            }
            false
        };
        while departing().await && std::time::Instant::now() < deadline {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sessions of this node without a connection.
    async fn detached_count(&self) -> usize {
        let mut sum = 0;
        for partition in 0..self.port.partitions.count() as u16 {
            let ids = self.port.partitions.look(PartitionId(partition), |_, partition| partition.detached_sessions());
            sum += ids.await.map_or(0, |ids| ids.len());
        }
        sum
    }

    /// The sessions by the active nodes that are to take them, this one excepted.
    fn by_node<T>(&self, sessions: Vec<T>, id_of: impl Fn(&T) -> &str) -> BTreeMap<NodeNumber, Vec<T>> {
        let (own, members) = (self.port.membership.number(), self.port.membership.members());
        let mut by_node: BTreeMap<NodeNumber, Vec<T>> = BTreeMap::new();
        for session in sessions {
            let others = members.iter().filter(|(number, _)| *number != own);
            let digits = id_of(&session).get(16..);
            let key = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
            if let Some(to) = home_of(key, others.map(|(number, record)| (*number, record))) {
                by_node.entry(to).or_default().push(session);
            }
        }
        by_node
    }

    /// Sends sessions of a partition to one node, parcel by parcel, until one is not taken.
    async fn send_to(
        &self,
        to: NodeNumber,
        (partition, ids): (PartitionId, Vec<Arc<str>>),
        deadline: std::time::Instant,
    ) -> Vec<Sent> {
        let (mut sent, mut rest) = (Vec::new(), &ids[..]);
        // Time for the last parcel to arrive.
        let begin_until = deadline.checked_sub(Duration::from_millis(ANSWER_MS_MAX)).unwrap_or(deadline);
        while !rest.is_empty() && std::time::Instant::now() < begin_until {
            let next = rest[..rest.len().min(PARCEL_SESSIONS)].to_vec();
            let _journey = self.on_the_way.begin(&next);
            let Ok((over, count)) = self.port.partitions.release_sessions(partition, next, PARCEL_BYTES).await else {
                break;
            };
            rest = &rest[count..];
            if over.sessions.is_empty() {
                continue;
            }
            let outcome = self.send_parcel(to, over, deadline).await;
            let is_taken = matches!(outcome, Sent::Taken(_));
            sent.push(outcome);
            if !is_taken {
                break;
            }
        }
        sent
    }

    async fn send_parcel(&self, to: NodeNumber, over: HandOver, deadline: std::time::Instant) -> Sent {
        let Ok(text) = serde_json::to_string(&over) else { return Sent::Back(over) };
        let texts = parts_of(text, self.port.membership.answer_bytes_max());
        let (ticket, parts_count) = (self.port.membership.random_number(), texts.len());
        let patience = Duration::from_millis(ANSWER_MS_MAX);
        for (number, text) in texts.into_iter().enumerate() {
            let part = Part { ticket, number, parts_count, text };
            let limit = deadline.saturating_duration_since(std::time::Instant::now());
            let answer = ask_until(&self.port, (to, &part), patience, limit).await;
            match answer {
                Some(PartAnswer::More) => {}
                Some(PartAnswer::Taken(count)) => return Sent::Taken(count),
                Some(PartAnswer::Refused) => return Sent::Back(over),
                // P2. Without its last part the other node restores nothing.
                None if number + 1 < parts_count => return Sent::Back(over),
                None => return Sent::Unknown(over.sessions.len()),
            }
        }
        Sent::Back(over)
    }
}
