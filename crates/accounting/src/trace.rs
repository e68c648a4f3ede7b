//! Trace: the way of one request, from REST to the last socket, as spans.
//!
//! Owns        the spans of one trace, their ids and parents, and the decision at the end whether it is exported.
//! Doors       `TraceHandle::begin` at the edge; `child`, `finish` and `leaf` along the way. The drop of the last
//!             handle passes the trace to its `TraceSink`.
//! Invariants  T1 every span but the root has a parent of the same trace, also where threads finish in any order.
//!             T2 a trace that was not sampled is exported only if it took `slow_ns`. T3 nothing here is per recipient.
//!             (tests `t1_*`, `t2_*`)
//! Limits      `SPANS_MAX` spans per trace; further ones are counted and left out.
//! Not here    clocks and randomness: drivers pass both. Queue and export: `guildhall_telemetry::traces`.

use std::{
    borrow::Cow,
    fmt, mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

/// Spans of one trace: an event of a guild with two hundred relays fits.
pub const SPANS_MAX: usize = 512;

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Counts, microseconds, codes.
    Number(u64),
    /// A text without personal data.
    Text(Cow<'static, str>),
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// Name and value of an attribute.
pub type Attribute = (&'static str, AttributeValue);

/// Whether what a span measured succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    Ok,
    Error,
}

/// One step of a trace.
#[derive(Clone, Debug)]
pub struct Span {
    pub name: Cow<'static, str>,
    /// Unique in its trace; never 0.
    pub id: u64,
    /// The span that this one is a part of. 0: none. For the root, a span of the caller's own trace.
    pub parent: u64,
    /// Unix nanoseconds.
    pub begin_ns: u64,
    /// Unix nanoseconds.
    pub end_ns: u64,
    pub attributes: Vec<Attribute>,
    pub is_error: bool,
}

/// A trace whose last handle is gone.
#[derive(Clone, Debug)]
pub struct FinishedTrace {
    pub trace_id: u128,
    /// Id of the root among `spans`.
    pub root: u64,
    /// In the order in which they ended.
    pub spans: Vec<Span>,
    /// Spans beyond `SPANS_MAX`.
    pub left_out_count: u32,
    /// Chosen by rate or by the caller; otherwise it was slow.
    pub is_sampled: bool,
}

/// Where finished traces go. Every thread of the node calls it, so it must not wait or panic.
pub trait TraceSink: Send + Sync {
    /// Takes a trace, or drops and counts it.
    fn finished(&self, trace: FinishedTrace);
}

/// Parameters of a new trace.
pub struct TraceStart {
    pub trace_id: u128,
    /// Seed of the span ids.
    pub seed: u64,
    /// Span of the caller, from its `traceparent`. 0: none.
    pub parent: u64,
    pub is_sampled: bool,
    /// A trace that takes as long is exported even if it is not sampled. None: no trace is.
    pub slow_ns: Option<u64>,
    /// One moment on both clocks.
    pub began: (Instant, u64),
}

#[derive(Default)]
struct Spans {
    list: Vec<Span>,
    left_out_count: u32,
    end_ns: u64,
}

/// The spans of one request so far.
struct Trace {
    start: TraceStart,
    root: u64,
    ids: AtomicU64,
    is_validated: AtomicBool,
    spans: Mutex<Spans>,
    sink: Arc<dyn TraceSink>,
}

impl Trace {
    fn next_id(&self) -> u64 {
        let mut bits = self.ids.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31).max(1)
    }

    fn unix_ns(&self, at: Instant) -> u64 {
        let (instant, unix_ns) = self.start.began;
        let since = at.saturating_duration_since(instant).as_nanos();
        unix_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn push(&self, span: Span) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.end_ns = spans.end_ns.max(span.end_ns);
        // A trace is useless without its root, so there is always room for it.
        if spans.list.len() < SPANS_MAX || span.id == self.root {
            spans.list.push(span);
        } else {
            spans.left_out_count += 1;
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let Spans { list, left_out_count, end_ns } =
            mem::take(self.spans.get_mut().unwrap_or_else(PoisonError::into_inner));
        let took_ns = end_ns.saturating_sub(self.start.began.1);
        let is_slow = self.start.slow_ns.is_some_and(|slow_ns| took_ns >= slow_ns);
        if list.is_empty() || !(self.start.is_sampled || is_slow) {
            return;
        }
        self.sink.finished(FinishedTrace {
            trace_id: self.start.trace_id,
            root: self.root,
            spans: list,
            left_out_count,
            is_sampled: self.start.is_sampled,
        });
    }
}

/// One span of a trace that has begun, on whatever thread works on it. An event of a traced request carries one.
#[derive(Clone)]
pub struct TraceHandle {
    trace: Arc<Trace>,
    span: u64,
    parent: u64,
}

impl fmt::Debug for TraceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceHandle({} {:016x})", self.trace_id(), self.span)
    }
}

