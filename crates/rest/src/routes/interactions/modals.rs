//! Modals: forms that an application shows to one account, which submits them once.
//!
//! Owns        `Modal`, a record of the store per modal.
//! Invariants  M1 an application receives values only of a modal that it sent to this account, once. (test
//!             `a_modal_is_submitted_once`)
//! Limits      `TOKEN_MS` until it is submitted; its form in `crate::routes::component_form`.

use super::{
    TOKEN_MS,
    answers::{MODALS, is_older, key},
    options::Wanted,
    publish,
    token::{Source, Token, Triggering},
};
use crate::{
    error::ApiError,
    form::{self, FieldError, FieldErrors, Parsed},
    routes::component_form::{self, TEXT_INPUT},
    state::Api,
};
use guildhall_model::{ChannelId, EventName, Id, UserId, from_gateway::UserBody};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const TEXT_CHARS_MAX: usize = 4_000;
const SUBMITTED_MAX: usize = 40;

/// A modal that was shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Modal {
    pub user_id: UserId,
    pub application: UserId,
    pub channel_id: ChannelId,
    pub custom_id: String,
    pub components: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    pub triggering: Triggering,
}

/// The form of a modal.
pub(super) struct ModalForm {
    custom_id: String,
    title: String,
    components: Vec<Value>,
}

impl ModalForm {
    pub fn read(data: &Value) -> Parsed<Self> {
        form::object(data, |form| {
            let custom_id = form.required("custom_id", |v| form::text(v, 1, 100));
            let title = form.required("title", |v| form::text(v, 1, 45));
            let components = form.required("components", component_form::of_modal);
            Some(Self { custom_id: custom_id?, title: title?, components: components? })
        })
    }

    /// Shows it to the account that invoked the interaction.
    pub async fn show(self, api: &Api, token: &Token) -> Result<(), ApiError> {
        let Self { custom_id, title, components } = self;
        let bot = api.node.user(token.application).await?.ok_or_else(super::unknown_application)?;
        let application = json!({"id": bot.id, "name": bot.username, "icon": bot.avatar, "description": "",
            "bot": UserBody::from(&*bot)});
        let body = json!({"id": token.id, "nonce": token.nonce, "channel_id": token.channel_id,
            "application": application, "custom_id": custom_id, "title": title, "components": components});
        let modal = Modal {
            user_id: token.user_id,
            application: token.application,
            channel_id: token.channel_id,
            custom_id,
            components,
            source: token.source,
            triggering: Triggering { id: token.id, kind: token.kind, name: token.name.clone() },
        };
        let bytes = serde_json::to_vec(&modal).map_err(|_| ApiError::Bug("a modal that can be written"))?;
        api.node.store().put_record(MODALS, &key(token.id), &bytes).await?;
        publish(api, EventName::InteractionModalCreate, token.guild_id, token.user_id, &body)
    }
}

/// The values of a submitted modal.
#[derive(Debug, Default)]
pub(super) struct Submitted {
    /// As the application receives them.
    pub components: Vec<Value>,
    pub wanted: Wanted,
}

impl Modal {
    /// The modal with this id, if it was shown not too long ago.
    pub async fn read(api: &Api, id: Id<()>) -> Result<Option<Self>, ApiError> {
        if is_older(api, id, TOKEN_MS) {
            return Ok(None);
        }
        let Some(bytes) = api.node.store().record(MODALS, &key(id)).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|_| ApiError::Bug("a modal that can be read"))
    }

    /// Ends it; false if it was submitted before (M1).
    pub async fn take(api: &Api, id: Id<()>) -> Result<bool, ApiError> {
        Ok(api.node.store().delete_record(MODALS, &key(id)).await?)
    }

    /// Reads the submitted components against those of the modal.
    pub fn values(&self, given: &Value) -> Parsed<Submitted> {
        let mut submitted = Submitted::default();
        let given = form::list(given, 0, SUBMITTED_MAX, |v| form::object(v, |_| Some(v.clone())))?;
        let mut faults = FieldErrors::default();
        for (at, component) in self.components.iter().enumerate() {
            match submitted.component(component, &given) {
                Ok(Some(component)) => submitted.components.push(component),
                Ok(None) => {}
                Err(fault) => faults.add(&at.to_string(), fault),
            }
        }
        if faults.is_empty() { Ok(submitted) } else { Err(faults) }
    }
}

impl Submitted {
    /// The values of one component of the modal. None: it has no input.
    fn component(&mut self, of: &Value, given: &[Value]) -> Parsed<Option<Value>> {
        let kind = of.get("type").and_then(Value::as_i64).unwrap_or_default();
        let mut out = Map::new();
        out.insert("type".to_owned(), json!(kind));
        if let Some(id) = of.get("id") {
            out.insert("id".to_owned(), id.clone());
        }
        if let Some(inner) = of.get("components").and_then(Value::as_array) {
            let mut components = Vec::new();
            for (at, inner) in inner.iter().enumerate() {
                let read = self.component(inner, given);
                let within = |fault| FieldErrors::within("components", FieldErrors::within(&at.to_string(), fault));
                components.extend(read.map_err(within)?);
            }
            out.insert("components".to_owned(), Value::Array(components));
            return Ok(Some(Value::Object(out)));
        }
        if let Some(inner) = of.get("component") {
            let read = self.component(inner, given).map_err(|fault| FieldErrors::within("component", fault))?;
            out.insert("component".to_owned(), json!(read));
            return Ok(Some(Value::Object(out)));
        }
        let Some(custom_id) = of.get("custom_id").and_then(Value::as_str) else { return Ok(Some(Value::Object(out))) };
        out.insert("custom_id".to_owned(), json!(custom_id));
        let found = super::components::find(given, custom_id);
        let is_required = of.get("required").and_then(Value::as_bool).unwrap_or(true);
        if kind == TEXT_INPUT {
            let value = found.and_then(|found| found.get("value")).filter(|value| !value.is_null());
            let limit = |key: &str, default: usize| of.get(key).and_then(Value::as_u64).map_or(default, |n| n as usize);
            let min = limit("min_length", 0).max(usize::from(is_required));
            let empty = Value::String(String::new());
            let text = value.unwrap_or(&empty);
            let is_left_out = !is_required && text == "";
            let text = form::text(text, if is_left_out { 0 } else { min }, limit("max_length", TEXT_CHARS_MAX));
            out.insert("value".to_owned(), json!(text.map_err(|fault| FieldErrors::within("value", fault))?));
        } else {
            let none = Value::Array(Vec::new());
            let values = found.and_then(|found| found.get("values")).filter(|values| !values.is_null());
            let values = values.unwrap_or(&none);
            let is_left_out = !is_required && values.as_array().is_some_and(Vec::is_empty);
            let values = if is_left_out { Ok(Vec::new()) } else { self.wanted.values(of, values) };
            out.insert("values".to_owned(), json!(values.map_err(|fault| FieldErrors::within("values", fault))?));
        }
        Ok(Some(Value::Object(out)))
    }
}

/// The modal is not this account's, or was submitted.
pub(super) fn unknown_modal() -> ApiError {
    let fault = FieldError::new("INTERACTION_MODAL_UNKNOWN", "There is no such modal, or it was submitted.");
    FieldErrors::within("data", FieldErrors::at("id", fault)).into()
}
