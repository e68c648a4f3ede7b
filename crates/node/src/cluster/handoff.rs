//! Hand-off: moves a guild of this node to another one, and takes guilds that others move here.
//!
//! Owns        the order of the steps, their time-outs, and standbys that are being built.
//! Doors       `Membership::move_guild`; `Membership::take_handoffs` answers other nodes.
//! Invariants  M1 before the owner record names the other node, any failure leaves the guild here, and nothing there.
//!             M2 after it, the other node serves the guild: with the state that it was sent, or from the database.
//!             M3 a frozen guild goes on only if the record is known to name this node, and no write under way can
//!             change that. (tests `node/tests/it/cluster/handoff.rs`)
//! Limits      `LEAVING_MAX` guilds leave and `ARRIVING_MAX` arrive at a time; `PART_BYTES_MAX` per message,
//!             `SLICE_ITEMS` sessions per step of the guild, `ROUNDS_MAX` rounds, `SETTLE_MAX` for the freeze,
//!             `FROZEN_MAX` for the last changes: past either the guild goes on here. A standby whose old owner is
//!             silent for `SILENT_MAX` is dropped.
//! Not here    relays and inputs (`guildhall_cluster`), the guild's state (`guildhall_guild`).

use super::{
    Membership, PeerQuestion, access_owner, mailbox_of,
    moves::{HandoffFigures, LeavePermit, MoveLog, MoveReason, MoveStep, Moves, ended},
};
use crate::{
    guild_host::{Frozen, HandoffStep, TakenOver},
    ids::{Ids, RESTING_ORIGIN},
    mailbox::Input,
    relay_sink::Unhandled,
};
use guildhall_cluster::{GuildInput, Incarnation, NodeNumber, OwnerOp, OwnerRecord, OwnerResult, node_for, wire};
use guildhall_guild::{Guild, GuildLimits, HandoffChunk, HandoffItem, HandoffParts, HandoffPlace, HandoffTail};
use guildhall_guild_protocol::RelayStreams;
use guildhall_model::GuildId;
use guildhall_store::Store;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// Guilds that leave this node at a time.
const LEAVING_MAX: usize = 2;
/// Guilds that arrive here at a time. Each is in memory twice in the cluster meanwhile.
const ARRIVING_MAX: usize = 4;
/// Bytes of one message on the bus, at most.
const PART_BYTES_MAX: usize = 512 * 1024;
/// Sessions per step: a step takes the guild's worker a millisecond.
const SLICE_ITEMS: usize = 1_000;
/// A round with at most this many changes is the last before the freeze.
const SMALL_ROUND: usize = 200;
/// Rounds until the freeze, small or not.
const ROUNDS_MAX: u32 = 50;
/// How long inputs wait for jobs and commits under way to end.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// How long the new owner may take for the last changes. Inputs wait meanwhile.
const FROZEN_MAX: Duration = Duration::from_secs(2);
/// How long one answer may take: a standby of ten million members is built meanwhile.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// How long the lease store may take to name the new owner.
const RECORD_MAX: Duration = Duration::from_secs(5);
/// How long the new owner may take to serve the guild.
const SERVED_MAX: Duration = Duration::from_secs(5);
/// After which silence of the old owner a standby is dropped.
const SILENT_MAX: Duration = Duration::from_secs(600);

/// Figures of one hand-off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffReport {
    pub total_ms: u64,
    /// From the last input that the old owner handled to the first that the new one does.
    pub frozen_ms: u64,
    /// Rounds of changes before the freeze.
    pub rounds: u32,
    pub bytes: u64,
    /// Changes that were sent after the base, those of the freeze included.
    pub items: u64,
    pub members: u64,
}

