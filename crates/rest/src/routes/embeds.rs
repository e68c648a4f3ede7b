//! Embeds: the rich part of a message, checked and cleaned.
//!
//! Invariants  the result has only known keys of known types, so an embed is never larger than its limits,
//!             whatever the input.
//! Limits      10 embeds, 6000 characters in all; per field as upstream.
//! Spec        docs/protocol/reference.md §6.6, §10.3.

use crate::form::{self, FieldError, Form, Parsed};
use serde_json::{Map, Value, json};

const EMBEDS_MAX: usize = 10;
const FIELDS_MAX: usize = 25;
/// Of titles, descriptions, field names and values, footers and authors, over all embeds.
const TOTAL_CHARS_MAX: usize = 6000;
const URL_CHARS_MAX: usize = 2048;

/// Reads a list of embeds.
pub(crate) fn embeds(value: &Value) -> Parsed<Vec<Value>> {
    let mut total_chars = 0;
    let embeds = form::list(value, 0, EMBEDS_MAX, |value| embed(value, &mut total_chars))?;
    if total_chars > TOTAL_CHARS_MAX {
        let message = format!("Embed size exceeds maximum size of {TOTAL_CHARS_MAX}");
        return Err(FieldError::new("MAX_EMBED_SIZE_EXCEEDED", message).into());
    }
    Ok(embeds)
}

fn embed(value: &Value, total_chars: &mut usize) -> Parsed<Value> {
    form::object(value, |form| {
        let mut out = Map::new();
        out.insert("type".to_owned(), json!("rich"));
        put_text(form, &mut out, "title", 0, 256, total_chars);
        put_text(form, &mut out, "description", 0, 4096, total_chars);
        put_url(form, &mut out, "url");
        put(form, &mut out, "timestamp", |v| Ok(json!(form::timestamp(v)?)));
        put(form, &mut out, "color", |v| Ok(json!(form::integer(v, 0, 0xff_ffff)?)));
        put(form, &mut out, "footer", |v| part(v, "text", 2048, &["icon_url"], total_chars));
        put(form, &mut out, "image", picture);
        put(form, &mut out, "thumbnail", picture);
        put(form, &mut out, "author", |v| part(v, "name", 256, &["url", "icon_url"], total_chars));
        put(form, &mut out, "fields", |v| Ok(Value::Array(form::list(v, 0, FIELDS_MAX, |v| field(v, total_chars))?)));
        if out.len() == 1 && form.has_no_faults() {
            form.fault("description", FieldError::required());
        }
        Some(Value::Object(out))
    })
}

/// Copies a field if it is present and valid.
fn put(form: &mut Form<'_>, out: &mut Map<String, Value>, key: &str, parse: impl FnOnce(&Value) -> Parsed<Value>) {
    if let Some(value) = form.optional(key, parse) {
        out.insert(key.to_owned(), value);
    }
}

fn put_text(form: &mut Form<'_>, out: &mut Map<String, Value>, key: &str, min: usize, max: usize, total: &mut usize) {
    put(form, out, key, |v| counted(v, min, max, total));
    // Libraries send an empty text for one that is not there.
    if out.get(key).is_some_and(|text| text == "") {
        out.remove(key);
    }
}

/// Libraries send an empty URL for one that is not there.
fn put_url(form: &mut Form<'_>, out: &mut Map<String, Value>, key: &str) {
    put(form, out, key, |v| if v == "" { Ok(Value::Null) } else { url(v) });
    if out.get(key).is_some_and(Value::is_null) {
        out.remove(key);
    }
}

/// Text that counts towards the total.
fn counted(value: &Value, min: usize, max: usize, total_chars: &mut usize) -> Parsed<Value> {
    let text = form::written(value, min, max)?;
    *total_chars += text.chars().count();
    Ok(Value::String(text))
}

/// Footer or author: one text, and URLs.
fn part(value: &Value, key: &str, max: usize, urls: &[&str], total_chars: &mut usize) -> Parsed<Value> {
    form::object(value, |form| {
        let mut out = Map::new();
        if let Some(text) = form.required(key, |v| counted(v, 1, max, total_chars)) {
            out.insert(key.to_owned(), text);
        }
        for key in urls {
            put_url(form, &mut out, key);
        }
        Some(Value::Object(out))
    })
}

fn picture(value: &Value) -> Parsed<Value> {
    form::object(value, |form| Some(json!({"url": form.required("url", url)?})))
}

fn field(value: &Value, total_chars: &mut usize) -> Parsed<Value> {
    form::object(value, |form| {
        let name = form.required("name", |v| counted(v, 1, 256, total_chars));
        let text = form.required("value", |v| counted(v, 1, 1024, total_chars));
        let inline = form.optional("inline", form::boolean).unwrap_or(false);
        Some(json!({"name": name?, "value": text?, "inline": inline}))
    })
}

