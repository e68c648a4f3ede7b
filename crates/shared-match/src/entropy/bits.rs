//! Bits: the little-endian bit stream that zstd and deflate share.
//!
//! Both formats fill bytes from their least significant bit; zstd's entropy streams are then read from the end.

/// Maximum number of bits of one `put`: they and the rest of a byte (7 bits) must fit 64 bits.
pub const PUT_BITS_MAX: u32 = 56;

/// A few bits, gathered to be put at once: that takes longer than to gather them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmallBits {
    value: u64,
    count: u32,
}

impl SmallBits {
    /// Appends the lowest `count` bits of `value`, whose other bits are zero: at most [`PUT_BITS_MAX`] in total.
    #[inline]
    #[must_use]
    pub fn and(self, (value, count): (u64, u32)) -> Self {
        Self { value: self.value | value << self.count, count: self.count + count }
    }
}

impl From<(u64, u32)> for SmallBits {
    #[inline]
    fn from((value, count): (u64, u32)) -> Self {
        Self { value, count }
    }
}

impl FromIterator<(u64, u32)> for SmallBits {
    #[inline]
    fn from_iter<I: IntoIterator<Item = (u64, u32)>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), Self::and)
    }
}

/// Appends bits to what `out` holds, up to whole bytes: what `put` puts, in `bytes_max` bytes at most.
///
/// # Panics
/// If it puts more.
#[inline(always)]
pub fn append<R>(out: &mut Vec<u8>, bytes_max: usize, put: impl FnOnce(&mut BitWriter<'_>) -> R) -> R {
    let start = out.len();
    out.resize(start + bytes_max + STORE_BYTES, 0);
    let mut writer = BitWriter { room: &mut out[start..], pending: 0, pending_bits: 0 };
    let result = put(&mut writer);
    let unused = writer.room.len() - usize::from(writer.pending_bits > 0);
    out.truncate(out.len() - unused);
    result
}

/// What every `put` stores, mostly more than it puts.
const STORE_BYTES: usize = 8;

/// Puts bits into room that was made ahead, so that a `put` is one unaligned store. Where no byte is begun, whole bytes
/// may be put too.
#[derive(Debug, Default)]
pub struct BitWriter<'a> {
    /// Begins with the byte that is begun.
    room: &'a mut [u8],
    pending: u64,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Writes the lowest `count` bits of `value`, whose other bits are zero.
    #[inline]
    pub fn put(&mut self, value: u64, count: u32) {
        debug_assert!(count <= PUT_BITS_MAX && (count == 64 || value >> count == 0));
        self.pending |= value << self.pending_bits;
        self.pending_bits += count;
        let room = std::mem::take(&mut self.room);
        let stored: &mut [u8; STORE_BYTES] = room.first_chunk_mut().expect("callers reserve room for their bits");
        *stored = self.pending.to_le_bytes();
        // Fewer than eight: more than that are never pending.
        self.room = &mut room[(self.pending_bits as usize >> 3) % STORE_BYTES..];
        self.pending >>= self.pending_bits & !7;
        self.pending_bits &= 7;
    }

    /// Puts what was gathered.
    #[inline]
    pub fn put_small(&mut self, few: SmallBits) {
        self.put(few.value, few.count);
    }

    /// Gathers one more value; puts what was gathered before if it does not fit there.
    #[inline]
    pub fn gather(&mut self, few: &mut SmallBits, (value, count): (u64, u32)) {
        if few.count + count > PUT_BITS_MAX {
            self.put_small(*few);
            *few = SmallBits::default();
        }
        *few = few.and((value, count));
    }

    /// Puts these and then those, at once where they fit.
    #[inline]
    pub fn put_two(&mut self, mut first: SmallBits, second: SmallBits) {
        self.gather(&mut first, (second.value, second.count));
        self.put_small(first);
    }

    /// How many zeros fill the byte that is begun, once `count` more bits are put.
    #[inline]
    pub fn padding_behind(&self, count: u32) -> u32 {
        (self.pending_bits + count).wrapping_neg() % 8
    }

    /// Fills the byte that is begun with zeros.
    #[inline]
    pub fn pad(&mut self) {
        self.put(0, self.padding_behind(0));
    }

    /// Puts these, and ends a stream that is read backwards: a one marks where it starts, and the last byte is filled.
    #[inline]
    pub fn put_mark(&mut self, mut last: SmallBits) {
        self.gather(&mut last, (1, 1));
        self.put_small(last);
        let partial = usize::from(self.pending_bits > 0);
        self.room = &mut std::mem::take(&mut self.room)[partial..];
        (self.pending, self.pending_bits) = (0, 0);
    }

    /// Puts whole bytes.
    #[inline]
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes(bytes.len()).copy_from_slice(bytes);
    }

    /// Some bytes that are to be filled in later.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> &'a mut [u8] {
        debug_assert!(self.pending_bits == 0, "a byte is incomplete");
        let (bytes, room) = std::mem::take(&mut self.room).split_at_mut(count);
        self.room = room;
        bytes
    }

    /// Bytes of room left. The difference of two calls is the number of bytes written in between.
    #[inline]
    pub fn room(&self) -> usize {
        self.room.len()
    }
}

/// Bits kept to be put again: all bytes of `bytes` but that the last may be filled in part.
#[derive(Clone, Copy, Debug)]
pub struct BitRun<'a> {
    /// The bits, first in the least significant place.
    pub bytes: &'a [u8],
    /// How many count.
    pub bits: u32,
}

/// Collects bits to be kept.
#[derive(Clone, Debug, Default)]
pub struct BitBuffer {
    bytes: Vec<u8>,
    bits: u32,
}

impl BitBuffer {
    /// Puts the lowest `count` bits of `value`.
    pub fn put(&mut self, value: u64, count: u32) {
        let mut value = value;
        let mut left = count;
        while left > 0 {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let free = 8 - self.bits % 8;
            let taken = free.min(left);
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value & ((1 << taken) - 1)) << (self.bits % 8)) as u8;
            value >>= taken;
            self.bits += taken;
            left -= taken;
        }
    }

    /// All bits written so far.
    pub fn run(&self) -> BitRun<'_> {
        BitRun { bytes: &self.bytes, bits: self.bits }
    }

    /// How many bits were put.
    pub fn bits(&self) -> u32 {
        self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    /// Bit by bit, as the formats define it.
    fn naive(puts: &[(u64, u32)]) -> Vec<u8> {
        let bits: Vec<bool> = puts.iter().flat_map(|(v, n)| (0..*n).map(move |i| v >> i & 1 == 1)).collect();
        bits.chunks(8).map(|c| c.iter().enumerate().map(|(i, b)| u8::from(*b) << i).sum()).collect()
    }

    #[test]
    fn agrees_with_bit_by_bit() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let puts: Vec<(u64, u32)> = (0..rng.below(60))
                .map(|_| {
                    let count = rng.below(u64::from(PUT_BITS_MAX) + 1) as u32;
                    (rng.next_u64() & ((1 << count) - 1), count)
                })
                .collect();
            let (mut direct, mut buffer) = (vec![7], BitBuffer::default());
            append(&mut direct, 600, |writer| puts.iter().for_each(|(value, count)| writer.put(*value, *count)));
            puts.iter().for_each(|(value, count)| buffer.put(*value, *count));
            assert_eq!(direct[1..], naive(&puts));
            assert_eq!(buffer.run().bytes, naive(&puts));
        }
    }
}
