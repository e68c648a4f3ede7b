//! Bandwidth bill: cost of the frames of sampled connections in other codecs.
//!
//! Owns        the handle (`Bill`) that all partitions share, the choice of connections, and the machine that
//!             compresses the copies (`BillWorker`), which a thread of the driver runs.
//! Invariants  B1 all sums are of the same frames: a frame counts with its bytes as sent, plain, in zlib-stream and in
//!             zstd-stream, or not at all. B2 a frame that was not copied ends the sample of its connection: no stream
//!             has a gap. B3 a connection that is not sampled costs what T1 of `tap` allows. (tests `b1_*`, `b2_*`)
//! Limits      `CONNECTIONS_MAX` sampled connections, `QUEUE_BYTES_MAX` bytes of frames that wait. When there is no
//!             time for all of them, the newest leave the sample (C2 of `copies`).
//! Not here    the copies: `tap`. The thread and its CPU budget: `guildhall_telemetry::spare`. Frames that no codec
//!             compresses (pong, close).

use crate::{
    copies::{CopyLimits, CopyQueue, SessionCopies},
    sent::{ConnSent, OTHER, SentTable},
    stream_account::Writer,
    tap_message::TapMessage,
};
use guildhall_accounting::report::{self, BilledType, BilledWays};
use guildhall_codec::{CodecError, ContextPool, StreamCompressor};
use guildhall_model::EventName;
use guildhall_ws_proto::{FrameHeader, Opcode};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Sampled connections at once: each has two contexts, some 1.6 MB by the published parameters.
pub const CONNECTIONS_MAX: usize = 32;
/// While fewer are sampled, each new connection is: a small node has a bill too.
const CONNECTIONS_MIN: usize = 4;
/// Bytes of frames that wait for the worker.
const QUEUE_BYTES_MAX: usize = 4 << 20;
const TYPES: usize = EventName::ALL.len() + 1;

/// The bill of a node. Clones share it; the default has no bill.
#[derive(Clone, Debug, Default)]
pub struct Bill(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    one_in: u64,
    contexts: ContextPool,
    queue: Arc<CopyQueue>,
    sums: Mutex<Sums>,
    draws: AtomicU64,
    cpu_ns: AtomicU64,
}

#[derive(Debug)]
struct Sums {
    types: Box<[BilledWays]>,
    /// Of compressed streams, by `Writer`.
    writers: [BilledWays; Writer::ALL.len()],
    /// Of connections that are sampled now.
    taps: HashMap<u64, BilledWays>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bill {
    /// A bill that samples one connection in `one_in`, and the worker that makes it; 0: none is sampled. `contexts` are
    /// those of the comparison, apart from those of clients.
    #[must_use]
    pub fn new(one_in: u32, contexts: ContextPool) -> (Self, BillWorker) {
        let shared = Arc::new(Shared {
            one_in: one_in.into(),
            contexts,
            queue: CopyQueue::new(CopyLimits {
                bytes_max: QUEUE_BYTES_MAX,
                sessions_max: CONNECTIONS_MAX,
                sessions_first: CONNECTIONS_MAX,
                counts_ended: false,
                is_paced: false,
                private: true,
            }),
            sums: Mutex::new(Sums {
                types: vec![BilledWays::default(); TYPES].into(),
                writers: Default::default(),
                taps: HashMap::new(),
            }),
            draws: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
        });
        (Self(Some(shared.clone())), BillWorker { shared, streams: HashMap::new(), out: Vec::new() })
    }

    /// The copies of a new connection, if it is sampled.
    pub(crate) fn tap(&self) -> Option<SessionCopies> {
        let shared = self.0.as_ref().filter(|shared| shared.is_due())?;
        shared.queue.admit()
    }

    /// Sums of the frames of a connection that were compressed a second time; none once its sample has ended.
    pub(crate) fn billed(&self, conn: &ConnSent) -> Option<BilledWays> {
        let copies = conn.taps().bill().filter(|copies| !copies.is_ended())?;
        lock(&self.0.as_ref()?.sums).taps.get(&copies.session()).cloned()
    }

    /// Memory of the contexts and of frames that wait, in bytes, and the number of sampled connections.
    #[must_use]
    pub fn memory(&self) -> (u64, u64) {
        let Some(shared) = &self.0 else { return (0, 0) };
        let waiting = shared.queue.waiting_bytes() as u64;
        (shared.contexts.stats().resident_bytes + waiting, shared.queue.sessions().now)
    }

    /// CPU time of the comparison so far.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.cpu_ns.load(Relaxed))
    }

