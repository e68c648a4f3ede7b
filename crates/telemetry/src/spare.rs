//! Spare time: threads of the lowest priority with a CPU budget, for the bandwidth bill and for the lab.
//!
//! Owns        the thread (`SpareThread`) and its budget (`CpuBudget`).
//! Invariants  B1 a thread uses at most its thousandths of a core, of the time since they changed, and `BURST_NS` in a
//!             row; then it pauses. A step that takes longer is made up for by the pause. (test `b1_*`) What does not
//!             fit the queue meanwhile ends the sample of its connection.
//! Not here    the work: `guildhall_partition::BillWorker`, and recordings of the lab.

use guildhall_codec::CodecError;
use guildhall_partition::BillWorker;
use rustix::time::{ClockId, clock_gettime};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Thousandths of a core for the bandwidth bill.
const BILL_CPU_PERMILLE: u64 = 10;
/// CPU time that a thread which was idle for `BURST_NS` / its share may use at once: some 100 KB of READY
/// in both codecs.
const BURST_NS: u64 = 20_000_000;
/// How often the thread polls for frames: the hot path wakes no thread.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The lowest priority.
const NICE: i32 = 19;

/// Work of a thread, in small steps.
pub trait SpareWork: Send + 'static {
    /// Name of the thread.
    const NAME: &'static str;

    /// Does a step. False: there is nothing to do now.
    ///
    /// # Errors
    /// The work ends.
    fn step(&mut self) -> Result<bool, CodecError>;

    /// Takes the CPU time of the thread so far.
    fn set_cpu_ns(&mut self, ns: u64);

    /// Thousandths of a core that the thread may use.
    fn cpu_permille(&self) -> u64;
}

impl SpareWork for BillWorker {
    const NAME: &'static str = "bill";

    fn step(&mut self) -> Result<bool, CodecError> {
        Self::step(self)
    }

    fn set_cpu_ns(&mut self, ns: u64) {
        Self::set_cpu_ns(self, ns);
    }

    fn cpu_permille(&self) -> u64 {
        BILL_CPU_PERMILLE
    }
}

/// Runs until it is dropped.
#[derive(Debug)]
pub struct SpareThread {
    thread: Option<JoinHandle<()>>,
    is_ended: Arc<AtomicBool>,
}

impl SpareThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start<W: SpareWork>(mut work: W) -> io::Result<Self> {
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = is_ended.clone();
        let thread = thread::Builder::new().name(W::NAME.to_owned()).spawn(move || {
            // Of this thread alone, as Linux does it. Where it is refused, the budget is enough.
            let _ = rustix::process::setpriority_process(None, NICE);
            run(&mut work, &ended);
        })?;
        Ok(Self { thread: Some(thread), is_ended })
    }
}

impl Drop for SpareThread {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends with the frame at hand.
            let _ = thread.join();
        }
    }
}

fn run<W: SpareWork>(work: &mut W, is_ended: &AtomicBool) {
    let started = Instant::now();
    let mut budget = CpuBudget::default();
    while !is_ended.load(Ordering::Relaxed) {
        match work.step() {
            Ok(true) => {}
            Ok(false) => thread::park_timeout(LOOK_EVERY),
            Err(error) => {
                tracing::warn!(target: "guildhall::bill", thread = W::NAME, %error, "a thread ends: a frame cannot be compressed");
                return;
            }
        }
        let cpu_ns = thread_cpu_ns();
        work.set_cpu_ns(cpu_ns);
        let pause_until = started.elapsed() + budget.pause(started.elapsed(), cpu_ns, work.cpu_permille());
        while !is_ended.load(Ordering::Relaxed)
            && let Some(left) = pause_until.checked_sub(started.elapsed()).filter(|left| !left.is_zero())
        {
            thread::park_timeout(left);
        }
    }
}

/// CPU time of this thread.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Credit of CPU time, which grows with the clock up to `BURST_NS`.
#[derive(Debug, Default)]
struct CpuBudget {
    credit_ns: i64,
    at: Duration,
    cpu_ns: u64,
    permille: u64,
}

impl CpuBudget {
    /// How long to pause, at this time and with this CPU time in all.
    fn pause(&mut self, now: Duration, cpu_ns: u64, permille: u64) -> Duration {
        if permille == self.permille {
            let earned = now.saturating_sub(self.at).as_nanos() as u64 * permille / 1_000;
            self.credit_ns = (self.credit_ns + earned as i64).min(BURST_NS as i64);
        } else {
            // Time that was saved before is not for the work that begins now.
            (self.credit_ns, self.permille) = (self.credit_ns.min(0), permille);
        }
        self.credit_ns -= cpu_ns.saturating_sub(self.cpu_ns) as i64;
        (self.at, self.cpu_ns) = (now, cpu_ns);
        match u64::try_from(-self.credit_ns) {
            Ok(debt_ns) => Duration::from_nanos(debt_ns * 1_000 / permille.max(1)),
            Err(_) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_codec::ContextPool;
    use guildhall_partition::Bill;

    #[test]
    fn b1_cpu_time_stays_within_the_budget() {
        let mut budget = CpuBudget::default();
        let (mut now, mut cpu_ns) = (Duration::ZERO, 0);
        // Always something to do, in steps of 0.1 to 30 ms: each is made up for before the next.
        for step in 0..2_000u64 {
            let used = 100_000 + step * 7_919 % 30_000_000;
            cpu_ns += used;
            now += Duration::from_nanos(used);
            now += budget.pause(now, cpu_ns, BILL_CPU_PERMILLE);
            let allowed = now.as_nanos() as u64 * BILL_CPU_PERMILLE / 1_000;
            assert!(cpu_ns <= allowed + 30_000_000 / 100, "{cpu_ns} ns in {now:?}");
        }
        // Idle time is no savings beyond a burst.
        now += Duration::from_secs(3_600);
        assert_eq!(budget.pause(now, cpu_ns, BILL_CPU_PERMILLE), Duration::ZERO);
        assert_eq!(budget.pause(now, cpu_ns + BURST_NS, BILL_CPU_PERMILLE), Duration::ZERO);
        assert_eq!(budget.pause(now, cpu_ns + BURST_NS + 1_000_000, BILL_CPU_PERMILLE), Duration::from_millis(100));
    }

    #[test]
    fn b1_work_that_begins_gets_no_time_that_was_saved_before() {
        let mut budget = CpuBudget::default();
        // Idle for an hour, at the least share.
        let start = Duration::from_secs(3_600);
        assert_eq!(budget.pause(Duration::ZERO, 0, 1), Duration::ZERO);
        assert_eq!(budget.pause(start, 0, 1), Duration::ZERO);
        let (mut now, mut cpu_ns) = (start, 0);
        for _ in 0..1_000 {
            cpu_ns += 100_000;
            now += Duration::from_nanos(100_000);
            now += budget.pause(now, cpu_ns, 10);
            assert!(cpu_ns * 100 <= (now - start).as_nanos() as u64, "{cpu_ns} ns in {:?}", now - start);
        }
    }

    #[test]
    fn the_thread_ends_when_it_is_dropped() {
        let (bill, worker) = Bill::new(1, ContextPool::default());
        let thread = SpareThread::start(worker).unwrap();
        let started = Instant::now();
        drop(thread);
        assert!(started.elapsed() < Duration::from_secs(5));
        drop(bill);
    }
}
