//! Errors: why a file or picture is refused, or not served.
//!
//! Invariants  the same fault has the same status, code and message in REST and behind a link.
//!             Spec  docs/protocol/reference.md §10.1.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use guildhall_guild::{DATABASE_AWAY, DISK_FULL};
use guildhall_http_kit::{ErrorAnswer, FieldErrors, NOT_FOUND, OverQuota, over_quota};
use guildhall_store::StoreError;

/// Why a file or picture is refused, or not served.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// No such file, or no valid link to it.
    #[error("{NOT_FOUND}")]
    NotFound,
    /// A status with a message of its own. It has no error code.
    #[error("{message}")]
    Coded { status: StatusCode, message: &'static str },
    /// Longer than this, in bytes.
    #[error("Request entity too large: this route accepts at most {0} bytes")]
    TooLarge(usize),
    /// Fields are wrong.
    #[error("Invalid Form Body")]
    Form(FieldErrors),
    /// A quota is exhausted.
    #[error("503: Service Unavailable. {}", over_quota(*.0))]
    OverQuota(OverQuota),
    /// Too much work at the moment: try again.
    #[error("503: Service Unavailable")]
    Overloaded,
    /// The disk is full.
    #[error("503: Service Unavailable: {DISK_FULL}")]
    DiskFull,
    /// The node does not reach its database.
    #[error("503: Service Unavailable: {DATABASE_AWAY}")]
    DatabaseAway,
    /// The store failed. Logged where it is turned into a response, which does not contain it.
    #[error("500: Internal Server Error")]
    Store(StoreError),
    /// A bug of this server.
    #[error("500: Internal Server Error")]
    Bug(&'static str),
}

impl MediaError {
    pub(crate) const fn coded(status: StatusCode, message: &'static str) -> Self {
        Self::Coded { status, message }
    }

    /// Status and JSON error code of the answer.
    #[must_use]
    pub fn status_and_code(&self) -> (StatusCode, u32) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, 0),
            Self::Coded { status, .. } => (*status, 0),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, 40005),
            Self::Form(_) => (StatusCode::BAD_REQUEST, 50035),
            Self::OverQuota(_) | Self::Overloaded | Self::DiskFull | Self::DatabaseAway => {
                (StatusCode::SERVICE_UNAVAILABLE, 0)
            }
            Self::Store(error) if error.is_passing() => (StatusCode::SERVICE_UNAVAILABLE, 0),
            Self::Store(_) | Self::Bug(_) => (StatusCode::INTERNAL_SERVER_ERROR, 0),
        }
    }
}

impl From<OverQuota> for MediaError {
    fn from(over_quota: OverQuota) -> Self {
        Self::OverQuota(over_quota)
    }
}

impl From<StoreError> for MediaError {
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

impl From<FieldErrors> for MediaError {
    fn from(faults: FieldErrors) -> Self {
        Self::Form(faults)
    }
}

impl IntoResponse for MediaError {
    fn into_response(self) -> Response {
        match &self {
            Self::Store(error) => {
                tracing::error!(error = error as &dyn std::error::Error, "the store failed a request");
            }
            Self::Bug(what) => tracing::error!(what, "a guild's reply had the wrong type"),
            _ => {}
        }
        let (status, code) = self.status_and_code();
        let errors = if let Self::Form(faults) = &self { Some(faults) } else { None };
        ErrorAnswer { status, code, message: self.to_string(), errors, retry: None }.into_response()
    }
}

/// The error of a command that refers to files or pictures.
pub trait CommandError {
    /// Whether the command may still be executed after this error.
    fn is_unsettled(&self) -> bool;
}

impl CommandError for MediaError {
    fn is_unsettled(&self) -> bool {
        matches!(self, Self::Overloaded | Self::DiskFull | Self::DatabaseAway | Self::Store(_) | Self::Bug(_))
    }
}
