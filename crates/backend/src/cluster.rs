//! Cluster: the nodes, moves of guilds, the owner of a guild, and the drain of a node.
//!
//! Owns        the routes below `/v1/cluster`.
//! Invariants  every node answers from its own state; nodes agree within the time of a lease.
//! Spec        docs/backend-api.md "Cluster", docs/cluster.md.

use super::{
    V1,
    caller::{AnyScope, Caller, Read, Write},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path},
    types::Snowflake,
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_cluster::{NodeLoad, NodeNumber, NodeState};
use guildhall_model::GuildId;
use guildhall_node::{
    HandoffFigures, HandoffReport, Leave, MOVES_KEPT, Membership, MoveReason, Moved, Moves, NodeReport, PeerQuestion,
};
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, sync::Arc, time::Duration};
use utoipa::ToSchema;

/// Drains the node that gets it. The answer is the reason if it cannot be drained from another node.
#[derive(Debug, Serialize, Deserialize)]
pub struct DrainQuestion;

impl PeerQuestion for DrainQuestion {
    const KIND: &'static str = "drain";
    type Answer = Result<(), String>;
}

/// Moves a guild of the node that gets it.
#[derive(Debug, Serialize, Deserialize)]
pub struct MoveQuestion {
    guild_id: GuildId,
    to: NodeNumber,
}

impl PeerQuestion for MoveQuestion {
    const KIND: &'static str = "move";
    type Answer = Moving;
}

/// Moves of the node that gets it.
#[derive(Debug, Serialize, Deserialize)]
struct MovesQuestion;

impl PeerQuestion for MovesQuestion {
    const KIND: &'static str = "moves";
    type Answer = Moves;
}

/// Result of a move. None: it is not complete.
type Moving = Result<Option<HandoffReport>, String>;

/// How long a request waits for the end of a move.
const MOVE_WAIT: Duration = Duration::from_secs(10);

/// A node of the cluster.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterNode)]
pub(super) struct NodeBody {
    /// Number of the node: partitions, sessions and ids of the node contain it.
    number: u8,
    /// Name of the node, `cluster.node_name`.
    name: String,
    /// WebSocket URL of the node.
    url: String,
    /// Version of the program.
    version: String,
    /// `joining`: the node is starting. `active`: it accepts guilds. `draining`: it keeps its guilds and
    /// accepts no others.
    state: &'static str,
    /// Share of the guilds.
    weight: u32,
    /// Whether it is the node that answers.
    own: bool,
    /// Messages that wait to be sent to it; null for the own node.
    waiting: Option<usize>,
    /// Frames that the answering node sent to it.
    frames: u64,
    /// Bytes of these.
    bytes: u64,
    /// Messages to it that were dropped.
    dropped: u64,
    /// Its load as it last reported it; null for a node that has just started, or has an earlier version.
    load: Option<LoadBody>,
}

/// Load of a node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterNodeLoad)]
struct LoadBody {
    /// Share of the last minute for which each guild worker was busy, in percent.
    workers_busy_percent: Vec<f64>,
    /// Memory in use under the tightest limit; 0: not known.
    memory_bytes: u64,
    /// That limit; 0: not known.
    memory_bytes_max: u64,
    /// Whether its guilds move for load, and others come (`cluster.balance`).
    balance: bool,
}

impl From<NodeLoad> for LoadBody {
    fn from(load: NodeLoad) -> Self {
        let NodeLoad { workers, memory_bytes, memory_bytes_max, takes_part } = load;
        let workers_busy_percent = workers.into_iter().map(|busy| f64::from(busy) / 10.0).collect();
        Self { workers_busy_percent, memory_bytes, memory_bytes_max, balance: takes_part }
    }
}

impl From<NodeReport> for NodeBody {
    fn from(report: NodeReport) -> Self {
        let NodeReport { number, record, is_own, waiting, frames, bytes, dropped } = report;
        let state = match record.state {
            NodeState::Joining => "joining",
            NodeState::Active => "active",
            NodeState::Draining => "draining",
        };
        let (name, url, version, weight) = (record.name, record.url, record.version, record.weight);
        let load = record.load.map(LoadBody::from);
        Self { number, name, url, version, state, weight, own: is_own, waiting, frames, bytes, dropped, load }
    }
}

