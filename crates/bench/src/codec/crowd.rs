//! Crowd: many connections that watch the same traffic, each as its own session does, and what writing to them costs.
//!
//! Owns        one process's measurement of one mode: sizes over long streams, or CPU at some number of connections, or
//!             both by audience size on a node.
//! Invariants  an event is delivered to all who see it before the next comes, in the order of their connections: as a
//!             gateway does it, so each context is as cold as it would be there. Of sampled connections every byte is
//!             kept and decoded afterwards, and compared. CPU is that of this thread, without making the traffic and
//!             without decoding.

use super::mode::{Mode, Reader};
use crate::{median, sched::thread_cpu, usage};
use anyhow::{Result, ensure};
use guildhall_codec::{DispatchFrame, Encoding, Framing};
use guildhall_traffic::{Chat, Event, Kind, Params, Population, Traffic, Viewer};
use guildhall_ws_proto::{FrameHeader, Opcode};
use serde::{Deserialize, Serialize};
use std::{ops::AddAssign, sync::Arc, time::Duration};

/// Connections whose bytes are kept and decoded.
const SAMPLED: usize = 4;
/// Bytes kept of each of those; past it a connection is not sampled further.
const SAMPLE_BYTES_MAX: usize = 64 << 20;
/// Sequence numbers begin anywhere below this: sessions have been there for longer or shorter.
const SEQ_MAX: u64 = 100_000;

/// How far ahead a mode learns of deliveries, as in a partition.
const WARMED_SOON: usize = 8;
const WARMED_NEXT: usize = 4;

/// Bytes of a message with its WebSocket header, as the bandwidth bill and the meter count.
fn framed_bytes(payload_bytes: usize) -> u64 {
    (FrameHeader::new(Opcode::Binary, payload_bytes).len() + payload_bytes) as u64
}

/// Traffic and members that the connections follow.
pub struct Watched {
    pub kind: Kind,
    pub encoding: Encoding,
    pub seed: u64,
    pub chat: Chat,
}

/// How long to go on.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Deliveries per connection before anything is measured, so that windows are full and memory is touched …
    pub warm_up_deliveries: u64,
    /// … or as many as fit into this CPU time.
    pub warm_up_cpu: Duration,
    /// Number of rounds; the result is their median.
    pub rounds: usize,
    /// A round ends when it has used this CPU time, after a whole event …
    pub round_cpu: Duration,
    /// … or has had this number of deliveries.
    pub round_deliveries: u64,
}

/// Deliveries and what they took.
#[derive(Clone, Copy, Default)]
struct Cost {
    deliveries: u64,
    bytes: u64,
    raw_bytes: u64,
    shared_ns: u64,
    own_ns: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.deliveries += other.deliveries;
        self.bytes += other.bytes;
        self.raw_bytes += other.raw_bytes;
        self.shared_ns += other.shared_ns;
        self.own_ns += other.own_ns;
    }
}

impl Cost {
    fn us_each(self, ns: u64) -> f64 {
        ns as f64 / 1000.0 / self.deliveries.max(1) as f64
    }
}

/// The value of `d` in this encoding.
pub fn body_of(event: &Event, encoding: Encoding) -> &[u8] {
    match encoding {
        Encoding::Json => &event.body_json,
        Encoding::Etf => &event.body_etf,
    }
}

/// Bytes of long streams.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Sizes {
    pub sessions: usize,
    pub messages: u64,
    pub raw_bytes_per_message: f64,
    pub bytes_per_message: f64,
    /// Of each stream's first hundred messages only.
    pub bytes_per_early_message: f64,
    /// Without what only one session is sent: guilds, chunks of members, whole member lists.
    pub bytes_per_shared_message: f64,
    pub bytes_per_connection: u64,
}

/// CPU at some number of connections.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Cpu {
    /// Requested connections, or as many as fit into memory.
    pub connections: usize,
    pub deliveries: u64,
    pub warm_up_deliveries_per_connection: f64,
    /// Of what was sent after that: large crowds have less in common than the few streams of `Sizes`,
    /// and these are younger.
    pub bytes_per_delivery: f64,
    /// Time per delivery: work per event, divided by its recipients, and work per delivery.
    pub cpu_us_per_delivery: f64,
    /// Of that, what is made once per event.
    pub shared_us_per_delivery: f64,
    /// Growth of this process, in bytes per connection.
    pub resident_bytes_per_connection: u64,
    /// Messages of sampled connections that were decoded and compared.
    pub verified: u64,
}

