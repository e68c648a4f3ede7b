//! Moves: CPU time when all streams of a crowd leave their library contexts for shared-match at one event.
//!
//! Owns        `guildhall-bench moves`.
//! Invariants  all streams have a context that wrote to them before. The event that moves them, and those that follow,
//!             are of one traffic and go to all streams, in the same order.
//! Not here    which streams move: `ContextBudget`, which moves all recipients of an event that has more than 256.

use crate::{
    codec::{Auto, Mode, body_of},
    sched::thread_cpu,
    stats::Spread,
};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_traffic::{Chat, Event, Kind, Params, Traffic};
use serde::Serialize;
use std::time::Duration;

/// Events that contexts write to each stream first.
const BEFORE: usize = 8;
/// Events after the moves, the first of which is the one to compare with.
const AFTER: usize = 20;

/// Container of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Zstd,
    Zlib,
}

/// `guildhall-bench moves`.
#[derive(Clone, Copy, Debug, Args)]
pub struct MovesArgs {
    /// Number of streams. 10,000 zstd contexts have up to 7 GB.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    #[arg(long, value_enum, default_value_t = Format::Zstd)]
    format: Format,
    /// Everything that is drawn is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Times are CPU times of one thread.
#[derive(Debug, Serialize)]
struct MovesResult {
    connections: usize,
    format: Format,
    /// A message by a context, before.
    context_us: f64,
    /// All deliveries of the event at which the streams moved.
    moving_ms: f64,
    /// One delivery of that event, on average.
    moving_us_per_stream: f64,
    /// The longest delivery of it.
    moving_us_max: f64,
    /// The next event.
    next_ms: f64,
    /// Median of the later events.
    later_ms: f64,
    /// What moving adds to the next event's cost, per stream: the positions are as cold there as in the first.
    move_us: f64,
    /// Releasing a context, which later flushes do.
    release_us: f64,
}

struct Crowd {
    mode: Auto,
    seqs: Vec<u64>,
    out: Vec<u8>,
}

impl Crowd {
    /// Delivers an event to these streams. Returns the CPU time, and that of the longest delivery.
    fn deliver(&mut self, event: &Event, to: std::ops::Range<usize>, audience: usize) -> Result<(Duration, Duration)> {
        let mut frame = DispatchFrame::from_body(Encoding::Json, event.name, body_of(event, Encoding::Json))?;
        let from = thread_cpu();
        self.mode.prepare(event, audience, &mut frame)?;
        let (mut last, mut longest) = (thread_cpu(), Duration::ZERO);
        for conn in to.clone() {
            self.mode.warm(None, (conn + 1 < to.end).then_some(conn + 1));
            self.out.clear();
            self.seqs[conn] += 1;
            self.mode.deliver(conn, event, &mut frame, self.seqs[conn], &mut self.out)?;
            let now = thread_cpu();
            longest = longest.max(now - last);
            last = now;
        }
        Ok((last - from, longest))
    }
}

/// Runs the bench.
///
/// # Errors
/// The codec's own, or if a stream did not move.
pub fn run(args: MovesArgs) -> Result<()> {
    let MovesArgs { connections, format, seed, .. } = args;
    ensure!(connections > 256, "--connections must be more than 256: fewer are no crowd, and stay");
    let mut crowd = Crowd {
        mode: Auto::unlimited(format == Format::Zlib, Encoding::Json),
        seqs: vec![1_000; connections],
        out: Vec::new(),
    };
    for _ in 0..connections {
        crowd.mode.connect()?;
    }
    let params = Params { kind: Kind::Channel, seed, sessions: connections as u32 };
    let mut events = Traffic::new(params, Chat::built_in()).filter(|event| !event.is_private());
    let mut next = || events.next().ok_or_else(|| anyhow::anyhow!("the traffic ended"));
    let mut context = Duration::ZERO;
    for _ in 0..BEFORE {
        // Of small audiences: no stream moves.
        context += crowd.deliver(&next()?, 0..connections, 16)?.0;
    }
    ensure!(crowd.mode.contexts_count() == connections, "a stream left its context too early");
    let (moving, moving_max) = crowd.deliver(&next()?, 0..connections, connections)?;
    ensure!(crowd.mode.contexts_count() == 0, "a stream did not move");
    let (following, _) = crowd.deliver(&next()?, 0..connections, connections)?;
    let mut later = Vec::new();
    for _ in 0..AFTER {
        later.push(crowd.deliver(&next()?, 0..connections, connections)?.0.as_secs_f64() * 1e3);
    }
    let from = thread_cpu();
    let released = crowd.mode.release_all();
    let release = thread_cpu() - from;
    let each_us = |time: Duration, count: usize| time.as_secs_f64() * 1e6 / count.max(1) as f64;
    let result = MovesResult {
        connections,
        format,
        context_us: each_us(context, connections * BEFORE),
        moving_ms: moving.as_secs_f64() * 1e3,
        moving_us_per_stream: each_us(moving, connections),
        moving_us_max: moving_max.as_secs_f64() * 1e6,
        next_ms: following.as_secs_f64() * 1e3,
        later_ms: Spread::of(later).p50,
        move_us: each_us(moving, connections) - each_us(following, connections),
        release_us: each_us(release, released),
    };
    crate::report(args.json, &result, print)
}

fn print(result: &MovesResult) {
    println!("streams                    {}", result.connections);
    println!("a message by a context     {:.2} µs", result.context_us);
    println!("the event that moves all   {:.2} ms, {:.2} µs a delivery", result.moving_ms, result.moving_us_per_stream);
    println!("  longest delivery         {:.1} µs", result.moving_us_max);
    println!("the next event             {:.2} ms, later ones {:.2} ms", result.next_ms, result.later_ms);
    println!("a move                     {:.2} µs", result.move_us);
    println!("releasing a context later  {:.2} µs", result.release_us);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_moves_at_one_event() {
        for format in [Format::Zstd, Format::Zlib] {
            run(MovesArgs { connections: 300, format, seed: 1, json: true }).unwrap();
        }
        let few = MovesArgs { connections: 256, format: Format::Zstd, seed: 1, json: true };
        assert!(run(few).is_err_and(|error| error.to_string().contains("more than 256")));
    }
}
