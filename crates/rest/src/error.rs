//! Errors: the responses of failed requests.
//!
//! Owns        `ApiError`, and its status, code and message.
//! Not here    the form of the answer: `guildhall_http_kit::ErrorAnswer`.
//!             Spec  docs/protocol/reference.md §10.1.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{DATABASE_AWAY, DISK_FULL, Refusal};
use guildhall_http_kit::{BodyFault, ErrorAnswer, FieldError, FieldErrors, NOT_FOUND, OverQuota, Retry, over_quota};
use guildhall_media::{CommandError, MediaError};
use guildhall_store::StoreError;

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// No token, or not a valid one.
    #[error("401: Unauthorized")]
    Unauthorized,
    /// No such route.
    #[error("{NOT_FOUND}")]
    NotFound,
    /// A path outside `/api`.
    #[error(
        "404: Nothing is served at this path. REST is below /api/v10, the backend API below /v1 (GET /v1/openapi.json \
         lists its routes), and the gateway takes WebSocket upgrades at /"
    )]
    NotApi,
    /// A route of upstream that this server does not have.
    #[error("404: This server does not serve {0}: see docs/protocol/choices.md, \"What is served\"")]
    Unserved(&'static str),
    /// There is such a route, but not for this method.
    #[error("405: Method Not Allowed")]
    MethodNotAllowed,
    /// `/api/v<n>` with an `n` that is not spoken.
    #[error("Invalid API version")]
    InvalidVersion,
    /// The body is not JSON, or not the form data of its `Content-Type`.
    #[error("The request body contains invalid JSON.")]
    MalformedBody,
    /// The body is longer than the limit of this route, in bytes.
    #[error("Request entity too large: this route accepts at most {0} bytes")]
    BodyTooLarge(usize),
    /// The body has more JSON values than the limit of this route.
    #[error("The request body has too many values: this route accepts at most {0} numbers, texts, lists and objects")]
    BodyTooManyValues(usize),
    /// The body is compressed.
    #[error("415: Unsupported Media Type. Send the body uncompressed, without Content-Encoding")]
    BodyEncoded,
    /// A quota is exhausted.
    #[error("503: Service Unavailable. {}", over_quota(*.0))]
    OverQuota(OverQuota),
    /// The body did not arrive in time.
    #[error("408: Request Timeout")]
    BodyTooSlow,
    /// Fields are wrong.
    #[error("Invalid Form Body")]
    Form(FieldErrors),
    /// Too many requests.
    #[error("You are being rate limited.")]
    RateLimited {
        /// When to retry.
        retry_after_ms: u64,
        /// All requests of the account, not only this kind.
        is_global: bool,
    },
    /// The guild refused the command.
    #[error("{0}")]
    Refused(Refusal),
    /// One of the other codes of the protocol.
    #[error("{message}")]
    Coded {
        status: StatusCode,
        /// JSON error code.
        code: u32,
        /// Text of the response.
        message: &'static str,
    },
    /// Too much work at the moment: try again.
    #[error("503: Service Unavailable")]
    Overloaded,
    /// This node of a cluster has no lease, so it checks no tokens.
    #[error("503: Service Unavailable. This node is cut off from its cluster: use another one, or wait")]
    NoLease,
    /// The disk is full.
    #[error("503: Service Unavailable: {DISK_FULL}")]
    DiskFull,
    /// The node does not reach its database.
    #[error("503: Service Unavailable: {DATABASE_AWAY}")]
    DatabaseAway,
    /// The store failed. Logged where it is turned into a response, which does not contain it.
    #[error("500: Internal Server Error")]
    Store(StoreError),
    /// A file or picture is refused.
    #[error(transparent)]
    Media(Box<MediaError>),
    /// A bug of this server: the guild's reply has another type than the command needs.
    #[error("500: Internal Server Error")]
    Bug(&'static str),
}

impl ApiError {
    pub const UNKNOWN_CHANNEL: Self = Self::Refused(Refusal::UnknownChannel);
    pub const UNKNOWN_EMOJI: Self = Self::Refused(Refusal::UnknownEmoji);
    pub const UNKNOWN_MESSAGE: Self = Self::Refused(Refusal::UnknownMessage);
    pub const MISSING_ACCESS: Self = Self::Refused(Refusal::MissingAccess);
    pub const MISSING_PERMISSIONS: Self = Self::Refused(Refusal::MissingPermissions);

    /// A status and code of the protocol that has no name here.
    pub const fn coded(status: StatusCode, code: u32, message: &'static str) -> Self {
        Self::Coded { status, code, message }
    }

    fn status_and_code(&self) -> (StatusCode, u32) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, 0),
            Self::NotFound | Self::NotApi | Self::Unserved(_) => (StatusCode::NOT_FOUND, 0),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, 0),
            Self::InvalidVersion => (StatusCode::BAD_REQUEST, 50041),
            Self::MalformedBody => (StatusCode::BAD_REQUEST, 50109),
            Self::BodyTooManyValues(_) => (StatusCode::BAD_REQUEST, 50109),
            Self::BodyEncoded => (StatusCode::UNSUPPORTED_MEDIA_TYPE, 0),
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, 40005),
            Self::BodyTooSlow => (StatusCode::REQUEST_TIMEOUT, 0),
            Self::Form(_) => (StatusCode::BAD_REQUEST, 50035),
            Self::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, 0),
            Self::Refused(refusal) => {
                let (status, code) = refusal.status_and_code();
                (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), code)
            }
            Self::Coded { status, code, .. } => (*status, *code),
            Self::Overloaded | Self::DiskFull | Self::DatabaseAway | Self::NoLease | Self::OverQuota(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, 0)
            }
            Self::Store(error) if error.is_passing() => (StatusCode::SERVICE_UNAVAILABLE, 0),
            Self::Media(error) => error.status_and_code(),
            Self::Store(_) | Self::Bug(_) => (StatusCode::INTERNAL_SERVER_ERROR, 0),
        }
    }

    /// When to retry, and whether that holds for all requests of the account.
    fn retry(&self) -> Option<Retry> {
        match *self {
            Self::RateLimited { retry_after_ms, is_global } => Some(Retry { after_ms: retry_after_ms, is_global }),
            Self::Refused(Refusal::SlowMode { retry_after_ms }) => {
                Some(Retry { after_ms: retry_after_ms, is_global: false })
            }
            _ => None,
        }
    }
}

