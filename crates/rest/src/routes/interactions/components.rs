//! Components of a message: the one that a user pressed, and the values that they chose.
//!
//! Invariants  P2 an application receives values only of a component that its message has, is not disabled, and admits
//!             them. (tests `p2_*`)

use super::options::Wanted;
use crate::form::{self, FieldError, FieldErrors, Parsed};
use guildhall_model::Id;
use serde_json::{Value, json};

const BUTTON: i64 = 2;
const STRING_SELECT: i64 = 3;
const USER_SELECT: i64 = 5;
const ROLE_SELECT: i64 = 6;
const MENTIONABLE_SELECT: i64 = 7;
const CHANNEL_SELECT: i64 = 8;
const CHOSEN_MAX: usize = 25;

/// A component that was used.
#[derive(Debug)]
pub(super) struct Used {
    /// `data` of the interaction, without `resolved`.
    pub data: Value,
    pub wanted: Wanted,
}

fn kind_of(component: &Value) -> i64 {
    component.get("type").and_then(Value::as_i64).unwrap_or_default()
}

/// The component with this `custom_id`, wherever it is in these.
pub(super) fn find<'a>(components: &'a [Value], custom_id: &str) -> Option<&'a Value> {
    components.iter().find_map(|component| {
        if component.get("custom_id").and_then(Value::as_str) == Some(custom_id) {
            return Some(component);
        }
        let inner = component.get("components").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let single = ["accessory", "component"].into_iter().filter_map(|key| component.get(key));
        find(inner, custom_id).or_else(|| single.map(std::slice::from_ref).find_map(|of| find(of, custom_id)))
    })
}

impl Used {
    /// Reads `data` of a request against the components of the message.
    pub fn read(components: &[Value], data: &Value) -> Parsed<Self> {
        form::object(data, |form| {
            let kind = form.required("component_type", |v| form::integer(v, 1, 255))?;
            let custom_id = form.required("custom_id", |v| form::text(v, 1, 100))?;
            let found = find(components, &custom_id).filter(|found| kind_of(found) == kind);
            let is_disabled = |found: &&Value| found.get("disabled") == Some(&Value::Bool(true));
            let Some(found) = found.filter(|found| !is_disabled(found)) else {
                let message = "The message has no such component, or it is disabled.";
                form.fault("custom_id", FieldError::new("COMPONENT_VALIDATION_FAILED", message));
                return None;
            };
            let mut used =
                Self { data: json!({"component_type": kind, "custom_id": custom_id}), wanted: Wanted::default() };
            if let Some(id) = found.get("id") {
                used.data["id"] = id.clone();
            }
            if kind != BUTTON {
                let values = form.required("values", |v| used.wanted.values(found, v));
                used.data["values"] = json!(values?);
            }
            Some(used)
        })
    }
}

impl Wanted {
    /// The values that a user chose in a select.
    pub(super) fn values(&mut self, select: &Value, given: &Value) -> Parsed<Vec<Value>> {
        let kind = kind_of(select);
        let limit = |key: &str| select.get(key).and_then(Value::as_u64).map_or(1, |limit| limit as usize);
        let texts =
            form::list(given, limit("min_values"), limit("max_values").min(CHOSEN_MAX), |v| form::text(v, 1, 100))?;
        for (at, text) in texts.iter().enumerate() {
            if texts[..at].contains(text) {
                let fault = FieldError::new("SET_TYPE_ALREADY_CONTAINS_VALUE", "The set already contains this value");
                return Err(FieldErrors::at(&at.to_string(), fault));
            }
            let value = Value::String(text.clone());
            if kind == STRING_SELECT {
                let options = select.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if !options.iter().any(|option| option.get("value") == Some(&value)) {
                    let fault = FieldError::new("BASE_TYPE_CHOICES", "Value must be one of the select's options.");
                    return Err(FieldErrors::at(&at.to_string(), fault));
                }
                continue;
            }
            let id: Id<()> = form::id(&value).map_err(|faults| FieldErrors::within(&at.to_string(), faults))?;
            match kind {
                USER_SELECT => self.users.push(id.cast()),
                ROLE_SELECT => self.roles.push(id.cast()),
                MENTIONABLE_SELECT => self.mentionables.push(id),
                CHANNEL_SELECT => {
                    let kinds = select.get("channel_types").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                    self.channels.push((id.cast(), kinds.iter().filter_map(Value::as_i64).collect()));
                }
                _ => {
                    let fault = FieldError::new("COMPONENT_VALIDATION_FAILED", "This component has no values.");
                    return Err(FieldErrors::at(&at.to_string(), fault));
                }
            }
        }
        Ok(texts.into_iter().map(Value::String).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_only_what_the_message_offers() {
        let components = json!([
            {"type": 1, "components": [{"type": 2, "style": 1, "custom_id": "yes"},
                {"type": 2, "style": 1, "custom_id": "no", "disabled": true}]},
            {"type": 17, "components": [
                {"type": 9, "components": [{"type": 10, "content": "x"}],
                 "accessory": {"type": 2, "style": 1, "custom_id": "deep"}},
                {"type": 1, "components": [{"type": 3, "custom_id": "pick", "max_values": 2,
                    "options": [{"label": "a", "value": "a"}, {"label": "b", "value": "b"}]}]},
                {"type": 1, "components": [{"type": 8, "custom_id": "where", "channel_types": [0]}]}]},
        ]);
        let components = components.as_array().unwrap();
        let read = |data: Value| Used::read(components, &data);
        assert!(read(json!({"component_type": 2, "custom_id": "yes"})).is_ok());
        assert!(read(json!({"component_type": 2, "custom_id": "deep"})).is_ok());
        let picked = read(json!({"component_type": 3, "custom_id": "pick", "values": ["b", "a"]})).unwrap();
        assert_eq!(picked.data["values"], json!(["b", "a"]));
        let channel = read(json!({"component_type": 8, "custom_id": "where", "values": ["7"]})).unwrap();
        assert_eq!(channel.wanted.channels, [(Id::new(7), vec![0])]);
        for wrong in [
            json!({"component_type": 2, "custom_id": "no"}),
            json!({"component_type": 2, "custom_id": "other"}),
            json!({"component_type": 3, "custom_id": "yes"}),
            json!({"component_type": 3, "custom_id": "pick", "values": []}),
            json!({"component_type": 3, "custom_id": "pick", "values": ["a", "a"]}),
            json!({"component_type": 3, "custom_id": "pick", "values": ["c"]}),
            json!({"component_type": 3, "custom_id": "pick"}),
            json!({"component_type": 8, "custom_id": "where", "values": ["x"]}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
