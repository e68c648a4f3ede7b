//! Queue: messages between nodes on their way to one subscriber, for both drivers of the bus.
//!
//! Limits  `messages_max` messages and `bytes_max` bytes that the subscriber has not taken; past either the
//!         subscription ends with `Lagged` after the messages before, and later ones are not kept.

use crate::{Delivery, SubscriptionEnd};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    pub messages_max: usize,
    pub bytes_max: usize,
}

pub(crate) struct Queue {
    limits: QueueLimits,
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each critical section leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self { limits, state: Mutex::default(), filled: Notify::new() }
    }

    /// False if the subscription has ended.
    pub(crate) fn push(&self, delivery: Delivery) -> bool {
        let mut state = lock(&self.state);
        if state.is_dropped || state.end.is_some() {
            return false;
        }
        let bytes = state.bytes + delivery.payload.len();
        let has_room = state.waiting.len() < self.limits.messages_max && bytes <= self.limits.bytes_max;
        if has_room {
            state.bytes = bytes;
            state.waiting.push_back(delivery);
        } else {
            state.end = Some(SubscriptionEnd::Lagged);
        }
        drop(state);
        self.filled.notify_one();
        has_room
    }

    /// Ends the subscription after the messages that wait.
    pub(crate) fn end(&self, end: SubscriptionEnd) {
        lock(&self.state).end.get_or_insert(end);
        self.filled.notify_one();
    }

    /// Loses the messages that wait.
    pub(crate) fn clear(&self) {
        let mut state = lock(&self.state);
        state.waiting.clear();
        state.bytes = 0;
    }

    /// The subscriber is gone.
    pub(crate) fn set_dropped(&self) {
        self.clear();
        lock(&self.state).is_dropped = true;
    }

    /// The next message. After an end the result is the same again.
    pub(crate) async fn next(&self) -> Result<Delivery, SubscriptionEnd> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(delivery) = state.waiting.pop_front() {
                    state.bytes -= delivery.payload.len();
                    return Ok(delivery);
                }
                if let Some(end) = state.end {
                    return Err(end);
                }
            }
            self.filled.notified().await;
        }
    }
}
