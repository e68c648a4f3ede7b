//! Scrub: replaces texts, ids and times in JSON by surrogates of the same length.
//!
//! Owns        which parts of a payload remain: names of fields, short numbers, words of the protocol, `t`.
//! Invariants  S1 the result has the length of the text, and everything that is no string and no number stays where it
//!             is. S2 a string or a number of more than `DIGITS_KEPT` digits never remains, unless the protocol defines
//!             it. (tests `s*_*`)
//! Not here    surrogates: `guildhall-lab`.

use guildhall_lab::Surrogates;

/// Longer numbers may be ids or times.
const DIGITS_KEPT: usize = 5;

/// Replaces in place what identifies. None: the text is no JSON.
pub(crate) fn scrub_json(surrogates: &mut Surrogates, text: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut depth) = (0, 0_usize);
    let mut is_event_name = false;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at + 1)?;
                let raw = &text[at + 1..end];
                let behind = text[end + 1..].trim_start();
                let is_name = behind.starts_with(':');
                out.push('"');
                if is_name {
                    // Maps by id have ids as names.
                    match raw.len() > DIGITS_KEPT && raw.bytes().all(|byte| byte.is_ascii_digit()) {
                        true => surrogates.push(raw, &mut out),
                        false => out.push_str(raw),
                    }
                    is_event_name = depth == 1 && raw == "t";
                } else if is_event_name {
                    out.push_str(raw);
                    is_event_name = false;
                } else {
                    push_string(surrogates, raw, &mut out)?;
                }
                out.push('"');
                at = end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let length = text[at..].find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
                let end = length.map_or(text.len(), |length| at + length);
                push_number(surrogates, &text[at..end], &mut out);
                at = end;
            }
            byte => {
                match byte {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                out.push(char::from(byte));
                at += 1;
            }
        }
    }
    (out.len() == text.len()).then_some(out)
}

/// Index of the closing quotation mark.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// One character of a string, and how it is written.
#[derive(Clone, Copy)]
enum Form<'a> {
    Plain,
    /// `\n` and the like. Only punctuation and controls have it, which remain.
    Short(&'a str),
    /// `\u0041`, and whether its digits are capital letters; two for characters beyond 16 bits.
    Unicode {
        upper: bool,
    },
}

fn push_string(surrogates: &mut Surrogates, raw: &str, out: &mut String) -> Option<()> {
    if !raw.contains('\\') {
        surrogates.push(raw, out);
        return Some(());
    }
    let mut text = String::with_capacity(raw.len());
    let mut forms = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let rest = &raw[at..];
        if !rest.starts_with('\\') {
            let c = rest.chars().next()?;
            text.push(c);
            forms.push(Form::Plain);
            at += c.len_utf8();
            continue;
        }
        if rest.as_bytes().get(1) != Some(&b'u') {
            text.push(serde_json::from_str::<char>(&format!("\"{}\"", rest.get(..2)?)).ok()?);
            forms.push(Form::Short(rest.get(..2)?));
            at += 2;
            continue;
        }
        let upper = rest.get(2..6)?.bytes().any(|byte| byte.is_ascii_uppercase());
        let unit = u16::from_str_radix(rest.get(2..6)?, 16).ok()?;
        let escaped = if (0xd800..0xdc00).contains(&unit) { rest.get(..12)? } else { rest.get(..6)? };
        text.push(serde_json::from_str::<char>(&format!("\"{escaped}\"")).ok()?);
        forms.push(Form::Unicode { upper });
        at += escaped.len();
    }
    let mut made = String::with_capacity(text.len());
    surrogates.push(&text, &mut made);
    for (c, form) in made.chars().zip(forms) {
        match form {
            Form::Plain => out.push(c),
            Form::Short(written) => out.push_str(written),
            Form::Unicode { upper } => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
                }
            }
        }
    }
    Some(())
}

fn push_number(surrogates: &mut Surrogates, number: &str, out: &mut String) {
    if number.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_KEPT {
        return out.push_str(number);
    }
    let (mantissa, exponent) = number.split_at(number.find(['e', 'E']).unwrap_or(number.len()));
    let start = out.len();
    let mut rest = mantissa;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        match is_digit && run != "0" {
            true => out.push_str(&surrogates.number(run)),
            false => out.push_str(run),
        }
        rest = behind;
    }
    out.push_str(exponent);
    // The largest exponents leave no room for other digits.
    if out[start..].parse::<f64>().is_ok_and(f64::is_infinite) {
        let zeros = mantissa.replace(|c: char| c.is_ascii_digit(), "0");
        let ones = zeros.replacen('0', "1", 1);
        out.replace_range(start.., &format!("{ones}{exponent}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn scrub(text: &str) -> String {
        scrub_json(&mut Surrogates::new([3; 32]), text).unwrap()
    }

    fn same_shape(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.values().zip(b.values()).all(|(a, b)| same_shape(a, b))
            }
            (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b)),
            (Value::String(a), Value::String(b)) => a.len() == b.len(),
            (Value::Number(_), Value::Number(_)) => true,
            (a, b) => a == b,
        }
    }

    #[test]
    fn s1_structure_and_length_stay() {
        let text = r#"{"t":"MESSAGE_CREATE","s":42, "op":0,"d":{"content":"Meet at 5, \"Anna\"\n\u00e9\u00C9\ud83d\ude00 \/ \\","id":"1234567890123456789","n":1714564800123,"f":-12.3456789,"e":1.5e300,"type":0,"status":"online","notes":{"1234567890123456789":"x y"}}}"#;
        let made = scrub(text);
        assert_eq!(made.len(), text.len(), "{made}");
        assert!(same_shape(&serde_json::from_str(text).unwrap(), &serde_json::from_str(&made).unwrap()), "{made}");
        assert!(made.starts_with(r#"{"t":"MESSAGE_CREATE","s":42, "op":0,"d":{"content":""#), "{made}");
        for word in ["Meet", "Anna", "u00e9", "1234567890123456789", "1714564800123", "3456789"] {
            assert!(!made.contains(word), "{word} in {made}");
        }
        assert!(made.contains(r#""status":"online""#) && made.contains(r#""type":0"#));
        assert!(scrub_json(&mut Surrogates::new([3; 32]), "{\"a\":").is_none());
    }

    proptest! {
        #[test]
        fn s1_any_text_keeps_its_length(content in "\\PC{0,40}", escaped in prop::collection::vec(any::<char>(), 0..10), number in any::<f64>()) {
            let units: String = escaped.iter().flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()).map(|unit| format!("\\u{unit:04x}")).collect();
            let text = format!("{{\"a\":{},\"b\":\"{units}\",\"c\":{}}}", Value::from(content), Value::from(number));
            let made = scrub(&text);
            prop_assert_eq!(made.len(), text.len());
            let values = (serde_json::from_str::<Value>(&text).unwrap(), serde_json::from_str::<Value>(&made));
            prop_assert!(values.1.is_ok_and(|made| same_shape(&values.0, &made)));
        }
    }
}
