//! Options: the values of a command, checked against its definition.
//!
//! Owns        `Chosen`, the checked options; `Wanted`, the objects that they name.
//! Invariants  P1 an application receives only options of its command, with values of their types and within their
//!             limits. (tests `p1_*`)
//! Limits      as of the definition: 25 options, in two groups at most.

use crate::form::{self, FieldError, FieldErrors, Form, Parsed};
use guildhall_media::FILES_MAX;
use guildhall_model::{Attachment, ChannelId, Id, RoleId, UserId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SUBCOMMAND: i64 = 1;
const SUBCOMMAND_GROUP: i64 = 2;
const STRING: i64 = 3;
const INTEGER: i64 = 4;
const BOOLEAN: i64 = 5;
const USER: i64 = 6;
const CHANNEL: i64 = 7;
const ROLE: i64 = 8;
const MENTIONABLE: i64 = 9;
const NUMBER: i64 = 10;
const ATTACHMENT: i64 = 11;

const OPTIONS_MAX: usize = 25;
const TEXT_CHARS_MAX: usize = 6_000;
/// Integers beyond it are not exact in every client.
const INTEGER_MAX: i64 = 1 << 53;

/// Objects that an interaction names; the guild and the store find them.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub users: Vec<UserId>,
    pub roles: Vec<RoleId>,
    /// With the types that the option admits; empty for all.
    pub channels: Vec<(ChannelId, Vec<i64>)>,
    /// Users or roles.
    pub mentionables: Vec<Id<()>>,
}

/// The options of one invocation.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// As the application receives them.
    pub options: Vec<Value>,
    /// Names of the subcommands.
    pub names: Vec<String>,
    pub wanted: Wanted,
    /// Numbers of the request's files that options name.
    pub files: BTreeSet<usize>,
    /// Number of options that the user is typing, which an autocompletion has.
    focused: usize,
}

fn invalid(message: &'static str) -> FieldErrors {
    FieldError::new("APPLICATION_COMMAND_INVALID_OPTION", message).into()
}

fn list_of<'a>(definition: &'a Value, key: &str) -> &'a [Value] {
    definition.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn kind_of(definition: &Value) -> i64 {
    definition.get("type").and_then(Value::as_i64).unwrap_or_default()
}

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

impl Chosen {
    /// Reads the options of a command. An autocompletion may lack required ones, and has one that is typed. `sent` are
    /// the numbers of the request's files; the value of an option is one of them until `put_files`.
    pub fn read(definition: &Value, given: Option<&Value>, sent: &[usize], is_autocomplete: bool) -> Parsed<Self> {
        let mut chosen = Self::default();
        chosen.options = chosen.level(definition, given, is_autocomplete)?;
        if chosen.files.iter().any(|number| !sent.contains(number)) {
            return Err(invalid("The request has no file with the number that is the value of an option."));
        }
        if is_autocomplete && chosen.focused != 1 {
            return Err(invalid("An autocompletion has exactly one focused option."));
        }
        Ok(chosen)
    }

    /// Replaces numbers of files by ids of their attachments, which are in the order of `files`.
    pub fn put_files(&mut self, attachments: &[Attachment]) {
        fn put(options: &mut [Value], ids: &BTreeMap<usize, Id<()>>) {
            for option in options {
                if kind_of(option) == ATTACHMENT
                    && let Some(id) = option["value"].as_u64().and_then(|number| ids.get(&(number as usize)))
                {
                    option["value"] = json!(id);
                }
                if let Some(inner) = option.get_mut("options").and_then(Value::as_array_mut) {
                    put(inner, ids);
                }
            }
        }
        let ids = self.files.iter().copied().zip(attachments.iter().map(|attachment| attachment.id)).collect();
        put(&mut self.options, &ids);
    }

    fn level(&mut self, definition: &Value, given: Option<&Value>, is_autocomplete: bool) -> Parsed<Vec<Value>> {
        let definitions = list_of(definition, "options");
        let empty = Value::Array(Vec::new());
        let given = given.filter(|given| !given.is_null()).unwrap_or(&empty);
        let options = form::list(given, 0, OPTIONS_MAX, |value| {
            form::object(value, |form| {
                let name = form.required("name", |v| form::text(v, 1, 32))?;
                let Some(definition) = definitions.iter().find(|of| of["name"] == name) else {
                    form.fault("name", FieldError::new("APPLICATION_COMMAND_UNKNOWN_OPTION", "Unknown option."));
                    return None;
                };
                self.option(form, value, definition, is_autocomplete)
            })
        })?;
        let has = |name: &Value| options.iter().any(|option| option["name"] == *name);
        let is_nested = |definition: &Value| matches!(kind_of(definition), SUBCOMMAND | SUBCOMMAND_GROUP);
        if definitions.iter().any(is_nested) && options.len() != 1 {
            return Err(invalid("Exactly one subcommand is required."));
        }
        let mut names: Vec<&Value> = options.iter().map(|option| &option["name"]).collect();
        names.sort_unstable_by_key(|name| name.as_str());
        names.dedup();
        if names.len() != options.len() {
            return Err(invalid("An option can be set once."));
        }
        let is_missing = |of: &&Value| is_true(of, "required") && !has(&of["name"]);
        if !is_autocomplete && definitions.iter().any(|of| is_missing(&of)) {
            return Err(FieldError::new("BASE_TYPE_REQUIRED", "A required option is missing.").into());
        }
        Ok(options)
    }

