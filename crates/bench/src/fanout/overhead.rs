//! Overhead: cost of the accounts, or of a dark launch, on against off in blocks of one run.
//!
//! Invariants  blocks with and without it alternate, so that other load on the machine and the growth of buffers
//!             affect both. What counts is the median over pairs of neighbours.

use super::driver::Driver;
use crate::{Extra, median, p99};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::time::Instant;

/// Events of one block. A dark launch begins and ends with its block, and each connection looks at the taps again then.
fn block_events(extra: Extra) -> usize {
    match extra {
        Extra::Accounts => 10,
        Extra::Dark => 100,
    }
}

/// CPU of the partitions' threads per delivery; medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Overhead {
    /// Pairs of blocks.
    pub pairs: usize,
    pub on_us: f64,
    pub off_us: f64,
    /// Median of on / off of each pair.
    pub ratio: f64,
    /// CPU of the thread that works behind the partitions, of theirs: no block has it. It is that of the bandwidth
    /// bill, or of the lab.
    pub thread_ratio: f64,
    /// CPU of that thread, thousandths of a core.
    pub thread_permille: f64,
    /// 99th percentiles from accepted to delivered everywhere, milliseconds.
    pub on_p99_ms: f64,
    pub off_p99_ms: f64,
    extra: Extra,
}

/// Posts `events` in turn, and measures them by blocks.
pub fn measure(driver: &mut Driver, events: usize, extra: Extra) -> Result<Overhead> {
    let block_events = block_events(extra);
    let pairs = events / (2 * block_events);
    ensure!(pairs >= 3, "--overhead needs at least {} events", 6 * block_events);
    let (mut on, mut off, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut latencies = [Vec::new(), Vec::new()];
    let thread_ns = |driver: &Driver| match extra {
        Extra::Accounts => driver.bill.cpu_ns(),
        Extra::Dark => driver.dark.cpu_ns(),
    };
    let (first, thread_first_ns, started) = (driver.mark()?, thread_ns(driver), Instant::now());
    for pair in 0..pairs {
        // The first of a pair is with accounts in one pair, and without in the next.
        let first = pair % 2 == 0;
        let mut costs = [0.0; 2];
        for (cost, is_on) in costs.iter_mut().zip([first, !first]) {
            let from = driver.events.len();
            *cost = block(driver, is_on, extra)?;
            latencies[usize::from(is_on)].extend(driver.events.latencies_ms(from));
        }
        let [with, without] = if first { costs } else { [costs[1], costs[0]] };
        on.push(with);
        off.push(without);
        ratios.push(with / without);
    }
    let (cpu, used_ns) = (driver.mark()?.cpu.saturating_sub(first.cpu), (thread_ns(driver) - thread_first_ns) as f64);
    let [off_p99_ms, on_p99_ms] = latencies.map(p99);
    Ok(Overhead {
        thread_ratio: used_ns / cpu.as_nanos().max(1) as f64,
        thread_permille: used_ns / started.elapsed().as_nanos() as f64 * 1_000.0,
        pairs,
        on_us: median(on),
        off_us: median(off),
        ratio: median(ratios),
        on_p99_ms,
        off_p99_ms,
        extra,
    })
}

/// Microseconds per delivery of one block.
fn block(driver: &mut Driver, is_on: bool, extra: Extra) -> Result<f64> {
    match extra {
        Extra::Accounts => guildhall_accounting::set_on(is_on),
        Extra::Dark => driver.dark.set(is_on)?,
    }
    let before = driver.mark()?;
    driver.post_in_turn(block_events(extra))?;
    let after = driver.mark()?;
    guildhall_accounting::set_on(true);
    driver.dark.set(false)?;
    let deliveries = after.deliveries.saturating_sub(before.deliveries).max(1);
    Ok(after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / deliveries as f64)
}

impl Overhead {
    pub fn print(&self) {
        let what = self.extra.name();
        let thread = if self.extra == Extra::Dark { "lab" } else { "bandwidth bill" };
        let row = |name: &str, text: String| println!("{name:<26} {text}");
        row(&format!("{what} on"), format!("{:.3} µs per delivery, median of {} blocks", self.on_us, self.pairs));
        row(&format!("{what} off"), format!("{:.3} µs", self.off_us));
        row("on / off", format!("{:.3}, median of pairs", self.ratio));
        row("p99 of delivery", format!("{:.3} ms on, {:.3} ms off", self.on_p99_ms, self.off_p99_ms));
        row(
            thread,
            format!(
                "{:.3} of the partitions' CPU, {:.1} thousandths of a core, on its own thread",
                self.thread_ratio, self.thread_permille
            ),
        );
    }
}
