//! Tests of the program `guildhall-bench`. They also have it built, which the smoke test of bench/clients runs.

use guildhall_rehearsal::Capture;
use std::{fs, path::Path, process::Command};

/// The capture of three guilds with five messages, as `guildhall-bench capture` writes it.
fn capture(path: &Path, seed: &str) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guildhall-bench"));
    command.args(["capture", "--guilds", "3", "--messages", "5", "--pause-ms", "250", "--seed", seed, "--out"]);
    let output = command.arg(path).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(path).expect("it wrote the file")
}

#[test]
fn a_capture_has_ready_the_guilds_and_the_messages_and_is_the_same_for_a_seed() {
    let dir = tempfile::tempdir().expect("a folder");
    let bytes = capture(&dir.path().join("a"), "1");
    let read = Capture::read(bytes.as_slice()).expect("a capture");
    assert_eq!((read.len(), read.unreadable_count()), (1 + 3 + 5, 0));
    assert_eq!(read.duration().as_millis(), 500, "two pauses");
    assert!(bytes == capture(&dir.path().join("b"), "1"), "the same seed");
    assert!(bytes != capture(&dir.path().join("c"), "2"), "another seed");
}