impl CommandError for ApiError {
    fn is_unsettled(&self) -> bool {
        match self {
            Self::Refused(Refusal::Unavailable | Refusal::Internal) => true,
            Self::Overloaded | Self::DiskFull | Self::DatabaseAway | Self::Store(_) | Self::Bug(_) => true,
            Self::Media(error) => error.is_unsettled(),
            _ => false,
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::UnknownReference => Self::Form(FieldErrors::at(
                "message_reference",
                FieldError::new("REPLIES_UNKNOWN_MESSAGE", "Unknown message"),
            )),
            Refusal::InvalidForm(field) => {
                let fault = match field {
                    "parent_id" => FieldError::new("CHANNEL_PARENT_INVALID_TYPE", "Not a category"),
                    _ => FieldError::new("INVALID_VALUE", "This field cannot have that value here."),
                };
                Self::Form(FieldErrors::at(field, fault))
            }
            Refusal::Unavailable => Self::Overloaded,
            Refusal::DiskFull => Self::DiskFull,
            Refusal::DatabaseAway => Self::DatabaseAway,
            other => Self::Refused(other),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        // The node logs a full disk, and the store the outage of its server, once.
        if error.is_full() {
            Self::DiskFull
        } else if error.is_unreachable() {
            Self::DatabaseAway
        } else {
            Self::Store(error)
        }
    }
}

impl From<MediaError> for ApiError {
    fn from(error: MediaError) -> Self {
        Self::Media(error.into())
    }
}

impl From<OverQuota> for ApiError {
    fn from(over_quota: OverQuota) -> Self {
        Self::OverQuota(over_quota)
    }
}

impl From<BodyFault> for ApiError {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::Encoded => Self::BodyEncoded,
            BodyFault::TooLarge(bytes_max) => Self::BodyTooLarge(bytes_max),
            BodyFault::TooManyValues(values_max) => Self::BodyTooManyValues(values_max),
            BodyFault::TooSlow => Self::BodyTooSlow,
            BodyFault::BrokeOff | BodyFault::Malformed => Self::MalformedBody,
            BodyFault::OverQuota(over_quota) => Self::OverQuota(over_quota),
        }
    }
}

