//! CPU time and memory of a process, from the kernel's accounting.

use anyhow::{Context, Result};
use std::{collections::BTreeMap, fs, thread, time::Duration};

/// The allocator returns freed memory within about ten seconds.
const SETTLE_STEP: Duration = Duration::from_millis(500);
const SETTLE_STEPS_MAX: usize = 40;
/// The allocator starts slowly: before this, little change means nothing.
const SETTLE_STEPS_MIN: usize = 20;
/// So many steps with less than `SETTLED_BYTES` between them, and memory has settled.
const QUIET_STEPS: usize = 4;
const SETTLED_BYTES: u64 = 1 << 20;

/// CPU time of all threads of this process that live, user and system, in nanoseconds.
///
/// # Errors
/// Where there is no `/proc` with scheduler statistics.
pub fn cpu_ns() -> Result<u64> {
    Ok(cpu_of(std::process::id())?.as_nanos() as u64)
}

/// The same of a process by its id.
///
/// # Errors
/// Where there is no such process, or no `/proc` with scheduler statistics.
pub fn cpu_of(process: u32) -> Result<Duration> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{process}/task")).context("reading the threads of a process")? {
        // A thread may have ended since; its CPU time is lost, so the roles keep their threads.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let on_cpu = text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        total += on_cpu.context("reading a thread's schedstat")?;
    }
    Ok(Duration::from_nanos(total))
}

/// CPU time in nanoseconds and context switches of the threads of this process, by their name without its number.
///
/// # Errors
/// Where there is no `/proc` with scheduler statistics.
pub fn threads() -> Result<BTreeMap<String, (u64, u64)>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").context("reading our threads")? {
        let task = task?.path();
        let read = |name: &str| fs::read_to_string(task.join(name));
        // It may have ended since.
        let (Ok(name), Ok(stat), Ok(status)) = (read("comm"), read("schedstat"), read("status")) else { continue };
        let on_cpu = stat.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        let (cpu_ns, switches): &mut (u64, u64) = all.entry(kind_of_thread(&name)).or_default();
        *cpu_ns += on_cpu.context("reading a thread's schedstat")?;
        let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        *switches += lines.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>();
    }
    Ok(all)
}

/// The name of a thread without its number.
fn kind_of_thread(name: &str) -> String {
    name.trim().trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned()
}

/// Resident memory of this process, in bytes.
///
/// # Errors
/// Where there is no `/proc`.
pub fn rss_bytes() -> Result<u64> {
    status_bytes(std::process::id(), "VmRSS:")
}

/// A line of a process's `status`, in bytes.
///
/// # Errors
/// Where there is no such process or line.
pub fn status_bytes(process: u32, key: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).context("the process is gone")?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("{key} is no number"))?;
    Ok(kib << 10)
}

/// Waits until the allocator has returned freed memory; returns the resident bytes.
///
/// # Errors
/// Where there is no `/proc`.
pub fn settled_rss_bytes() -> Result<u64> {
    let mut before = rss_bytes()?;
    let mut quiet = 0;
    // There is no state to wait for: memory goes back some time after it was freed.
    for step in 0..SETTLE_STEPS_MAX {
        thread::sleep(SETTLE_STEP);
        let now = rss_bytes()?;
        quiet = if before.abs_diff(now) < SETTLED_BYTES { quiet + 1 } else { 0 };
        before = now;
        if quiet >= QUIET_STEPS && step >= SETTLE_STEPS_MIN {
            break;
        }
    }
    Ok(before)
}

/// Memory that can be had without swapping.
///
/// # Errors
/// Where there is no `/proc/meminfo`.
pub fn available_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    parse_available(&text).context("no MemAvailable in /proc/meminfo")
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_kind_are_one() {
        assert_eq!(kind_of_thread("partition-12\n"), "partition");
        assert_eq!(kind_of_thread("tokio-rt-worker\n"), "tokio-rt-worker");
        let before = threads().unwrap();
        assert!(before.values().map(|(cpu_ns, _)| cpu_ns).sum::<u64>() > 0);
    }

    #[test]
    fn available_memory() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:   12345 kB\n"), Some(12_345 * 1024));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: lots\n"), None);
    }
}
