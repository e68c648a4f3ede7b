//! Traces: which requests are traced, and how their spans get to an OpenTelemetry collector.
//!
//! Owns        the choice at the edge (`Tracer`), the queue of finished traces, and the task that exports them.
//! Doors       `start`; `Traces::tracer` for the routers; `Traces::end` at the stop of the node.
//! Invariants  E1 no request waits for the collector: a full queue drops new traces and counts them. E2 a header
//!             `traceparent` is continued; its flag "sampled" counts for `FORCED_PER_SECOND_MAX` traces a second, so
//!             that clients cannot fill the queue. E3 the headers of the exporter, which may be secret, are in no log.
//! Limits      `QUEUE_SPANS_MAX` spans wait, some 3 MB; `BATCH_SPANS_MAX` go out at once; `TRIES_MAX` tries per batch.
//! Not here    spans: `guildhall_accounting::TraceHandle`. Bytes: `otlp`.
//! Spec        OTLP 1.3 over HTTP; W3C Trace Context.

mod otlp;
mod post;

use guildhall_accounting::{FinishedTrace, TraceHandle, TraceSink, TraceStart};
use guildhall_cluster::TraceContext;
use guildhall_http_client::{RequestError, TrustError, trust};
use guildhall_http_kit::{Answering, RequestTracer};
use guildhall_node::{Membership, log_span, traced};
use guildhall_settings::{Headers, TracesConfig};
use post::Collector;
use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{sync::Notify, task::JoinHandle};
use tracing::Instrument as _;

/// Of log lines, as operators filter them.
const TARGET: &str = "guildhall::traces";
/// Spans that wait for the exporter, about 200 bytes each.
const QUEUE_SPANS_MAX: usize = 16_384;
/// Spans of one export: collectors commonly take 4 MiB.
const BATCH_SPANS_MAX: usize = 4_096;
/// A trace waits as long for others that go out with it.
const BATCH_EVERY: Duration = Duration::from_secs(1);
/// Traces a second that callers may force by the flag of their `traceparent`.
const FORCED_PER_SECOND_MAX: u64 = 100;
/// Tries of one batch, with pauses between them that double.
const TRIES_MAX: u32 = 4;
const RETRY: Duration = Duration::from_secs(1);
/// At the stop of the node.
const LAST_EXPORT_MAX: Duration = Duration::from_secs(3);

/// Why no traces can be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The file of secret headers cannot be read.
    #[error("traces.headers_file: {} cannot be read", .path.display())]
    HeadersFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// There are no certificates to authenticate the collector.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Headers of `traces.headers` would be readable on the network.
    #[error("traces.headers are secret: traces.endpoint needs https://, or a collector on this machine")]
    SecretInClear,
}

/// Counters of the exporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Traces that the collector has.
    pub exported: u64,
    /// Traces for which the queue had no room.
    pub dropped_full: u64,
    /// Traces that the collector did not take.
    pub dropped_failed: u64,
    /// Tries that failed.
    pub failed_exports: u64,
}

/// The exporter of a node.
#[derive(Debug)]
pub struct Traces {
    tracer: Arc<Tracer>,
    exporting: JoinHandle<()>,
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.exporting.abort();
    }
}

/// Reads the counters.
#[derive(Clone, Debug)]
pub struct TraceWatch(Arc<Queue>);

impl TraceWatch {
    /// Current values.
    #[must_use]
    pub fn counts(&self) -> TraceCounts {
        let Queue { exported, dropped_full, dropped_failed, failed_exports, .. } = &*self.0;
        let [exported, dropped_full, dropped_failed, failed_exports] =
            [exported, dropped_full, dropped_failed, failed_exports].map(|count| count.load(Ordering::Relaxed));
        TraceCounts { exported, dropped_full, dropped_failed, failed_exports }
    }
}