fn url(value: &Value) -> Parsed<Value> {
    let text = form::text(value, 0, URL_CHARS_MAX)?;
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(FieldError::new("URL_TYPE_INVALID_URL", "Not a well formed URL.").into());
    };
    let is_known = ["http", "https", "attachment"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !is_known {
        let scheme: String = scheme.chars().take(20).collect();
        let message = format!("Scheme \"{scheme}\" is not supported. Scheme must be one of ('http', 'https').");
        return Err(FieldError::new("URL_TYPE_INVALID_SCHEME", message).into());
    }
    if rest.is_empty() || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(FieldError::new("URL_TYPE_INVALID_URL", "Not a well formed URL.").into());
    }
    Ok(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn faults(value: Value) -> Value {
        serde_json::to_value(embeds(&value).unwrap_err()).unwrap()
    }

    #[test]
    fn known_keys_pass_and_others_go() {
        let embed = json!({
            "title": "t", "description": null, "url": "https://example.net/x", "color": 5, "junk": "x".repeat(9999),
            "timestamp": "2024-05-01T12:00:00Z", "type": "article", "provider": {"name": "x"},
            "footer": {"text": "f", "icon_url": "http://example.net", "proxy_icon_url": "no"},
            "image": {"url": "https://example.net/a.png", "width": 1}, "author": {"name": "a"},
            "fields": [{"name": "n", "value": "v", "inline": true}, {"name": "n", "value": "v"}],
        });
        assert_eq!(
            embeds(&json!([embed])).unwrap(),
            [json!({
                "type": "rich", "title": "t", "url": "https://example.net/x", "color": 5,
                "timestamp": "2024-05-01T12:00:00.000000+00:00",
                "footer": {"text": "f", "icon_url": "http://example.net"},
                "image": {"url": "https://example.net/a.png"}, "author": {"name": "a"},
                "fields": [{"name": "n", "value": "v", "inline": true}, {"name": "n", "value": "v", "inline": false}],
            })]
        );
    }

    #[test]
    fn an_empty_url_is_none() {
        let embed = json!({"title": "t", "url": "", "author": {"name": "a", "url": "", "icon_url": ""},
            "footer": {"text": "f", "icon_url": ""}});
        let kept = json!({"type": "rich", "title": "t", "author": {"name": "a"}, "footer": {"text": "f"}});
        assert_eq!(embeds(&json!([embed])).unwrap(), [kept]);
    }

    #[test]
    fn the_total_counts_all_embeds() {
        let half = json!({"description": "ä".repeat(3000)});
        assert!(embeds(&json!([half, half])).is_ok());
        assert_eq!(
            faults(json!([half, half, {"title": "x"}])),
            json!({"_errors": [{"code": "MAX_EMBED_SIZE_EXCEEDED",
                                "message": "Embed size exceeds maximum size of 6000"}]})
        );
    }

    #[test]
    fn faults_name_embed_and_field() {
        assert_eq!(
            faults(json!([{"title": "x"}, {"title": "x".repeat(257), "fields": [{"name": "", "value": "v"}]}])),
            json!({"1": {
                "title": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 256 or fewer in length."}]},
                "fields": {"0": {"name": {"_errors": [
                    {"code": "BASE_TYPE_BAD_LENGTH", "message": "Must be between 1 and 256 in length."}]}}},
            }})
        );
        assert_eq!(
            faults(json!([{}])),
            json!({"0": {"description": {"_errors": [
                {"code": "BASE_TYPE_REQUIRED", "message": "This field is required"}]}}})
        );
        assert_eq!(faults(json!(vec![json!({"title": "x"}); 11]))["_errors"][0]["code"], "BASE_TYPE_MAX_LENGTH");
    }

    #[test]
    fn urls_have_a_known_scheme() {
        for (url, code) in [
            ("example.net", "URL_TYPE_INVALID_URL"),
            ("javascript://x", "URL_TYPE_INVALID_SCHEME"),
            ("https://", "URL_TYPE_INVALID_URL"),
            ("https://a b", "URL_TYPE_INVALID_URL"),
        ] {
            assert_eq!(faults(json!([{"url": url}]))["0"]["url"]["_errors"][0]["code"], code, "{url}");
        }
    }

    proptest! {
        #[test]
        fn parsed_embeds_are_bounded(title in "\\PC{0,300}", junk in "\\PC{0,300}", n in 0usize..30) {
            let field = json!({"name": title, "value": junk, "more": junk});
            let embed = json!({"title": title, "author": {"name": junk}, "fields": vec![field; n], "junk": junk});
            if let Ok(embeds) = embeds(&json!([embed])) {
                let chars = serde_json::to_string(&embeds).unwrap().chars().count();
                // Escapes make a character six at most.
                prop_assert!(chars < 6 * TOTAL_CHARS_MAX + 2000);
            }
        }
    }
}
