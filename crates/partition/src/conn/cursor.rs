//! Cursor: the position of a connection in the dispatches of its session.
//!
//! Invariants  C1 a frame that was begun is finished before the next: the position does not leave it without `advance`
//!             or `copy_rest`.
//! Limits      a frame of 4 GiB.

use std::num::NonZeroU64;

/// See the module.
#[derive(Debug)]
pub struct Cursor {
    next_seq: u64,
    /// Seq of RESUMED, at least 1. None: the connection did not resume.
    replay_end: Option<NonZeroU64>,
    /// Bytes of the frame under `next_seq` that are sent; 0 with compression.
    frame_offset: u32,
    /// The rest of a frame is lost: the client would take any further bytes for that rest.
    is_frame_truncated: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { next_seq: 1, replay_end: None, frame_offset: 0, is_frame_truncated: false }
    }
}

impl Cursor {
    /// Seq of the next dispatch to write, or of the one that is written in part.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Sets the first dispatch that the connection gets.
    pub fn start_at(&mut self, seq: u64) {
        self.next_seq = seq;
    }

    /// The frame is sent, or copied to the send buffer, or left out.
    pub fn advance(&mut self) {
        self.next_seq += 1;
        self.frame_offset = 0;
    }

    /// Bytes of the current frame that are sent.
    pub fn frame_offset(&self) -> usize {
        self.frame_offset as usize
    }

    /// Whether the current frame is sent in part.
    pub fn is_mid_frame(&self) -> bool {
        self.frame_offset > 0
    }

    /// Further bytes of the current frame are sent.
    pub fn add_sent(&mut self, bytes: usize) {
        self.frame_offset += bytes as u32;
    }

    /// The rest of the current frame was copied to the send buffer, and its session ends.
    pub fn copy_rest(&mut self) {
        self.frame_offset = 0;
    }

    /// The rest of the current frame is lost.
    pub fn lose_rest(&mut self) {
        self.is_frame_truncated = true;
        self.frame_offset = 0;
    }

    /// Whether the rest of a frame is lost, so that nothing may follow.
    pub fn is_frame_truncated(&self) -> bool {
        self.is_frame_truncated
    }

    /// The replay of a RESUME ends with this seq.
    pub fn set_replay_end(&mut self, seq: u64) {
        self.replay_end = NonZeroU64::new(seq);
    }

    /// Last seq of the replay. None: the connection did not resume.
    pub fn replay_end(&self) -> Option<u64> {
        self.replay_end.map(NonZeroU64::get)
    }

    /// Whether a dispatch is part of the replay, which leaves superseded dispatches out.
    pub fn is_replay(&self, seq: u64) -> bool {
        self.replay_end.is_some_and(|end| seq <= end.get())
    }
}
