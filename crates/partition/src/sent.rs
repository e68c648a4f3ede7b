//! Sent: which dispatch type takes how many bytes, by codec and encoding.
//!
//! Owns        the table of a partition, with sums by the writer of compressed streams; the sums of one connection
//!             (`ConnSent`), and `Tally`, through which the pump counts.
//! Invariants  S1 a frame counts when it is begun or put with the unsent bytes: in full and once. So wire bytes of all
//!             rows are the bytes that sockets took, those that are unsent, and those that ended connections left.
//!             (test `s1_*`) S2 a delivery costs an addition to one row: no allocation, no search. S3 one compression
//!             in `TIMED_ONE_IN` is timed, by the clock of the transport and in no fixed rhythm, so that the sample has
//!             its share of the dispatches that make a search or a body for others.
//! Limits      one row per event name, codec and encoding; everything that is no dispatch shares one name.

use crate::{
    conn::{Compression, Control},
    copies::SessionCopies,
    counters::Counters,
    deflate::Form,
    stream_account::{TIMED_ONE_IN, Writer},
    tap::{ConnTaps, SentAs, TapSwitch},
    transport::Transport,
    trial::Trial,
};
use guildhall_accounting::{Sent, SentRow};
use guildhall_codec::{DispatchFrame, Encoding};
use guildhall_model::EventName;
use guildhall_session::{Dispatch, Session};
use std::sync::Arc;

/// The name of rows of heartbeat answers, HELLO, pongs, and all others that are no dispatch.
pub(crate) const OTHER: &str = "other";
const TYPES: usize = EventName::ALL.len() + 1;
const CODECS: [&str; 5] = ["none", "zlib-stream", "zstd-stream", "permessage-deflate", "zlib-payload"];
const ENCODINGS: [&str; 2] = [Encoding::Json.name(), Encoding::Etf.name()];
const WAYS: usize = CODECS.len() * ENCODINGS.len();

/// Codec and encoding of what a connection is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way(u8);

impl Way {
    /// Way of a connection.
    pub fn of(compression: Compression, encoding: Encoding) -> Self {
        let codec = match compression {
            Compression::None => 0,
            Compression::Zlib => 1,
            Compression::Zstd | Compression::ZstdDict(_) => 2,
            Compression::Deflate(_) => 3,
        };
        Self::new(codec, encoding)
    }

    /// Way of a dispatch that is compressed alone.
    pub fn of_payload(encoding: Encoding) -> Self {
        Self::new(4, encoding)
    }

    fn new(codec: u8, encoding: Encoding) -> Self {
        Self(codec * ENCODINGS.len() as u8 + encoding as u8)
    }

    fn codec(self) -> &'static str {
        CODECS[usize::from(self.0) / ENCODINGS.len()]
    }

    fn encoding(self) -> &'static str {
        ENCODINGS[usize::from(self.0) % ENCODINGS.len()]
    }
}

/// Frames of one connection.
#[derive(Debug)]
pub struct ConnSent {
    /// Rows of the table that count for it.
    way: Way,
    raw_bytes: u64,
    wire_bytes: u64,
    /// Copies for the bill and for the lab.
    taps: ConnTaps,
    /// None: it is in no experiment.
    trial: Option<Box<Trial>>,
}

impl ConnSent {
    /// No frame yet.
    pub fn new(way: Way) -> Self {
        Self { way, raw_bytes: 0, wire_bytes: 0, taps: ConnTaps::default(), trial: None }
    }

    /// Samples the connection for the bill.
    pub(crate) fn set_bill(&mut self, copies: SessionCopies) {
        self.taps.set_bill(copies);
    }

    /// Taps that copy from the connection.
    pub(crate) fn taps(&self) -> &ConnTaps {
        &self.taps
    }

    /// Takes part in an experiment from now on.
    pub fn set_trial(&mut self, trial: Trial) {
        self.trial = Some(Box::new(trial));
    }

    /// Its part in an experiment.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.as_deref()
    }

    /// The same, to count in.
    pub fn trial_mut(&mut self) -> Option<&mut Trial> {
        self.trial.as_deref_mut()
    }

    /// Its stream could not be decoded.
    pub fn fail_trial(&mut self) {
        self.trial.iter_mut().for_each(|trial| trial.fail());
    }

    /// Rows of the table that count for it.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Bytes of its payloads before compression.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Bytes of its frames.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// The payload to copy, of a connection that is sampled.
    pub fn sampled(&self, control: &Control) -> Option<Arc<[u8]>> {
        match (self.taps.bill(), control) {
            (Some(_), Control::Payload(payload)) => Some(payload.clone()),
            (Some(_), Control::Frame(_)) | (None, _) => None,
        }
    }

    /// Counts a frame that is no dispatch; `payload` comes from `sampled`, `writer` is that of the stream it is in.
    pub fn control(
        &mut self,
        (table, writer): (&mut SentTable, Option<Writer>),
        payload: Option<&[u8]>,
        raw_bytes: usize,
        wire_bytes: usize,
    ) {
        table.add((None, writer), self.way, raw_bytes, wire_bytes);
        self.raw_bytes += raw_bytes as u64;
        self.wire_bytes += wire_bytes as u64;
        if let Some(payload) = payload {
            self.taps.control(writer, payload, wire_bytes);
        }
    }
}

