//! Fossil delta: the published algorithm and format of the Fossil version control system.
//!
//! Invariants  F1 `apply(source, create(source, target))` is `target`. (test `f1_*`)
//! Limits      a target of less than 4 GiB; at most `TRIES_MAX` places of the source are compared for each position.
//!             Spec  <https://www.fossil-scm.org/home/doc/tip/www/delta_format.wiki>, `src/delta.c` of Fossil.

use anyhow::{Context as _, Result, ensure};

/// Bytes of the source that one hash covers, and of the shortest match.
const BLOCK_BYTES: usize = 16;
const TRIES_MAX: usize = 250;
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

/// Hash of the last `BLOCK_BYTES` bytes of a text.
struct RollingHash {
    sum: u16,
    weighted: u16,
}

impl RollingHash {
    fn of(block: &[u8]) -> Self {
        let (mut sum, mut weighted) = (0_u16, 0_u16);
        for (at, byte) in block.iter().take(BLOCK_BYTES).enumerate() {
            sum = sum.wrapping_add(u16::from(*byte));
            weighted = weighted.wrapping_add((BLOCK_BYTES - at) as u16 * u16::from(*byte));
        }
        Self { sum, weighted }
    }

    fn roll(&mut self, oldest: u8, next: u8) {
        self.sum = self.sum.wrapping_sub(oldest.into()).wrapping_add(next.into());
        self.weighted = self.weighted.wrapping_sub(BLOCK_BYTES as u16 * u16::from(oldest)).wrapping_add(self.sum);
    }

    fn value(&self) -> usize {
        usize::from(self.sum) | usize::from(self.weighted) << 16
    }
}

struct Match {
    source_at: usize,
    length: usize,
    literal_length: usize,
}

/// The delta from `source` to `target`.
pub fn create(source: &[u8], target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len() / 8 + 32);
    push_number(&mut out, target.len());
    out.push(b'\n');
    let blocks = source.len() / BLOCK_BYTES;
    let (mut newest, mut older) = (vec![None::<u32>; blocks.max(1)], vec![None; blocks]);
    for block in 0..blocks {
        let hash = RollingHash::of(&source[block * BLOCK_BYTES..]).value() % blocks;
        older[block] = newest[hash].replace(block as u32);
    }
    let mut base = 0;
    while blocks > 0 && base + BLOCK_BYTES < target.len() {
        let mut hash = RollingHash::of(&target[base..]);
        let mut at = base;
        let found = loop {
            if let Some(found) = best_match(source, target, (base, at), newest[hash.value() % blocks], &older) {
                break Some(found);
            }
            if at + BLOCK_BYTES >= target.len() {
                break None;
            }
            hash.roll(target[at], target[at + BLOCK_BYTES]);
            at += 1;
        };
        let Some(Match { source_at, length, literal_length }) = found else { break };
        push_literal(&mut out, &target[base..base + literal_length]);
        push_number(&mut out, length);
        out.push(b'@');
        push_number(&mut out, source_at);
        out.push(b',');
        base += literal_length + length;
    }
    push_literal(&mut out, &target[base..]);
    push_number(&mut out, checksum(target) as usize);
    out.push(b';');
    out
}

/// The longest match that is worth its command, around position `at`; literals begin at `base`.
fn best_match(
    source: &[u8],
    target: &[u8],
    (base, at): (usize, usize),
    first: Option<u32>,
    older: &[Option<u32>],
) -> Option<Match> {
    let mut best: Option<Match> = None;
    let mut place = first;
    for _ in 0..TRIES_MAX {
        let Some(block) = place else { break };
        let from = block as usize * BLOCK_BYTES;
        let forward = source[from..].iter().zip(&target[at..]).take_while(|(a, b)| a == b).count();
        let backward =
            source[..from].iter().rev().zip(target[base..at].iter().rev()).take_while(|(a, b)| a == b).count();
        let (source_at, length, literal_length) = (from - backward, forward + backward, at - base - backward);
        let command_bytes = [literal_length, length, source_at].map(digits_count).iter().sum::<usize>() + 3;
        if length >= command_bytes && best.as_ref().is_none_or(|best| length > best.length) {
            best = Some(Match { source_at, length, literal_length });
        }
        place = older[block as usize];
    }
    best
}