impl Cpu {
    /// The median of several runs, each figure by itself; none of none.
    pub fn median(runs: Vec<Self>) -> Option<Self> {
        let of = |figure: fn(&Self) -> f64| median_or_0(runs.iter().map(figure));
        let last = *runs.last()?;
        Some(Self {
            cpu_us_per_delivery: of(|run| run.cpu_us_per_delivery),
            shared_us_per_delivery: of(|run| run.shared_us_per_delivery),
            bytes_per_delivery: of(|run| run.bytes_per_delivery),
            ..last
        })
    }
}

/// Costs of events whose number of recipients is in a range.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AudienceCost {
    /// Recipients of the smallest audience …
    pub audience_min: usize,
    /// … and of the largest.
    pub audience_max: usize,
    pub events: u64,
    pub deliveries: u64,
    pub raw_bytes_per_delivery: f64,
    pub bytes_per_delivery: f64,
    pub cpu_us_per_delivery: f64,
    pub shared_us_per_delivery: f64,
}

/// A node by audience size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeCosts {
    pub sessions: usize,
    /// Sessions that have a stream in this run: all, or a sample where streams share nothing.
    pub connections: usize,
    /// Events that happened before measuring began, and their recipients.
    pub warm_up_events: u64,
    pub warm_up_deliveries: u64,
    /// All events together.
    pub all: AudienceCost,
    /// From small to large.
    pub by_audience: Vec<AudienceCost>,
    pub state_bytes_per_connection: u64,
    /// What all connections share: history and indexes.
    pub shared_bytes: u64,
    pub verified: u64,
}

/// Largest audience of each row.
pub const AUDIENCES: [usize; 8] = [1, 4, 16, 64, 256, 1_024, 4_096, usize::MAX];

/// Data sent on a sampled connection.
struct Sample {
    conn: usize,
    reader: Reader,
    /// Event, sequence number, and where its bytes end.
    sent: Vec<(usize, u64, usize)>,
    wire: Vec<u8>,
}

type DeliveryObserver<'a> = dyn FnMut(&Event, usize, u64, u64) + 'a;

/// Recipients of events.
enum Watchers {
    Viewers(Vec<Viewer>),
    /// Every session of a node whose number is a multiple of the second has a connection.
    Node(Arc<Population>, usize),
}

impl Watchers {
    /// Connections that receive an event, and how many would if each session had one.
    fn find(&self, event: &Event, found: &mut Vec<usize>) -> usize {
        match self {
            Self::Viewers(viewers) => {
                found.clear();
                found.extend((0..viewers.len()).filter(|conn| viewers[*conn].sees(event)));
                found.len()
            }
            Self::Node(population, every) => {
                population.recipients(event, found);
                let audience = found.len();
                if *every > 1 {
                    found.retain(|session| session % every == 0);
                    found.iter_mut().for_each(|session| *session /= every);
                }
                audience
            }
        }
    }
}

struct Crowd<'a> {
    mode: &'a mut dyn Mode,
    encoding: Encoding,
    traffic: Traffic,
    watchers: Watchers,
    seqs: Vec<u64>,
    /// What happened so far that a sample has to be compared with.
    events: Vec<(Event, DispatchFrame)>,
    samples: Vec<Sample>,
    recipients: Vec<usize>,
    out: Vec<u8>,
    clock_ns: u64,
}

fn thread_cpu_ns() -> u64 {
    thread_cpu().as_nanos() as u64
}

/// What looking at the clock takes, at least.
fn clock_ns() -> u64 {
    let looks = (0..1000).map(|_| {
        let before = thread_cpu_ns();
        thread_cpu_ns() - before
    });
    looks.min().unwrap_or(0)
}