/// Why a guild was not moved. It is where it was, unless `Outage`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoffFault {
    #[error("this node does not serve the guild")]
    NotHere,
    #[error("the guild is on that node already")]
    There,
    #[error("that node is not active, or a node of the cluster has an earlier version: see `guildhall cluster status`")]
    Target,
    #[error("{LEAVING_MAX} guilds are leaving this node already, or this one is: try again later")]
    Busy,
    #[error("the guild is not loaded, was deleted, or changed faster than it could be sent: try again later")]
    Guild,
    #[error("the guild had work under way that did not end within {} seconds: try again later", SETTLE_MAX.as_secs())]
    Unsettled,
    #[error("the other node did not take it: {0}")]
    Refused(String),
    #[error("the lease store did not name the new owner")]
    Record,
    /// The owner is not known, so this node has released the guild.
    #[error("the lease store did not answer: the guild was released, and its sessions saw an outage")]
    Outage,
}

/// A message of the old owner, in parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Body {
    Chunk(HandoffChunk),
    Items(Vec<HandoffItem>),
    Last { items: Vec<HandoffItem>, tail: Box<HandoffTail>, streams: RelayStreams },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Step {
    Begin,
    /// Bytes of a `Body`; `ends`: it is complete.
    Part {
        number: u64,
        bytes: Vec<u8>,
        ends: bool,
    },
    /// The old owner keeps the guild.
    Stay,
    /// Answered when the guild is served.
    Served,
}

/// A step of a hand-off, for the new owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HandoffQuestion {
    guild_id: GuildId,
    /// Old owner, and its number of the hand-off.
    from: Incarnation,
    handoff: u64,
    step: Step,
}

impl PeerQuestion for HandoffQuestion {
    const KIND: &'static str = "handoff";
    type Answer = Result<(), String>;
}

/// A guild that arrives.
struct Arrival {
    from: (Incarnation, u64),
    last_at: Instant,
    next_part: u64,
    buffer: Vec<u8>,
    /// None while a step works on it.
    stage: Option<Stage>,
}

enum Stage {
    Parts(HandoffParts),
    Standby(Box<Guild>),
    Ready(Box<Guild>, RelayStreams),
}

/// Hand-offs of this node.
#[derive(Default)]
pub(super) struct Handoffs {
    arrivals: Mutex<HashMap<GuildId, Arrival>>,
    /// Standbys whose epoch is claimed.
    ready: Mutex<HashMap<GuildId, TakenOver>>,
    numbers_count: AtomicU64,
    moves: MoveLog,
}

/// Parts of the node that build a standby.
pub(crate) struct Standbys {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) limits: GuildLimits,
}

/// The way to the new owner.
struct Sender<'a> {
    membership: &'a Arc<Membership>,
    to: NodeNumber,
    question: HandoffQuestion,
    parts_count: u64,
    bytes: u64,
    permit: LeavePermit<'a>,
}

impl Sender<'_> {
    async fn ask(&self, step: Step, patience: Duration) -> Result<(), HandoffFault> {
        let question = HandoffQuestion { step, ..self.question.clone() };
        match self.membership.ask_within(self.to, &question, patience).await {
            Some(Ok(())) => Ok(()),
            Some(Err(reason)) => Err(HandoffFault::Refused(reason)),
            None => Err(HandoffFault::Refused("it does not answer".to_owned())),
        }
    }

    async fn send(&mut self, body: &Body) -> Result<(), HandoffFault> {
        self.send_bytes(wire::encode(body)).await
    }

    async fn send_bytes(&mut self, encoded: Vec<u8>) -> Result<(), HandoffFault> {
        self.bytes += encoded.len() as u64;
        let bytes = self.bytes;
        self.permit.note(|leave| leave.bytes = bytes);
        let max = PART_BYTES_MAX.min(self.membership.answer_bytes_max() / 2).max(1);
        let mut parts = encoded.chunks(max).peekable();
        while let Some(part) = parts.next() {
            let number = self.parts_count;
            self.parts_count += 1;
            self.ask(Step::Part { number, bytes: part.to_vec(), ends: parts.peek().is_none() }, ANSWER_MAX).await?;
        }
        Ok(())
    }
}

