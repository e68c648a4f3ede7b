//! Bits: the little-endian bit stream that zstd and deflate share.
//!
//! Both formats fill bytes from their least significant bit; zstd's entropy streams are then read from the end.

/// Most bits that one `put` takes: what is left of a byte (7) and these must fit 64.
pub const PUT_BITS_MAX: u32 = 56;

/// A few bits, gathered to be put at once: that takes longer than to gather them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Few {
    value: u64,
    count: u32,
}

impl Few {
    /// These and then the lowest `count` bits of `value`, whose other bits are zero: [`PUT_BITS_MAX`] at most in all.
    #[inline]
    #[must_use]
    pub fn and(self, (value, count): (u64, u32)) -> Self {
        Self { value: self.value | value << self.count, count: self.count + count }
    }
}

impl FromIterator<(u64, u32)> for Few {
    #[inline]
    fn from_iter<I: IntoIterator<Item = (u64, u32)>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), Self::and)
    }
}

/// Writes bits behind what a buffer holds.
///
/// Room is made ahead, so that a `put` is one unaligned store: callers say with `reserve` how much will come.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    pending: u64,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts at the end of `out`; `bytes_max` bounds what will be put.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, bytes_max: usize) -> Self {
        let at = out.len();
        out.resize(at + bytes_max + 8, 0);
        Self { out, at, pending: 0, pending_bits: 0 }
    }

    /// Puts the lowest `count` bits of `value`, whose other bits are zero.
    #[inline]
    pub fn put(&mut self, value: u64, count: u32) {
        debug_assert!(count <= PUT_BITS_MAX && (count == 64 || value >> count == 0));
        self.pending |= value << self.pending_bits;
        self.pending_bits += count;
        self.out[self.at..self.at + 8].copy_from_slice(&self.pending.to_le_bytes());
        self.at += (self.pending_bits >> 3) as usize;
        self.pending >>= self.pending_bits & !7;
        self.pending_bits &= 7;
    }

    /// Puts what was gathered.
    #[inline]
    pub fn put_few(&mut self, few: Few) {
        self.put(few.value, few.count);
    }

    /// Gathers one more value; puts what was gathered before if it does not fit there.
    #[inline]
    pub fn gather(&mut self, few: &mut Few, (value, count): (u64, u32)) {
        if few.count + count > PUT_BITS_MAX {
            self.put_few(*few);
            *few = Few::default();
        }
        *few = few.and((value, count));
    }

    /// Puts two values, at once where they fit.
    #[inline]
    pub fn put_two(&mut self, first: (u64, u32), second: (u64, u32)) {
        let mut few = Few::default().and(first);
        self.gather(&mut few, second);
        self.put_few(few);
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

    /// Fills the last byte with zeros and ends: `out` then ends with the last byte.
    #[inline]
    pub fn finish(self) {
        let end = self.at + usize::from(self.pending_bits > 0);
        self.out.truncate(end);
    }

    /// Ends a stream that is read backwards, with these behind all others: a one marks where it starts.
    #[inline]
    pub fn finish_with_mark(mut self, mut last: Few) {
        self.gather(&mut last, (1, 1));
        self.put_few(last);
        self.finish();
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

    /// So many bits that were written elsewhere.
    pub fn of(bytes: Vec<u8>, bits: u32) -> Self {
        Self { bytes, bits }
    }

    /// What was put.
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
            let mut writer = BitWriter::new(&mut direct, 600);
            for (value, count) in &puts {
                writer.put(*value, *count);
                buffer.put(*value, *count);
            }
            writer.finish();
            assert_eq!(direct[1..], naive(&puts));
            assert_eq!(buffer.run().bytes, naive(&puts));
        }
    }
}
