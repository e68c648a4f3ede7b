//! Metrics of the bandwidth bill.

use super::{Label, Snapshot, Writer};
use guildhall_accounting::report::{BilledType, BilledWays};
use std::fmt;

/// Name of a codec, and its bytes of the sample.
type Way = (&'static str, fn(&BilledWays) -> u64);

const WAYS: [Way; 4] = [
    ("as_sent", |ways| ways.wire_bytes_total),
    ("none", |ways| ways.plain_bytes_total),
    ("zlib-stream", |ways| ways.zlib_bytes_total),
    ("zstd-stream", |ways| ways.zstd_bytes_total),
];

impl Snapshot {
    /// Sums of the sample; nothing before its first frame.
    pub(super) fn bill(&self, out: &mut Writer<'_>) -> fmt::Result {
        let Some(bill) = self.bill.report(&self.sent_table()) else { return Ok(()) };
        out.gauge("bill_connections", "Connections whose frames are compressed a second time", bill.sessions)?;
        out.counter("bill_connections_sampled", "Connections that were sampled", bill.sessions_total)?;
        let help = "Of bill_connections_sampled, those whose sample the CPU budget ended";
        out.counter("bill_connections_dropped", help, bill.sessions_dropped_total)?;
        out.counter_f64("bill_cpu_seconds", "CPU time of the second compression", bill.cpu_ns_total as f64 / 1e9)?;
        let sampled = || bill.types.iter().filter(|of| of.sample.count_total > 0);
        let event = |of: &BilledType| -> Label { ("event", of.name.clone()) };
        let frames: Vec<_> = sampled().map(|of| (vec![event(of)], of.sample.count_total)).collect();
        out.counters("bill_frames", "Frames that were compressed a second time", &frames)?;
        let bytes: Vec<(Vec<Label>, u64)> = sampled()
            .flat_map(|of| WAYS.map(|(codec, bytes)| (vec![event(of), ("codec", codec.to_owned())], bytes(&of.sample))))
            .collect();
        out.counters("bill_bytes", "Bytes of bill_frames in each codec, with WebSocket headers", &bytes)
    }
}
