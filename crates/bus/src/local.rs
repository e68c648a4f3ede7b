//! Local: the bus within one process.
//!
//! Limits  a subscription holds `LocalOptions::messages_max` messages and `bytes_max` bytes that its subscriber has not taken;
//!         past either it ends with `Lagged`, and later messages are not kept for it. Subscriptions that were dropped are
//!         forgotten at the next message to their subject.

use crate::{Bus, BusError, Delivery, Subject, Subscription, SubscriptionEnd};
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Notify;

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
}

/// Messages on their way to one subscriber.
struct Queue {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Delivery>,
    bytes: usize,
    end: Option<SubscriptionEnd>,
    is_dropped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each critical section leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalBus {
    /// A bus without subscribers.
    #[must_use]
    pub fn new(options: LocalOptions) -> Self {
        Self(Arc::new(Shared { options, subjects: Mutex::default(), replies: AtomicU64::new(0) }))
    }

    /// Ends all subscriptions. Those that are made afterwards work: as after a restart of a server.
    pub fn restart(&self) {
        for queue in lock(&self.0.subjects).drain().flat_map(|(_, queues)| queues) {
            queue.end(SubscriptionEnd::Closed);
        }
    }

    /// Sends to all subscribers; returns how many there were.
    fn send(&self, subject: &Subject, payload: Bytes, reply_to: Option<&Subject>) -> Result<usize, BusError> {
        let LocalOptions { payload_bytes_max: bytes_max, .. } = self.0.options;
        if payload.len() > bytes_max {
            return Err(BusError::TooLarge { bytes: payload.len(), bytes_max });
        }
        // One lock over all subscribers of a subject keeps the order of each sender.
        let mut subjects = lock(&self.0.subjects);
        let Some(queues) = subjects.get_mut(subject) else { return Ok(0) };
        queues.retain(|queue| queue.push(&self.0.options, &payload, reply_to));
        let count = queues.len();
        if count == 0 {
            subjects.remove(subject);
        }
        Ok(count)
    }
}

impl Queue {
    /// False if nobody is there any more.
    fn push(&self, options: &LocalOptions, payload: &Bytes, reply_to: Option<&Subject>) -> bool {
        let mut state = lock(&self.state);
        if state.is_dropped || state.end.is_some() {
            return false;
        }
        let has_room = state.waiting.len() < options.messages_max && state.bytes + payload.len() <= options.bytes_max;
        if has_room {
            state.bytes += payload.len();
            state.waiting.push_back(Delivery { payload: payload.clone(), reply_to: reply_to.cloned() });
        } else {
            state.end = Some(SubscriptionEnd::Lagged);
        }
        drop(state);
        self.filled.notify_one();
        has_room
    }

    fn end(&self, end: SubscriptionEnd) {
        lock(&self.state).end.get_or_insert(end);
        self.filled.notify_one();
    }
}

struct LocalSubscription(Arc<Queue>);

impl Drop for LocalSubscription {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_dropped = true;
        state.waiting.clear();
    }
}

#[async_trait]
impl Subscription for LocalSubscription {
    async fn next(&mut self) -> Result<Delivery, SubscriptionEnd> {
        loop {
            {
                let mut state = lock(&self.0.state);
                if let Some(delivery) = state.waiting.pop_front() {
                    state.bytes -= delivery.payload.len();
                    return Ok(delivery);
                }
                if let Some(end) = state.end {
                    return Err(end);
                }
            }
            self.0.filled.notified().await;
        }
    }
}

#[async_trait]
impl Bus for LocalBus {
    fn payload_bytes_max(&self) -> usize {
        self.0.options.payload_bytes_max
    }

    async fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), BusError> {
        self.send(subject, payload, None).map(drop)
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, BusError> {
        let queue = Arc::new(Queue { state: Mutex::default(), filled: Notify::new() });
        lock(&self.0.subjects).entry(subject.clone()).or_default().push(queue.clone());
        Ok(Box::new(LocalSubscription(queue)))
    }

    async fn request(&self, subject: &Subject, payload: Bytes, timeout: Duration) -> Result<Bytes, BusError> {
        let number = self.0.replies.fetch_add(1, Relaxed);
        let reply_to = Subject::new(&format!("_reply.{number}")).ok_or(BusError::Closed)?;
        let mut answers = self.subscribe(&reply_to).await?;
        let sent = self.send(subject, payload, Some(&reply_to));
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
}
