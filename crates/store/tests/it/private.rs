//! S14: other users of the machine can read nothing in a data directory.
#![cfg(unix)]

use crate::support::*;
use guildhall_store::{SqliteStore, Store as _, StoreError};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn s14_a_directory_that_was_there_before_becomes_private() {
    let dir = TempDir::new();
    set_mode(dir.path(), 0o755);
    fs::write(dir.path().join("handover.ndjson"), "{}").unwrap();
    set_mode(&dir.path().join("handover.ndjson"), 0o644);
    fs::create_dir(dir.path().join("files")).unwrap();
    set_mode(&dir.path().join("files"), 0o755);
    fs::write(dir.path().join("notes.txt"), "the operator's own").unwrap();
    set_mode(&dir.path().join("notes.txt"), 0o644);

    let store = open(dir.path()).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    assert_eq!(mode(dir.path()), 0o700);
    for name in ["guildhall.db", "guildhall.db-wal", "guildhall.db-shm", "guildhall.lock", "handover.ndjson"] {
        assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&dir.path().join("files")), 0o700);
    assert_eq!(mode(&dir.path().join("notes.txt")), 0o644, "not the node's");
    store.close().await;

    // As versions before this one left it.
    set_mode(dir.path(), 0o750);
    set_mode(&dir.path().join("guildhall.db"), 0o644);
    let store = open(dir.path()).await;
    assert_eq!((mode(dir.path()), mode(&dir.path().join("guildhall.db"))), (0o700, 0o600));
    store.close().await;
}

/// A link may lead anywhere, for example to where an attacker with write access to the directory wants `chmod` to go.
#[tokio::test]
async fn s14_a_link_to_a_readable_folder_is_refused_and_not_followed() {
    let (dir, elsewhere) = (TempDir::new(), TempDir::new());
    set_mode(elsewhere.path(), 0o755);
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("files")).unwrap();
    let error = SqliteStore::open(dir.path(), quick()).await.err().expect("opening should fail");
    assert!(matches!(&error, StoreError::Readable { mode: 0o755, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("other users can read") && text.contains("chmod go="), "{text}");
    assert_eq!(mode(elsewhere.path()), 0o755);
    set_mode(elsewhere.path(), 0o700);
    open(dir.path()).await.close().await;
}