/// Starts the exporter. None if no endpoint is set. Ids are made of `random`.
///
/// # Errors
/// See [`TracesError`].
///
/// # Panics
/// Outside a tokio runtime.
pub fn start(config: &TracesConfig, random: [u8; 32]) -> Result<Option<Traces>, TracesError> {
    let Some(collector) = collector(config)? else { return Ok(None) };
    let queue = Arc::new(Queue::default());
    let (words, _) = random.as_chunks::<8>();
    let [seed, other_seed, high, low] = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
    let tracer = Arc::new(Tracer {
        one_in: config.sample_one_in.into(),
        slow_ns: (config.slow_ms > 0).then(|| u64::from(config.slow_ms) * 1_000_000),
        seeds: [seed, other_seed],
        count: AtomicU64::new(0),
        forced: AtomicU64::new(0),
        started: Instant::now(),
        queue: queue.clone(),
    });
    let exporting = tokio::spawn(export(queue, collector, otlp::Instance::new([high, low])));
    Ok(Some(Traces { tracer, exporting }))
}

/// Reads the files that the settings name.
///
/// # Errors
/// See `start`: each fault of the settings or their files.
pub fn check(config: &TracesConfig) -> Result<(), TracesError> {
    collector(config).map(drop)
}

fn collector(config: &TracesConfig) -> Result<Option<Collector>, TracesError> {
    let Some(endpoint) = config.endpoint.clone() else { return Ok(None) };
    let tls = if endpoint.is_https() { Some(trust(config.ca_file.as_deref())?) } else { None };
    let headers = match (&config.headers, &config.headers_file) {
        (Some(headers), _) => headers.clone(),
        (None, None) => Headers::default(),
        (None, Some(path)) => {
            let unreadable = |source| TracesError::HeadersFile { path: path.clone(), source };
            let text = std::fs::read_to_string(path).map_err(unreadable)?;
            Headers::parse(text.trim())
                .ok_or_else(|| unreadable(io::Error::other("it is no list of headers, like name=value")))?
        }
    };
    if !headers.is_empty() && !endpoint.is_https() && !endpoint.is_local() {
        return Err(TracesError::SecretInClear);
    }
    Ok(Some(Collector::new(endpoint, headers, tls)))
}

impl Traces {
    /// Chooses requests.
    #[must_use]
    pub fn tracer(&self) -> Arc<dyn RequestTracer> {
        self.tracer.clone()
    }

    /// Continues the traces of other nodes, from now on.
    pub fn resume_for(&self, membership: &Membership) {
        let tracer = self.tracer.clone();
        membership.on_trace(move |context| tracer.resume(context));
    }

    /// Counters of the exporter.
    #[must_use]
    pub fn watch(&self) -> TraceWatch {
        TraceWatch(self.tracer.queue.clone())
    }

    /// Exports what waits, for at most `LAST_EXPORT_MAX`.
    pub async fn end(mut self) {
        self.tracer.queue.is_ending.store(true, Ordering::Release);
        self.tracer.queue.wake.notify_one();
        // A collector that does not answer costs the last traces.
        let _ = tokio::time::timeout(LAST_EXPORT_MAX, &mut self.exporting).await;
    }
}