    fn option(
        &mut self,
        form: &mut Form<'_>,
        given: &Value,
        definition: &Value,
        is_autocomplete: bool,
    ) -> Option<Value> {
        let kind = kind_of(definition);
        form.optional("type", |v| match form::integer(v, 1, 11)? {
            given if given == kind => Ok(()),
            _ => Err(invalid("The option has another type.")),
        });
        let mut option = Map::new();
        option.insert("name".to_owned(), definition["name"].clone());
        option.insert("type".to_owned(), json!(kind));
        if matches!(kind, SUBCOMMAND | SUBCOMMAND_GROUP) {
            self.names.push(definition["name"].as_str().unwrap_or_default().to_owned());
            match self.level(definition, given.get("options"), is_autocomplete) {
                Ok(options) => option.insert("options".to_owned(), Value::Array(options)),
                // Without the key, the complaint is about the option.
                Err(faults) => return form.optional("options", |_| Err(faults)),
            };
            return Some(Value::Object(option));
        }
        let is_focused = is_autocomplete && is_true(given, "focused");
        let value = form.required("value", |value| {
            if is_focused {
                if !is_true(definition, "autocomplete") {
                    return Err(invalid("The option has no autocompletion."));
                }
                return typed(value);
            }
            self.value(kind, definition, value)
        })?;
        option.insert("value".to_owned(), value);
        if is_focused {
            self.focused += 1;
            option.insert("focused".to_owned(), Value::Bool(true));
        }
        Some(Value::Object(option))
    }

    fn value(&mut self, kind: i64, definition: &Value, value: &Value) -> Parsed<Value> {
        let value = match kind {
            STRING => {
                let limit = |key: &str, default: usize| {
                    definition.get(key).and_then(Value::as_u64).map_or(default, |limit| limit as usize)
                };
                json!(form::text(value, limit("min_length", 0), limit("max_length", TEXT_CHARS_MAX))?)
            }
            INTEGER => {
                let number = form::integer(value, -INTEGER_MAX, INTEGER_MAX)?;
                within(definition, number as f64)?;
                json!(number)
            }
            NUMBER => {
                let text = |value: &Value| value.as_str().and_then(|text| text.trim().parse().ok());
                let number = value.as_f64().or_else(|| text(value)).filter(|number: &f64| number.is_finite());
                let number = number.ok_or_else(|| FieldError::new("NUMBER_TYPE_COERCE", "Value is not a number."))?;
                within(definition, number)?;
                json!(number)
            }
            BOOLEAN => json!(form::boolean(value)?),
            USER => json!(noted(&mut self.wanted.users, form::id(value)?)),
            ROLE => json!(noted(&mut self.wanted.roles, form::id(value)?)),
            MENTIONABLE => json!(noted(&mut self.wanted.mentionables, form::id(value)?)),
            CHANNEL => {
                let id: ChannelId = form::id(value)?;
                let kinds = list_of(definition, "channel_types").iter().filter_map(Value::as_i64).collect();
                self.wanted.channels.push((id, kinds));
                json!(id)
            }
            ATTACHMENT => {
                let number = form::integer(value, 0, FILES_MAX as i64)?;
                self.files.insert(number as usize);
                json!(number)
            }
            _ => return Err(invalid("This server does not know the option's type.")),
        };
        let choices = list_of(definition, "choices");
        let is_choice = |choice: &Value| {
            choice["value"] == value || choice["value"].as_f64() == value.as_f64() && value.is_number()
        };
        if !choices.is_empty() && !choices.iter().any(is_choice) {
            return Err(FieldError::new("BASE_TYPE_CHOICES", "Value must be one of the option's choices.").into());
        }
        Ok(value)
    }
}

fn noted<T>(wanted: &mut Vec<Id<T>>, id: Id<T>) -> Id<T> {
    if !wanted.contains(&id) {
        wanted.push(id);
    }
    id
}

