//! Contract: what every bus does. A driver instantiates it with `suite!`.

use bytes::Bytes;
use futures_util::future::join_all;
use guildhall_bus::{
    Bus, BusError, Delivery, Event, HEADER_BYTES, Incoming, IncomingLimits, Outgoing, SenderId, StreamId, Subject,
    Subscription, SubscriptionEnd,
};
use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn subject(text: &str) -> Subject {
    Subject::new(text).unwrap()
}

/// Waits for what must happen.
#[track_caller]
pub fn within<F: Future>(what: &str, waited_for: F) -> impl Future<Output = F::Output> {
    let (what, at) = (what.to_owned(), Location::caller());
    async move {
        let happened = tokio::time::timeout(PATIENCE, waited_for).await;
        happened.unwrap_or_else(|_| panic!("{PATIENCE:?} without {what}, for which {at} waits"))
    }
}

fn number(n: u32) -> Bytes {
    Bytes::copy_from_slice(&n.to_le_bytes())
}

/// The next message, or how the subscription ended.
#[track_caller]
fn delivery(subscription: &mut Box<dyn Subscription>) -> impl Future<Output = Result<Delivery, SubscriptionEnd>> {
    within("a message", subscription.next())
}

#[track_caller]
fn next(subscription: &mut Box<dyn Subscription>) -> impl Future<Output = Bytes> {
    let delivery = delivery(subscription);
    async move { delivery.await.unwrap().payload }
}

