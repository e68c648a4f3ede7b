//! Overhead: cost of the accounts, on against off in blocks of one run.
//!
//! Invariants  blocks with and without accounts alternate, so that other load on the machine and the growth of buffers
//!             affect both. What counts is the median over pairs of neighbours.

use super::driver::Driver;
use crate::median;
use anyhow::{Result, ensure};
use serde::Serialize;

/// Events of one block.
const BLOCK: usize = 10;

/// CPU of the partitions' threads per delivery; medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Overhead {
    /// Pairs of blocks.
    pub pairs: usize,
    pub on_us: f64,
    pub off_us: f64,
    /// Median of on / off of each pair.
    pub ratio: f64,
    /// CPU of the thread of the bandwidth bill, of that of the partitions: it works behind them, so no block has it.
    pub bill_ratio: f64,
}

/// Posts `events` in turn, and measures them by blocks.
pub fn measure(driver: &mut Driver, events: usize) -> Result<Overhead> {
    let pairs = events / (2 * BLOCK);
    ensure!(pairs >= 3, "--overhead needs at least {} events", 6 * BLOCK);
    let (mut on, mut off, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (first, bill_first_ns) = (driver.mark()?, driver.bill.cpu_ns());
    for pair in 0..pairs {
        // The first of a pair is with accounts in one pair, and without in the next.
        let first = pair % 2 == 0;
        let costs = [block(driver, first)?, block(driver, !first)?];
        let [with, without] = if first { costs } else { [costs[1], costs[0]] };
        on.push(with);
        off.push(without);
        ratios.push(with / without);
    }
    let (cpu, bill_ns) = (driver.mark()?.cpu.saturating_sub(first.cpu), driver.bill.cpu_ns() - bill_first_ns);
    let bill_ratio = bill_ns as f64 / cpu.as_nanos().max(1) as f64;
    Ok(Overhead { bill_ratio, pairs, on_us: median(on), off_us: median(off), ratio: median(ratios) })
}

/// Microseconds per delivery of one block.
fn block(driver: &mut Driver, is_on: bool) -> Result<f64> {
    guildhall_accounting::set_on(is_on);
    let before = driver.mark()?;
    driver.post_in_turn(BLOCK)?;
    let after = driver.mark()?;
    guildhall_accounting::set_on(true);
    let deliveries = after.deliveries.saturating_sub(before.deliveries).max(1);
    Ok(after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / deliveries as f64)
}

impl Overhead {
    pub fn print(&self) {
        println!("accounts on                {:.3} µs per delivery, median of {} blocks", self.on_us, self.pairs);
        println!("accounts off               {:.3} µs", self.off_us);
        println!("on / off                   {:.3}, median of pairs", self.ratio);
        println!("bandwidth bill             {:.3} of the partitions' CPU, on its own thread", self.bill_ratio);
    }
}
