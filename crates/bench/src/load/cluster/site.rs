//! Site: nodes that are one gateway, or one node alone.
//!
//! Owns        the processes of the nodes, their folders and addresses, which outlive a killed process.

use super::super::{
    backend::Http,
    node::{Node, free_addr},
};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// No limit is part of what is measured. Clients that send no heartbeats meanwhile leave the CPU to the messages.
const SETTINGS: &[&str] = &[
    "limits.rest_rate_percent=0",
    "limits.backend_requests_per_s=0",
    "server.heartbeat_interval_ms=600000",
    "log.level=warn",
];
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A place for a node.
struct Place {
    dir: PathBuf,
    addr: SocketAddr,
    settings: Vec<String>,
    node: Option<Node>,
}

/// See the module.
pub struct Site {
    program: PathBuf,
    places: Vec<Place>,
}

/// Frames that nodes sent to each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frames {
    pub frames: u64,
    pub bytes: u64,
    pub dropped: u64,
}

impl Site {
    /// Starts a node for each list of settings.
    pub fn start(program: &Path, dir: &Path, settings: Vec<Vec<String>>) -> Result<Self> {
        let mut site = Self { program: program.to_owned(), places: Vec::new() };
        for (index, own) in settings.into_iter().enumerate() {
            let dir = dir.join(format!("node-{index}"));
            fs::create_dir_all(&dir)?;
            let all = SETTINGS.iter().map(|setting| (*setting).to_owned()).chain(own).collect();
            site.places.push(Place { dir, addr: free_addr()?, settings: all, node: None });
            site.restart(index)?;
        }
        site.wait_members()?;
        Ok(site)
    }

    /// The settings of a node in a cluster.
    pub fn settings_of_member(index: usize, database: &str, nats: SocketAddr) -> Vec<String> {
        vec![
            format!("store.url={database}"),
            format!("cluster.nats_url=nats://{nats}"),
            format!("cluster.node_name=node-{index}"),
        ]
    }

    /// Starts a node in its place, where it is not running.
    pub fn restart(&mut self, index: usize) -> Result<()> {
        let place = &mut self.places[index];
        if place.node.is_none() {
            place.node = Some(Node::start_program(&self.program, &place.dir, place.addr, &place.settings)?);
        }
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self, index: usize) {
        self.places[index].node = None;
    }

    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.addr).collect()
    }

    pub fn backend(&self, index: usize) -> Result<Http> {
        let node = self.places[index].node.as_ref().context("this node was killed")?;
        Ok(Http::backend(node.addr, node.key()))
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.places.iter().enumerate().filter_map(|(index, place)| Some((index, place.node.as_ref()?)))
    }

    /// CPU time of each node.
    pub fn cpu(&self) -> Result<Vec<Duration>> {
        self.running().map(|(_, node)| node.cpu()).collect()
    }

    /// Resident memory of each node.
    pub fn rss_bytes(&self) -> Result<Vec<u64>> {
        self.running().map(|(_, node)| node.rss_bytes()).collect()
    }

    fn ask_cluster(&self, index: usize) -> Result<Vec<Value>> {
        let state = self.backend(index)?.ask("GET", "/v1/cluster", &json!(null))?;
        Ok(state["nodes"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until each node that runs knows as many.
    pub fn wait_members(&self) -> Result<()> {
        if self.places.len() == 1 {
            return Ok(());
        }
        let running: Vec<usize> = self.running().map(|(index, _)| index).collect();
        let deadline = Instant::now() + PATIENCE;
        for index in &running {
            while self.ask_cluster(*index)?.len() != running.len() {
                ensure!(Instant::now() < deadline, "node {index} does not know {} nodes", running.len());
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Index of the node that serves a guild, once it does.
    pub fn wait_owner(&self, guild_id: u64) -> Result<usize> {
        if self.places.len() == 1 {
            return Ok(0);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            for (index, _) in self.running() {
                let path = format!("/v1/cluster/guilds/{guild_id}");
                let owner = self.backend(index)?.ask("GET", &path, &json!(null))?["node"].as_u64();
                if owner.is_some() && owner == self.number_of(index)? {
                    return Ok(index);
                }
            }
            ensure!(Instant::now() < deadline, "no node serves guild {guild_id}");
            thread::sleep(POLL);
        }
    }

    fn number_of(&self, index: usize) -> Result<Option<u64>> {
        let nodes = self.ask_cluster(index)?;
        Ok(nodes.iter().find(|node| node["own"] == true).and_then(|node| node["number"].as_u64()))
    }

    /// Frames that a node has sent to the others.
    pub fn frames_of(&self, index: usize) -> Result<Frames> {
        let nodes = self.ask_cluster(index)?;
        let sum = |key: &str| -> u64 { nodes.iter().filter_map(|node| node[key].as_u64()).sum() };
        Ok(Frames { frames: sum("frames"), bytes: sum("bytes"), dropped: sum("dropped") })
    }

    /// Time that a guild has kept its worker busy.
    pub fn guild_busy(&self, index: usize, guild_id: u64) -> Result<Duration> {
        let report = self.backend(index)?.ask("GET", &format!("/v1/node/guilds/{guild_id}"), &json!(null))?;
        report["guild"]["busy_ns_total"].as_u64().map(Duration::from_nanos).context("no busy time of the guild")
    }
}