/// Whether the record names the new owner.
enum Named {
    Yes,
    /// The record names this node, and no write under way can change that.
    No,
    Unknown,
}

impl Membership {
    pub(super) fn handoff_figures(&self) -> HandoffFigures {
        self.handoffs.moves.figures()
    }

    /// Guilds that are leaving this node now, and the last that left it.
    #[must_use]
    pub fn moves(&self) -> Moves {
        self.handoffs.moves.moves()
    }

    /// Hands over all guilds of this node that have relays, one after the other, each to the node that would own it
    /// without this one. This node must drain. Stops at `deadline`: the others see an outage when this node leaves.
    /// Returns how many left, and how many stayed.
    pub async fn move_all(self: &Arc<Self>, deadline: Instant) -> (usize, usize) {
        let Some(parts) = self.parts.get() else { return (0, 0) };
        let mut guilds = Vec::new();
        for mailbox in &parts.mailboxes {
            guilds.extend(mailbox.look(|guilds| guilds.subscribed()).await.unwrap_or_default());
        }
        guilds.retain(|guild_id| self.lock().is_here(*guild_id));
        let mut left_count = 0;
        for (at, guild_id) in guilds.iter().enumerate() {
            if Instant::now() >= deadline {
                return (left_count, guilds.len() - left_count);
            }
            let Some(to) = self.next_owner(*guild_id) else { return (left_count, guilds.len() - left_count) };
            if self.move_guild(*guild_id, to, MoveReason::Drain).await.is_ok() {
                left_count += 1;
            }
            if at % 64 == 63 {
                tracing::info!(left = left_count, of = guilds.len(), "guilds are handed over");
            }
        }
        (left_count, guilds.len() - left_count)
    }

    /// The node that would own a guild without this one. None: no other is active.
    #[must_use]
    pub fn next_owner(&self, guild_id: GuildId) -> Option<NodeNumber> {
        node_for(guild_id, self.lock().peers())
    }

    /// Moves a guild of this node to another one. Clients notice nothing.
    ///
    /// # Errors
    /// See `HandoffFault`.
    pub async fn move_guild(
        self: &Arc<Self>,
        guild_id: GuildId,
        to: NodeNumber,
        reason: MoveReason,
    ) -> Result<HandoffReport, HandoffFault> {
        if to == self.number {
            return Err(HandoffFault::There);
        }
        if !self.lock().is_here(guild_id) {
            return Err(HandoffFault::NotHere);
        }
        let (record, term) = self.lock().may_leave(guild_id, to).ok_or(HandoffFault::Target)?;
        let (log, started) = (&self.handoffs.moves, Instant::now());
        let permit = log.begin(guild_id, to, reason.clone(), LEAVING_MAX).ok_or(HandoffFault::Busy)?;
        let result = self.hand_over(guild_id, record, term, permit).await;
        match &result {
            Ok(report) => {
                tracing::info!(%guild_id, to = to.0, frozen_ms = report.frozen_ms, total_ms = report.total_ms,
                    bytes = report.bytes, rounds = report.rounds, %reason, "guild handed over");
            }
            Err(error) => tracing::warn!(%guild_id, to = to.0, %error, %reason, "guild not handed over"),
        }
        log.end(ended((guild_id, to, reason), self.clock.now().unix, started, &result));
        result
    }

