//! Scheduler: CPU time of one thread, and its waiting time for a core, from the kernel's accounting.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::{fs::File, os::unix::fs::FileExt as _, time::Duration};

/// CPU time of the calling thread so far.
pub fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// A thread's books so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sched {
    /// On a processor.
    pub cpu: Duration,
    /// Ready to run while others ran.
    pub waited: Duration,
}

/// The books of the thread that opened them.
#[derive(Debug)]
pub struct SchedFile(File);

impl SchedFile {
    /// Those of the calling thread.
    ///
    /// # Errors
    /// Where there is no `/proc` with scheduler statistics.
    pub fn open() -> Result<Self> {
        File::open("/proc/thread-self/schedstat").map(Self).context("opening /proc/thread-self/schedstat")
    }

    /// The current values.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self) -> Result<Sched> {
        let mut text = [0; 96];
        let bytes = self.0.read_at(&mut text, 0).context("reading a thread's schedstat")?;
        parse(&text[..bytes]).context("a thread's schedstat is not what it was")
    }
}

/// "on_cpu_ns waited_ns timeslices".
fn parse(text: &[u8]) -> Option<Sched> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_whitespace().map(|n| n.parse().map(Duration::from_nanos));
    Some(Sched { cpu: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line() {
        let (cpu, waited) = (Duration::from_nanos(5_000_000_123), Duration::from_nanos(42));
        assert_eq!(parse(b"5000000123 42 17\n"), Some(Sched { cpu, waited }));
        assert_eq!(parse(b"5000000123"), None);
        assert_eq!(parse(b"x 1 2\n"), None);
    }

    #[test]
    fn used_time_does_not_shrink() {
        let file = SchedFile::open().unwrap();
        let before = file.read().unwrap();
        let after = file.read().unwrap();
        assert!(after.cpu >= before.cpu && after.waited >= before.waited);
    }
}
