//! `guildhall top` against a real node.

use crate::support::{guildhall, run, serve, stderr};
use std::{ffi::OsStr, fs, process::Stdio};

const ROOT: &str = "a root key that nobody would guess";

#[test]
fn one_picture_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let set = format!("auth.admin_key={ROOT}");
    let args = ["--set", &set].map(OsStr::new);
    let (_node, addr, _log) = serve(&dir.path().join("data"), &args);
    let url = format!("http://{addr}");
    let top = |key: &str| {
        guildhall(["top", "--once", "--server", &url]).env("GUILDHALL_KEY", key).stdin(Stdio::null()).output().unwrap()
    };
    let shown = top(ROOT);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    for part in ["[1 Loops]", "[2 Guilds]", "[3 Sessions]", "[4 Bandwidth]", "ready", "No session."] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(text.contains(&format!("Guildhall {}", env!("CARGO_PKG_VERSION"))), "{text}");
    let refused = top("ghk_wrong");
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(1), true));
    assert!(stderr(&refused).contains("This key is not valid"), "{}", stderr(&refused));
}

#[test]
fn a_screen_needs_a_terminal_and_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    fs::write(&key, "ghk_x").unwrap();
    let key = key.to_str().unwrap();
    let piped = run(["top", "--key-file", key, "--server", "http://127.0.0.1:9"]);
    assert_eq!(piped.status.code(), Some(2));
    assert!(stderr(&piped).contains("use --once"), "{}", stderr(&piped));
    let nobody = run(["top", "--once", "--key-file", key, "--server", "http://127.0.0.1:9"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("no node answers at 127.0.0.1:9"), "{}", stderr(&nobody));
}