/// The cluster as the answering node knows it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub(super) struct ClusterBody {
    /// The nodes, by number. Empty if the answering node is alone.
    nodes: Vec<NodeBody>,
    /// Whether the answering node belongs to a cluster.
    clustered: bool,
    /// Whether the answering node has a valid lease, and serves its guilds.
    serving: bool,
    /// Guilds that the answering node owns in its cluster. 0 if it is alone, and owns all.
    guilds: usize,
    /// Requests of the answering node that other nodes carry out now.
    requests_elsewhere: usize,
    /// Sessions that came to the answering node from others, since its start.
    sessions_moved_here: u64,
    /// Sessions that went from it to others.
    sessions_moved_away: u64,
    /// RESUMEs at it that failed because another node has, or had, the session and did not send it.
    sessions_not_moved: u64,
    /// Guilds that are leaving the answering node now.
    leaving: Vec<LeaveBody>,
    /// Hand-offs of the answering node since its start.
    handoffs: HandoffsBody,
}

/// A guild on its way to another node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LeavingGuild)]
struct LeaveBody {
    guild_id: Snowflake,
    /// Number of its owner.
    from: u8,
    /// Number of its next owner.
    to: u8,
    /// Why it moves, as a clause.
    reason: String,
    /// The step under way: `members`, `sessions` and `changes` are sent while the guild works on. Then requests wait:
    /// `freeze` until the last changes are there, `record` until the lease store names the next owner, `serve` until it
    /// serves the guild.
    step: &'static str,
    /// Bytes of its state that were sent so far.
    bytes: u64,
    /// Rounds of changes that were sent behind the state.
    rounds: u32,
    /// Whether requests for it wait.
    frozen: bool,
    /// Milliseconds since the move began.
    age_ms: u64,
}

impl LeaveBody {
    fn new(leave: Leave, from: NodeNumber) -> Self {
        let Leave { guild_id, to, reason, step, bytes, rounds, age_ms } = leave;
        let (guild_id, reason, frozen) = (guild_id.into(), reason.to_string(), step.is_frozen());
        Self { guild_id, from: from.0, to: to.0, reason, step: step.name(), bytes, rounds, frozen, age_ms }
    }
}

/// A move that has ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EndedMove)]
struct EndedBody {
    guild_id: Snowflake,
    /// Number of its owner before.
    from: u8,
    /// Number of the node to which it moved, or was to move.
    to: u8,
    /// Why it moved, as a clause.
    reason: String,
    /// When the move ended, Unix milliseconds.
    ended_at_ms: i64,
    /// Milliseconds that it took.
    total_ms: u64,
    /// Milliseconds for which requests for the guild waited.
    frozen_ms: u64,
    /// Rounds of changes behind the state.
    rounds: u32,
    /// Bytes of state that were sent.
    bytes: u64,
    /// Why the guild was not moved; null if it was.
    fault: Option<String>,
}

impl EndedBody {
    fn new(moved: Moved, from: NodeNumber) -> Self {
        let Moved { guild_id, to, reason, ended_at_ms, report, fault } = moved;
        let HandoffReport { total_ms, frozen_ms, rounds, bytes, .. } = report;
        let (guild_id, from, to, reason) = (guild_id.into(), from.0, to.0, reason.to_string());
        Self { guild_id, from, to, reason, ended_at_ms, total_ms, frozen_ms, rounds, bytes, fault }
    }
}

/// Moves of all nodes.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = ClusterMoves)]
pub(super) struct MovesBody {
    /// Guilds on their way, the oldest first.
    leaving: Vec<LeaveBody>,
    /// The last moves that ended, the latest first; at most 32.
    ended: Vec<EndedBody>,
    /// Numbers of nodes that did not answer: their moves are missing.
    missing: Vec<u8>,
}

impl MovesBody {
    fn add(&mut self, moves: Moves, of: NodeNumber) {
        self.leaving.extend(moves.leaving.into_iter().map(|leave| LeaveBody::new(leave, of)));
        self.ended.extend(moves.ended.into_iter().map(|moved| EndedBody::new(moved, of)));
    }
}

/// Hand-offs of a node since its start.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Handoffs)]
struct HandoffsBody {
    /// Guilds that it handed over to other nodes.
    left: u64,
    /// Those of them that left because of their node's load.
    left_for_load: u64,
    /// Guilds that others handed over to it.
    arrived: u64,
    /// Attempts that failed; the log has the reason of each.
    failed: u64,
    /// Bytes of state that it sent.
    bytes: u64,
    /// Rounds of changes that it sent.
    rounds: u64,
    /// Milliseconds for which requests for those guilds waited, in all.
    frozen_ms: u64,
    /// The longest of these times.
    frozen_ms_max: u64,
}

/// Where to move a guild.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = GuildMove)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveBody {
    /// Number or name (`cluster.node_name`) of the node.
    node: String,
}

