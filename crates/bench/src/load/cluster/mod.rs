//! `guildhall-bench cluster`: one guild over several nodes against one node with as many sessions, and what the ways
//! between nodes cost.
//!
//! Owns        the parts of the bench and its result; servers and nodes are in `servers` and `site`.
//! Invariants  the sites of `fanout` exist at the same time and talk in turns, so that other load on the machine
//!             affects them alike; results are medians over the rounds. Asserted: every client hears every message,
//!             once and in order.

mod crowd;
mod print;
mod servers;
mod site;
mod throttle;

pub use crowd::run as run_crowd;

use super::{
    backend::Http,
    fixture::{self, GUILD, SPEAKER},
    node::server_program,
};
use crate::{median, role::Role, stats::Spread};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use servers::{Nats, Postgres};
use site::Site;
use std::{
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use throttle::Throttle;

/// Messages of a site before it is another one's turn.
const MESSAGES_PER_ROUND: usize = 10;
const WARM_UP_MESSAGES: usize = 5;
/// Rounds of requests, and pairs of phases with a fast and a slow link.
const ROUNDS: usize = 3;
/// The slow link has this share of the bandwidth that it uses.
const SLOW_PERCENT: u64 = 1;
/// A guild without sessions.
const QUIET_GUILD: u64 = 1_100_000_000_000_000_100;
const QUIET_CHANNEL: u64 = 1_100_000_000_000_000_101;
/// Between two attempts to find a guild served again.
const ATTEMPT_EVERY: Duration = Duration::from_millis(20);
const SERVED_AGAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// For a node to hear what a slow link kept back.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(20);

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// CPU per delivery, frames per event, latency: several nodes against one.
    Fanout,
    /// Requests through the owner of a guild and through another node.
    Requests,
    /// The guild's loop while the link of another node has a hundredth of its bandwidth.
    Link,
    /// Time from `kill -9` of the owner until the guild is served again.
    Kill,
}

/// `guildhall-bench cluster`.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=16))]
    nodes: u16,
    /// Clients, every second one a bot, over all nodes of a site.
    #[arg(long, default_value_t = 2000)]
    sessions: usize,
    /// Messages to each site, each to every client.
    #[arg(long, default_value_t = 100)]
    messages: usize,
    /// Callers at the same time.
    #[arg(long, default_value_t = 16)]
    callers: usize,
    /// Milliseconds of each round of requests.
    #[arg(long, default_value_t = 1500)]
    call_ms: u64,
    /// Messages a second while a link is slow.
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// Seconds of each phase with a fast or a slow link.
    #[arg(long, default_value_t = 5)]
    link_seconds: u64,
    /// Owners to kill, one after the other.
    #[arg(long, default_value_t = 3)]
    kills: usize,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fanout,requests,link,kill")]
    parts: Vec<Part>,
    /// The server's program. Default: `guildhall` in the folder of this program.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Result of the bench.
#[derive(Debug, Serialize)]
struct ClusterResult {
    nodes: u16,
    sessions: usize,
    nats: String,
    postgres: String,
    fanout: Option<Fanout>,
    requests: Option<Vec<Requests>>,
    link: Option<Link>,
    kill: Option<Kill>,
}

/// A message to all clients, by site.
#[derive(Debug, Serialize)]
struct Fanout {
    deliveries: usize,
    sites: Vec<SiteResult>,
    /// CPU per delivery of the cluster's nodes to that of the others: medians of the rounds.
    ratio_to_one_node: f64,
    ratio_to_sqlite: f64,
    /// Frames that the owner sent per event, and the nodes' all together; bytes of one of the owner's.
    frames_per_event: f64,
    frames_per_event_all: f64,
    bytes_per_frame: f64,
}