impl<'a> Crowd<'a> {
    fn new(mode: &'a mut dyn Mode, watched: &Watched, connections: usize) -> Self {
        let params = Params { kind: watched.kind, seed: watched.seed, sessions: connections as u32 };
        let traffic = Traffic::new(params, watched.chat.clone());
        let watchers = match traffic.population() {
            Some(population) => Watchers::Node(population, 1),
            None => Watchers::Viewers(Vec::new()),
        };
        Self {
            mode,
            encoding: watched.encoding,
            traffic,
            watchers,
            seqs: Vec::new(),
            events: Vec::new(),
            samples: Vec::new(),
            recipients: Vec::new(),
            out: Vec::with_capacity(1 << 20),
            clock_ns: clock_ns(),
        }
    }

    fn connect(&mut self, seed: u64, is_sampled: bool) -> Result<()> {
        let conn = self.seqs.len();
        if let Watchers::Viewers(viewers) = &mut self.watchers {
            viewers.push(Viewer::new(seed, conn as u32));
        }
        self.mode.connect()?;
        if is_sampled {
            self.samples.push(Sample { conn, reader: self.mode.reader()?, sent: Vec::new(), wire: Vec::new() });
        }
        self.seqs.push(1 + (conn as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % SEQ_MAX);
        Ok(())
    }

    /// Delivers the next event with recipients to all of them. `observer` receives deliveries to sampled connections:
    /// the event, the connection, and the bytes before and after.
    fn event(&mut self, observer: Option<&mut DeliveryObserver<'_>>) -> Result<Cost> {
        loop {
            let Some(event) = self.traffic.next() else { continue };
            self.watchers.find(&event, &mut self.recipients);
            if !self.recipients.is_empty() {
                return self.deliver(event, observer);
            }
        }
    }

    /// An event goes to `recipients`.
    fn deliver(&mut self, event: Event, mut observer: Option<&mut DeliveryObserver<'_>>) -> Result<Cost> {
        let mut frame = DispatchFrame::from_body(self.encoding, event.name, body_of(&event, self.encoding))?;
        let begin = thread_cpu_ns();
        self.mode.prepare(&event, self.recipients.len(), &mut frame)?;
        let prepared = thread_cpu_ns();
        self.out.clear();
        let samples = &mut self.samples;
        let mut next_sample = 0;
        let kept = self.events.len();
        let mut bytes = 0;
        for (at, conn) in self.recipients.iter().enumerate() {
            let ahead = |count: usize| self.recipients.get(at + count).copied();
            self.mode.warm(ahead(WARMED_SOON), ahead(WARMED_NEXT));
            let seq = self.seqs[*conn];
            self.seqs[*conn] += 1;
            self.out.clear();
            self.mode.deliver(*conn, &event, &mut frame, seq, &mut self.out)?;
            bytes += framed_bytes(self.out.len());
            // Both are in order.
            while samples.get(next_sample).is_some_and(|sample| sample.conn < *conn) {
                next_sample += 1;
            }
            if let Some(sample) = samples.get_mut(next_sample).filter(|sample| sample.conn == *conn) {
                if sample.wire.len() < SAMPLE_BYTES_MAX {
                    sample.wire.extend_from_slice(&self.out);
                    sample.sent.push((kept, seq, sample.wire.len()));
                }
                if let Some(observer) = &mut observer {
                    let raw_bytes = framed_bytes(frame.write_for(seq, Framing::None).len());
                    observer(&event, *conn, raw_bytes, framed_bytes(self.out.len()));
                }
            }
        }
        let end = thread_cpu_ns();
        let raw_bytes = self.recipients.len() as u64 * framed_bytes(frame.write_for(SEQ_MAX / 2, Framing::None).len());
        let is_sampled = samples.iter().any(|sample| sample.sent.last().is_some_and(|(event, ..)| *event == kept));
        if is_sampled {
            self.events.push((event, frame));
        }
        Ok(Cost {
            deliveries: self.recipients.len() as u64,
            bytes,
            raw_bytes,
            shared_ns: (prepared - begin).saturating_sub(self.clock_ns),
            own_ns: (end - prepared).saturating_sub(self.clock_ns),
        })
    }

    /// The next event of a node, with or without connected recipients: its audience, and its cost.
    fn event_of_node(&mut self) -> Result<(usize, Cost)> {
        loop {
            let Some(event) = self.traffic.next() else { continue };
            let audience = self.watchers.find(&event, &mut self.recipients);
            if audience > 0 {
                let is_connected = !self.recipients.is_empty();
                let cost = if is_connected { self.deliver(event, None)? } else { Cost::default() };
                return Ok((audience, cost));
            }
        }
    }

    /// As [`Crowd::verify`], when there is much to verify.
    fn verify_some(&mut self) -> Result<u64> {
        if self.events.len() < 1000 { Ok(0) } else { self.verify() }
    }

    /// Decodes what was sent on the sampled connections, and compares.
    fn verify(&mut self) -> Result<u64> {
        let mut verified = 0;
        for sample in &mut self.samples {
            let mut start = 0;
            for (event, seq, end) in sample.sent.drain(..) {
                let (event, frame) = &mut self.events[event];
                let read = sample.reader.read(&sample.wire[start..end])?;
                let sent = frame.write_for(seq, Framing::None);
                ensure!(
                    read == sent,
                    "connection {} was to be sent {} {seq} and its decoder read something else: {} bytes of {}",
                    sample.conn,
                    event.name,
                    read.len(),
                    sent.len(),
                );
                verified += 1;
                start = end;
            }
            sample.wire.clear();
        }
        self.events.clear();
        Ok(verified)
    }
}

/// Long streams of the first `sessions` sessions, until they had `messages` deliveries on average.
pub fn sizes(mode: &mut dyn Mode, watched: &Watched, sessions: usize, messages: u64) -> Result<Sizes> {
    const EARLY: u64 = 100;
    let mut crowd = Crowd::new(mode, watched, sessions);
    for _ in 0..sessions {
        crowd.connect(watched.seed, true)?;
    }
    let mut counts = vec![0_u64; sessions];
    let (mut raw, mut wire, mut early, mut early_count) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut shared, mut shared_count) = (0_u64, 0_u64);
    while counts.iter().sum::<u64>() < messages * sessions as u64 {
        crowd.event(Some(&mut |event, conn, raw_bytes, bytes| {
            counts[conn] += 1;
            raw += raw_bytes;
            wire += bytes;
            if counts[conn] <= EARLY {
                early += bytes;
                early_count += 1;
            }
            if !event.is_private() {
                shared += bytes;
                shared_count += 1;
            }
        }))?;
        // Otherwise samples for comparison would grow to gigabytes.
        if crowd.events.len() >= 1000 {
            crowd.verify()?;
        }
    }
    crowd.verify()?;
    let total: u64 = counts.iter().sum();
    let state: usize = (0..sessions).map(|conn| crowd.mode.state_bytes(conn)).sum();
    Ok(Sizes {
        sessions,
        messages: total,
        raw_bytes_per_message: raw as f64 / total as f64,
        bytes_per_message: wire as f64 / total as f64,
        bytes_per_early_message: early as f64 / early_count.max(1) as f64,
        bytes_per_shared_message: shared as f64 / shared_count.max(1) as f64,
        bytes_per_connection: (state / sessions) as u64,
    })
}