/// Bytes by dispatch type, codec and encoding, since the partition's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTable {
    types: Box<[[Sent; WAYS]; TYPES]>,
    /// Of compressed streams, by `Writer`.
    writers: [Sent; Writer::ALL.len()],
}

impl Default for SentTable {
    fn default() -> Self {
        Self { types: Box::new([[Sent::default(); WAYS]; TYPES]), writers: Default::default() }
    }
}

impl SentTable {
    /// Counts a frame; `name` is none if it is no dispatch, `writer` if it is in no compressed stream.
    pub(crate) fn add(
        &mut self,
        (name, writer): (Option<EventName>, Option<Writer>),
        way: Way,
        raw_bytes: usize,
        wire_bytes: usize,
    ) {
        let of_type = &mut self.types[name.map_or(TYPES - 1, |name| name as usize)];
        let (raw_bytes, wire_bytes) = (raw_bytes as u64, wire_bytes as u64);
        let sent = Sent { count: 1, raw_bytes, wire_bytes, ..Sent::default() };
        of_type[usize::from(way.0)] += sent;
        if let Some(writer) = writer {
            self.writers[writer as usize] += sent;
        }
    }

    fn add_time(&mut self, name: Option<EventName>, way: Way, ns: u64) {
        let of_type = &mut self.types[name.map_or(TYPES - 1, |name| name as usize)];
        of_type[usize::from(way.0)] += Sent { timed: 1, timed_ns: ns, ..Sent::default() };
    }

    /// A compression of a stream was timed.
    pub(crate) fn add_writer_time(&mut self, writer: Writer, ns: u64) {
        self.writers[writer as usize] += Sent { timed: 1, timed_ns: ns, ..Sent::default() };
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.types)
    }

    /// Sums of compressed streams, by writer.
    pub fn by_writer(&self) -> impl Iterator<Item = (Writer, Sent)> + '_ {
        Writer::ALL.into_iter().zip(self.writers)
    }

    /// Sums of each type, over all codecs and encodings; the last is of frames that are no dispatch.
    pub(crate) fn by_type(&self) -> impl Iterator<Item = Sent> + '_ {
        self.types.iter().map(|ways| {
            let mut sum = Sent::default();
            ways.iter().for_each(|sent| sum += *sent);
            sum
        })
    }

    /// Rows that are not empty.
    pub fn rows(&self) -> impl Iterator<Item = SentRow> + '_ {
        let names = EventName::ALL.iter().map(|name| name.as_str()).chain([OTHER]);
        let rows = names.zip(self.types.iter()).flat_map(|(event, ways)| {
            ways.iter().enumerate().map(move |(way, sent)| {
                let way = Way(way as u8);
                SentRow { event, codec: way.codec(), encoding: way.encoding(), sent: *sent }
            })
        });
        rows.filter(|row| row.sent != Sent::default())
    }
}

impl std::ops::AddAssign<&Self> for SentTable {
    fn add_assign(&mut self, other: &Self) {
        let (mine, theirs) = (self.types.as_flattened_mut(), other.types.as_flattened());
        mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += *theirs);
        self.writers.iter_mut().zip(other.writers).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// Decides which compressions are timed: one in `TIMED_ONE_IN` on average, by a congruential sequence.
#[derive(Debug, Default)]
pub struct Sampler(u64);

impl Sampler {
    fn is_due(&mut self) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32 & (TIMED_ONE_IN - 1) == 0
    }
}

/// What gave a dispatch the form in which it is sent.
#[derive(Clone, Copy, Debug)]
pub enum SentBy {
    /// A connection without a stream.
    Form(Form),
    /// The writer of its stream.
    Stream(Writer),
    /// It was compressed alone.
    Alone,
}

/// Where the pump counts what it writes.
pub struct Tally<'a> {
    pub counters: &'a mut Counters,
    pub sent: &'a mut SentTable,
    pub sampler: &'a mut Sampler,
    pub taps: &'a TapSwitch,
    /// Time of the input, milliseconds.
    pub now_ms: u64,
}

