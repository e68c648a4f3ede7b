//! Storm: many clients connect at once to one node, and what that costs.
//!
//! Owns        `guildhall-bench storm`: CPU, context switches and latency per connect when all identify, when all
//!             resume, and mixed, with its stages; resident memory per session; latency of other clients' messages
//!             meanwhile.
//! Invariants  each round has its own floor: as many bare upgrades by a program that does nothing else. Results are
//!             medians over the rounds.
//! Limits      one client process, so 20,000 files bound the clients. Not measured: the kernel's memory of a socket.

mod clients;
mod upgrades;

pub use clients::{SENT_AT, run as run_clients};
pub use upgrades::run as run_floor;

use crate::{
    WARM_SHARE, median,
    role::{Role, number},
};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long readers are measured before the storm.
const CALM: Duration = Duration::from_secs(5);
/// How long readers read for one command.
const READ_MS: u64 = 200;
/// The server notices within this time that its clients are gone.
const GONE_TIMEOUT: Duration = Duration::from_secs(60);

/// `guildhall-bench storm`.
#[derive(Clone, Copy, Debug, Args)]
pub struct StormArgs {
    /// Clients: bots, each a member of one guild.
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// Clients on their way at once.
    #[arg(long, default_value_t = 256)]
    in_flight: usize,
    /// Each: a floor, all identify, all resume, half of them each.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Clients of another guild. The bench measures their latency before all other clients resume, and meanwhile.
    #[arg(long, default_value_t = 0)]
    readers: usize,
    /// Messages per second for the readers.
    #[arg(long, default_value_t = 20)]
    rate: u64,
    /// Print what each message type of the loops takes of a connect.
    #[arg(long)]
    stages: bool,
    /// Do not wait until memory has settled; bytes per session are not reported.
    #[arg(long)]
    no_memory: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One kind of connect. CPU and switches are those of the whole server process, divided by the connects.
#[derive(Clone, Debug, Default, Serialize)]
struct Step {
    cpu_us: f64,
    context_switches: f64,
    /// From `connect` to GUILD_CREATE, RESUMED, or the answer to a bare upgrade.
    p50_ms: f64,
    p99_ms: f64,
    /// CPU and context switches by kind of thread.
    threads: BTreeMap<String, (f64, f64)>,
    /// Wall time in microseconds and number of messages by loop and message type, as a node counts them for `/metrics`.
    /// None of the floor.
    stages: BTreeMap<String, (f64, f64)>,
}

/// Memory per session beyond the first tenth.
#[derive(Clone, Debug, Serialize)]
struct Memory {
    /// Growth of the process's resident memory, without the bandwidth bill.
    bytes: u64,
    /// Estimates of the node by owner.
    owners: BTreeMap<String, f64>,
}

#[derive(Debug, Serialize)]
struct SessionMemory {
    /// Of a session that was not acknowledged anything yet.
    fresh: Memory,
    /// Of a session that has had a heartbeat.
    settled: Memory,
}

/// Latencies of messages, milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    messages: u64,
    p50_ms: f64,
    p99_ms: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Readers {
    count: usize,
    before: Latency,
    during: Latency,
    /// CPU of the server while all clients resumed, without what the readers took before in the same time.
    resumes_cpu_s: f64,
}

/// What `guildhall-bench storm` found.
#[derive(Debug, Serialize)]
struct StormResult {
    clients: usize,
    in_flight: usize,
    rounds: usize,
    floor: Step,
    /// With tokens that the server has not seen: nine tenths of the clients, once.
    first: Step,
    /// With tokens that it has seen.
    identify: Step,
    resume: Step,
    /// Half identify, half resume.
    mixed: Step,
    memory: Option<SessionMemory>,
    readers: Option<Readers>,
}

struct Storm {
    server: Role,
    clients: Role,
    floor: Role,
    args: StormArgs,
}

/// Runs the bench.
pub fn run(args: StormArgs) -> Result<()> {
    ensure!(args.clients >= WARM_SHARE && args.rounds > 0, "--clients must be at least 10 and --rounds at least 1");
    ensure!(args.in_flight > 0, "--in-flight must be at least 1");
    let dir = tempfile::tempdir().context("making a folder for the bench")?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mut server = Role::start("storm-server", &[args.clients.to_string(), args.readers.to_string(), path("")])?;
    let port = number(&server.answer()?, "port")?;
    let floor = Role::start("storm-floor", &[])?;
    let floor_port = number(&floor.answer()?, "port")?;
    let start_clients = |from: usize, count: usize| -> Result<Role> {
        let words = [port, floor_port, from as u64, count as u64, args.in_flight as u64].map(|n| n.to_string());
        let role = Role::start("storm-clients", &[&words[..], &[path("tokens")]].concat())?;
        role.answer()?;
        Ok(role)
    };
    let clients = start_clients(0, args.clients)?;
    server.ask("publish")?;
    let mut storm = Storm { server, clients, floor, args };
    let (first, memory) = storm.first()?;
    let [mut floors, mut identifies, mut resumes, mut mixed] = [const { Vec::new() }; 4];
    for _ in 0..args.rounds {
        floors.push(storm.bare()?);
        identifies.push(storm.step("identify")?);
        storm.cut()?;
        resumes.push(storm.step("resume")?);
        storm.cut()?;
        mixed.push(storm.step("mixed")?);
        storm.leave()?;
    }
    let readers = match args.readers {
        0 => None,
        count => Some(storm.beside(start_clients(args.clients, count)?)?),
    };
    let result = StormResult {
        clients: args.clients,
        in_flight: args.in_flight,
        rounds: args.rounds,
        floor: middle(&floors),
        first,
        identify: middle(&identifies),
        resume: middle(&resumes),
        mixed: middle(&mixed),
        memory,
        readers,
    };
    crate::report(args.json, &result, |result| print(result, args.stages))
}

impl Storm {
    /// All identify for the first time, with their memory per further session.
    fn first(&mut self) -> Result<(Step, Option<SessionMemory>)> {
        let (all, warm) = (self.args.clients, self.args.clients / WARM_SHARE);
        let (mut fresh, mut settled) = (Vec::new(), Vec::new());
        let mut step = Step::default();
        for count in [warm, all] {
            if !self.args.no_memory {
                // A commit has emptied the caches of the store's connections, which would grow again meanwhile.
                self.server.ask("warm")?;
            }
            let before = Usage::of_server(&mut self.server)?;
            let answer = self.clients.ask(&format!("identify {count}"))?;
            step = measured(&answer, &before, &Usage::of_server(&mut self.server)?)?;
            if !self.args.no_memory {
                fresh.push(self.held()?);
                self.clients.ask("beat")?;
                settled.push(self.held()?);
            }
        }
        self.leave()?;
        let further = (all - warm) as f64;
        let memory = match (&fresh[..], &settled[..]) {
            ([fresh_warm, fresh_all], [settled_warm, settled_all]) => Some(SessionMemory {
                fresh: Memory::of_each(fresh_warm, fresh_all, further),
                settled: Memory::of_each(settled_warm, settled_all, further),
            }),
            _ => None,
        };
        Ok((step, memory))
    }

