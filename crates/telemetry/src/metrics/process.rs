//! Process: the series about this process that every Prometheus client library has, and the build.
//!
//! Source      prometheus.io "Standard and runtime collectors". Read from `/proc`; where that is missing, left out.

use super::Writer;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, info::Info},
};
use std::{fmt, fs};

/// Kernel ticks per second in `/proc/*/stat`: USER_HZ, which Linux fixes at 100 on every architecture that Rust's
/// standard library supports.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

/// Values of `/proc/self/stat`.
#[derive(Debug)]
struct Stat {
    cpu_seconds: f64,
    start_seconds: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
    threads: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may contain spaces.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let boot_seconds: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(Self {
            cpu_seconds: (number(11)? + number(12)?) as f64 / TICKS_PER_SECOND,
            start_seconds: boot_seconds + number(19)? as f64 / TICKS_PER_SECOND,
            virtual_bytes: number(20)?,
            resident_bytes: number(21)? * rustix::param::page_size() as u64,
            threads: number(17)?,
        })
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer::Text(encoder);
        write(&mut out)?;
        write_files(&mut out)?;
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)]);
        let help = "Version of this node and the processor architecture it was built for";
        match out {
            Writer::Text(mut text) => {
                build.encode(text.encode_descriptor("guildhall_build", help, None, MetricType::Info)?)
            }
            Writer::Readings(_) => Ok(()),
        }
    }
}

/// CPU and memory.
pub(super) fn write(out: &mut Writer<'_>) -> fmt::Result {
    if let Some(stat) = Stat::read() {
        let help = "Total user and system CPU time spent in seconds";
        out.counter_f64("process_cpu_seconds", help, stat.cpu_seconds)?;
        let start = "Start time of the process since the Unix epoch in seconds";
        out.gauge_f64("process_start_time_seconds", start, stat.start_seconds)?;
        out.gauge_f64("process_resident_memory_bytes", "Resident memory size in bytes", stat.resident_bytes as f64)?;
        out.gauge_f64("process_virtual_memory_bytes", "Virtual memory size in bytes", stat.virtual_bytes as f64)?;
        out.gauge_f64("process_threads", "Number of threads", stat.threads as f64)?;
    }
    Ok(())
}

/// Open files. Counting them takes milliseconds where there are ten thousands, which is too long for every second.
fn write_files(out: &mut Writer<'_>) -> fmt::Result {
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // The directory itself is open while it is read.
        let open = files.count().saturating_sub(1) as u64;
        out.gauge("process_open_fds", "Number of open file descriptors", open)?;
    }
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(max) => out.gauge("process_max_fds", "Maximum number of open file descriptors", max),
        None => Ok(()),
    }
}
