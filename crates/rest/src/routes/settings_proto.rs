//! Settings that clients for user accounts store. Spec  docs/protocol/choices.md "Settings of user accounts".

use super::{Call, PathParams, read_states::need_user};
use crate::{
    body::{BodyLimits, JsonRequest},
    error::ApiError,
    form::{self, FieldError, FieldErrors, Parsed},
    permit::ReadPermit,
};
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use guildhall_node::{SETTINGS_BYTES_MAX, SettingsKind, SettingsUpdate};
use serde_json::{Value, json};

/// Clients may leave out the padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn kind(params: &PathParams) -> Result<SettingsKind, ApiError> {
    match params.text("kind") {
        "1" => Ok(SettingsKind::Preloaded),
        "2" => Ok(SettingsKind::Frecency),
        _ => {
            let fault = FieldError::new("BASE_TYPE_CHOICES", "Value must be one of (1, 2).");
            Err(FieldErrors::at("kind", fault).into())
        }
    }
}

fn settings(value: &Value) -> Parsed<Vec<u8>> {
    let text = form::text(value, 0, SETTINGS_BYTES_MAX / 3 * 4 + 4)?;
    LENIENT.decode(text).map_err(|_| FieldError::new("BINARY_TYPE_DECODE", "Must be in base64.").into())
}

pub(super) async fn read(Call { api, caller, params }: Call) -> Result<Response, ApiError> {
    need_user(&caller)?;
    let settings = api.node.settings_proto(caller.id, kind(&params)?).await?;
    Ok(Json(json!({"settings": STANDARD.encode(settings)})).into_response())
}

pub(super) async fn update(Call { api, caller, params }: Call, input: JsonRequest) -> Result<Response, ApiError> {
    need_user(&caller)?;
    let kind = kind(&params)?;
    let read = input.read(&api, ReadPermit::caller(&caller), BodyLimits::LIST, |form| {
        let required = form.optional("required_data_version", |v| form::integer(v, 0, i64::MAX));
        Some((form.required("settings", settings)?, required.map(|version| version as u64)))
    });
    let (change, required) = read.await?;
    let fault = |code, message: String| Err(FieldErrors::at("settings", FieldError::new(code, message)).into());
    let (settings, is_out_of_date) = match api.node.update_settings_proto(caller.id, kind, &change, required).await? {
        SettingsUpdate::Updated(settings) => (settings, false),
        SettingsUpdate::OutOfDate(settings) => (settings, true),
        SettingsUpdate::Contended => return Err(ApiError::Overloaded),
        SettingsUpdate::Malformed => return fault("INVALID_VALUE", "Must be a protocol buffer.".to_owned()),
        SettingsUpdate::TooLarge => {
            let message = format!("The settings may have {SETTINGS_BYTES_MAX} bytes.");
            return fault("BASE_TYPE_MAX_LENGTH", message);
        }
    };
    let mut body = json!({"settings": STANDARD.encode(settings)});
    if is_out_of_date {
        body["out_of_date"] = json!(true);
    }
    Ok(Json(body).into_response())
}
