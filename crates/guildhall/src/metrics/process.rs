//! Process: the series about this process that every Prometheus client library has, and the build.
//!
//! Source      prometheus.io "Standard and runtime collectors". Read from `/proc`; where that is missing, left out.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, info::Info},
};
use std::{fmt, fs};

/// Kernel ticks per second in `/proc/*/stat`: USER_HZ, which Linux fixes at 100 on every architecture that Rust's
/// standard library supports.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

/// What `/proc/self` says.
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
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(stat) = Stat::read() {
            let help = "Total user and system CPU time spent in seconds";
            let mut metric = out.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&stat.cpu_seconds, None)?;
            let mut gauge = |name: &str, help: &str, value: f64| {
                out.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
            };
            let start = "Start time of the process since the Unix epoch in seconds";
            gauge("process_start_time_seconds", start, stat.start_seconds)?;
            gauge("process_resident_memory_bytes", "Resident memory size in bytes", stat.resident_bytes as f64)?;
            gauge("process_virtual_memory_bytes", "Virtual memory size in bytes", stat.virtual_bytes as f64)?;
            gauge("process_threads", "Number of threads", stat.threads as f64)?;
        }
        let mut gauge = |name: &str, help: &str, value: u64| {
            out.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
        };
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The directory itself is open while it is read.
            gauge("process_open_fds", "Number of open file descriptors", files.count().saturating_sub(1) as u64)?;
        }
        if let Some(max) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            gauge("process_max_fds", "Maximum number of open file descriptors", max)?;
        }
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)]);
        let help = "Version of this node and the processor architecture it was built for";
        build.encode(out.encode_descriptor("guildhall_build", help, None, MetricType::Info)?)
    }
}