    /// The sums so far, and an estimate for all frames, `sent`; none without a bill, or before the first sampled frame.
    #[must_use]
    pub fn report(&self, sent: &SentTable) -> Option<report::Bill> {
        let shared = self.0.as_ref()?;
        let names = EventName::ALL.iter().map(|name| name.as_str()).chain([OTHER]);
        let (types, of_writers) = {
            let sums = lock(&shared.sums);
            (sums.types.clone(), sums.writers.clone())
        };
        let types: Vec<_> =
            names.zip(types).zip(sent.by_type()).map(|((name, ways), sent)| (name, ways, sent)).collect();
        let writers = sent.by_writer().zip(of_writers).filter(|(_, sample)| sample.count_total > 0);
        let writers = writers.map(|((writer, sent), sample)| BilledType {
            name: writer.name().to_owned(),
            estimate: sample.scaled_to(&sent),
            sample,
        });
        let sessions = shared.queue.sessions();
        Some(report::Bill {
            writers: writers.collect(),
            one_in: shared.one_in,
            sessions: sessions.now,
            sessions_total: sessions.total,
            sessions_dropped_total: sessions.lost_total,
            cpu_ns_total: self.cpu_ns(),
            ..report::Bill::of_types(&types)?
        })
    }
}

impl Shared {
    fn is_due(&self) -> bool {
        if self.one_in == 0 {
            return false;
        }
        // A congruential sequence: no fixed rhythm, so that a client that reconnects in one is not always sampled.
        let draw = self.draws.fetch_add(1, Relaxed).wrapping_mul(6_364_136_223_846_793_005) >> 32;
        let count = self.queue.sessions().now as usize;
        count < CONNECTIONS_MIN || count < CONNECTIONS_MAX && draw.is_multiple_of(self.one_in)
    }
}

/// Compresses the copies, each by a stream of its own per connection and codec.
#[derive(Debug)]
pub struct BillWorker {
    shared: Arc<Shared>,
    streams: HashMap<u64, ComparedStreams>,
    out: Vec<u8>,
}

#[derive(Debug)]
struct ComparedStreams {
    zlib: StreamCompressor,
    zstd: StreamCompressor,
}

impl ComparedStreams {
    fn new(contexts: &ContextPool) -> Self {
        Self { zlib: contexts.zlib(), zstd: contexts.zstd() }
    }
}

impl BillWorker {
    /// Handles the oldest copy. False: none waits.
    ///
    /// # Errors
    /// A library's. The frame counts nowhere; the caller gives up.
    pub fn step(&mut self) -> Result<bool, CodecError> {
        match self.shared.queue.next() {
            None => return Ok(false),
            // No tap of the lab.
            Some(TapMessage::Dispatch { .. }) => {}
            Some(TapMessage::End { session, .. }) => {
                drop(self.streams.remove(&session));
                lock(&self.shared.sums).taps.remove(&session);
            }
            Some(TapMessage::Frame { session, name, writer, payload, wire_bytes }) => {
                let streams =
                    self.streams.entry(session).or_insert_with(|| ComparedStreams::new(&self.shared.contexts));
                let [zlib, zstd] = [&mut streams.zlib, &mut streams.zstd].map(|stream| {
                    self.out.clear();
                    stream.compress(&[&payload], &mut self.out).map(|()| framed_bytes(self.out.len()))
                });
                let ways = BilledWays {
                    count_total: 1,
                    raw_bytes_total: payload.len() as u64,
                    wire_bytes_total: wire_bytes as u64,
                    plain_bytes_total: framed_bytes(payload.len()),
                    zlib_bytes_total: zlib?,
                    zstd_bytes_total: zstd?,
                };
                let mut sums = lock(&self.shared.sums);
                sums.types[name.map_or(TYPES - 1, |name| name as usize)] += &ways;
                if let Some(writer) = writer {
                    sums.writers[writer as usize] += &ways;
                }
                *sums.taps.entry(session).or_default() += &ways;
            }
        }
        Ok(true)
    }

    /// Sets the CPU time that the worker has used since its start.
    pub fn set_cpu_ns(&self, ns: u64) {
        self.shared.cpu_ns.store(ns, Relaxed);
    }
}