/// One site. CPU is that of the site's nodes; NATS and PostgreSQL are listed apart.
#[derive(Debug, Serialize)]
struct SiteResult {
    name: &'static str,
    cpu_us_per_delivery: f64,
    /// The least and the most of all rounds.
    cpu_us_range: [f64; 2],
    /// The share of each node in that.
    cpu_us_by_node: Vec<f64>,
    nats_cpu_us_per_event: f64,
    postgres_cpu_us_per_event: f64,
    /// From the request to the last socket, and to the answer.
    last_socket_ms: Spread,
    answer_ms: Spread,
    /// While the clients connected, for each of them: CPU by node, and bytes that nodes sent to each other.
    connect_cpu_us_by_node: Vec<f64>,
    connect_bytes: f64,
    rss_bytes_before: Vec<u64>,
    rss_bytes: Vec<u64>,
    nats_rss_bytes: u64,
}

/// One kind of request.
#[derive(Debug, Serialize)]
struct Requests {
    kind: &'static str,
    owner: Rate,
    other: Rate,
    /// Requests per second through another node to those through the owner.
    ratio: f64,
}

/// Medians of the rounds.
#[derive(Debug, Serialize)]
struct Rate {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// A fast and a slow link of one node.
#[derive(Debug, Serialize)]
struct Link {
    /// Bytes a second of messages from other nodes, and what the slow link lets through.
    used_bytes_per_s: u64,
    slow_bytes_per_s: u64,
    /// Time of the guild's worker per event.
    fast_us_per_event: f64,
    slow_us_per_event: f64,
    ratio: f64,
    /// Share of a core of the guild's worker.
    fast_busy_percent: f64,
    slow_busy_percent: f64,
    /// Deliveries on that node and on others while the link was slow, of all that were due.
    heard_there_percent: f64,
    heard_elsewhere_percent: f64,
    /// The same after it was fast again, and how long the clients took to hear that.
    heard_there_later_percent: f64,
    catch_up_ms: Vec<u64>,
    /// GUILD_DELETE (unavailable) and GUILD_CREATE of clients on that node, and on others.
    outages_there: [u64; 2],
    outages_elsewhere: [u64; 2],
    dropped_by_owner: u64,
}

/// Owners that were killed.
#[derive(Debug, Serialize)]
struct Kill {
    served_again_ms: Vec<u64>,
    median_ms: f64,
}

/// Runs the bench.
///
/// # Errors
/// When NATS or PostgreSQL is missing, a process cannot be started, or a client missed a message.
pub fn run(args: &ClusterArgs) -> Result<()> {
    ensure!(args.sessions > 0 && args.messages > 0 && args.callers > 0 && args.rate > 0, "all numbers start at 1");
    let program = match &args.server {
        Some(program) => program.canonicalize().with_context(|| format!("there is no {}", program.display()))?,
        None => server_program()?,
    };
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    // The server of the database may run as another user.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
    let nats = Nats::start(dir.path())?;
    let postgres = Postgres::start(dir.path())?;
    let bench = Bench { args, dir: dir.path(), program: &program, nats, postgres };
    let result = bench.run()?;
    crate::report(args.json, &result, print::print)
}

struct Bench<'a> {
    args: &'a ClusterArgs,
    dir: &'a Path,
    program: &'a Path,
    nats: Nats,
    postgres: Postgres,
}

/// A site with its accounts.
struct Populated {
    site: Site,
    accounts: PathBuf,
    speaker: String,
}

