//! Contract: what every bus does. A driver instantiates it with `suite!`.

use bytes::Bytes;
use futures_util::future::join_all;
use guildhall_bus::{
    Bus, BusError, Event, Incoming, IncomingLimits, Outgoing, SenderId, StreamId, Subject, Subscription,
    SubscriptionEnd,
};
use std::{sync::Arc, time::Duration};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn subject(text: &str) -> Subject {
    Subject::new(text).unwrap()
}

fn number(n: u32) -> Bytes {
    Bytes::copy_from_slice(&n.to_le_bytes())
}

async fn next(subscription: &mut Box<dyn Subscription>) -> Bytes {
    subscription.next().await.unwrap().payload
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
    join_all(senders).await.into_iter().for_each(Result::unwrap);
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
    bus.publish(&to, number(0)).await.unwrap(); // to nobody
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

/// A bus with room for 10 messages: the sender does not wait, the slow subscriber learns what happened, others do not.
pub async fn a_slow_subscriber_is_told(bus: Arc<dyn Bus>) {
    let to = subject("slow");
    let mut slow = bus.subscribe(&to).await.unwrap();
    let mut quick = bus.subscribe(&to).await.unwrap();
    for n in 0..30 {
        bus.publish(&to, number(n)).await.unwrap();
        assert_eq!(next(&mut quick).await, number(n));
    }
    let mut received = 0;
    let end = loop {
        match slow.next().await {
            Ok(delivery) => {
                assert_eq!(delivery.payload, number(received), "those before the loss are in order");
                received += 1;
            }
            Err(end) => break end,
        }
    };
    assert_eq!(end, SubscriptionEnd::Lagged);
    assert!(received < 30, "{received}");
    assert_eq!(slow.next().await, Err(SubscriptionEnd::Lagged), "it stays so");
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
    assert_eq!(next(&mut slow).await.len(), 400);
    assert_eq!(next(&mut slow).await.len(), 400);
    assert_eq!(slow.next().await, Err(SubscriptionEnd::Lagged));
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
                let request = requests.next().await.unwrap();
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
    let _requests = answering.await.unwrap();
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

/// After a restart of the bus, subscribers know that they have to subscribe again.
pub async fn a_restart_ends_subscriptions(bus: Arc<dyn Bus>, restart: impl Fn()) {
    let to = subject("restart");
    let mut before = bus.subscribe(&to).await.unwrap();
    bus.publish(&to, number(1)).await.unwrap();
    assert_eq!(next(&mut before).await, number(1));
    restart();
    assert_eq!(before.next().await, Err(SubscriptionEnd::Closed));
    let mut after = bus.subscribe(&to).await.unwrap();
    bus.publish(&to, number(2)).await.unwrap();
    assert_eq!(next(&mut after).await, number(2));
}

/// `suite!(name, open, restart)`: a module of tests. `open(messages_max, bytes_max)` makes a bus with such bounds.
macro_rules! suite {
    ($name:ident, $open:path, $restart:expr) => {
        mod $name {
            use std::sync::Arc;

            $crate::contract::suite! { @ $open,
                order_per_sender: (10_000, 1 << 20),
                each_subscriber_gets_a_copy: (100, 1 << 20),
                a_slow_subscriber_is_told: (10, 1 << 20),
                bytes_have_a_bound: (100, 1_000),
                requests_and_answers: (100, 1 << 20),
                large_messages_in_parts: (100, 64 << 20),
            }

            #[tokio::test]
            async fn a_restart_ends_subscriptions() {
                let bus = $open(100, 1 << 20);
                let restart = $restart;
                $crate::contract::a_restart_ends_subscriptions(Arc::new(bus.clone()), || restart(&bus)).await;
            }
        }
    };
    (@ $open:path, $($test:ident: ($messages:expr, $bytes:expr)),* $(,)?) => {
        $(#[tokio::test]
        async fn $test() {
            $crate::contract::$test(Arc::new($open($messages, $bytes))).await;
        })*
    };
}
pub(crate) use suite;
