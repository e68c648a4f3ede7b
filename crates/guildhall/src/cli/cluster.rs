//! `guildhall cluster`: the nodes of a cluster, the owner of a guild and its move, and the drain of a node.

use super::{Failure, remote::Remote, say};
use clap::{Args, Subcommand};
use guildhall_model::GuildId;
use guildhall_stdx::Timestamp;
use serde::Deserialize;
use std::fmt::Write as _;

pub(super) const HELP: &str = "\
Examples:
  # Which nodes are there, as the node on this machine knows them:
  GUILDHALL_KEY=ghk_… guildhall cluster status
  # Which node serves a guild:
  guildhall cluster guild 1100000000000000001 --key-file top.key
  # Move a guild to another node; its clients notice nothing:
  guildhall cluster move 1100000000000000001 berlin-2
  # Take node 2 out: its guilds move, its clients reconnect, it ends:
  guildhall cluster drain 2 --server http://10.0.0.5:8080
  # The same by its name (cluster.node_name):
  guildhall cluster drain berlin-2

`status` and `guild` need the scope `read`, `move` and `drain` the scope `write`.
See docs/cluster.md.";

/// Arguments of `cluster`.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Print the nodes and this node's part
    #[command(visible_alias = "nodes")]
    Status(QueriedNode),
    /// Print the node that serves a guild
    Guild {
        /// Id of the guild
        guild: GuildId,
        #[command(flatten)]
        queried: QueriedNode,
    },
    /// Move a guild to another node, unnoticed by its clients
    Move {
        /// Id of the guild
        guild: GuildId,
        /// Number or name of the node, as `status` prints them
        node: String,
        #[command(flatten)]
        queried: QueriedNode,
    },
    /// Stop a node: others take over its guilds
    Drain {
        /// Number or name of the node, as `status` prints them
        node: String,
        #[command(flatten)]
        queried: QueriedNode,
    },
}

#[derive(Args, Debug)]
struct QueriedNode {
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Deserialize)]
struct Status {
    nodes: Vec<Node>,
    clustered: bool,
    serving: bool,
    guilds: usize,
    requests_elsewhere: usize,
    /// 0 from a node of an earlier version, as the next two.
    #[serde(default)]
    sessions_moved_here: u64,
    #[serde(default)]
    sessions_moved_away: u64,
    #[serde(default)]
    sessions_not_moved: u64,
    #[serde(default)]
    handoffs: Handoffs,
}

#[derive(Debug, Deserialize)]
struct Node {
    number: u8,
    name: String,
    url: String,
    version: String,
    state: String,
    weight: u32,
    own: bool,
    waiting: Option<usize>,
    dropped: u64,
    #[serde(default)]
    load: Option<Load>,
}

#[derive(Debug, Deserialize)]
struct Load {
    workers_busy_percent: Vec<f64>,
    memory_bytes: u64,
    memory_bytes_max: u64,
}

impl Load {
    /// Of the busiest worker.
    fn busy(&self) -> String {
        let busiest = self.workers_busy_percent.iter().copied().fold(0.0, f64::max);
        format!("{busiest:.0} %")
    }

    fn memory(&self) -> Option<String> {
        let share = self.memory_bytes as f64 * 100.0 / self.memory_bytes_max as f64;
        (self.memory_bytes_max > 0).then(|| format!("{share:.0} %"))
    }
}

