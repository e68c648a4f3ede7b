//! Hand-over: the file with which a node that restarts passes its sessions to the next process on the same folder.
//!
//! Owns        `handover.ndjson` in the store's folder: a head, a line per partition, and the hash of all of it.
//! Doors       `write` at the end of a drain; `take` at the start, before the node accepts connections.
//! Invariants  F1 a file is used once: the node deletes it before it parses it. F2 a file that is truncated, changed,
//!             of another version, too old or too large is not used, and the log has the reason; clients of its
//!             sessions identify again (op 9). F3 only the node's user can read it, since it contains messages. (tests)
//! Limits      `server.handover_bytes_max` of bodies; maximum age: `limits.session_resume_ms`.
//! Spec        docs/adr/0026.

use guildhall_net::HandOver;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const NAME: &str = "handover.ndjson";
/// Increases when the format or meaning of a stored session changes.
const VERSION: u32 = 2;
/// Allowed size in addition to bodies: sessions, visibility rules, JSON escapes.
const OVERHEAD: u64 = 3;
const OVERHEAD_BYTES: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Head {
    guildhall_handover: u32,
    written_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Foot {
    pub(crate) sha256: String,
}

/// Why a file was not used.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// It could not be read or deleted.
    #[error("it cannot be read and deleted")]
    Io(#[from] io::Error),
    /// The file is truncated or changed.
    #[error("it is torn or was changed")]
    Torn,
    #[error("it is of another version")]
    Version,
    /// The resume window of its sessions has passed.
    #[error("it is {age_ms} ms old, and sessions can be resumed for {age_ms_max}")]
    Old { age_ms: u64, age_ms_max: u64 },
    /// The file is larger than a hand-over can be.
    #[error("it has {bytes} bytes, more than server.handover_bytes_max leads to")]
    Large { bytes: u64 },
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writer that hashes the bytes that pass through it.
pub(crate) struct Hashed<W> {
    pub(crate) to: W,
    pub(crate) hash: Sha256,
}

impl<W> Hashed<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, hash: Sha256::new() }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes the sessions to `dir`, durably.
///
/// # Errors
/// If the file cannot be written; then no file is left, as it would contain messages.
pub fn write(dir: &Path, partitions: &[HandOver]) -> io::Result<()> {
    let unfinished = dir.join(format!("{NAME}.part"));
    let _ = fs::remove_file(&unfinished);
    let written = write_to(&unfinished, partitions).and_then(|()| fs::rename(&unfinished, path(dir)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written?;
    File::open(dir)?.sync_all()
}

fn write_to(path: &Path, partitions: &[HandOver]) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = Hashed::new(BufWriter::new(file));
    line(&mut out, &Head { guildhall_handover: VERSION, written_ms: unix_ms() })?;
    for of_partition in partitions {
        line(&mut out, of_partition)?;
    }
    let Hashed { mut to, hash } = out;
    line(&mut to, &Foot { sha256: hex(&hash.finalize()) })?;
    to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

pub(crate) fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Takes the hand-over of the previous process from `dir`, if there is one, and deletes it.
///
/// # Errors
/// See [`TakeError`]. The file is deleted in that case too, if possible.
pub fn take(dir: &Path, age_ms_max: u64, bytes_max: u64) -> Result<Option<Vec<HandOver>>, TakeError> {
    let path = path(dir);
    let _ = fs::remove_file(dir.join(format!("{NAME}.part")));
    let bytes = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_large = bytes > bytes_max.saturating_mul(OVERHEAD).saturating_add(OVERHEAD_BYTES);
    let text = if is_large { Vec::new() } else { fs::read(&path)? };
    // F1. Durably: a crash after this must not bring it back.
    fs::remove_file(&path)?;
    File::open(dir)?.sync_all()?;
    if is_large {
        return Err(TakeError::Large { bytes });
    }
    read(&text, unix_ms(), age_ms_max).map(Some)
}

fn read(text: &[u8], now_ms: u64, age_ms_max: u64) -> Result<Vec<HandOver>, TakeError> {
    let lines = text.strip_suffix(b"\n").ok_or(TakeError::Torn)?;
    let foot_at = lines.iter().rposition(|byte| *byte == b'\n').ok_or(TakeError::Torn)? + 1;
    let Foot { sha256 } = serde_json::from_slice(&lines[foot_at..]).map_err(|_| TakeError::Torn)?;
    if hex(&Sha256::digest(&text[..foot_at])) != sha256 {
        return Err(TakeError::Torn);
    }
    let mut lines = text[..foot_at].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let head = lines.next().ok_or(TakeError::Torn)?;
    let head: Head = serde_json::from_slice(head).map_err(|_| TakeError::Version)?;
    if head.guildhall_handover != VERSION {
        return Err(TakeError::Version);
    }
    // A clock that was set back makes the age unknown.
    let age_ms = now_ms.saturating_sub(head.written_ms);
    if age_ms > age_ms_max {
        return Err(TakeError::Old { age_ms, age_ms_max });
    }
    lines.map(|line| serde_json::from_slice(line).map_err(|_| TakeError::Version)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const LONG: u64 = 180_000;

    fn some() -> Vec<HandOver> {
        vec![HandOver { left_out_count: 3, ..HandOver::default() }, HandOver::default()]
    }

    #[test]
    fn f1_f3_once_and_by_us_only() {
        let dir = tempfile::tempdir().unwrap();
        assert!(take(dir.path(), LONG, 1 << 20).unwrap().is_none());
        write(dir.path(), &some()).unwrap();
        let mode = fs::metadata(path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(take(dir.path(), LONG, 1 << 20).unwrap(), Some(some()));
        assert!(take(dir.path(), LONG, 1 << 20).unwrap().is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn f3_a_write_that_fails_leaves_no_messages() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(path(dir.path())).unwrap();
        write(dir.path(), &some()).unwrap_err();
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [NAME]);
    }

    #[test]
    fn f2_a_changed_file_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &some()).unwrap();
        let text = fs::read(path(dir.path())).unwrap();
        assert!(read(&text, unix_ms(), LONG).is_ok());
        for cut in 0..text.len() {
            assert!(matches!(read(&text[..cut], unix_ms(), LONG), Err(TakeError::Torn)), "{cut}");
        }
        for at in (0..text.len()).filter(|at| text[*at] != b'\n') {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(read(&changed, unix_ms(), LONG).is_err(), "{at}");
        }
        assert!(matches!(read(&text, unix_ms() + LONG + 1_000, LONG), Err(TakeError::Old { .. })));
    }

    #[test]
    fn f2_it_is_gone_also_when_it_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(path(dir.path()), b"nonsense\n").unwrap();
        assert!(matches!(take(dir.path(), LONG, 1 << 20), Err(TakeError::Torn)));
        let file = File::create(path(dir.path())).unwrap();
        file.set_len(OVERHEAD_BYTES + 4).unwrap();
        assert!(matches!(take(dir.path(), LONG, 1), Err(TakeError::Large { .. })));
        assert!(take(dir.path(), LONG, 1 << 20).unwrap().is_none());
    }
}