/// Chooses the requests that are traced.
#[derive(Debug)]
struct Tracer {
    /// One of as many requests is sampled. 0: none.
    one_in: u64,
    slow_ns: Option<u64>,
    seeds: [u64; 2],
    count: AtomicU64,
    /// Second since `started`, and traces forced in it.
    forced: AtomicU64,
    started: Instant,
    queue: Arc<Queue>,
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

impl Tracer {
    /// A number that differs between traces, from one of the two seeds.
    fn number(&self, seed: usize, count: u64) -> u64 {
        mixed(self.seeds[seed].wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Continues a trace that another node of the cluster has chosen: its spans here are exported from here.
    fn resume(&self, TraceContext { trace_id: [high, low], span }: TraceContext) -> TraceHandle {
        let start = TraceStart {
            trace_id: u128::from(high) << 64 | u128::from(low),
            seed: self.number(1, !self.count.fetch_add(1, Ordering::Relaxed)),
            parent: span,
            is_sampled: true,
            slow_ns: None,
            began: (Instant::now(), unix_ns()),
        };
        TraceHandle::resume(start, self.queue.clone())
    }

    /// Whether a caller may have its trace now.
    fn may_force(&self, now: Instant) -> bool {
        let second = now.duration_since(self.started).as_secs() << 16;
        let count = |before: u64| {
            let in_second = if before & !0xffff == second { before & 0xffff } else { 0 };
            (in_second < FORCED_PER_SECOND_MAX).then_some(second | (in_second + 1))
        };
        self.forced.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

impl RequestTracer for Tracer {
    fn begin(&self, traceparent: Option<&str>) -> Option<TraceHandle> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let parent = traceparent.and_then(TraceParent::parse);
        let by_rate = |count| self.one_in > 0 && self.number(0, count).is_multiple_of(self.one_in);
        let now = Instant::now();
        let is_sampled = match parent {
            // The caller has decided; its decision to leave a request out holds too.
            Some(parent) if parent.is_sampled => self.may_force(now) || by_rate(count),
            Some(_) => false,
            None => by_rate(count),
        };
        if !is_sampled && self.slow_ns.is_none() {
            return None;
        }
        let own_id = || u128::from(self.number(0, !count)) << 64 | u128::from(self.number(1, count)) | 1;
        let start = TraceStart {
            trace_id: parent.map_or_else(own_id, |parent| parent.trace_id),
            seed: self.number(1, !count),
            parent: parent.map_or(0, |parent| parent.span),
            is_sampled,
            slow_ns: self.slow_ns,
            began: (now, unix_ns()),
        };
        Some(TraceHandle::begin(start, self.queue.clone()))
    }

    fn run(&self, trace: TraceHandle, answering: Answering) -> Answering {
        let span = log_span(&trace);
        Box::pin(traced(trace, answering).instrument(span))
    }
}

fn unix_ns() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(unix).unwrap_or(u64::MAX)
}

/// The header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceParent {
    trace_id: u128,
    span: u64,
    is_sampled: bool,
}

impl TraceParent {
    /// `version-trace-span-flags`, in lower-case hexadecimal. A later version may have more fields.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split('-');
        let mut field = |length: usize| {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            fields.next().filter(|field| field.len() == length && field.bytes().all(is_hex))
        };
        let (version, trace_id, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        if version == "ff" || (version == "00" && fields.next().is_some()) {
            return None;
        }
        let parent = Self {
            trace_id: u128::from_str_radix(trace_id, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        };
        (parent.trace_id != 0 && parent.span != 0).then_some(parent)
    }
}

/// Finished traces that wait for the exporter.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    wake: Notify,
    is_ending: AtomicBool,
    exported: AtomicU64,
    dropped_full: AtomicU64,
    dropped_failed: AtomicU64,
    failed_exports: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    traces: VecDeque<FinishedTrace>,
    spans_count: usize,
}

impl TraceSink for Queue {
    fn finished(&self, trace: FinishedTrace) {
        let mut waiting = self.waiting();
        if waiting.spans_count + trace.spans.len() > QUEUE_SPANS_MAX {
            self.dropped_full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.spans_count += trace.spans.len();
        waiting.traces.push_back(trace);
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Traces for one export, oldest first.
    fn take(&self) -> Vec<FinishedTrace> {
        let mut waiting = self.waiting();
        let (mut batch, mut spans_count) = (Vec::new(), 0);
        while let Some(trace) = waiting.traces.front()
            && (batch.is_empty() || spans_count + trace.spans.len() <= BATCH_SPANS_MAX)
        {
            spans_count += trace.spans.len();
            batch.extend(waiting.traces.pop_front());
        }
        waiting.spans_count -= spans_count;
        batch
    }
}

/// Exports until the node stops, and what waits then.
async fn export(queue: Arc<Queue>, collector: Collector, instance: otlp::Instance) {
    let mut is_failing = false;
    loop {
        let is_ending = queue.is_ending.load(Ordering::Acquire);
        let batch = queue.take();
        if batch.is_empty() {
            if is_ending {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(BATCH_EVERY) => {}
                () = queue.wake.notified() => {}
            }
            continue;
        }
        let count = batch.len() as u64;
        match post_batch(&queue, &collector, otlp::request(&instance, &batch)).await {
            Ok(()) => {
                queue.exported.fetch_add(count, Ordering::Relaxed);
                if std::mem::take(&mut is_failing) {
                    tracing::info!(target: TARGET, host = collector.endpoint.host(), "the trace collector takes traces again");
                }
            }
            Err(error) => {
                queue.dropped_failed.fetch_add(count, Ordering::Relaxed);
                // Once per outage.
                if !std::mem::replace(&mut is_failing, true) {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(target: TARGET, host = collector.endpoint.host(), error, "traces cannot be exported");
                }
            }
        }
        if !is_ending {
            tokio::select! {
                () = tokio::time::sleep(BATCH_EVERY) => {}
                () = queue.wake.notified() => {}
            }
        }
    }
}

async fn post_batch(queue: &Queue, collector: &Collector, body: Vec<u8>) -> Result<(), RequestError> {
    let body = hyper::body::Bytes::from(body);
    let mut pause = RETRY;
    for tried in 1.. {
        match collector.post(body.clone()).await {
            Ok(()) => break,
            Err(error) => {
                queue.failed_exports.fetch_add(1, Ordering::Relaxed);
                if tried >= TRIES_MAX || !error.is_temporary() || queue.is_ending.load(Ordering::Acquire) {
                    return Err(error);
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_accounting::Span;

    fn tracer(one_in: u64, slow_ns: Option<u64>) -> Tracer {
        Tracer {
            one_in,
            slow_ns,
            seeds: [3, 5],
            count: AtomicU64::new(0),
            forced: AtomicU64::new(0),
            started: Instant::now(),
            queue: Arc::default(),
        }
    }

    #[test]
    fn the_header_of_callers() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let check = |text: &str, expected: Option<bool>| {
            assert_eq!(TraceParent::parse(text).map(|parent| parent.is_sampled), expected, "{text}");
        };
        check(&format!("00-{id}-00f067aa0ba902b7-01"), Some(true));
        check(&format!("00-{id}-00f067aa0ba902b7-00"), Some(false));
        check(&format!("00-{id}-00f067aa0ba902b7-03"), Some(true));
        check(&format!("cc-{id}-00f067aa0ba902b7-01-new"), Some(true));
        check(&format!("00-{id}-00f067aa0ba902b7-01-new"), None);
        check(&format!("ff-{id}-00f067aa0ba902b7-01"), None);
        check(&format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase()), None);
        check(&format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None);
        check(&format!("00-{id}-0000000000000000-01"), None);
        check(&format!("00-{id}-00f067aa0ba902b7"), None);
        check("", None);
    }

    #[test]
    fn requests_are_chosen_by_rate_by_callers_and_for_slowness() {
        let header = |flags| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let never = tracer(0, None);
        assert!(never.begin(None).is_none());
        let forced = never.begin(Some(&header("01"))).unwrap();
        assert_eq!(forced.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(forced.is_sampled());
        assert!(never.begin(Some(&header("00"))).is_none());
        let slow = tracer(0, Some(1));
        assert!(slow.begin(None).is_some_and(|trace| !trace.is_sampled()));
        let tenth = tracer(10, None);
        let chosen = (0..10_000).filter(|_| tenth.begin(None).is_some()).count();
        assert!((800..1_200).contains(&chosen), "{chosen}");
        assert!((0..1_000).all(|_| tenth.begin(Some(&header("00"))).is_none()), "the caller has decided");
    }

    #[test]
    fn e2_callers_cannot_force_any_number() {
        let tracer = tracer(0, None);
        let now = tracer.started + Duration::from_millis(100);
        assert_eq!((0..1_000).filter(|_| tracer.may_force(now)).count() as u64, FORCED_PER_SECOND_MAX);
        assert!(tracer.may_force(now + Duration::from_secs(1)));
    }

    #[test]
    fn e1_a_full_queue_drops_and_counts() {
        let queue = Arc::new(Queue::default());
        let span = |id| Span {
            name: "x".into(),
            id,
            parent: 0,
            begin_ns: 1,
            end_ns: 2,
            attributes: Vec::new(),
            is_error: false,
        };
        let spans: Vec<Span> = (1..=512).map(span).collect();
        let trace =
            || FinishedTrace { trace_id: 1, root: 1, spans: spans.clone(), left_out_count: 0, is_sampled: true };
        (0..40).for_each(|_| queue.finished(trace()));
        let watch = TraceWatch(queue.clone());
        assert_eq!(watch.counts(), TraceCounts { dropped_full: 8, ..TraceCounts::default() });
        let batch = queue.take();
        assert_eq!(batch.len(), 8, "one export has a bound");
        queue.finished(trace());
        assert_eq!(watch.counts().dropped_full, 8, "there is room again");
        let left: usize = std::iter::from_fn(|| Some(queue.take().len()).filter(|count| *count > 0)).sum();
        assert_eq!((left, queue.waiting().spans_count), (25, 0));
    }
}