    /// Memory of the server, once it has settled.
    fn held(&mut self) -> Result<Held> {
        let answer = self.server.ask("memory")?;
        let owners = serde_json::from_value(answer["owners"].clone()).context("the memory by owner")?;
        Ok(Held { bytes: number(&answer, "bytes")?, owners })
    }

    fn bare(&mut self) -> Result<Step> {
        let before = Usage::of_floor(&mut self.floor)?;
        let answer = self.clients.ask(&format!("bare {}", self.args.clients))?;
        let step = measured(&answer, &before, &Usage::of_floor(&mut self.floor)?)?;
        self.clients.ask("cut")?;
        Ok(step)
    }

    fn step(&mut self, kind: &str) -> Result<Step> {
        let before = Usage::of_server(&mut self.server)?;
        let answer = self.clients.ask(&format!("{kind} {}", self.args.clients))?;
        let after = Usage::of_server(&mut self.server)?;
        measured(&answer, &before, &after)
    }

    /// All connections end without a close frame.
    fn cut(&mut self) -> Result<()> {
        self.clients.ask("cut")?;
        self.wait_for("attached", "the sessions still have connections")
    }

    /// All sessions end.
    fn leave(&mut self) -> Result<()> {
        // The clients that identified in `mixed` left their earlier sessions.
        self.clients.ask("cut")?;
        self.server.ask("close")?;
        self.wait_for("sessions", "the sessions have not ended")
    }