impl Bench<'_> {
    fn run(&self) -> Result<ClusterResult> {
        let has = |part| self.args.parts.contains(&part);
        let database = self.postgres.create("cluster")?;
        let mut cluster = self.populate("cluster", self.members(&database, &[]))?;
        let fanout = has(Part::Fanout).then(|| self.fanout(&cluster)).transpose()?;
        let requests = has(Part::Requests).then(|| self.requests(&cluster)).transpose()?;
        let link = has(Part::Link).then(|| self.link(&mut cluster, &database)).transpose()?;
        let kill = has(Part::Kill).then(|| self.kill(&mut cluster)).transpose()?;
        Ok(ClusterResult {
            nodes: self.args.nodes,
            sessions: self.args.sessions,
            nats: self.nats.version.clone(),
            postgres: self.postgres.version.clone(),
            fanout,
            requests,
            link,
            kill,
        })
    }

    /// Settings of the cluster's nodes; each connects to NATS through its proxy, if there are any.
    fn members(&self, database: &str, proxies: &[Throttle]) -> Vec<Vec<String>> {
        let nats = |index: usize| proxies.get(index).map_or(self.nats.addr, |proxy| proxy.addr);
        (0..usize::from(self.args.nodes)).map(|index| Site::settings_of_member(index, database, nats(index))).collect()
    }

    fn populate(&self, name: &str, settings: Vec<Vec<String>>) -> Result<Populated> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        let site = Site::start(self.program, &dir, settings)?;
        let (accounts, speaker) = fixture::make(&mut site.backend(0)?, self.args.sessions)?;
        let path = dir.join("accounts");
        crowd::write_accounts(&path, &accounts, &speaker)?;
        Ok(Populated { site, accounts: path, speaker })
    }

    // ── fanout ───────────────────────────────────────────────────────────────────────────────────

    fn fanout(&self, cluster: &Populated) -> Result<Fanout> {
        let database = self.postgres.create("single")?;
        let one = self.populate("postgres-node", vec![vec![format!("store.url={database}")]])?;
        let sqlite = self.populate("sqlite-node", vec![Vec::new()])?;
        let mut arms = vec![
            Arm::start("cluster", cluster)?,
            Arm::start("one node, PostgreSQL", &one)?,
            Arm::start("one node, SQLite", &sqlite)?,
        ];
        for arm in &mut arms {
            arm.talk(WARM_UP_MESSAGES)?;
            arm.forget();
        }
        let rounds = self.args.messages.div_ceil(MESSAGES_PER_ROUND);
        for round in 0..rounds {
            let count = MESSAGES_PER_ROUND.min(self.args.messages - round * MESSAGES_PER_ROUND);
            let order: Vec<usize> =
                if round.is_multiple_of(2) { (0..arms.len()).collect() } else { (0..arms.len()).rev().collect() };
            for index in order {
                arms[index].measure(self, count)?;
            }
        }
        let ratio = |other: &Arm<'_>| {
            let pairs = arms[0].costs.iter().zip(&other.costs);
            median(pairs.map(|(cluster, other)| cluster / other).collect())
        };
        let (ratio_to_one_node, ratio_to_sqlite) = (ratio(&arms[1]), ratio(&arms[2]));
        let frames_per_event = arms[0].owner_frames as f64 / self.args.messages as f64;
        let frames_per_event_all = arms[0].all_frames as f64 / self.args.messages as f64;
        let bytes_per_frame = arms[0].owner_bytes as f64 / arms[0].owner_frames.max(1) as f64;
        let nats_rss_bytes = self.nats.rss_bytes()?;
        let sites = arms.into_iter().map(|arm| arm.result(nats_rss_bytes)).collect::<Result<_>>()?;
        Ok(Fanout {
            deliveries: self.args.sessions * self.args.messages,
            sites,
            ratio_to_one_node,
            ratio_to_sqlite,
            frames_per_event,
            frames_per_event_all,
            bytes_per_frame,
        })
    }

    // ── requests ─────────────────────────────────────────────────────────────────────────────────

    fn requests(&self, cluster: &Populated) -> Result<Vec<Requests>> {
        make_quiet_guild(&cluster.site)?;
        speak_quietly(cluster.site.addrs()[0], &cluster.speaker)?;
        let owner = cluster.site.wait_owner(QUIET_GUILD)?;
        let addrs = cluster.site.addrs();
        let (at_owner, at_other) = (addrs[owner], addrs[(owner + 1) % addrs.len()]);
        let nobody = self.dir.join("nobody");
        crowd::write_accounts(&nobody, &[], &cluster.speaker)?;
        let mut role = Role::start("crowd", &[nobody.display().to_string(), at_owner.to_string()])?;
        role.answer()?;
        let path = |what: &str| format!("/api/v10/channels/{QUIET_CHANNEL}/{what}");
        let kinds =
            [("typing", path("typing"), "{}"), ("message, stored", path("messages"), "{\"content\":\"hello\"}")];
        let mut results = Vec::new();
        for (kind, path, body) in kinds {
            let (mut owners, mut others) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                for (at, rates) in [(at_owner, &mut owners), (at_other, &mut others)] {
                    let Self { args: ClusterArgs { callers, call_ms, .. }, .. } = self;
                    rates.push(role.ask(&format!("call {at} {callers} {call_ms} {path} {body}"))?);
                }
            }
            let (owner, other) = (Rate::of(&owners), Rate::of(&others));
            let ratio = other.per_s / owner.per_s;
            results.push(Requests { kind, owner, other, ratio });
        }
        Ok(results)
    }

    // ── link ─────────────────────────────────────────────────────────────────────────────────────

    fn link(&self, cluster: &mut Populated, database: &str) -> Result<Link> {
        let proxies = (0..self.args.nodes).map(|_| Throttle::start(self.nats.addr)).collect::<Result<Vec<_>>>()?;
        let indices = 0..usize::from(self.args.nodes);
        indices.for_each(|index| cluster.site.kill(index));
        cluster.site = Site::start(self.program, &self.dir.join("cluster"), self.members(database, &proxies))?;
        let site = &cluster.site;
        let mut crowd = start_crowd(&cluster.accounts, &site.addrs())?;
        let owner = site.wait_owner(GUILD)?;
        let victim = (owner + 1) % site.addrs().len();
        let mut phase = LinkPhase { site, crowd: &mut crowd, owner, victim, args: self.args };
        phase.stream(Duration::from_secs(1))?;

        let dropped = site.frames_of(owner)?.dropped;
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        let (mut later, mut catch_up_ms, mut used) = (Vec::new(), Vec::new(), Vec::new());
        let outages = phase.outages()?;
        for _ in 0..ROUNDS {
            let (before, began) = (proxies[victim].passed_bytes(), Instant::now());
            fast.push(phase.stream(Duration::from_secs(self.args.link_seconds))?);
            let bytes = proxies[victim].passed_bytes() - before;
            used.push((bytes as f64 / began.elapsed().as_secs_f64()) as u64);

            proxies[victim].set_bytes_per_s((used[0] * SLOW_PERCENT / 100).max(1));
            let streamed = phase.stream(Duration::from_secs(self.args.link_seconds))?;
            proxies[victim].set_bytes_per_s(0);
            let (heard, took) = phase.catch_up(&streamed)?;
            later.push(heard);
            catch_up_ms.push(took.as_millis() as u64);
            slow.push(streamed);
        }
        let outages_since = phase.outages()?;
        let of = |at: usize| [0, 1].map(|kind| outages_since[kind][at] - outages[kind][at]);
        let elsewhere = (0..site.addrs().len()).filter(|at| *at != victim).map(of);
        let per_event = |all: &[Streamed]| median(all.iter().map(|streamed| streamed.busy_us_per_event).collect());
        let share = |all: &[Streamed]| median(all.iter().map(|streamed| streamed.busy_percent).collect());
        let mean = |all: Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
        let ratios = fast.iter().zip(&slow).map(|(fast, slow)| slow.busy_us_per_event / fast.busy_us_per_event);
        Ok(Link {
            used_bytes_per_s: used[0],
            slow_bytes_per_s: (used[0] * SLOW_PERCENT / 100).max(1),
            ratio: median(ratios.collect()),
            fast_us_per_event: per_event(&fast),
            slow_us_per_event: per_event(&slow),
            fast_busy_percent: share(&fast),
            slow_busy_percent: share(&slow),
            heard_there_percent: mean(slow.iter().map(|streamed| streamed.heard_there_percent).collect()),
            heard_elsewhere_percent: mean(slow.iter().map(|streamed| streamed.heard_elsewhere_percent).collect()),
            heard_there_later_percent: mean(later),
            catch_up_ms,
            outages_there: of(victim),
            outages_elsewhere: elsewhere.fold([0_u64; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]]),
            dropped_by_owner: site.frames_of(owner)?.dropped.saturating_sub(dropped),
        })
    }

    // ── kill ─────────────────────────────────────────────────────────────────────────────────────

    fn kill(&self, cluster: &mut Populated) -> Result<Kill> {
        make_quiet_guild(&cluster.site)?;
        let addrs = cluster.site.addrs();
        speak_quietly(addrs[0], &cluster.speaker)?;
        let mut served_again_ms = Vec::new();
        for _ in 0..self.args.kills {
            let owner = cluster.site.wait_owner(QUIET_GUILD)?;
            let other = addrs[(owner + 1) % addrs.len()];
            speak_quietly(other, &cluster.speaker)?;
            let began = Instant::now();
            cluster.site.kill(owner);
            while speak_quietly(other, &cluster.speaker).is_err() {
                ensure!(began.elapsed() < SERVED_AGAIN_TIMEOUT, "the guild is not served again");
                thread::sleep(ATTEMPT_EVERY);
            }
            served_again_ms.push(began.elapsed().as_millis() as u64);
            cluster.site.restart(owner)?;
            cluster.site.wait_members()?;
        }
        let median_ms = median(served_again_ms.iter().map(|ms| *ms as f64).collect());
        Ok(Kill { served_again_ms, median_ms })
    }
}