    async fn hand_over(
        self: &Arc<Self>,
        guild_id: GuildId,
        to: OwnerRecord,
        term: u64,
        permit: LeavePermit<'_>,
    ) -> Result<HandoffReport, HandoffFault> {
        let begun_at = Instant::now();
        let handoff = self.handoffs.numbers_count.fetch_add(1, Relaxed);
        let from = self.lock().record().incarnation;
        let question = HandoffQuestion { guild_id, from, handoff, step: Step::Begin };
        let mut sender = Sender { membership: self, to: to.node, question, parts_count: 0, bytes: 0, permit };
        sender.ask(Step::Begin, super::ask::ANSWER_MAX).await?;
        let moved = self.send_guild(guild_id, &mut sender).await;
        let (mut report, frozen_at) = match moved {
            Ok(moved) => moved,
            Err(fault) => {
                self.stay(guild_id, &sender).await;
                return Err(fault);
            }
        };
        let own = OwnerRecord { node: self.number, incarnation: from };
        sender.permit.step(MoveStep::Record);
        match self.name_owner(guild_id, own, to, term).await {
            Named::Yes => {
                if !self.with(|machine, now| machine.left(now, guild_id, to, term)) {
                    self.stay(guild_id, &sender).await;
                    return Err(HandoffFault::Outage);
                }
            }
            Named::No => {
                self.stay(guild_id, &sender).await;
                return Err(HandoffFault::Record);
            }
            Named::Unknown => {
                self.with(|machine, now| machine.release_unsure(now, guild_id));
                return Err(HandoffFault::Outage);
            }
        }
        // The guild is the other node's, whatever it answers.
        sender.permit.step(MoveStep::Serve);
        if let Err(error) = sender.ask(Step::Served, SERVED_MAX).await {
            tracing::warn!(%guild_id, %error, "the new owner of a guild does not serve it yet");
        }
        report.frozen_ms = frozen_at.elapsed().as_millis() as u64;
        report.total_ms = begun_at.elapsed().as_millis() as u64;
        report.bytes = sender.bytes;
        Ok(report)
    }

    fn step(&self, guild_id: GuildId, step: HandoffStep) {
        if let Some(parts) = self.parts.get() {
            mailbox_of(parts, guild_id).hand_over(guild_id, step);
        }
    }

    async fn stay(&self, guild_id: GuildId, sender: &Sender<'_>) {
        self.step(guild_id, HandoffStep::Stay);
        // A node that does not answer drops its standby by itself.
        let _ = sender.ask(Step::Stay, super::ask::ANSWER_MAX).await;
    }

    /// Sends the state of a guild, and freezes it. Returns the time of the freeze.
    async fn send_guild(
        self: &Arc<Self>,
        guild_id: GuildId,
        sender: &mut Sender<'_>,
    ) -> Result<(HandoffReport, Instant), HandoffFault> {
        let mut report = HandoffReport::default();
        let (answer, base) = oneshot::channel();
        self.step(guild_id, HandoffStep::Begin(answer));
        let base = base.await.map_err(|_| HandoffFault::Guild)?;
        report.members = base.members_count() as u64;
        // A thread encodes; few chunks wait.
        let (chunks, mut encoded) = mpsc::channel(2);
        let encoding = tokio::task::spawn_blocking(move || {
            base.for_each_chunk(|chunk| chunks.blocking_send(wire::encode(&Body::Chunk(chunk))))
        });
        while let Some(chunk) = encoded.recv().await {
            sender.send_bytes(chunk).await?;
        }
        encoding.await.map_err(|_| HandoffFault::Guild)?.map_err(|_| HandoffFault::Guild)?;
        sender.permit.step(MoveStep::Sessions);
        let mut place = HandoffPlace::Sessions(None);
        while place != HandoffPlace::End {
            let (answer, slice) = oneshot::channel();
            self.step(guild_id, HandoffStep::Sessions(place, SLICE_ITEMS, answer));
            let (items, next) = slice.await.map_err(|_| HandoffFault::Guild)?;
            report.items += items.len() as u64;
            place = next;
            sender.send(&Body::Items(items)).await?;
        }
        sender.permit.step(MoveStep::Changes);
        loop {
            let (answer, changes) = oneshot::channel();
            self.step(guild_id, HandoffStep::Changes(answer));
            let items = changes.await.map_err(|_| HandoffFault::Guild)?;
            let is_small = items.len() <= SMALL_ROUND;
            report.items += items.len() as u64;
            report.rounds += 1;
            let rounds = report.rounds;
            sender.permit.note(|leave| leave.rounds = rounds);
            sender.send(&Body::Items(items)).await?;
            if is_small || report.rounds >= ROUNDS_MAX {
                break;
            }
        }
        let frozen_at = Instant::now();
        sender.permit.step(MoveStep::Freeze);
        let (answer, frozen) = oneshot::channel();
        self.step(guild_id, HandoffStep::Freeze(answer));
        let frozen = tokio::time::timeout(SETTLE_MAX, frozen).await.map_err(|_| HandoffFault::Unsettled)?;
        let Frozen { items, tail, streams } = frozen.map_err(|_| HandoffFault::Guild)?;
        report.items += items.len() as u64;
        let last = Body::Last { items, tail: Box::new(tail), streams };
        let sent = tokio::time::timeout(FROZEN_MAX, sender.send(&last)).await;
        let late = || format!("it did not take the last changes within {} seconds", FROZEN_MAX.as_secs());
        sent.map_err(|_| HandoffFault::Refused(late()))??;
        Ok((report, frozen_at))
    }

