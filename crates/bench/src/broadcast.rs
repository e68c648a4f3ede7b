//! Broadcast bench: one message to many compressed connections, compressed for each or prepared once, and what is
//! allocated.
//!
//! The published experiment: a broadcast to N connections that agreed on permessage-deflate, each compressing by
//! itself, against frames that are compressed and framed once. Here on the node's own partition, relay, sessions and
//! replay buffers, on one thread, with sockets that take everything and keep nothing.
//!
//! Owns        `guildhall-bench broadcast`.
//! Invariants  all modes deliver the same messages to the same sessions; only what is counted is between the first
//!             relay message and the last write.
//! Limits      modes whose contexts would take more than half of the available memory are left out, with a notice.
//! Not here    sockets: `guildhall-bench sockets`.

use super::{
    crowd,
    frames::{OP_IDENTIFY, Sink, frame, heartbeat},
    sched::thread_cpu,
    text, usage,
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use guildhall_codec::{ContextPool, Encoding};
use guildhall_guild::{Actor, Command, Guild, GuildLimits, NewMessage, Output as GuildOutput};
use guildhall_guild_protocol::{PartitionId, RelayStreams, ToRelay};
use guildhall_model::{Member, User};
use guildhall_net::{IdentifyGate, IdentifyLimits, SystemClock};
use guildhall_partition::{Account, Compression, ConnParams, Delivery, Output, Partition, PartitionConfig};
use guildhall_stdx::SlotKey;
use guildhall_ws_proto::DeflateParams;
use serde::Serialize;
use serde_json::json;
use std::{collections::VecDeque, sync::Arc};

/// GUILDS, GUILD_MESSAGES, MESSAGE_CONTENT.
const INTENTS: u32 = 1 | 1 << 9 | 1 << 15;
/// Messages before counting begins: buffers grow to their sizes.
const WARM_UP_MESSAGES: usize = 40;
/// Memory of a zlib context.
const CONTEXT_BYTES: u64 = 268 << 10;

/// `guildhall-bench broadcast`.
#[derive(Clone, Debug, Args)]
pub struct BroadcastArgs {
    /// Connections, with commas between the numbers of several runs.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    connections: Vec<usize>,
    /// Messages, each to all connections.
    #[arg(long, default_value_t = 20)]
    messages: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Compression of the broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Without compression.
    Plain,
    /// Each connection the whole message, by itself and without context takeover; the compressor is kept and shared.
    PerConnection,
    /// Each connection with a context of its own.
    Takeover,
    /// The first recipient for all others.
    Prepared,
}

const MODES: [Mode; 4] = [Mode::Plain, Mode::PerConnection, Mode::Takeover, Mode::Prepared];

impl Mode {
    fn compression(self) -> Compression {
        match self {
            // Compressed where it is sent, as a library under an application does.
            Self::Plain | Self::PerConnection => Compression::None,
            Self::Takeover | Self::Prepared => Compression::Deflate(DeflateParams {
                server_no_context_takeover: self == Self::Prepared,
                client_no_context_takeover: true,
                ..DeflateParams::default()
            }),
        }
    }
}

/// One mode at one size. Per broadcast and per delivery, medians are not needed: nothing here waits.
#[derive(Debug, Serialize)]
struct Row {
    connections: usize,
    mode: Mode,
    deliveries: u64,
    cpu_us_per_delivery: f64,
    bytes_per_delivery: f64,
    /// Null in a binary that does not count them.
    allocations_per_broadcast: Option<f64>,
    allocations_per_delivery: Option<f64>,
    compressions_per_broadcast: f64,
    context_bytes_per_connection: u64,
}

/// Runs `guildhall-bench broadcast`.
///
/// # Errors
/// For arguments that make no sense.
pub fn run(args: &BroadcastArgs) -> Result<()> {
    ensure!(args.messages > 0 && args.connections.iter().all(|n| *n > 0), "--connections and --messages start at 1");
    let mut rows = Vec::new();
    for connections in &args.connections {
        for mode in MODES {
            let needed = *connections as u64 * CONTEXT_BYTES;
            if mode == Mode::Takeover && needed > usage::available_bytes()? / 2 {
                eprintln!("takeover is left out at {connections} connections: its contexts take {} MiB", needed >> 20);
                continue;
            }
            rows.push(measure(mode, *connections, args.messages)?);
        }
    }
    if args.json {
        println!("{}", serde_json::to_string(&json!({"messages": args.messages, "rows": rows}))?);
        return Ok(());
    }
    println!("connections  mode            µs/delivery  bytes/delivery  allocations/broadcast  compressions/broadcast");
    for row in &rows {
        let mode = serde_json::to_value(row.mode)?;
        let allocations = row.allocations_per_broadcast.map_or("not counted".to_owned(), |count| format!("{count:.1}"));
        println!(
            "{:>11}  {:<14} {:>12.3} {:>15.1} {:>22} {:>23.1}",
            row.connections,
            mode.as_str().unwrap_or_default(),
            row.cpu_us_per_delivery,
            row.bytes_per_delivery,
            allocations,
            row.compressions_per_broadcast
        );
    }
    if rows.iter().any(|row| row.allocations_per_broadcast.is_none()) {
        println!("allocations are counted by a binary that is built with --features count-allocations");
    }
    Ok(())
}

fn measure(mode: Mode, connections: usize, messages: usize) -> Result<Row> {
    let mut room = Room::new(mode, connections)?;
    for _ in 0..WARM_UP_MESSAGES {
        let message = room.say()?;
        room.deliver(message);
    }
    room.heartbeats()?;
    for _ in 0..WARM_UP_MESSAGES {
        let message = room.say()?;
        room.deliver(message);
    }
    let sent: Vec<ToRelay> = (0..messages).map(|_| room.say()).collect::<Result<_>>()?;
    let before = room.counts();
    let started = thread_cpu();
    let allocations = count_allocations(|| sent.into_iter().for_each(|message| room.deliver(message)));
    let cpu = thread_cpu().saturating_sub(started);
    let after = room.counts();
    let deliveries = after.deliveries - before.deliveries;
    ensure!(deliveries == (connections * messages) as u64, "{deliveries} deliveries");
    let compressions = after.compressions - before.compressions;
    let expected = match mode {
        Mode::Plain => 0,
        Mode::PerConnection | Mode::Takeover => deliveries,
        Mode::Prepared => messages as u64,
    };
    ensure!(compressions == expected, "{mode:?} compressed {compressions} times instead of {expected}");
    let per_delivery = |value: f64| value / deliveries as f64;
    Ok(Row {
        connections,
        mode,
        deliveries,
        cpu_us_per_delivery: per_delivery(cpu.as_nanos() as f64 / 1000.0),
        bytes_per_delivery: per_delivery((after.bytes - before.bytes) as f64),
        allocations_per_broadcast: allocations.map(|count| count as f64 / messages as f64),
        allocations_per_delivery: allocations.map(|count| per_delivery(count as f64)),
        compressions_per_broadcast: compressions as f64 / messages as f64,
        context_bytes_per_connection: room.partition.compression_bytes() as u64 / connections as u64,
    })
}

#[cfg(feature = "count-allocations")]
fn count_allocations(work: impl FnOnce()) -> Option<u64> {
    Some(allocation_counter::measure(work).count_total)
}

#[cfg(not(feature = "count-allocations"))]
fn count_allocations(work: impl FnOnce()) -> Option<u64> {
    work();
    None
}

/// A guild, its relay's partition, and bots that listen.
struct Room {
    mode: Mode,
    clock: SystemClock,
    partition: Partition,
    contexts: ContextPool,
    guild: Guild,
    link: Sink,
    streams: RelayStreams,
    mail: VecDeque<ToRelay>,
    conns: Vec<SlotKey>,
    messages_count: usize,
}

#[derive(Clone, Copy)]
struct Counts {
    deliveries: u64,
    bytes: u64,
    compressions: u64,
}

impl Room {
    fn new(mode: Mode, connections: usize) -> Result<Self> {
        let mut record = crowd::record(connections, 0, 0);
        for member in &mut record.members {
            let mut user = (*member.user).clone();
            (user.bot, user.application_flags) = (true, User::APPLICATION_PRIVILEGED);
            let user = Arc::new(user);
            *member = Arc::new(Member { user, ..(**member).clone() });
        }
        let users: Vec<_> = record.members.iter().map(|member| member.user.clone()).collect();
        let gate = Arc::new(IdentifyGate::new(IdentifyLimits::default()));
        let config = PartitionConfig::new(PartitionId(0), "ws://127.0.0.1".into(), [7; 32]);
        let link = match mode {
            Mode::PerConnection => Sink::deflating(),
            Mode::Plain | Mode::Takeover | Mode::Prepared => Sink::default(),
        };
        let mut room = Self {
            mode,
            clock: SystemClock::default(),
            contexts: config.contexts.clone(),
            partition: Partition::new(config, gate),
            guild: Guild::load(record, GuildLimits::default(), 1),
            link,
            streams: RelayStreams::default(),
            mail: VecDeque::new(),
            conns: Vec::new(),
            messages_count: 0,
        };
        let params = ConnParams { encoding: Encoding::Json, compression: mode.compression() };
        let properties = json!({"os": "linux", "browser": "bench", "device": "bench"});
        for user in users {
            // A node limits IDENTIFYs per token.
            let token = user.id.to_string();
            let identify = json!({"token": token, "intents": INTENTS, "properties": properties});
            let now = room.clock.now();
            let key = room.partition.accept(now, params, &mut room.link);
            room.partition.handle_bytes(now, key, &mut frame(OP_IDENTIFY, &identify)?, &mut room.link);
            let account = Account { user, guilds: vec![crowd::GUILD], token: 0, expires_at: None, admission: None };
            room.partition.handle_authenticated(now, key, Ok(account), &mut room.link);
            room.conns.push(key);
            room.go_around();
        }
        ensure!(room.partition.sessions_count() == connections, "not all clients could log in");
        room.heartbeats()?;
        Ok(room)
    }

    fn go_around(&mut self) {
        let now = self.clock.now();
        loop {
            while let Some(output) = self.partition.poll_output() {
                if let Output::ToGuild(_, message) = output {
                    self.streams.handle(&message);
                    self.guild.handle_relay(now, message);
                }
            }
            self.take_mail();
            if self.mail.is_empty() {
                break;
            }
            while let Some(message) = self.mail.pop_front() {
                self.partition.handle_guild(now, message, Delivery::Now, &mut self.link);
            }
        }
        self.partition.flush(now, &mut self.link);
    }

    fn take_mail(&mut self) {
        while let Some(output) = self.guild.poll_output() {
            if let GuildOutput::Relay(output) = output {
                self.mail.extend(self.streams.send(output));
            }
        }
    }

    /// A message on its way to the partition.
    fn say(&mut self) -> Result<ToRelay> {
        let new = NewMessage { content: text::sentence(self.messages_count), ..NewMessage::default() };
        self.messages_count += 1;
        let command = Command::CreateMessage(crowd::channel_id(0), Box::new(new));
        self.guild.handle_command(self.clock.now(), Actor::User(crowd::user_id(0)), &command);
        self.take_mail();
        self.mail.pop_front().context("the guild sent the message to no relay")
    }

    /// The measured part.
    fn deliver(&mut self, message: ToRelay) {
        let now = self.clock.now();
        self.partition.handle_guild(now, message, Delivery::Now, &mut self.link);
        self.partition.flush(now, &mut self.link);
    }

    /// All clients acknowledge everything.
    fn heartbeats(&mut self) -> Result<()> {
        let (now, beat) = (self.clock.now(), heartbeat()?);
        for key in &self.conns {
            self.partition.handle_bytes(now, *key, &mut beat.clone(), &mut self.link);
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        let counters = self.partition.counters();
        let compressions = match self.mode {
            // All but those for which there was no room for a context.
            Mode::Takeover => counters.dispatches_total.saturating_sub(self.contexts.stats().stored_total),
            Mode::PerConnection => self.link.compressed_count(),
            Mode::Plain | Mode::Prepared => counters.deflate_shared_bodies_total,
        };
        Counts { deliveries: counters.dispatches_total, bytes: self.link.bytes, compressions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More connections than may identify with one token; `measure` itself compares deliveries and compressions.
    #[test]
    fn every_mode_delivers_to_a_hundred() {
        for mode in MODES {
            let row = measure(mode, 100, 3).unwrap();
            assert!(row.bytes_per_delivery > 0.0, "{mode:?}");
        }
    }
}
