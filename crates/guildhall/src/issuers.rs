//! Issuers: the file with other issuers' public keys (`auth.jwks_file`), read at the start and whenever it changes.
//!
//! Invariants  I1 a file that cannot be read or used changes nothing: the keys in force stay, and the log says why,
//!             once per change. A set without any key is obeyed: it is how an operator takes stolen keys away.
//! Limits      `Issuers::parse` bounds it, and `FILE_BYTES_MAX` before that.
//! Not here    what a token must be: `guildhall_node::Issuers`.

use crate::{config::AuthConfig, watch::Watch};
use guildhall_node::{Issuers, IssuersError, Node};
use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why the keys are not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file, or it is not ours to read.
    #[error("it cannot be read")]
    Unreadable(#[from] io::Error),
    /// Its content is no valid key set.
    #[error("it cannot be used")]
    Unusable(#[from] IssuersError),
}

fn read(path: &Path, auth: &AuthConfig) -> Result<Issuers, ReadError> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Issuers::parse(&text, auth.terms())?)
}

/// Whether the file can be read and used.
///
/// # Errors
/// The file, and what is wrong with it.
pub fn check(auth: &AuthConfig) -> Result<(), (PathBuf, ReadError)> {
    let Some(path) = &auth.jwks_file else { return Ok(()) };
    read(path, auth).map(drop).map_err(|error| (path.clone(), error))
}

/// Reads the keys, gives them to the node, and goes on doing so. None when no file is named.
///
/// # Errors
/// The file, and what is wrong with it.
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
