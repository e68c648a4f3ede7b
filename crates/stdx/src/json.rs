//! Leniency in JSON texts: whole numbers with a point, and halves of surrogate pairs.
//!
//! Owns        `whole_number` and `replace_surrogate_halves`, which every reader of JSON here uses.
//! Invariants  J1 a text without such a half is unchanged, and so is its length in any case. (tests `j1_*`)
//! Spec        docs/protocol/choices.md "Payloads and forms".

/// From here on a parser that is off by a rounding may read another integer than was written. 2^49.
const EXACT_MAX: f64 = 562_949_953_421_312.0;

/// The integer that a float is. None: it has a fraction, or it is so large that another integer may have been written.
#[must_use]
pub fn whole_number(float: f64) -> Option<i64> {
    (float.fract() == 0.0 && float.abs() < EXACT_MAX).then_some(float as i64)
}

/// Replaces each escaped half of a surrogate pair by `\ufffd`, which has as many bytes. Returns whether there was one.
/// Parsers refuse such a text, so callers pass it only after a parser did.
pub fn replace_surrogate_halves(json: &mut [u8]) -> bool {
    let mut has_replaced = false;
    let mut at = 0;
    while let Some(found) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        // Backslashes are only in strings, and each escapes the next byte.
        let Some(unit) = unit_at(json, at) else {
            at = (at + 2).min(json.len());
            continue;
        };
        let is_pair = is_high(unit) && unit_at(json, at + 6).is_some_and(is_low);
        if is_pair {
            at += 12;
            continue;
        }
        if is_high(unit) || is_low(unit) {
            json[at..at + 6].copy_from_slice(br"\ufffd");
            has_replaced = true;
        }
        at += 6;
    }
    has_replaced
}

/// The UTF-16 code unit of the escape `\uXXXX` at this index.
fn unit_at(json: &[u8], at: usize) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = json.get(at..at + 6)? else { return None };
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_numbers() {
        let check = |float: f64, expected: Option<i64>| assert_eq!(whole_number(float), expected, "{float}");
        check(2.0, Some(2));
        check(-3.0, Some(-3));
        check(-0.0, Some(0));
        check(1.5, None);
        check(562_949_953_421_311.0, Some(562_949_953_421_311));
        check(562_949_953_421_312.0, None);
        check(-1e300, None);
        check(f64::NAN, None);
        check(f64::INFINITY, None);
    }

    #[test]
    fn halves_are_replaced() {
        let check = |json: &str, expected: &str| {
            let mut bytes = json.as_bytes().to_vec();
            let has_replaced = replace_surrogate_halves(&mut bytes);
            assert_eq!((String::from_utf8(bytes).unwrap().as_str(), has_replaced), (expected, json != expected));
        };
        check(r#""x\ud83d""#, r#""x\ufffd""#);
        check(r#""\uDC4Dx""#, r#""\ufffdx""#);
        check(r#""\ud83d\ud83d\udc4d\udc4d""#, r#""\ufffd\ud83d\udc4d\ufffd""#);
        check(r#""\ud83d\\udc4d""#, r#""\ufffd\\udc4d""#);
        check(r#""\\ud83d""#, r#""\\ud83d""#);
        check(r#""\\\ud83d""#, r#""\\\ufffd""#);
        check(r#"{"\ud83d":"\n\ud83dn"}"#, r#"{"\ufffd":"\n\ufffdn"}"#);
        check(r#""\ud83d\u0041""#, r#""\ufffd\u0041""#);
        for rest in ["\\", "\\u", "\\ud83", "\\uzzzz", "\u{e9}\\ud8", ""] {
            check(rest, rest);
        }
    }

    proptest! {
        #[test]
        fn j1_what_parses_is_unchanged(text in "\\PC{0,20}") {
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let mut json = escaped.clone().into_bytes();
            prop_assert!(!replace_surrogate_halves(&mut json));
            prop_assert_eq!(json, escaped.into_bytes());
        }

        #[test]
        fn j1_the_length_stays(mut json in prop::collection::vec(prop::sample::select(br#"\ud8cDf"0"#.to_vec()), 0..60)) {
            let before = json.len();
            replace_surrogate_halves(&mut json);
            prop_assert_eq!(json.len(), before);
            prop_assert!(!replace_surrogate_halves(&mut json));
        }
    }
}
