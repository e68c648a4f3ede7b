//! Surrogates: the texts that replace those of users in a recording.
//!
//! Owns        the secret key of a recording, and the rule by which it makes a text's surrogate.
//! Invariants  S1 equal texts have equal surrogates under one key, and other ones under another. S2 a surrogate has the
//!             bytes and the shape of its text: letters for letters of the same case and length in UTF-8, digits for
//!             digits, other characters as they are. S3 without the key a surrogate shows of a word its length and
//!             its frequency only. (tests `s*_*`)
//! Limits      O(length) time; nothing is kept per text.
//!
//! A compressor must find in surrogates what it finds in texts. So each word has a surrogate of its own, drawn from
//! pairs of letters of English; ids and times keep what they have in common at their beginning, because each digit
//! depends on those in front of it.

use guildhall_stdx::Rng;
use guildhall_traffic::Chat;
use sha2::{Digest as _, Sha256};
use std::{collections::HashMap, fmt, sync::LazyLock};

/// Texts of this many hexadecimal digits are hashes.
pub(crate) const HASH_DIGITS_MIN: usize = 16;
/// Numbers of this many digits may be ids or times, which have their first digits in common with others.
const PREFIX_DIGITS_MIN: usize = 6;
/// In a run of letters and digits this many letters are a word.
const LETTERS_MIN: usize = 4;
/// Words and numbers that are remembered, so that frequent ones are not drawn again. Past it all are forgotten.
const WORDS_MAX: usize = 4_096;
/// Longer words are not remembered.
const WORD_BYTES_MAX: usize = 24;

/// Texts that remain: values that the protocol defines. Sorted.
const WORDS: [&str; 44] = [
    "",
    "0",
    "announcement",
    "application/json",
    "article",
    "audio/mpeg",
    "audio/ogg",
    "auto_moderation_message",
    "bot",
    "channel",
    "desktop",
    "dnd",
    "embedded",
    "en-GB",
    "en-US",
    "everyone",
    "gifv",
    "group",
    "guild",
    "idle",
    "image",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "invisible",
    "link",
    "member",
    "mobile",
    "normal",
    "obfuscated",
    "offline",
    "online",
    "partial",
    "poll_result",
    "rich",
    "role",
    "text/plain",
    "unknown",
    "user",
    "video",
    "video/mp4",
    "vr",
    "web",
];

/// How often a letter follows two others in English.
struct Letters([[[u8; 26]; 26]; 26]);

static LETTERS: LazyLock<Box<Letters>> = LazyLock::new(|| {
    let mut counts = Box::new(Letters([[[0; 26]; 26]; 26]));
    let chat = Chat::built_in();
    for line in 0..4_000 {
        for word in chat.line(line).split(|c: char| !c.is_ascii_alphabetic()) {
            let (mut a, mut b) = (0, 0);
            for letter in word.bytes().map(|byte| usize::from(byte.to_ascii_lowercase() - b'a')) {
                let count = &mut counts.0[a][b][letter];
                *count = count.saturating_add(1);
                (a, b) = (b, letter);
            }
        }
    }
    counts
});

impl Letters {
    fn next(&self, [a, b]: [usize; 2], rng: &mut Rng) -> usize {
        // No letter is impossible: one in 26 chances is any.
        let counts = &self.0[a][b];
        let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if sum < 4 || rng.below(12) == 0 {
            return rng.below(26) as usize;
        }
        let mut drawn = rng.below(sum);
        for (letter, count) in counts.iter().enumerate() {
            match drawn.checked_sub(u64::from(*count)) {
                Some(left) => drawn = left,
                None => return letter,
            }
        }
        0
    }
}

/// Makes surrogates by a secret key.
pub struct Surrogates {
    key: [u8; 32],
    words: HashMap<Box<str>, Box<str>>,
}

impl fmt::Debug for Surrogates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surrogates").finish_non_exhaustive()
    }
}

