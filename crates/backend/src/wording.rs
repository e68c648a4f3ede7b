//! Wording of JSON errors for people.
//!
//! Owns        the sentences for text that is not JSON, and for values of a wrong type.
//! Limits      an error quotes at most `QUOTED_CHARS_MAX` characters of the body.

use super::error::V1Error;

const QUOTED_CHARS_MAX: usize = 40;

/// The error for text that is not JSON.
pub(crate) fn not_json(text: &[u8], error: &serde_json::Error) -> V1Error {
    let message = if text.trim_ascii().is_empty() {
        "The body is empty: send a JSON object, at least {}.".to_owned()
    } else if error.is_eof() {
        "This is not JSON: it ends in the middle of a value.".to_owned()
    } else {
        format!("This is not JSON: look at {}.", place(text, error.line(), error.column()))
    };
    V1Error::field("", message)
}

/// Position of a fault. Columns count bytes from 1.
fn place(text: &[u8], line: usize, column: usize) -> String {
    let at = text.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    let rest = at.get(column.saturating_sub(1)..).unwrap_or_default();
    let near = match cut(&String::from_utf8_lossy(rest)) {
        near if near.is_empty() => String::new(),
        near => format!("`{near}` in "),
    };
    if text.contains(&b'\n') { format!("{near}line {line}, column {column}") } else { format!("{near}column {column}") }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error for a value of a wrong type, made of the library's message without its position: `field` is better.
pub(crate) fn not_of_type(field: String, error: &serde_json::Error) -> V1Error {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    for (start, message) in [("missing field ", "Must be there."), ("duplicate field ", "Is there twice.")] {
        if let Some(name) = quoted_after(text, start) {
            let field = if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
            return V1Error::field(field, message);
        }
    }
    V1Error::field(field, sentence(text))
}

/// The name in backquotes behind `start`.
fn quoted_after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.strip_prefix('`')?.split('`').next()
}

fn sentence(text: &str) -> String {
    let pair = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: "));
    if let Some((found, expected)) = pair.and_then(|pair| pair.rsplit_once(", expected ")) {
        return format!("Must be {}; it is {}.", wanted(expected), got(found));
    }
    if let Some((name, known)) = text.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", ")) {
        let known = known.trim_start_matches("expected ").trim_start_matches("one of ");
        return format!("There is no field {}; there are {known}.", cut(name));
    }
    let mut text = if text.starts_with("unknown variant ") { text.to_owned() } else { cut_long(text) };
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{}.", text.trim_end_matches('.'))
}

/// Bounds a message. Messages of this crate are short.
fn cut_long(text: &str) -> String {
    text.chars().take(300).collect()
}

fn got(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        "null" | "unit value" | "Option value" => "null".to_owned(),
        other => {
            let number =
                ["integer `", "floating point `", "boolean `"].iter().find_map(|kind| other.strip_prefix(kind));
            match number {
                Some(number) => number.trim_end_matches('`').to_owned(),
                None => cut(other.strip_prefix("string ").unwrap_or(other)),
            }
        }
    }
}

fn wanted(expected: &str) -> &str {
    match expected {
        "a map" => "an object",
        "a sequence" => "an array",
        "a boolean" => "true or false",
        "unit" => "null",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::extract::{Check, FieldErrors, parse};
    use serde::Deserialize;
    use serde_json::value::RawValue;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only how it fails matters")]
    struct Form {
        name: String,
        #[serde(default)]
        count: u16,
        #[serde(default)]
        inner: Vec<Inner>,
        #[serde(default)]
        raw: Option<Box<RawValue>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only how it fails matters")]
    struct Inner {
        yes: bool,
    }

    impl Check for Form {
        fn check(&self, _: &mut FieldErrors) {}
    }

    #[track_caller]
    fn check(text: &str, field: &str, message: &str) {
        let errors = parse::<Form>(text.as_bytes()).unwrap_err().errors;
        assert_eq!(errors.iter().map(|error| (&*error.field, &*error.message)).collect::<Vec<_>>(), [(field, message)]);
    }

    #[test]
    fn objects_are_taken_and_arrays_are_not() {
        let good = r#"{"name":"a","count":3,"inner":[{"yes":true}],"raw":[1,{"x":[]}]}"#;
        assert_eq!(parse::<Form>(good.as_bytes()).unwrap().raw.unwrap().get(), r#"[1,{"x":[]}]"#);
        check(r#"["a"]"#, "", "Must be an object; it is an array.");
        check(r#"[{"name":"a"}]"#, "", "Must be an object; it is an array.");
        check(r#"{"name":"a","inner":[[true]]}"#, "inner[0]", "Must be an object; it is an array.");
        check(r#""a""#, "", "Must be an object; it is \"a\".");
        check("null", "", "Must be an object; it is null.");
    }

    #[test]
    fn types() {
        check(r#"{"name":5}"#, "name", "Must be a string; it is 5.");
        check(r#"{"name":{}}"#, "name", "Must be a string; it is an object.");
        check(r#"{"name":"a","count":65536}"#, "count", "Must be a whole number from 0 to 65535; it is 65536.");
        check(r#"{"name":"a","count":1.5}"#, "count", "Must be a whole number from 0 to 65535; it is 1.5.");
        check(r#"{"name":"a","inner":{}}"#, "inner", "Must be an array; it is an object.");
        check(r#"{"name":"a","inner":[{"yes":1}]}"#, "inner[0].yes", "Must be true or false; it is 1.");
        check("{}", "name", "Must be there.");
        check(r#"{"name":"a","inner":[{}]}"#, "inner[0].yes", "Must be there.");
        check(r#"{"name":"a","name":"b"}"#, "name", "Is there twice.");
        check(r#"{"nmae":"a"}"#, "nmae", "There is no field `nmae`; there are `name`, `count`, `inner`, `raw`.");
        let long = format!("{{\"name\":\"a\",\"count\":\"{}\"}}", "ä".repeat(10_000));
        let message = &parse::<Form>(long.as_bytes()).unwrap_err().errors[0].message;
        assert!(message.chars().count() < 150, "{message}");
    }

    #[test]
    fn text_that_is_no_json() {
        check("", "", "The body is empty: send a JSON object, at least {}.");
        check(" \n", "", "The body is empty: send a JSON object, at least {}.");
        check(r#"{"name":"a""#, "", "This is not JSON: it ends in the middle of a value.");
        check("nonsense", "", "This is not JSON: look at `onsense` in column 2.");
        check("{\"name\":\"a\",\n\"count\":x}", "", "This is not JSON: look at `x}` in line 2, column 9.");
        check(r#"{"name":"a"} {}"#, "", "This is not JSON: look at `{}` in column 14.");
    }
}