fn make_quiet_guild(site: &Site) -> Result<()> {
    let mut backend = site.backend(0)?;
    let guild = json!({"name": "quiet", "owner_id": SPEAKER.to_string()});
    backend.ask("PUT", &format!("/v1/guilds/{QUIET_GUILD}"), &guild)?;
    let channel = json!({"name": "general", "type": 0});
    backend.ask("PUT", &format!("/v1/guilds/{QUIET_GUILD}/channels/{QUIET_CHANNEL}"), &channel)?;
    Ok(())
}

/// A message to the guild without sessions, over a connection of its own.
fn speak_quietly(node: SocketAddr, token: &str) -> Result<()> {
    let path = format!("/api/v10/channels/{QUIET_CHANNEL}/messages");
    Http::bot(node, token).ask("POST", &path, &json!({"content": "is anybody there?"})).map(drop)
}

fn start_crowd(accounts: &Path, nodes: &[SocketAddr]) -> Result<Role> {
    let accounts = std::iter::once(accounts.display().to_string());
    let role = Role::start("crowd", &accounts.chain(nodes.iter().map(SocketAddr::to_string)).collect::<Vec<_>>())?;
    role.answer()?;
    Ok(role)
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

impl Rate {
    fn of(rounds: &[Value]) -> Self {
        let median_of =
            |of: fn(&Value) -> &Value| median(rounds.iter().filter_map(|round| of(round).as_f64()).collect());
        Self {
            per_s: median_of(|round| &round["per_s"]),
            p50_ms: median_of(|round| &round["ms"]["p50"]),
            p99_ms: median_of(|round| &round["ms"]["p99"]),
        }
    }
}

/// A site of `fanout` and what was measured there.
struct Arm<'a> {
    name: &'static str,
    site: &'a Site,
    crowd: Role,
    owner: usize,
    sessions: usize,
    rss_bytes_before: Vec<u64>,
    connect_cpu_us_by_node: Vec<f64>,
    connect_bytes: f64,
    costs: Vec<f64>,
    costs_by_node: Vec<Vec<f64>>,
    nats: Vec<f64>,
    postgres: Vec<f64>,
    last_ms: Vec<f64>,
    answer_ms: Vec<f64>,
    owner_frames: u64,
    owner_bytes: u64,
    all_frames: u64,
}