impl Surrogates {
    /// By this key, which has to be random and must not be kept anywhere else.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self { key, words: HashMap::new() }
    }

    /// Whether the protocol defines the text, so that it remains.
    #[must_use]
    pub fn is_word_of_the_protocol(text: &str) -> bool {
        WORDS.binary_search(&text).is_ok()
    }

    fn draw(&self, kind: u8, text: &str) -> Rng {
        let hash = Sha256::new().chain_update(self.key).chain_update([kind]).chain_update(text).finalize();
        Rng::new(u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| hash[at])))
    }

    /// Appends the surrogate of a text.
    pub fn push(&mut self, text: &str, out: &mut String) {
        if Self::is_word_of_the_protocol(text) {
            out.push_str(text);
        } else if is_time(text) {
            self.push_time(text, out);
        } else {
            let mut rest = text;
            while let Some(first) = rest.chars().next() {
                let is_word = first.is_alphanumeric();
                let end = rest.find(|c: char| c.is_alphanumeric() != is_word).unwrap_or(rest.len());
                let (token, behind) = rest.split_at(end);
                match is_word {
                    true => self.push_word(token, out),
                    false => out.push_str(token),
                }
                rest = behind;
            }
        }
    }

    /// A run of letters and digits.
    fn push_word(&mut self, word: &str, out: &mut String) {
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.push_digits(word, out);
        }
        if has_digit && word.len() >= HASH_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let mut rng = self.draw(b'h', word);
            return out.extend(word.chars().map(|c| match c {
                'A'..='F' => char::from(b"0123456789ABCDEF"[rng.below(16) as usize]),
                _ => char::from(b"0123456789abcdef"[rng.below(16) as usize]),
            }));
        }
        if has_digit {
            let mut rng = self.draw(b'm', word);
            let mut rest = word;
            while let Some(first) = rest.chars().next() {
                let is_digit = first.is_ascii_digit();
                let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
                let (run, behind) = rest.split_at(end);
                match is_digit || run.chars().count() < LETTERS_MIN {
                    true => out.extend(run.chars().map(|c| any_like(c, &mut rng))),
                    false => self.push_word(run, out),
                }
                rest = behind;
            }
            return;
        }
        let lower = word.to_lowercase();
        // Some letters are longer as small ones, or are two.
        if lower.len() != word.len() || lower.chars().count() != word.chars().count() {
            let mut rng = self.draw(b'w', word);
            return out.extend(word.chars().map(|c| other_letter(c, &mut rng)));
        }
        if !self.words.contains_key(&*lower) {
            let made = self.word(&lower);
            if lower.len() > WORD_BYTES_MAX {
                return push_cased(word, &made, out);
            }
            self.remember(&lower, made);
        }
        if let Some(made) = self.words.get(&*lower) {
            push_cased(word, made, out);
        }
    }

    /// The surrogate of a word in small letters. Words that begin alike have surrogates that do, as forms of a word.
    fn word(&self, word: &str) -> String {
        let (mut a, mut b) = (0, 0);
        let letters = word.char_indices().map(|(at, c)| {
            let mut rng = self.draw(b'w', &word[..at + c.len_utf8()]);
            if !c.is_ascii_lowercase() {
                return other_letter(c, &mut rng);
            }
            let next = LETTERS.next([a, b], &mut rng);
            (a, b) = (b, next);
            char::from(b'a' + next as u8)
        });
        letters.collect()
    }

    /// The surrogate of a run of digits. That of a long one has as many digits in common with that of another as the
    /// two have: each digit depends on those in front of it.
    fn push_digits(&mut self, digits: &str, out: &mut String) {
        if let Some(made) = self.words.get(digits) {
            return out.push_str(made);
        }
        let mut made = String::with_capacity(digits.len());
        if digits.len() < PREFIX_DIGITS_MIN {
            let mut rng = self.draw(b'd', digits);
            made.extend(digits.chars().map(|_| digit(&mut rng)));
        } else {
            made.extend((1..=digits.len()).map(|end| digit(&mut self.draw(b'd', &digits[..end]))));
        }
        if made.starts_with('0') && !digits.starts_with('0') {
            made.replace_range(..1, "1");
        }
        // The largest number of 64 bits begins with 18.
        if digits.len() == 20 {
            made.replace_range(..2, "10");
        }
        out.push_str(&made);
        if digits.len() <= WORD_BYTES_MAX {
            self.remember(digits, made);
        }
    }

    fn remember(&mut self, word: &str, made: String) {
        if self.words.len() >= WORDS_MAX {
            self.words.clear();
        }
        self.words.insert(word.into(), made.into());
    }

    /// Each digit depends on all of the time in front of it, and is valid where it is.
    fn push_time(&self, text: &str, out: &mut String) {
        // Where groups end, and the range of each. Tens and ones of minutes and seconds are groups of their own,
        // because times that follow each other have the tens in common.
        const GROUPS: [(usize, usize, u64, u64); 8] = [
            (0, 4, 2000, 100),
            (5, 7, 1, 12),
            (8, 10, 1, 28),
            (11, 13, 0, 24),
            (14, 15, 0, 6),
            (15, 16, 0, 10),
            (17, 18, 0, 6),
            (18, 19, 0, 10),
        ];
        let mut at = 0;
        for (start, end, least, count) in GROUPS {
            out.push_str(&text[at..start]);
            let number = least + self.draw(b't', &text[..end]).below(count);
            let width = end - start;
            out.push_str(&format!("{number:0width$}"));
            at = end;
        }
        let (fraction, zone) = text[at..].split_at(text[at..].find(['+', 'Z']).unwrap_or(0));
        // Whole seconds and milliseconds stay whole: zeros are common.
        let significant = fraction.trim_end_matches('0').len();
        let mut rng = self.draw(b't', &text[..at + fraction.len()]);
        for (index, c) in fraction.chars().enumerate() {
            out.push(if c.is_ascii_digit() && index < significant { digit(&mut rng) } else { c });
        }
        out.push_str(zone);
    }

    /// The surrogate of a number of more than a few digits.
    #[must_use]
    pub fn number(&mut self, digits: &str) -> String {
        let mut out = String::with_capacity(digits.len());
        self.push_digits(digits, &mut out);
        out
    }
}

