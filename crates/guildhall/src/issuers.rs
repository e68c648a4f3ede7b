//! Issuers: the file with other issuers' public keys (`auth.jwks_file`), read at the start and whenever it changes.
//!
//! Invariants  I1 a file that cannot be read or used changes nothing: the keys in force stay, and the log says why, once per change.
//! Limits      looked at every `LOOK_EVERY`; its size is bounded by `Issuers::parse`, and by `FILE_BYTES_MAX` before that.
//! Not here    what a token must be: `guildhall_node::Issuers`.

use crate::config::AuthConfig;
use guildhall_node::{Issuers, IssuersError, Node};
use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::task::JoinHandle;

const LOOK_EVERY: Duration = Duration::from_secs(2);
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why the keys are not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file, or it is not ours to read.
    #[error("it cannot be read")]
    Unreadable(#[from] io::Error),
    /// What is in it.
    #[error("it cannot be used")]
    Unusable(#[from] IssuersError),
}

/// Reads the file again when it changes, until it is dropped.
#[derive(Debug)]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// When a file was changed, and its length: what is replaced or written anew differs in one.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(path: &Path, auth: &AuthConfig) -> Result<Issuers, ReadError> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let said = |text: &Option<crate::config::Text>| text.as_ref().map(|text| text.as_str().to_owned());
    Ok(Issuers::parse(&text, said(&auth.jwt_issuer), said(&auth.jwt_audience))?)
}

/// Reads the keys, gives them to the node, and goes on doing so. None when no file is named.
///
/// # Errors
/// The file, and what is wrong with it.
pub fn start(auth: &AuthConfig, node: &Node) -> Result<Option<Watch>, (PathBuf, ReadError)> {
    let Some(path) = auth.jwks_file.clone() else { return Ok(None) };
    let mut seen = stamp(&path);
    let issuers = read(&path, auth).map_err(|error| (path.clone(), error))?;
    tracing::info!(path = %path.display(), keys = issuers.keys_count(), "keys of other issuers");
    node.set_issuers(Some(issuers));
    let (auth, node) = (auth.clone(), node.clone());
    let task = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            // Small, local, and rare: not worth a thread.
            let now = stamp(&path);
            if now == seen {
                continue;
            }
            seen = now;
            match read(&path, &auth) {
                Ok(issuers) => {
                    tracing::info!(path = %path.display(), keys = issuers.keys_count(), "keys of other issuers changed");
                    node.set_issuers(Some(issuers));
                }
                Err(error) => tracing::error!(
                    path = %path.display(),
                    error = &error as &dyn std::error::Error,
                    "keys of other issuers cannot be read: those before stay in force"
                ),
            }
        }
    });
    Ok(Some(Watch(task)))
}
