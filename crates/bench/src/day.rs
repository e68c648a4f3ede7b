//! `guildhall-bench day`: a day of zstd-stream connections in fast motion, with real contexts and compressed messages.
//!
//! Owns        the connections, the clock of the day, and the three ways to spend it ([`Way`]). The controller, the
//!             gate and the slabs are the node's own; memory is what the system counts as resident.
//! Invariants  D1 with slabs, resident memory never passes the budget; the bench fails otherwise. D2 each way has the
//!             same arrivals, departures and messages.
//! Not here    the same day as a model, with more connections: `upgrades.rs`.

use crate::{
    role::{Role, say},
    upgrades::{HOUR_S, Mean, OFF_PEAK, STAYS, TICK_S, wave},
    usage::{cpu_ns, rss_bytes},
};
use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use guildhall_codec::{
    ContextParams, ContextPool, DispatchFrame, Encoding, Framing, StreamCompressor, Upgrade, UpgradeGate, ZstdParams,
};
use guildhall_memory_budget::{Reading, UpgradeConfig, UpgradeLoop};
use guildhall_stdx::{Instant, Rng};
use guildhall_traffic::{Chat, Kind, Params, Traffic};
use serde::{Deserialize, Serialize};
use std::{fs, path::PathBuf, time::Duration};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};

const DAY_S: u64 = 24 * HOUR_S;
/// Days before the reported one, so that it does not start with an empty node.
const DAYS_BEFORE: u64 = 1;
/// Ticks between two messages of a connection: 30 s.
const MESSAGE_TICKS: u64 = 6;
/// Messages of the traffic; each connection receives them in their order from a place of its own.
const EVENTS: usize = 12_000;
/// A way of a day takes some 20 s on two cores.
const WAY_TIMEOUT: Duration = Duration::from_secs(900);

/// `guildhall-bench day`.
#[derive(Clone, Debug, Args)]
pub struct DayArgs {
    /// Connections at the peak of the day. A context takes 0.7 MB, a larger one 1.3 MB.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    connections: u64,
    /// Of the memory budget, what they take at the peak without upgrades, percent.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=94))]
    fill: u64,
    /// Message texts, one JSON object with "turns" per line; a built-in list if absent.
    #[arg(long, value_name = "FILE")]
    chat: Option<PathBuf>,
    /// Of the pretended people.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// How contexts get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// In the node's slabs, with upgrades.
    Slabs,
    /// By the library, from the process's allocator, with upgrades.
    Library,
    /// In slabs, without upgrades.
    Fixed,
}

/// An hour of the day.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Hour {
    hour: u64,
    connections: u64,
    /// Of the connections at its end, those with a larger context.
    upgraded: f64,
    /// The most resident memory in it, of the budget.
    used_max: f64,
}

/// A day that was spent in one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Spent {
    /// Resident before the first connection, without contexts.
    base_bytes: u64,
    /// Resident memory at the highest, over all days, of the budget.
    used_max: f64,
    /// Of the connections that began off-peak, those with a larger context.
    off_peak_new_upgraded: f64,
    /// Of the connections that were there off-peak, on average over time.
    off_peak_upgraded: f64,
    /// The same over the whole day.
    day_upgraded: f64,
    /// Connections that began on that day.
    came: u64,
    /// Connections that received RECONNECT.
    taken_back: u64,
    messages: u64,
    raw_bytes: u64,
    wire_bytes: u64,
    /// CPU time of the process over all days, seconds.
    cpu_s: f64,
    hours: Vec<Hour>,
}

#[derive(Debug, Serialize)]
struct DayResult {
    connections: u64,
    seed: u64,
    chat_is_built_in: bool,
    /// Of the whole process.
    budget_bytes: u64,
    context_bytes: u64,
    upgraded_context_bytes: u64,
    /// Of `library`: `jemalloc`, or `system`.
    allocator: &'static str,
    slabs: Spent,
    library: Spent,
    fixed: Spent,
    /// Bytes on the wire that upgrades saved over the day, of those without upgrades, percent.
    saved_percent: f64,
}

/// Arguments of the process that spends a day in one way.
#[derive(Clone, Debug, Args)]
pub struct DayRole {
    way: Way,
    connections: u64,
    fill: u64,
    seed: u64,
    chat: Option<PathBuf>,
}