fn push_literal(out: &mut Vec<u8>, text: &[u8]) {
    if !text.is_empty() {
        push_number(out, text.len());
        out.push(b':');
        out.extend_from_slice(text);
    }
}

fn push_number(out: &mut Vec<u8>, number: usize) {
    let count = digits_count(number);
    out.extend((0..count).rev().map(|digit| DIGITS[number >> (6 * digit) & 63]));
}

fn digits_count(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()).div_ceil(6).max(1) as usize
}

fn checksum(text: &[u8]) -> u32 {
    text.chunks(4).fold(0, |sum, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(u32::from_be_bytes(word))
    })
}

/// Computes the target that the delta makes of `source`.
///
/// # Errors
/// When the delta is malformed, or of another source.
pub fn apply(source: &[u8], delta: &[u8]) -> Result<Vec<u8>> {
    let mut rest = delta;
    let length = take_number(&mut rest)?;
    ensure!(take_byte(&mut rest)? == b'\n', "the delta has no length");
    let mut target = Vec::new();
    loop {
        let count = take_number(&mut rest)?;
        match take_byte(&mut rest)? {
            b'@' => {
                let at = take_number(&mut rest)?;
                ensure!(take_byte(&mut rest)? == b',', "a copy has no end");
                let end = at.checked_add(count).context("a copy is too long")?;
                target.extend_from_slice(source.get(at..end).context("a copy is behind the source")?);
            }
            b':' => {
                let (literal, after) = rest.split_at_checked(count).context("a literal is cut off")?;
                target.extend_from_slice(literal);
                rest = after;
            }
            b';' => {
                ensure!(target.len() == length && checksum(&target) as usize == count, "the target is another one");
                return Ok(target);
            }
            other => anyhow::bail!("{other} is no command"),
        }
        ensure!(target.len() <= length, "the target is too long");
    }
}

fn take_byte(rest: &mut &[u8]) -> Result<u8> {
    let (first, after) = rest.split_first().context("the delta is cut off")?;
    *rest = after;
    Ok(*first)
}

fn take_number(rest: &mut &[u8]) -> Result<usize> {
    let mut number = 0_usize;
    while let Some(digit) = rest.first().and_then(|byte| DIGITS.iter().position(|digit| digit == byte)) {
        number = number.checked_mul(64).context("a number is too large")? | digit;
        *rest = &rest[1..];
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::Rng;

    #[test]
    fn f1_a_delta_restores_its_target() {
        let mut chance = Rng::new(1);
        for round in 0..300 {
            let text = |chance: &mut Rng, length: u64| -> Vec<u8> {
                (0..length).map(|_| b'a' + chance.below(4) as u8).collect()
            };
            let length = chance.below(600);
            let source = text(&mut chance, length);
            let mut target = source.clone();
            for _ in 0..chance.below(6) {
                let at = chance.below(target.len() as u64 + 1) as usize;
                let until = (at + chance.below(20) as usize).min(target.len());
                let length = chance.below(20);
                target.splice(at..until, text(&mut chance, length));
            }
            let delta = create(&source, &target);
            assert_eq!(apply(&source, &delta).unwrap(), target, "round {round}");
            // Of another source: refused, unless what it copies is the same there.
            if let Ok(found) = apply(&target, &delta) {
                assert_eq!(found, target, "round {round}");
            }
            for cut in 0..delta.len() {
                assert!(apply(&source, &delta[..cut]).is_err(), "round {round}");
            }
        }
    }

    #[test]
    fn a_long_text_with_one_change_has_a_short_delta() {
        let source: Vec<u8> = (0..5_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
        let mut target = source.clone();
        target[9_000] = b'x';
        let delta = create(&source, &target);
        assert!(delta.len() < 40, "{}", String::from_utf8_lossy(&delta));
        assert_eq!(apply(&source, &delta).unwrap(), target);
    }
}