/// Moves of all nodes.
#[derive(Debug, Default, Deserialize)]
struct Moves {
    leaving: Vec<Leaving>,
    ended: Vec<Ended>,
    missing: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    node: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct Leaving {
    guild_id: GuildId,
    from: u8,
    to: u8,
    reason: String,
    step: String,
    bytes: u64,
    rounds: u32,
    age_ms: u64,
}

#[derive(Debug, Deserialize)]
struct Ended {
    guild_id: GuildId,
    from: u8,
    to: u8,
    reason: String,
    ended_at_ms: i64,
    total_ms: u64,
    frozen_ms: u64,
    rounds: u32,
    bytes: u64,
    fault: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Handoffs {
    left: u64,
    arrived: u64,
    failed: u64,
    frozen_ms_max: u64,
}

#[derive(Debug, Deserialize)]
struct Moved {
    done: bool,
    total_ms: u64,
    frozen_ms: u64,
    bytes: u64,
    members: u64,
}

impl Moved {
    fn text(&self, guild: GuildId, node: &str) -> String {
        let Self { done, total_ms, frozen_ms, bytes, members } = self;
        match done {
            true => format!(
                "guild {guild} is on node {node}: {members} members, {bytes} bytes in {total_ms} ms; its requests waited {frozen_ms} ms\n"
            ),
            false => format!(
                "guild {guild} is on its way to node {node}; `guildhall cluster status` at its owner shows it\n"
            ),
        }
    }
}

pub(super) async fn run(args: ClusterArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    match args.command {
        ClusterCommand::Status(QueriedNode { remote }) => {
            let asking = remote.asking(environment)?;
            let status: Status = asking.get("/v1/cluster").await?;
            say(&table(&status));
            if status.clustered {
                // A node of an earlier version has no such route.
                let moves = asking.get::<Moves>("/v1/cluster/moves").await.unwrap_or_default();
                say(&moves_text(&moves));
            }
        }
        ClusterCommand::Guild { guild, queried: QueriedNode { remote } } => {
            let owner: Owner = remote.asking(environment)?.get(&format!("/v1/cluster/guilds/{guild}")).await?;
            match owner.node {
                Some(node) => say(&format!("node {node}\n")),
                None => say("no node serves it now: the first who needs the guild has it served\n"),
            }
        }
        ClusterCommand::Move { guild, node, queried: QueriedNode { remote } } => {
            let path = format!("/v1/cluster/guilds/{guild}/move");
            let moved: Moved = remote.asking(environment)?.send(&path, &serde_json::json!({ "node": node })).await?;
            say(&moved.text(guild, &node));
        }
        ClusterCommand::Drain { node, queried: QueriedNode { remote } } => {
            remote.asking(environment)?.post(&format!("/v1/cluster/nodes/{}/drain", segment(&node))).await?;
            say(&format!("node {node} drains; `guildhall cluster status` shows when it has left\n"));
        }
    }
    Ok(())
}

/// A text as one segment of a path.
fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => segment.push(char::from(byte)),
            _ => drop(write!(segment, "%{byte:02X}")),
        }
    }
    segment
}

fn table(status: &Status) -> String {
    if !status.clustered {
        return "this node is alone: cluster.nats_url is not set\n".to_owned();
    }
    let mut text = format!(
        "{:>4}  {:<20} {:<9} {:>6} {:>6} {:>6}  {:<10} {:>8} {:>8}  url\n",
        "node", "name", "state", "weight", "busy", "memory", "version", "waiting", "dropped"
    );
    for node in &status.nodes {
        let waiting = node.waiting.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mark = if node.own { "*" } else { " " };
        let busy = node.load.as_ref().map_or_else(|| "-".to_owned(), Load::busy);
        let memory = node.load.as_ref().and_then(Load::memory).unwrap_or_else(|| "-".to_owned());
        let Node { number, name, url, version, state, weight, dropped, .. } = node;
        let _ = writeln!(
            text,
            "{number:>3}{mark}  {name:<20} {state:<9} {weight:>6} {busy:>6} {memory:>6}  {version:<10} {waiting:>8} \
             {dropped:>8}  {url}"
        );
    }
    let serving = if status.serving { "serves" } else { "has no valid lease, and serves none of" };
    let _ = writeln!(
        text,
        "\n* this node {serving} {} guilds; {} of its requests are with other nodes",
        status.guilds, status.requests_elsewhere
    );
    let _ = writeln!(
        text,
        "  {} sessions came from other nodes, {} went to them, and {} could not move",
        status.sessions_moved_here, status.sessions_moved_away, status.sessions_not_moved
    );
    let Handoffs { left, arrived, failed, frozen_ms_max } = status.handoffs;
    let _ = writeln!(
        text,
        "  since its start {left} guilds left it for other nodes and {arrived} came; {failed} moves failed; the longest \
         wait was {frozen_ms_max} ms"
    );
    text
}

/// Ended moves that `status` prints.
const MOVES_SHOWN: usize = 8;

