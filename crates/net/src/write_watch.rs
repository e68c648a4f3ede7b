//! Write watch: the spans of traced events on a partition, from the mailbox to the last write of the turn.
//!
//! Owns        for each traced event of a turn: when its relay worked, when its body was encoded first, and when the
//!             sockets took its first and its last frame.
//! Invariants  W1 a turn without traced events reads no clock here. W2 each send is stamped only for events that are
//!             sampled; an event that is traced because it might be slow has its first write stamped, and the end of
//!             the turn in place of the last.
//! Limits      `WATCHED_MAX` events of a turn have spans of encoding and writing; further ones only that of the relay.
//!             Frames that a full socket takes later, and READYs, are not part of a trace.

use guildhall_accounting::{SpanStatus, TraceHandle};
use guildhall_guild_protocol::RelayId;
use std::time::Instant;

/// A busy turn takes some hundred messages; each of these would be looked at for each send.
const WATCHED_MAX: usize = 8;

/// The part that passes an event on to sessions.
#[derive(Clone, Copy, Debug)]
pub enum Deliverer {
    /// A relay of a guild.
    Relay(RelayId),
    /// The partition itself, to the accounts of a direct message.
    Direct,
}

/// A traced event on its partition.
struct Watched {
    /// The span of the deliverer.
    relay: TraceHandle,
    by: Deliverer,
    wait_us: u64,
    started: Instant,
    handled: Instant,
    deliveries: u64,
    encoding: Option<(Instant, Instant)>,
    first: Option<(Instant, Instant)>,
    last: Option<(Instant, Instant)>,
}

/// The traced events of a turn.
#[derive(Default)]
pub struct WriteWatch {
    events: Vec<Watched>,
    encode_begun: Option<Instant>,
}

impl WriteWatch {
    /// An event of the span `parent` begins, which waited in the mailbox since `handed_over_at`.
    pub fn begin(&mut self, parent: &TraceHandle, by: Deliverer, handed_over_at: Instant) -> TraceHandle {
        let started = Instant::now();
        let relay = parent.child();
        self.events.push(Watched {
            relay: relay.clone(),
            by,
            wait_us: started.saturating_duration_since(handed_over_at).as_micros() as u64,
            started,
            handled: started,
            deliveries: 0,
            encoding: None,
            first: None,
            last: None,
        });
        relay
    }

    /// Whether a traced event has begun in this turn.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The event that began last is handled.
    pub fn handled(&mut self, deliveries: u64) {
        // Every partition of every node gets an event of a direct message, and most have none of its accounts.
        if deliveries == 0 && self.events.last().is_some_and(|event| matches!(event.by, Deliverer::Direct)) {
            self.events.pop();
        } else if let Some(event) = self.events.last_mut() {
            (event.handled, event.deliveries) = (Instant::now(), deliveries);
        }
    }

    /// The relay encodes the body of the event that it handles.
    pub fn encode_begins(&mut self) {
        if self.events.last().is_some_and(|event| event.encoding.is_none()) {
            self.encode_begun = Some(Instant::now());
        }
    }

    /// The body is encoded.
    pub fn encode_ends(&mut self) {
        if let (Some(started), Some(event)) = (self.encode_begun.take(), self.events.last_mut()) {
            event.encoding = Some((started, Instant::now()));
        }
    }

    /// When a send begins, if its time is of interest.
    #[inline]
    pub fn send_begins(&self) -> Option<Instant> {
        if self.events.is_empty() { None } else { self.stamp() }
    }

    #[cold]
    fn stamp(&self) -> Option<Instant> {
        let wants = |event: &Watched| event.first.is_none() || event.relay.is_sampled();
        self.events.iter().take(WATCHED_MAX).any(wants).then(Instant::now)
    }

    /// A socket has taken bytes. Frames of a coalesced turn count for each of its events.
    #[cold]
    pub fn sent(&mut self, started: Instant) {
        let times = (started, Instant::now());
        for event in self.events.iter_mut().take(WATCHED_MAX) {
            event.first.get_or_insert(times);
            event.last = Some(times);
        }
    }