/// Runs the bench: each way in a process of its own.
pub fn run(args: &DayArgs) -> Result<()> {
    let contexts = ContextPool::default();
    let context_bytes = contexts.stats().zstd.slot_bytes;
    let upgraded_context_bytes = context_bytes + contexts.extra_bytes().context("there are no larger contexts")?;
    let spend = |way: Way| -> Result<Spent> {
        let name = way.to_possible_value().context("each way has a name")?;
        let mut words: Vec<String> = vec![name.get_name().to_owned()];
        words.extend([args.connections, args.fill, args.seed].map(|number| number.to_string()));
        words.extend(args.chat.iter().map(|path| path.display().to_string()));
        eprintln!("day: {}", name.get_name());
        Ok(serde_json::from_value(Role::start("day", &words)?.answer_within(WAY_TIMEOUT)?)?)
    };
    let (slabs, library, fixed) = (spend(Way::Slabs)?, spend(Way::Library)?, spend(Way::Fixed)?);
    ensure!(slabs.used_max <= 1.0, "with slabs, memory was {:.3} of the budget", slabs.used_max);
    let is_jemalloc = cfg!(all(feature = "jemalloc", not(feature = "count-allocations")));
    let result = DayResult {
        connections: args.connections,
        seed: args.seed,
        chat_is_built_in: args.chat.is_none(),
        budget_bytes: budget(slabs.base_bytes, args.connections, context_bytes, args.fill),
        context_bytes,
        upgraded_context_bytes,
        allocator: if is_jemalloc { "jemalloc" } else { "system" },
        saved_percent: 100.0 * (1.0 - slabs.wire_bytes as f64 / fixed.wire_bytes as f64),
        slabs,
        library,
        fixed,
    };
    crate::report(args.json, &result, print)
}

fn budget(base_bytes: u64, connections: u64, context_bytes: u64, fill: u64) -> u64 {
    base_bytes + connections * context_bytes * 100 / fill
}

fn print(result: &DayResult) {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let ways = [&result.slabs, &result.library, &result.fixed];
    let row = |name: &str, text: &dyn Fn(&Spent) -> String| {
        println!("{name:40}{}", ways.map(|spent| format!("{:>16}", text(spent))).concat());
    };
    println!("{:40}{:>16}{:>16}{:>16}", "", "slabs", result.allocator, "no upgrades");
    row("off-peak: upgraded of new connections", &|spent| percent(spent.off_peak_new_upgraded));
    row("off-peak: upgraded of all", &|spent| percent(spent.off_peak_upgraded));
    row("all day: upgraded of all", &|spent| percent(spent.day_upgraded));
    row("resident memory at most, of the budget", &|spent| percent(spent.used_max));
    row("connections of the day", &|spent| spent.came.to_string());
    row("asked to reconnect", &|spent| spent.taken_back.to_string());
    row("MB compressed", &|spent| format!("{:.1}", spent.raw_bytes as f64 / 1e6));
    row("MB on the wire", &|spent| format!("{:.2}", spent.wire_bytes as f64 / 1e6));
    println!("saved by upgrades                       {:>15.2} %", result.saved_percent);
}

/// Spends days in one way, and reports the last.
pub fn run_role(role: &DayRole) -> Result<()> {
    let chat = match &role.chat {
        Some(path) => Chat::parse(&fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?)?,
        None => Chat::built_in(),
    };
    let spent = Node::new(role, chat, EVENTS)?.days(role.connections, DAYS_BEFORE)?;
    say(&serde_json::to_value(&spent)?);
    Ok(())
}

/// A context of the library on the process's allocator.
struct Own {
    context: CCtx<'static>,
    /// Released with it.
    upgrade: Option<Upgrade>,
}

/// The stream of a connection.
enum Stream {
    Slab(StreamCompressor),
    Library(Box<Own>),
}

/// A connection: its stream, and its place in the traffic.
struct Connection {
    stream: Stream,
    next_event: usize,
    /// Ticks until its next message.
    wait: u64,
}

struct Node {
    way: Way,
    budget_bytes: u64,
    base_bytes: u64,
    contexts: ContextPool,
    extra_bytes: u64,
    /// Of contexts of the library; those of slabs have the pool's gate.
    gate: UpgradeGate,
    control: UpgradeLoop,
    rng: Rng,
    events: Vec<Vec<u8>>,
    living: [Vec<Connection>; STAYS.len()],
    out: Vec<u8>,
    came: u64,
    messages: u64,
    raw_bytes: u64,
    wire_bytes: u64,
}

