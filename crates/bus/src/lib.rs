//! Bus: messages between the nodes of a cluster.
//!
//! Owns        the `Bus` trait with its drivers, `LocalBus` within a process and `NatsBus`; the `KeyValue` trait for
//!             leases with `LocalKv` and `NatsKv`; one contract suite per trait for all drivers
//!             (`tests/it/contract.rs`, `tests/it/kv_contract.rs`); the form of messages (`frame`).
//! Invariants  see `Bus` and `kv`. A bus loses messages while its server is away, perhaps without an error: `frame`
//!             numbers messages, so that a receiver notices every loss.
//! Not here    the messages themselves; recovery after a loss.
#![forbid(unsafe_code)]

mod frame;
mod kv;
mod local;
mod local_kv;
mod nats;
mod queue;
mod subject;

pub use frame::{
    Event, FRAME_VERSION, FrameError, HEADER_BYTES, Incoming, IncomingLimits, Outgoing, Received, SenderId, StreamId,
    sender_of,
};
pub use kv::{Entry, KV_TTL_MIN, KV_VALUE_BYTES_MAX, Key, KeyValue, KvError, KvEvent, KvWatch, Revision};
pub use local::{LocalBus, LocalOptions};
pub use local_kv::LocalKv;
pub use nats::{NatsBus, NatsCredentials, NatsError, NatsKv, NatsOptions, NatsTls};
pub use subject::{SUBJECT_BYTES_MAX, Subject};

use async_trait::async_trait;
use bytes::Bytes;
use std::time::Duration;

/// Why the bus did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The payload is larger than the bus accepts: it must be sent in parts.
    #[error("the message has {bytes} bytes, and the bus accepts {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    /// The subject has no subscriber, so no answer can come.
    #[error("no subscriber answers requests to {0}")]
    NoResponders(Subject),
    /// The answer did not come in time. The request may have been carried out.
    #[error("no answer to a request to {subject} within {ms} ms")]
    Timeout { subject: Subject, ms: u64 },
    /// The bus is closed, or its server cannot be reached or accepts nothing. A message was sent at most in part of its
    /// frames; nothing is sent later.
    #[error("the bus is closed, or its server cannot be reached")]
    Closed,
}

/// A message that a subscriber received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub payload: Bytes,
    /// Where an answer is expected; none for an event.
    pub reply_to: Option<Subject>,
}

/// Why a subscription ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionEnd {
    /// The subscriber was slower than the messages: later ones were dropped. It has to subscribe again, and to recover
    /// the state that it missed.
    Lagged,
    /// The bus is closed.
    Closed,
}

/// Messages for one subscriber, in order.
#[async_trait]
pub trait Subscription: Send {
    /// The next message. After an end the result is the same again.
    async fn next(&mut self) -> Result<Delivery, SubscriptionEnd>;
}

/// Messages by subject, from many senders to all subscribers at that moment.
///
/// Messages of one sender on one subject arrive in the order in which it sent them; between senders or subjects there
/// is no order. A sender never waits for a subscriber. A subscriber that is too slow loses its subscription, and
/// nothing in silence. A message that is sent while a subscriber is not there is not kept for it.
///
/// While the server is away, every call fails within a second or so, and messages on their way are lost. Subscriptions
/// outlive that: they resume without another call, and only the numbers of `frame` and `outages` show the loss.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Most bytes of one payload.
    fn payload_bytes_max(&self) -> usize;

    /// Sends to all subscribers of a subject. Returns once the message is on its way, also without subscribers.
    ///
    /// # Errors
    /// `TooLarge`, `Closed`.
    async fn publish(&self, subject: &Subject, payload: Bytes) -> Result<(), BusError>;

    /// Receives from now on: messages that are published after this returned.
    ///
    /// # Errors
    /// `Closed`.
    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, BusError>;

    /// Sends a request and waits for the first answer.
    ///
    /// # Errors
    /// `NoResponders`, `Timeout`, `TooLarge`, `Closed`.
    async fn request(&self, subject: &Subject, payload: Bytes, timeout: Duration) -> Result<Bytes, BusError>;

    /// Whether the server cannot be reached now.
    fn is_away(&self) -> bool {
        false
    }

    /// How often the connection to the server was lost so far: a subscriber that remembers the number knows whether it
    /// may have missed messages since.
    fn outages(&self) -> u64 {
        0
    }
}
