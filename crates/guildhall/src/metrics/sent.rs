//! Metrics of sent bytes by dispatch type, codec and encoding.

use super::{Label, Snapshot, Writer};
use guildhall_accounting::{Sent, SentRow};
use guildhall_partition::SentTable;
use std::fmt;

impl Snapshot {
    /// Sums over partitions; rows without a frame are left out.
    pub(super) fn sent(&self, out: &mut Writer<'_>) -> fmt::Result {
        let mut sum = SentTable::default();
        self.partitions.iter().for_each(|partition| sum += &partition.sent);
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
        out.counters("sent_frame_wire_bytes", help, &values(|sent| sent.wire_bytes))
    }
}