impl Tally<'_> {
    /// A socket took these bytes, or the transport will send them.
    pub fn took(&mut self, bytes: usize) {
        self.counters.sent_bytes += bytes as u64;
    }

    /// Counts a dispatch whose frame was started: all of it is written, or kept until the socket has room.
    /// `way` is the connection's, except for dispatches that are compressed alone.
    pub fn started(
        &mut self,
        (conn, way, by): (&mut ConnSent, Way, SentBy),
        (session, dispatch): (&Session, &Dispatch),
        frame: &DispatchFrame,
        seq: u64,
        wire_bytes: usize,
    ) {
        self.counters.sent_body_bytes += frame.body().len() as u64;
        let writer = match by {
            SentBy::Form(_) | SentBy::Alone => None,
            SentBy::Stream(writer) => Some(writer),
        };
        let sent = SentAs { seq, at_ms: self.now_ms, writer, wire_bytes };
        conn.taps.dispatch(self.taps, session, dispatch, frame, sent);
        if !guildhall_accounting::is_on() {
            return;
        }
        let raw_bytes = match by {
            SentBy::Form(form) => form.raw_bytes(frame, seq, wire_bytes),
            SentBy::Stream(_) | SentBy::Alone => frame.payload_bytes(seq),
        };
        self.sent.add((dispatch.name(), writer), way, raw_bytes, wire_bytes);
        conn.raw_bytes += raw_bytes as u64;
        conn.wire_bytes += wire_bytes as u64;
    }

    /// A compression begins. Returns the time, if this one is timed.
    pub fn time(&mut self, transport: &impl Transport) -> Option<u64> {
        if guildhall_accounting::is_on() && self.sampler.is_due() { transport.nanos() } else { None }
    }

    /// A compression ended, for which `time` returned `started_at`. Returns its nanoseconds, if it was timed.
    pub fn timed(
        &mut self,
        started_at: Option<u64>,
        transport: &impl Transport,
        dispatch: &Dispatch,
        way: Way,
    ) -> Option<u64> {
        let ns = transport.nanos()?.saturating_sub(started_at?);
        self.sent.add_time(dispatch.name(), way, ns);
        Some(ns)
    }
}

impl Control {
    /// Its bytes before compression; of a frame that is ready, all of them.
    pub fn raw_bytes(&self) -> usize {
        match self {
            Self::Payload(payload) => payload.len(),
            Self::Frame(frame) => frame.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_names_of_what_was_added() {
        let mut table = SentTable::default();
        let zstd = Way::of(Compression::Zstd, Encoding::Etf);
        table.add((Some(EventName::MessageCreate), Some(Writer::Context)), zstd, 400, 60);
        table.add((Some(EventName::MessageCreate), Some(Writer::SharedMatch)), zstd, 300, 40);
        table.add((None, None), Way::of_payload(Encoding::Json), 20, 22);
        let copy = table.clone();
        table += &copy;
        table.add_time(Some(EventName::MessageCreate), zstd, 70);
        let sent =
            |count, raw_bytes, wire_bytes, timed, timed_ns| Sent { count, raw_bytes, wire_bytes, timed, timed_ns };
        let expected = [
            SentRow {
                event: "MESSAGE_CREATE",
                codec: "zstd-stream",
                encoding: "etf",
                sent: sent(4, 1_400, 200, 1, 70),
            },
            SentRow { event: "other", codec: "zlib-payload", encoding: "json", sent: sent(2, 40, 44, 0, 0) },
        ];
        assert_eq!(table.rows().collect::<Vec<_>>(), expected);
        let counts: Vec<_> =
            table.by_writer().map(|(writer, sent)| (writer.name(), sent.count, sent.wire_bytes)).collect();
        let expected = [("per-connection", 2, 120), ("per-connection, upgraded", 0, 0), ("shared-match", 2, 80)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn s3_one_in_64_is_due_in_no_fixed_rhythm() {
        let mut sampler = Sampler::default();
        let due: Vec<usize> = (0..64_000).filter(|_| sampler.is_due()).collect();
        assert!((800..1_200).contains(&due.len()), "{}", due.len());
        let mut gaps: Vec<usize> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        gaps.dedup();
        assert!(gaps.len() > 50, "{gaps:?}");
    }

    #[test]
    fn an_event_name_is_its_own_index() {
        for (index, name) in EventName::ALL.iter().enumerate() {
            assert_eq!(*name as usize, index, "{name:?}");
        }
        assert_eq!((Encoding::Json as usize, Encoding::Etf as usize), (0, 1));
    }
}