fn within(definition: &Value, number: f64) -> Result<(), FieldError> {
    let limit = |key: &str| definition.get(key).and_then(Value::as_f64);
    if limit("min_value").is_some_and(|min| number < min) {
        return Err(FieldError::new("NUMBER_TYPE_MIN", "The value is below the option's minimum."));
    }
    if limit("max_value").is_some_and(|max| number > max) {
        return Err(FieldError::new("NUMBER_TYPE_MAX", "The value is above the option's maximum."));
    }
    Ok(())
}

/// The typed part of a value: text, whatever the option's type.
fn typed(value: &Value) -> Parsed<Value> {
    match value {
        Value::Number(_) => Ok(json!(value.to_string())),
        _ => Ok(json!(form::text(value, 0, TEXT_CHARS_MAX)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        json!({"options": [
            {"type": 3, "name": "text", "required": true, "min_length": 2, "max_length": 4},
            {"type": 4, "name": "count", "min_value": 1, "max_value": 9, "autocomplete": true},
            {"type": 10, "name": "ratio", "choices": [{"name": "half", "value": 0.5}]},
            {"type": 7, "name": "where", "channel_types": [0]},
            {"type": 11, "name": "file"},
            {"type": 11, "name": "other"},
        ]})
    }

    fn read(given: Value) -> Parsed<Chosen> {
        Chosen::read(&definition(), Some(&given), &[0, 3], false)
    }

    #[test]
    fn p1_values_are_of_their_types_and_within_limits() {
        let text = json!({"type": 3, "name": "text", "value": "abc"});
        let chosen =
            read(json!([text, {"name": "count", "type": 4, "value": "7"}, {"name": "where", "value": "5"}])).unwrap();
        assert_eq!(chosen.options[1], json!({"name": "count", "type": 4, "value": 7}));
        assert_eq!(chosen.wanted.channels, [(ChannelId::new(5), vec![0])]);
        let files = json!([text, {"name": "file", "value": "3"}, {"name": "other", "value": 0}]);
        let mut chosen = read(files).unwrap();
        let attachment = |id| Attachment {
            id: Id::new(id),
            filename: String::new(),
            size: 0,
            url: String::new(),
            content_type: None,
            description: None,
            height: None,
            width: None,
        };
        chosen.put_files(&[attachment(70), attachment(73)]);
        assert_eq!((&chosen.options[1]["value"], &chosen.options[2]["value"]), (&json!("73"), &json!("70")));
        for wrong in [
            json!([]),
            json!([text, {"name": "file", "value": 1}]),
            json!([text, {"name": "file", "value": "x"}]),
            json!([{"name": "text", "value": "a"}]),
            json!([{"name": "text", "value": "abcde"}]),
            json!([{"name": "text", "value": 5}]),
            json!([{"name": "text", "type": 4, "value": "abc"}]),
            json!([text, text]),
            json!([text, {"name": "other", "value": 1}]),
            json!([text, {"name": "count", "value": 10}]),
            json!([text, {"name": "count", "value": 1.5}]),
            json!([text, {"name": "ratio", "value": 0.25}]),
            json!([text, {"name": "where", "value": "x"}]),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(read(json!([text, {"name": "ratio", "value": 0.5}])).is_ok());
    }

    #[test]
    fn p1_one_subcommand_is_chosen() {
        let inner = json!([{"type": 5, "name": "flag", "required": true}]);
        let definition = json!({"options": [
            {"type": 2, "name": "group", "options": [{"type": 1, "name": "one", "options": inner}]},
            {"type": 1, "name": "two"},
        ]});
        let read = |given: Value| Chosen::read(&definition, Some(&given), &[], false);
        let flag = json!([{"type": 5, "name": "flag", "value": true}]);
        let group = json!({"type": 2, "name": "group", "options": [{"type": 1, "name": "one", "options": flag}]});
        let chosen = read(json!([group])).unwrap();
        assert_eq!((chosen.names.join(" ").as_str(), &chosen.options[0]), ("group one", &group));
        assert!(read(json!([{"type": 1, "name": "two"}])).is_ok());
        for wrong in [json!([]), json!([group, {"type": 1, "name": "two"}]), json!([{"type": 2, "name": "group"}])] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_autocompletion_has_one_focused_option_and_may_lack_others() {
        let read = |given: Value| Chosen::read(&definition(), Some(&given), &[], true);
        let focused = json!({"type": 4, "name": "count", "value": "1x", "focused": true});
        assert_eq!(read(json!([focused])).unwrap().options, [focused]);
        assert!(read(json!([])).is_err());
        assert!(read(json!([{"type": 3, "name": "text", "value": "a", "focused": true}])).is_err());
    }
}