impl Node {
    fn new(role: &DayRole, chat: Chat, events_count: usize) -> Result<Self> {
        let params = Params { kind: Kind::Session, seed: role.seed, sessions: 0 };
        let events = (1..).zip(Traffic::new(params, chat).take(events_count)).map(|(seq, event)| {
            let mut frame = DispatchFrame::from_body(Encoding::Json, event.name, &event.body_json)?;
            Ok(frame.write_for(seq, Framing::None).to_vec())
        });
        let events = events.collect::<Result<_>>()?;
        let contexts = ContextPool::new(ContextParams::default())?;
        let extra_bytes = contexts.extra_bytes().context("there are no larger contexts")?;
        let base_bytes = rss_bytes()?;
        Ok(Self {
            way: role.way,
            budget_bytes: budget(base_bytes, role.connections, contexts.stats().zstd.slot_bytes, role.fill),
            base_bytes,
            contexts,
            extra_bytes,
            gate: UpgradeGate::default(),
            control: UpgradeLoop::new(UpgradeConfig::default()),
            rng: Rng::new(role.seed),
            events,
            living: Default::default(),
            out: Vec::with_capacity(1 << 20),
            came: 0,
            messages: 0,
            raw_bytes: 0,
            wire_bytes: 0,
        })
    }

    fn gate(&self) -> &UpgradeGate {
        if self.way == Way::Library { &self.gate } else { self.contexts.gate() }
    }

    fn count(&self) -> u64 {
        self.living.iter().map(|living| living.len() as u64).sum()
    }

    fn upgraded_count(&self) -> u64 {
        self.living.iter().flatten().filter(|connection| self.is_upgraded(connection)).count() as u64
    }

    fn is_upgraded(&self, connection: &Connection) -> bool {
        match &connection.stream {
            Stream::Slab(stream) => stream.memory_bytes() as u64 > self.contexts.stats().zstd.slot_bytes,
            Stream::Library(own) => own.upgrade.is_some(),
        }
    }

    fn days(mut self, peak: u64, days_before: u64) -> Result<Spent> {
        let cpu_before = cpu_ns()?;
        let mut hours = vec![Hour::default(); 24];
        let (mut off_peak, mut whole, mut used_max) = (Mean::default(), Mean::default(), 0.0_f64);
        let (mut came, mut got, mut taken_back_before, mut came_before) = (0, 0, 0, 0);
        for second in (0..DAY_S * (days_before + 1)).step_by(TICK_S as usize) {
            if second == DAY_S * days_before {
                (self.messages, self.raw_bytes, self.wire_bytes) = (0, 0, 0);
                (taken_back_before, came_before) = (self.control.reclaimed_total(), self.came);
            }
            let drawn_before = self.gate().stats();
            let used = self.tick(second, peak)? as f64 / self.budget_bytes as f64;
            used_max = used_max.max(used);
            if second < DAY_S * days_before {
                continue;
            }
            let drawn = self.gate().stats();
            let upgraded = self.upgraded_count() as f64 / self.count().max(1) as f64;
            whole.add(upgraded);
            if (self.count() as f64) < OFF_PEAK * peak as f64 {
                off_peak.add(upgraded);
                came += drawn.drawn_total - drawn_before.drawn_total;
                got += drawn.granted_total - drawn_before.granted_total;
            }
            let index = (second % DAY_S / HOUR_S) as usize;
            let before = hours[index].used_max;
            hours[index] = Hour { hour: index as u64, connections: self.count(), upgraded, used_max: before.max(used) };
        }
        Ok(Spent {
            base_bytes: self.base_bytes,
            used_max,
            off_peak_new_upgraded: got as f64 / came.max(1) as f64,
            off_peak_upgraded: off_peak.mean(),
            day_upgraded: whole.mean(),
            came: self.came - came_before,
            taken_back: self.control.reclaimed_total() - taken_back_before,
            messages: self.messages,
            raw_bytes: self.raw_bytes,
            wire_bytes: self.wire_bytes,
            cpu_s: (cpu_ns()? - cpu_before) as f64 / 1e9,
            hours,
        })
    }

    /// Some connections end, some begin, messages are sent, and the loop decides. Returns the resident bytes.
    fn tick(&mut self, second: u64, peak: u64) -> Result<u64> {
        for (stay, (_, hours)) in STAYS.into_iter().enumerate() {
            let leaving = self.living[stay].len() as f64 * TICK_S as f64 / (hours * HOUR_S as f64);
            for _ in 0..(leaving + self.rng.fraction()) as u64 {
                self.leave(stay);
            }
        }
        let wanted = (peak as f64 * wave(second)) as u64;
        while self.count() > wanted {
            let nth = self.rng.below(self.count());
            self.leave(self.stay_of(nth as usize));
        }
        while self.count() < wanted {
            let drawn = self.rng.fraction();
            let stay = if drawn < STAYS[0].0 { 0 } else { usize::from(drawn >= STAYS[0].0 + STAYS[1].0) + 1 };
            let connection = Connection {
                stream: self.stream()?,
                next_event: self.rng.below(self.events.len() as u64) as usize,
                wait: 0,
            };
            self.came += 1;
            self.living[stay].push(connection);
        }
        self.send()?;
        let used_bytes = rss_bytes()?;
        if self.way != Way::Fixed {
            self.decide(second, used_bytes)?;
        }
        Ok(used_bytes)
    }

