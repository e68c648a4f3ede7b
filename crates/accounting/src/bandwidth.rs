//! Bandwidth: from the tables of sent dispatches to the report.
//!
//! Owns        `Sent` (figures of one type in one codec and encoding), `SentRow`, the sum of rows (a
//!             `BandwidthReport`), and the estimate of a `Bill` from its sample.
//! Limits      one line per dispatch type, codec and encoding: closed sets.
//! Not here    the tables: each partition has its own.

use crate::report::{BandwidthReport, Bill, BilledType, BilledWays, DispatchType, Way};
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
        Self { at_ms, types, writers: Vec::new(), bill }
    }
}

impl std::ops::AddAssign<&Self> for BilledWays {
    fn add_assign(&mut self, other: &Self) {
        self.count_total += other.count_total;
        self.raw_bytes_total += other.raw_bytes_total;
        self.wire_bytes_total += other.wire_bytes_total;
        self.plain_bytes_total += other.plain_bytes_total;
        self.zlib_bytes_total += other.zlib_bytes_total;
        self.zstd_bytes_total += other.zstd_bytes_total;
    }
}

impl BilledWays {
    /// All frames of which these are a sample.
    #[must_use]
    pub fn scaled_to(&self, sent: &Sent) -> Self {
        let scaled = |bytes: u64| match self.raw_bytes_total {
            0 => 0,
            of => (u128::from(bytes) * u128::from(sent.raw_bytes) / u128::from(of)) as u64,
        };
        Self {
            count_total: sent.count,
            raw_bytes_total: sent.raw_bytes,
            wire_bytes_total: sent.wire_bytes,
            plain_bytes_total: scaled(self.plain_bytes_total),
            zlib_bytes_total: scaled(self.zlib_bytes_total),
            zstd_bytes_total: scaled(self.zstd_bytes_total),
        }
    }
}

impl Bill {
    /// The bill of dispatch types: the sample of each, and all frames that were sent. Types that were not sent are left
    /// out. None without a sample.
    #[must_use]
    pub fn of_types(types: &[(&str, BilledWays, Sent)]) -> Option<Self> {
        let mut bill = Self::default();
        types.iter().for_each(|(_, sample, _)| bill.sample += sample);
        if bill.sample.count_total == 0 {
            return None;
        }
        for (name, sample, sent) in types.iter().filter(|(_, _, sent)| sent.count > 0) {
            let base = if sample.count_total > 0 { sample } else { &bill.sample };
            let estimate = base.scaled_to(sent);
            bill.estimate += &estimate;
            bill.types.push(BilledType { name: (*name).to_owned(), sample: sample.clone(), estimate });
        }
        bill.types.sort_by_key(|of| Reverse(of.estimate.wire_bytes_total));
        Some(bill)
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
    fn a_bill_is_the_sample_in_proportion_to_payloads() {
        let sample = |count_total, raw_bytes_total, zlib_bytes_total| BilledWays {
            count_total,
            raw_bytes_total,
            wire_bytes_total: 7,
            plain_bytes_total: raw_bytes_total + 4 * count_total,
            zlib_bytes_total,
            zstd_bytes_total: zlib_bytes_total / 2,
        };
        let sent = |count, raw_bytes, wire_bytes| Sent { count, raw_bytes, wire_bytes, ..Sent::default() };
        let types = [
            ("TYPING_START", BilledWays::default(), sent(100, 10_000, 900)),
            ("MESSAGE_CREATE", sample(10, 4_000, 600), sent(1_000, 400_000, 50_000)),
            ("READY", sample(1, 4_000, 1_000), sent(4, 20_000, 5_000)),
            ("GUILD_DELETE", BilledWays::default(), sent(0, 0, 0)),
        ];
        let bill = Bill::of_types(&types).unwrap();
        let names: Vec<&str> = bill.types.iter().map(|of| &*of.name).collect();
        assert_eq!(names, ["MESSAGE_CREATE", "READY", "TYPING_START"]);
        let of = |index: usize| &bill.types[index].estimate;
        assert_eq!(
            (of(0).zlib_bytes_total, of(0).zstd_bytes_total, of(0).plain_bytes_total),
            (60_000, 30_000, 404_000)
        );
        assert_eq!((of(0).count_total, of(0).raw_bytes_total, of(0).wire_bytes_total), (1_000, 400_000, 50_000));
        assert_eq!(
            (of(1).zlib_bytes_total, of(2).zlib_bytes_total),
            (5_000, 2_000),
            "the latter of all: 1,600 in 8,000"
        );
        assert_eq!((bill.estimate.zlib_bytes_total, bill.estimate.wire_bytes_total), (67_000, 55_900));
        assert_eq!((bill.sample.count_total, bill.sample.wire_bytes_total), (11, 14));
        assert_eq!(Bill::of_types(&types[..1]), None);
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
