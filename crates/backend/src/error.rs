//! Errors of the backend API.
//!
//! Owns        `V1Error`, and its body: `{"code", "message", "errors"}`.
//! Invariants  a message names the remedy; every fault of a body is named by its field. Texts of the store or of
//!             libraries are never sent.     Spec  docs/backend-api.md "Errors".

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use guildhall_guild::Refusal;
use guildhall_http_kit::{BodyFault, OverQuota};
use guildhall_node::TokenFault;
use guildhall_store::StoreError;
use serde::Serialize;
use std::borrow::Cow;
use utoipa::ToSchema;

/// Fault of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// Path of the field: `audience.roles[2]`; empty for the body itself.
    pub field: String,
    /// Valid values of the field.
    pub message: String,
}

/// Reason why a request failed.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct V1Error {
    /// For programs: `invalid`, `unauthorized`, `logged_out`, `foreign`, `missing_scope`, `not_found`,
    /// `method_not_allowed`, `conflict`, `too_late`, `too_large`, `encoded`, `too_slow`,
    /// `rate_limited`, `unavailable`, `internal`.
    pub code: &'static str,
    /// Reason and remedy, for people.
    #[schema(value_type = String)]
    pub message: Cow<'static, str>,
    /// The faults of a body or query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<FieldError>,
    /// With `too_late`: the position before the oldest event that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub oldest: Option<String>,
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    retry_after_ms: Option<u64>,
}

impl V1Error {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), errors: Vec::new(), oldest: None, status, retry_after_ms: None }
    }

    pub fn unauthorized(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub fn revoked() -> Self {
        Self::unauthorized("This key was revoked: nothing more is taken with it. Take another key.")
    }

    /// The login of a dashboard's request has ended, or there was none.
    pub fn logged_out() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "logged_out", "You are logged out: log in with a key.")
    }

    /// A request below `/dashboard/api/` that a page of another site may have sent.
    pub fn foreign() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "foreign",
            "Requests of the dashboard need the header `x-guildhall-dashboard: 1`. Programs use /v1 with a key.",
        )
    }

    pub fn forbidden(message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "missing_scope", message)
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("There is no such {what}."))
    }

    /// A token that is refused anyway.
    pub fn no_token(fault: TokenFault) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("Nothing was revoked, as the token is refused anyway: {fault}."),
        )
    }

    pub fn no_route() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "There is nothing at this path: GET /v1/openapi.json lists what there is.",
        )
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "This path does not take this method: the Allow header and GET /v1/openapi.json list those it takes.",
        )
    }

    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Events that a reader has not read were removed; `pruned` is the newest of them.
    pub fn events_gone(pruned: u64) -> Self {
        let message = format!(
            "Events after this position were removed, as they were older than `events.keep_hours` or more than \
             `events.rows_max`. Read the state again by other requests, and continue with `after={pruned}`."
        );
        Self { oldest: Some(pruned.to_string()), ..Self::new(StatusCode::GONE, "too_late", message) }
    }

    /// An idempotency key came with another event before.
    pub fn other_event() -> Self {
        Self::conflict("This idempotency key came with another event before: take another key, or send the same event.")
    }

    pub fn too_large(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("The body, or a line of it, is longer than {bytes_max} bytes: send less at once."),
        )
    }

    pub fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "The body did not arrive in time: send it again.")
    }

    /// A quota is exhausted.
    pub fn over_quota(over_quota: OverQuota) -> Self {
        let message = match over_quota {
            OverQuota::Total => "The node has no room for this request now: send it again in a moment.",
            OverQuota::Share => "Too many requests or streams of this key are under way: let some of them end first.",
        };
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after_ms: Some(1_000), ..error }
    }

    pub fn too_deep() -> Self {
        Self::field("", "This is nested too deeply: at most 127 lists and objects may be inside each other.")
    }

    pub fn rate_limited(retry_after_ms: u64, message: &'static str) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        Self { retry_after_ms: Some(retry_after_ms), ..error }
    }

    /// A search before every message is in the index.
    pub fn not_indexed(indexed: u64) -> Self {
        let message = format!(
            "Messages from before an upgrade are being indexed, and {indexed} are so far: wait a moment and try again."
        );
        Self { retry_after_ms: Some(5_000), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_indexed", message) }
    }

    fn search_too_slow() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "search_too_slow",
            "The search took longer than two seconds: search for longer words, in one channel, or in less time (`after`, \
             `before`).",
        )
    }

    pub fn unavailable() -> Self {
        let error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "The node cannot do this now: wait a moment and try again. The request may have taken effect; \
             PUT, DELETE and idempotency keys make it safe to repeat.",
        );
        Self { retry_after_ms: Some(1_000), ..error }
    }

    /// This node has no lease, so it does not receive revocations of keys and tokens by other nodes.
    pub fn no_lease() -> Self {
        let error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "This node is cut off from its cluster (its lease has ended), so it takes no keys and no tokens: use another \
             node, or wait until it has joined again. Its log has the details.",
        );
        Self { retry_after_ms: Some(1_000), ..error }
    }

    /// In the words of `/readyz`.
    fn disk_full() -> Self {
        let error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "The disk is full: writes are refused, reads and deletions continue. The operator has to free space.",
        );
        Self { retry_after_ms: Some(1_000), ..error }
    }

    /// In the words of `/readyz`.
    fn database_away() -> Self {
        let error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "The node does not reach its database: try again when /readyz answers 200. The request may have taken \
             effect; PUT, DELETE and idempotency keys make it safe to repeat.",
        );
        Self { retry_after_ms: Some(1_000), ..error }
    }

    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, "invalid", "Some fields are invalid: see `errors`.");
        Self { errors, ..error }
    }

    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// A bug that is in the log already.
    fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "This is a fault of the node: its log has the details.",
        )
    }

    pub fn bug(what: &'static str) -> Self {
        tracing::error!(what, "a value that cannot be wrong is wrong");
        Self::internal()
    }

    /// There is no object with an id of the request.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Another request changed the object first.
    pub fn is_changed(&self) -> bool {
        self.code == "changed"
    }
}