impl Check for MoveBody {
    fn check(&self, faults: &mut FieldErrors) {
        faults.text("node", &self.node, 1, 100);
    }
}

/// A move of a guild.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GuildMoved)]
pub(super) struct MovedBody {
    /// Whether the other node owns the guild. If not, the move continues, and is in `leaving` of the owner's
    /// `GET /v1/cluster`.
    done: bool,
    /// Milliseconds that it took.
    total_ms: u64,
    /// Milliseconds for which requests for the guild waited.
    frozen_ms: u64,
    /// Rounds of changes behind the state.
    rounds: u32,
    /// Bytes of state that were sent.
    bytes: u64,
    /// Members of the guild.
    members: u64,
}

/// Owner of a guild.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GuildOwner)]
pub(super) struct OwnerBody {
    /// Number of the node that serves the guild; null if none does: the first who needs the guild has it served.
    node: Option<u8>,
}

fn membership(v1: &V1) -> Result<&Arc<Membership>, V1Error> {
    v1.node.membership().ok_or_else(|| V1Error::not_found("cluster: cluster.nats_url is not set"))
}

/// The member with this number or name.
pub(super) fn number_of(membership: &Membership, node: &str) -> Option<NodeNumber> {
    let members = membership.members();
    let found = members.iter().find(|(number, record)| number.0.to_string() == node || record.name == node);
    found.map(|(number, _)| *number)
}

/// Reads the state of the cluster
#[utoipa::path(get, path = "/v1/cluster", tag = "cluster", responses((status = 200, body = ClusterBody)))]
pub(super) async fn state(_: Caller<AnyScope>, State(v1): State<Arc<V1>>) -> Json<ClusterBody> {
    let Some(membership) = v1.node.membership() else {
        return Json(ClusterBody {
            nodes: Vec::new(),
            clustered: false,
            serving: true,
            guilds: 0,
            requests_elsewhere: 0,
            sessions_moved_here: 0,
            sessions_moved_away: 0,
            sessions_not_moved: 0,
            leaving: Vec::new(),
            handoffs: HandoffsBody::default(),
        });
    };
    let report = membership.report();
    let HandoffFigures { left, left_for_load, failed, arrived, bytes, rounds, frozen_ms, frozen_ms_max } =
        report.handoffs;
    let leaving = report.moves.leaving.into_iter().map(|leave| LeaveBody::new(leave, membership.number()));
    Json(ClusterBody {
        leaving: leaving.collect(),
        handoffs: HandoffsBody { left, left_for_load, arrived, failed, bytes, rounds, frozen_ms, frozen_ms_max },
        nodes: report.nodes.into_iter().map(NodeBody::from).collect(),
        clustered: true,
        serving: report.is_serving,
        guilds: report.guilds_here,
        requests_elsewhere: report.requests_elsewhere,
        sessions_moved_here: report.moved_sessions.here,
        sessions_moved_away: report.moved_sessions.away,
        sessions_not_moved: report.moved_sessions.failed,
    })
}

/// Reads the moves of guilds
///
/// Of all nodes: guilds on their way to another node, and the last moves that ended, with their reasons.
#[utoipa::path(get, path = "/v1/cluster/moves", tag = "cluster", responses((status = 200, body = MovesBody)))]
pub(super) async fn moves(_: Caller<AnyScope>, State(v1): State<Arc<V1>>) -> Json<MovesBody> {
    let mut body = MovesBody::default();
    let Some(membership) = v1.node.membership() else { return Json(body) };
    let members = membership.numbers();
    let answers = membership.ask_all(&MovesQuestion).await;
    body.missing =
        members.iter().filter(|number| !answers.iter().any(|(of, _)| of == *number)).map(|of| of.0).collect();
    body.add(membership.moves(), membership.number());
    answers.into_iter().for_each(|(number, moves)| body.add(moves, number));
    body.leaving.sort_by_key(|leave| Reverse(leave.age_ms));
    body.ended.sort_by_key(|moved| Reverse(moved.ended_at_ms));
    body.ended.truncate(MOVES_KEPT);
    Json(body)
}

/// Reads the owner of a guild
#[utoipa::path(get, path = "/v1/cluster/guilds/{guild_id}", tag = "cluster", params(("guild_id" = String, Path)),
    responses((status = 200, body = OwnerBody),
    (status = 404, description = "The node is alone", body = V1Error)))]
