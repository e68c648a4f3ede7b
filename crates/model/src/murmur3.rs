//! murmur3: the hash by which user clients compare lists of ids with the server's.
//!
//! Spec  docs/protocol/reference.md §8.6, §8.8: the x86 variant with 32 bits and seed 0.

#[must_use]
pub fn murmur3_32(bytes: &[u8]) -> u32 {
    let mut hash: u32 = 0;
    let mut blocks = bytes.chunks_exact(4);
    for block in &mut blocks {
        hash ^= scramble(u32::from_le_bytes([block[0], block[1], block[2], block[3]]));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = blocks.remainder();
    if !tail.is_empty() {
        hash ^= scramble(tail.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
    }
    // The length is part of the hash, modulo 2³².
    hash ^= bytes.len() as u32;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn scramble(word: u32) -> u32 {
    word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_vectors() {
        let check = |text: &str, expected: u32| assert_eq!(murmur3_32(text.as_bytes()), expected, "{text}");
        check("", 0);
        check("deny:1001", 3_477_805_530);
        check("allow:2002,deny:1001", 2_523_820_452);
        check("allow:1100000000000000020,deny:1100000000000000001", 647_443_077);
    }

    #[test]
    fn every_length_of_tail() {
        // Expected values from an independent implementation.
        let check = |text: &str, expected: u32| assert_eq!(murmur3_32(text.as_bytes()), expected, "{text}");
        check("a", 1_009_084_850);
        check("aa", 923_832_745);
        check("aaa", 3_033_554_871);
        check("aaaa", 2_129_582_471);
        check("Hello, world!", 0xc036_3e43);
        check("1100000000000000010,1100000000000000011", 1_058_833_108);
    }
}
