//! Send buffer: bytes and control messages that leave before a connection's next dispatch.
//!
//! Invariants  C2 an empty buffer has no heap memory.
//! Limits      `CONTROL_MAX` control messages. Unsent bytes are one write at most.

use super::Control;
use guildhall_stdx::{
    Instant,
    heap::{self, Sample},
};
use std::collections::VecDeque;

/// A client that causes more waiting control messages (pongs, heartbeat answers) than this floods without reading: its
/// connection is aborted.
const CONTROL_MAX: usize = 64;

/// More control messages wait than `CONTROL_MAX`.
#[derive(Debug)]
pub struct Flooded;

/// See the module.
#[derive(Debug, Default)]
pub struct SendBuffer(Option<Box<Waiting>>);

/// What waits; nothing does on nearly every connection.
#[derive(Debug, Default)]
struct Waiting {
    /// The oldest message outside the sequence: the only one, nearly always.
    control: Option<Control>,
    /// The others, oldest first.
    later: VecDeque<Control>,
    /// Bytes that were committed to and did not fit the socket.
    unsent: Vec<u8>,
    /// Bytes of `unsent` that are sent.
    unsent_at: usize,
    /// Time at which the socket became full. None: it has room.
    blocked_since: Option<Instant>,
}

impl SendBuffer {
    /// Heap memory in bytes, without payloads, which all connections share that are sent one.
    pub fn heap_bytes(&self) -> usize {
        let Some(waiting) = &self.0 else { return 0 };
        let of_control = |control: &Control| match control {
            Control::Payload(_) => 0,
            Control::Frame(frame) => heap::allocated(frame.capacity()),
        };
        heap::boxed::<Waiting>()
            + waiting.control.as_ref().map_or(0, of_control)
            + Sample::SMALL.of_ring(&waiting.later, of_control)
            + heap::of_buffer(&waiting.unsent)
    }

    fn waiting(&mut self) -> &mut Waiting {
        self.0.get_or_insert_default()
    }

    /// Frees the memory if nothing waits.
    fn release(&mut self) {
        self.0.take_if(|waiting| {
            waiting.control.is_none() && waiting.unsent.is_empty() && waiting.blocked_since.is_none()
        });
    }

    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        !self.has_unsent() && !self.has_control()
    }

    /// Whether control messages wait.
    pub fn has_control(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| waiting.control.is_some())
    }

    /// Whether committed bytes wait.
    pub fn has_unsent(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| !waiting.unsent.is_empty())
    }

    /// Committed bytes that are not sent yet.
    pub fn unsent(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |waiting| &waiting.unsent[waiting.unsent_at..])
    }

    /// Stores bytes until the socket has room.
    pub fn keep(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.waiting().unsent.extend_from_slice(rest);
        }
    }

    /// The socket took some of the unsent bytes. Returns whether it took all.
    pub fn mark_sent(&mut self, bytes: usize) -> bool {
        let Some(waiting) = &mut self.0 else { return true };
        waiting.unsent_at += bytes;
        if waiting.unsent_at < waiting.unsent.len() {
            return false;
        }
        (waiting.unsent, waiting.unsent_at) = (Vec::new(), 0);
        self.release();
        true
    }

    /// Queues a control message.
    ///
    /// # Errors
    /// At the limit it is not queued.
    pub fn push_control(&mut self, control: Control) -> Result<(), Flooded> {
        let waiting = self.waiting();
        if waiting.control.is_none() {
            waiting.control = Some(control);
        } else if waiting.later.len() + 1 < CONTROL_MAX {
            waiting.later.push_back(control);
        } else {
            return Err(Flooded);
        }
        Ok(())
    }

    /// Removes the oldest control message.
    pub fn pop_control(&mut self) -> Option<Control> {
        let waiting = self.0.as_mut()?;
        let control = waiting.control.take();
        waiting.control = waiting.later.pop_front();
        self.release();
        control
    }

    /// Queues a close frame. Control messages before it are dropped, because the client would ignore them.
    pub fn close_with(&mut self, frame: Vec<u8>) {
        let waiting = self.waiting();
        waiting.later.clear();
        waiting.control = Some(Control::Frame(frame));
    }

    /// The socket is full. Returns whether it had room until now.
    pub fn block(&mut self, now: Instant) -> bool {
        let blocked_since = &mut self.waiting().blocked_since;
        let had_room = blocked_since.is_none();
        blocked_since.get_or_insert(now);
        had_room
    }

    /// The socket has room.
    pub fn unblock(&mut self) {
        if let Some(waiting) = &mut self.0 {
            waiting.blocked_since = None;
            self.release();
        }
    }

    /// Time at which the socket became full. None: it has room.
    pub fn blocked_since(&self) -> Option<Instant> {
        self.0.as_ref()?.blocked_since
    }

    /// Whether the socket is full.
    pub fn is_blocked(&self) -> bool {
        self.blocked_since().is_some()
    }
}
