//! Forms: parsing of JSON bodies and queries, with exact errors.
//!
//! Owns        `Form`, which reads the fields of one object and collects the errors under their keys.
//! Invariants  a form is read to its end, so that one answer names every fault. F1 `object` succeeds only without an
//!             error. (test `f1_*`)
//! Limits      the length of a list is checked before its items are read, and quoted values are truncated, so the
//!             answer is never much longer than valid lists.
//! Not here    the meaning of the fields: `crate::routes`.     Spec  docs/protocol/reference.md §10.1.

mod parse;

pub(crate) use parse::{
    blank_or_name, block, boolean, id, integer, list, name, name_of_person, permissions, present, privacy_level, text,
    timestamp, written,
};

pub(crate) use guildhall_http_kit::{FieldError, FieldErrors};

use guildhall_media::{Picture, PictureRule};
use serde_json::{Map, Value};

/// A name contains a word that upstream reserves, or is one.
pub(crate) fn reserved(word: &str) -> FieldError {
    let verb = if matches!(word, "everyone" | "here") { "be" } else { "contain" };
    FieldError::new("USERNAME_INVALID_CONTAINS", format!("Username cannot {verb} \"{word}\""))
}

/// A parsed value, or the errors of its form.
pub(crate) type Parsed<T> = Result<T, FieldErrors>;

/// The fields of one object, while they are read.
#[derive(Debug)]
pub(crate) struct Form<'a> {
    fields: &'a Map<String, Value>,
    faults: FieldErrors,
}

/// Reads an object. `read` returns none only after a complaint (a required field was missing or wrong).
pub(crate) fn object<T>(value: &Value, read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Parsed<T> {
    let not_an_object =
        || FieldErrors::from(FieldError::new("MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType"));
    fields(value.as_object().ok_or_else(not_an_object)?, read)
}

/// Reads the fields of an object, or of a query.
pub(crate) fn fields<T>(fields: &Map<String, Value>, read: impl FnOnce(&mut Form<'_>) -> Option<T>) -> Parsed<T> {
    let mut form = Form { fields, faults: FieldErrors::default() };
    let built = read(&mut form);
    match built {
        Some(built) if form.faults.is_empty() => Ok(built),
        None if form.faults.is_empty() => Err(FieldError::required().into()),
        _ => Err(form.faults),
    }
}

impl Form<'_> {
    /// A field that may be missing; null counts as missing.
    pub fn optional<T>(&mut self, key: &str, parse: impl FnOnce(&Value) -> Parsed<T>) -> Option<T> {
        self.nullable(key, parse).flatten()
    }

    /// A field that may be missing (none) or null (`Some(None)`).
    pub fn nullable<T>(&mut self, key: &str, parse: impl FnOnce(&Value) -> Parsed<T>) -> Option<Option<T>> {
        match self.fields.get(key)? {
            Value::Null => Some(None),
            value => match parse(value) {
                Ok(parsed) => Some(Some(parsed)),
                Err(faults) => {
                    self.faults.add(key, faults);
                    None
                }
            },
        }
    }

    /// A picture that may be missing or null. An empty text counts as null, as upstream.
    pub fn picture(&mut self, key: &str, rule: PictureRule) -> Option<Option<Picture>> {
        self.nullable(key, |value| if value == "" { Ok(None) } else { rule.parse(value).map(Some) })
            .map(Option::flatten)
    }

    /// A field that must be there. None only after a complaint.
    pub fn required<T>(&mut self, key: &str, parse: impl FnOnce(&Value) -> Parsed<T>) -> Option<T> {
        if self.fields.get(key).is_none_or(Value::is_null) {
            self.fault(key, FieldError::required());
            return None;
        }
        self.optional(key, parse)
    }

    /// Refuses a field that this server does not store. Null and missing fields pass.
    pub fn unsupported(&mut self, key: &str, message: &'static str) {
        if self.fields.get(key).is_some_and(|value| !value.is_null()) {
            self.fault(key, FieldError::new("UNSUPPORTED", message));
        }
    }

    /// Complains about a field.
    pub fn fault(&mut self, key: &str, fault: FieldError) {
        self.faults.add(key, fault.into());
    }

    /// Whether no fault was found so far.
    pub fn has_no_faults(&self) -> bool {
        self.faults.is_empty()
    }

    /// Complains about the object itself.
    pub fn fault_here(&mut self, fault: FieldError) {
        self.faults.add_here(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tree_mirrors_the_request() {
        let body = json!({"name": 5, "items": [{"n": 1}, {"n": "x"}, {}]});
        let result = object(&body, |form| {
            let name = form.required("name", |v| text(v, 1, 3));
            let other = form.required("other", |v| text(v, 1, 3));
            let items = form.required("items", |v| {
                list(v, 0, 5, |item| object(item, |form| form.required("n", |v| integer(v, 0, 9))))
            });
            Some((name?, other?, items?))
        });
        assert_eq!(
            serde_json::to_value(result.unwrap_err()).unwrap(),
            json!({
                "name": {"_errors": [{"code": "STRING_TYPE_CONVERT", "message": "Could not interpret \"5\" as string."}]},
                "other": {"_errors": [{"code": "BASE_TYPE_REQUIRED", "message": "This field is required"}]},
                "items": {
                    "1": {"n": {"_errors": [{"code": "NUMBER_TYPE_COERCE", "message": "Value \"x\" is not int."}]}},
                    "2": {"n": {"_errors": [{"code": "BASE_TYPE_REQUIRED", "message": "This field is required"}]}},
                },
            })
        );
    }

    #[test]
    fn f1_nothing_is_built_from_a_faulty_form() {
        let body = json!({"a": 1, "b": "?"});
        let result = object(&body, |form| {
            form.optional("b", |v| integer(v, 0, 9));
            form.required("a", |v| integer(v, 0, 9))
        });
        assert!(result.is_err());
        assert!(object(&json!({}), |_| None::<()>).is_err());
        assert_eq!(object(&body, |form| form.required("a", |v| integer(v, 0, 9))), Ok(1));
    }

    #[test]
    fn null_is_not_missing() {
        let body = json!({"a": null});
        let (a, b) =
            object(&body, |form| Some((form.nullable("a", |v| text(v, 0, 9)), form.nullable("b", |v| text(v, 0, 9)))))
                .unwrap();
        assert_eq!((a, b), (Some(None), None));
        assert!(object(&body, |form| form.required("a", |v| text(v, 0, 9))).is_err());
    }

    #[test]
    fn only_objects_have_fields() {
        for value in [json!([]), json!(1), json!(null), json!("x")] {
            let faults = object(&value, |_| Some(())).unwrap_err();
            assert_eq!(
                serde_json::to_value(faults).unwrap(),
                json!({"_errors": [{"code": "MODEL_TYPE_CONVERT",
                                    "message": "Only dictionaries may be used in a ModelType"}]})
            );
        }
    }
}
