//! Parsers for single values, with upstream's error texts.
//!
//! Invariants  numbers and booleans may also be strings: queries and form fields have nothing else, and upstream
//!             coerces bodies the same way. Text is counted in Unicode scalar values.

use super::{FieldError, FieldErrors, Parsed};
use guildhall_model::{Id, Permissions, name};
use guildhall_stdx::{Timestamp, whole_number};
use serde_json::Value;

/// How much of a wrong value is quoted back, in characters.
const QUOTED_CHARS_MAX: usize = 100;

/// A value as errors quote it.
fn quoted(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => text.clone(),
        // Containers may be large, and clients do not need them in the error.
        Value::Array(_) => "[...]".to_owned(),
        Value::Object(_) => "{...}".to_owned(),
        other => other.to_string(),
    };
    if let Some((end, _)) = text.char_indices().nth(QUOTED_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn length(len: usize, min: usize, max: usize) -> Result<(), FieldError> {
    if (min..=max).contains(&len) {
        return Ok(());
    }
    Err(if min == 0 {
        FieldError::new("BASE_TYPE_MAX_LENGTH", format!("Must be {max} or fewer in length."))
    } else {
        FieldError::new("BASE_TYPE_BAD_LENGTH", format!("Must be between {min} and {max} in length."))
    })
}

fn string(value: &Value) -> Parsed<&str> {
    value.as_str().ok_or_else(|| {
        let message = format!("Could not interpret \"{}\" as string.", quoted(value));
        FieldError::new("STRING_TYPE_CONVERT", message).into()
    })
}

/// An integer as a query or a form writes it.
fn integer_in(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        text.parse().ok().filter(|_| is_decimal).and_then(whole_number)
    })
}

/// Text of `min` to `max` characters.
pub(crate) fn text(value: &Value, min: usize, max: usize) -> Parsed<String> {
    let text = string(value)?;
    length(text.chars().count(), min, max)?;
    Ok(text.to_owned())
}

/// Text of several lines, at most `max` characters, without white space and invisible characters at its ends; empty if
/// it is blank.
pub(crate) fn block(value: &Value, max: usize) -> Parsed<String> {
    let text = name::without_blank_ends(string(value)?);
    length(text.chars().count(), 0, max)?;
    Ok(text.to_owned())
}

/// A name of `min` to `max` characters, cleaned: on one line, without what is invisible at its ends. Only an empty text
/// may be a name of none, if `min` is 0; a blank one is none.
pub(crate) fn name(value: &Value, min: usize, max: usize) -> Parsed<String> {
    named(value, min, max, name::cleaned)
}

/// A name of an account or a member: also without long gaps.
pub(crate) fn name_of_person(value: &Value, min: usize, max: usize) -> Parsed<String> {
    named(value, min, max, name::cleaned_of_person)
}

/// A display name; empty if it is blank.
pub(crate) fn blank_or_name(value: &Value, max: usize) -> Parsed<String> {
    if name::is_blank(string(value)?) { Ok(String::new()) } else { name_of_person(value, 0, max) }
}

fn named(value: &Value, min: usize, max: usize, clean: impl FnOnce(&str) -> String) -> Parsed<String> {
    let text = string(value)?;
    let name = clean(text);
    length(name.chars().count(), min, max)?;
    if !text.is_empty() && name::is_blank(&name) { Err(FieldError::required().into()) } else { Ok(name) }
}

/// Text of `min` to `max` characters without white space at its ends, as upstream counts it. Blank text is none.
pub(crate) fn written(value: &Value, min: usize, max: usize) -> Parsed<String> {
    let whole = string(value)?;
    let text = whole.trim();
    if text.is_empty() && !whole.is_empty() {
        return Err(FieldError::required().into());
    }
    length(text.chars().count(), min, max)?;
    Ok(text.to_owned())
}

/// An integer within bounds. JSON trees have integers for numbers like 2.0.
pub(crate) fn integer(value: &Value, min: i64, max: i64) -> Parsed<i64> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => integer_in(text.trim()),
        _ => None,
    };
    let Some(number) = number else {
        return Err(FieldError::new("NUMBER_TYPE_COERCE", format!("Value \"{}\" is not int.", quoted(value))).into());
    };
    if number < min {
        return Err(
            FieldError::new("NUMBER_TYPE_MIN", format!("int value should be greater than or equal to {min}.")).into()
        );
    }
    if number > max {
        return Err(
            FieldError::new("NUMBER_TYPE_MAX", format!("int value should be less than or equal to {max}.")).into()
        );
    }
    Ok(number)
}

/// Of scheduled events and stages: members of the guild only.
pub(crate) fn privacy_level(value: &Value) -> Parsed<()> {
    match integer(value, 0, i64::MAX)? {
        2 => Ok(()),
        _ => Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (2,).").into()),
    }
}