pub(super) async fn owner(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<OwnerBody>, V1Error> {
    let guild_id = path.id("guild_id")?;
    let owner = v1.in_time(membership(&v1)?.find_owner(guild_id)).await?;
    Ok(Json(OwnerBody { node: owner.map(|number| number.0) }))
}

/// Moves a guild to another node
///
/// Its state goes there while it works on, so clients notice nothing. The answer comes when it is there, or after ten
/// seconds: then the move goes on. `node` is a number or a name (`cluster.node_name`).
#[utoipa::path(post, path = "/v1/cluster/guilds/{guild_id}/move", tag = "cluster", request_body = MoveBody,
    params(("guild_id" = String, Path)),
    responses((status = 200, body = MovedBody),
    (status = 404, description = "There is no such node, no node serves the guild, or this one is alone", body = V1Error),
    (status = 409, description = "The guild cannot move now; it stays where it is", body = V1Error)))]
pub(super) async fn move_guild(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    path: Path,
    body: Body<MoveBody>,
) -> Result<Json<MovedBody>, V1Error> {
    let guild_id = path.id("guild_id")?;
    let membership = membership(&v1)?;
    let MoveBody { node } = body.read(&v1, caller.permit()).await?;
    let to = number_of(membership, &node).ok_or_else(|| V1Error::not_found("node"))?;
    let owner = v1.in_time(membership.find_owner(guild_id)).await?;
    let owner = owner.ok_or_else(|| V1Error::not_found("owner: no node serves the guild now"))?;
    let moving = match owner == membership.number() {
        true => Some(move_here(membership, guild_id, to).await),
        false => membership.ask_within(owner, &MoveQuestion { guild_id, to }, MOVE_WAIT + MOVE_WAIT / 2).await,
    };
    match moving {
        Some(Ok(report)) => {
            let done = report.is_some();
            let HandoffReport { total_ms, frozen_ms, rounds, bytes, members, .. } = report.unwrap_or_default();
            Ok(Json(MovedBody { done, total_ms, frozen_ms, rounds, bytes, members }))
        }
        Some(Err(reason)) => Err(V1Error::conflict(reason)),
        None => Err(V1Error::conflict("The owner of the guild does not answer: see its log, and try again later.")),
    }
}

/// Moves a guild of this node. None: after `MOVE_WAIT` the move goes on.
async fn move_here(membership: &Arc<Membership>, guild_id: GuildId, to: NodeNumber) -> Moving {
    let moving = membership.clone();
    let moved = tokio::spawn(async move { moving.move_guild(guild_id, to, MoveReason::Requested).await });
    match tokio::time::timeout(MOVE_WAIT, moved).await {
        Ok(Ok(moved)) => moved.map(Some).map_err(|fault| sentence(&fault.to_string())),
        Ok(Err(_)) => Err("The move has failed: see the log of the node.".to_owned()),
        Err(_) => Ok(None),
    }
}

/// A reason as a sentence.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).chain(['.']).collect()).unwrap_or_default()
}

/// Other nodes may have this one move its guilds, and read its moves.
pub fn answer_moves(membership: &Arc<Membership>) {
    let weak = Arc::downgrade(membership);
    membership.on_question(move |MovesQuestion| {
        let membership = weak.upgrade();
        async move { Some(membership?.moves()) }
    });
    let weak = Arc::downgrade(membership);
    membership.on_question(move |MoveQuestion { guild_id, to }| {
        let membership = weak.upgrade();
        async move { Some(move_here(&membership?, guild_id, to).await) }
    });
}

/// Stops a node of the cluster
///
/// As `POST /v1/node/drain` at that node: its guilds move to the others, its clients reconnect, and the process ends.
/// The answer comes before that. `node` is a number or a name (`cluster.node_name`).
#[utoipa::path(post, path = "/v1/cluster/nodes/{node}/drain", tag = "cluster", params(("node" = String, Path)),
    responses((status = 202, description = "The node drains"),
    (status = 404, description = "There is no such node, or this one is alone", body = V1Error),
    (status = 409, description = "The node does not answer, or cannot be stopped from here", body = V1Error)))]
pub(super) async fn drain(_: Caller<Write>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let membership = membership(&v1)?;
    let number = number_of(membership, path.text("node")).ok_or_else(|| V1Error::not_found("node"))?;
    if membership.number() == number {
        v1.in_time(v1.reports.drain()).await??;
        return Ok(StatusCode::ACCEPTED);
    }
    match membership.ask(number, &DrainQuestion).await {
        Some(Ok(())) => Ok(StatusCode::ACCEPTED),
        Some(Err(reason)) => Err(V1Error::conflict(reason)),
        None => Err(V1Error::conflict("The node does not answer: see its log, or stop it where it runs.")),
    }
}
