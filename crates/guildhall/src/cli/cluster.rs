//! `guildhall cluster`: the nodes of a cluster, the owner of a guild and its move, and the drain of a node.

use super::{Failure, remote::Remote, say};
use clap::{Args, Subcommand};
use guildhall_model::GuildId;
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
    Status(Asked),
    /// Print the node that serves a guild
    Guild {
        /// Id of the guild
        guild: GuildId,
        #[command(flatten)]
        asked: Asked,
    },
    /// Move a guild to another node, unnoticed by its clients
    Move {
        /// Id of the guild
        guild: GuildId,
        /// Number or name of the node, as `status` prints them
        node: String,
        #[command(flatten)]
        asked: Asked,
    },
    /// Stop a node: others take over its guilds
    Drain {
        /// Number or name of the node, as `status` prints them
        node: String,
        #[command(flatten)]
        asked: Asked,
    },
}

#[derive(Args, Debug)]
struct Asked {
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
    leaving: Vec<Leaving>,
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
}

#[derive(Debug, Deserialize)]
struct Owner {
    node: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct Leaving {
    guild_id: GuildId,
    to: u8,
    bytes: u64,
    rounds: u32,
    frozen: bool,
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
        ClusterCommand::Status(Asked { remote }) => {
            let status: Status = remote.asking(environment)?.get("/v1/cluster").await?;
            say(&table(&status));
        }
        ClusterCommand::Guild { guild, asked: Asked { remote } } => {
            let owner: Owner = remote.asking(environment)?.get(&format!("/v1/cluster/guilds/{guild}")).await?;
            match owner.node {
                Some(node) => say(&format!("node {node}\n")),
                None => say("no node serves it now: the first who needs the guild has it served\n"),
            }
        }
        ClusterCommand::Move { guild, node, asked: Asked { remote } } => {
            let path = format!("/v1/cluster/guilds/{guild}/move");
            let moved: Moved = remote.asking(environment)?.send(&path, &serde_json::json!({ "node": node })).await?;
            say(&moved.text(guild, &node));
        }
        ClusterCommand::Drain { node, asked: Asked { remote } } => {
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
        "{:>4}  {:<20} {:<9} {:>6}  {:<10} {:>8} {:>8}  url\n",
        "node", "name", "state", "weight", "version", "waiting", "dropped"
    );
    for node in &status.nodes {
        let waiting = node.waiting.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mark = if node.own { "*" } else { " " };
        let Node { number, name, url, version, state, weight, dropped, .. } = node;
        let _ = writeln!(
            text,
            "{number:>3}{mark}  {name:<20} {state:<9} {weight:>6}  {version:<10} {waiting:>8} {dropped:>8}  {url}"
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
    for Leaving { guild_id, to, bytes, rounds, frozen } in &status.leaving {
        let frozen = if *frozen { ", and its requests wait" } else { "" };
        let _ = writeln!(
            text,
            "  guild {guild_id} leaves for node {to}: {bytes} bytes, {rounds} rounds of changes{frozen}"
        );
    }
    text
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
        };
        let nodes = vec![node(0, "berlin-1", true), node(12, "berlin-2", false)];
        let leaving = vec![Leaving { guild_id: GuildId::new(7), to: 12, bytes: 90_000, rounds: 1, frozen: true }];
        let status = Status {
            nodes,
            clustered: true,
            serving: true,
            guilds: 42,
            requests_elsewhere: 1,
            sessions_moved_here: 3,
            sessions_moved_away: 2,
            sessions_not_moved: 1,
            leaving,
            handoffs: Handoffs { left: 3, ..Handoffs::default() },
        };
        let text = table(&status);
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[0].find("url").unwrap();
        assert_eq!(lines[1].find("ws://"), Some(at), "{text}");
        assert_eq!(lines[2].find("ws://"), Some(at), "{text}");
        assert!(lines[4].starts_with("* this node serves 42 guilds"), "{text}");
        assert!(lines[6].starts_with("  since its start 3 guilds left"), "{text}");
        assert_eq!(lines[7], "  guild 7 leaves for node 12: 90000 bytes, 1 rounds of changes, and its requests wait");
    }
}