/// An id, as a string or a number.
pub(crate) fn id<T>(value: &Value) -> Parsed<Id<T>> {
    let raw = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            if !text.is_empty() && text.len() <= 24 && text.bytes().all(|b| b.is_ascii_digit()) {
                // Only too many digits can fail now: that is "too large", not "not a snowflake".
                Some(text.parse().unwrap_or(u64::MAX))
            } else {
                None
            }
        }
        _ => None,
    };
    match raw {
        None => {
            Err(FieldError::new("NUMBER_TYPE_COERCE", format!("Value \"{}\" is not snowflake.", quoted(value))).into())
        }
        Some(raw) if i64::try_from(raw).is_err() => Err(FieldError::new(
            "NUMBER_TYPE_MAX",
            format!("snowflake value should be less than or equal to {}.", i64::MAX),
        )
        .into()),
        Some(raw) => Ok(Id::new(raw)),
    }
}

/// True or false; in queries also `True`, `1`, `False`, `0`.
pub(crate) fn boolean(value: &Value) -> Parsed<bool> {
    let truth = match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) => match text.as_str() {
            "true" | "True" | "1" => Some(true),
            "false" | "False" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    };
    truth.ok_or_else(|| FieldError::new("BOOLEAN_TYPE_CONVERT", "Must be either true or false.").into())
}

/// A permission set: a decimal number, as a string or not.
pub(crate) fn permissions(value: &Value) -> Parsed<Permissions> {
    let bits = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    // Unknown bits are dropped, as upstream does.
    bits.map(|bits| Permissions(bits) & Permissions::ALL)
        .ok_or_else(|| FieldError::new("NUMBER_TYPE_COERCE", format!("Value \"{}\" is not int.", quoted(value))).into())
}

/// A date and time from year 1 on; without an offset it is in UTC.
pub(crate) fn timestamp(value: &Value) -> Parsed<Timestamp> {
    value.as_str().and_then(|text| Timestamp::parse(text).ok()).ok_or_else(|| {
        FieldError::new("DATE_TIME_TYPE_PARSE", format!("Could not parse {}. Should be ISO8601.", quoted(value))).into()
    })
}

/// A list of at most `max` items, some of which may be null: they are none, as upstream.
pub(crate) fn present<T>(value: &Value, max: usize, mut item: impl FnMut(&Value) -> Parsed<T>) -> Parsed<Vec<T>> {
    let items = list(value, 0, max, |value| if value.is_null() { Ok(None) } else { item(value).map(Some) })?;
    Ok(items.into_iter().flatten().collect())
}