impl TraceHandle {
    /// Begins a trace; the handle is its root span.
    #[must_use]
    pub fn begin(start: TraceStart, sink: Arc<dyn TraceSink>) -> Self {
        let parent = start.parent;
        let mut trace = Trace {
            ids: AtomicU64::new(start.seed),
            start,
            root: 0,
            is_validated: AtomicBool::new(false),
            spans: Mutex::default(),
            sink,
        };
        let span = trace.next_id();
        trace.root = span;
        Self { trace: Arc::new(trace), span, parent }
    }

    /// Continues a trace of another process. The handle represents the span `start.parent`, which the other process
    /// records; spans of this process are its children. The sink gets them as a trace of their own with the same id.
    #[must_use]
    pub fn resume(start: TraceStart, sink: Arc<dyn TraceSink>) -> Self {
        let span = start.parent;
        let trace = Self::begin(start, sink).trace;
        Self { trace, span, parent: 0 }
    }

    /// The ids of the trace and of this span, for a process that continues the trace.
    #[must_use]
    pub fn ids(&self) -> (u128, u64) {
        (self.trace.start.trace_id, self.span)
    }

    /// The trace's id as logs and `traceparent` have it.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace.start.trace_id)
    }

    /// Chosen by rate or by the caller: it will be exported. Otherwise only if it turns out slow.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.trace.start.is_sampled
    }

    /// When the trace began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.trace.start.began.0
    }

    /// True at the first call for a trace: the first command of a request ends its validation.
    #[must_use]
    pub fn ends_validation(&self) -> bool {
        !self.trace.is_validated.swap(true, Ordering::Relaxed)
    }

    /// A span that begins within this one. It is recorded by `finish`.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { trace: self.trace.clone(), span: self.trace.next_id(), parent: self.span }
    }

    /// Records this span. Spans within it may end later.
    pub fn finish(
        &self,
        name: impl Into<Cow<'static, str>>,
        (begin, end): (Instant, Instant),
        attributes: Vec<Attribute>,
        status: SpanStatus,
    ) {
        self.trace.push(Span {
            name: name.into(),
            id: self.span,
            parent: self.parent,
            begin_ns: self.trace.unix_ns(begin),
            end_ns: self.trace.unix_ns(end),
            attributes,
            is_error: status == SpanStatus::Error,
        });
    }

    /// Records a span within this one that has no further spans in it.
    pub fn leaf(&self, name: &'static str, times: (Instant, Instant), attributes: Vec<Attribute>) {
        self.child().finish(name, times, attributes, SpanStatus::Ok);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests have a clock")]
mod tests {
    use super::*;
    use std::time::Duration;

    #[derive(Default)]
    struct CollectingSink(Mutex<Vec<FinishedTrace>>);

    impl TraceSink for CollectingSink {
        fn finished(&self, trace: FinishedTrace) {
            self.0.lock().unwrap().push(trace);
        }
    }

    fn begin(is_sampled: bool, slow_ns: Option<u64>) -> (TraceHandle, Arc<CollectingSink>, Instant) {
        let (sink, now) = (Arc::new(CollectingSink::default()), Instant::now());
        let start = TraceStart { trace_id: 7, seed: 42, parent: 9, is_sampled, slow_ns, began: (now, 1_000) };
        (TraceHandle::begin(start, sink.clone()), sink, now)
    }

    fn finished(sink: &CollectingSink) -> Vec<FinishedTrace> {
        sink.0.lock().unwrap().clone()
    }

    #[test]
    fn t1_spans_have_their_parents_in_any_order_of_ends() {
        let (root, sink, now) = begin(true, None);
        let after = |ns| now + Duration::from_nanos(ns);
        let guild = root.child();
        let relay = guild.child();
        root.finish("root", (now, after(10)), Vec::new(), SpanStatus::Ok);
        drop(root);
        guild.finish("guild", (after(2), after(5)), vec![("n", 3.into())], SpanStatus::Ok);
        drop(guild);
        assert!(finished(&sink).is_empty(), "the relay has not ended");
        relay.leaf("write", (after(7), after(20)), Vec::new());
        relay.finish("relay", (after(6), after(30)), Vec::new(), SpanStatus::Error);
        drop(relay);
        let [trace] = &finished(&sink)[..] else { panic!("one trace") };
        let span = |name: &str| trace.spans.iter().find(|span| span.name == name).unwrap();
        assert_eq!((trace.trace_id, trace.root, trace.left_out_count), (7, span("root").id, 0));
        assert_eq!(span("root").parent, 9);
        assert_eq!(span("guild").parent, span("root").id);
        assert_eq!(span("relay").parent, span("guild").id);
        assert_eq!(span("write").parent, span("relay").id);
        assert_eq!((span("guild").begin_ns, span("guild").end_ns), (1_002, 1_005));
        assert!(span("relay").is_error && !span("root").is_error);
        let mut ids: Vec<u64> = trace.spans.iter().map(|span| span.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4);
    }

    #[test]
    fn t2_only_slow_ones_are_exported_unless_they_are_sampled() {
        let check = |is_sampled, slow_ns, took_ns, expected: usize| {
            let (root, sink, now) = begin(is_sampled, slow_ns);
            let late = root.child();
            root.finish("root", (now, now), Vec::new(), SpanStatus::Ok);
            drop(root);
            late.finish("relay", (now, now + Duration::from_nanos(took_ns)), Vec::new(), SpanStatus::Ok);
            drop(late);
            assert_eq!(finished(&sink).len(), expected, "{is_sampled} {slow_ns:?} {took_ns}");
        };
        check(true, None, 1, 1);
        check(false, None, u64::MAX / 4, 0);
        check(false, Some(100), 99, 0);
        check(false, Some(100), 100, 1);
    }

    #[test]
    fn t1_a_trace_goes_on_in_another_process() {
        let (root, _here, now) = begin(true, None);
        let (trace_id, span) = root.child().ids();
        let sink = Arc::new(CollectingSink::default());
        let start =
            TraceStart { trace_id, seed: 43, parent: span, is_sampled: true, slow_ns: None, began: (now, 1_000) };
        let there = TraceHandle::resume(start, sink.clone());
        there.leaf("relay", (now, now), Vec::new());
        assert_eq!(there.ids(), (trace_id, span));
        drop(there);
        let [piece] = &finished(&sink)[..] else { panic!("one piece") };
        assert_eq!((piece.trace_id, piece.spans.len(), piece.spans[0].parent), (7, 1, span));
        assert_ne!(piece.spans[0].id, piece.root, "it has no root");
    }

    #[test]
    fn further_spans_are_counted_and_the_root_has_room() {
        let (root, sink, now) = begin(true, None);
        (0..SPANS_MAX + 3).for_each(|_| root.leaf("relay", (now, now), Vec::new()));
        root.finish("root", (now, now), Vec::new(), SpanStatus::Ok);
        drop(root);
        let [trace] = &finished(&sink)[..] else { panic!("one trace") };
        assert_eq!((trace.spans.len(), trace.left_out_count), (SPANS_MAX + 1, 3));
    }

    #[test]
    fn a_request_is_validated_once() {
        let (root, _sink, _) = begin(true, None);
        assert!(root.ends_validation());
        assert!(!root.child().ends_validation());
    }
}
