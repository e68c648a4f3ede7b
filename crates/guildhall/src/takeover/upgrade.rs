//! Upgrade: has the process that runs start this program, which takes over.

use super::{Answer, Hello, MESSAGE_MAX, Outcome, PASSING_MAX, READY_MAX, SERVING_MAX, Served, TakeoverError, VERSION};
use super::{channel::Channel, program, socket_path};
use std::{
    io::ErrorKind,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

/// Result of `guildhall upgrade`.
pub struct Upgraded {
    /// Process that was started.
    pub pid: u32,
    /// The takeover, or why it failed.
    pub result: Result<Served, String>,
}

/// Has the node on `dir` start `program`, and waits for the result. Blocks.
///
/// # Errors
/// See [`TakeoverError`].
pub fn upgrade(dir: &Path, executable: PathBuf) -> Result<Upgraded, TakeoverError> {
    let path = socket_path(dir);
    let stream = UnixStream::connect(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => TakeoverError::NoNode(dir.to_owned()),
        _ => TakeoverError::Socket { path, source },
    })?;
    let mut channel = Channel::new(stream).map_err(TakeoverError::Broken)?;
    let hello =
        Hello { guildhall_takeover: VERSION, program: program(), pid: std::process::id(), start: Some(executable) };
    channel.send(&hello, &[]).map_err(TakeoverError::Broken)?;
    let pid = match channel.receive(MESSAGE_MAX).map_err(TakeoverError::Broken)?.0 {
        Answer::Started { pid } => pid,
        Answer::Refused { reason } => return Err(TakeoverError::Refused(reason)),
        Answer::Welcome(_) => return Err(TakeoverError::Broken(ErrorKind::InvalidData.into())),
    };
    let patience = READY_MAX + PASSING_MAX + SERVING_MAX;
    let result = match channel.receive(patience).map_err(TakeoverError::Broken)?.0 {
        Outcome::Done(served) => Ok(served),
        Outcome::Failed { reason } => Err(reason),
    };
    Ok(Upgraded { pid, result })
}