fn moves_text(moves: &Moves) -> String {
    let mut text = String::new();
    for number in &moves.missing {
        let _ = writeln!(text, "\nnode {number} does not answer: its moves are missing");
    }
    if !moves.leaving.is_empty() {
        text.push_str("\nguilds on their way:\n");
    }
    for Leaving { guild_id, from, to, reason, step, bytes, rounds, age_ms } in &moves.leaving {
        let _ = writeln!(
            text,
            "  {guild_id} from node {from} to node {to}, {age_ms} ms ago: {}, {bytes} bytes, {rounds} rounds of changes; \
             {reason}",
            step_text(step)
        );
    }
    if !moves.ended.is_empty() {
        text.push_str("\nlast moves:\n");
    }
    for moved in moves.ended.iter().take(MOVES_SHOWN) {
        let Ended { guild_id, from, to, reason, ended_at_ms, total_ms, frozen_ms, rounds, bytes, fault } = moved;
        let at = second_of(*ended_at_ms);
        let _ = match fault {
            None => writeln!(
                text,
                "  {at}  {guild_id} from node {from} to node {to}: {bytes} bytes and {rounds} rounds in {total_ms} ms, \
                 requests waited {frozen_ms} ms; {reason}"
            ),
            Some(fault) => {
                writeln!(text, "  {at}  {guild_id} stays at node {from} instead of node {to}: {fault}; {reason}")
            }
        };
    }
    text
}

/// A time as RFC 3339, without its fraction.
fn second_of(unix_ms: i64) -> String {
    let text = Timestamp(unix_ms).to_string();
    text.split_once('.').map_or_else(|| text.clone(), |(second, _)| format!("{second}Z"))
}

fn step_text(step: &str) -> &str {
    match step {
        "members" => "its members are sent",
        "sessions" => "its sessions are sent",
        "changes" => "its changes are sent",
        "freeze" => "its requests wait for the last changes",
        "record" => "its requests wait for the lease store",
        "serve" => "its requests wait for the next owner",
        step => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment() {
        assert_eq!(segment("berlin-1"), "berlin-1");
        assert_eq!(segment("a/b ?é."), "a%2Fb%20%3F%C3%A9%2E");
    }

    #[test]
    fn the_table_lines_up() {
        let node = |number: u8, name: &str, own: bool| Node {
            number,
            name: name.to_owned(),
            url: format!("ws://10.0.0.{number}:8080"),
            version: "0.1.0".to_owned(),
            state: "active".to_owned(),
            weight: 1,
            own,
            waiting: (!own).then_some(7),
            dropped: 0,
            load: own.then(|| Load { workers_busy_percent: vec![3.2, 70.6], memory_bytes: 2, memory_bytes_max: 5 }),
        };
        let nodes = vec![node(0, "berlin-1", true), node(12, "berlin-2", false)];
        let status = Status {
            nodes,
            clustered: true,
            serving: true,
            guilds: 42,
            requests_elsewhere: 1,
            sessions_moved_here: 3,
            sessions_moved_away: 2,
            sessions_not_moved: 1,
            handoffs: Handoffs { left: 3, ..Handoffs::default() },
        };
        let text = table(&status);
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[0].find("url").unwrap();
        assert_eq!(lines[1].find("ws://"), Some(at), "{text}");
        assert_eq!(lines[2].find("ws://"), Some(at), "{text}");
        assert!(lines[4].starts_with("* this node serves 42 guilds"), "{text}");
        assert!(lines[6].starts_with("  since its start 3 guilds left"), "{text}");
        assert!(lines[1].contains(" 71 %   40 % ") && lines[2].contains("  -      - "), "{text}");
    }

    #[test]
    fn moves_have_their_reasons() {
        assert_eq!(moves_text(&Moves::default()), "");
        let leaving = serde_json::json!({
            "guild_id": "7", "from": 0, "to": 12, "reason": "its node drains", "step": "freeze", "bytes": 90_000,
            "rounds": 1, "frozen": true, "age_ms": 1_200,
        });
        let ended = |fault: Option<&str>| {
            serde_json::json!({
                "guild_id": "8", "from": 1, "to": 0, "reason": "it was requested", "ended_at_ms": 0, "total_ms": 30,
                "frozen_ms": 4, "rounds": 2, "bytes": 500, "fault": fault,
            })
        };
        let ended = [ended(None), ended(Some("that node is not active"))];
        let moves = serde_json::json!({ "leaving": [leaving], "ended": ended, "missing": [3] });
        let moves: Moves = serde_json::from_value(moves).unwrap();
        let expected = "
node 3 does not answer: its moves are missing

guilds on their way:
  7 from node 0 to node 12, 1200 ms ago: its requests wait for the last changes, 90000 bytes, 1 rounds of changes; its node drains

last moves:
  1970-01-01T00:00:00Z  8 from node 1 to node 0: 500 bytes and 2 rounds in 30 ms, requests waited 4 ms; it was requested
  1970-01-01T00:00:00Z  8 stays at node 1 instead of node 0: that node is not active; it was requested
";
        assert_eq!(moves_text(&moves), expected);
    }
}
