//! Bandwidth: from the tables of sent dispatches to the report.
//!
//! Owns        `Sent` (figures of one type in one codec and encoding), `SentRow`, and the sum of rows: a
//!             `BandwidthReport`.
//! Limits      one line per dispatch type, codec and encoding: closed sets.
//! Not here    the tables: each partition has its own.

use crate::report::{BandwidthReport, Bill, DispatchType, Way};
use std::{cmp::Reverse, collections::BTreeMap};

/// Dispatches of one type that were sent in one codec and encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of dispatches.
    pub count: u64,
    /// Bytes of their payloads before compression, with the envelope of each.
    pub raw_bytes: u64,
    /// Bytes of their frames, with WebSocket headers and without TLS.
    pub wire_bytes: u64,
    /// Compressions that were timed: a sample.
    pub timed: u64,
    /// Nanoseconds of these.
    pub timed_ns: u64,
}

impl std::ops::AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.raw_bytes += other.raw_bytes;
        self.wire_bytes += other.wire_bytes;
        self.timed += other.timed;
        self.timed_ns += other.timed_ns;
    }
}

/// A line of a partition's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRow {
    /// Name of the dispatch type.
    pub event: &'static str,
    /// Name of the codec.
    pub codec: &'static str,
    /// Name of the encoding.
    pub encoding: &'static str,
    /// Sums since the partition's start.
    pub sent: Sent,
}

impl BandwidthReport {
    /// The report of rows from any number of tables; equal labels add up. Types with the most wire bytes come first.
    #[must_use]
    pub fn of_rows(at_ms: u64, rows: impl IntoIterator<Item = SentRow>, bill: Option<Bill>) -> Self {
        let mut sums: BTreeMap<&str, BTreeMap<(&str, &str), Sent>> = BTreeMap::new();
        for SentRow { event, codec, encoding, sent } in rows {
            *sums.entry(event).or_default().entry((codec, encoding)).or_default() += sent;
        }
        let mut types: Vec<DispatchType> = sums.into_iter().map(|(name, ways)| type_of(name, ways)).collect();
        types.sort_by_key(|of| Reverse(of.ways.iter().map(|way| way.wire_bytes_total).sum::<u64>()));
        Self { at_ms, types, bill }
    }
}

fn type_of(name: &str, ways: BTreeMap<(&str, &str), Sent>) -> DispatchType {
    let way = |((codec, encoding), sent): ((&str, &str), Sent)| Way {
        codec: codec.to_owned(),
        encoding: encoding.to_owned(),
        count_total: sent.count,
        raw_bytes_total: sent.raw_bytes,
        wire_bytes_total: sent.wire_bytes,
        timed_total: sent.timed,
        timed_ns_total: sent.timed_ns,
    };
    DispatchType { name: name.to_owned(), ways: ways.into_iter().map(way).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(event: &'static str, codec: &'static str, count: u64, raw_bytes: u64, wire_bytes: u64) -> SentRow {
        SentRow {
            event,
            codec,
            encoding: "json",
            sent: Sent { count, raw_bytes, wire_bytes, timed: count, timed_ns: 100 * count },
        }
    }

    #[test]
    fn tables_of_partitions_add_up_and_the_largest_type_is_first() {
        let first = [row("READY", "none", 1, 900, 904), row("MESSAGE_CREATE", "zstd-stream", 10, 4_000, 600)];
        let second = [row("MESSAGE_CREATE", "zstd-stream", 5, 2_000, 300), row("MESSAGE_CREATE", "none", 1, 400, 404)];
        let report = BandwidthReport::of_rows(7, first.into_iter().chain(second), None);
        assert_eq!((report.at_ms, report.bill), (7, None));
        let names: Vec<&str> = report.types.iter().map(|of| &*of.name).collect();
        assert_eq!(names, ["MESSAGE_CREATE", "READY"]);
        let ways: Vec<_> = report.types[0].ways.iter().map(|way| (&*way.codec, way.count_total)).collect();
        assert_eq!(ways, [("none", 1), ("zstd-stream", 15)]);
        let zstd = &report.types[0].ways[1];
        assert_eq!((zstd.timed_total, zstd.timed_ns_total), (15, 1_500));
        assert_eq!((zstd.raw_bytes_total, zstd.wire_bytes_total, &*zstd.encoding), (6_000, 900, "json"));
    }
}