/// CPU per delivery with `connections` at once, or with as many as `memory_bytes` hold when each takes `state_bytes`.
pub fn cpu(
    mode: &mut dyn Mode,
    watched: &Watched,
    connections: usize,
    state_bytes: u64,
    memory_bytes: u64,
    limits: Limits,
) -> Result<Cpu> {
    let fit = memory_bytes.checked_div(state_bytes).map_or(usize::MAX, |fit| fit as usize);
    let connections = connections.min(fit.max(1));
    let mut crowd = Crowd::new(mode, watched, connections);
    let before = usage::rss_bytes()?;
    for conn in 0..connections {
        crowd.connect(watched.seed, conn % connections.div_ceil(SAMPLED) == 0)?;
    }

    let mut warm_up = Cost::default();
    while warm_up.deliveries < limits.warm_up_deliveries * connections as u64
        && warm_up.shared_ns + warm_up.own_ns < limits.warm_up_cpu.as_nanos() as u64
    {
        warm_up += crowd.event(None)?;
    }
    let resident = usage::rss_bytes()?.saturating_sub(before);

    let (mut all, mut shared, mut total, mut verified) = (Vec::new(), Vec::new(), Cost::default(), 0);
    for _ in 0..limits.rounds {
        verified += crowd.verify()?;
        let mut round = Cost::default();
        while round.shared_ns + round.own_ns < limits.round_cpu.as_nanos() as u64
            && round.deliveries < limits.round_deliveries
        {
            round += crowd.event(None)?;
        }
        all.push(round.us_each(round.shared_ns + round.own_ns));
        shared.push(round.us_each(round.shared_ns));
        total += round;
    }
    verified += crowd.verify()?;
    Ok(Cpu {
        connections,
        deliveries: total.deliveries,
        warm_up_deliveries_per_connection: warm_up.deliveries as f64 / connections as f64,
        bytes_per_delivery: total.bytes as f64 / total.deliveries.max(1) as f64,
        cpu_us_per_delivery: median(all),
        shared_us_per_delivery: median(shared),
        resident_bytes_per_connection: resident / connections as u64,
        verified,
    })
}