    /// Has the owner record name `to`, if it names this node, this node serves the guild in the same term, and `to`
    /// is a member.
    async fn name_owner(&self, guild_id: GuildId, own: OwnerRecord, to: OwnerRecord, term: u64) -> Named {
        let ended_at = Instant::now() + RECORD_MAX;
        let access = |op| access_owner(&*self.kv, guild_id, op);
        // A write without an answer may be carried out late: another one at its revision decides.
        let mut wanted = to;
        while Instant::now() < ended_at && self.has_lease() {
            let may_move = {
                let machine = self.lock();
                machine.is_in_term(guild_id, term) && machine.peer_of(to.incarnation).is_some()
            };
            if !may_move {
                wanted = own;
            }
            match access(OwnerOp::Read).await {
                OwnerResult::Found(Some((record, _))) if record == to => return Named::Yes,
                OwnerResult::Found(Some((record, revision))) if record == own => {
                    match access(OwnerOp::Replace(wanted, revision)).await {
                        OwnerResult::Written(record) if record == to => return Named::Yes,
                        OwnerResult::Written(_) => return Named::No,
                        OwnerResult::Away => wanted = own,
                        _ => {}
                    }
                }
                OwnerResult::Found(_) => return Named::Unknown,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        Named::Unknown
    }

    /// A guild that left has not handled these inputs.
    pub(super) fn gave_up(self: &Arc<Self>, guild_id: GuildId, inputs: Vec<Unhandled>) {
        let inputs = inputs.into_iter().filter_map(|Unhandled(input)| match input {
            Input::Relay(message) => Some(GuildInput::Relay(message)),
            Input::Reset { relay, epoch } => Some(GuildInput::Reset { relay, epoch }),
            Input::Command(_) | Input::Create(..) => self.request_of(input),
            Input::Release | Input::Handoff(_) => None,
        });
        let inputs: Vec<GuildInput> = inputs.collect();
        self.with(|machine, now| machine.gave_up(now, guild_id, inputs));
    }

    // ── guilds that arrive ───────────────────────────────────────────────────────────────────────

    /// Takes guilds of other nodes from now on.
    pub(crate) fn take_handoffs(self: &Arc<Self>, standbys: Standbys) {
        let standbys = Arc::new(standbys);
        let (membership, parts) = (Arc::downgrade(self), standbys.clone());
        self.on_question(move |question: HandoffQuestion| {
            let (membership, parts) = (membership.upgrade(), parts.clone());
            async move { Some(membership?.take_step(&parts, question).await) }
        });
        assert!(self.standbys.set(standbys).is_ok(), "a membership belongs to one node");
    }

    fn arrivals(&self) -> MutexGuard<'_, HashMap<GuildId, Arrival>> {
        self.handoffs.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take_step(self: &Arc<Self>, standbys: &Arc<Standbys>, question: HandoffQuestion) -> Result<(), String> {
        let HandoffQuestion { guild_id, from, handoff, step } = question;
        let from = (from, handoff);
        match step {
            Step::Begin => self.begin_arrival(guild_id, from),
            Step::Part { number, bytes, ends } => {
                let Some((body, stage)) = self.take_part(guild_id, from, number, bytes, ends)? else { return Ok(()) };
                self.take_body(standbys, (guild_id, from), &body, stage).await
            }
            Step::Stay => {
                let is_its = self.arrivals().get(&guild_id).is_some_and(|arrival| arrival.from == from);
                if is_its {
                    self.forget_arrival(guild_id);
                    self.with(|machine, now| machine.unexpect(now, guild_id));
                }
                Ok(())
            }
            Step::Served => {
                let ended_at = Instant::now() + SERVED_MAX;
                while Instant::now() < ended_at {
                    if self.lock().is_here(guild_id) {
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err("it does not serve the guild yet".to_owned())
            }
        }
    }

    fn begin_arrival(&self, guild_id: GuildId, from: (Incarnation, u64)) -> Result<(), String> {
        let mut arrivals = self.arrivals();
        let silent = arrivals.extract_if(|_, arrival| arrival.last_at.elapsed() >= SILENT_MAX);
        self.discard(silent.map(|(_, arrival)| arrival).collect());
        if arrivals.len() >= ARRIVING_MAX && !arrivals.contains_key(&guild_id) {
            return Err(format!("{ARRIVING_MAX} guilds arrive there already: try again later"));
        }
        let stage = Some(Stage::Parts(HandoffParts::default()));
        let arrival = Arrival { from, last_at: Instant::now(), next_part: 0, buffer: Vec::new(), stage };
        self.discard(arrivals.insert(guild_id, arrival).into_iter().collect());
        Ok(())
    }

    fn forget_arrival(&self, guild_id: GuildId) {
        let arrival = self.arrivals().remove(&guild_id);
        self.discard(arrival.into_iter().collect());
    }

    /// Drops standbys on a thread of their own: one of ten million members takes a second.
    fn discard(&self, arrivals: Vec<Arrival>) {
        if !arrivals.is_empty() {
            self.runtime.spawn_blocking(move || drop(arrivals));
        }
    }

    /// Adds a part. Returns a complete body, with the stage that takes it.
    fn take_part(
        &self,
        guild_id: GuildId,
        from: (Incarnation, u64),
        number: u64,
        bytes: Vec<u8>,
        ends: bool,
    ) -> Result<Option<(Vec<u8>, Stage)>, String> {
        let mut arrivals = self.arrivals();
        let arrival = arrivals.get_mut(&guild_id).filter(|arrival| arrival.from == from);
        let arrival = arrival.ok_or_else(|| "it does not know the hand-off".to_owned())?;
        if arrival.next_part != number {
            self.discard(arrivals.remove(&guild_id).into_iter().collect());
            return Err("a part was lost".to_owned());
        }
        arrival.next_part += 1;
        arrival.last_at = Instant::now();
        arrival.buffer.extend(bytes);
        if !ends {
            return Ok(None);
        }
        let body = std::mem::take(&mut arrival.buffer);
        let stage = arrival.stage.take().ok_or_else(|| "two parts came at once".to_owned())?;
        Ok(Some((body, stage)))
    }

    async fn take_body(
        self: &Arc<Self>,
        standbys: &Arc<Standbys>,
        (guild_id, from): (GuildId, (Incarnation, u64)),
        body: &[u8],
        stage: Stage,
    ) -> Result<(), String> {
        let body: Body = wire::decode(wire::VERSION, body).map_err(|error| error.to_string())?;
        let is_last = matches!(body, Body::Last { .. });
        // Ids of its guilds are above all that were used before. The store is read at the first body of all: inputs
        // wait at the last one.
        standbys.ids.floor().await.map_err(|error| error.to_string())?;
        let (clock, limits) = (self.clock.clone(), standbys.limits.clone());
        let work = move || apply(&*clock, limits, stage, body);
        let stage =
            tokio::task::spawn_blocking(work).await.map_err(|_| "the state made a standby panic".to_owned())??;
        {
            let mut arrivals = self.arrivals();
            let arrival = arrivals.get_mut(&guild_id).filter(|arrival| arrival.from == from);
            arrival.ok_or_else(|| "the hand-off has ended".to_owned())?.stage = Some(stage);
        }
        if is_last {
            let is_expected = self.with(|machine, now| {
                let from = machine.peer_of(from.0)?;
                machine.expect(now, guild_id, from).then_some(())
            });
            if is_expected.is_none() {
                self.forget_arrival(guild_id);
                return Err("it looks for the owner of the guild itself, or does not serve: try again later".to_owned());
            }
        }
        Ok(())
    }

    /// The record names this node: claims the epoch for the standby.
    pub(super) fn claim(self: &Arc<Self>, guild_id: GuildId) {
        let arrival = self.arrivals().remove(&guild_id);
        let stage = arrival.and_then(|arrival| arrival.stage);
        let membership = self.clone();
        self.runtime.spawn(async move {
            let claimed = match (stage, membership.standbys.get()) {
                (Some(Stage::Ready(guild, streams)), Some(standbys)) => {
                    let epoch = standbys.store.claim_guild(guild_id).await;
                    epoch.map(|epoch| Some(TakenOver { guild, streams, epoch, forget: Vec::new() }))
                }
                _ => Ok(None),
            };
            let Ok(Some(taken)) = claimed else {
                tracing::warn!(%guild_id, "a guild that was handed over is loaded from the database");
                return membership.with(|machine, now| machine.arrival_failed(now, guild_id));
            };
            membership.ready().insert(guild_id, taken);
            membership.with(|machine, now| machine.arrived(now, guild_id));
        });
    }

    fn ready(&self) -> MutexGuard<'_, HashMap<GuildId, TakenOver>> {
        self.handoffs.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The standby is the guild. It goes to its worker before the inputs that wait (D1).
    pub(super) fn serve(&self, guild_id: GuildId, forget: &[NodeNumber]) {
        let Some(mut taken) = self.ready().remove(&guild_id) else { return };
        taken.forget = forget.iter().map(|node| node.0).collect();
        self.step(guild_id, HandoffStep::TakeOver(Box::new(taken)));
        self.balance.note_arrival(guild_id);
        self.handoffs.moves.count_arrival();
    }

    pub(super) fn drop_standby(&self, guild_id: GuildId) {
        let taken = self.ready().remove(&guild_id);
        self.runtime.spawn_blocking(move || drop(taken));
    }
}

/// Applies a body to a stage. Takes time with its size; the first items build the standby.
fn apply(clock: &dyn crate::Clock, limits: GuildLimits, stage: Stage, body: Body) -> Result<Stage, String> {
    let now = || clock.now();
    let (stage, items, last) = match (stage, body) {
        (Stage::Parts(mut parts), Body::Chunk(chunk)) => {
            parts.add(chunk);
            return Ok(Stage::Parts(parts));
        }
        (stage, Body::Items(items)) => (stage, items, None),
        (stage, Body::Last { items, tail, streams }) => (stage, items, Some((tail, streams))),
        (_, Body::Chunk(_)) => return Err("a chunk came behind changes".to_owned()),
    };
    let mut guild = match stage {
        Stage::Parts(parts) => {
            let standby = parts.standby(now(), limits, RESTING_ORIGIN);
            Box::new(standby.ok_or_else(|| "the first part is missing".to_owned())?)
        }
        Stage::Standby(guild) => guild,
        Stage::Ready(..) => return Err("changes came behind the last ones".to_owned()),
    };
    for item in items {
        guild.follow(now(), item);
    }
    Ok(match last {
        None => Stage::Standby(guild),
        Some((tail, streams)) => {
            guild.take_over(now(), *tail);
            Stage::Ready(guild, streams)
        }
    })
}