impl<'a> Arm<'a> {
    fn start(name: &'static str, populated: &'a Populated) -> Result<Self> {
        let site = &populated.site;
        let nodes = site.addrs().len();
        let bytes = || (0..nodes).map(|index| Ok(site.frames_of(index)?.bytes)).sum::<Result<u64>>();
        let rss_bytes_before = site.rss_bytes()?;
        let (bytes_before, cpu_before) = (bytes()?, site.cpu()?);
        let mut crowd = start_crowd(&populated.accounts, &site.addrs())?;
        let sessions = crowd.ask_number("size", "clients")? as usize;
        let of_each = |before: &Duration, after: &Duration| {
            after.saturating_sub(*before).as_secs_f64() * 1e6 / (sessions as f64 / nodes as f64)
        };
        let connect_cpu_us_by_node = cpu_before.iter().zip(&site.cpu()?).map(|(b, a)| of_each(b, a)).collect();
        let connect_bytes = (bytes()? - bytes_before) as f64 / sessions as f64;
        let costs_by_node = vec![Vec::new(); nodes];
        Ok(Self {
            name,
            site,
            crowd,
            owner: site.wait_owner(GUILD)?,
            sessions,
            rss_bytes_before,
            connect_cpu_us_by_node,
            connect_bytes,
            costs: Vec::new(),
            costs_by_node,
            nats: Vec::new(),
            postgres: Vec::new(),
            last_ms: Vec::new(),
            answer_ms: Vec::new(),
            owner_frames: 0,
            owner_bytes: 0,
            all_frames: 0,
        })
    }