    fn wait_for(&mut self, key: &str, otherwise: &str) -> Result<()> {
        let deadline = Instant::now() + GONE_TIMEOUT;
        while self.server.ask_number("sessions", key)? > 0 {
            ensure!(Instant::now() < deadline, "{otherwise}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// All clients resume while others receive messages.
    fn beside(&mut self, mut readers: Role) -> Result<Readers> {
        self.clients.ask(&format!("identify {}", self.args.clients))?;
        self.cut()?;
        let Self { server, clients, args, .. } = self;
        readers.ask(&format!("identify {}", args.readers))?;
        server.ask(&format!("talk {}", args.rate))?;
        // Latencies from before the measurement are dropped.
        readers.ask(&format!("read {}", CALM.as_millis() / 5))?;
        readers.ask("latency")?;
        let (calm_cpu, calm_since) = (server.ask_number("usage", "cpu_ns")?, Instant::now());
        readers.ask(&format!("read {}", CALM.as_millis()))?;
        let calm_ns = (server.ask_number("usage", "cpu_ns")? - calm_cpu) as f64 / calm_since.elapsed().as_secs_f64();
        let before = latency(&readers.ask("latency")?)?;
        let is_over = AtomicBool::new(false);
        let (cpu, since) = (server.ask_number("usage", "cpu_ns")?, Instant::now());
        thread::scope(|scope| -> Result<()> {
            let reading = scope.spawn(|| -> Result<()> {
                while !is_over.load(Ordering::Relaxed) {
                    readers.ask(&format!("read {READ_MS}"))?;
                }
                Ok(())
            });
            let resumed = clients.ask(&format!("resume {}", args.clients));
            is_over.store(true, Ordering::Relaxed);
            reading.join().map_err(|_| anyhow::anyhow!("the readers' thread panicked"))??;
            resumed.map(drop)
        })?;
        let took_ns = (server.ask_number("usage", "cpu_ns")? - cpu) as f64;
        let resumes_cpu_s = (took_ns - calm_ns * since.elapsed().as_secs_f64()) / 1e9;
        let during = latency(&readers.ask("latency")?)?;
        server.ask("talk 0")?;
        Ok(Readers { count: args.readers, before, during, resumes_cpu_s })
    }
}

/// Resident bytes of the server, and its estimates by owner.
struct Held {
    bytes: u64,
    owners: BTreeMap<String, u64>,
}

impl Memory {
    /// Growth from `before` to `after`, divided by this many sessions.
    fn of_each(before: &Held, after: &Held, sessions: f64) -> Self {
        let grown = |(name, bytes): (&String, &u64)| {
            let before = before.owners.get(name).copied().unwrap_or(0);
            (name.clone(), (*bytes as f64 - before as f64) / sessions)
        };
        Self {
            bytes: (after.bytes.saturating_sub(before.bytes) as f64 / sessions) as u64,
            owners: after.owners.iter().map(grown).collect(),
        }
    }
}

/// Counters of a process.
struct Usage {
    /// CPU nanoseconds and context switches by kind of thread.
    threads: BTreeMap<String, (u64, u64)>,
    /// Nanoseconds and messages by loop and message type.
    stages: BTreeMap<String, (u64, u64)>,
}

impl Usage {
    fn of_floor(role: &mut Role) -> Result<Self> {
        let threads = serde_json::from_value(role.ask("threads")?).context("the threads of a process")?;
        Ok(Self { threads, stages: BTreeMap::new() })
    }

    fn of_server(role: &mut Role) -> Result<Self> {
        let stages = serde_json::from_value(role.ask("stages")?).context("the stages of the server")?;
        Ok(Self { stages, ..Self::of_floor(role)? })
    }
}

/// The clients that `answer` reports, and what the server did meanwhile.
fn measured(answer: &Value, before: &Usage, after: &Usage) -> Result<Step> {
    let count = number(answer, "count")?.max(1) as f64;
    let grown = |before: &BTreeMap<String, (u64, u64)>, after: &BTreeMap<String, (u64, u64)>| {
        let each = |(name, (ns, number)): (&String, &(u64, u64))| {
            let (ns_before, number_before) = before.get(name).copied().unwrap_or_default();
            let us = ns.saturating_sub(ns_before) as f64 / 1e3;
            (name.clone(), (us / count, number.saturating_sub(number_before) as f64 / count))
        };
        after.iter().map(each).collect::<BTreeMap<_, _>>()
    };
    let threads = grown(&before.threads, &after.threads);
    Ok(Step {
        cpu_us: threads.values().map(|(cpu, _)| cpu).sum(),
        context_switches: threads.values().map(|(_, switches)| switches).sum(),
        p50_ms: float(answer, "p50_ms")?,
        p99_ms: float(answer, "p99_ms")?,
        threads,
        stages: grown(&before.stages, &after.stages),
    })
}

fn float(answer: &Value, key: &str) -> Result<f64> {
    answer[key].as_f64().with_context(|| format!("no {key} in {answer}"))
}

fn latency(answer: &Value) -> Result<Latency> {
    Ok(Latency {
        messages: number(answer, "count")?,
        p50_ms: float(answer, "p50_ms")?,
        p99_ms: float(answer, "p99_ms")?,
    })
}

/// Medians of every figure.
fn middle(steps: &[Step]) -> Step {
    let of = |figure: &dyn Fn(&Step) -> f64| median(steps.iter().map(figure).collect());
    let by_name = |part: fn(&Step) -> &BTreeMap<String, (f64, f64)>| {
        let names = steps.iter().flat_map(|step| part(step).keys()).cloned();
        let both = |name: String| {
            let figures = |step: &Step| part(step).get(&name).copied().unwrap_or_default();
            let both = (of(&|step| figures(step).0), of(&|step| figures(step).1));
            (name, both)
        };
        names.map(both).collect::<BTreeMap<_, _>>()
    };
    Step {
        cpu_us: of(&|step| step.cpu_us),
        context_switches: of(&|step| step.context_switches),
        p50_ms: of(&|step| step.p50_ms),
        p99_ms: of(&|step| step.p99_ms),
        threads: by_name(|step| &step.threads),
        stages: by_name(|step| &step.stages),
    }
}

fn print(result: &StormResult, with_stages: bool) {
    let StormResult { clients, in_flight, rounds, .. } = result;
    println!("{clients} clients, {in_flight} on their way at once, medians of {rounds} rounds; per connect:");
    println!("{:<10} {:>8} {:>9} {:>9} {:>9} {:>9}", "", "CPU µs", "× floor", "switches", "p50 ms", "p99 ms");
    let steps = [
        ("upgrade", &result.floor),
        ("first", &result.first),
        ("identify", &result.identify),
        ("resume", &result.resume),
        ("mixed", &result.mixed),
    ];
    for (name, step) in steps {
        let Step { cpu_us, context_switches, p50_ms, p99_ms, .. } = step;
        let ratio = cpu_us / result.floor.cpu_us;
        println!("{name:<10} {cpu_us:>8.1} {ratio:>9.2} {context_switches:>9.2} {p50_ms:>9.2} {p99_ms:>9.2}");
    }
    for (name, step) in &steps[1..] {
        let busy = step.threads.iter().filter(|(_, (cpu, switches))| *cpu >= 0.1 || *switches >= 0.01);
        for (thread, (cpu, switches)) in busy {
            println!("{name:<10} {cpu:>8.1} {:>9} {switches:>9.2}  {thread}", "");
        }
    }
    if with_stages {
        print_stages(&steps[1..]);
    }
    if let Some(SessionMemory { fresh, settled }) = &result.memory {
        println!("bytes per further session, fresh and after a heartbeat: {}, {} resident", fresh.bytes, settled.bytes);
        for (owner, bytes) in &fresh.owners {
            let settled = settled.owners.get(owner).copied().unwrap_or(0.0);
            if bytes.abs().max(settled.abs()) >= 1.0 {
                println!("  {bytes:>8.0} {settled:>8.0}  {owner}");
            }
        }
    }
    if let Some(Readers { count, before, during, resumes_cpu_s }) = &result.readers {
        println!("{count} readers, p50 · p99 of a message: {:.2} · {:.2} ms before, ", before.p50_ms, before.p99_ms);
        println!(
            "  {:.2} · {:.2} ms while {clients} resumed for {resumes_cpu_s:.2} s of CPU",
            during.p50_ms, during.p99_ms
        );
    }
}

fn print_stages(steps: &[(&str, &Step)]) {
    println!("{:<10} {:>8} {:>9}", "stages", "wall µs", "messages");
    for (name, step) in steps {
        let mut stages: Vec<_> = step.stages.iter().filter(|(_, (us, _))| *us >= 0.1).collect();
        stages.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        for (stage, (us, messages)) in stages {
            println!("{name:<10} {us:>8.1} {messages:>9.2}  {stage}");
        }
    }
}
