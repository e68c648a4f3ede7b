//! Masking: XOR with a four-byte key, eight bytes at a time.
//!
//! Spec  RFC 6455 §5.3.

/// XORs `data` with `key`, where `data` starts `offset` bytes into the payload. Its own inverse.
pub(crate) fn apply(key: [u8; 4], offset: u32, data: &mut [u8]) {
    let mut key = key;
    key.rotate_left((offset % 4) as usize);
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, rest) = data.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.into_iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::apply;

    #[test]
    fn equals_the_definition_at_every_length_and_offset() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let plain: Vec<u8> = (0..70).collect();
        for from in 0..12 {
            for to in from..plain.len() {
                let mut masked = plain[from..to].to_vec();
                apply(key, from as u32, &mut masked);
                let expected: Vec<u8> = (from..to).map(|i| plain[i] ^ key[i % 4]).collect();
                assert_eq!(masked, expected, "{from}..{to}");
            }
        }
    }
}