    /// Each message is posted at the owner, after all have heard the one before.
    fn talk(&mut self, messages: usize) -> Result<()> {
        let reply = self.crowd.ask(&format!("alone {} {messages}", self.site.addrs()[self.owner]))?;
        self.last_ms.extend(floats(&reply["last_ms"]));
        self.answer_ms.extend(floats(&reply["answer_ms"]));
        Ok(())
    }

    /// Drops the latencies of the warm-up.
    fn forget(&mut self) {
        self.last_ms.clear();
        self.answer_ms.clear();
    }

    /// Frames of the owner, their bytes, and frames of all nodes.
    fn frames(&self) -> Result<[u64; 3]> {
        let mut sums = [0; 3];
        for index in 0..self.site.addrs().len() {
            let sent = self.site.frames_of(index)?;
            sums[2] += sent.frames;
            if index == self.owner {
                (sums[0], sums[1]) = (sent.frames, sent.bytes);
            }
        }
        Ok(sums)
    }

    fn measure(&mut self, bench: &Bench<'_>, messages: usize) -> Result<()> {
        let frames = self.frames()?;
        let before = (self.site.cpu()?, bench.nats.cpu()?, bench.postgres.cpu()?);
        self.talk(messages)?;
        let after = (self.site.cpu()?, bench.nats.cpu()?, bench.postgres.cpu()?);
        let frames_after = self.frames()?;
        let deliveries = (messages * self.sessions) as f64;
        let us = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6;
        let by_node: Vec<f64> = before.0.iter().zip(&after.0).map(|(before, after)| us(*before, *after)).collect();
        self.costs.push(by_node.iter().sum::<f64>() / deliveries);
        self.costs_by_node.iter_mut().zip(by_node).for_each(|(costs, us)| costs.push(us / deliveries));
        self.nats.push(us(before.1, after.1) / messages as f64);
        self.postgres.push(us(before.2, after.2) / messages as f64);
        self.owner_frames += frames_after[0] - frames[0];
        self.owner_bytes += frames_after[1] - frames[1];
        self.all_frames += frames_after[2] - frames[2];
        Ok(())
    }

