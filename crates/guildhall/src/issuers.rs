//! Issuers: the file with other issuers' public keys (`auth.jwks_file`), read at the start and whenever it changes.
//!
//! Invariants  I1 a file that is unreadable or invalid changes nothing: the current keys stay, and the log has the
//!             reason, once per change. A set without keys is valid: an operator removes stolen keys with it.
//! Limits      `Issuers::parse` bounds it, and `FILE_BYTES_MAX` before that.
//! Not here    requirements on tokens: `guildhall_node::Issuers`.

use crate::watch::Watch;
use guildhall_node::{Issuers, IssuersError, Node, SubjectKind, Terms};
use guildhall_settings::{AuthConfig, SubjectIs, Text};
use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

const FILE_BYTES_MAX: u64 = 1 << 20;
/// As `auth.jwt_audience`: the audience is not looked at.
const ANY_AUDIENCE: &str = "any";

/// Required claims of other issuers' tokens.
#[must_use]
pub fn terms(auth: &AuthConfig) -> Terms {
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.as_str().to_owned());
    Terms {
        issuer: text(&auth.jwt_issuer),
        audience: text(&auth.jwt_audience).filter(|audience| audience != ANY_AUDIENCE),
        subject_claim: text(&auth.jwt_subject_claim),
        subject_kind: match auth.jwt_subject_kind {
            SubjectIs::Id => SubjectKind::Id,
            SubjectIs::ExternalId => SubjectKind::ExternalId,
        },
        username_claim: text(&auth.jwt_username_claim),
        display_name_claim: text(&auth.jwt_display_name_claim),
    }
}

/// Why the keys are not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file does not exist, or the process may not read it.
    #[error("it cannot be read")]
    Unreadable(#[from] io::Error),
    /// The file is not a valid key set.
    #[error("it cannot be used")]
    Unusable(#[from] IssuersError),
}

fn read(path: &Path, auth: &AuthConfig) -> Result<Issuers, ReadError> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Issuers::parse(&text, terms(auth))?)
}

/// Checks that the file can be read and used.
///
/// # Errors
/// The file and its fault.
pub fn check(auth: &AuthConfig) -> Result<(), (PathBuf, ReadError)> {
    let Some(path) = &auth.jwks_file else { return Ok(()) };
    read(path, auth).map(drop).map_err(|error| (path.clone(), error))
}

/// Reads the keys, passes them to the node, and repeats that when the file changes. None if no file is named.
///
/// # Errors
/// The file and its fault.
pub fn start(auth: &AuthConfig, node: &Node) -> Result<Option<Watch>, (PathBuf, ReadError)> {
    let Some(path) = auth.jwks_file.clone() else { return Ok(None) };
    let (auth, node) = (auth.clone(), node.clone());
    let take = {
        let path = path.clone();
        move || -> Result<(), ReadError> {
            let issuers = read(&path, &auth)?;
            tracing::info!(path = %path.display(), keys = issuers.keys_count(), "keys of other issuers");
            if issuers.keys_count() == 0 {
                tracing::warn!(path = %path.display(), "the key set is empty: every token of the sign-on is refused");
            }
            node.set_issuers(Some(issuers));
            Ok(())
        }
    };
    let watch = Watch::start(vec![path.clone()], {
        let (path, take) = (path.clone(), take.clone());
        move || {
            if let Err(error) = take() {
                tracing::error!(
                    path = %path.display(),
                    error = &error as &dyn std::error::Error,
                    "the key set cannot be read: the previous keys stay in force"
                );
            }
        }
    });
    take().map_err(|error| (path, error))?;
    Ok(Some(watch))
}
