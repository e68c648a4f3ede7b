//! Metrics of sent bytes by dispatch type, codec and encoding.

use super::{Label, Snapshot, Writer};
use guildhall_accounting::{Sent, SentRow};
use guildhall_partition::SentTable;
use std::{collections::BTreeMap, fmt};

impl Snapshot {
    /// Sums over partitions.
    pub(super) fn sent_table(&self) -> SentTable {
        let mut sum = SentTable::default();
        self.partitions.iter().for_each(|partition| sum += &partition.sent);
        sum
    }

    /// Sums over partitions; rows without a frame are left out.
    pub(super) fn sent(&self, out: &mut Writer<'_>) -> fmt::Result {
        let sum = self.sent_table();
        let labels = |row: &SentRow| -> Vec<Label> {
            vec![
                ("event", row.event.to_owned()),
                ("codec", row.codec.to_owned()),
                ("encoding", row.encoding.to_owned()),
            ]
        };
        let values = |of: fn(&Sent) -> u64| -> Vec<(Vec<Label>, u64)> {
            sum.rows().map(|row| (labels(&row), of(&row.sent))).collect()
        };
        let help = "Frames begun on sockets, by dispatch type, codec and encoding; other: frames that are no dispatch";
        out.counters("sent_frames", help, &values(|sent| sent.count))?;
        let help = "Bytes of the payloads in sent_frames before compression";
        out.counters("sent_frame_raw_bytes", help, &values(|sent| sent.raw_bytes))?;
        let help = "Bytes of the frames in sent_frames, with WebSocket headers and without TLS";
        out.counters("sent_frame_wire_bytes", help, &values(|sent| sent.wire_bytes))?;
        timed(&sum, out)
    }
}

/// The sample of timed compressions, by codec and encoding.
fn timed(sum: &SentTable, out: &mut Writer<'_>) -> fmt::Result {
    let mut by_codec: BTreeMap<(&str, &str), Sent> = BTreeMap::new();
    for row in sum.rows().filter(|row| row.sent.timed > 0) {
        *by_codec.entry((row.codec, row.encoding)).or_default() += row.sent;
    }
    let labels = |(codec, encoding): &(&str, &str)| -> Vec<Label> {
        vec![("codec", (*codec).to_owned()), ("encoding", (*encoding).to_owned())]
    };
    let counts: Vec<_> = by_codec.iter().map(|(way, sent)| (labels(way), sent.timed)).collect();
    out.counters("sent_frame_compressions_timed", "Compressions that were timed: one in 64", &counts)?;
    let seconds: Vec<_> = by_codec.iter().map(|(way, sent)| (labels(way), sent.timed_ns as f64 / 1e9)).collect();
    out.counters_f64("sent_frame_compression_seconds", "Wall time of sent_frame_compressions_timed", &seconds)
}