    fn stay_of(&self, mut nth: usize) -> usize {
        let place =
            self.living.iter().position(|living| nth.checked_sub(living.len()).map(|left| nth = left).is_none());
        place.unwrap_or(0)
    }

    fn leave(&mut self, stay: usize) {
        let nth = self.rng.below(self.living[stay].len() as u64) as usize;
        self.living[stay].swap_remove(nth);
    }

    fn decide(&mut self, second: u64, used_bytes: u64) -> Result<()> {
        let limit_bytes = self.budget_bytes * 100 / u64::from(UpgradeConfig::default().memory_percent);
        let (extra_bytes, upgraded_count) = (self.gate().stats().extra_bytes, self.upgraded_count());
        let reading = Reading { limit_bytes, used_bytes, extra_bytes, upgraded_count };
        let decision = self.control.handle_reading(Instant(second * 1_000), Some(reading));
        self.gate().set(decision.share_permille, decision.extra_bytes_max);
        for _ in 0..decision.reclaim_count.min(upgraded_count) {
            self.reconnect_one()?;
        }
        Ok(())
    }

    /// A client with a larger context receives RECONNECT, and reconnects.
    fn reconnect_one(&mut self) -> Result<()> {
        for stay in 0..STAYS.len() {
            if let Some(nth) = self.living[stay].iter().position(|connection| self.is_upgraded(connection)) {
                let Connection { next_event, wait, .. } = self.living[stay].swap_remove(nth);
                let stream = self.stream()?;
                let living = &mut self.living[stay];
                living.push(Connection { stream, next_event, wait });
                // The order decides which connections end next: it has to be that of the other ways.
                let last = living.len() - 1;
                living.swap(nth, last);
                return Ok(());
            }
        }
        Ok(())
    }

    fn stream(&self) -> Result<Stream> {
        if self.way != Way::Library {
            return Ok(Stream::Slab(self.contexts.zstd()));
        }
        let upgrade = self.gate.draw().then(|| self.gate.try_take(self.extra_bytes)).flatten();
        let more = u32::from(upgrade.is_some());
        let ZstdParams { level, window_log, chain_log, hash_log, block_bytes_max } = self.contexts.params().zstd;
        let mut context = CCtx::try_create().context("no memory for a context")?;
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::WindowLog(window_log + more),
            CParameter::ChainLog(chain_log + more),
            CParameter::HashLog(hash_log + more),
            CParameter::MaxBlockSize(block_bytes_max),
        ] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        Ok(Stream::Library(Box::new(Own { context, upgrade })))
    }

    /// Sends each connection that waits no longer its next message.
    fn send(&mut self) -> Result<()> {
        let Self { living, events, out, messages, raw_bytes, wire_bytes, .. } = self;
        for connection in living.iter_mut().flatten() {
            if connection.wait > 0 {
                connection.wait -= 1;
                continue;
            }
            connection.wait = MESSAGE_TICKS - 1;
            let message = &events[connection.next_event];
            connection.next_event = (connection.next_event + 1) % events.len();
            out.clear();
            match &mut connection.stream {
                Stream::Slab(stream) => stream.compress(&[message], out)?,
                Stream::Library(own) => flush(&mut own.context, message, out)?,
            }
            *messages += 1;
            *raw_bytes += message.len() as u64;
            *wire_bytes += out.len() as u64;
        }
        Ok(())
    }
}

/// Appends `message` to the stream, complete at its end.
fn flush(context: &mut CCtx<'_>, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.reserve(zstd_safe::compress_bound(message.len()) + 64);
    let mut output = OutBuffer::around(out);
    let mut input = InBuffer::around(message);
    let left = context.compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush).map_err(failed)?;
    ensure!(left == 0, "{left} bytes of a message did not fit");
    Ok(())
}

fn failed(code: usize) -> anyhow::Error {
    anyhow!("zstd: {}", zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d2_each_way_has_the_same_connections_and_messages() {
        let spend = |way| {
            let role = DayRole { way, connections: 10, fill: 80, seed: 3, chat: None };
            Node::new(&role, Chat::built_in(), 500).unwrap().days(10, 0).unwrap()
        };
        let [slabs, library, fixed] = [Way::Slabs, Way::Library, Way::Fixed].map(spend);
        for other in [&library, &fixed] {
            assert_eq!((slabs.came, slabs.messages, slabs.raw_bytes), (other.came, other.messages, other.raw_bytes));
        }
        assert!(slabs.came > 30 && slabs.messages > 15_000, "{slabs:?}");
        assert_eq!(fixed.day_upgraded, 0.0);
        assert!(slabs.wire_bytes < slabs.raw_bytes / 2);
    }
}