/// Returns when everything that was sent before has reached the queues of this bus.
async fn settle(bus: &Arc<dyn Bus>) {
    let to = subject("settle");
    let mut last = bus.subscribe(&to).await.unwrap();
    bus.publish(&to, number(0)).await.unwrap();
    next(&mut last).await;
    // The tasks that fill the queues run at the next await of this one.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Many senders at once: each one's messages are in order, and none is missing.
pub async fn order_per_sender(bus: Arc<dyn Bus>) {
    let (one, other) = (subject("a.b"), subject("a.c"));
    let mut received = bus.subscribe(&one).await.unwrap();
    let mut elsewhere = bus.subscribe(&other).await.unwrap();
    let senders = (0..8_u32).map(|sender| {
        let (bus, one, other) = (bus.clone(), one.clone(), other.clone());
        tokio::spawn(async move {
            for n in 0..200 {
                bus.publish(&one, number((sender << 16) | n)).await.unwrap();
                bus.publish(&other, number(u32::MAX)).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    within("the senders' end", join_all(senders)).await.into_iter().for_each(Result::unwrap);
    let mut expected = [0; 8];
    for _ in 0..8 * 200 {
        let n = u32::from_le_bytes(next(&mut received).await[..].try_into().unwrap());
        let sender = (n >> 16) as usize;
        assert_eq!(n & 0xffff, expected[sender], "of sender {sender}");
        expected[sender] += 1;
    }
    assert_eq!(next(&mut elsewhere).await, number(u32::MAX));
}

pub async fn each_subscriber_gets_a_copy(bus: Arc<dyn Bus>) {
    let to = subject("copies");
    bus.publish(&to, number(0)).await.unwrap(); // without a subscriber
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(bus.subscribe(&to).await.unwrap());
    }
    bus.publish(&to, number(1)).await.unwrap();
    drop(all.pop());
    bus.publish(&to, number(2)).await.unwrap();
    for subscription in &mut all {
        assert_eq!((next(subscription).await, next(subscription).await), (number(1), number(2)));
    }
}

/// A bus with room for 10 messages: the sender does not wait, the slow subscriber receives an error, others do not.
pub async fn a_slow_subscriber_receives_an_error(bus: Arc<dyn Bus>) {
    let to = subject("slow");
    let mut slow = bus.subscribe(&to).await.unwrap();
    let mut quick = bus.subscribe(&to).await.unwrap();
    for n in 0..30 {
        bus.publish(&to, number(n)).await.unwrap();
        assert_eq!(next(&mut quick).await, number(n));
    }
    settle(&bus).await;
    let mut received = 0;
    let end = loop {
        match delivery(&mut slow).await {
            Ok(delivery) => {
                assert_eq!(delivery.payload, number(received), "those before the loss are in order");
                received += 1;
            }
            Err(end) => break end,
        }
    };
    assert_eq!(end, SubscriptionEnd::Lagged);
    assert!(received < 30, "{received}");
    assert_eq!(delivery(&mut slow).await, Err(SubscriptionEnd::Lagged), "it stays so");
    let mut again = bus.subscribe(&to).await.unwrap();
    bus.publish(&to, number(99)).await.unwrap();
    assert_eq!(next(&mut again).await, number(99));
}

/// A bus with room for 1,000 bytes.
pub async fn bytes_have_a_bound(bus: Arc<dyn Bus>) {
    let to = subject("bytes");
    let mut slow = bus.subscribe(&to).await.unwrap();
    for _ in 0..3 {
        bus.publish(&to, Bytes::from(vec![0; 400])).await.unwrap();
    }
    settle(&bus).await;
    assert_eq!(next(&mut slow).await.len(), 400);
    assert_eq!(next(&mut slow).await.len(), 400);
    assert_eq!(delivery(&mut slow).await, Err(SubscriptionEnd::Lagged));
}

pub async fn requests_and_answers(bus: Arc<dyn Bus>) {
    let to = subject("requests");
    let error = bus.request(&to, number(1), PATIENCE).await.unwrap_err();
    assert_eq!(error, BusError::NoResponders(to.clone()));
    let mut requests = bus.subscribe(&to).await.unwrap();
    let answering = {
        let bus = bus.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let request = delivery(&mut requests).await.unwrap();
                let n = u32::from_le_bytes(request.payload[..].try_into().unwrap());
                bus.publish(&request.reply_to.unwrap(), number(n * 2)).await.unwrap();
            }
            requests
        })
    };
    let answers = join_all((0..20).map(|n| bus.request(&to, number(n), PATIENCE))).await;
    for (n, answer) in (0..).zip(answers) {
        assert_eq!(answer.unwrap(), number(n * 2));
    }
    let _requests = within("the end of the answers", answering).await.unwrap();
    let error = bus.request(&to, number(1), Duration::from_millis(20)).await.unwrap_err();
    assert_eq!(error, BusError::Timeout { subject: to, ms: 20 });
}

/// A message that is larger than a payload travels in frames.
pub async fn large_messages_in_parts(bus: Arc<dyn Bus>) {
    let to = subject("large");
    let bytes_max = bus.payload_bytes_max();
    let error = bus.publish(&to, Bytes::from(vec![0; bytes_max + 1])).await.unwrap_err();
    assert_eq!(error, BusError::TooLarge { bytes: bytes_max + 1, bytes_max });
    let large: Vec<u8> = (0..bytes_max * 3).map(|n| (n % 251) as u8).collect();
    let mut receiving = bus.subscribe(&to).await.unwrap();
    let mut outgoing = Outgoing::new(SenderId(1), StreamId(2));
    for payload in [&large[..], b"small"] {
        for frame in outgoing.frames(7, payload, bytes_max).unwrap() {
            bus.publish(&to, frame).await.unwrap();
        }
    }
    let mut incoming = Incoming::new(IncomingLimits::default());
    let mut messages = Vec::new();
    while messages.len() < 2 {
        let (gap, event) = incoming.accept(&next(&mut receiving).await).unwrap();
        assert_eq!(gap, None);
        messages.extend(event);
    }
    let payloads: Vec<Bytes> = messages
        .into_iter()
        .map(|event| match event {
            Event::Message(received) => received.payload,
            Event::Gap(..) => panic!("a gap"),
        })
        .collect();
    assert!(payloads[0] == large && payloads[1] == b"small"[..]);
}

/// A subscription outlives a restart: it receives the messages that are sent after both sides have reconnected.
pub async fn a_restart_keeps_subscriptions(of: impl BusUnderTest) {
    let (bus, other) = (of.bus(), of.other().await);
    let to = subject("restart");
    let mut received = other.subscribe(&to).await.unwrap();
    bus.publish(&to, number(1)).await.unwrap();
    assert_eq!(next(&mut received).await, number(1));
    let outages = (bus.outages(), other.outages());
    of.restart().await;
    let arrived = async {
        for n in 2.. {
            // Messages that are sent before the subscriber has reconnected are lost.
            let _ = bus.publish(&to, number(n)).await;
            if let Ok(delivery) = tokio::time::timeout(Duration::from_millis(50), received.next()).await {
                return delivery.unwrap();
            }
        }
        unreachable!()
    };
    within("a message after the restart", arrived).await;
    assert!(bus.outages() > outages.0 && other.outages() > outages.1);
    assert!(!bus.is_away() && !other.is_away());
    assert_eq!(
        bus.request(&subject("nobody"), number(0), PATIENCE).await,
        Err(BusError::NoResponders(subject("nobody")))
    );
}

/// Numbered messages over two restarts: the receiver gets each one in order, or a gap before the next.
pub async fn losses_at_restarts_are_gaps(of: impl BusUnderTest) {
    let (bus, other) = (of.bus(), of.other().await);
    let to = subject("numbered");
    let mut receiving = other.subscribe(&to).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let sending = {
        let is_done = is_done.clone();
        tokio::spawn(async move {
            let mut outgoing = Outgoing::new(SenderId(1), StreamId(2));
            let mut sent = 0_u32;
            while !is_done.load(Relaxed) {
                let payload = sent.to_le_bytes().repeat(20);
                // A failure loses the message: there is no second attempt.
                for frame in outgoing.frames(7, &payload, HEADER_BYTES + 50).unwrap() {
                    let _ = bus.publish(&to, frame).await;
                }
                sent += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let mut incoming = Incoming::new(IncomingLimits::default());
    let (mut expected, mut is_gap, mut whole) = (0, false, 0);
    let mut receive = async |count: u32| {
        let until = whole + count;
        while whole < until {
            let delivery = within("a numbered message", receiving.next()).await;
            let (gap, event) = incoming.accept(&delivery.unwrap().payload).unwrap();
            is_gap |= gap.is_some();
            if let Some(Event::Message(received)) = event {
                let n = u32::from_le_bytes(received.payload[..4].try_into().unwrap());
                assert!(n == expected || (n > expected && is_gap), "{n} after {expected} without a gap");
                (expected, is_gap) = (n + 1, false);
                whole += 1;
            }
        }
    };
    for _ in 0..2 {
        receive(50).await;
        of.restart().await;
    }
    receive(50).await;
    is_done.store(true, Relaxed);
    within("the sender's end", sending).await.unwrap();
}

/// Each node has its own connection to the bus.
pub async fn nodes_reach_each_other(of: impl BusUnderTest) {
    let (bus, other) = (of.bus(), of.other().await);
    let to = subject("node.requests");
    let mut requests = other.subscribe(&to).await.unwrap();
    let asking = tokio::spawn(async move { bus.request(&to, number(20), PATIENCE).await });
    let request = delivery(&mut requests).await.unwrap();
    assert_eq!(request.payload, number(20));
    other.publish(&request.reply_to.unwrap(), number(40)).await.unwrap();
    assert_eq!(within("the answer", asking).await.unwrap(), Ok(number(40)));
}

/// A bus, with what must outlive it.
pub trait BusUnderTest {
    fn bus(&self) -> Arc<dyn Bus>;
    /// The same bus as another node has it.
    async fn other(&self) -> Arc<dyn Bus>;
    /// Stops its server and starts it again.
    async fn restart(&self);
}

/// `suite!(name, open, open_alone)`: a module of tests. `open(messages_max, bytes_max) -> Option<impl
/// BusUnderTest>` makes a bus with such bounds, None where its server is not installed; `open_alone` makes one with
/// a server of its own.
macro_rules! suite {
    ($name:ident, $open:path, $open_alone:path) => {
        mod $name {
            use $crate::contract::BusUnderTest;

            $crate::contract::suite! { @ $open,
                order_per_sender: (10_000, 1 << 20),
                each_subscriber_gets_a_copy: (100, 1 << 20),
                a_slow_subscriber_receives_an_error: (10, 1 << 20),
                bytes_have_a_bound: (100, 1_000),
                requests_and_answers: (100, 1 << 20),
                large_messages_in_parts: (100, 64 << 20),
            }

            #[tokio::test]
            async fn nodes_reach_each_other() {
                let Some(of) = $open(100, 1 << 20).await else { return };
                $crate::contract::nodes_reach_each_other(of).await;
            }

            #[tokio::test]
            async fn a_restart_keeps_subscriptions() {
                let Some(of) = $open_alone(100, 1 << 20).await else { return };
                $crate::contract::a_restart_keeps_subscriptions(of).await;
            }

            #[tokio::test]
            async fn losses_at_restarts_are_gaps() {
                let Some(of) = $open_alone(10_000, 1 << 20).await else { return };
                $crate::contract::losses_at_restarts_are_gaps(of).await;
            }
        }
    };
    (@ $open:path, $($test:ident: ($messages:expr, $bytes:expr)),* $(,)?) => {
        $(#[tokio::test]
        async fn $test() {
            let Some(of) = $open($messages, $bytes).await else { return };
            $crate::contract::$test(of.bus()).await;
        })*
    };
}
pub(crate) use suite;
