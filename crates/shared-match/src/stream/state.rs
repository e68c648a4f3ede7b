//! State of one connection's stream: 2.9 KB, whatever the format.
//!
//! Owns        the length of the stream, the positions of the latest bodies in it, and the position since which the
//!             leading digits of the seq are the same.
//! Invariants  K1 a position is that of a body that was written to this very stream, whole.

use crate::{history::BodyId, history::message_sizes::MessageSizes, stream::position_ring::PositionRing, zstd};

/// Digits whose age is kept; a seq with more is written with all of its digits.
const DIGITS_MAX: usize = 10;

/// Slots for event names; of names that share one, the newest body counts.
const NAME_SLOTS: usize = 16;
/// Newest bodies of a name that are remembered.
const NAMED_COUNT: usize = 2;

/// A hash that keeps the frequent names apart.
#[inline]
fn name_slot(name: &str) -> usize {
    let letters = name.as_bytes();
    let letter = |at: usize| usize::from(*letters.get(at).unwrap_or(&0));
    (letters.len() + 7 * letter(letters.len().saturating_sub(5)) + 2 * letter(0)) % NAME_SLOTS
}

/// No format refers back farther.
const FORGET_BYTES: usize = 1 << zstd::WINDOW_LOG;

/// See the module. Positions count decoded bytes and wrap around; only differences below a window count.
#[derive(Clone, Debug, Default)]
pub struct StreamState {
    position: u32,
    /// Where what is out of reach was forgotten last.
    swept_at: u32,
    ring: PositionRing,
    /// By event name, as `name_slot` has it: the newest bodies. Another name may have the same slot.
    named: [[BodyId; NAMED_COUNT]; NAME_SLOTS],
    seq: u64,
    /// Where the newest heartbeat ACK begins; none if that is out of reach for certain.
    ack_at: Option<u32>,
    /// By `k`: position of the first message whose seq shares all digits with the current one except for the last `k`.
    unchanged_since: [u32; DIGITS_MAX],
}

impl StreamState {
    /// Bytes that the stream decodes to so far.
    #[inline]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// So many bytes were written.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.position = self.position.wrapping_add(bytes as u32);
        if bytes > FORGET_BYTES {
            // All is out of reach.
            self.ring.clear();
            self.ack_at = None;
        } else if self.position.wrapping_sub(self.swept_at) > FORGET_BYTES as u32 {
            self.ring.forget_beyond(self.position, FORGET_BYTES as u32);
            self.ack_at.take_if(|at| self.position.wrapping_sub(*at) > FORGET_BYTES as u32);
            self.swept_at = self.position;
        }
    }

    /// A heartbeat ACK comes next. Returns how far back the one before it begins.
    pub fn note_ack(&mut self) -> Option<u32> {
        let before = self.ack_at.replace(self.position)?;
        Some(self.position.wrapping_sub(before))
    }

    /// Bodies are numbered otherwise from now on.
    pub fn leave_matcher(&mut self) {
        self.ring = PositionRing::default();
        self.named = Default::default();
    }

    /// A body was written and begins at `position`.
    #[inline]
    pub fn remember(&mut self, id: BodyId, position: u32, sizes: &MessageSizes) {
        self.ring.push(id, position, sizes);
    }

    /// A body with this event name was written.
    #[inline]
    pub fn note_name(&mut self, name: &str, id: BodyId) {
        let [newest, second] = &mut self.named[name_slot(name)];
        (*second, *newest) = (*newest, id);
    }

    /// The bodies with this event name, or with one of the same slot, that were written last; 0 for none.
    #[inline]
    pub fn newest_named(&self, name: &str) -> [BodyId; NAMED_COUNT] {
        self.named[name_slot(name)]
    }

    /// The next message's body will be at `position` under `seq`.
    #[inline]
    pub fn number(&mut self, seq: u64, position: u32) {
        let (mut new, mut old) = (seq, self.seq);
        for since in &mut self.unchanged_since {
            if new == old {
                break;
            }
            *since = position;
            (new, old) = (new / 10, old / 10);
        }
        self.seq = seq;
    }

    /// How many of the last digits a message whose body is `distance` before `position` may have had otherwise.
    #[inline]
    pub fn changed_digits(&self, distance: u32, position: u32, digits: u32) -> u32 {
        let before = |since: &u32| position.wrapping_sub(*since) < distance;
        let unlike = self.unchanged_since.iter().take_while(|since| before(since)).count() as u32;
        if unlike as usize == DIGITS_MAX { digits } else { unlike.min(digits) }
    }

    /// The oldest body that can be referred to from `position` with offsets up to `reach`.
    #[inline]
    pub fn oldest(&mut self, position: u32, reach: u32, sizes: &MessageSizes) -> Option<BodyId> {
        self.ring.oldest(position, reach, sizes)
    }

    /// The newest body, its distance from `position`, and its seq; call before `number` advances.
    #[inline]
    pub fn newest(&self, position: u32) -> Option<(BodyId, u32, u64)> {
        let (id, at) = self.ring.last()?;
        Some((id, position.wrapping_sub(at), self.seq))
    }

    /// Distance from a body to `position`.
    #[inline]
    pub fn distance(&self, id: BodyId, position: u32, sizes: &MessageSizes) -> Option<u32> {
        self.ring.distance(id, position, sizes)
    }

    /// Prefetches the memory that `remember` writes, and that `distance` mostly reads.
    #[inline]
    pub fn prefetch(&self) {
        self.ring.prefetch();
    }

    /// Heap it holds.
    pub fn heap_bytes(&self) -> usize {
        self.ring.heap_bytes()
    }
}
