//! Code in the text of a message: what clients show as it was typed, so that nothing in it means anything.
//!
//! Owns        `outside_code`: inline code and blocks of code, as Markdown has them.
//! Invariants  S1 code begins with a run of back-ticks and ends with the next run of the same length, or, if it began
//!             with three or more, of that length or longer. A run without such an end is text. S2 `\` before a
//!             back-tick outside of code makes that back-tick text. S3 the pieces are in order and do not overlap.
//! Limits      O(length of the text), whatever is in it: each run is looked at twice.

use guildhall_stdx::count_steps;
use std::collections::BTreeMap;

/// Back-ticks from which on a run opens a block.
const BLOCK: usize = 3;

/// A longest run of back-ticks.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    len: usize,
    /// The run that ends code which begins with all of this one.
    end: Option<usize>,
    /// The same without the first back-tick, which a `\` made text.
    end_if_escaped: Option<usize>,
}

/// The pieces of a text that are not code, each as long as it can be.
pub(crate) fn outside_code(text: &str) -> Vec<&str> {
    if !text.contains('`') {
        return vec![text];
    }
    let runs = runs_of(text);
    let (mut pieces, mut piece_start, mut index) = (Vec::new(), 0, 0);
    while let Some(run) = runs.get(index) {
        count_steps(1);
        let is_escaped = is_escaped(&text[piece_start..run.start]);
        let end = if is_escaped { run.end_if_escaped } else { run.end };
        let Some(end) = end else {
            index += 1;
            continue;
        };
        pieces.push(&text[piece_start..run.start + usize::from(is_escaped)]);
        piece_start = runs[end].start + runs[end].len;
        index = end + 1;
    }
    pieces.push(&text[piece_start..]);
    pieces
}

/// Whether what follows the text is escaped: an odd number of backslashes ends it.
fn is_escaped(text: &str) -> bool {
    let count = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
    count_steps(count as u64);
    count % 2 == 1
}

/// All runs of a text, each with its end.
fn runs_of(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, _) in text.match_indices('`') {
        match runs.last_mut().filter(|run| run.start + run.len == at) {
            Some(run) => run.len += 1,
            None => runs.push(Run { start: at, len: 1, end: None, end_if_escaped: None }),
        }
    }
    // From the last run to the first, what follows: by length, and those that are longer than all between.
    let mut next_of_length: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next_longer: Vec<(usize, usize)> = Vec::new();
    for index in (0..runs.len()).rev() {
        count_steps(1);
        let end_of = |len: usize| match len {
            0 => None,
            1..BLOCK => next_of_length.get(&len).copied(),
            _ => {
                let longer_count = next_longer.partition_point(|(other, _)| *other >= len);
                longer_count.checked_sub(1).map(|nearest| next_longer[nearest].1)
            }
        };
        let len = runs[index].len;
        let (end, end_if_escaped) = (end_of(len), end_of(len - 1));
        runs[index] = Run { end, end_if_escaped, ..runs[index] };
        next_of_length.insert(len, index);
        while next_longer.pop_if(|(other, _)| *other <= len).is_some() {}
        next_longer.push((len, index));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_stdx::{Rng, steps_taken};

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(outside_code(text), expected, "{text:?}");
    }

    #[test]
    fn s1_a_run_ends_with_the_next_of_its_length() {
        check("", &[""]);
        check("no code", &["no code"]);
        check("a `b` c", &["a ", " c"]);
        check("`a` b `c` d", &["", " b ", " d"]);
        check("``a ` b`` c", &["", " c"]);
        check("`a `` b` c", &["", " c"]);
        check("```\na\n``\nb``` c", &["", " c"]);
        check("````\n```\na\n```\n```` b", &["", " b"]);
        check("```a```` b", &["", " b"]);
        check("``a``` b", &["``a``` b"]);
        check("`a``b", &["`a``b"]);
        check("``` a", &["``` a"]);
        check("`a\nb` c", &["", " c"]);
        check("a ` b `c` d", &["a ", "c` d"]);
        check("a `` b `c` d", &["a `` b ", " d"]);
        check("ä`ö`ü", &["ä", "ü"]);
    }

    #[test]
    fn s2_an_escaped_back_tick_is_text() {
        check(r"\`a` b", &[r"\`a` b"]);
        check(r"\`a\` b", &[r"\`a\` b"]);
        check(r"\``a` b", &[r"\`", " b"]);
        check(r"\\`a` b", &[r"\\", " b"]);
        check(r"`a\` b", &["", " b"]);
        check(r"\```a`` b", &[r"\`", " b"]);
    }

    /// The same rules, tried character by character.
    fn naive(text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        let run_at = |at: usize| chars[at..].iter().take_while(|c| **c == '`').count();
        let (mut pieces, mut piece, mut at) = (Vec::new(), String::new(), 0);
        while at < chars.len() {
            let len = run_at(at);
            if len == 0 {
                let escapes = chars[at] == '\\' && at + 1 < chars.len() && matches!(chars[at + 1], '`' | '\\');
                for c in &chars[at..at + 1 + usize::from(escapes)] {
                    piece.push(*c);
                }
                at += 1 + usize::from(escapes);
                continue;
            }
            let mut end = at + len;
            let closing = loop {
                match chars[end..].iter().position(|c| *c == '`') {
                    None => break None,
                    Some(more) => end += more,
                }
                let other = run_at(end);
                if other == len || len >= BLOCK && other > len {
                    break Some(end + other);
                }
                end += other;
            };
            match closing {
                Some(after) => {
                    pieces.push(std::mem::take(&mut piece));
                    at = after;
                }
                None => {
                    piece.extend(std::iter::repeat_n('`', len));
                    at += len;
                }
            }
        }
        pieces.push(piece);
        pieces
    }

    #[test]
    fn s3_agrees_with_the_rules_on_anything() {
        const PIECES: &[&str] = &["`", "`", "``", "```", "````", "\\", "a", " ", "\n", "é"];
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let count = rng.below(16);
            let text: String = (0..count).map(|_| *rng.pick(PIECES).expect("there are pieces")).collect();
            assert_eq!(outside_code(&text), naive(&text), "seed {seed}: {text:?}");
        }
    }

    #[test]
    fn the_longest_texts_take_steps_by_their_length() {
        let rising: String = (1..90).map(|len| "`".repeat(len) + " ").collect();
        let falling: String = (1..90).rev().map(|len| "`".repeat(len) + " ").collect();
        for text in [
            "`".repeat(4_000),
            "` ".repeat(2_000),
            "`` ` ".repeat(800),
            "\\`".repeat(2_000),
            "\\".repeat(3_999) + "`",
            rising,
            falling,
        ] {
            let before = steps_taken();
            outside_code(&text);
            let steps = steps_taken() - before;
            assert!(steps <= 2 * text.len() as u64 + 2, "{steps} steps for {} bytes", text.len());
        }
    }
}