/// A list of `min` to `max` items. All faulty items are named, by their index.
pub(crate) fn list<T>(
    value: &Value,
    min: usize,
    max: usize,
    mut item: impl FnMut(&Value) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    let Value::Array(values) = value else {
        return Err(FieldError::new("LIST_TYPE_CONVERT", "Only iterables may be used in a ListType").into());
    };
    length(values.len(), min, max)?;
    let (mut items, mut faults) = (Vec::with_capacity(values.len()), FieldErrors::default());
    for (index, value) in values.iter().enumerate() {
        match item(value) {
            Ok(parsed) => items.push(parsed),
            Err(fault) => faults.add(&index.to_string(), fault),
        }
    }
    if faults.is_empty() { Ok(items) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::UserId;
    use proptest::prelude::*;
    use serde_json::json;

    fn complaint<T: std::fmt::Debug>(parsed: Parsed<T>) -> Value {
        serde_json::to_value(parsed.unwrap_err()).unwrap()["_errors"][0].clone()
    }

    #[test]
    fn text_is_counted_in_characters() {
        assert_eq!(text(&json!("🔥🔥🔥"), 0, 3).unwrap(), "🔥🔥🔥");
        assert_eq!(
            complaint(text(&json!("🔥🔥🔥🔥"), 0, 3)),
            json!({"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 3 or fewer in length."})
        );
        assert_eq!(
            complaint(text(&json!(""), 1, 3)),
            json!({"code": "BASE_TYPE_BAD_LENGTH", "message": "Must be between 1 and 3 in length."})
        );
        assert_eq!(
            complaint(text(&json!(["x"]), 1, 3)),
            json!({"code": "STRING_TYPE_CONVERT", "message": "Could not interpret \"[...]\" as string."})
        );
    }

    #[test]
    fn names_are_trimmed_and_not_blank() {
        assert_eq!(name(&json!("  a  b \u{200b}"), 1, 4).unwrap(), "a  b");
        assert_eq!(name_of_person(&json!("  a  b \u{200b}"), 1, 3).unwrap(), "a b");
        assert_eq!(complaint(name(&json!("   "), 1, 9))["code"], "BASE_TYPE_BAD_LENGTH");
        assert_eq!(complaint(name(&json!("\u{3164}"), 1, 9))["code"], "BASE_TYPE_REQUIRED");
        assert_eq!(complaint(name(&json!(" abcd "), 1, 3))["code"], "BASE_TYPE_BAD_LENGTH");
        assert_eq!(complaint(name(&json!(5), 1, 3))["code"], "STRING_TYPE_CONVERT");
        // A tag may have an emoji only.
        assert_eq!(name(&json!(""), 0, 3).unwrap(), "");
        assert_eq!(complaint(name(&json!("  "), 0, 3))["code"], "BASE_TYPE_REQUIRED");
        assert_eq!(written(&json!("\u{200b}"), 1, 3).unwrap(), "\u{200b}");
        assert_eq!(complaint(written(&json!(" \u{a0}"), 1, 3))["code"], "BASE_TYPE_REQUIRED");
        assert_eq!(written(&json!("    a \n"), 1, 3).unwrap(), "a");
    }

    #[test]
    fn integers_are_coerced_and_bounded() {
        assert_eq!(integer(&json!(7), 0, 9), Ok(7));
        assert_eq!(integer(&json!("7"), 0, 9), Ok(7));
        assert_eq!(integer(&json!("7.0"), 0, 9), Ok(7));
        assert_eq!(integer(&json!("7e0"), 0, 9), Ok(7));
        for value in [json!("7.5"), json!("inf"), json!("nan"), json!("infinity"), json!("."), json!("1e300")] {
            assert_eq!(complaint(integer(&value, 0, 9))["code"], "NUMBER_TYPE_COERCE", "{value}");
        }
        for value in [json!(7.5), json!("7x"), json!(true), json!([7]), json!(""), json!(u64::MAX)] {
            assert_eq!(complaint(integer(&value, 0, 9))["code"], "NUMBER_TYPE_COERCE", "{value}");
        }
        assert_eq!(
            complaint(integer(&json!(10), 0, 9)),
            json!({"code": "NUMBER_TYPE_MAX", "message": "int value should be less than or equal to 9."})
        );
        assert_eq!(
            complaint(integer(&json!(-1), 0, 9)),
            json!({"code": "NUMBER_TYPE_MIN", "message": "int value should be greater than or equal to 0."})
        );
    }

    #[test]
    fn ids() {
        let check = |value: Value| id::<guildhall_model::marker::User>(&value);
        assert_eq!(check(json!("5")), Ok(UserId::new(5)));
        assert_eq!(check(json!(5)), Ok(UserId::new(5)));
        for value in [json!("x"), json!("-5"), json!(-5), json!(""), json!(" 5"), json!(1.5), json!({})] {
            assert_eq!(complaint(check(value.clone()))["code"], "NUMBER_TYPE_COERCE", "{value}");
        }
        for value in [json!("9223372036854775808"), json!("99999999999999999999"), json!(u64::MAX)] {
            assert_eq!(
                complaint(check(value)),
                json!({"code": "NUMBER_TYPE_MAX",
                       "message": "snowflake value should be less than or equal to 9223372036854775807."})
            );
        }
        assert_eq!(complaint(check(json!("abc")))["message"], "Value \"abc\" is not snowflake.");
    }

    #[test]
    fn booleans_of_queries() {
        for text in ["true", "True", "1"] {
            assert_eq!(boolean(&json!(text)), Ok(true));
        }
        for text in ["false", "False", "0"] {
            assert_eq!(boolean(&json!(text)), Ok(false));
        }
        for value in [json!("yes"), json!(1), json!("")] {
            assert_eq!(
                complaint(boolean(&value)),
                json!({"code": "BOOLEAN_TYPE_CONVERT", "message": "Must be either true or false."})
            );
        }
    }

    #[test]
    fn long_values_are_cut() {
        let message = complaint(integer(&json!("ä".repeat(100_000)), 0, 1))["message"].as_str().unwrap().to_owned();
        assert!(message.chars().count() < 150, "{message}");
    }

    #[test]
    fn null_items_are_none() {
        assert_eq!(present(&json!([1, null, "2"]), 3, |v| integer(v, 0, 9)), Ok(vec![1, 2]));
        assert_eq!(complaint(present(&json!([null, null]), 1, |v| integer(v, 0, 9)))["code"], "BASE_TYPE_MAX_LENGTH");
    }

    #[test]
    fn a_list_that_is_too_long_is_not_read() {
        let long = Value::Array(vec![json!("x"); 1000]);
        let faults = list(&long, 0, 10, |v| integer(v, 0, 1)).unwrap_err();
        assert_eq!(
            serde_json::to_value(faults).unwrap(),
            json!({"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 10 or fewer in length."}]})
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(text_value in "\\PC{0,40}", number in any::<f64>()) {
            for value in [json!(text_value), json!(number), json!([text_value]), json!({text_value.clone(): 1})] {
                let _ = (text(&value, 1, 5), integer(&value, -5, 5), id::<()>(&value), boolean(&value));
                let _ = (permissions(&value), timestamp(&value), list(&value, 0, 3, |v| text(v, 0, 3)));
            }
        }
    }
}
