//! Cluster: the nodes, the owner of a guild, and the drain of a node.
//!
//! Owns        the routes below `/v1/cluster`.
//! Invariants  every node answers with what it knows; nodes agree within the time of a lease.
//! Spec        docs/backend-api.md "Cluster", docs/cluster.md.

use super::{
    V1,
    caller::{AnyScope, Caller, Read, Write},
    error::V1Error,
    extract::Path,
};
use axum::{Json, extract::State, http::StatusCode};
use guildhall_cluster::{NodeNumber, NodeState};
use guildhall_node::{Membership, NodeReport, PeerQuestion};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Drains the node that gets it. The answer is the reason if it cannot be drained from another node.
#[derive(Debug, Serialize, Deserialize)]
pub struct DrainQuestion;

impl PeerQuestion for DrainQuestion {
    const KIND: &'static str = "drain";
    type Answer = Result<(), String>;
}

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
        Self { number, name, url, version, state, weight, own: is_own, waiting, frames, bytes, dropped }
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
        });
    };
    let report = membership.report();
    Json(ClusterBody {
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

/// Reads the owner of a guild
#[utoipa::path(get, path = "/v1/cluster/guilds/{guild_id}", tag = "cluster", params(("guild_id" = String, Path)),
    responses((status = 200, body = OwnerBody),
    (status = 404, description = "The node is alone", body = V1Error)))]
pub(super) async fn owner(_: Caller<Read>, State(v1): State<Arc<V1>>, path: Path) -> Result<Json<OwnerBody>, V1Error> {
    let guild_id = path.id("guild_id")?;
    let owner = v1.in_time(membership(&v1)?.find_owner(guild_id)).await?;
    Ok(Json(OwnerBody { node: owner.map(|number| number.0) }))
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