    /// The turn has flushed: records the spans of its events.
    pub fn end_turn(&mut self, now: Instant) {
        for event in self.events.drain(..) {
            let Watched { relay, by, wait_us, started, handled, deliveries, encoding, first, last } = event;
            if let Some(times) = encoding {
                relay.leaf("encode", times, Vec::new());
            }
            if let (Some(first), Some(last)) = (first, last) {
                relay.leaf("first_write", first, Vec::new());
                let is_exact = relay.is_sampled();
                let (times, how) = if is_exact { (last, "each send") } else { ((now, now), "end of the turn") };
                relay.leaf("last_write", times, vec![("guildhall.measured_by", how.into())]);
            }
            let (name, mut attributes) = match by {
                Deliverer::Relay(relay_id) => {
                    let partition = u64::from(relay_id.partition.0).into();
                    let relay = u64::from(relay_id.index).into();
                    ("relay", vec![("guildhall.partition", partition), ("guildhall.relay", relay)])
                }
                Deliverer::Direct => ("direct", Vec::new()),
            };
            attributes.push(("guildhall.mailbox_wait_us", wait_us.into()));
            attributes.push(("guildhall.deliveries", deliveries.into()));
            // The flush of the turn writes what the relay did not.
            let end = last.map_or(handled, |(_, end)| end.max(handled));
            relay.finish(name, (started, end), attributes, SpanStatus::Ok);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_accounting::{FinishedTrace, Span, TraceSink, TraceStart};
    use guildhall_guild_protocol::PartitionId;
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct FinishedTraces(Mutex<Vec<FinishedTrace>>);

    impl TraceSink for FinishedTraces {
        fn finished(&self, trace: FinishedTrace) {
            self.0.lock().unwrap().push(trace);
        }
    }

    fn spans(is_sampled: bool) -> Vec<Span> {
        let (sink, began) = (Arc::new(FinishedTraces::default()), (Instant::now(), 1));
        let start = TraceStart { trace_id: 1, seed: 1, parent: 0, is_sampled, slow_ns: Some(0), began };
        let parent = TraceHandle::begin(start, sink.clone());
        let mut watch = WriteWatch::default();
        assert!(watch.send_begins().is_none(), "W1");
        watch.begin(&parent, Deliverer::Relay(RelayId { partition: PartitionId(3), index: 2 }), Instant::now());
        for _ in 0..3 {
            watch.encode_begins();
            watch.encode_ends();
            if let Some(started) = watch.send_begins() {
                watch.sent(started);
            }
        }
        watch.handled(3);
        watch.end_turn(Instant::now());
        assert!(watch.send_begins().is_none(), "the turn has ended");
        drop(parent);
        sink.0.lock().unwrap().remove(0).spans
    }

    #[test]
    fn a_direct_message_has_a_span_where_it_has_recipients() {
        let (sink, began) = (Arc::new(FinishedTraces::default()), (Instant::now(), 1));
        let start = TraceStart { trace_id: 1, seed: 1, parent: 0, is_sampled: true, slow_ns: None, began };
        let parent = TraceHandle::begin(start, sink.clone());
        let mut watch = WriteWatch::default();
        watch.begin(&parent, Deliverer::Direct, Instant::now());
        watch.handled(0);
        assert!(!watch.has_events() && watch.send_begins().is_none());
        watch.begin(&parent, Deliverer::Direct, Instant::now());
        watch.handled(2);
        let started = watch.send_begins().expect("it is sampled");
        watch.sent(started);
        watch.end_turn(Instant::now());
        drop(parent);
        let spans = sink.0.lock().unwrap().remove(0).spans;
        let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["first_write", "last_write", "direct"]);
        assert_eq!(spans[2].attributes[1], ("guildhall.deliveries", 2.into()));
    }

    #[test]
    fn w2_only_sampled_events_have_each_send_stamped() {
        for is_sampled in [true, false] {
            let spans = spans(is_sampled);
            let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
            assert_eq!(names, ["encode", "first_write", "last_write", "relay"]);
            let (first, last, relay) = (&spans[1], &spans[2], &spans[3]);
            assert!(spans[..3].iter().all(|span| span.parent == relay.id));
            assert!(first.end_ns <= last.begin_ns);
            let how = if is_sampled { "each send" } else { "end of the turn" };
            assert_eq!(last.attributes, [("guildhall.measured_by", how.into())]);
            assert_eq!(relay.attributes[..2], [("guildhall.partition", 3.into()), ("guildhall.relay", 2.into())]);
            assert_eq!(relay.attributes[3], ("guildhall.deliveries", 3.into()));
        }
    }
}