    fn result(mut self, nats_rss_bytes: u64) -> Result<SiteResult> {
        let checked = self.crowd.ask("check")?;
        ensure!(checked["faults"] == 0, "{}: {checked}", self.name);
        let least = self.costs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.costs.iter().copied().fold(0.0, f64::max);
        Ok(SiteResult {
            name: self.name,
            cpu_us_per_delivery: median(self.costs),
            cpu_us_range: [least, most],
            cpu_us_by_node: self.costs_by_node.into_iter().map(median).collect(),
            nats_cpu_us_per_event: median(self.nats),
            postgres_cpu_us_per_event: median(self.postgres),
            last_socket_ms: Spread::of(self.last_ms),
            answer_ms: Spread::of(self.answer_ms),
            connect_cpu_us_by_node: self.connect_cpu_us_by_node,
            connect_bytes: self.connect_bytes,
            rss_bytes: self.site.rss_bytes()?,
            rss_bytes_before: self.rss_bytes_before,
            nats_rss_bytes,
        })
    }
}

/// Posts messages at a fixed rate, and waits for no client.
struct LinkPhase<'a> {
    site: &'a Site,
    crowd: &'a mut Role,
    owner: usize,
    /// The node whose link is slow at times.
    victim: usize,
    args: &'a ClusterArgs,
}

struct Streamed {
    from: u64,
    to: u64,
    busy_us_per_event: f64,
    busy_percent: f64,
    heard_there_percent: f64,
    heard_elsewhere_percent: f64,
}

impl LinkPhase<'_> {
    fn stream(&mut self, time: Duration) -> Result<Streamed> {
        let addr = self.site.addrs()[self.owner];
        let (busy, began) = (self.site.guild_busy(self.owner, GUILD)?, Instant::now());
        let every_us = 1_000_000 / self.args.rate;
        let reply = self.crowd.ask(&format!("stream {addr} {every_us} {}", time.as_millis()))?;
        let busy = self.site.guild_busy(self.owner, GUILD)?.saturating_sub(busy);
        let (from, to) = (reply["from"].as_u64().context("from")?, reply["to"].as_u64().context("to")?);
        let (there, elsewhere) = self.heard(from, to)?;
        Ok(Streamed {
            from,
            to,
            busy_us_per_event: busy.as_secs_f64() * 1e6 / (to + 1 - from) as f64,
            busy_percent: busy.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0,
            heard_there_percent: there,
            heard_elsewhere_percent: elsewhere,
        })
    }

    /// Deliveries of these messages on the slow node and on the others, in percent of all that are due.
    fn heard(&mut self, from: u64, to: u64) -> Result<(f64, f64)> {
        let reply = self.crowd.ask(&format!("heard {from} {to}"))?;
        let counts = floats(&reply["counts"]);
        let nodes = self.site.addrs().len();
        // The clients are spread in turn.
        let clients_of = |node: usize| (self.args.sessions + nodes - 1 - node) / nodes;
        let due_there = clients_of(self.victim) as f64 * (to + 1 - from) as f64;
        let due = self.args.sessions as f64 * (to + 1 - from) as f64;
        let there = counts.get(self.victim).copied().unwrap_or(0.0);
        let all: f64 = counts.iter().sum();
        Ok((there / due_there * 100.0, (all - there) / (due - due_there) * 100.0))
    }

    /// Waits until the clients of the slow node have heard all of it, or a while. Percent that they heard,
    /// and the time.
    fn catch_up(&mut self, streamed: &Streamed) -> Result<(f64, Duration)> {
        let began = Instant::now();
        let (mut before, mut changed) = (0.0, Duration::ZERO);
        loop {
            let (there, _) = self.heard(streamed.from, streamed.to)?;
            if there > before {
                (before, changed) = (there, began.elapsed());
            }
            if there >= 100.0 || began.elapsed() > CATCH_UP_TIMEOUT {
                return Ok((there, changed));
            }
            thread::sleep(ATTEMPT_EVERY);
        }
    }

    /// GUILD_DELETE and GUILD_CREATE so far, by node.
    fn outages(&mut self) -> Result<[Vec<u64>; 2]> {
        let reply = self.crowd.ask("outages")?;
        Ok(["gone", "back"].map(|key| reply[key].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()))
    }
}
