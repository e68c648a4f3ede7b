//! Patterns of auto moderation: regular expressions, bounded before they are compiled.
//!
//! Owns        which patterns a rule may have.
//! Invariants  X1 a search takes time that is linear in the text, and in the weight of the pattern: the crate `regex`
//!             never backtracks, and `WEIGHT_MAX` bounds the states that it follows at a time. (tests `x1_*`)
//! Limits      `WEIGHT_MAX` and `RANGES_MAX` for all patterns of a rule; `COMPILED_BYTES_MAX`, `CACHE_BYTES_MAX` and
//!             `NEST_MAX` for each. The parser of rules bounds their number and length.

use regex::{Regex, RegexBuilder};
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};

/// Characters and sets of the patterns of one rule, with repetitions. 500 of them follow a text of 4,000 bytes in some
/// milliseconds at worst.
const WEIGHT_MAX: usize = 500;
/// Ranges in the sets of the patterns of one rule, with repetitions: `\w`, which has 140,000 characters, 25 times.
const RANGES_MAX: usize = 20_000;
/// Of one pattern: more than `RANGES_MAX` take.
const COMPILED_BYTES_MAX: usize = 4 << 20;
/// States that a search remembers.
const CACHE_BYTES_MAX: usize = 256 << 10;
/// Groups within each other.
const NEST_MAX: u32 = 40;

/// Cost of an expression; each repetition counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Characters, sets and places: states that a search may follow at a time.
    weight: usize,
    /// Ranges of characters in sets, some 60 bytes each.
    ranges: usize,
}

impl Size {
    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self { weight: 1, ranges: 0 },
            HirKind::Literal(literal) => Self { weight: literal.0.len(), ranges: 0 },
            HirKind::Class(Class::Unicode(set)) => Self { weight: 1, ranges: set.ranges().len() },
            HirKind::Class(Class::Bytes(set)) => Self { weight: 1, ranges: set.ranges().len() },
            HirKind::Repetition(of) => {
                let times = of.max.unwrap_or_else(|| of.min.saturating_add(1)).max(1) as usize;
                let Self { weight, ranges } = Self::of(&of.sub);
                Self { weight: weight.saturating_mul(times), ranges: ranges.saturating_mul(times) }
            }
            HirKind::Capture(of) => Self::of(&of.sub),
            HirKind::Concat(all) | HirKind::Alternation(all) => {
                all.iter().map(Self::of).fold(Self::default(), Self::plus)
            }
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { weight: self.weight.saturating_add(other.weight), ranges: self.ranges.saturating_add(other.ranges) }
    }
}

/// Compiles the patterns of a rule.
///
/// # Errors
/// The number of the faulty one, and what is wrong with it.
pub(crate) fn compile(patterns: &[String]) -> Result<Vec<Regex>, (usize, String)> {
    let mut all = Vec::with_capacity(patterns.len());
    let mut total = Size::default();
    for (at, pattern) in patterns.iter().enumerate() {
        let fault = |text: String| (at, text);
        let parsed = ParserBuilder::new().nest_limit(NEST_MAX).build().parse(pattern);
        // The last line has the reason; the others draw the place.
        let reason = |error: &str| error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let hir = parsed.map_err(|error| fault(reason(&error.to_string())))?;
        total = total.plus(Size::of(&hir));
        if total.weight > WEIGHT_MAX {
            let text = format!(
                "The patterns of a rule may have {WEIGHT_MAX} characters and sets, each repetition counted: shorten \
                 them, or use fewer."
            );
            return Err(fault(text));
        }
        if total.ranges > RANGES_MAX {
            let text = "The patterns of a rule have too many large sets, such as `\\w`: use smaller ones, such as \
                        `[a-z0-9]`, or fewer repetitions.";
            return Err(fault(text.to_owned()));
        }
        if hir.properties().minimum_len().is_none_or(|length| length == 0) {
            return Err(fault("It matches every message, because it matches an empty text.".to_owned()));
        }
        let mut builder = RegexBuilder::new(pattern);
        builder.nest_limit(NEST_MAX).size_limit(COMPILED_BYTES_MAX).dfa_size_limit(CACHE_BYTES_MAX);
        all.push(builder.build().map_err(|error| fault(reason(&error.to_string())))?);
    }
    Ok(all)
}

/// Whether a rule of auto moderation may have these patterns.
///
/// # Errors
/// The number of the first faulty one, and what is wrong with it, for the user.
pub fn check_patterns(patterns: &[String]) -> Result<(), (usize, String)> {
    compile(patterns).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str) -> Result<(), String> {
        compile(&[pattern.to_owned()]).map(drop).map_err(|(_, why)| why)
    }

    #[test]
    fn x1_only_patterns_of_little_weight() {
        for usual in [r"fr[e3]{2}\s+nitro", r"(?i)\bdiscord\.gg/\w{2,16}\b", r"(?:a|b)+c", r"[äöü]{3}", r"\p{Greek}+"]
        {
            assert_eq!(check(usual), Ok(()), "{usual}");
        }
        for heavy in ["a{501}", "(a{50}){50}", "((((a{30}){30}){30}){30})", "(?:ab){0,251}", &"x".repeat(501)] {
            assert!(check(heavy).is_err_and(|why| why.contains("500 characters")), "{heavy}");
        }
        assert!(compile(&vec!["x".repeat(100); 5]).is_ok());
        assert_eq!(compile(&vec!["x".repeat(100); 6]).map_err(|(at, _)| at).err(), Some(5), "in all");
        let nested = format!("{}a{}", "(".repeat(50), ")".repeat(50));
        assert!(check(&nested).is_err() && check(r"\w{400}").is_err(), "too deep, and too large");
    }

    #[test]
    fn faults_are_explained() {
        for (broken, expected) in [
            ("a(", "unclosed group"),
            ("[z-a]", "invalid character class range"),
            (r"(a)\1", "backreferences are not supported"),
            (r"a(?=b)", "look-around"),
            ("a*", "matches every message"),
            ("", "matches every message"),
            (r"a|\b", "matches every message"),
        ] {
            let why = check(broken).unwrap_err();
            assert!(why.contains(expected), "{broken}: {why}");
        }
    }

    /// A text and a pattern that take exponential time by backtracking.
    #[test]
    fn x1_nothing_backtracks() {
        let all = compile(&["(?:a+)+b".to_owned()]).unwrap();
        assert!(!all[0].is_match(&"a".repeat(100_000)));
    }
}
