//! Dark: a dark launch during a bench, as a node runs one at its default budget.

use anyhow::{Context as _, Result};
use guildhall_codec::{Arm, CodecError, Dictionaries, Encoding};
use guildhall_lab::{Dark, thread_cpu_ns};
use guildhall_partition::{TapFilter, TapSwitch};
use guildhall_telemetry::spare::{SpareThread, SpareWork};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Those of the article: one-shot zstd, streams of zstd and of zlib.
const ARMS: [&str; 4] = ["zstd-once", "zstd:level=3", "zstd", "zlib"];
/// Defaults of `POST /v1/lab/dark`.
const CPU_PERMILLE: u64 = 10;
const SESSIONS_MAX: usize = 16;
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// A dark launch that can be turned on and off, with the thread of the lab.
pub struct DarkSwitch {
    taps: TapSwitch,
    dark: Arc<Mutex<Option<Dark>>>,
    cpu_ns: Arc<AtomicU64>,
    _thread: SpareThread,
}

struct Work {
    dark: Arc<Mutex<Option<Dark>>>,
    cpu_ns: Arc<AtomicU64>,
}

fn lock(dark: &Mutex<Option<Dark>>) -> MutexGuard<'_, Option<Dark>> {
    dark.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SpareWork for Work {
    const NAME: &'static str = "lab";

    fn step(&mut self) -> Result<bool, CodecError> {
        let started = thread_cpu_ns();
        let has_stepped = lock(&self.dark).as_mut().is_some_and(Dark::step);
        self.cpu_ns.fetch_add(thread_cpu_ns().saturating_sub(started), Relaxed);
        Ok(has_stepped)
    }

    fn set_cpu_ns(&mut self, _: u64) {}

    fn cpu_permille(&self) -> u64 {
        if lock(&self.dark).is_some() { CPU_PERMILLE } else { 1 }
    }
}

impl DarkSwitch {
    /// Off. `taps` is that of the partitions.
    pub fn start(taps: TapSwitch) -> Result<Self> {
        let (dark, cpu_ns) = (Arc::default(), Arc::default());
        let work = Work { dark: Arc::clone(&dark), cpu_ns: Arc::clone(&cpu_ns) };
        let thread = SpareThread::start(work).context("starting the thread of the lab")?;
        Ok(Self { taps, dark, cpu_ns, _thread: thread })
    }

    /// Turns it on or off.
    pub fn set(&self, is_on: bool) -> Result<()> {
        let mut dark = lock(&self.dark);
        if is_on == dark.is_some() {
            return Ok(());
        }
        if !is_on {
            *dark = None;
            return Ok(());
        }
        let arms = ARMS.iter().map(|text| text.parse()).collect::<Result<Vec<Arm>, _>>().context("the arms")?;
        let filter = TapFilter { sessions_first: 1, private: true, ..TapFilter::all(SESSIONS_MAX) };
        let runs = Dark::runs(&arms, &[Encoding::Json, Encoding::Etf], &Dictionaries::default())?;
        let tap = self.taps.start(filter).context("a tap")?;
        *dark = Some(Dark::new(tap, runs, MEMORY_BYTES_MAX));
        Ok(())
    }

    /// CPU time of it so far.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Relaxed)
    }
}