/// Bytes of a message with its WebSocket header.
fn framed_bytes(payload_bytes: usize) -> u64 {
    (FrameHeader::new(Opcode::Binary, payload_bytes).len() + payload_bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(bill: &Bill) -> report::Bill {
        bill.report(&SentTable::default()).unwrap()
    }

    fn frame(tap: &mut SessionCopies, writer: Option<Writer>, payload: &[u8], wire_bytes: usize) {
        let (session, payload) = (tap.session(), payload.into());
        tap.push(TapMessage::Frame { session, name: None, writer, wire_bytes, payload });
    }

    #[test]
    fn b1_sums_are_those_of_streams_of_their_own() {
        let (bill, mut worker) = Bill::new(1, ContextPool::default());
        let mut taps = [bill.tap().unwrap(), bill.tap().unwrap()];
        let mut references = [(); 2].map(|()| ComparedStreams::new(&ContextPool::default()));
        let (mut zlib, mut zstd, mut out) = (0, 0, Vec::new());
        for round in 0..50 {
            for (tap, reference) in taps.iter_mut().zip(&mut references) {
                let payload = format!("{{\"t\":\"TYPING_START\",\"s\":{round},\"d\":{{\"user\":\"{}\"}}}}", round * 77);
                let writer = if round < 20 { Writer::Context } else { Writer::SharedMatch };
                frame(tap, Some(writer), payload.as_bytes(), 10);
                out.clear();
                reference.zlib.compress(&[payload.as_bytes()], &mut out).unwrap();
                zlib += framed_bytes(out.len());
                out.clear();
                reference.zstd.compress(&[payload.as_bytes()], &mut out).unwrap();
                zstd += framed_bytes(out.len());
            }
        }
        while worker.step().unwrap() {}
        let report = totals(&bill);
        assert_eq!((report.sample.count_total, report.sample.wire_bytes_total, report.sessions), (100, 1_000, 2));
        assert_eq!((report.sample.zlib_bytes_total, report.sample.zstd_bytes_total), (zlib, zstd));
        let writers: Vec<_> = report.writers.iter().map(|of| (&*of.name, of.sample.count_total)).collect();
        assert_eq!(writers, [("per-connection", 40), ("shared-match", 60)]);
        let each: Vec<u64> = lock(&worker.shared.sums).taps.values().map(|ways| ways.zlib_bytes_total).collect();
        assert_eq!((each.len(), each.iter().sum()), (2, zlib), "each connection has its own sums");
        drop(taps);
        while worker.step().unwrap() {}
        assert!(worker.streams.is_empty(), "contexts end with their connection");
        assert!(lock(&worker.shared.sums).taps.is_empty());
        assert_eq!(totals(&bill).sessions, 0);
    }

    #[test]
    fn b2_a_connection_whose_frame_does_not_fit_leaves_the_sample() {
        let (bill, mut worker) = Bill::new(1, ContextPool::default());
        let (mut loud, mut quiet) = (bill.tap().unwrap(), bill.tap().unwrap());
        let half = vec![b'x'; QUEUE_BYTES_MAX / 2];
        frame(&mut quiet, None, b"{}", 4);
        (0..3).for_each(|_| frame(&mut loud, None, &half, 4));
        while worker.step().unwrap() {}
        // There is room again, but a frame is missing.
        frame(&mut loud, None, b"{}", 4);
        frame(&mut quiet, None, b"{}", 4);
        while worker.step().unwrap() {}
        let report = totals(&bill);
        assert_eq!((report.sample.count_total, report.sessions, report.sessions_dropped_total), (3, 1, 1));
        assert_eq!(worker.streams.len(), 1);
        assert_eq!(worker.shared.queue.waiting_bytes(), 0);
    }

    #[test]
    fn a_share_of_connections_is_sampled_within_bounds() {
        let (bill, _worker) = Bill::new(100, ContextPool::default());
        let first: Vec<_> = (0..CONNECTIONS_MIN).filter_map(|_| bill.tap()).collect();
        assert_eq!(first.len(), CONNECTIONS_MIN, "while few are sampled, all are");
        let next: Vec<_> = (0..1_000).filter_map(|_| bill.tap()).collect();
        assert!((3..30).contains(&next.len()), "{}", next.len());
        let all: Vec<_> = (0..100_000).filter_map(|_| bill.tap()).collect();
        assert_eq!(first.len() + next.len() + all.len(), CONNECTIONS_MAX);
        drop((first, next, all));
        assert!(bill.tap().is_some());
        assert!(Bill::new(0, ContextPool::default()).0.tap().is_none() && Bill::default().tap().is_none());
    }
}