/// A character of the same kind.
fn any_like(c: char, rng: &mut Rng) -> char {
    match c {
        '0'..='9' => digit(rng),
        'a'..='z' => char::from(b'a' + rng.below(26) as u8),
        'A'..='Z' => char::from(b'A' + rng.below(26) as u8),
        _ => other_letter(c, rng),
    }
}

fn digit(rng: &mut Rng) -> char {
    char::from(b'0' + rng.below(10) as u8)
}

/// Capital letters where the text has them.
fn push_cased(word: &str, made: &str, out: &mut String) {
    for (c, made) in word.chars().zip(made.chars()) {
        let mut upper = made.to_uppercase();
        match upper.next() {
            Some(upper_made) if c.is_uppercase() && upper.next().is_none() && upper_made.len_utf8() == c.len_utf8() => {
                out.push(upper_made);
            }
            _ => out.push(made),
        }
    }
}

/// Another letter of the same block of 64, so of the same alphabet, and as long in UTF-8. The letter itself if its
/// block has one alone.
fn other_letter(c: char, rng: &mut Rng) -> char {
    let block = u32::from(c) & !63;
    let candidates = (0..64).map(|_| rng.below(64) as u32);
    let any = candidates.filter_map(|low| char::from_u32(block + low));
    let of_its_kind = |other: &char| other.is_alphanumeric() && other.len_utf8() == c.len_utf8() && *other != c;
    any.into_iter().find(of_its_kind).unwrap_or(c)
}

