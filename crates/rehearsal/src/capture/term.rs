//! Term: replaces texts and ids in ETF by surrogates of the same length.
//!
//! Invariants  T1 the result has the length of the term. T2 bytes never cause a panic. (tests `t*_*`)
//! Limits      `DEPTH_MAX` levels.     Spec  docs/protocol/reference.md §2.2.

use guildhall_lab::Surrogates;

const DEPTH_MAX: usize = 128;
/// Longer numbers may be ids or times.
const KEPT_MAX: u64 = 99_999;

/// Replaces in place what identifies. None: the bytes are no term of a gateway.
pub(crate) fn scrub_term(surrogates: &mut Surrogates, term: &[u8]) -> Option<Vec<u8>> {
    let mut out = term.to_vec();
    let mut at = 1;
    if term.first() != Some(&131) {
        return None;
    }
    walk(surrogates, &mut out, &mut at, 0)?;
    (at == term.len()).then_some(out)
}

fn take<const N: usize>(term: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let bytes = term.get(*at..at.checked_add(N)?)?.try_into().ok()?;
    *at += N;
    Some(bytes)
}

fn skip(term: &[u8], at: &mut usize, bytes: usize) -> Option<()> {
    *at = at.checked_add(bytes).filter(|end| *end <= term.len())?;
    Some(())
}

fn walk(surrogates: &mut Surrogates, term: &mut [u8], at: &mut usize, depth: usize) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    let [tag] = take(term, at)?;
    match tag {
        97 => skip(term, at, 1),
        98 => {
            let start = *at;
            let value = i32::from_be_bytes(take(term, at)?);
            if u64::from(value.unsigned_abs()) > KEPT_MAX {
                let made = number(surrogates, u64::from(value.unsigned_abs()), i32::MAX as u64);
                let made = i32::try_from(made).ok()? * value.signum();
                term[start..start + 4].copy_from_slice(&made.to_be_bytes());
            }
            Some(())
        }
        70 => {
            let start = *at;
            let value = f64::from_be_bytes(take(term, at)?);
            if value.abs() > KEPT_MAX as f64 && value.abs() < 1e15 {
                let made = number(surrogates, value.abs() as u64, 1 << 50) as f64;
                term[start..start + 8].copy_from_slice(&made.copysign(value).to_be_bytes());
            }
            Some(())
        }
        99 => skip(term, at, 31),
        100 | 118 => {
            let length = u16::from_be_bytes(take(term, at)?);
            skip(term, at, length.into())
        }
        115 | 119 => {
            let [length] = take(term, at)?;
            skip(term, at, length.into())
        }
        107 => {
            let length = u16::from_be_bytes(take(term, at)?);
            skip(term, at, length.into())
        }
        109 => {
            let length = u32::from_be_bytes(take(term, at)?) as usize;
            let start = *at;
            skip(term, at, length)?;
            let Ok(text) = std::str::from_utf8(&term[start..*at]) else {
                term[start..*at].fill(b'x');
                return Some(());
            };
            let mut made = String::with_capacity(length);
            surrogates.push(text, &mut made);
            if made.len() != length {
                return None;
            }
            term[start..*at].copy_from_slice(made.as_bytes());
            Some(())
        }
        110 => {
            let [length, _sign] = take(term, at)?;
            let start = *at;
            skip(term, at, length.into())?;
            let digits = &term[start..*at];
            if digits.len() > 8 {
                return None;
            }
            let value = digits.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
            if value > KEPT_MAX {
                let max = u64::MAX >> (64 - 8 * digits.len());
                let made = number(surrogates, value, max).to_le_bytes();
                let length = digits.len();
                term[start..*at].copy_from_slice(&made[..length]);
            }
            Some(())
        }
        106 => Some(()),
        108 => {
            let count = u32::from_be_bytes(take(term, at)?);
            for _ in 0..=count {
                walk(surrogates, term, at, depth + 1)?;
            }
            Some(())
        }
        104 => {
            let [count] = take(term, at)?;
            (0..count).try_for_each(|_| walk(surrogates, term, at, depth + 1))
        }
        116 => {
            let count = u32::from_be_bytes(take(term, at)?);
            for _ in 0..count {
                walk_key(surrogates, term, at, depth + 1)?;
                walk(surrogates, term, at, depth + 1)?;
            }
            Some(())
        }
        _ => None,
    }
}

/// Names of fields remain, unless they are ids.
fn walk_key(surrogates: &mut Surrogates, term: &mut [u8], at: &mut usize, depth: usize) -> Option<()> {
    if term.get(*at) != Some(&109) {
        return walk(surrogates, term, at, depth);
    }
    let mut end = *at + 1;
    let length = u32::from_be_bytes(take(term, &mut end)?) as usize;
    let start = end;
    skip(term, &mut end, length)?;
    if length > 5 && term[start..end].iter().all(u8::is_ascii_digit) {
        return walk(surrogates, term, at, depth);
    }
    *at = end;
    Some(())
}

/// A number of as many digits, and at most `max`.
fn number(surrogates: &mut Surrogates, value: u64, max: u64) -> u64 {
    let made: u64 = surrogates.number(&value.to_string()).parse().unwrap_or(value / 2 + 1);
    if made <= max { made } else { made % max + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_codec::{DecodeLimits, decode_etf_from_gateway, encode_etf};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn t1_a_term_keeps_its_length_and_shape() {
        let body = json!({
            "content": "Meet Anna", "id": 1_234_567_890_123_456_789_u64, "text_id": "1234567890123456789", "n": 5,
            "time": 1_714_564_800, "list": [true, null, "online", 1.5], "nested": { "name": "Anna" },
        });
        let mut term = vec![131];
        encode_etf(&body, &mut term).unwrap();
        let made = scrub_term(&mut Surrogates::new([5; 32]), &term).unwrap();
        assert_eq!(made.len(), term.len());
        let made = decode_etf_from_gateway(&made, DecodeLimits::default()).unwrap();
        assert_eq!((&made["n"], &made["list"][2]), (&json!(5), &json!("online")));
        for name in ["content", "id", "text_id", "time", "nested"] {
            assert_ne!(made[name], body[name], "{made}");
        }
        assert!(scrub_term(&mut Surrogates::new([5; 32]), &term[..term.len() - 1]).is_none());
    }

    proptest! {
        #[test]
        fn t2_no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut term = vec![131];
            term.extend(bytes);
            if let Some(made) = scrub_term(&mut Surrogates::new([5; 32]), &term) {
                prop_assert_eq!(made.len(), term.len());
            }
        }
    }
}
