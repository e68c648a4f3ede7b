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
pub struct SendBuffer {
    /// Messages outside the sequence, oldest first.
    control: VecDeque<Control>,
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
        let of_control = |control: &Control| match control {
            Control::Payload(_) => 0,
            Control::Frame(frame) => heap::allocated(frame.capacity()),
        };
        Sample::SMALL.of_ring(&self.control, of_control) + heap::of_buffer(&self.unsent)
    }

    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.control.is_empty()
    }

    /// Whether control messages wait.
    pub fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Whether committed bytes wait.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Committed bytes that are not sent yet.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent[self.unsent_at..]
    }

    /// Stores bytes until the socket has room.
    pub fn keep(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// The socket took some of the unsent bytes. Returns whether it took all.
    pub fn mark_sent(&mut self, bytes: usize) -> bool {
        self.unsent_at += bytes;
        if self.unsent_at < self.unsent.len() {
            return false;
        }
        self.unsent = Vec::new();
        self.unsent_at = 0;
        true
    }

    /// Queues a control message.
    ///
    /// # Errors
    /// At the limit it is not queued.
    pub fn push_control(&mut self, control: Control) -> Result<(), Flooded> {
        if self.control.len() >= CONTROL_MAX {
            return Err(Flooded);
        }
        self.control.push_back(control);
        Ok(())
    }

    /// Removes the oldest control message.
    pub fn pop_control(&mut self) -> Option<Control> {
        let control = self.control.pop_front();
        if self.control.is_empty() {
            // A queue keeps room for four.
            self.control = VecDeque::new();
        }
        control
    }

    /// Queues a close frame. Control messages before it are dropped, because the client would ignore them.
    pub fn close_with(&mut self, frame: Vec<u8>) {
        self.control.clear();
        self.control.push_back(Control::Frame(frame));
    }

    /// The socket is full. Returns whether it had room until now.
    pub fn block(&mut self, now: Instant) -> bool {
        let had_room = self.blocked_since.is_none();
        self.blocked_since.get_or_insert(now);
        had_room
    }

    /// The socket has room.
    pub fn unblock(&mut self) {
        self.blocked_since = None;
    }

    /// Time at which the socket became full. None: it has room.
    pub fn blocked_since(&self) -> Option<Instant> {
        self.blocked_since
    }

    /// Whether the socket is full.
    pub fn is_blocked(&self) -> bool {
        self.blocked_since.is_some()
    }
}
