//! Folder of the dictionaries that a node serves.
//!
//! Owns        the folder's form: a file `ID.json.zdict` or `ID.etf.zdict` per dictionary.
//! Invariants  F1 a file's name is the hash of its bytes: a changed or renamed file is refused (docs/adr/0018). F2 a
//!             file appears as a whole.
//! Limits      `DICTIONARIES_MAX` files.
//! Not here    training: the crate `lab`.

use anyhow::{Context, Result};
use guildhall_codec::{
    CodecError, DICTIONARIES_MAX, DICTIONARY_BYTES_MAX, Dictionaries, Dictionary, DictionaryId, Encoding,
    KnownDictionary,
};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

const SUFFIX: &str = ".zdict";

/// A folder that cannot be served from.
#[derive(Debug, thiserror::Error)]
pub enum DictionaryError {
    /// The folder or a file in it cannot be read.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file ends in `.zdict` and is not named as one.
    #[error(
        "{} is not named ID.json.zdict or ID.etf.zdict: make dictionaries with `guildhall lab train`",
        .path.display()
    )]
    Name { path: PathBuf },
    /// The bytes are not those that the file was named by.
    #[error(
        "{} was changed: its bytes make {made}. Clients that kept the old bytes would read nonsense; \
         bring the old file back, or take this one away and train again",
        .path.display()
    )]
    Changed {
        path: PathBuf,
        /// The id of the bytes.
        made: DictionaryId,
    },
    /// The bytes are no dictionary.
    #[error("{} is no dictionary", .path.display())]
    Broken {
        path: PathBuf,
        #[source]
        source: CodecError,
    },
    /// More than a node serves.
    #[error("{} has more than {DICTIONARIES_MAX} dictionaries: remove those that no client requests", .dir.display())]
    TooMany { dir: PathBuf },
}

/// All dictionaries of a folder, by name. Files that do not end in `.zdict` are passed over.
///
/// # Errors
/// [`DictionaryError`]: with fewer dictionaries than configured a node would refuse clients.
pub fn load(dir: &Path) -> Result<Dictionaries, DictionaryError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        |source| DictionaryError::Unreadable { path, source }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable(dir))? {
        let path = entry.map_err(unreadable(dir))?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    if paths.len() > DICTIONARIES_MAX {
        return Err(DictionaryError::TooMany { dir: dir.to_owned() });
    }
    let mut known = Vec::new();
    for path in paths {
        let (id, encoding) = named(&path).ok_or_else(|| DictionaryError::Name { path: path.clone() })?;
        let size = fs::metadata(&path).map_err(unreadable(&path))?.len();
        if size > DICTIONARY_BYTES_MAX as u64 {
            let source = CodecError::Dictionary { reason: "it is larger than 1 MiB" };
            return Err(DictionaryError::Broken { path, source });
        }
        let bytes = fs::read(&path).map_err(unreadable(&path))?;
        let made = DictionaryId::of(&bytes);
        if made != id {
            return Err(DictionaryError::Changed { path, made });
        }
        let dictionary = Dictionary::new(bytes).map_err(|source| DictionaryError::Broken { path, source })?;
        known.push(KnownDictionary::new(encoding, Arc::new(dictionary)));
    }
    Dictionaries::new(known).ok_or_else(|| DictionaryError::TooMany { dir: dir.to_owned() })
}

/// The id and encoding in a file's name.
fn named(path: &Path) -> Option<(DictionaryId, Encoding)> {
    let (id, encoding) = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.split_once('.')?;
    let encoding = [Encoding::Json, Encoding::Etf].into_iter().find(|of| of.name() == encoding)?;
    Some((id.parse().ok()?, encoding))
}

/// Writes a dictionary into a folder. Returns its file.
///
/// # Errors
/// When it cannot be written; then there is no file of that name.
pub fn store(dir: &Path, encoding: Encoding, dictionary: &Dictionary) -> Result<PathBuf> {
    let path = dir.join(format!("{}.{}{SUFFIX}", dictionary.id(), encoding.name()));
    // The node may run as another user.
    let permissions = fs::Permissions::from_mode(0o644);
    let file = tempfile::Builder::new().permissions(permissions).tempfile_in(dir);
    let mut file = file.with_context(|| format!("writing to {}", dir.display()))?;
    io::Write::write_all(&mut file, dictionary.bytes()).with_context(|| format!("writing {}", path.display()))?;
    file.as_file().sync_all().with_context(|| format!("writing {}", path.display()))?;
    file.persist(&path).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_lab::train_dictionary;
    use guildhall_traffic::{Chat, Kind};

    fn trained(seed: u64) -> Dictionary {
        train_dictionary(Kind::Channel, seed, &Chat::built_in(), Encoding::Json, 4096).unwrap()
    }

    #[test]
    fn f1_trap_8_a_changed_file_keeps_the_node_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (trained(1), trained(2));
        assert_ne!(first.id(), second.id());
        let path = store(dir.path(), Encoding::Json, &first).unwrap();
        store(dir.path(), Encoding::Etf, &second).unwrap();
        fs::write(dir.path().join("README"), "passed over").unwrap();
        let known = load(dir.path()).unwrap();
        assert_eq!(known.iter().count(), 2);
        let found = known.find(second.id()).unwrap();
        assert_eq!((found.encoding, found.dictionary.bytes()), (Encoding::Etf, second.bytes()));

        // Another dictionary under the id of the first.
        fs::write(&path, second.bytes()).unwrap();
        let error = load(dir.path()).unwrap_err();
        assert!(matches!(error, DictionaryError::Changed { .. }));
        assert!(error.to_string().contains("was changed"), "{error}");

        fs::rename(&path, dir.path().join("latest.json.zdict")).unwrap();
        assert!(matches!(load(dir.path()), Err(DictionaryError::Name { .. })));
        fs::write(dir.path().join("latest.json.zdict"), []).unwrap();
        fs::rename(dir.path().join("latest.json.zdict"), dir.path().join("x.txt")).unwrap();
        let no_dictionary = b"no dictionary";
        let name = format!("{}.json.zdict", DictionaryId::of(no_dictionary));
        fs::write(dir.path().join(name), no_dictionary).unwrap();
        assert!(matches!(load(dir.path()), Err(DictionaryError::Broken { .. })));
        assert!(matches!(load(&dir.path().join("none")), Err(DictionaryError::Unreadable { .. })));
    }

    #[test]
    fn so_many_are_served_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..=DICTIONARIES_MAX {
            fs::write(dir.path().join(format!("{n:032x}.json.zdict")), "x").unwrap();
        }
        assert!(matches!(load(dir.path()), Err(DictionaryError::TooMany { .. })));
    }
}