impl From<Refusal> for V1Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::UnknownGuild => Self::not_found("guild"),
            Refusal::UnknownChannel => Self::not_found("channel"),
            Refusal::UnknownRole => Self::not_found("role"),
            Refusal::UnknownMember => Self::not_found("member"),
            Refusal::UnknownUser => Self::not_found("user"),
            Refusal::UnknownVoiceState => Self::not_found("voice state"),
            Refusal::UnknownMessage => Self::not_found("message"),
            Refusal::UnknownBan => Self::not_found("ban"),
            Refusal::UnknownReference => Self::field("reply_to", "The channel has no such message."),
            Refusal::EmptyMessage => Self::field("content", "A message needs content, an embed, a file or a sticker."),
            Refusal::InvalidSticker => Self::field("sticker_ids", "The guild has no such sticker."),
            Refusal::Unavailable => Self::unavailable(),
            Refusal::DiskFull => Self::disk_full(),
            Refusal::DatabaseAway => Self::database_away(),
            Refusal::Internal => Self::internal(),
            Refusal::Changed => {
                Self::new(StatusCode::CONFLICT, "changed", "It was changed by others all the time: try again.")
            }
            Refusal::InvalidForm(field) => {
                let message = match field {
                    "parent_id" => "This is no category of the guild, or categories cannot be in one.",
                    "id" => "A thread of the guild has this id: choose another one.",
                    "owner_id" => "The owner has to be a member of the guild: put the member first.",
                    "system_channel_id" => "The guild has no text channel with this id: put the channel first.",
                    "afk_channel_id" => "The guild has no voice channel with this id: put the channel first.",
                    "roles" => "The guild has no such role: put the role first.",
                    "channel_id" => "This is no voice or stage channel of the guild.",
                    "type" => "A channel cannot become this, or cannot be made of this type.",
                    _ => "This field cannot have that value here.",
                };
                Self::field(field, message)
            }
            Refusal::InvalidRole => Self::conflict("@everyone cannot be deleted, nor be given or taken."),
            Refusal::TooManyChannels | Refusal::TooManyRoles | Refusal::TooManyOverwrites => {
                Self::conflict(refusal.to_string())
            }
            other => Self::conflict(other.to_string()),
        }
    }
}

impl From<BodyFault> for V1Error {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::Encoded => Self::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "encoded",
                "Compressed bodies are not taken: send it uncompressed, without Content-Encoding.",
            ),
            BodyFault::TooLarge(bytes_max) => Self::too_large(bytes_max),
            BodyFault::TooManyValues(values_max) => {
                Self::field("", format!("Must have at most {values_max} values: numbers, texts, lists and objects."))
            }
            BodyFault::TooSlow => Self::too_slow(),
            BodyFault::BrokeOff => Self::field("", "The body broke off."),
            BodyFault::Malformed => Self::field("", "This is not JSON."),
            BodyFault::OverQuota(over_quota) => Self::over_quota(over_quota),
        }
    }
}

impl From<StoreError> for V1Error {
    fn from(error: StoreError) -> Self {
        // The write gate has logged it, once.
        if error.is_full() {
            return Self::disk_full();
        }
        if error.is_unreachable() {
            return Self::database_away();
        }
        if matches!(error, StoreError::TooSlow) {
            return Self::search_too_slow();
        }
        if !matches!(error, StoreError::Contended { .. }) {
            tracing::error!(error = &error as &dyn std::error::Error, "the store failed a request of a backend");
        }
        Self::unavailable()
    }
}

impl IntoResponse for V1Error {
    fn into_response(self) -> Response {
        let (status, retry_after_ms) = (self.status, self.retry_after_ms);
        let mut response = (status, Json(self)).into_response();
        if let Some(ms) = retry_after_ms {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
