//! Message input: the rules for messages of clients, for the backend API.
//!
//! Owns        `new_message` and `message_patch`, with each fault under the path of its field.
//! Not here    the rules: `crate::routes::message_form`.

use crate::{error::ApiError, routes::message_form};
use guildhall_guild::{MessagePatch, NewMessage};
use guildhall_http_kit::FieldErrors;
use guildhall_model::ChannelId;
use serde_json::Value;

/// A field with a wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// Path of the field: `embeds[0].title`; empty for the message itself.
    pub field: String,
    /// Valid values of the field.
    pub message: String,
}

/// A new message for `channel_id`, in the form in which clients send one, without files.
///
/// # Errors
/// Every field that breaks a rule of upstream.
pub fn new_message(body: &Value, channel_id: ChannelId) -> Result<NewMessage, Vec<FieldFault>> {
    message_form::new_message(body, &[], channel_id).map(|(message, _)| message).map_err(faults)
}

/// Changes to a message, in the form in which clients send them, without files.
///
/// # Errors
/// As `new_message`.
pub fn message_patch(body: &Value) -> Result<MessagePatch, Vec<FieldFault>> {
    message_form::message_patch(body, &[]).map(|(patch, _)| patch).map_err(faults)
}

fn faults(error: ApiError) -> Vec<FieldFault> {
    match error {
        ApiError::Form(faults) => flat(&faults),
        other => vec![FieldFault { field: String::new(), message: other.to_string() }],
    }
}

fn flat(faults: &FieldErrors) -> Vec<FieldFault> {
    let mut flat = Vec::new();
    collect(&serde_json::to_value(faults).unwrap_or_default(), String::new(), &mut flat);
    flat
}

/// The tree of faults mirrors the body; `_errors` has those of the value itself.
fn collect(tree: &Value, field: String, flat: &mut Vec<FieldFault>) {
    for (key, inside) in tree.as_object().into_iter().flatten() {
        if key == "_errors" {
            let messages = inside.as_array().into_iter().flatten().filter_map(|fault| fault["message"].as_str());
            flat.extend(messages.map(|message| FieldFault { field: field.clone(), message: message.to_owned() }));
            continue;
        }
        let is_index = key.bytes().all(|byte| byte.is_ascii_digit());
        let path = match (field.is_empty(), is_index) {
            (_, true) => format!("{field}[{key}]"),
            (true, false) => key.clone(),
            (false, false) => format!("{field}.{key}"),
        };
        collect(inside, path, flat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fault_has_the_path_of_its_field() {
        let body = json!({"content": "x".repeat(2_001), "embeds": [{"title": "t"}, {"fields": [{"name": "n"}]}]});
        let fields: Vec<String> =
            new_message(&body, ChannelId::new(1)).unwrap_err().into_iter().map(|f| f.field).collect();
        assert_eq!(fields, ["content", "embeds[1].fields[0].value"]);
        let empty = new_message(&json!({}), ChannelId::new(1)).unwrap_err();
        assert_eq!((empty.len(), empty[0].field.as_str()), (1, ""));
    }
}