fn median_or_0(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    if values.is_empty() { 0.0 } else { median(values) }
}

/// Where costs of an audience size are counted.
fn row_of(audience: usize) -> usize {
    AUDIENCES.partition_point(|largest| *largest < audience)
}

/// CPU and bytes per delivery on a node, by audience size. One session in `every` has a connection. Every mode is given
/// the same events: rounds end after a number of recipients, whether these have connections or not.
pub fn node(
    mode: &mut dyn Mode,
    watched: &Watched,
    (sessions, every): (usize, usize),
    limits: Limits,
) -> Result<NodeCosts> {
    let mut crowd = Crowd::new(mode, watched, sessions);
    if let Watchers::Node(_, of) = &mut crowd.watchers {
        *of = every;
    }
    let connections = sessions.div_ceil(every);
    for conn in 0..connections {
        // The last is a bot's.
        crowd.connect(watched.seed, conn % connections.div_ceil(SAMPLED) == 0 || conn + 1 == connections)?;
    }

    let (mut warm_up, mut warm_up_events) = (0, 0);
    while warm_up < limits.warm_up_deliveries * sessions as u64 {
        warm_up += crowd.event_of_node()?.0 as u64;
        warm_up_events += 1;
        crowd.verify_some()?;
    }
    let mut verified = crowd.verify()?;

    let mut rounds: Vec<[Cost; AUDIENCES.len() + 1]> = Vec::new();
    let mut events = [0_u64; AUDIENCES.len() + 1];
    for _ in 0..limits.rounds {
        let (mut round, mut delivered) = ([Cost::default(); AUDIENCES.len() + 1], 0);
        while delivered < limits.round_deliveries {
            let (audience, cost) = crowd.event_of_node()?;
            delivered += audience as u64;
            for row in [row_of(audience), AUDIENCES.len()] {
                round[row] += cost;
                events[row] += 1;
            }
            verified += crowd.verify_some()?;
        }
        rounds.push(round);
    }
    verified += crowd.verify()?;

    let row = |row: usize| {
        let mut total = Cost::default();
        rounds.iter().for_each(|round| total += round[row]);
        let measured = || rounds.iter().map(|round| round[row]).filter(|cost| cost.deliveries > 0);
        let each = |bytes: u64| bytes as f64 / total.deliveries.max(1) as f64;
        AudienceCost {
            audience_min: row
                .checked_sub(1)
                .and_then(|row| AUDIENCES.get(row))
                .map_or(1, |smaller| smaller.saturating_add(1)),
            audience_max: AUDIENCES.get(row).copied().unwrap_or(usize::MAX).min(sessions),
            events: events[row],
            deliveries: total.deliveries,
            raw_bytes_per_delivery: each(total.raw_bytes),
            bytes_per_delivery: each(total.bytes),
            cpu_us_per_delivery: median_or_0(measured().map(|cost| cost.us_each(cost.shared_ns + cost.own_ns))),
            shared_us_per_delivery: median_or_0(measured().map(|cost| cost.us_each(cost.shared_ns))),
        }
    };
    let all = AudienceCost { audience_min: 1, ..row(AUDIENCES.len()) };
    let by_audience = (0..AUDIENCES.len()).map(row).filter(|row| row.deliveries > 0).collect();
    let state: usize = (0..connections).map(|conn| crowd.mode.state_bytes(conn)).sum();
    Ok(NodeCosts {
        sessions,
        connections,
        warm_up_events,
        warm_up_deliveries: warm_up,
        all,
        by_audience,
        state_bytes_per_connection: (state / connections) as u64,
        shared_bytes: crowd.mode.shared_bytes() as u64,
        verified,
    })
}
