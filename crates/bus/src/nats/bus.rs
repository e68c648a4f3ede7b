//! Bus over core NATS.
//!
//! Owns        a task per subscription that moves messages from the client to a bounded queue (`queue`).
//! Invariants  see `Bus`. The server never keeps a message; while the connection is lost, what others send is lost too.
//! Limits      see `NatsOptions`. The client's own queue of a subscription is transit only; if it overflows all the
//!             same, all subscriptions of this bus end with `Lagged`, because the client library does not report which.
//!             In a cluster of NATS servers a subscription may miss messages that are sent at another server in the
//!             first moments.

use super::{
    NatsError, NatsOptions,
    link::{AskError, Link, Outgoing},
};
use crate::{
    Bus, BusError, Delivery, Subject, Subscription, SubscriptionEnd,
    queue::{Queue, QueueLimits},
};
use async_nats::Subscriber;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinHandle};

/// A bus over NATS. A clone is the same connection.
#[derive(Clone)]
pub struct NatsBus {
    link: Arc<Link>,
    limits: QueueLimits,
}

impl NatsBus {
    /// Connects to the first server that answers.
    ///
    /// # Errors
    /// See `NatsError`.
    pub async fn connect(options: &NatsOptions) -> Result<Self, NatsError> {
        let limits = QueueLimits { messages_max: options.messages_max, bytes_max: options.bytes_max };
        Ok(Self { link: Arc::new(Link::connect(options).await?), limits })
    }

    fn full(&self, subject: &Subject) -> String {
        format!("{}.{subject}", self.link.prefix)
    }

    fn check_size(&self, payload: &Bytes) -> Result<(), BusError> {
        let (bytes, bytes_max) = (payload.len(), self.payload_bytes_max());
        if bytes > bytes_max { Err(BusError::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }
}

#[async_trait]
impl Bus for NatsBus {
    fn payload_bytes_max(&self) -> usize {
        self.link.client.max_payload()
    }

    async fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), BusError> {
        self.check_size(&payload)?;
        let message = Outgoing { subject: self.full(subject), payload, ..Outgoing::default() };
        if self.link.send(message).await { Ok(()) } else { Err(BusError::Closed) }
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, BusError> {
        if self.link.is_away() {
            return Err(BusError::Closed);
        }
        let overflows = self.link.overflows();
        let subscribing = tokio::time::timeout(self.link.answer_max, self.link.client.subscribe(self.full(subject)));
        let Ok(Ok(subscriber)) = subscribing.await else { return Err(BusError::Closed) };
        // Messages that others send from now on arrive.
        if !self.link.round_trip().await {
            return Err(BusError::Closed);
        }
        let queue = Arc::new(Queue::new(self.limits));
        let prefix = format!("{}.", self.link.prefix);
        let task = tokio::spawn(receive(subscriber, overflows, queue.clone(), prefix));
        Ok(Box::new(NatsSubscription { queue, task }))
    }

    async fn request(&self, subject: &Subject, payload: Bytes, timeout: Duration) -> Result<Bytes, BusError> {
        self.check_size(&payload)?;
        let answer = self.link.ask(self.full(subject), None, payload, timeout).await;
        answer.map(|answer| answer.payload).map_err(|error| match error {
            AskError::Away => BusError::Closed,
            AskError::NoResponders => BusError::NoResponders(subject.clone()),
            AskError::Timeout => BusError::Timeout { subject: subject.clone(), ms: timeout.as_millis() as u64 },
        })
    }

    fn is_away(&self) -> bool {
        self.link.is_away()
    }

    fn outages(&self) -> u64 {
        *self.link.outages().borrow()
    }
}

struct NatsSubscription {
    queue: Arc<Queue>,
    task: JoinHandle<()>,
}

impl Drop for NatsSubscription {
    fn drop(&mut self) {
        self.queue.set_dropped();
        // The client unsubscribes when its end is dropped.
        self.task.abort();
    }
}

#[async_trait]
impl Subscription for NatsSubscription {
    async fn next(&mut self) -> Result<Delivery, SubscriptionEnd> {
        self.queue.next().await
    }
}

/// Moves messages to the queue until the subscription ends.
async fn receive(mut subscriber: Subscriber, mut overflows: watch::Receiver<u64>, queue: Arc<Queue>, prefix: String) {
    loop {
        let message = tokio::select! {
            biased;
            overflow = overflows.changed() => {
                queue.end(if overflow.is_ok() { SubscriptionEnd::Lagged } else { SubscriptionEnd::Closed });
                return;
            }
            message = subscriber.next() => message,
        };
        let Some(message) = message else {
            queue.end(SubscriptionEnd::Closed);
            return;
        };
        let reply_to = message.reply.as_deref().and_then(|reply| Subject::new(reply.strip_prefix(&prefix)?));
        if !queue.push(Delivery { payload: message.payload, reply_to }) {
            return;
        }
    }
}
