//! What a process has used so far, from the kernel's own books.

use anyhow::{Context, Result};
use std::fs;

/// CPU time of all threads of this process that live, user and system, in nanoseconds.
///
/// # Errors
/// Where there is no `/proc` with scheduler statistics.
pub fn cpu_ns() -> Result<u64> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task").context("reading /proc/self/task")? {
        // A thread may have ended since; what it used is lost, which is why the roles keep theirs.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let on_cpu = text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        total += on_cpu.context("reading a thread's schedstat")?;
    }
    Ok(total)
}

/// Resident memory of this process, in bytes.
///
/// # Errors
/// Where there is no `/proc`.
pub fn rss_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("VmRSS is no number")?;
    Ok(kib * 1024)
}