/// Whether it has the form `2026-01-02T03:04:05.678000+00:00`: digits, and the punctuation of one.
pub(crate) fn is_time(text: &str) -> bool {
    let has_form = |form: &str| {
        let digits_alike = |(c, f): (char, char)| if f == '0' { c.is_ascii_digit() } else { c == f };
        text.len() == form.len() && text.chars().zip(form.chars()).all(digits_alike)
    };
    has_form("0000-00-00T00:00:00.000000+00:00")
        || has_form("0000-00-00T00:00:00.000000Z")
        || has_form("0000-00-00T00:00:00.000Z")
        || has_form("0000-00-00T00:00:00+00:00")
        || has_form("0000-00-00T00:00:00Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surrogate(of: &mut Surrogates, text: &str) -> String {
        let mut out = String::new();
        of.push(text, &mut out);
        out
    }

    const TEXTS: [&str; 14] = [
        "Correct horse battery staple!",
        "ana@example.org is at 192.168.17.4, or [2001:db8::8a2e:370:7334]",
        "https://files.example.net/attachments/1234567890123456789/holiday-in-crete.jpg?ex=6f2a",
        "a_0123456789abcdef0123456789abcdef",
        "Привет, größer, 漢字かな",
        "1234567890123456789",
        "18446744073709551615",
        "<@1234567890123456789> <:party:9876543210987654321>",
        "2026-11-28T19:41:43.123456+00:00",
        "2026-11-28T19:41:43+00:00",
        "Zx9Kq2LmPw",
        "MixedCase WORDS and lower",
        "İstanbul ẞ",
        "  \n\t🔥🔥 ok",
    ];

    #[test]
    fn s1_equal_texts_have_equal_surrogates_under_one_key() {
        let [mut one, mut again, mut other] = [[1; 32], [1; 32], [2; 32]].map(Surrogates::new);
        for text in TEXTS {
            let made = surrogate(&mut one, text);
            assert_eq!(made, surrogate(&mut one, text));
            assert_eq!(made, surrogate(&mut again, text));
            assert_ne!(made, surrogate(&mut other, text), "{text}");
        }
        // Parts too: the same word in two texts, and ids of one second.
        let of = |text: &str| surrogate(&mut Surrogates::new([1; 32]), text);
        assert_eq!(of("Holiday").to_lowercase(), of("holiday"));
        assert_eq!(of("holidays")[..7], of("holiday"));
        assert_eq!(of("my holiday"), format!("{} {}", of("my"), of("holiday")));
        let [a, b] = [of("1234567890123456789"), of("1234567890129999999")];
        assert_eq!(a[..12], b[..12]);
        assert_ne!(a, b);
        let [a, b] = [of("2026-11-28T19:41:43.1+00:00"), of("user17 user18")];
        assert!(!a.contains("2026") || !a.contains("19:41"), "{a}");
        assert_eq!(b[..4], b[7..11]);
    }

    #[test]
    fn s2_surrogates_have_the_shape_of_their_texts() {
        let mut surrogates = Surrogates::new([3; 32]);
        for text in TEXTS {
            let made = surrogate(&mut surrogates, text);
            assert_eq!(made.len(), text.len(), "{text}: {made}");
            assert_eq!(made.chars().count(), text.chars().count(), "{text}: {made}");
            let is_hash = text.contains("0123456789abcdef");
            for (c, made) in text.chars().zip(made.chars()) {
                assert_eq!(c.is_alphanumeric(), made.is_alphanumeric(), "{text}: {made}");
                if !is_hash {
                    assert_eq!(c.is_ascii_digit(), made.is_ascii_digit(), "{text}: {made}");
                }
            }
        }
        assert!(surrogate(&mut surrogates, "18446744073709551615").parse::<u64>().is_ok());
        assert!(is_time(&surrogate(&mut surrogates, "2026-11-28T19:41:43.123456+00:00")));
    }

    #[test]
    fn s3_no_word_of_a_text_remains() {
        let mut surrogates = Surrogates::new([4; 32]);
        for text in TEXTS {
            let made = surrogate(&mut surrogates, text);
            for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 3) {
                assert!(!made.contains(word), "{word} of {text} in {made}");
            }
        }
    }

    #[test]
    fn words_of_the_protocol_remain() {
        assert!(WORDS.is_sorted());
        let mut surrogates = Surrogates::new([5; 32]);
        assert_eq!(surrogate(&mut surrogates, "online"), "online");
        assert_ne!(surrogate(&mut surrogates, "online now"), "online now");
    }
}
