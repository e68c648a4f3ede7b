//! Local: the bus within one process.
//!
//! Limits  see `queue`. Subscriptions that were dropped are forgotten at the next message to their subject.

use crate::{
    Bus, BusError, Delivery, Subject, Subscription, SubscriptionEnd,
    queue::{Queue, QueueLimits, lock},
};
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Bounds of a local bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    pub payload_bytes_max: usize,
    /// Messages that wait for one subscriber.
    pub messages_max: usize,
    /// Bytes of the messages that wait for one subscriber.
    pub bytes_max: usize,
}

impl Default for LocalOptions {
    /// As a NATS server by default: 1 MiB per message.
    fn default() -> Self {
        Self { payload_bytes_max: 1 << 20, messages_max: 65_536, bytes_max: 64 << 20 }
    }
}

/// A bus within one process. A clone is the same bus.
#[derive(Clone)]
pub struct LocalBus(Arc<Shared>);

struct Shared {
    options: LocalOptions,
    subjects: Mutex<HashMap<Subject, Vec<Arc<Queue>>>>,
    replies: AtomicU64,
    outages: AtomicU64,
    is_away: AtomicBool,
    is_closed: AtomicBool,
}

impl LocalBus {
    /// A bus without subscribers.
    #[must_use]
    pub fn new(options: LocalOptions) -> Self {
        let (subjects, replies, outages) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        let (is_away, is_closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Shared { options, subjects, replies, outages, is_away, is_closed }))
    }

    /// Loses the messages that wait, as a restart of a server does. Subscriptions stay.
    pub fn restart(&self) {
        self.0.outages.fetch_add(1, Relaxed);
        lock(&self.0.subjects).values().flatten().for_each(|queue| queue.clear());
    }

    /// While it is away, every call fails with `Closed`. Subscriptions stay.
    pub fn set_away(&self, is_away: bool) {
        if !self.0.is_away.swap(is_away, Relaxed) && is_away {
            self.restart();
        }
    }

    /// Ends all subscriptions with `Closed`. Every later call fails with `Closed`.
    pub fn close(&self) {
        self.0.is_closed.store(true, Relaxed);
        for queue in lock(&self.0.subjects).drain().flat_map(|(_, queues)| queues) {
            queue.end(SubscriptionEnd::Closed);
        }
    }

    /// Sends to all subscribers; returns how many there were.
    fn send(&self, subject: &Subject, payload: &Bytes, reply_to: Option<&Subject>) -> Result<usize, BusError> {
        let LocalOptions { payload_bytes_max: bytes_max, .. } = self.0.options;
        if payload.len() > bytes_max {
            return Err(BusError::TooLarge { bytes: payload.len(), bytes_max });
        }
        // One lock over all subscribers of a subject keeps the order of each sender.
        let mut subjects = lock(&self.0.subjects);
        self.check()?;
        let Some(queues) = subjects.get_mut(subject) else { return Ok(0) };
        queues.retain(|queue| queue.push(Delivery { payload: payload.clone(), reply_to: reply_to.cloned() }));
        let count = queues.len();
        if count == 0 {
            subjects.remove(subject);
        }
        Ok(count)
    }

    fn check(&self) -> Result<(), BusError> {
        let is_open = !self.0.is_away.load(Relaxed) && !self.0.is_closed.load(Relaxed);
        if is_open { Ok(()) } else { Err(BusError::Closed) }
    }
}

struct LocalSubscription(Arc<Queue>);

impl Drop for LocalSubscription {
    fn drop(&mut self) {
        self.0.set_dropped();
    }
}

#[async_trait]
impl Subscription for LocalSubscription {
    async fn next(&mut self) -> Result<Delivery, SubscriptionEnd> {
        self.0.next().await
    }
}

#[async_trait]
impl Bus for LocalBus {
    fn payload_bytes_max(&self) -> usize {
        self.0.options.payload_bytes_max
    }

    async fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), BusError> {
        self.send(subject, &payload, None).map(drop)
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, BusError> {
        let LocalOptions { messages_max, bytes_max, .. } = self.0.options;
        let queue = Arc::new(Queue::new(QueueLimits { messages_max, bytes_max }));
        let mut subjects = lock(&self.0.subjects);
        self.check()?;
        subjects.entry(subject.clone()).or_default().push(queue.clone());
        Ok(Box::new(LocalSubscription(queue)))
    }

    async fn request(&self, subject: &Subject, payload: Bytes, timeout: Duration) -> Result<Bytes, BusError> {
        let number = self.0.replies.fetch_add(1, Relaxed);
        let reply_to = Subject::new(&format!("_reply.{number}")).ok_or(BusError::Closed)?;
        let mut answers = self.subscribe(&reply_to).await?;
        let sent = self.send(subject, &payload, Some(&reply_to));
        let answer = match sent {
            Ok(0) => Err(BusError::NoResponders(subject.clone())),
            Ok(_) => match tokio::time::timeout(timeout, answers.next()).await {
                Ok(Ok(delivery)) => Ok(delivery.payload),
                Ok(Err(_)) => Err(BusError::Closed),
                Err(_) => Err(BusError::Timeout { subject: subject.clone(), ms: timeout.as_millis() as u64 }),
            },
            Err(error) => Err(error),
        };
        lock(&self.0.subjects).remove(&reply_to);
        answer
    }

    fn is_away(&self) -> bool {
        self.0.is_away.load(Relaxed)
    }

    fn outages(&self) -> u64 {
        self.0.outages.load(Relaxed)
    }
}
