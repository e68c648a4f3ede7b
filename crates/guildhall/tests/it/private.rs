//! S14: whatever the umask is, other users of the machine can read nothing that a node writes.

use crate::support::{Demo, Process, guildhall, run_to_end, stderr, wait_for};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The binary under the umask that most systems have.
fn lax(args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 022; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_guildhall")]).args(args);
    command.stdin(Stdio::null());
    command
}

/// Everything in `dir` that its group or others may do something with.
fn readable(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            found.push((path, mode));
        }
    }
    found
}

#[test]
fn s14_nothing_in_a_data_directory_is_for_others() {
    let dir = tempfile::tempdir().unwrap();
    // As a container's volume or an administrator's `mkdir` makes it.
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    let data = data.to_str().unwrap();

    let token = run_to_end(&mut lax(&["token", "bot", "--new", "helper", "--data", data]));
    assert!(token.status.success(), "{}", stderr(&token));
    assert_eq!(readable(Path::new(data)), []);
    let key = run_to_end(&mut lax(&["key", "create", "--name", "k", "--scopes", "all", "--data", data]));
    assert!(key.status.success(), "{}", stderr(&key));
    assert_eq!(readable(Path::new(data)), []);

    let mut command = lax(&["demo", "--listen", "127.0.0.1:0", "--members", "3", "--rate", "0", "--data", data]);
    let process = Process::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let manifest = Path::new(data).join("demo.json");
    wait_for("demo.json", || manifest.exists().then_some(()));
    for name in ["guildhall.db", "guildhall.db-wal", "guildhall.db-shm", "guildhall.lock", "files/incoming"] {
        assert!(Path::new(data).join(name).exists(), "{name}");
    }
    assert_eq!(readable(Path::new(data)), []);
    let backup = dir.path().join("backup");
    let made = run_to_end(&mut lax(&["backup", backup.to_str().unwrap(), "--data", data]));
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(readable(&backup), []);
    assert_eq!(process.terminate(), Some(0));
    assert!(Path::new(data).join("handover.ndjson").exists());
    assert_eq!(readable(Path::new(data)), []);

    let restored = dir.path().join("restored");
    let made = run_to_end(&mut lax(&["restore", backup.to_str().unwrap(), "--data", restored.to_str().unwrap()]));
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(readable(&restored), []);
}

#[test]
fn s14_a_directory_of_an_older_version_is_made_private() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "3", "--rate", "0"]);
    assert_eq!(demo.terminate(), Some(0));
    for (name, mode) in [("", 0o755), ("guildhall.db", 0o644), ("files", 0o755), ("demo.json", 0o640)] {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let listed = run_to_end(guildhall(["key", "list", "--data"]).arg(dir.path()));
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert_eq!(readable(dir.path()), []);
}