impl From<FieldErrors> for ApiError {
    fn from(faults: FieldErrors) -> Self {
        Self::Form(faults)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Self::Media(error) = self {
            return (*error).into_response();
        }
        match &self {
            Self::Store(error) => {
                tracing::error!(error = error as &dyn std::error::Error, "the store failed a request");
            }
            Self::Bug(what) => tracing::error!(what, "a guild's reply had the wrong type"),
            _ => {}
        }
        let (status, code) = self.status_and_code();
        let errors = if let Self::Form(faults) = &self { Some(faults) } else { None };
        ErrorAnswer { status, code, message: self.to_string(), errors, retry: self.retry() }.into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    async fn check(error: impl Into<ApiError>, status: u16, body: Value) -> Response {
        let mut response = error.into().into_response();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-type"], "application/json");
        let taken = std::mem::take(response.body_mut());
        let bytes = axum::body::to_bytes(taken, 1 << 20).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), body);
        response
    }

    #[tokio::test]
    async fn bodies() {
        check(ApiError::Unauthorized, 401, json!({"message": "401: Unauthorized", "code": 0})).await;
        check(ApiError::NotFound, 404, json!({"message": "404: Not Found", "code": 0})).await;
        let unserved = json!({"message": "404: This server does not serve /a: see docs/protocol/choices.md, \"What is served\"", "code": 0});
        check(ApiError::Unserved("/a"), 404, unserved).await;
        check(ApiError::InvalidVersion, 400, json!({"message": "Invalid API version", "code": 50041})).await;
        let malformed = json!({"message": "The request body contains invalid JSON.", "code": 50109});
        check(ApiError::MalformedBody, 400, malformed).await;
        check(Refusal::UnknownChannel, 404, json!({"message": "Unknown Channel", "code": 10003})).await;
        check(Refusal::EmptyMessage, 400, json!({"message": "Cannot send an empty message", "code": 50006})).await;
        check(Refusal::Unavailable, 503, json!({"message": "503: Service Unavailable", "code": 0})).await;
        let full = json!({"message": "503: Service Unavailable: the disk is full: writes are refused, reads and deletions continue",
                          "code": 0});
        check(Refusal::DiskFull, 503, full.clone()).await;
        check(StoreError::Full(None), 503, full).await;
        let away = json!({"message": "503: Service Unavailable: the database cannot be reached: writes are refused, and \
                          what is not in memory cannot be read", "code": 0});
        check(Refusal::DatabaseAway, 503, away).await;
        let reply = json!({"message": "Invalid Form Body", "code": 50035, "errors":
            {"message_reference": {"_errors": [{"code": "REPLIES_UNKNOWN_MESSAGE", "message": "Unknown message"}]}}});
        check(Refusal::UnknownReference, 400, reply).await;
        let parent = json!({"message": "Invalid Form Body", "code": 50035, "errors":
            {"parent_id": {"_errors": [{"code": "CHANNEL_PARENT_INVALID_TYPE", "message": "Not a category"}]}}});
        check(Refusal::InvalidForm("parent_id"), 400, parent).await;
        let unavailable = ApiError::OverQuota(OverQuota::Total).into_response();
        assert_eq!(
            (unavailable.status().as_u16(), &unavailable.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
        let closed = json!({"message": "500: Internal Server Error", "code": 0});
        check(StoreError::Closed, 500, closed).await;
    }

    #[tokio::test]
    async fn refusals_to_wait_are_complete() {
        let limited = ApiError::RateLimited { retry_after_ms: 640, is_global: false };
        let body = json!({"message": "You are being rate limited.", "code": 0, "retry_after": 0.64, "global": false});
        let response = check(limited, 429, body).await;
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["x-ratelimit-scope"], "user");
        assert!(!response.headers().contains_key("x-ratelimit-global"));
        assert!(response.headers().contains_key("via"));

        let limited = ApiError::RateLimited { retry_after_ms: 1001, is_global: true };
        let body = json!({"message": "You are being rate limited.", "code": 0, "retry_after": 1.001, "global": true});
        let response = check(limited, 429, body).await;
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(response.headers()["x-ratelimit-scope"], "global");
        assert_eq!(response.headers()["x-ratelimit-global"], "true");

        let body = json!({"message": "This action cannot be performed due to slowmode rate limit.", "code": 20016,
                          "retry_after": 5.0, "global": false});
        let response = check(Refusal::SlowMode { retry_after_ms: 5000 }, 429, body).await;
        assert_eq!(response.headers()["retry-after"], "5");
        assert_eq!(response.headers()["x-ratelimit-scope"], "user");
    }
}
